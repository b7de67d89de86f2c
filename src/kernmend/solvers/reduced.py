"""The default solver: B eliminated, a quasi-Newton method on A alone.

    minimise over A:  Phi(A) = Psi(K(A)) + lam E(A; X),   lower <= A <= upper,   some entries of A held fixed

Phi(A) is the minimum over B of F(A, B), eq. (relax), so that every minimum of Phi is one of F.
SciPy's L-BFGS-B does the minimising; this module gives it dimensionless variables and keeps the records.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds as ScipyBounds
from scipy.optimize import OptimizeResult, minimize
from threadpoolctl import ThreadpoolController

from kernmend._typing import Array
from kernmend.model.objective import Objective
from kernmend.model.penalties import GramTarget
from kernmend.model.terms import Parts
from kernmend.solvers.result import Callback, History, SolverResult, StopReason

# Number of pairs of vectors that L-BFGS keeps.
_MEMORY = 10
# Number of iterations with B'B held at `start` before it follows A.
_WARM_UP = 20
# Number of times that L-BFGS starts anew, without its pairs, where its line search fails, or a step changed nothing.
_RESTARTS = 5


class Reduced(Protocol):
    """What is minimised: a function of A alone, such as `Objective`."""

    def evaluate(self, A: Array) -> tuple[Parts, Array]:
        """Return the value in its parts, and the gradient."""

    def parts(self, A: Array) -> Parts:
        """Return the value in its parts."""


@dataclass(frozen=True)
class Stage:
    """An objective to go through before the one that is meant, and the number of iterations that it may take."""

    objective: Reduced
    max_iter: int


Bounds: TypeAlias = tuple[Any, Any]
"""A lower and an upper bound of the data: scalars or arrays that broadcast to it, infinite where there is none."""


def solve_reduced(
    objective: Reduced,
    A: Array,
    *,
    start: GramTarget | None = None,
    stages: Sequence[Stage] = (),
    bounds: Bounds | None = None,
    free: NDArray[np.bool_] | None = None,
    scale: float = 1.0,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise Phi over the free entries of A, within bounds, with L-BFGS.

    Parameters
    ----------
    objective, A
        What is minimised, and from where; `A` is left as it is.
    start
        A B'B to begin with: the first iterations hold it fixed. It is one more stage, the first. For an `Objective`.
    stages
        Objectives to minimise first, each from where the one before it ended: a path to a better minimum.
    bounds
        `(lower, upper)`. The start is projected into them.
    free
        Which entries may move; None is all of them. The others come back bit for bit.
    scale
        A typical distance between samples: the variables are measured in it, so that the path does not depend on the
        units of the data.
    max_iter
        Iterations of all stages together.
    tol
        Each stage ends when ten of its own iterations together lower its objective by less than this share of it.

    Returns
    -------
    SolverResult
        Each record holds the objective of its own stage, which never rises within the stage. From one stage to the
        next it does not rise either where the next objective lies nowhere above the last one, as with a fixed B'B that
        then follows A, or with a falling `eps` of the Schatten penalty.
    """
    history = History(tol, callback)
    space = _FreeSpace(A, free, bounds)
    A = space.project(A)
    if start is not None:
        stages = [Stage(replace(cast(Objective, objective), penalty=start), _WARM_UP), *stages]
    stop_reason: StopReason = "max_iter"
    with _quiet_scipy_threads():
        for stage in [*stages, Stage(objective, max_iter)]:
            until = min(len(history.records[1:]) + stage.max_iter, max_iter)
            stop_reason = _Descent(stage.objective, A, space, scale, history).run(until)
            if stop_reason == "interrupted":
                break
    return SolverResult(A, history.records, stop_reason)


