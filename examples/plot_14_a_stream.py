"""
Rows that keep coming
=====================

A stream drifts: what was normal a month ago is not today. `partial_fit` mends one batch after the other
against landmarks that follow, because good rows of each batch take the place of the oldest ones.

Here a circle turns by two degrees from batch to batch, and three points of each batch are wrong.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernmend import KernelRecovery


def batch(k):
    """Return a hundred points of the turned circle, of which the first three are wrong."""
    rng = np.random.default_rng(k)
    angle, turn = rng.uniform(0, 2 * np.pi, 100), np.deg2rad(2 * k)
    points = [np.cos(angle), np.sin(angle) * np.cos(turn), np.sin(angle) * np.sin(turn)]
    rows = np.column_stack(points) + 0.01 * rng.standard_normal((100, 3))
    rows[:3] *= 1.8
    return rows


follows = KernelRecovery(landmarks=300, scale=None)
stays = KernelRecovery(scale=None).fit(batch(0))
found, kept, lost = [], [], []
for k in range(40):
    X = batch(k)
    follows.partial_fit(X)
    found.append(follows.outliers_[:3].mean())
    kept.append(follows.outliers_[3:].mean())
    lost.append((stays.predict(X)[3:] == -1).mean())

# %%
# A model that is never updated soon calls every row wrong; the one that follows does not.
fig, ax = plt.subplots(figsize=(8, 3.8))
ax.plot(lost, color="0.6", label="good rows flagged, model of the first batch")
ax.plot(kept, color="#2e6fb7", label="good rows flagged, partial_fit")
ax.plot(found, color="#d1495b", label="wrong rows found, partial_fit")
ax.set(xlabel="batch", ylabel="share")
ax.legend(frameon=False)
