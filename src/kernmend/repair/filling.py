"""Missing entries of any number of rows, in time that grows with their number.

    one row, all others fixed:  minimise over its missing entries a  log(dist2(a) + eps)
    dist2(a) = k(a, a) - k(a, L) (K(L) + eps I)^-1 k(L, a)

This is what `completion.complete` minimises, log det(K + eps I), as a function of one row. So few rows are completed
together, and all others one by one, in blocks, against those. The rows that come first are the most complete ones.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.distances import median_observed_squared_distance, row_blocks
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.kernels import RBF
from kernmend.repair.completion import COMPLETION_WIDTH, complete, fill_from
from kernmend.solvers.reference import Others, Reference, move_into_span

# Rows that are completed together, at most, and of the reference of all others: with 300, errors on digits, faces and
# surfaces grow by a tenth; with 1,000 it takes three times as long, and they fall by a twentieth.
TOGETHER = 600
# Rows that lack nothing from which on no rows are completed together: others are filled in against these, in batches
# that each double the reference. On 3,000 × 30 with 10 % missing the error is the same.
ENOUGH = 100
# The eps of single rows, as a share of a row's squared length in the kernel space. A path from wide to this, which rows
# that move together need, takes three times as long and leaves no smaller error on digits, circles and surfaces.
EPS = 1e-6
# Eigenvalues of the Gram matrix, in units of eps, below which they are left out: they change dist2 by 1 % of eps.
TAIL = 0.1
# Iterations of the rows completed together, over all rounds, at most: 50 % missing on curved surfaces takes them.
MAX_ITER = 500
# Iterations of a single row, at most.
ROW_ITER = 30
# Rows that are filled in at a time.
BLOCK = 2000
# Entries of rows that are filled in at a time to see how well that works: a solver keeps some 20 arrays of them.
AT_A_TIME = 60_000

Counter = Callable[[int, float], None] | None
"""Told the number of rows done so far, and the share that was."""
# Part of the seed that breaks ties among rows: data made with the seed 0 must not be sorted by its own numbers.
TIES = 0x7469
Showing = Callable[[str, int], AbstractContextManager[Any]]
"""Gives a context with a callback, from what is done and how many steps it takes at most."""


def no_progress(description: str, total: int) -> AbstractContextManager[None]:
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
        out = fill_from(self.L, X)
        incomplete = np.flatnonzero(missing.any(axis=1))
        for block in row_blocks(incomplete.size, 1, elements=BLOCK):
            rows = incomplete[block]
            out[rows] = move_into_span(
                self.reference, out[rows], missing[rows], scale=0.1 * self.scale, max_iter=ROW_ITER
            )
            if callback is not None:
                callback(block.stop, block.stop / incomplete.size)
        return out


def fill_without(L: Array, scale: float, X: Array, left_out: NDArray[np.intp]) -> Array:
    """Return rows with missing entries filled in as `Filler` does it, each against all rows of `L` but one.

    `left_out` has the number of that row of `L` for each row. `L` has two rows at least.
    """
    others = Others.of(RBF(COMPLETION_WIDTH / scale**2), L, EPS, TAIL * EPS, left_out)
    out, missing = fill_from(L, X, left_out=left_out), np.isnan(X)
    for rows in row_blocks(*X.shape, elements=AT_A_TIME):
        some = replace(others, left_out=left_out[rows])
        out[rows] = move_into_span(some, out[rows], missing[rows], scale=0.1 * scale, max_iter=ROW_ITER)
    return out


def in_turn(n_missing: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows in order of how much they lack, at random where that is the same; one row more changes little."""
    return np.lexsort((np.random.default_rng([TIES, 0]).random(len(n_missing)), n_missing))


def fill_table(X: Array, *, solving: Showing = no_progress, counting: Showing = no_progress) -> tuple[Array, bool]:
    """Return rows with missing entries filled in, float64, and whether Ctrl-C ended it.

    `solving` gives a context with a callback for each iteration over the rows completed together, `counting` one for
    each block of the others. After Ctrl-C what is left comes from the nearest rows.
    """
    A = X.astype(np.float64)
    n_missing = np.isnan(A).sum(axis=1)
    order, done = in_turn(n_missing), int((n_missing == 0).sum())
    if done < ENOUGH:
        done = min(TOGETHER, len(A))
        first = order[:done]
        with solving("filling in", MAX_ITER) as callback:
            result = complete(A[first], max_iter=MAX_ITER, callback=callback)
        A[first] = result.A
        if result.stop_reason == "interrupted":
            return fill_from(A[first], A), True
    scale = float(np.sqrt(median_observed_squared_distance(X))) or 1.0
    try:
        with counting("filling in", len(A)) as callback:
            while done < len(A):
                batch = order[done:] if done >= TOGETHER else order[done : 2 * done]
                reference = A[order[: min(done, TOGETHER)]]
                A[batch] = Filler(reference, scale).fill(A[batch], callback and partial(_later, callback, done))
                done += len(batch)
    except KeyboardInterrupt:
        return fill_from(A[order[:done]], A), True
    return A, False


def _later(callback: Callable[[int, float], None], before: int, done: int, value: float) -> None:
    """Count the rows done before too."""
    callback(before + done, value)
