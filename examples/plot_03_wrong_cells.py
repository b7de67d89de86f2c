"""
A table with wrong cells, and its change log
============================================

Ten days of a weather station with six sensors. Twelve readings are wrong, a few are missing. Two things drive
all six sensors, the hour of the day and how sunny it is, so each reading can be told from the other five.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kernmend
from kernmend.datasets import make_weather_station
from kernmend.datasets.corruption import wrong_cells

station = make_weather_station(240, random_state=0)
X, wrong = wrong_cells(station.X, 0.05, random_state=0)
X[[20, 70, 150], [1, 3, 4]] = np.nan  # three more are missing
times = pd.date_range("2026-07-01", periods=240, freq="h")
table = pd.DataFrame(X, columns=list(station.columns), index=times)

mended = kernmend.mend(table)
print(mended.summary())

# %%
# What was changed
# ----------------
log = mended.estimator.changes_.to_frame()
log = log.round({"old": 2, "new": 2, "low": 2, "high": 2})
log[["label", "column", "old", "new", "low", "high", "kind"]]

# %%
# `low` and `high` hold the true value nine times out of ten. How often they did here, where the truth is
# known:
rows, columns = mended.changed.nonzero()
records = mended.estimator.changes_.records
truth = station.X[records["row"], records["column"]]
print(f"{np.mean((records['low'] <= truth) & (truth <= records['high'])):.2f} of {len(records)}")

# %%
# The reason for the first flagged row, in words:
print(mended.estimator.explain(int(mended.flags.nonzero()[0][0])))

# %%
# The picture shows every reading, in standard deviations of its sensor. Squares are the cells that were
# changed or filled in.
spread = (table - table.median()) / (1.4826 * (table - table.median()).abs().median())
fig, axes = plt.subplots(2, 1, figsize=(8, 4), sharex=True)
for ax, values, title in zip(
    axes, (spread, spread.mask(mended.changed)), ("as they came", "what was changed"), strict=True
):
    ax.imshow(values.T, aspect="auto", cmap="RdBu_r", vmin=-6, vmax=6, interpolation="nearest")
    ax.set(title=title, yticks=range(6), yticklabels=station.columns)
axes[1].plot(rows, columns, "s", ms=5, color="#d1495b")
axes[1].set_xlabel("hour")
fig.tight_layout()

# %%
# The report
# ----------
# One page for whoever knows the station. It loads nothing from anywhere.
report = mended.report("report.html", title="Weather station, July")
