"""
Raman spectra with cosmic rays
==============================

A cosmic ray that hits the detector leaves a sharp spike in a spectrum. The usual remedy, a median filter,
also flattens the narrow bands that one wants to measure. The other spectra of the series know better what
each channel should be.

The spectra are made by `make_raman_spectra`: mixtures of two substances on a fluorescent background, with
bands that shift a little with the mixture.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import medfilt

from kernmend import KernelRecovery
from kernmend.datasets import make_raman_spectra
from kernmend.datasets.corruption import cosmic_rays

spectra = make_raman_spectra(150, 300, random_state=0)
shift = np.array(spectra.columns, dtype=float)
X, hit = cosmic_rays(spectra.X, 0.1, random_state=0)
est = KernelRecovery().fit(X)
print(est.summary())

# %%
# Only the channels that were hit are replaced; everything else stays as it was measured.
row = hit.any(axis=1).nonzero()[0][2]
fig, axes = plt.subplots(2, 1, figsize=(8, 5), sharex=True)
axes[0].plot(shift, X[row], color="#d1495b", lw=1.2)
axes[0].set_title("measured")
axes[1].plot(shift, spectra.X[row], color="0.75", lw=4, label="truth")
axes[1].plot(shift, est.recovered_[row], color="#1f2d3d", lw=1.0, label="mended")
axes[1].set(title="mended", xlabel="Raman shift, 1/cm")
axes[1].legend(frameon=False)

# %%
# A median filter of five channels on all spectra, beside:
filtered = np.array([medfilt(spectrum, 5) for spectrum in X])
for name, A in (("median filter", filtered), ("kernmend", est.recovered_)):
    on_hit, elsewhere = (np.sqrt(np.mean((A - spectra.X)[cells] ** 2)) for cells in (hit, ~hit))
    print(f"{name}: error {on_hit:.4f} on the channels that were hit, {elsewhere:.4f} on all others")
