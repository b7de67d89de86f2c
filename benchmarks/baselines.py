"""The baselines: Robust PCA beside other packages, Outlier Pursuit on its own task and on MNIST.

Times are in units of one full SVD of the same matrix, measured in the same run. The other packages are measured if they
can be imported: pip install pyrpca sporco qolmat tensorly rpca, in an environment of their own.
"""

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module

import numpy as np

from kernmend import OutlierPursuit, RobustPCA
from kernmend.datasets import load_mnist
from kernmend.datasets.corruption import gaussian_noise
from kernmend.datasets.metrics import f1_score, snr

SIZE, RANK, SHARE = 500, 25, 0.05
REPEATS = 5
GRID = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95)
SEEDS = range(20, 23)

Method = Callable[[np.ndarray], np.ndarray]


def run() -> None:
    warnings.simplefilter("ignore")
    robust_pca()
    outlier_pursuit()
    mnist()


# --- Robust PCA -----------------------------------------------------------------------------------------------------


def robust_pca() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((SIZE, RANK)) @ rng.standard_normal((RANK, SIZE)) / np.sqrt(RANK)
    X = truth + rng.choice([-1.0, 1.0], truth.shape) * (rng.random(truth.shape) < SHARE)
    one_svd = _seconds(lambda: np.linalg.svd(X, full_matrices=False), REPEATS)
    print(f"Robust PCA: {SIZE} × {SIZE}, rank {RANK}, entries of variance 1, {SHARE:.0%} of them off by ±1.")
    print(f"One full SVD takes {1000 * one_svd:.0f} ms. Targets: error 1e-5 within 9 SVDs, within 3 with the rank.\n")
    print("| method | relative error | time, SVDs |")
    print("|---|---|---|")
    for name, method, repeats in _methods():
        A = method(X)
        error = np.linalg.norm(A - truth) / np.linalg.norm(truth)
        print(f"| {name} | {error:.1e} | {_seconds(lambda m=method: m(X), repeats) / one_svd:.1f} |", flush=True)


def _methods() -> Iterator[tuple[str, Method, int]]:
    yield "RobustPCA()", lambda X: RobustPCA().fit_transform(X), REPEATS
    yield f"RobustPCA(rank={RANK})", lambda X: RobustPCA(rank=RANK).fit_transform(X), REPEATS
    yield f"RobustPCA(rank={RANK + 1})", lambda X: RobustPCA(rank=RANK + 1).fit_transform(X), REPEATS
    for name, others in OTHERS.items():
        try:
            import_module(name)
        except ImportError:
            print(f"| {name}: not installed | | |")
            continue
        for label, method in others.items():
            yield f"{name}{label}", method, 1


def _pyrpca(X: np.ndarray) -> np.ndarray:
    rpca_pcp_ialm = import_module("pyrpca").rpca_pcp_ialm
    return np.asarray(rpca_pcp_ialm(X, 1 / np.sqrt(max(X.shape)), verbose=False)[0])


def _sporco(X: np.ndarray) -> np.ndarray:
    rpca = import_module("sporco.admm.rpca")
    options = rpca.RobustPCA.Options({"RelStopTol": 1e-5, "MaxMainIter": 500})
    return np.asarray(rpca.RobustPCA(X, 1 / np.sqrt(max(X.shape)), options).solve()[0])


def _qolmat(X: np.ndarray) -> np.ndarray:
    solver = import_module("qolmat.imputations.rpca.rpca_pcp").RpcaPcp(verbose=False)
    return np.asarray(solver.decompose(X, np.ones(X.shape, dtype=bool))[0])


def _tensorly(X: np.ndarray) -> np.ndarray:
    robust_pca = import_module("tensorly.decomposition").robust_pca
    options = {"reg_E": 1 / np.sqrt(max(X.shape)), "n_iter_max": 500, "verbose": 0}
    return np.asarray(robust_pca(X, **options)[0])


