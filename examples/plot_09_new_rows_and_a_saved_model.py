"""
New rows and a saved model
==========================

Learn once what good rows look like, save that, and hold new rows against it on another day. The file holds
arrays and JSON; nothing in it is ever run.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kernmend
from kernmend.datasets import make_weather_station
from kernmend.datasets.corruption import wrong_cells

station = make_weather_station(480, random_state=0)
old, new = station.X[:360], station.X[360:]
est = kernmend.KernelRecovery().fit(wrong_cells(old, 0.05, random_state=1).X)

# %%
folder = Path(tempfile.mkdtemp())
path = est.save(folder / "station.kernmend")
print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")

# %%
# Another day, perhaps another machine:
model = kernmend.load(path)
X, wrong = wrong_cells(new, 0.1, random_state=2)
mended = model.transform(X)
flags = model.predict(X) == -1
rows = wrong.any(axis=1)
print(f"{(flags & rows).sum()} of {rows.sum()} wrong rows found, {(flags & ~rows).sum()} others flagged")

# %%
# Scores of new rows mean what those of the fit mean: -log10 of the chance of a good row being as far out.
scores = -model.score_samples(X)
fig, ax = plt.subplots(figsize=(8, 3.4))
hours = np.arange(len(X))
shown = np.minimum(scores, 30)
ax.plot(hours[~rows], shown[~rows], "o", ms=4, color="0.6", label="good")
ax.vlines(hours[rows], 0, shown[rows], color="0.8")
ax.plot(hours[rows], shown[rows], "o", ms=6, color="#d1495b", label="wrong")
ax.axhline(model.threshold_, color="#1f2d3d", lw=1, label="threshold")
ax.set(xlabel="new row", ylabel="score, cut at 30")
ax.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, 1.17))
