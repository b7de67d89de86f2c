"""What was changed, why, and how sure that is: the attributes and calls that estimators of flagged rows share."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kernmend._typing import Array
from kernmend.linalg.distances import squared_distances
from kernmend.repair.changes import CHANGE, Changes, Reasons, changed_entries
from kernmend.repair.explain import CellReason, Explanation, sentences
from kernmend.repair.row_mender import RowMender

NEAREST = 5  # good rows that an explanation names


class Explanations(Sequence[Explanation]):
    """The explanations of the flagged rows, each made when it is asked for; `rows` are their numbers."""

    def __init__(self, est: Any, rows: NDArray[np.intp]) -> None:
        self._est, self.rows = est, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return Explanations(self._est, self.rows[which])
        return self._est.explain(int(self.rows[which]))

    def __iter__(self) -> Iterator[Explanation]:
        return (self._est.explain(int(row)) for row in self.rows)

    def __repr__(self) -> str:
        return f"<Explanations of {len(self)} flagged row{'' if len(self) == 1 else 's'}>"


class Explained:
    """Estimators that can say what they changed in each row, why, and how sure that is."""

    @property
    def _row_mender(self) -> RowMender:
        """What judges and mends rows."""
        fitted: Any = getattr(self, "best_estimator_", self)
        rows: RowMender = fitted._rows
        return rows

    @property
    def changes_(self) -> Changes:
        """Every value that was changed or filled in, with its interval and the reason; see `Changes`."""
        est: Any = self._in_memory("changes_")
        return list_changes(est)

    @property
    def confidence_(self) -> Array:
        """The probability of each flagged row being wrong; NaN for the others.

        It is 1 - n p / k: of n good rows, n p would be as far out by chance, and k rows are. Rows that were given as
        wrong have 1.
        """
        est: Any = self._in_memory("confidence_")
        return confidence(est.outlier_scores_, est.outliers_, est.threshold_)

    def explain(self, row: int) -> Explanation:
        """Return why a row of the fit was changed, or was not: an object that prints as sentences.

        Parameters
        ----------
        row : int
            Its number, from 0 on.
        """
        est: Any = self._in_memory("explain")
        n = len(est.recovered_)
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not 0 <= row < n:
            raise IndexError(f"row must be a number from 0 to {n - 1}, got {row!r}")
        return explain(est, int(row))

    @property
    def explanations_(self) -> Explanations:
        """The explanations of all flagged rows, each made when it is asked for."""
        est: Any = self._in_memory("explanations_")
        return Explanations(est, np.flatnonzero(est.outliers_))

    def _in_memory(self, name: str) -> Any:
        """Return the fitted estimator; AttributeError after a fit to a lazy array, whose rows are not here."""
        check_is_fitted(self)
        if "_of_landmarks" in vars(self):
            raise AttributeError(f"{name} needs rows in memory: fit them, not a dask array")
        if "unsure_" not in vars(self):
            raise AttributeError(f"the model was saved by an earlier kernmend, which kept no {name}: fit it again")
        return self


def list_changes(est: Any) -> Changes:
    """Return the changes of a fitted estimator."""
    numbers = est._changed_rows
    new = np.asarray(est.recovered_)[numbers]
    which = changed_entries(est._originals, new)
    at, columns = np.nonzero(which)
    rows = numbers[at]
    records = np.zeros(len(rows), CHANGE)
    records["row"], records["column"] = rows, columns
    records["old"], records["new"] = est._originals[which], new[which]
    half = est.half_widths_[rows, columns] if hasattr(est, "half_widths_") else np.full(len(rows), np.nan)
    records["low"], records["high"] = _bounded(est, records["new"] - half, records["new"] + half, columns)
    missing = np.isnan(records["old"])
    records["kind"] = np.where(missing, "missing", "wrong")
    scores = est.outlier_scores_[rows]
    if hasattr(est, "entry_scores_"):
        scores = np.where(est.whole_rows_[rows], scores, est.entry_scores_[rows, columns])
    records["score"] = np.where(missing, np.nan, scores)
    records["accepted"] = True
    lowest, highest = ranges(est, est._originals)
    known = est.outlier_scores_[rows] <= est.threshold_
    of_columns = (np.broadcast_to(side, which.shape)[which] for side in (lowest, highest))
    return Changes(records, Reasons(est.whole_rows_[rows], known, est.unsure_[rows, columns], *of_columns))


def confidence(scores: Array, flags: NDArray[np.bool_], threshold: float) -> Array:
    """Return the probability of each flagged row being wrong, from the scores of all rows; NaN for the others.

    With n rows, and k of them with a score of at least s, at most n 10^-s of these k are good rows on average. What
    that says of a row is never less than what it says of rows with lower scores. Flagged rows whose score is not
    above the threshold are those that the user called wrong.

    >>> scores = np.array([0.1, 0.2, 0.5, 6.0])
    >>> confidence(scores, scores > 3.0, 3.0)
    array([     nan,      nan,      nan, 0.999996])
    """
    order = np.argsort(-scores, kind="stable")
    ranks = np.searchsorted(-scores[order], -scores, side="right")
    good = np.minimum(scores.size * np.power(10.0, -np.minimum(scores, 300.0)) / ranks, 1.0)
    least = np.empty(scores.size)
    least[order[::-1]] = np.minimum.accumulate(good[order[::-1]])
    return np.where(flags, np.where(scores > threshold, 1.0 - least, 1.0), np.nan)


def ranges(est: Any, X: Array) -> tuple[Array, Array]:
    """Return the lowest and the highest good value of each column, in the units of rows `X` of the data."""
    rows = est._row_mender
    low, high = rows.mender.L.min(axis=0), rows.mender.L.max(axis=0)
    return rows.units.back(low[np.newaxis], X), rows.units.back(high[np.newaxis], X)


def _bounded(est: Any, low: Array, high: Array, columns: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return the ends of intervals within the bounds of mended values, if there are such."""
    rows = est._row_mender
    if rows.mender.bounds is None:
        return low, high
    least, most = (rows.units.back(side[np.newaxis], side[np.newaxis])[0][columns] for side in rows.mender.bounds)
    return np.maximum(low, least), np.minimum(high, most)


