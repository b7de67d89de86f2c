"""Rows, seen or new, judged and mended against the good ones."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector, Found
from kernmend.repair.intervals import MISSING, ONE, SEVERAL, WHOLE, Intervals, scales, some_rows
from kernmend.repair.mender import Mender, Settings
from kernmend.repair.units import Units

PER_ROW = ("outlier_scores_", "outliers_", "suspects_", "whole_rows_", "entry_scores_", "entry_outliers_")
"""What is found of each row, by the names of the estimator's attributes."""

Mask = NDArray[np.bool_] | None

BLOCK = 2000  # Rows that are mended at a time.


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
    intervals: Intervals | None = None
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
