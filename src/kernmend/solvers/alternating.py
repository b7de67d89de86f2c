"""The paper's Algorithm 1: alternate between A, by monotone accelerated proximal gradient steps, and B, exactly.

    minimise over A, B:  F(A, B) = |B|_* + lam E(A; X) + rho/2 |B'B - K(A)|_F^2          eq. (relax)

`solve_alternating` updates the rows one after the other, as printed; `solve_parallel` all rows at once, the paper's
future work. Both use the right weights (each off-diagonal residual counts twice, the root's tangent has a factor 1/2),
so that F is the function that never rises; with the printed ones it is F with 4 lam (DESIGN 3.1).
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from kernmend._typing import Array
from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.objective import Objective, Parts
from kernmend.model.penalties import GramTarget
from kernmend.solvers.result import Callback, History, SolverResult, StopReason

_GROWTH = 1.5  # of the step from one iteration to the next
_SHRINK = 0.5  # of the step where it was too long
_MAX_HALVINGS = 60
_PARALLEL_STEPS = 3  # A-steps per B-step when all rows move at once: each costs less than the eigenvalues


@runtime_checkable
class HasBStep(Protocol):
    """What these solvers need of a penalty: a minimising B for a given Gram matrix."""

    def b_step(self, K: Array, eigen: TopEigenpairs) -> GramTarget:
        """Return the target M = B'B."""


class Smooth(Protocol):
    """A differentiable function of some rows."""

    def value(self, a: Array) -> float: ...

    def value_and_gradient(self, a: Array) -> tuple[float, Array]: ...


