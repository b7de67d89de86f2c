"""Rows, seen or new, judged and mended against the good ones, and how sure mended values are.

An interval is a half-width on both sides of a mended value, the product of a quantile and a scale, or the interval of
the column:

    half-width of entry j of a mended row a = q(kind) f_j(kind) s_j(a),
    s_j(a)^2 = mean over the nearest good rows b of (b_j - a_j)^2  +  (FLOOR spread_j)^2

The scale f s is known before the truth is. s is large where good rows differ from each other. For single entries, f is
large for columns of which the others say little (`column_factors`); for rows that are wrong as a whole it is 1. The
quantile q is one for each kind of change (`KINDS`) and comes from `conformal.py`.

Where this would be wider than the column, the mended value says nothing. The truth is then one of the values of its
column, whatever became of the row: the interval is the central share of the good values (`own_intervals`), and reaches
to the mended value. The quantiles are those of the other values alone, so that both sorts are covered at the level.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector, Found
from kernmend.detect.entries import Conditional
from kernmend.linalg.distances import row_blocks, squared_distances
from kernmend.repair.mender import Mender, Settings
from kernmend.repair.units import Units

PER_ROW = ("outlier_scores_", "outliers_", "suspects_", "whole_rows_", "entry_scores_", "entry_outliers_")
"""What is found of each row, by the names of the estimator's attributes."""

Mask = NDArray[np.bool_] | None

BLOCK = 1500  # Rows that are judged and mended at a time: with 2,000 a fit of 5,000 × 5 takes 9 MB more (`missing`).
KINDS = ("whole", "one", "several", "missing")
"""What rows are changed in: as a whole, in one wrong entry, in several, or only where they lack entries."""
WHOLE, ONE, SEVERAL, MISSING = range(4)
NEAREST = 12
"""Good rows that a scale is the spread of: the relative error of a standard deviation of 12 values is a fifth."""
MOST = 600
"""Good rows among which the nearest are looked for, at most, for the time it takes."""
DIFFERENCES = 200_000
"""Differences from nearest rows that are held at a time, 1.6 MB: blocks of a million are no faster."""
FLOOR = 0.1
"""Least scale, as a share of the spread of the column: nearest rows may be equal to each other by chance."""
SAME = 1e-12
"""Squared distance of a row from itself, at most, as a share of the variance: what rounding leaves."""


def blocks(n: int, size: int = BLOCK, *, first: int = 0) -> Iterator[slice]:
    """Yield slices of n rows, a block at a time.

    If these are not all rows, `first` is the number of the first one: cuts are where those of all rows would be, so
    that products have the same sizes and round in the same way.
    """
    cuts = [0, *range(size - first % size, n, size), n]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield slice(start, stop)


