"""Missing entries of any number of rows, in time that grows with their number. NaN means missing.

Few rows are completed together (`complete`), in rounds that each start from the last one's end:

    minimise over the missing entries of A:  log det(K(A) + eps I),   eps falling

All others are filled in one by one, in blocks, against those (`Filler`). This is the same as a function of one row:

    minimise over its missing entries a:  log(dist2(a) + eps),   dist2(a) = k(a, a) - k(a, L) (K(L) + eps I)^-1 k(L, a)

The rows that come first are the most complete ones (`fill_table`). Where enough of them lack nothing, no rows are
completed together: those that all others are filled in against are filled in one by one too, and then once more, each
against all others of them. Without that 6 % missing in breast cancer leave an error of 0.416, with it 0.390; completed
together they leave 0.386, in 15 times the time.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend._validation import check_missing
from kernmend.linalg.distances import (
    column_medians,
    median_observed_squared_distance,
    observed_squared_distances,
    row_blocks,
)
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.errors import RowError
from kernmend.model.kernels import RBF, Kernel
from kernmend.model.objective import Objective
from kernmend.model.penalties import LogDetPenalty
from kernmend.solvers.reduced import Stage, solve_reduced
from kernmend.solvers.reference import Others, Reference, move_into_span
from kernmend.solvers.result import Callback, SolverResult

# Number of nearest rows whose mean a missing entry starts at.
N_NEIGHBORS = 5
# Largest number of iterations of one round of the path.
ROUND_ITER = 100
# Gamma for missing entries, all others right, in units of 1 / (median squared distance).
COMPLETION_WIDTH = 0.1
# Path of eps for these, in units of a sample's squared length in the kernel space: the nearer to the rank, the better.
# Seven rounds leave the same error on cubic surfaces and a table, in a third more time.
COMPLETION_EPS = (1e-1, 1e-3, 1e-5, 1e-7)
# Rows that are completed together, at most, and of the reference of all others: with 300, errors on digits, faces and
# surfaces grow by a tenth; with 1,000 it takes three times as long, and they fall by a twentieth.
TOGETHER = 600
# Rows that lack nothing from which on it is tried, on `HELD` of them, whether these are enough to fill in the others.
ENOUGH, HELD = 50, 30
# They are not where completing rows together would leave less than this share of the error, by how it falls from half
# of them to all. That is 17 % and less on five cubic surfaces with 3 to 7 % missing, where filling in against the
# complete rows leaves ten times as much and more (5 %: `missing`); 39 % and more on digits, tables and noisy surfaces,
# where it leaves 8 % more at most, in a tenth to a fifth of the time.
WORTH_IT = 0.25
# Times as many rows from which on that can be: with fewer no error falls so far.
MORE_ROWS = 1.25
# The eps of single rows, as a share of a row's squared length in the kernel space. A path from wide to this, which rows
# that move together need, takes three times as long and leaves no smaller error on digits, circles and surfaces.
EPS = 1e-6
# Eigenvalues of the Gram matrix, in units of eps, below which they are left out: they change dist2 by 1 % of eps.
TAIL = 0.1
# Iterations of the rows completed together, over all rounds, at most: 50 % missing on curved surfaces takes them.
MAX_ITER = 500
# Iterations of a single row, at most, and the fall of its objective, as a share, below which it is done. With 1e-3 rows
# come out of `transform` otherwise than out of `fit` (test_seen_rows_with_missing_entries_come_out_as_in_the_fit).
ROW_ITER, ROW_TOL = 30, 1e-5
# Least length of the first step of a row, as a share of the typical distance of two: the nearest rows may be equal.
LEAST_STEP = 0.003
# Rows that are filled in at a time.
BLOCK = 2000
# Entries of rows that are filled in at a time to see how well that works: a solver keeps some 20 arrays of them.
AT_A_TIME = 60_000

Counter = Callable[[int, float], None] | None
"""Told the number of rows done so far, and the share that was."""
# Part of the seed that breaks ties among rows: data made with the seed 0 must not be sorted by its own numbers.
TIES = 0x7469
Showing = Callable[..., AbstractContextManager[Any]]
"""Gives a context with a callback, from what is done and how many steps it takes at most (0: not known); what counts
steps may be told what the value is that the callback gets with their number."""


def fill_missing(X: Array, *, n_neighbors: int = N_NEIGHBORS) -> Array:
    """Return X with each missing entry x_ij replaced by the mean of feature j over the nearest rows that have it.

    Nearest by `observed_squared_distances`; the median of the feature where it cannot be measured to any row that has
    the feature. A row or a column without any value raises ValueError.

    >>> import numpy as np
    >>> fill_missing(np.array([[0.0, 0.0], [0.1, np.nan], [5.0, 6.0]]), n_neighbors=1)
    array([[0. , 0. ],
           [0.1, 0. ],
           [5. , 6. ]])
    """
    missing = check_missing(X)
    filled = X.copy()
    medians = column_medians(X)
    incomplete = np.flatnonzero(missing.any(axis=1))
    for block in row_blocks(incomplete.size, X.shape[0]):
        rows = incomplete[block]
        distances = observed_squared_distances(X[rows], X)
        distances[np.arange(rows.size), rows] = np.inf
        for j in np.flatnonzero(missing[rows].any(axis=0)):
            holes = missing[rows, j]
            donors = np.flatnonzero(~missing[:, j])
            filled[rows[holes], j] = _nearest_mean(distances[holes][:, donors], X[donors, j], n_neighbors, medians[j])
    return filled


def fill_from(L: Array, X: Array) -> Array:
    """Return rows with each missing entry at the mean of the nearest rows of L, which lack nothing.

    >>> import numpy as np
    >>> fill_from(np.array([[0.0, 0.0], [1.0, 6.0]]), np.array([[0.1, np.nan]]))
    array([[0.1, 3. ]])
    """
    return _from_nearest(L, X)[0]


def _from_nearest(L: Array, X: Array, left_out: NDArray[np.intp] | None = None) -> tuple[Array, Array]:
    """Return what `fill_from` does, and the standard error of the means of each row, as a length.

    `left_out` has the number of a row of `L` for each row that does not count for it.
    """
    out, missing, k = X.copy(), np.isnan(X), min(N_NEIGHBORS, len(L) - (left_out is not None))
    errors = np.zeros(len(X))
    incomplete = np.flatnonzero(missing.any(axis=1))
    for block in row_blocks(incomplete.size, max(L.shape[0], k * L.shape[1])):
        rows = incomplete[block]
        distances = observed_squared_distances(X[rows], L)
        if left_out is not None:
            distances[np.arange(rows.size), left_out[rows]] = np.inf
        nearest = np.argpartition(distances, k - 1, axis=1)[:, :k]
        values = L[nearest]
        out[rows] = np.where(missing[rows], values.mean(axis=1), X[rows])
        errors[rows] = np.sqrt((values.var(axis=1) * missing[rows]).sum(axis=1) / k)
    return out, errors


def _nearest_mean(distances: Array, values: Array, k: int, fallback: float) -> Array:
    """Return for each row of `distances` the mean of the values at its k smallest finite ones."""
    k = min(k, values.size)
    nearest = np.argpartition(distances, k - 1, axis=1)[:, :k]
    usable = np.isfinite(np.take_along_axis(distances, nearest, axis=1))
    count = usable.sum(axis=1)
    total = np.where(usable, values[nearest], 0.0).sum(axis=1)
    mean: Array = np.where(count > 0, total / np.maximum(count, 1), fallback)
    return mean


def wide_gamma(X: Array, share: float) -> float:
    """Return share / (median squared distance), NaN allowed; 1.0 where no two rows differ."""
    median = median_observed_squared_distance(X)
    return share / median if median > 0 else 1.0


def complete(
    X: Array,
    *,
    kernel: Kernel | None = None,
    max_iter: int = MAX_ITER,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise log det(K(A) + eps I) over the missing entries of X, eps falling, and return what the solver found.

    Observed entries come back bit for bit; missing ones start at `fill_missing`. The kernel is a Gaussian with gamma =
    `COMPLETION_WIDTH` / (median squared distance) unless another is given; `max_iter` counts all rounds together.

    >>> import numpy as np
    >>> angle = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)])
    >>> X[7, 2] = np.nan
    >>> bool(abs(complete(X).A[7, 2] - np.cos(2 * angle[7])) < 0.01)
    True
    """
    kernel = RBF(wide_gamma(X, COMPLETION_WIDTH)) if kernel is None else kernel
    A = fill_missing(X)
    unit = float(np.mean(kernel.diag(A), dtype=np.float64)) or 1.0
    *before, last = (
        Objective(kernel, LogDetPenalty(unit * eps, unit * COMPLETION_EPS[-1]), RowError(X, 1.0), lam=0.0)
        for eps in COMPLETION_EPS
    )
    scale = float(np.sqrt(median_observed_squared_distance(X))) or 1.0
    result = solve_reduced(
        last,
        A.astype(np.float64),  # the rounding of a float32 Gram matrix is above the last eps
        stages=[Stage(each, ROUND_ITER) for each in before],
        free=np.isnan(X),
        scale=scale,
        max_iter=max_iter,
        callback=callback,
    )
    return replace(result, A=result.A.astype(X.dtype, copy=False))


