"""One evaluation of Phi and its gradient at n = 3600, d = 1024, against one full `eigh` of the Gram matrix."""

import time
import tracemalloc

import numpy as np

from kernmend.datasets import make_random_walk
from kernmend.datasets.corruption import gaussian_noise
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.errors import KernelError
from kernmend.model.kernels import RBF
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty, rho_from_cutoff
from kernmend.solvers import solve_reduced

N, D, RANK, ITERATIONS = 3600, 1024, 200, 12


def run() -> None:
    print(f"a random walk of {N} samples in {D} dimensions, 10 % noisy; rho keeps {RANK} eigenvalues at the start\n")
    print("| dtype | eigh | first evaluation | warm, median | warm / eigh | slowest / eigh | n×n arrays at once |")
    print("|---|---|---|---|---|---|---|")
    X64 = gaussian_noise(make_random_walk(N, D)).X
    for dtype in (np.float64, np.float32):
        X = X64.astype(dtype)
        scale = float(np.sqrt(median_squared_distance(X)))
        kernel = RBF(1.0 / scale**2)
        K = kernel.gram(X)
        eigh, s = _time(lambda K=K: np.linalg.eigh(K)[0])
        del K
        rho = rho_from_cutoff(float(s[-RANK]))
        objective = _Timed(kernel, NuclearPenalty(rho), KernelError(kernel, X, 1e-3), 0.3)
        solve_reduced(objective, X, scale=scale, max_iter=ITERATIONS)
        first, *warm = objective.seconds
        arrays = _peak_arrays(objective, X)
        print(
            f"| {np.dtype(dtype).name} | {eigh:.2f} s | {first:.2f} s | {np.median(warm):.2f} s | "
            f"{np.median(warm) / eigh:.2f} | {np.max(warm) / eigh:.2f} | {arrays:.1f} |"
        )


class _Timed(Objective):
    """An objective that notes how long its evaluations take."""

    @property
    def seconds(self) -> list[float]:
        return self.__dict__.setdefault("_seconds", [])

    def evaluate(self, A):  # type: ignore[no-untyped-def]
        elapsed, result = _time(lambda: super(_Timed, self).evaluate(A))
        self.seconds.append(elapsed)
        return result


def _peak_arrays(objective: Objective, X: np.ndarray) -> float:
    """Peak memory of one evaluation, less what is not n×n (a few blocks and n×d arrays), in arrays of n×n."""
    tracemalloc.start()
    objective.evaluate(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (X.shape[0] ** 2 * X.itemsize)


def _time(function):  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result