class _FreeSpace:
    """The entries that may move, as a vector, and the box that they stay in."""

    def __init__(self, A: Array, free: NDArray[np.bool_] | None, bounds: Bounds | None) -> None:
        self.index = slice(None) if free is None else np.flatnonzero(np.broadcast_to(free, A.shape))
        self.size = A.size if isinstance(self.index, slice) else self.index.size
        self.lower: Array | None = None
        self.upper: Array | None = None
        if bounds is not None:
            self.lower, self.upper = (
                np.broadcast_to(np.asarray(bound, dtype=A.dtype), A.shape).ravel()[self.index] for bound in bounds
            )
            if not np.all(self.lower <= self.upper):
                raise ValueError("a lower bound is NaN or above its upper bound")

    def read(self, A: Array) -> Array:
        """Return the free entries."""
        return A.ravel()[self.index]

    def put(self, A: Array, values: Array) -> Array:
        """Return A with other free entries, clipped to the box."""
        out = A.flatten()
        out[self.index] = values if self.lower is None else np.clip(values, self.lower, self.upper)
        return out.reshape(A.shape)

    def project(self, A: Array) -> Array:
        """Return A with the free entries clipped to the box."""
        return self.put(A, self.read(A))

    def box(self, origin: Array, scale: float) -> ScipyBounds | None:
        """Return the box of z, where the free entries are origin + scale z; None where there is none."""
        if self.lower is None or self.upper is None:
            return None
        zero = np.zeros(self.size)  # Rounding must not leave the start outside.
        lower = np.minimum((self.lower.astype(np.float64) - origin) / scale, zero)
        return ScipyBounds(lower, np.maximum((self.upper.astype(np.float64) - origin) / scale, zero))


@contextmanager
def _quiet_scipy_threads() -> Iterator[None]:
    """Give a context with one thread for the BLAS that SciPy's wheel brings beside NumPy's.

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

    def __init__(self, objective: Reduced, A: Array, space: _FreeSpace, scale: float, history: History) -> None:
        self.objective = objective
        self.A = A
        self.space = space
        self.scale = scale
        self.history = history
        self.first = len(history.records)  # of this stage
        self.known: tuple[Parts, Array] | None = objective.evaluate(A)
        self.last = self.known[0]
        if not history.records:
            history.add(self.last, 0.0)
        self.unit = max(abs(self.last.total), np.finfo(float).tiny)

    @property
    def converged(self) -> bool:
        """Whether this stage has converged, by its own iterations: those of another have another objective."""
        return len(self.history.records) - self.first > self.history.window and self.history.converged

    def run(self, max_iter: int) -> StopReason:
        """Iterate until convergence or until the history holds `max_iter` iterations; return why it stopped.

        SciPy also stops where one step has left the value exactly as it was. In float32 that is a step shorter than
        the rounding of A, which pairs that are mostly rounding may ask for far from the minimum: it ends the run only
        if the next one, without these pairs, does not fall either.
        """
        if self.space.size == 0:
            return "converged"
        reason: StopReason = "stalled"
        try:
            for _ in range(1 + _RESTARTS):
                before = len(self.history.records)
                if before > max_iter:
                    return "max_iter"
                value = self._value(self.last.total)
                result = self._minimise(max_iter + 1 - before)
                if result.status == 1 or len(self.history.records) > max_iter:
                    return "max_iter"
                reason = "converged" if result.status == 0 or self.converged else "stalled"
                if self.converged or not self._value(value) < value:
                    break
        except KeyboardInterrupt:
            return "interrupted"
        return reason

    def _value(self, otherwise: float) -> float:
        """Return the objective after the last iteration of this stage; what is given if it has none."""
        own = self.history.records[self.first :]
        return own[-1].objective if own else otherwise

    def _minimise(self, budget: int) -> OptimizeResult:
        """Return SciPy's result of a run of L-BFGS over z; free entries are origin + scale z, values in `unit`s."""
        start = self.A.copy()
        origin = self.space.read(start)
        previous = np.zeros(origin.size)

        def place(z: NDArray[np.float64]) -> Array:
            return self.space.put(start, origin + (self.scale * z).astype(origin.dtype, copy=False))

        def value_and_gradient(z: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            self.last, gradient = self.known or self.objective.evaluate(place(z))
            self.known = None  # it was that of the start, which is asked for first
            if not np.isfinite(self.last.total):
                return np.inf, np.zeros_like(z)
            slope = self.space.read(gradient).astype(np.float64)
            return self.last.total / self.unit, slope * (self.scale / self.unit)

        def accept(intermediate_result: OptimizeResult) -> None:
            z = intermediate_result.x
            self.A[...] = place(z)
            step = self.scale * float(np.linalg.norm(z - previous))
            previous[...] = z
            self.history.add(self.last, step)
            if self.converged:
                raise StopIteration

        return minimize(
            value_and_gradient,
            np.zeros(origin.size),
            jac=True,
            method="L-BFGS-B",
            bounds=self.space.box(origin, self.scale),
            callback=accept,
            options={"maxiter": budget, "maxfun": 10**9, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 1e-12},
        )