def no_progress(description: str, total: int, label: str = "") -> AbstractContextManager[None]:
    """Return a context that shows nothing."""
    return nullcontext()


@dataclass(frozen=True)
class Filler:
    """Fills in missing entries of rows against the rows `L`, which lack nothing; each row by itself."""

    L: Array
    scale: float

    @classmethod
    def against(cls, L: Array, scale: float | None = None) -> "Filler":
        """Return one against some of the rows `L`, `TOGETHER` at most; `scale` is their typical distance."""
        if scale is None:
            scale = float(np.sqrt(median_observed_squared_distance(L))) or 1.0
        return cls(L[in_turn(np.zeros(len(L), dtype=np.intp))[:TOGETHER]], scale)

    @cached_property
    def reference(self) -> Reference:
        """The span of `L`."""
        kernel = RBF(COMPLETION_WIDTH / self.scale**2)
        return Reference.with_ridge(kernel, self.L, *eigenpairs(kernel.gram(self.L)), EPS, TAIL * EPS)

    def fill(self, X: Array, callback: Counter = None) -> Array:
        """Return the rows with missing entries filled in: from the nearest rows of `L`, then by what these span."""
        missing = np.isnan(X)
        out, errors = _from_nearest(self.L, X)
        incomplete = np.flatnonzero(missing.any(axis=1))
        for block in row_blocks(incomplete.size, 1, elements=BLOCK):
            rows = incomplete[block]
            out[rows] = _moved(self.reference, out[rows], missing[rows], errors[rows], self.scale)
            if callback is not None:
                callback(block.stop, block.stop / incomplete.size)
        return out


