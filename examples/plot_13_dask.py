"""
Larger than memory, with Dask
=============================

A Dask array is a plan for blocks of rows that are computed when they are needed. `fit` reads the landmarks
alone; what comes back, `recovered_` and `outliers_`, are plans again, and each block is mended where it lies.
With a `distributed.Client` that is on other machines.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from kernmend import KernelRecovery
from kernmend.datasets import make_weather_station
from kernmend.datasets.corruption import wrong_cells

station = make_weather_station(6000, random_state=0)
X, cells = wrong_cells(station.X, 0.03, random_state=1)
wrong = cells.any(axis=1)
lazy = da.from_array(X, chunks=(1000, 6))  # from a file: da.from_zarr("big.zarr")
print(lazy)

# %%
est = KernelRecovery(landmarks=800).fit(lazy)
print(est.recovered_)
mended, flags = dask.compute(est.recovered_, est.outliers_)  # together: each block is mended once
print(f"{flags.sum()} rows flagged, {(flags & wrong).sum()} of {wrong.sum()} wrong ones among them")

# %%
# One sensor over all blocks, before and after. Thin lines are the borders of the blocks.
fig, axes = plt.subplots(2, 1, figsize=(8, 4.4), sharex=True, sharey=True)
for ax, values, title in zip(axes, (X, mended), ("before", "after"), strict=True):
    ax.plot(values[:, 5], lw=0.4, color="0.5")
    ax.plot(np.flatnonzero(cells[:, 5]), values[cells[:, 5], 5], "o", ms=3.5, color="#d1495b")
    ax.set(title=title, ylabel=station.columns[5])
    for border in range(1000, 6000, 1000):
        ax.axvline(border, color="0.8", lw=0.8)
axes[1].set_xlabel("hour")
fig.tight_layout()

# %%
# The same rows in memory give the same flags. Blocks are of other sizes there, so that the search for a value
# ends elsewhere within its tolerance:
same = KernelRecovery(landmarks=800).fit(X)
print("the same flags:", bool((same.outliers_ == flags).all()))
print(f"largest difference: {np.abs(same.recovered_ - mended).max():.1e}")
