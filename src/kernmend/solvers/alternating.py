"""The paper's Algorithm 1: alternate between A, by monotone accelerated proximal gradient steps, and B, exactly.

    minimise over A, B:  F(A, B) = |B|_* + lam E(A; X) + rho/2 |B'B - K(A)|_F^2          eq. (relax)

`solve_alternating` updates the rows one after the other, as printed; `solve_parallel` all rows at once, the paper's
future work. Both differ from the printed steps in two weights. A pair (i, j) of rows is in the symmetric residual
B'B - K(A) twice, but eq. (sub1decomp2) counts it once. The tangent of the root in eq. (sub1expHQ) lacks a factor 1/2.
The printed steps therefore decrease F with 4 lam in place of lam; those here decrease F itself.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypedDict, Unpack, runtime_checkable

import numpy as np

from kernmend._typing import Array
from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.objective import Objective
from kernmend.model.penalties import GramTarget
from kernmend.model.terms import Parts
from kernmend.solvers.result import Callback, History, SolverResult, StopReason

Sweep: TypeAlias = Callable[[Objective, Array, GramTarget], Array]
"""An A-step: from the objective, A and the target B'B to the next A."""

# Factor of the step size from one iteration to the next, before it is shortened where it is too long.
_GROWTH = 1.5
# Factor of a step size that is too long.
_SHRINK = 0.5
# Number of times that a step is shortened before the rows stay where they are.
_MAX_HALVINGS = 60
# Number of A-steps for each B-step when all rows move at once: one costs less than the eigenvalues of the B-step.
_PARALLEL_STEPS = 3


@runtime_checkable
class HasBStep(Protocol):
    """What these solvers need of a penalty: a minimising B for a given Gram matrix."""

    def b_step(self, K: Array, eigen: TopEigenpairs) -> GramTarget:
        """Return the target M = B'B, with B the minimiser of eq. (sub2)."""


class Smooth(Protocol):
    """A differentiable function of some rows."""

    def value(self, a: Array) -> float:
        """Return the value at `a`."""

    def value_and_gradient(self, a: Array) -> tuple[float, Array]:
        """Return the value at `a` and the gradient."""