@dataclass(frozen=True)
class RowMender:
    """All that is needed to mend rows: units, good rows, how to tell wrong rows, how to mend them, and the budget.

    Rows come and go in the units of the data (`mend`, `judge`); the other methods work in `units`.
    """

    units: Units
    mender: Mender
    settings: Settings
    detector: Detector
    filling: Settings | None
    """How wrong entries are filled in; None is by what the other entries of their row say."""
    by_entries: bool
    """Whether only the entries found wrong are changed, where there are such."""
    entry_tolerance: float
    """The change of an entry, in `units`, beyond which it counts as replaced."""
    max_iter: int
    tol: float
    intervals: "Intervals | None" = None
    """How sure mended values are; None is not asked for."""
    unsure: str = "mend"
    """What becomes of values whose interval is wider than their column: "mend", "blank" (NaN) or "keep"."""

    def mend(
        self, X: Array, good: Mask = None, wrong: Mask = None, *, entry_scores: bool = False
    ) -> tuple[Array, dict[str, Any]]:
        """Return the rows mended, and what was found of them, by the names of `PER_ROW` and those that `trust` adds.

        Rows that fit come back as they are, missing entries filled in; `good` and `wrong` are masks of known rows.
        Scores of entries that decide nothing are 0 unless they are asked for.
        """
        inside = self.enter(X)
        filled = self.fill(inside)
        found = self.detector.find(filled, entry_scores=entry_scores).with_known(good, wrong)
        found = self.within_bounds(filled, found)
        A = self.mend_found(inside, filled, found)[0]
        of_rows = self.per_row(inside, A, found)
        A, sure = self.trust(inside, A, found)
        return self.units.leave(A, X), of_rows | leave_units(sure, self.units, X)

    def judge(self, X: Array) -> Found:
        """Return what is found of rows, which are not mended."""
        return self.detector.find(self.fill(self.enter(X)), entry_scores=False)

    def enter(self, X: Array) -> Array:
        """Return rows of the data in `units`."""
        return np.ascontiguousarray(self.units.enter(X), dtype=np.float64)

    def fill(self, X: Array) -> Array:
        """Return the rows with missing entries filled in: from the nearest good rows, then by what these span."""
        return self.mender.filler.fill(X) if np.isnan(X).any() else X

    def within_bounds(self, filled: Array, found: Found) -> Found:
        """Return what was found of rows, with entries outside the bounds wrong too where single entries are.

        `filled` are the rows that lack nothing.
        """
        if self.mender.bounds is None:
            return found
        low, high = self.mender.bounds
        outside = ((filled < low) | (filled > high)) & self.partly_wrong(found)[:, np.newaxis] & ~found.entries
        at = np.flatnonzero(outside.any(axis=1))
        entries, guess = found.entries | outside, found.filled.copy()
        guess[at] = self.detector.expected(filled[at], entries[at])
        return replace(found, entries=entries, filled=guess)

    def mend_found(self, X: Array, filled: Array, found: Found) -> tuple[Array, list[float], bool]:
        """Return the rows mended, the objective of those mended as a whole, and whether that converged.

        Where single entries are wrong, these and the missing ones are filled in and nothing else is changed; rows
        that are wrong as a whole move as the settings say.
        """
        out, missing = filled.copy(), np.isnan(X)
        budget: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
        partly = self.partly_wrong(found)
        whole = found.rows & ~partly
        holes = (found.entries & partly[:, np.newaxis]) | missing
        holes[whole] = False
        some = partly & (holes & ~missing).any(axis=1)
        out[some] = np.where(found.entries[some], found.filled[some], out[some])
        by_kernel = some & (missing.any(axis=1) | (self.filling is not None))
        if by_kernel.any():
            unknown = np.where(holes[by_kernel], np.nan, X[by_kernel])
            out[by_kernel] = self.mender.mend_with_history(
                unknown, self._how_to_fill(), start=out[by_kernel], free=holes[by_kernel], **budget
            )[0]
        if not whole.any():
            return out, [0.0, 0.0], True  # the objective of no rows, before and after
        start = self.mender.start(out[whole], self.settings.error)
        out[whole], totals, converged = self.mender.mend_with_history(X[whole], self.settings, start=start, **budget)
        return out, totals, converged

    def per_row(self, X: Array, A: Array, found: Found) -> dict[str, Any]:
        """Return what was found of rows `X` that were mended to `A`, by the names of `PER_ROW`."""
        changed = np.abs(np.nan_to_num(A - X)) > self.entry_tolerance
        partly = self.partly_wrong(found)[:, np.newaxis]
        entries = np.where(partly, found.entries, changed & found.rows[:, np.newaxis])
        whole = found.rows & ~partly[:, 0]
        return dict(
            zip(PER_ROW, (found.scores, found.rows, found.suspects, whole, found.entry_scores, entries), strict=True)
        )

    def trust(self, X: Array, A: Array, found: Found) -> tuple[Array, dict[str, Any]]:
        """Return rows `X` that were mended to `A` with unsure values as asked for, and how sure each value is.

        That is `unsure_`, and `half_widths_` where there are intervals: 0 for values that did not change.
        """
        if self.intervals is None:
            return A, {"unsure_": np.zeros(A.shape, dtype=bool)}
        changed = A != X
        rows = np.flatnonzero(changed.any(axis=1))
        half, kinds = np.zeros(A.shape), self.kinds(found)
        half[rows] = np.where(changed[rows], self.intervals.half_widths(A[rows], kinds[rows]), 0.0)
        unsure = changed & self.intervals.unsure(half)
        if self.unsure != "mend":
            A = np.where(unsure, np.nan if self.unsure == "blank" else X, A)
        return A, {"unsure_": unsure, "half_widths_": half}

    def kinds(self, found: Found) -> NDArray[np.intp]:
        """Return in what each row is changed, if it is: a number of `KINDS`."""
        entries = np.where(found.entries.sum(axis=1) > 1, SEVERAL, ONE)
        return np.where(self.partly_wrong(found), entries, np.where(found.rows, WHOLE, MISSING))

    def partly_wrong(self, found: Found) -> NDArray[np.bool_]:
        """Return which rows are wrong in single entries only: without these they look as good rows do."""
        return found.rows & ~found.whole if self.by_entries else np.zeros(len(found.rows), dtype=bool)

    def mended_anyway(self, X: Array, flagged: NDArray[np.bool_]) -> Array:
        """Return rows of the data as they would be if unsure values were mended as all others."""
        return replace(self, intervals=None).mend(X, ~flagged, flagged)[0]

    def ends(
        self, new: Array, half: Array, unsure: NDArray[np.bool_], columns: NDArray[np.intp]
    ) -> tuple[Array, Array]:
        """Return the ends of the intervals of values of some columns, in the units of the data.

        Those of unsure values are the ends of their columns' own intervals, and reach to the value. Rows in units of
        their own have none of these: what the columns of good rows span says little of a row whose units are wrong.
        """
        low, high = new - half, new + half
        if self.intervals is not None and not self.units.by_rows:
            low = np.where(unsure, np.fmin(self._of_columns(self.intervals.lowest)[columns], new), low)
            high = np.where(unsure, np.fmax(self._of_columns(self.intervals.highest)[columns], new), high)
        if self.mender.bounds is None:
            return low, high
        least, most = (self._of_columns(side)[columns] for side in self.mender.bounds)
        return np.maximum(low, least), np.minimum(high, most)

    def _of_columns(self, values: Array) -> Array:
        """Return one value of each column in the units of the data, where these are not those of rows."""
        out: Array = self.units.back(values[np.newaxis], values[np.newaxis])[0]
        return out

    def expectation(self, X: Array, told: NDArray[np.bool_], *, whole: bool, new: Array) -> tuple[Array, Array]:
        """Return what the marked entries of one row are expected to be, and how far good rows are from that (one sd).

        That is what the other entries of the row say; in a row that is wrong as a whole, what it became, `new`, and the
        spread of the nearest good rows. `X` and `new` have one row, in the units of the data.
        """
        size, L = np.broadcast_to(self.units.size(X), X.shape)[0], self.mender.L
        if whole or not told.any():
            near = self.enter(np.where(np.isnan(new), X, new))
            spread = scales(self.fill(near), some_rows(L), np.zeros(L.shape[1]))[0]
            return new[0], spread * size
        inside = self.fill(self.enter(X))
        expected = self.detector.expected(inside, told[np.newaxis])
        every = some_rows(L)
        errors = every - self.detector.expected(every, np.broadcast_to(told, every.shape))
        return self.units.back(expected, X)[0], np.sqrt(np.mean(np.square(errors), axis=0)) * size

    def _how_to_fill(self) -> Settings:
        return replace(self.filling or self.settings, refit=0.0, grow=0)


def leave_units(found: dict[str, Any], units: Units, X: Array) -> dict[str, Any]:
    """Return what `RowMender.trust` found with half-widths in the units of the data `X`, as float32."""
    if "half_widths_" not in found:
        return found
    with np.errstate(over="ignore"):  # infinite from 3e38 on: nothing is known then
        return found | {"half_widths_": (found["half_widths_"] * units.size(X)).astype(np.float32)}


# --- how sure mended values are ---------------------------------------------------------------------------------------


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
    for rows in row_blocks(len(A), max(len(L), NEAREST * A.shape[1]), elements=DIFFERENCES):
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