class MonotoneStep:
    """Eqs. (sub1expAPGUpdate1)-(sub1expAPGUpdate4) for f + sum_i w_i |a_i - x_i|^2, the step found by backtracking.

    Keeps the momentum of one block of rows. Where f + g cannot be lowered, the rows stay where they are.
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.delta = 0.0
        self.t = 1.0
        self.t_previous = 0.0
        self.previous: Array | None = None
        self.z: Array | None = None

    def __call__(self, a: Array, f: Smooth, x: Array, w: Array | None) -> Array:
        """Return the next a, nowhere higher in f + g than the present one."""
        t, t_previous = self.t, self.t_previous

        def g(b: Array) -> float:
            return 0.0 if w is None else float(w @ np.einsum("ij,ij->i", b - x, b - x))

        def prox(b: Array) -> Array:  # of delta g
            if w is None:
                return b
            weight = (2.0 * self.delta * w)[:, np.newaxis].astype(b.dtype)
            return (b + weight * x) / (1.0 + weight)

        at_a, slope = f.value_and_gradient(a)
        v, value = self._backtrack(a, at_a, slope, f, g, prox)
        if self.z is not None and self.previous is not None:  # from the second step on there is momentum
            y: Array = a + (t_previous / t) * (self.z - a) + ((t_previous - 1.0) / t) * (a - self.previous)
            z = prox(y - self.delta * f.value_and_gradient(y)[1])
            if f.value(z) + g(z) <= value:
                v = z
        self.previous, self.z = a, v  # the paper keeps a z that lost to v: with other kernels its momentum runs away
        self.t_previous, self.t = t, float((np.sqrt(4.0 * t * t + 1.0) + 1.0) / 2.0)
        return v

    def _backtrack(
        self,
        a: Array,
        at_a: float,
        slope: Array,
        f: Smooth,
        g: Callable[[Array], float],
        prox: Callable[[Array], Array],
    ) -> tuple[Array, float]:
        """Shorten the step until the quadratic model at `a` lies above f; return the point and f + g there."""
        norm = float(np.linalg.norm(slope))
        if self.delta == 0.0:
            self.delta = self.scale / norm if norm > 0 else self.scale**2
        else:
            self.delta *= _GROWTH
        start = at_a + g(a)
        for _ in range(_MAX_HALVINGS):
            v = prox(a - self.delta * slope)
            move = v - a
            at_v = f.value(v)
            bound = at_a + float(np.vdot(slope, move)) + float(np.vdot(move, move)) / (2.0 * self.delta)
            if at_v <= bound and at_v + g(v) <= start:
                return v, at_v + g(v)
            self.delta *= _SHRINK
        return a, start


class _RowTerm:
    """rho sum_{j != i} (m_ij - k(a, a_j))^2 + rho/2 (m_ii - k(a, a))^2, and the error where it has no majoriser."""

    def __init__(self, objective: Objective, A: Array, target: GramTarget, i: int, with_error: bool) -> None:
        self.objective, self.A, self.i = objective, A, i
        self.m, self.rho = target.M[i], target.rho
        self.error = objective.error.rows(slice(i, i + 1)) if with_error else None

    def _residual(self, a: Array) -> tuple[Array, Array, float]:
        self.A[self.i] = a[0]  # so that k(a, a) is among the k(a, a_j), with the derivative of both arguments
        k = self.objective.kernel.gram(a, self.A)
        residual = k - self.m
        value = self.rho * (float(np.vdot(residual, residual)) - 0.5 * float(residual[0, self.i]) ** 2)
        return k, residual, value

    def value(self, a: Array) -> float:
        value = self._residual(a)[2]
        return value if self.error is None else value + self.objective.lam * self.error.evaluate(a)[0]

    def value_and_gradient(self, a: Array) -> tuple[float, Array]:
        k, residual, value = self._residual(a)
        residual *= 2.0 * self.rho
        gradient = self.objective.kernel.pullback(a, self.A, k, residual)
        if self.error is None:
            return value, gradient
        error, error_gradient = self.error.evaluate(a)
        gradient += self.objective.lam * error_gradient
        return value + self.objective.lam * error, gradient


class _AllRowsTerm:
    """rho/2 |M - K(A)|_F^2, and the error where it has no majoriser."""

    def __init__(self, objective: Objective, target: GramTarget, with_error: bool) -> None:
        self.objective, self.target = objective, target
        self.error = objective.error if with_error else None

    def value(self, a: Array) -> float:
        residual = self.objective.kernel.gram(a)
        residual -= self.target.M
        value = 0.5 * self.target.rho * float(np.vdot(residual, residual))
        return value if self.error is None else value + self.objective.lam * self.error.evaluate(a)[0]

    def value_and_gradient(self, a: Array) -> tuple[float, Array]:
        K = self.objective.kernel.gram(a)
        term = self.target.evaluate(K, self.objective.eigen)
        gradient = self.objective.kernel.gradient(a, K, term.gradient)
        if self.error is None:
            return term.gram, gradient
        error, error_gradient = self.error.evaluate(a)
        gradient += self.objective.lam * error_gradient
        return term.gram + self.objective.lam * error, gradient


def _sweep_rows(scale: float, n_rows: int) -> Callable[[Objective, Array, GramTarget], Array]:
    steps = [MonotoneStep(scale) for _ in range(n_rows)]

    def sweep(objective: Objective, A: Array, target: GramTarget) -> Array:
        A = A.copy()
        for i, step in enumerate(steps):
            a = A[i : i + 1].copy()
            error = objective.error.rows(slice(i, i + 1))
            w = error.majoriser(a)
            term = _RowTerm(objective, A, target, i, with_error=w is None)
            A[i] = step(a, term, error.X, None if w is None else objective.lam * w)[0]
        return A

    return sweep


def _step_all(scale: float) -> Callable[[Objective, Array, GramTarget], Array]:
    step = MonotoneStep(scale)

    def sweep(objective: Objective, A: Array, target: GramTarget) -> Array:
        for _ in range(_PARALLEL_STEPS):
            w = objective.error.majoriser(A)
            term = _AllRowsTerm(objective, target, with_error=w is None)
            A = step(A, term, objective.error.X, None if w is None else objective.lam * w)
        return A

    return sweep


def _alternate(
    objective: Objective,
    A: Array,
    target: GramTarget | None,
    sweep: Callable[[Objective, Array, GramTarget], Array],
    history: History,
    max_iter: int,
) -> SolverResult:
    if not isinstance(objective.penalty, HasBStep):
        raise TypeError(
            f"the alternating solvers need a penalty with a B-step, and {type(objective.penalty).__name__} has none: "
            "use solver='reduced' or penalty='nuclear'"
        )
    penalty = objective.penalty
    A = A.copy()
    if target is None:
        target = penalty.b_step(objective.kernel.gram(A), objective.eigen)
    stop_reason: StopReason = "max_iter"
    try:
        history.add(_parts(objective, A, target), 0.0)
        for _ in range(max_iter):
            before, A = A, sweep(objective, A, target)
            target = penalty.b_step(objective.kernel.gram(A), objective.eigen)
            history.add(_parts(objective, A, target), float(np.linalg.norm(A - before)))
            if history.converged:
                stop_reason = "converged"
                break
    except KeyboardInterrupt:
        stop_reason = "interrupted"
    return SolverResult(A, history.records, stop_reason)


def _parts(objective: Objective, A: Array, target: GramTarget) -> Parts:
    residual = objective.kernel.gram(A)
    residual -= target.M
    gram = 0.5 * target.rho * float(np.vdot(residual, residual))
    return Parts(target.low_rank, objective.lam * objective.error.evaluate(A)[0], gram, target.rank)


def solve_alternating(
    objective: Objective,
    A: Array,
    *,
    start: GramTarget | None = None,
    scale: float = 1.0,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise F row by row: one iteration is a sweep over the rows, then the exact B-step."""
    return _alternate(objective, A, start, _sweep_rows(scale, A.shape[0]), History(tol, callback), max_iter)


def solve_parallel(
    objective: Objective,
    A: Array,
    *,
    start: GramTarget | None = None,
    scale: float = 1.0,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise F with all rows updated at once: one iteration is a few A-steps, then the exact B-step."""
    return _alternate(objective, A, start, _step_all(scale), History(tol, callback), max_iter)
