"""Missing and wrong entries on cubic surfaces, with default parameters only: relative errors, medians over seeds."""

import time
from collections.abc import Callable

import numpy as np
from sklearn.impute import KNNImputer

from kernmend import KernelLowRank
from kernmend.linalg.distances import median_observed_squared_distance
from kernmend.model.kernels import Polynomial
from kernmend.repair.completion import complete

MISSING, WRONG = (0.3, 0.5), (0.1, 0.3, 0.5)
SETS, SEEDS = 5, 10


def run() -> None:
    for latent in (3, 2):
        _missing(latent)
    _wrong()


# --- missing entries ------------------------------------------------------------------------------------------------


def _missing(latent: int) -> None:
    print(f"\nmissing entries: five cubic surfaces of {latent} latent variables, 600×30; error on the missing entries;")
    print(f"medians over {SETS} sets (surfaces 100-104 with mask seed 0, 105-109 with mask seed 1, ...)")
    if latent == 3:
        print("measured elsewhere on the first set: KNN .378 / .647, KFMC .099 / .212, VMC .018 / .179, "
              "NLMC .040 / .106, PMC .018 / .106; the target is .040 / .130")  # fmt: skip
    print("\n| | " + " | ".join(f"{share:.0%}, median | first set | worst | seconds" for share in MISSING) + " |")
    print("|---" * (1 + 4 * len(MISSING)) + "|")
    methods: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "column means": lambda X: np.where(np.isnan(X), np.nanmean(X, axis=0), X),
        "scikit-learn KNN": lambda X: KNNImputer().fit_transform(X),
        "ours, Gaussian (default)": lambda X: complete(X).A,
        "ours, polynomial of degree 2": lambda X: complete(X, kernel=polynomial(X)).A,
    }
    for name, method in methods.items():
        cells = []
        for share in MISSING:
            errors, seconds = zip(*(_complete_one(method, latent, share, k) for k in range(SETS)), strict=True)
            cells += [f"{np.median(errors):.4f} | {errors[0]:.4f} | {max(errors):.4f} | {np.median(seconds):.1f}"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def polynomial(X: np.ndarray) -> Polynomial:
    """Degree 2 with a constant of about the size of the inner products."""
    return Polynomial(2, 0.15 * median_observed_squared_distance(X))


def _complete_one(method: Callable[[np.ndarray], np.ndarray], latent: int, share: float, k: int) -> tuple[float, float]:
    truth = np.vstack([cubic_surface(seed, 120, 30, latent) for seed in range(100 + 5 * k, 105 + 5 * k)])
    holes = np.random.default_rng(k).random(truth.shape) < share
    start = time.perf_counter()
    A = method(np.where(holes, np.nan, truth))
    return relative_error(A[holes], truth[holes]), time.perf_counter() - start


# --- wrong entries --------------------------------------------------------------------------------------------------


def _wrong() -> None:
    print("\nwrong entries: one cubic surface of 2 latent variables, 100×20, N(0,1) added; error of the whole matrix;")
    print(f"medians over seeds 0..{SEEDS - 1}; tuned on the truth RKPCA has .0457 / .120 / .258 and linear RPCA "
          ".0535 / .212 / .381; the target is .038 / .100 / .220")  # fmt: skip
    print("\n| | " + " | ".join(f"{share:.0%}, median | worst | seconds" for share in WRONG) + " |")
    print("|---" * (1 + 3 * len(WRONG)) + "|")
    methods: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "untouched": lambda X: X,
        "ours": lambda X: KernelLowRank(error="entries").fit_transform(X),
    }
    for name, method in methods.items():
        cells = []
        for share in WRONG:
            errors, seconds = zip(*(_mend_one(method, share, seed) for seed in range(SEEDS)), strict=True)
            cells += [f"{np.median(errors):.4f} | {max(errors):.4f} | {np.median(seconds):.1f}"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _mend_one(method: Callable[[np.ndarray], np.ndarray], share: float, seed: int) -> tuple[float, float]:
    truth = cubic_surface(seed, 100, 20, 2)
    rng = np.random.default_rng(1000 + seed)
    wrong = rng.random(truth.shape) < share
    X = truth + wrong * rng.standard_normal(truth.shape)
    start = time.perf_counter()
    A = method(X)
    return relative_error(A, truth), time.perf_counter() - start


# --- data -----------------------------------------------------------------------------------------------------------


def cubic_surface(seed: int, n: int, d: int, latent: int) -> np.ndarray:
    """Z P1' + 0.5 Z^2 P2' + 0.5 Z^3 P3', drawn in the order that gives those figures of KNN."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1.0, 1.0, (latent, n)).T
    P1, P2, P3 = rng.standard_normal((3, d, latent))
    return np.asarray(Z @ P1.T + 0.5 * Z**2 @ P2.T + 0.5 * Z**3 @ P3.T)


def relative_error(A: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(A - truth) / np.linalg.norm(truth))
