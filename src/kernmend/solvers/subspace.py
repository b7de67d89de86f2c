"""Robust kernel PCA (Nguyen and De la Torre, 2008): samples, and the subspace of the kernel space that they are near.

    minimise over Z:  E(Z; X) + C sum_{j > r} s_j(K(Z))

s_j are the eigenvalues of the Gram matrix, descending, so that the sum is what the best subspace of r dimensions leaves
of the samples in the kernel space: sum_i dist2(z_i). With the subspace held fixed the rows are independent; the best
subspace for given rows has a closed form. So rows and subspace can take turns, which brings far rows near but then is
slow, or the subspace is eliminated and a quasi-Newton method moves all rows together. The kernel space is not centred:
the mean of the samples takes about one of the r dimensions.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.eigen import LeadingSubspace, eigenpairs
from kernmend.model.errors import ErrorModel
from kernmend.model.kernels import Kernel
from kernmend.model.objective import Objective
from kernmend.model.penalties import TailPenalty
from kernmend.model.terms import Parts
from kernmend.solvers.reduced import solve_reduced
from kernmend.solvers.reference import Reference
from kernmend.solvers.result import Callback, History, SolverResult, StopReason
from kernmend.solvers.rows import Some, minimise_rows

# Number of iterations on the rows between two records of the history, where the subspace is fixed.
INNER = 20
# Number of iterations on the rows before the subspace is found anew.
TURN = 5
# Share of the objective that a turn must gain for the next one: 1 to 3 % on images, where all rows together gain more.
SETTLED = 0.05
# Objective up to which it counts as 0.
NOTHING = 1e-300


def fit_subspace(kernel: Kernel, Z: Array, rank: int) -> Reference:
    """Return the subspace of `rank` dimensions nearest to the images of the rows."""
    return Reference.from_largest(kernel, Z, *eigenpairs(kernel.gram(Z)), rank)


def move_rows(
    subspace: Reference,
    A: Array,
    error: ErrorModel,
    C: float,
    *,
    scale: float = 1.0,
    bounds: tuple[Array, Array] | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
) -> tuple[Array, list[float], bool]:
    """Minimise E(z; x) + C dist2(z) over each row, from the rows of `A`.

    Return the rows, the sum of their values at the start and after each iteration, and whether all converged.
    """

    def objective(rows: Array, index: NDArray[np.intp]) -> tuple[Array, Callable[[Some], Array]]:
        dist2, of_square = subspace.squared_values(rows)
        value, of_error = error.rows(index).evaluate_rows(rows)
        return value + C * dist2, lambda some: of_error[some] + C * of_square(some)

    return minimise_rows(objective, A, scale=scale, bounds=bounds, max_iter=max_iter, tol=tol)


def solve_subspace(
    kernel: Kernel,
    A: Array,
    error: ErrorModel,
    C: float,
    rank: int,
    *,
    scale: float = 1.0,
    bounds: tuple[Array, Array] | None = None,
    max_iter: int = 500,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> tuple[SolverResult, Reference]:
    """Minimise over the rows, from those of `A`; return the result and the last subspace.

    Rows and subspace take turns until that settles: a row that is far away needs a step of its own. Then all rows move
    together, in the dtype of `A`, and the subspace with them. The residual of a record, where it has one, is
    |gradient| scale / objective: by what share the objective would change at the present rate over a distance of
    `scale`.
    """
    leading = LeadingSubspace(min(rank, A.shape[0]))
    budget: dict[str, Any] = {"scale": scale, "bounds": bounds, "tol": tol, "callback": callback}
    nearest = partial(_nearest, kernel, leading)
    first = _take_turns(nearest, A, error, C, inner=TURN, settled=SETTLED, max_iter=max_iter, **budget)
    if first.stop_reason == "max_iter":  # It has settled, and may go on.
        objective = Objective(kernel, TailPenalty(C, leading), error, 1.0)
        start = first.A.astype(A.dtype, copy=False)
        result = solve_reduced(objective, start, max_iter=max(max_iter - first.n_iter, 0), **budget)
        first = _join(first, result, _residual(objective, result.A, scale))
    return first, fit_subspace(kernel, first.A.astype(np.float64, copy=False), rank)


def _take_turns(
    nearest: Callable[[Array], Reference],
    A: Array,
    error: ErrorModel,
    C: float,
    *,
    inner: int,
    settled: float,
    scale: float,
    bounds: tuple[Array, Array] | None,
    max_iter: int,
    tol: float,
    callback: Callback | None,
) -> SolverResult:
    """Move the rows, each by itself in `inner` iterations, and find the subspace `nearest` to them, in turn.

    Return what was found. The stop reason is "max_iter" too where a turn gains less than the share `settled` of the
    objective: more is to be gained, though not by this.
    """
    Z: Array = A.astype(np.float64)
    Z = Z if bounds is None else np.clip(Z, *bounds)
    history = History(tol, callback)
    subspace = nearest(Z)
    history.add(*_measure(subspace, Z, error, C, 0.0, scale))
    stop: StopReason = "max_iter"
    try:
        for _ in range(max_iter):
            moved, _, _ = move_rows(subspace, Z, error, C, scale=scale, bounds=bounds, max_iter=inner, tol=tol)
            found = nearest(moved)
            parts, step, residual = _measure(found, moved, error, C, float(np.linalg.norm(moved - Z)), scale)
            gained = history.records[-1].objective - parts.total
            if gained <= tol * parts.total:  # By rounding it may even be below 0.
                stop = "converged"
                break
            Z, subspace = moved, found
            history.add(parts, step, residual)
            if gained <= settled * parts.total:
                break
    except KeyboardInterrupt:
        stop = "interrupted"
    return SolverResult(Z, history.records, stop)


def _nearest(kernel: Kernel, leading: LeadingSubspace, Z: Array) -> Reference:
    """Return the subspace nearest to the images of the rows, from the last one."""
    _, s, U = leading(kernel.gram(Z))
    return Reference.from_largest(kernel, Z, s, U, leading.count)


def _join(first: SolverResult, then: SolverResult, residual: float) -> SolverResult:
    """Return two runs as one, with the residual at the end. A run that rounding stalls has nothing left to gain."""
    count, seconds = len(first.history), first.history[-1].seconds
    more = [
        replace(record, iteration=count + place, seconds=seconds + record.seconds)
        for place, record in enumerate(then.history[1:])
    ]
    history = [*first.history, *more]
    history[-1] = replace(history[-1], residual=residual)
    stop: StopReason = "converged" if then.stop_reason == "stalled" else then.stop_reason
    return SolverResult(then.A, history, stop)


def solve_fixed_subspace(
    subspace: Reference,
    A: Array,
    error: ErrorModel,
    C: float,
    *,
    scale: float = 1.0,
    bounds: tuple[Array, Array] | None = None,
    max_iter: int = 500,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SolverResult:
    """Move the rows of `A` towards a subspace that stays as it is, and return what was found.

    A record of the history is of 20 iterations.
    """
    budget: dict[str, Any] = {"scale": scale, "bounds": bounds, "tol": tol, "callback": callback}
    turns = -(-max_iter // INNER)
    return _take_turns(lambda rows: subspace, A, error, C, inner=INNER, settled=0.0, max_iter=turns, **budget)


def _residual(objective: Objective, A: Array, scale: float) -> float:
    """Return |gradient| scale / objective."""
    parts, gradient = objective.evaluate(A)
    return _relative(gradient, scale, parts)


def _measure(
    subspace: Reference, Z: Array, error: ErrorModel, C: float, step: float, scale: float
) -> tuple[Parts, float, float]:
    """Return the parts of the objective, the step, and the residual: what a record of the history is made of."""
    dist2, gradient = subspace.squared_rows(Z)
    value, error_gradient = error.evaluate(Z)
    parts = Parts(C * float(dist2.sum()), value, 0.0, subspace.rank)
    return parts, step, _relative(C * gradient + error_gradient, scale, parts)


def _relative(gradient: Array, scale: float, parts: Parts) -> float:
    """Return |gradient| scale / objective; 0 where that is 0 but for rounding, and nothing is left to gain."""
    return float(np.linalg.norm(gradient)) * scale / parts.total if parts.total > NOTHING else 0.0
