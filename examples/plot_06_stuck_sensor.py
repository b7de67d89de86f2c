"""
A sensor that hangs
===================

Twenty days of a weather station. The thermometer hangs and repeats its last value for fourteen hours. No
single reading is out of range, so limits per column find nothing. Held against the other five sensors, most of these
readings cannot be.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernmend import KernelRecovery
from kernmend.datasets import make_weather_station
from kernmend.datasets.corruption import stuck_channel

station = make_weather_station(480, random_state=0)
X, stuck = stuck_channel(station.X, column=0, start=100, length=15)
est = KernelRecovery().fit(X)
print(est.summary())

# %%
# Readings near the value at which the sensor hangs are right by accident, and are left alone.
hours = np.arange(80, 136)
fig, ax = plt.subplots(figsize=(8, 4))
ax.plot(hours, station.X[hours, 0], color="0.75", lw=5, label="truth")
ax.plot(hours, X[hours, 0], color="#d1495b", lw=1.2, label="measured")
ax.plot(hours, est.recovered_[hours, 0], color="#1f2d3d", lw=1.2, ls="--", label="mended")
flagged = hours[est.outliers_[hours]]
ax.plot(flagged, X[flagged, 0], "o", ms=5, color="#d1495b", label="flagged")
ax.set(xlabel="hour", ylabel=station.columns[0])
ax.legend(frameon=False, ncols=4, loc="upper left", bbox_to_anchor=(0, 1.16))

# %%
# How far a limit on the column itself gets: the largest deviation of a stuck reading, in robust standard
# deviations.
centre = np.median(X[:, 0])
spread = 1.4826 * np.median(np.abs(X[:, 0] - centre))
print(f"{np.abs(X[stuck[:, 0], 0] - centre).max() / spread:.1f} robust standard deviations from the median")
found, all_of_them = (est.outliers_ & stuck.any(axis=1)).sum(), stuck.any(axis=1).sum()
print(f"{found} of the {all_of_them} stuck readings found, {(est.outliers_ & ~stuck.any(axis=1)).sum()} others flagged")
