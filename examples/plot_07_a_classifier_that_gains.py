"""
A classifier that gains by mending
==================================

Breast cancer data of scikit-learn, thirty columns that depend on each other. In one row in five a decimal
point went wrong: one value is thirty standard deviations off. Half of the rows train, half test, and both
halves have such errors.

Mending is the first step of the pipeline: it learns from the training rows alone and mends the test rows
against them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernmend import KernelRecovery
from kernmend.datasets.corruption import wrong_cells

X, y = load_breast_cancer(return_X_y=True)
model = make_pipeline(KernelRecovery(), StandardScaler(), SVC())
print(model)

# %%
# Three splits. Mending is done once for all classifiers of a split, to save time.
classifiers = {
    "SVM": SVC(),
    "nearest neighbours": KNeighborsClassifier(),
    "logistic regression": LogisticRegression(max_iter=2000),
    "random forest": RandomForestClassifier(random_state=0),
}
scores = {name: [] for name in classifiers}
for seed in range(3):
    train, test = train_test_split(np.arange(len(X)), test_size=0.5, random_state=seed, stratify=y)
    bad_train = wrong_cells(X[train], 0.2, size=30, random_state=seed).X
    bad_test = wrong_cells(X[test], 0.2, size=30, random_state=100 + seed).X
    mender = KernelRecovery().fit(bad_train)
    pairs = [(X[train], X[test]), (bad_train, bad_test), (mender.recovered_, mender.transform(bad_test))]
    for name, classifier in classifiers.items():
        steps = make_pipeline(StandardScaler(), classifier)
        scores[name].append([steps.fit(A, y[train]).score(B, y[test]) for A, B in pairs])

# %%
fig, ax = plt.subplots(figsize=(8, 3.8))
for number, (label, colour) in enumerate((("clean", "0.8"), ("with errors", "#d1495b"), ("mended", "#2e6fb7"))):
    heights = [np.mean(np.array(scores[name])[:, number]) for name in classifiers]
    ax.bar(np.arange(4) + 0.27 * (number - 1), heights, 0.26, label=label, color=colour)
ax.set(ylim=(0.8, 1.0), xticks=range(4), xticklabels=[name.replace(" ", "\n") for name in classifiers])
ax.set_ylabel("share of test rows right")
ax.legend(frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, 1.16))

# %%
for name, values in scores.items():
    clean, bad, mended = np.mean(values, axis=0)
    print(f"{name}: {clean:.3f} clean, {bad:.3f} with errors, {mended:.3f} mended")

# %%
# Classifiers that use distances or scales gain. A random forest only asks whether a value is above or below a
# threshold: a wild value costs it little, and mending can bring little back. The next example is one where
# mending does harm.
