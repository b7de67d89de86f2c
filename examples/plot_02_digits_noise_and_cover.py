"""
Digits with noise and cover
===========================

Three hundred handwritten digits of scikit-learn. In one set every tenth digit is noisy, in another every
tenth is partly covered. Nobody says which, nor what is wrong with them: whether whole rows or single pixels
are wrong is found out.

Covered digits are harder than noisy ones: a black block on a digit may look like a stroke. Some are not found,
and what is not found stays as it is. Of those that are found, not every covered pixel is seen to be wrong.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from kernmend import KernelRecovery
from kernmend.datasets.corruption import gaussian_noise, occlusion
from kernmend.datasets.metrics import snr

clean = load_digits().data[:300] / 16
sets = {
    "noise": gaussian_noise(clean, 0.1, random_state=1),
    "cover": occlusion(clean, (8, 8), 0.1, n_blocks=2, size=3, random_state=1),
}
found = {kind: KernelRecovery(bounds=(0, 1)).fit(X) for kind, (X, _) in sets.items()}

# %%
for kind, est in found.items():
    X, wrong = sets[kind]
    print(
        f"{kind}: {(est.outliers_ & wrong).sum()} of {wrong.sum()} found, good ones flagged: "
        f"{(est.outliers_ & ~wrong).sum()}; errors of {est.error_}; {snr(clean[wrong], X[wrong]):.1f} dB before, "
        f"{snr(clean[wrong], est.recovered_[wrong]):.1f} dB after"
    )


# %%
# The first twelve wrong digits of each set: as they were, as the program got them, as it gave them back. A
# red frame is one that was not found.
def draw(kind):
    """Draw three lines of digits."""
    X, wrong = sets[kind]
    est = found[kind]
    rows = wrong.nonzero()[0][:12]
    _, axes = plt.subplots(3, 12, figsize=(9, 2.6))
    for line, images in zip(axes, (clean, X, est.recovered_), strict=True):
        for ax, row in zip(line, rows, strict=True):
            ax.imshow(images[row].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
            for side in ax.spines.values():
                side.set(visible=True, color="0.8" if est.outliers_[row] else "#d1495b", linewidth=1.5)
    for ax, name in zip(axes[:, 0], ("truth", kind, "mended"), strict=True):
        ax.set_ylabel(name)


draw("noise")

# %%
draw("cover")

# %%
# A report shows every flagged digit before and after, with the reason. It is one page without any dependency:
# send it to whoever knows the data.
report = found["cover"].report("report.html", image_shape=(8, 8), title="Covered digits")
