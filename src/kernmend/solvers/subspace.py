"""Robust kernel PCA (Nguyen and De la Torre, 2008): samples and the subspace that they are close to, in turn.

    minimise over Z:  E(Z; X) + C sum_{j > r} s_j(K(Z))

s_j are the eigenvalues of the Gram matrix, descending, so that the sum is what the best subspace of r dimensions leaves
of the samples in the kernel space: sum_i dist2(z_i). With the subspace held fixed the rows are independent; the best
subspace for given rows comes from one eigendecomposition. Neither step lets the objective rise. The kernel space is not
centred: the mean of the samples takes about one of the r dimensions.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.errors import ErrorModel
from kernmend.model.kernels import Kernel
from kernmend.model.terms import Parts
from kernmend.solvers.reference import Reference
from kernmend.solvers.result import Callback, History, SolverResult, StopReason
from kernmend.solvers.rows import Some, minimise_rows

# Number of iterations on the rows before the subspace is found anew.
INNER = 20


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
    refit: bool = True,
    scale: float = 1.0,
    bounds: tuple[Array, Array] | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> tuple[SolverResult, Reference]:
    """Move the rows of `A` and find their subspace, in turn; `refit=False` keeps the subspace of the rows of `A`.

    Return the result and the last subspace. The residual of the history is |gradient| scale / objective: by what
    share the objective would change at the present rate over a distance of `scale`.
    """
    Z: Array = A.astype(np.float64)
    if bounds is not None:
        Z = np.clip(Z, *bounds)
    subspace = fit_subspace(kernel, Z, rank)
    history = History(tol, callback, window=1)
    stop: StopReason = "max_iter"
    history.add(*_measure(subspace, Z, error, C, 0.0, scale))
    try:
        for _ in range(max_iter):
            moved, _, _ = move_rows(subspace, Z, error, C, scale=scale, bounds=bounds, max_iter=INNER, tol=tol)
            found = fit_subspace(kernel, moved, rank) if refit else subspace
            step = float(np.linalg.norm(moved - Z))
            parts, step, residual = _measure(found, moved, error, C, step, scale)
            if parts.total > history.records[-1].objective:  # By rounding: there is nothing left to gain.
                stop = "converged"
                break
            Z, subspace = moved, found
            history.add(parts, step, residual)
            if history.converged:
                stop = "converged"
                break
    except KeyboardInterrupt:
        stop = "interrupted"
    return SolverResult(Z, history.records, stop), subspace


def _measure(
    subspace: Reference, Z: Array, error: ErrorModel, C: float, step: float, scale: float
) -> tuple[Parts, float, float]:
    """Return the parts of the objective, the step, and the residual: what a record of the history is made of."""
    dist2, gradient = subspace.squared_rows(Z)
    value, error_gradient = error.evaluate(Z)
    parts = Parts(C * float(dist2.sum()), value, 0.0, subspace.rank)
    slope = float(np.linalg.norm(C * gradient + error_gradient))  # The subspace is optimal and adds nothing.
    return parts, step, slope * scale / max(parts.total, np.finfo(np.float64).tiny)
