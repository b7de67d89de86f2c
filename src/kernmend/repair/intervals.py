"""Intervals of mended values: a half-width for each, the product of a quantile and a scale, or those of the column.

    half-width of entry j of a mended row a = q(kind) f_j(kind) s_j(a),
    s_j(a)^2 = mean over the nearest good rows b of (b_j - a_j)^2  +  (FLOOR spread_j)^2

The scale f s is known before the truth is. s is large where good rows differ from each other. For single entries, f is
large for columns of which the others say little (`column_factors`); for rows that are wrong as a whole it is 1. The
quantile q is one for each kind of change (`KINDS`) and comes from `conformal.py`.

Where this would be wider than the column, the mended value says nothing. The truth is then one of the values of its
column, whatever became of the row: the interval is the central share of the good values (`own_intervals`), and reaches
to the mended value. The quantiles are those of the other values alone, so that both sorts are covered at the level.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect.entries import Conditional
from kernmend.linalg.distances import row_blocks, squared_distances

KINDS = ("whole", "one", "several", "missing")
"""What rows are changed in: as a whole, in one wrong entry, in several, or only where they lack entries."""
WHOLE, ONE, SEVERAL, MISSING = range(4)
NEAREST = 12
"""Good rows that a scale is the spread of: the relative error of a standard deviation of 12 values is a fifth."""
MOST = 600
"""Good rows among which the nearest are looked for, at most, for the time it takes."""
BLOCK = 200_000
"""Differences from nearest rows that are held at a time, 1.6 MB: blocks of a million are no faster."""
FLOOR = 0.1
"""Least scale, as a share of the spread of the column: nearest rows may be equal to each other by chance."""
SAME = 1e-12
"""Squared distance of a row from itself, at most, as a share of the variance: what rounding leaves."""


@dataclass(frozen=True)
class Intervals:
    """How sure mended values are, at one level.

    `quantiles` has the multiple of the scale for each of `KINDS`, infinite where nothing is known of a kind, `wrong`
    the share of the values changed in this way that were wrong, `factors` those of each column for single entries.
    `lowest` and `highest` are the ends of the intervals of the columns themselves, and `spreads` their standard
    deviations; `L` are good rows. All are in the units in which rows are compared.
    """

    level: float
    quantiles: Array
    wrong: Array
    factors: Array
    lowest: Array
    highest: Array
    spreads: Array
    L: Array

    @classmethod
    def against(cls, L: Array, level: float, quantiles: Array, wrong: Array, factors: Array) -> "Intervals":
        """Return the intervals with scales from the good rows `L`."""
        low, high = own_intervals(L, level)
        return cls(level, quantiles, wrong, factors, low, high, L.std(axis=0), some_rows(L))

    def half_widths(self, A: Array, kinds: NDArray[np.intp]) -> Array:
        """Return the half-widths of the entries of mended rows, `kinds` saying in what each row was changed."""
        quantiles = self.quantiles[kinds][:, np.newaxis]
        scale = scales(A, self.L, self.spreads) * by_kind(self.factors, kinds)
        out: Array = np.where(np.isinf(quantiles), np.inf, np.where(np.isinf(quantiles), 1.0, quantiles) * scale)
        return out

    @property
    def widths(self) -> Array:
        """The widths of the intervals of the columns themselves."""
        return self.highest - self.lowest

    def unsure(self, half_widths: Array) -> NDArray[np.bool_]:
        """Return which intervals are wider than their column: they say no more than that the value is one of it."""
        out: NDArray[np.bool_] = np.isinf(half_widths) | (2.0 * half_widths > self.widths)
        return out


def own_intervals(L: Array, level: float) -> tuple[Array, Array]:
    """Return the ends of the central share `level` of the values of each column; of its range where these are equal.

    One more row like these lies between them with a chance of `level`. They are infinite where rows are too few.

    >>> [end.tolist() for end in own_intervals(np.arange(19.0)[:, np.newaxis], 0.8)]
    [[1.0], [17.0]]
    """
    n, values = len(L), np.sort(L, axis=0)
    first = int(np.floor((n + 1) * (1.0 - level) / 2.0 + 1e-9)) - 1
    if first < 0:
        infinite = np.full(L.shape[1], np.inf)
        return -infinite, infinite
    low, high = values[first], values[n - 1 - first]
    return np.where(high > low, low, values[0]), np.where(high > low, high, values[-1])


def by_kind(factors: Array, kinds: Any) -> Array:
    """Return the factors of the columns for rows that are changed in single entries, 1 for others."""
    return np.where(np.reshape(kinds, (-1, 1)) == WHOLE, 1.0, factors)


def column_factors(L: Array) -> Array:
    """Return for each column how far the other columns are off from it, in units of its typical scale.

    The first is the root mean square error of predicting a column of good rows from the others, leave-one-out.
    """
    every, spreads = some_rows(L), L.std(axis=0)
    size = np.where(spreads > 0, spreads, 1.0)
    Z = (every - every.mean(axis=0)) / size
    errors = np.sqrt(np.mean(np.square(Z - Conditional.of(Z).predict(Z, np.arange(len(Z)))), axis=0))
    typical = np.sqrt(np.mean(np.square(scales(every, every, spreads)), axis=0)) / size
    out: Array = np.maximum(errors, FLOOR) / np.where(typical > 0, typical, 1.0)
    return out


def some_rows(L: Array, most: int = MOST) -> Array:
    """Return at most so many of the rows, evenly spaced."""
    return L if len(L) <= most else L[evenly(len(L), most)]


def evenly(n: int, most: int = MOST) -> NDArray[np.intp]:
    """Return at most so many of the first n numbers, evenly spaced."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp)


