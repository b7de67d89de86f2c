"""Flags beside PyOD's detectors, on the sets of the default benchmark: ranking (AUC), and F1.

Every detector of PyOD has its own defaults and is told the true share of wrong rows; ours is told nothing. On surfaces
a row counts as wrong if it is farther off than 5 % of the extent. A replaced row nearer than that is wrong too, only
less, and to find it counts as a mistake: hence each surface once more without such rows. Without PyOD the table has
our columns alone.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.default import SEEDS, box_outliers, corrupt, image_cases
from kernmend import KernelRecovery
from kernmend.datasets import SURFACES, make_surface
from kernmend.datasets.metrics import f1_score

DETECTORS = (
    *("ABOD", "CBLOF", "COF", "COPOD", "ECOD", "GMM", "HBOS", "IForest", "INNE", "KDE"),
    *("KNN", "KPCA", "LOF", "LODA", "MCD", "OCSVM", "PCA", "QMCD", "Sampling"),
)


def run() -> None:
    warnings.simplefilter("ignore")
    os.environ.setdefault("TQDM_DISABLE", "1")
    detectors = list(_installed())
    if not detectors:
        print("PyOD is not installed (pip install pyod): the columns of its detectors are empty.")
    print(f"Medians over seeds {min(SEEDS)}-{max(SEEDS)}; F1 of PyOD's detectors with the true share given\n")
    print("| data | AUC ours | best AUC of PyOD | F1 ours | F1 ours, share given | best F1 of PyOD |")
    print("|---|---|---|---|---|---|")
    for name, make in _sets():
        rows = [_one(make(seed), detectors) for seed in SEEDS]
        ours = np.median([row[0] for row in rows], axis=0)
        auc, f1 = "–", "–"
        if detectors:
            theirs = np.nanmedian([row[1] for row in rows], axis=0)
            best_auc, best_f1 = (int(np.nanargmax(theirs[:, k])) for k in (0, 1))
            auc = f"{theirs[best_auc, 0]:.3f} ({detectors[best_auc][0]})"
            f1 = f"{theirs[best_f1, 1]:.2f} ({detectors[best_f1][0]})"
        print(f"| {name} | {ours[0]:.3f} | {auc} | {ours[1]:.2f} | {ours[2]:.2f} | {f1} |", flush=True)


def _sets() -> Iterator[tuple[str, Callable[[int], tuple[np.ndarray, np.ndarray]]]]:
    for case in image_cases():
        for kind in ("noise", "occlusion"):
            yield f"{case.name}, {kind}", lambda seed, case=case, kind=kind: corrupt(case, kind, seed)[1]
    for name in SURFACES:
        yield name, lambda seed, name=name: _surface(name, seed)[:2]
        yield f"{name}, near rows moved back", lambda seed, name=name: _without_near_rows(*_surface(name, seed))


def _surface(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    surface = make_surface(name, random_state=seed)
    (X, replaced), extent = box_outliers(surface.X, seed + 100)
    bad = surface.distance(X) > 0.05 * extent
    return X, bad, np.where((replaced & ~bad)[:, np.newaxis], surface.X, X)


def _without_near_rows(X: np.ndarray, bad: np.ndarray, exact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the data in which replaced rows that count as good are where they were: no row is half wrong."""
    return exact, bad


def _installed() -> Iterator[tuple[str, type]]:
    for name in DETECTORS:
        try:
            yield name, getattr(importlib.import_module(f"pyod.models.{name.lower()}"), name)
        except ImportError as error:
            print(f"({name} left out: {error})", file=sys.stderr)


def _one(data: tuple[np.ndarray, np.ndarray], detectors: list[tuple[str, type]]) -> tuple[list[float], np.ndarray]:
    X, bad = data
    free, told = KernelRecovery().fit(X), KernelRecovery(contamination=float(bad.mean())).fit(X)
    ours = [roc_auc_score(bad, free.outlier_scores_), f1_score(bad, free.outliers_), f1_score(bad, told.outliers_)]
    return ours, np.array([_detect(make, X, bad) for _, make in detectors])


def _detect(make: type, X: np.ndarray, bad: np.ndarray) -> list[float]:
    try:
        scores = make(contamination=float(bad.mean())).fit(X).decision_scores_
        flags = np.zeros(bad.size, dtype=bool)
        flags[np.argsort(-scores, kind="stable")[: int(bad.sum())]] = True
        return [roc_auc_score(bad, scores), f1_score(bad, flags)]
    except Exception as error:  # a detector that cannot do this set
        print(f"({make.__name__}: {error})", file=sys.stderr)
        return [np.nan, np.nan]
