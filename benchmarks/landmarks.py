"""How many landmarks are enough, and whether rare regions are lost, against the same rows without landmarks.

A swiss roll, clusters of unequal size on curved patches, a torus, and noisy cubic surfaces in 5, 20 and 50 columns; 3 %
of the rows are wrong. `rare` is the smallest cluster, on the roll its outer end, else the hundredth of the rows that is
farthest from the middle.

    python -m benchmarks landmarks [--only NAME ...] [--numbers NUMBER ...]
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from kernmend import KernelRecovery
from kernmend.datasets import make_cubic_surface, make_surface
from kernmend.datasets.metrics import f1_score

SIZES = (4600, 1000, 300, 100)  # of the clusters
NUMBERS = ("auto", "250", "500", "1000", "2000", "4000", "all")
WRONG, NOISE = 0.03, 0.02  # share of wrong rows; noise of the cubic surfaces, in standard deviations


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


def torus(n: int = 6000, seed: int = 60) -> Sample:
    """Return a torus with wrong rows uniform in its box."""
    truth = make_surface("torus", n, random_state=seed).X
    return _spoilt(truth, _far_out(truth), seed)


def cubic(d: int, n: int = 6000, seed: int = 60) -> Sample:
    """Return a noisy cubic surface in d columns; wrong rows are 3 standard deviations off in all of them."""
    rng = np.random.default_rng([seed, 3])
    truth = make_cubic_surface(n, d, random_state=seed)
    truth += NOISE * truth.std() * rng.standard_normal(truth.shape)
    X, wrong = truth.copy(), rng.random(n) < WRONG
    X[wrong] += 3.0 * truth.std() * rng.standard_normal((int(wrong.sum()), d))
    return Sample(X, wrong, truth, _far_out(truth))


def _far_out(truth: np.ndarray) -> np.ndarray:
    far = np.square(truth - np.median(truth, axis=0)).sum(axis=1)
    return far >= np.quantile(far, 0.99)


DATA: dict[str, Callable[[], Sample]] = {
    "swiss roll": swiss_roll,
    "clusters": clusters,
    "torus": torus,
    "cubic, 5 columns": lambda: cubic(5),
    "cubic, 20 columns": lambda: cubic(20),
    "cubic, 50 columns": lambda: cubic(50),
}


def _spoilt(truth: np.ndarray, rare: np.ndarray, seed: int) -> Sample:
    rng = np.random.default_rng([seed, 1])
    wrong = rng.random(len(truth)) < WRONG
    X = truth.copy()
    X[wrong] = rng.uniform(truth.min(axis=0), truth.max(axis=0), (int(wrong.sum()), truth.shape[1]))
    return Sample(X, wrong, truth, rare)


def run() -> None:
    main([])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks landmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=DATA, default=list(DATA), metavar="NAME", help="these data")
    parser.add_argument("--numbers", nargs="+", default=NUMBERS, metavar="NUMBER", help="numbers, auto, all")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print("Landmarks: 3 % of the rows wrong, one seed. Distances are to the nearest true row, in units of the data.\n")
    print("| data | landmarks | F1 | good rows flagged | of the rare region | wrong rows, distance left | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name in options.only:
        sample = DATA[name]()
        for number in options.numbers:
            print(f"| {name}, {len(sample.X):,} rows | {one(sample, number)} |", flush=True)


def one(sample: Sample, number: str) -> str:
    """Return the cells of one fit."""
    landmarks: Any = {"auto": "auto", "all": None}[number] if number in ("auto", "all") else int(number)
    start = time.process_time()
    est = KernelRecovery(landmarks=landmarks).fit(sample.X)
    seconds = time.process_time() - start
    good, left = ~sample.wrong, distance(est.recovered_[sample.wrong], sample.truth)
    return (
        f"{number} | {f1_score(sample.wrong, est.outliers_):.3f} | "
        f"{100 * est.outliers_[good].mean():.1f} % | {100 * est.outliers_[good & sample.rare].mean():.1f} % | "
        f"{left / distance(sample.X[sample.wrong], sample.truth):.3f} | {seconds:.1f}"
    )


def distance(A: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean distance of rows from the nearest true one."""
    return float(cKDTree(truth).query(A)[0].mean())
