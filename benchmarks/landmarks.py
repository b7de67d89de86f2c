"""How many landmarks are enough, and whether rare regions are lost, against the same rows without landmarks.

A swiss roll, and clusters of unequal size on curved patches; 3 % of the rows are wrong. `rare` is the smallest cluster,
on the roll its outer end.
"""

import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from kernmend import KernelRecovery
from kernmend.datasets import make_surface
from kernmend.datasets.metrics import f1_score

SIZES = (4600, 1000, 300, 100)  # of the clusters
NUMBERS = (250, 500, 1000, 2000, 4000, None)  # 2,000 is "auto"
WRONG = 0.03


class Sample(NamedTuple):
    """Rows, those that are wrong, what they should be, and those of the rare region."""

    X: np.ndarray
    wrong: np.ndarray
    truth: np.ndarray
    rare: np.ndarray


def swiss_roll(n: int = 6000, seed: int = 60) -> Sample:
    """Return a swiss roll with wrong rows uniform in its box; rare is the hundredth that is farthest out."""
    truth = make_surface("swiss roll", n, random_state=seed).X
    outside = np.square(truth[:, [0, 2]]).sum(axis=1)
    return _spoilt(truth, outside >= np.quantile(outside, 0.99), seed)


def clusters(seed: int = 60) -> Sample:
    """Return clusters of unequal size, each a curved patch of two dimensions in five, in random order."""
    rng = np.random.default_rng([seed, 2])
    parts = []
    for size in SIZES:
        t = rng.uniform(-1, 1, (size, 2))
        bent = np.column_stack([t, t[:, 0] ** 2, t[:, 1] ** 2, t[:, 0] * t[:, 1]])
        parts.append(bent @ np.linalg.qr(rng.standard_normal((5, 5)))[0] + 4.0 * rng.standard_normal(5))
    order = rng.permutation(sum(SIZES))
    return _spoilt(np.vstack(parts)[order], (np.repeat(np.arange(len(SIZES)), SIZES) == len(SIZES) - 1)[order], seed)


def _spoilt(truth: np.ndarray, rare: np.ndarray, seed: int) -> Sample:
    rng = np.random.default_rng([seed, 1])
    wrong = rng.random(len(truth)) < WRONG
    X = truth.copy()
    X[wrong] = rng.uniform(truth.min(axis=0), truth.max(axis=0), (int(wrong.sum()), truth.shape[1]))
    return Sample(X, wrong, truth, rare)


def run() -> None:
    warnings.simplefilter("ignore")
    print("Landmarks: 3 % of the rows wrong, one seed. Distances are to the nearest true row, in units of the data.\n")
    print("| data | landmarks | F1 | good rows flagged | of the rare region | wrong rows, distance left | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name, sample in (("swiss roll", swiss_roll()), ("clusters", clusters())):
        for number in NUMBERS:
            start = time.process_time()
            est = KernelRecovery(landmarks=number).fit(sample.X)
            seconds = time.process_time() - start
            good, left = ~sample.wrong, distance(est.recovered_[sample.wrong], sample.truth)
            print(
                f"| {name}, {len(sample.X):,} rows | {number or 'all'} | {f1_score(sample.wrong, est.outliers_):.3f} | "
                f"{100 * est.outliers_[good].mean():.1f} % | {100 * est.outliers_[good & sample.rare].mean():.1f} % | "
                f"{left / distance(sample.X[sample.wrong], sample.truth):.3f} | {seconds:.1f} |",
                flush=True,
            )


def distance(A: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean distance of rows from the nearest true one."""
    return float(cKDTree(truth).query(A)[0].mean())