def _rpca(n_components: int) -> Method:
    def method(X: np.ndarray) -> np.ndarray:
        est = import_module("rpca").RobustPCA(n_components=n_components, verbose=False)
        with contextlib.redirect_stdout(io.StringIO()):
            est.fit(X)
        return np.asarray(est.low_rank_ + est.mean_)

    return method


OTHERS: dict[str, dict[str, Method]] = {
    "pyrpca": {"": _pyrpca},
    "sporco": {"": _sporco},
    "qolmat": {"": _qolmat},
    "tensorly": {"": _tensorly},
    "rpca": {f", rank {rank}": _rpca(rank) for rank in (RANK, RANK + 1)},
}


# --- Outlier Pursuit ------------------------------------------------------------------------------------------------


def outlier_pursuit() -> None:
    print("\nOutlier Pursuit: 400 × 400, rank 10, 10 % of the rows standard normal, default lam.\n")
    print("| seed | flags right | error of the inlier rows | row space off by | rank | time, SVDs |")
    print("|---|---|---|---|---|---|")
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        truth = rng.standard_normal((400, 10)) @ rng.standard_normal((10, 400)) / np.sqrt(10)
        X, bad = truth.copy(), np.arange(400) % 10 == 0
        X[bad] = rng.standard_normal((40, 400))
        one_svd = _seconds(lambda X=X: np.linalg.svd(X, full_matrices=False), REPEATS)
        seconds = _seconds(lambda X=X: OutlierPursuit().fit(X), REPEATS)
        est = OutlierPursuit().fit(X)
        error = np.linalg.norm((est.recovered_ - truth)[~bad]) / np.linalg.norm(truth[~bad])
        basis = np.linalg.svd(truth, full_matrices=False)[2][:10]
        off = np.linalg.norm(est.components_ - est.components_ @ basis.T @ basis, 2)
        right = int((est.outliers_ == bad).sum())
        print(f"| {seed} | {right} of 400 | {error:.1e} | {off:.1e} | {est.rank_} | {seconds / one_svd:.1f} |")


def mnist() -> None:
    print(
        f"\nOutlier Pursuit on 400 rotated MNIST digits, 10 % noisy; dB, medians over seeds {SEEDS[0]}-{SEEDS[-1]}.\n"
    )
    print("| | corrupted rows | clean rows | F1 of flags | seconds |")
    print("|---|---|---|---|---|")
    rows: dict[str, list[list[float]]] = {}
    chosen: list[float] = []
    for seed in SEEDS:
        truth = load_mnist(400, random_state=seed)
        X, bad = gaussian_noise(truth, random_state=seed + 100)
        rows.setdefault("untouched", []).append([snr(truth[bad], X[bad]), np.inf, 0.0, 0.0])
        rows.setdefault("default lam", []).append(_digits(truth, X, bad, "auto"))
        tuned = [_digits(truth, X, bad, lam) for lam in GRID]
        best = int(np.argmax([row[0] for row in tuned]))
        rows.setdefault("best lam of a grid, chosen on the truth", []).append(tuned[best])
        chosen.append(GRID[best])
    for name, table in rows.items():
        corrupted, clean, f1, seconds = np.median(np.array(table), axis=0)
        print(f"| {name} | {corrupted:.1f} | {clean:.1f} | {f1:.2f} | {seconds:.1f} |")
    print(f"\nThe best for the corrupted rows, of {GRID}: {', '.join(map(str, chosen))}.")


def _digits(truth: np.ndarray, X: np.ndarray, bad: np.ndarray, lam: float | str) -> list[float]:
    start = time.perf_counter()
    est = OutlierPursuit(lam=lam, tol=1e-5).fit(X)
    seconds = time.perf_counter() - start
    A = est.recovered_
    return [snr(truth[bad], A[bad]), snr(truth[~bad], A[~bad]), f1_score(bad, est.outliers_), seconds]


def _seconds(function: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))
