"""
Twenty thousand rows
====================

Comparing all rows with each other takes time and memory that grow with the square of their number. Beyond 2,000
rows `KernelRecovery` learns from some of them, drawn at random (the landmarks: 1,000 to 2,000, by what the data
need), and mends all others against the good ones among those, in blocks. Time then grows with the number of
rows. Here 500 landmarks do, since the surface is simple.
"""

import time

import matplotlib.pyplot as plt

from kernmend import KernelRecovery
from kernmend.datasets import make_cubic_surface
from kernmend.datasets.corruption import gaussian_noise
from kernmend.datasets.metrics import f1_score, snr

sizes = (5_000, 10_000, 20_000)
seconds, before, after = [], [], []
for n in sizes:
    clean = make_cubic_surface(n, 20, random_state=0)
    X, wrong = gaussian_noise(clean, 0.05, random_state=0)
    start = time.process_time()
    est = KernelRecovery(landmarks=500).fit(X)
    seconds.append(time.process_time() - start)
    before.append(snr(clean[wrong], X[wrong]))
    after.append(snr(clean[wrong], est.recovered_[wrong]))
    print(f"{n} rows: F1 of the flags {f1_score(wrong, est.outliers_):.3f}, {before[-1]:.1f} dB to {after[-1]:.1f} dB")

# %%
# What was learned from 500 rows holds for all the others:
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4))
axes[0].plot(sizes, seconds, "o-", color="#d1495b")
axes[0].set(xlabel="rows", ylabel="CPU seconds of the fit", ylim=(0, None))
axes[1].plot(sizes, after, "o-", color="#2e6fb7", label="mended")
axes[1].plot(sizes, before, "o-", color="0.6", label="as they came")
axes[1].set(xlabel="rows", ylabel="signal to noise of wrong rows, dB", ylim=(0, None))
axes[1].legend(frameon=False)
fig.tight_layout()

# %%
# Landmarks are a random draw. Where a surface is curved in many directions, a few hundred rows do not cover
# it, and good rows far from all landmarks look wrong: compare the share that is flagged with that of a larger
# draw.
for number in (125, 250):
    flags = KernelRecovery(landmarks=number).fit(X).outliers_
    print(f"{number} landmarks: {flags.mean():.2%} of the rows flagged, {wrong.mean():.2%} are wrong")
