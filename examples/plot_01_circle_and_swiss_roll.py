"""
A circle and a swiss roll
=========================

Two surfaces on which nothing linear helps: the points of a circle, or of a rolled-up sheet, fill the whole
space around them as far as a linear method can see. One point in ten was replaced by a random one.

`KernelRecovery` flags the wrong points and puts them back on the surface. All others come back bit for bit.
"""

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np

from kernmend import KernelRecovery
from kernmend.datasets import make_circle, make_surface
from kernmend.datasets.corruption import uniform_outliers

# %%
# The circle
# ----------
circle = make_circle(200, random_state=0)
X, wrong = uniform_outliers(circle.X, 0.1, random_state=1)
est = KernelRecovery().fit(X)
print(est.summary())

# %%
# The flags are right, or nearly so: a random point may by chance fall on the circle, where nobody can find
# it.
fig, axes = plt.subplots(1, 2, figsize=(8, 4.4), sharex=True, sharey=True)
for ax, points, title in zip(axes, (X, est.recovered_), ("before", "after"), strict=True):
    ax.scatter(*points[~wrong].T, s=10, color="0.45", label="good points")
    ax.scatter(*points[wrong].T, s=26, color="#d1495b", label="replaced points")
    ax.set(title=title, aspect="equal")
    ax.axis("off")
fig.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=2, frameon=False)
before, after = circle.distance(X[wrong]).mean(), circle.distance(est.recovered_[wrong]).mean()
print(f"mean distance of the replaced points from the circle: {before:.3f} before, {after:.5f} after")

# %%
# Where on the circle a point came from is not known any more, and nothing can tell: a random point keeps no
# trace of it. The summary above says so. On data with more columns what is left of a row tells much more, as
# the next examples show.
#
# The swiss roll
# --------------
roll = make_surface("swiss roll", 500, random_state=0)
low, high = 1.2 * roll.X.min(axis=0), 1.2 * roll.X.max(axis=0)
X, wrong = uniform_outliers(roll.X, 0.1, low=low, high=high, random_state=1)
est = KernelRecovery().fit(X)

fig, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True)
for ax, points, title in zip(axes, (X, est.recovered_), ("before, from the side", "after"), strict=True):
    ax.scatter(*points[~wrong][:, [0, 2]].T, s=8, color="0.6")
    ax.scatter(*points[wrong][:, [0, 2]].T, s=22, color="#d1495b")
    ax.set(title=title, aspect="equal")
    ax.axis("off")
before, after = (np.median(roll.distance(A[wrong])) for A in (X, est.recovered_))
print(f"median distance of the replaced points from the sheet: {before:.2f} before, {after:.2f} after")
