"""The default solver: B eliminated, a quasi-Newton method on A alone.

    minimise over A:  Phi(A) = Psi(K(A)) + lam E(A; X)

SciPy's L-BFGS-B does the minimising; this module gives it dimensionless variables and keeps the records.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from threadpoolctl import ThreadpoolController

from kernmend._typing import Array
from kernmend.objective import Objective, Parts
from kernmend.solvers._result import Callback, History, SolverResult, StopReason
from kernmend.spectral import GramTarget

_MEMORY = 10  # pairs of vectors kept by L-BFGS
_WARM_UP = 20  # iterations with B held at its start before it is let go
_RESTARTS = 5  # times the memory of L-BFGS is thrown away where its line search fails


def solve_reduced(
    objective: Objective,
    A: Array,
    *,
    start: GramTarget | None = None,
    scale: float = 1.0,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise Phi from `A` with L-BFGS; the objective never rises from one record to the next.

    `start` is a B'B to begin with: the first iterations hold it fixed. `scale` is a typical distance between samples:
    the variables are measured in it, so that the path does not depend on the units of the data.
    """
    history = History(tol, callback)
    A = A.copy()
    stop_reason: StopReason = "max_iter"
    stages = [(objective, max_iter)]
    if start is not None:
        stages.insert(0, (replace(objective, penalty=start), min(_WARM_UP, max_iter)))
    with _quiet_scipy_threads():
        for stage, until in stages:
            stop_reason = _Descent(stage, A, scale, history).run(until)
            if stop_reason == "interrupted":
                break
    return SolverResult(A, history.records, stop_reason)


@contextmanager
def _quiet_scipy_threads() -> Iterator[None]:
    """One thread for the BLAS that SciPy's wheel brings beside NumPy's.

    The two thread pools spin against each other: on 400×784 data and 2 cores L-BFGS, whose vector operations are all
    that is done in SciPy here, made the whole fit 2.5 times slower.
    """
    pools = [lib for lib in ThreadpoolController().lib_controllers if "scipy.libs" in lib.filepath]
    before = [lib.num_threads for lib in pools]
    try:
        for lib in pools:
            lib.set_num_threads(1)
        yield
    finally:
        for lib, threads in zip(pools, before, strict=True):
            lib.set_num_threads(threads)


class _Descent:
    """L-BFGS on one objective, from `A` and in place of it."""

    def __init__(self, objective: Objective, A: Array, scale: float, history: History) -> None:
        self.objective = objective
        self.A = A
        self.scale = scale
        self.history = history
        parts, gradient = objective.evaluate(A)
        if not history.records:
            history.add(parts, 0.0)
        self.unit = max(abs(parts.total), np.finfo(float).tiny)
        self.evaluated = parts, gradient

    def run(self, max_iter: int) -> StopReason:
        """Iterate until convergence or until the history holds `max_iter` iterations."""
        try:
            for _ in range(1 + _RESTARTS):
                before = len(self.history.records)
                result = self._minimise(max_iter + 1 - before)
                if result.status == 1 or len(self.history.records) > max_iter:
                    return "max_iter"
                if result.status == 0 or self.history.converged:
                    return "converged"
                if len(self.history.records) == before:
                    return "stalled"
        except KeyboardInterrupt:
            return "interrupted"
        return "stalled"

    def _minimise(self, budget: int) -> OptimizeResult:
        """One run of L-BFGS over Z, where the data is origin + scale Z and the objective is counted in `unit`s."""
        origin = self.A.copy()
        shape = origin.shape
        last: Parts = self.evaluated[0]
        previous = np.zeros(origin.size)

        def place(z: NDArray[np.float64]) -> Array:
            moved: Array = origin + (self.scale * z.reshape(shape)).astype(origin.dtype, copy=False)
            return moved

        def value_and_gradient(z: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal last
            last, gradient = self.objective.evaluate(place(z))
            if not np.isfinite(last.total):
                return np.inf, np.zeros_like(z)
            return last.total / self.unit, gradient.ravel().astype(np.float64) * (self.scale / self.unit)

        def accept(intermediate_result: OptimizeResult) -> None:
            z = intermediate_result.x
            self.A[...] = place(z)
            step = self.scale * float(np.linalg.norm(z - previous))
            previous[...] = z
            self.history.add(last, step)
            if self.history.converged:
                raise StopIteration

        return minimize(
            value_and_gradient,
            np.zeros(origin.size),
            jac=True,
            method="L-BFGS-B",
            callback=accept,
            options={"maxiter": max(budget, 0), "maxfun": 10**9, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 1e-12},
        )
