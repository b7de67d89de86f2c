"""
A classifier that does not gain
===============================

Mending is no cure for every kind of noise. Here three digits in ten carry noise as strong as the digit
itself. With so much noise a mended digit is a clean digit, but not always the right one: an 8 comes back as a
fine 3. A classifier that sees the noise can still weigh all pixels; one that sees the wrong clean digit
cannot.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from kernmend import KernelRecovery
from kernmend.datasets.corruption import gaussian_noise

digits = load_digits()
X, y = digits.data[:700] / 16, digits.target[:700]
classifiers = {
    "SVM": SVC(),
    "nearest neighbours": KNeighborsClassifier(),
    "logistic regression": LogisticRegression(max_iter=2000),
    "random forest": RandomForestClassifier(random_state=0),
}
scores = {name: [] for name in classifiers}
for seed in range(3):
    train, test = train_test_split(np.arange(len(X)), test_size=0.5, random_state=seed, stratify=y)
    noisy_train = gaussian_noise(X[train], 0.3, energy=1.0, random_state=seed).X
    noisy_test = gaussian_noise(X[test], 0.3, energy=1.0, random_state=100 + seed).X
    mender = KernelRecovery(bounds=(0, 1)).fit(noisy_train)
    pairs = [(X[train], X[test]), (noisy_train, noisy_test), (mender.recovered_, mender.transform(noisy_test))]
    for name, classifier in classifiers.items():
        scores[name].append([classifier.fit(A, y[train]).score(B, y[test]) for A, B in pairs])

# %%
fig, ax = plt.subplots(figsize=(8, 3.8))
for number, (label, colour) in enumerate((("clean", "0.8"), ("with noise", "#d1495b"), ("mended", "#2e6fb7"))):
    heights = [np.mean(np.array(scores[name])[:, number]) for name in classifiers]
    ax.bar(np.arange(4) + 0.27 * (number - 1), heights, 0.26, label=label, color=colour)
ax.set(ylim=(0.7, 1.0), xticks=range(4), xticklabels=[name.replace(" ", "\n") for name in classifiers])
ax.set_ylabel("share of test rows right")
ax.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, 1.16))

# %%
for name, values in scores.items():
    clean, noisy, mended = np.mean(values, axis=0)
    print(f"{name}: {clean:.3f} clean, {noisy:.3f} with noise, {mended:.3f} mended")

# %%
# If the aim is a prediction, try the pipeline with and without mending and keep what a held-out half says.
# Where rows are flagged but should not be changed, `predict` of the fitted estimator tells which ones a
# classifier should not trust.
trusted = mender.predict(noisy_test) == 1
svm = SVC().fit(noisy_train, y[train])
right = svm.predict(noisy_test) == y[test]
print(
    f"right among the rows that look good: {right[trusted].mean():.3f}; among the flagged: {right[~trusted].mean():.3f}"
)