def explain(est: Any, row: int) -> Explanation:
    """Return why a row of a fit was changed, or was not."""
    rows: RowMender = est._row_mender
    place = int(np.searchsorted(est._changed_rows, row))
    kept = place < len(est._changed_rows) and est._changed_rows[place] == row
    new = np.asarray(est.recovered_)[[row]].astype(np.float64)
    old = est._originals[[place]].astype(np.float64) if kept else new
    flagged, whole = bool(est.outliers_[row]), bool(est.whole_rows_[row])
    told = changed_entries(old, new)[0] | est.unsure_[row]
    if flagged and not whole:
        told = told | est.entry_outliers_[row]
    cells = tuple(_cells(est, row, old, new, told)) if told.any() else ()
    nearest = _nearest(est, row, rows.enter(np.where(np.isnan(new), old, new)))
    facts: dict[str, Any] = {
        "flagged": flagged,
        "suspect": bool(est.suspects_[row]),
        "score": float(est.outlier_scores_[row]),
        "threshold": float(est.threshold_),
        "whole": whole,
        "cells": cells,
        "nearest": nearest,
    }
    sure = float(est.confidence_[row])
    changed = bool(changed_entries(old, new).any())
    return Explanation(row, changed=changed, confidence=sure, sentences=sentences(row, **facts), **facts)


def _cells(est: Any, row: int, old: Array, new: Array, told: NDArray[np.bool_]) -> list[CellReason]:
    """Return the reasons of some cells of a row, those that changed most first."""
    rows: RowMender = est._row_mender
    expected, spread = rows.expectation(old, told & ~np.isnan(old[0]), whole=bool(est.whole_rows_[row]), new=new)
    half = est.half_widths_[row] if hasattr(est, "half_widths_") else np.full(told.shape, np.nan)
    columns = np.arange(told.size)
    low, high = _bounded(est, new[0] - half, new[0] + half, columns)
    scores = est.entry_scores_[row] if hasattr(est, "entry_scores_") else np.full(told.shape, np.nan)
    lowest, highest = (np.broadcast_to(side, new.shape)[0] for side in ranges(est, old))
    names = getattr(est, "feature_names_in_", None)
    size = np.abs(np.nan_to_num(new[0] - old[0])) / np.maximum(spread, np.finfo(np.float64).tiny)
    order = columns[told][np.argsort(-size[told], kind="stable")]
    parts = (old[0], new[0], low, high, scores, expected, spread, lowest, highest)
    numbers = np.column_stack(parts)[order].tolist()
    called = [f"column {j}" if names is None else str(names[j]) for j in order]
    unsure = est.unsure_[row, order].tolist()
    return [
        CellReason(int(j), *each) for j, *each in zip(order, called, *zip(*numbers, strict=True), unsure, strict=True)
    ]


def _nearest(est: Any, row: int, inside: Array) -> tuple[int, ...]:
    """Return the numbers of the good rows nearest to a row in units, without itself; none where it lacks entries."""
    good = np.flatnonzero(~est.outliers_)
    good = good[good != row]
    if not good.size or np.isnan(inside).any():
        return ()
    values = np.asarray(est.recovered_)[good]
    whole = ~np.isnan(values).any(axis=1)
    good, values = good[whole], est._row_mender.enter(values[whole])
    order = np.argsort(squared_distances(values, inside)[:, 0], kind="stable")[:NEAREST]
    return tuple(good[order].tolist())
