"""Entries that are hidden and predicted by the Schatten path: whether what it changes are gross errors.

Where every row may have wrong entries, none is known to be good. Some observed entries are hidden and filled in by the
same path. If it replaced all entries by such predictions, what that costs on those which it leaves should be clearly
less than what it gains on those which it changes: else it draws in what it does not describe.
"""

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.repair.joint import ENTRIES_EPS, Problem, solve_schatten

HIDDEN, HIDDEN_OF_COLUMN = 0.1, 90
"""Share of the entries that are hidden at a time, and how many of each column in all, at least, where it has so many:
with 40 of each column what is typical of 130 digits is not seen."""
HIDDEN_ROUNDS, HIDDEN_ITERATIONS = 2, 60
"""Last rounds of the path and iterations of each, to predict hidden entries beside what it made of the others: all five
rounds take 2.5 times the time, and half of the entries of a cubic surface wrong are predicted worse."""
ALIKE = 15
"""Hidden entries of a column, those predicted most alike, whose median error is what is typical there: with the whole
column 400 digits, patches of a photograph and standardised tables, all clean, have costs of 0.26, 0.09 and 0.56; with
15 they have 1.7, 1.4 and 0.67, and cubic surfaces up to half of whose 100 × 20 entries are wrong 0.08 to 0.42."""
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
    the second is that of hidden entries that it changes, times their number. Both errors are medians, in units of what
    is typical of entries of the column that are predicted alike: the ink of pictures is predicted worse than the paper
    between, and is changed most, though it is as right. At most half of all count as changed: beyond, what is left of
    the noise tells nothing. Infinite where no entry of either kind can be hidden.
    Where the path changes what is merely noise, changed entries are the larger residuals of one distribution, and the
    cost is above 0.6 if it is normal (0.69 to 1.65 on noisy surfaces and on noise about a space of three dimensions).

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
    observed = ~np.isnan(rows)
    whole = np.where(observed, rows, start)  # missing entries are as the path filled them in
    turn = rng.permutation(rows.size).reshape(rows.shape) / (HIDDEN * rows.size)
    rounds: dict[str, Any] = {"eps": ENTRIES_EPS[-HIDDEN_ROUNDS:], "round_iter": HIDDEN_ITERATIONS}
    predicted, unit = np.full(rows.shape, np.nan), column_units(rows)
    for hiding in range(min(math.ceil(HIDDEN_OF_COLUMN / (HIDDEN * len(rows))), round(1 / HIDDEN))):
        hidden = (turn.astype(np.intp) == hiding) & observed
        hidden &= ~hidden.all(axis=1, keepdims=True)
        held = Problem.of(np.where(hidden, np.nan, whole), problem.sizes.kernel, problem.model)
        begin = np.where(hidden, held.filled, start)
        most = HIDDEN_ROUNDS * HIDDEN_ITERATIONS
        predicted[hidden] = solve_schatten(held, lam=lam, init=begin, max_iter=most, tol=1e-5, **rounds).A[hidden]
    relative, known = np.abs((predicted - rows) / unit), ~np.isnan(predicted)
    for errors, values, there in zip(relative.T, predicted.T, known.T, strict=True):
        typical = typical_errors(errors[there], values[there])
        errors[there] /= np.where(typical > 0, typical, 1.0)
    left, replaced = (relative[which & known] for which in (~changed, changed))
    if min(left.size, replaced.size) == 0:
        return float("inf")
    share = float(changed[observed].mean()) if share is None else share
    gained = float(np.median(replaced)) * min(share, 0.5)
    return float(np.median(left)) / max(gained, float(np.finfo(np.float64).tiny))


def typical_errors(errors: Array, predicted: Array) -> Array:
    """Return, for each error, the median over the `ALIKE` errors whose predicted values are most alike, its own too."""
    order, width = np.argsort(predicted, kind="stable"), min(ALIKE, len(errors))
    out = np.empty_like(errors)
    if width > 0:
        medians = np.median(sliding_window_view(errors[order], width), axis=1)
        out[order] = medians[np.clip(np.arange(len(errors)) - width // 2, 0, len(medians) - 1)]
    return out
