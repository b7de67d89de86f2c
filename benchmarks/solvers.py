"""The three solvers on 400 rotated MNIST digits: how soon each has what the paper's has after 30 sweeps."""

import numpy as np

from kernmend.datasets import load_mnist
from kernmend.datasets.corruption import gaussian_noise
from kernmend.datasets.metrics import snr
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.errors import KernelError
from kernmend.model.kernels import RBF
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty
from kernmend.solvers import SolverResult, solve_alternating, solve_parallel, solve_reduced

SWEEPS = 30
SETTINGS = ((0.003, 10.0, 0.8), (0.003, 10.0, 0.3), (0.0003, 1e5, 0.8))


def run() -> None:
    truth = load_mnist(400)
    X, bad = gaussian_noise(truth)
    scale = float(np.sqrt(median_squared_distance(X)))
    print(f"SNR of the corrupted rows, untouched: {snr(truth[bad], X[bad]):.2f} dB\n")
    print("| gamma, rho, lam | solver | iterations | seconds | F | F after 30 sweeps reached in | times sooner"
          " | corrupted rows dB | clean rows dB |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for gamma, rho, lam in SETTINGS:
        kernel = RBF(gamma)

        def objective(kernel: RBF = kernel, rho: float = rho, lam: float = lam) -> Objective:
            return Objective(kernel, NuclearPenalty(rho), KernelError(kernel, X, 1e-3), lam)

        slow = solve_alternating(objective(), X, scale=scale, max_iter=SWEEPS)
        goal, seconds = slow.objective[-1], slow.history[-1].seconds
        for name, result in (
            ("alternating", slow),
            ("alternating-parallel", solve_parallel(objective(), X, scale=scale, max_iter=100)),
            ("reduced", solve_reduced(objective(), X, scale=scale, max_iter=200)),
        ):
            reached = _seconds_to(result, goal)
            print(
                f"| {gamma}, {rho:g}, {lam} | {name} | {result.n_iter} | {result.history[-1].seconds:.2f} | "
                f"{result.objective[-1]:.4f} | {reached:.3f} s | {seconds / reached:.0f} | "
                f"{snr(truth[bad], result.A[bad]):.2f} | {snr(truth[~bad], result.A[~bad]):.1f} |"
            )


def _seconds_to(result: SolverResult, goal: float) -> float:
    below = np.flatnonzero(result.objective <= goal)
    return result.history[below[0]].seconds if below.size else float("nan")