def fill_without(L: Array, scale: float, X: Array, left_out: NDArray[np.intp], *, start: Array | None = None) -> Array:
    """Return rows with missing entries filled in as `Filler` does it, each against all rows of `L` but one.

    `left_out` has the number of that row of `L` for each row. `L` has two rows at least. `start` are the rows with the
    first values of their missing entries, near the last ones; None is the nearest rows of `L`.
    """
    others = Others.of(RBF(COMPLETION_WIDTH / scale**2), L, EPS, left_out)
    nearest = _from_nearest(L, X, left_out) if start is None else (start.copy(), np.zeros(len(X)))
    (out, errors), missing = nearest, np.isnan(X)
    for rows in row_blocks(*X.shape, elements=AT_A_TIME):
        out[rows] = _moved(others.rows(rows), out[rows], missing[rows], errors[rows], scale)
    return out


def _moved(reference: Reference | Others, A: Array, missing: NDArray[np.bool_], errors: Array, scale: float) -> Array:
    """Return rows with their missing entries moved into the span; the first step is as long as the start may be off."""
    steps = np.maximum(errors, LEAST_STEP * scale)
    return move_into_span(reference, A, missing, scale=steps, max_iter=ROW_ITER, tol=ROW_TOL)


def in_turn(n_missing: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows in order of how much they lack, at random where that is the same; one row more changes little."""
    return np.lexsort((np.random.default_rng([TIES, 0]).random(len(n_missing)), n_missing))


class Filled(NamedTuple):
    """Rows with missing entries filled in, float64, and whether Ctrl-C ended it."""

    A: Array
    interrupted: bool


def fill_table(X: Array, *, solving: Showing = no_progress, counting: Showing = no_progress) -> Filled:
    """Return rows with missing entries filled in.

    `solving` gives a context with a callback for each iteration over the rows completed together, `counting` one for
    each block of the others. After Ctrl-C what is left comes from the nearest rows.
    """
    A = X.astype(np.float64)
    n_missing = np.isnan(A).sum(axis=1)
    order, done = in_turn(n_missing), int((n_missing == 0).sum())
    first = order[:TOGETHER]
    try:
        if not _are_enough(A[order[:done]], A[order[done:]]):
            with solving("filling in", MAX_ITER) as callback:
                result = complete(A[first], callback=callback)
            A[first], done = result.A, first.size
            if result.stop_reason == "interrupted":
                return Filled(fill_from(A[first], A), True)
        scale = float(np.sqrt(median_observed_squared_distance(X))) or 1.0
        with counting("filling in", len(A), "") as callback:
            some = np.flatnonzero(n_missing[first]) if done < first.size else np.zeros(0, dtype=np.intp)
            while done < first.size:
                batch = first[done : 2 * done]
                A[batch] = Filler(A[first[:done]], scale).fill(A[batch], callback and partial(_later, callback, done))
                done += len(batch)
            if some.size:  # once more, each against all others: up to now these were the rows before it
                A[first[some]] = fill_without(A[first], scale, X[first[some]], some, start=A[first[some]])
            rest = order[done:]
            A[rest] = Filler(A[first], scale).fill(A[rest], callback and partial(_later, callback, done))
    except KeyboardInterrupt:
        return Filled(fill_from(A[order[:done]], A), True)
    return Filled(A, False)


def _are_enough(L: Array, others: Array) -> bool:
    """Return whether the rows `L`, which lack nothing, are enough to fill in others against them.

    They are not where the error of entries that are hidden in some of them falls so fast with their number that it
    would be far smaller with all rows that can be completed together.
    """
    more = min(len(L) + len(others), TOGETHER) / max(len(L), 1)
    if len(L) < ENOUGH or more <= MORE_ROWS:
        return len(L) >= ENOUGH
    held = 2 * np.arange(min(len(L) // 2, HELD))
    hidden = np.isnan(others[np.linspace(0, len(others) - 1, held.size).astype(np.intp)])
    unknown, scale = np.where(hidden, np.nan, L[held]), float(np.sqrt(median_observed_squared_distance(L))) or 1.0
    both = (L, held), (L[::2], held // 2)
    of_all, of_half = (
        np.linalg.norm(fill_without(rows, scale, unknown, left_out) - L[held]) for rows, left_out in both
    )
    return bool(of_all >= WORTH_IT ** (1.0 / np.log2(more)) * of_half)


def _later(callback: Callable[[int, float], None], before: int, done: int, value: float) -> None:
    """Count the rows done before too."""
    callback(before + done, value)
