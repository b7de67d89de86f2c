"""
Missing values on a curved surface
==================================

A table of three curved surfaces, thirty columns, in which a part of all cells is missing. Every row lacks
some. Methods that average neighbours, or assume a straight surface, lose much of what the curvature tells.

`KernelRecovery(contamination=0)` flags nothing and only fills in.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer, SimpleImputer

from kernmend import KernelRecovery
from kernmend.datasets import make_cubic_surface

truth = np.vstack([make_cubic_surface(60, 30, random_state=seed) for seed in range(3)])
shares = (0.1, 0.3, 0.5)
methods = {
    "column means": SimpleImputer(),
    "nearest rows (KNNImputer)": KNNImputer(),
    "kernmend": KernelRecovery(contamination=0),
}

# %%
# What is left of the error, as a share of the missing values themselves:
errors = {name: [] for name in methods}
for share in shares:
    missing = np.random.default_rng(0).random(truth.shape) < share
    X = np.where(missing, np.nan, truth)
    for name, method in methods.items():
        filled = method.fit_transform(X)
        errors[name].append(np.linalg.norm((filled - truth)[missing]) / np.linalg.norm(truth[missing]))
        print(f"{share:.0%} missing, {name}: relative error {errors[name][-1]:.3f}")

# %%
fig, ax = plt.subplots(figsize=(8, 3.8))
width = 0.26
colours = ("0.75", "#2e6fb7", "#d1495b")
for number, ((name, values), colour) in enumerate(zip(errors.items(), colours, strict=True)):
    bars = ax.bar(np.arange(3) + width * (number - 1), values, width, label=name, color=colour)
    ax.bar_label(bars, fmt="%.2f", fontsize=9)
ax.set(xticks=range(3), xticklabels=[f"{share:.0%} missing" for share in shares], ylabel="relative error")
ax.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, 1.16))

# %%
# Values that are there come back as they are:
kept = ~np.isnan(X)
print((KernelRecovery(contamination=0).fit_transform(X)[kept] == X[kept]).all())