def scales(A: Array, L: Array, spreads: Array, left_out: NDArray[np.intp] | None = None) -> Array:
    """Return the root mean square difference of each entry from those of the nearest other rows of `L`, with its floor.

    A row of `L` that is equal to a row of `A` is that row itself, and does not count. Nor does the one whose number is
    in `left_out`, one for each row of `A`, -1 for none: the truth of a row that is tried.

    >>> scales(np.array([[0.0]]), np.array([[-3.0], [4.0], [0.0]]), np.array([0.0]))
    array([[3.53553391]])
    """
    out, size = np.empty(A.shape), SAME * float(np.square(spreads).sum())
    for rows in row_blocks(len(A), max(len(L), NEAREST * A.shape[1]), elements=BLOCK):
        distances = squared_distances(A[rows], L)
        distances[distances <= size] = np.inf
        if left_out is not None:
            known = np.flatnonzero(left_out[rows] >= 0)
            distances[known, left_out[rows][known]] = np.inf
        nearest = np.argpartition(distances, min(NEAREST, len(L)) - 1, axis=1)[:, :NEAREST]
        squares = np.square(L[nearest] - A[rows][:, np.newaxis])
        others = np.isfinite(np.take_along_axis(distances, nearest, axis=1))
        out[rows] = np.einsum("ikj,ik->ij", squares, others) / np.maximum(others.sum(axis=1), 1)[:, np.newaxis]
    return np.asarray(np.sqrt(out + np.square(FLOOR * spreads)))


def conformal_quantile(residuals: Array, level: float, weights: Array | None = None, limits: Any = np.inf) -> float:
    """Return the least value q that one more residual, exchangeable with these, exceeds with a chance of 1 - level.

    It is the one of rank ceil((m + 1) level) of the m residuals, infinite where there are too few. With weights, it is
    the first at which their sum is level times that of all, the one more with the mean weight among them. With limits,
    only the residuals whose limit is q or more count for q.

    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9), conformal_quantile(np.arange(8.0), 0.9)
    (9.0, inf)
    >>> conformal_quantile(np.array([1.0, 1.0, 9.0, 9.0]), 0.6, limits=np.array([5.0, 5.0, 0.5, 0.5]))
    1.0
    """
    if not residuals.size:
        return float("inf")
    weights = np.ones(residuals.size) if weights is None else weights / weights.mean()
    limits = np.broadcast_to(np.asarray(limits, dtype=np.float64), residuals.shape)
    q = np.sort(residuals)
    within = _sum_below(residuals, weights, q, "right")
    # Those beyond their limit, and those of them that are within: max(residual, limit) <= q, limit < q.
    beyond = _sum_below(limits, weights, q, "left")
    both = _sum_below(np.maximum(residuals, np.nextafter(limits, np.inf)), weights, q, "right")
    reached = within - both >= level * (weights.sum() - beyond + 1.0) * (1.0 - 1e-12)
    return float(q[np.argmax(reached)]) if reached.any() else float("inf")


def _sum_below(values: Array, weights: Array, points: Array, side: Any) -> Array:
    """Return the sum of the weights of the values below each point; `side` "right" counts equal ones too."""
    order = np.argsort(values)
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    out: Array = sums[np.searchsorted(values[order], points, side=side)]
    return out
