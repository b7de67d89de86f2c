"""Entries that are hidden and predicted by the Schatten path: whether what it changes are gross errors.

Where every row may have wrong entries, none is known to be good. Some observed entries are hidden and filled in by the
same path. If it replaced all entries by such predictions, what that costs on those which it leaves should be clearly
less than what it gains on those which it changes: else it draws in what it does not describe.
"""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.repair.joint import ENTRIES_EPS, Problem, solve_schatten

HIDDEN, HIDINGS, HIDDEN_ITERATIONS = 0.1, 3, 60
"""Share of the entries that are hidden at a time, how often, and iterations of each round to predict them: with 20 half
of the entries of a cubic surface wrong are predicted too badly to tell them."""
PATH_ROWS = 300
"""Rows of a trial of the Schatten path, at most."""


def column_units(X: Array) -> Array:
    """Return how far two thirds of the entries of each column are from its median, at most; 1 where that is 0."""
    unit = np.nanquantile(np.abs(X - np.nanmedian(X, axis=0)), 2 / 3, axis=0)
    out: Array = np.where(unit > 0, unit, 1.0)
    return out


def cost_of_hidden(
    problem: Problem, A: Array, changed: NDArray[np.bool_], lam: float, seed: int, share: float | None = None
) -> float:
    """Return what it costs to replace all entries by what the Schatten path predicts, over what doing nothing costs.

    The first is the error of hidden entries that the path leaves, which are taken for right, times the number of all;
    the second is that of hidden entries that it changes, times their number. Both errors are medians, in units of the
    typical error of each column: columns that can hardly be predicted are changed most. At most half of all count as
    changed: beyond, what is left of the noise tells nothing. Infinite where no entry of either kind can be hidden.
    Where the path changes what is merely noise, changed entries are the larger residuals of one distribution, and the
    cost is 0.6 or more if it is normal.

    Parameters
    ----------
    problem, A, lam
        The problem, what the path made of it, and its weight of the error.
    changed
        Which entries it changed.
    seed
        Of the entries that are hidden, and of the rows if there are more than `PATH_ROWS`.
    share
        Of the entries that are wrong, where that is known; None takes all that changed for wrong.
    """
    rng = np.random.default_rng(seed)
    some = np.sort(rng.permutation(len(A))[:PATH_ROWS])
    rows, changed, start = problem.X[some].astype(np.float64), changed[some], A[some].astype(np.float64)
    turn = rng.permutation(rows.size).reshape(rows.shape) / (HIDDEN * rows.size)
    off, unit = np.full(rows.shape, np.nan), column_units(rows)
    for hiding in range(HIDINGS):
        hidden = (turn.astype(np.intp) == hiding) & ~np.isnan(rows)
        hidden &= ~(np.isnan(rows) | hidden).all(axis=1, keepdims=True)
        held = Problem.of(np.where(hidden, np.nan, rows), problem.sizes.kernel, problem.model)
        begin, most = np.where(hidden, held.filled, start), len(ENTRIES_EPS) * HIDDEN_ITERATIONS
        result = solve_schatten(held, lam=lam, init=begin, round_iter=HIDDEN_ITERATIONS, max_iter=most, tol=1e-5)
        off[hidden] = np.abs((result.A - rows) / unit)[hidden]
    known = ~np.isnan(off)
    columns = zip(off.T, known.T, strict=True)
    typical = np.array([float(np.median(errors[there])) if there.any() else 1.0 for errors, there in columns])
    relative = off / np.where(typical > 0, typical, 1.0)
    left, replaced = (relative[which & known] for which in (~changed, changed))
    if min(left.size, replaced.size) == 0:
        return float("inf")
    share = float(changed[~np.isnan(rows)].mean()) if share is None else share
    gained = float(np.median(replaced)) * min(share, 0.5)
    return float(np.median(left)) / max(gained, float(np.finfo(np.float64).tiny))