class MonotoneStep:
    """Accelerated proximal gradient steps on f + g, g(a) = sum_i w_i |a_i - x_i|^2, that never raise f + g.

    One call is one step, eqs. (sub1expAPGUpdate1)-(sub1expAPGUpdate4). The paper's fixed step size needs the Lipschitz
    constant of the gradient, which nobody knows; here it is found by backtracking, from `scale` on, the length of the
    first step. The object keeps the momentum of one block of rows. Where f + g cannot be lowered, the rows stay where
    they are.
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.delta = 0.0
        self.t = 1.0
        self.t_previous = 0.0
        self.previous: Array | None = None
        self.z: Array | None = None

    def __call__(self, a: Array, f: Smooth, x: Array, w: Array | None) -> Array:
        """Return the next a, at which f + g is at most what it is at the present one; `w=None` is g = 0."""
        t, t_previous = self.t, self.t_previous

        def g(b: Array) -> float:
            return 0.0 if w is None else float(w @ np.einsum("ij,ij->i", b - x, b - x))

        def prox(b: Array) -> Array:
            """Return argmin over u of g(u) + |b - u|^2 / (2 delta)."""
            if w is None:
                return b
            weight = (2.0 * self.delta * w)[:, np.newaxis].astype(b.dtype)
            return (b + weight * x) / (1.0 + weight)

        at_a, slope = f.value_and_gradient(a)
        v, value = self._backtrack(a, at_a, slope, f, g, prox)  # eq. (sub1expAPGUpdate3)
        if self.z is not None and self.previous is not None:  # From the second step on there is momentum.
            # The extrapolated point of eq. (sub1expAPGUpdate1), and the better of the two steps.
            y: Array = a + (t_previous / t) * (self.z - a) + ((t_previous - 1.0) / t) * (a - self.previous)
            z = prox(y - self.delta * f.value_and_gradient(y)[1])  # eq. (sub1expAPGUpdate2)
            if f.value(z) + g(z) <= value:  # eq. (sub1expAPGUpdate4)
                v = z
        # The paper keeps the momentum of a z that was not chosen; with other kernels than the Gaussian that diverges.
        self.previous, self.z = a, v
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
        """Return the point of a proximal gradient step, and f + g there; `a` itself where no step is short enough.

        The step is shortened until the quadratic model of f at `a` lies above f at the new point v. Then f + g falls by
        |v - a|^2 / (2 delta) or more, which is eq. (fak) without the Lipschitz constant.
        """
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
    """rho sum_{j != i} (m_ij - k(a, a_j))^2 + rho/2 (m_ii - k(a, a))^2, and the error where it has no majoriser.

    This is what F depends on in row i, the others held fixed. Eq. (sub1decomp2), times lam, has rho/2 for every j: it
    counts a pair of rows once, and F counts it twice.
    """

    def __init__(self, objective: Objective, A: Array, target: GramTarget, i: int, with_error: bool) -> None:
        self.objective, self.A, self.i = objective, A, i
        self.m, self.rho = target.M[i], target.rho
        self.error = objective.error.rows(slice(i, i + 1)) if with_error else None

    def _residual(self, a: Array) -> tuple[Array, Array, float]:
        """Return the kernel of row i with all rows, its residual and the value."""
        self.A[self.i] = a[0]  # Then k(a, a) is among the k(a, a_j), with the derivative of both arguments.
        k = self.objective.kernel.gram(a, self.A)
        residual = k - self.m
        value = self.rho * (float(np.vdot(residual, residual)) - 0.5 * float(residual[0, self.i]) ** 2)
        return k, residual, value

    def value(self, a: Array) -> float:
        """Return the value with row i at `a`."""
        value = self._residual(a)[2]
        return value if self.error is None else value + self.objective.lam * self.error.evaluate(a)[0]

    def value_and_gradient(self, a: Array) -> tuple[float, Array]:
        """Return the value with row i at `a`, and the gradient in it."""
        k, residual, value = self._residual(a)
        residual *= 2.0 * self.rho
        gradient = self.objective.kernel.pullback(a, self.A, k, residual)
        if self.error is None:
            return value, gradient
        error, error_gradient = self.error.evaluate(a)
        gradient += self.objective.lam * error_gradient
        return value + self.objective.lam * error, gradient


class _AllRowsTerm:
    """The Gram term of eq. (sub1), rho/2 |M - K(A)|_F^2, and the error where it has no majoriser."""

    def __init__(self, objective: Objective, target: GramTarget, with_error: bool) -> None:
        self.objective, self.target = objective, target
        self.error = objective.error if with_error else None

    def value(self, a: Array) -> float:
        """Return the value at the rows `a`."""
        residual = self.objective.kernel.gram(a)
        residual -= self.target.M
        value = 0.5 * self.target.rho * float(np.vdot(residual, residual))
        return value if self.error is None else value + self.objective.lam * self.error.evaluate(a)[0]

    def value_and_gradient(self, a: Array) -> tuple[float, Array]:
        """Return the value at the rows `a` and the gradient."""
        K = self.objective.kernel.gram(a)
        term = self.target.evaluate(K, self.objective.eigen)
        gradient = self.objective.kernel.gradient(a, K, term.gradient)
        if self.error is None:
            return term.gram, gradient
        error, error_gradient = self.error.evaluate(a)
        gradient += self.objective.lam * error_gradient
        return term.gram + self.objective.lam * error, gradient


def _sweep_rows(scale: float, n_rows: int) -> Sweep:
    """Return the A-step of Algorithm 1: one step of each row after the other, the sum of eq. (sub1decomp) by blocks.

    The weight of |a_i - x_i|^2 comes from eqs. (sub1expHQUpdate1) and (sub1expHQUpdate2), and the step is one on eq.
    (sub1expHQUpdate3), times lam beta_i p_i gamma and with the weights of F. Where the error has no majoriser, as with
    a polynomial kernel, it is part of the smooth function.
    """
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


def _step_all(scale: float) -> Sweep:
    """Return the A-step in which all rows move at once, `_PARALLEL_STEPS` times."""
    step = MonotoneStep(scale)

    def sweep(objective: Objective, A: Array, target: GramTarget) -> Array:
        for _ in range(_PARALLEL_STEPS):
            w = objective.error.majoriser(A)
            term = _AllRowsTerm(objective, target, with_error=w is None)
            A = step(A, term, objective.error.X, None if w is None else objective.lam * w)
        return A

    return sweep


class Options(TypedDict, total=False):
    """Keywords of both solvers; `_alternate` has their meanings and defaults."""

    start: GramTarget | None
    scale: float
    max_iter: int
    tol: float
    callback: Callback | None


def _alternate(
    objective: Objective,
    A: Array,
    sweep_of: Callable[[float], Sweep],
    *,
    start: GramTarget | None = None,
    scale: float = 1.0,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SolverResult:
    """Return the result of A-steps and exact B-steps in turn, from `A` and the B'B of `start` (None: that of `A`).

    `sweep_of(scale)` is the A-step, with `scale` the length of its first step. The solver has converged when ten
    iterations together lower F by less than `tol` of it. F never rises, which is what remains of eq. (decreasing): the
    A-step is monotone and the B-step a global minimiser. The amounts printed there follow from strong convexity in B,
    eq. (FBk), which F does not have, since it depends on B'B only. Theorem 2 (thm2), that limits are stationary, rests
    on these amounts too.
    """
    if not isinstance(objective.penalty, HasBStep):
        raise TypeError(
            f"the alternating solvers need a penalty with a B-step, and {type(objective.penalty).__name__} has none: "
            "use solver='reduced' or penalty='nuclear'"
        )
    penalty = objective.penalty
    A, sweep, history = A.copy(), sweep_of(scale), History(tol, callback)
    target = penalty.b_step(objective.kernel.gram(A), objective.eigen) if start is None else start
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
    """Return F(A, B) in its parts, with B given by the target."""
    residual = objective.kernel.gram(A)
    residual -= target.M
    gram = 0.5 * target.rho * float(np.vdot(residual, residual))
    return Parts(target.low_rank, objective.lam * objective.error.evaluate(A)[0], gram, target.rank)


def solve_alternating(objective: Objective, A: Array, **options: Unpack[Options]) -> SolverResult:
    """Minimise F row by row: one iteration is a sweep over the rows, then the exact B-step.

    Parameters
    ----------
    objective, A
        What is minimised, and from where; `A` is left as it is.
    options
        `start`, a B'B to begin with (by default that of `A`); `scale`, the length of the first step (1.0); `max_iter`
        (200); `tol`, the share of F by which ten iterations together must lower it (1e-6); `callback`, called with
        each record.

    Returns
    -------
    SolverResult
        `A` at the end and one record per iteration; F never rises.
    """
    return _alternate(objective, A, lambda scale: _sweep_rows(scale, A.shape[0]), **options)


def solve_parallel(objective: Objective, A: Array, **options: Unpack[Options]) -> SolverResult:
    """Minimise F with all rows updated at once: one iteration is a few A-steps, then the exact B-step.

    Parameters
    ----------
    objective, A
        What is minimised, and from where; `A` is left as it is.
    options
        Those of `solve_alternating`, with the same meaning and defaults.

    Returns
    -------
    SolverResult
        `A` at the end and one record per iteration; F never rises.
    """
    return _alternate(objective, A, _step_all, **options)
