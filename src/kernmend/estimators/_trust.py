"""What was changed, why, and how sure that is: the attributes and calls that estimators of flagged rows share."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kernmend._typing import Array
from kernmend._validation import row_names
from kernmend.estimators._base import NewRowsRecovery
from kernmend.estimators._summary import CHANCE
from kernmend.large import dask as lazy
from kernmend.linalg.distances import squared_distances
from kernmend.repair.changes import CHANGE, Changes, Reasons, changed_entries
from kernmend.repair.explain import CellReason, Explanation, sentences
from kernmend.repair.row_mender import BLOCK, ONE, SEVERAL, WHOLE, RowMender, blocks

# Number of good rows that an explanation names.
NEAREST = 5
# How much of the exponent of a chance is believed where it is smaller than one in n, of n rows: no more rows than these
# show how long the tail of good ones is. Of 84 tables to choose on, 1.0, 0.3, 0.1 and 0.01 good rows each have a score
# above 4, 6, 10 and 15; by this number 0.5, 0.2, 0.05 and 0.01 of them do.
BELIEVED = 1.0 / 6.0
# What a list of changes needs of each row.
OF_ROWS = ("outlier_scores_", "outliers_", "whole_rows_", "entry_scores_", "unsure_", "half_widths_")


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

    def __repr__(self) -> str:
        return f"<Explanations of {len(self)} flagged row{'' if len(self) == 1 else 's'}>"


class Explained(NewRowsRecovery):
    """Estimators that can say what they changed in each row, why, and how sure that is."""

    _score_meaning = f"how badly the row fits the others, as {CHANCE}"

    @property
    def _row_mender(self) -> RowMender:
        """What judges and mends rows."""
        rows: RowMender = self._inner._rows
        return rows

    @property
    def changes_(self) -> Changes:
        """Every value that was changed or filled in, with its interval and the reason; see `Changes`."""
        est: Any = self._in_memory("changes_")
        numbers = np.union1d(est._changed_rows, np.flatnonzero(est.unsure_.any(axis=1)))
        found = {name: vars(est)[name][numbers] for name in OF_ROWS if name in vars(est)}
        new = np.asarray(est.recovered_)[numbers]
        old = new.copy()
        old[np.isin(numbers, est._changed_rows)] = est._originals
        return list_changes(est, numbers, old, new, found, getattr(est, "_row_names", None))

    def changes_of(self, X: Any) -> Changes:
        """Return what `transform` changes in rows, seen or new: every value, with its interval and the reason.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows; NaN means missing, inf is an error.

        Returns
        -------
        Changes
            One record for each value, in order of row and column.
        """
        changes: Changes = self._apply(X)[2]
        return changes

    def _apply(self, X: Any, *, listed: bool = True) -> tuple[Array, Array, Any]:
        """Return rows mended as `transform` does it, their scores, and if asked the list of what was changed.

        All of it is found in one pass: mending takes longest.
        """
        check_is_fitted(self)
        labels, X = row_names(X), self._validate(X, reset=False)
        out, scores, parts = np.empty_like(X), np.empty(len(X)), []
        with self._far_values(X):
            for some in self._in_blocks("mending", len(X)):
                A, found = self._row_mender.mend(X[some], entry_scores=listed)
                out[some], scores[some] = A, found["outlier_scores_"]
                if listed:
                    which = np.flatnonzero((np.not_equal(A, X[some]) | found["unsure_"]).any(axis=1))
                    told = {name: found[name][which] for name in OF_ROWS if name in found}
                    parts.append({"numbers": some.start + which, **told})
        if not listed:
            return out, scores, None
        together = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        rows = together.pop("numbers")
        return out, scores, list_changes(self, rows, X[rows], out[rows], together, labels)

    def _mend_rows(self, X: Array) -> Array:
        """Return rows mended against the good ones of the fit; one that fits comes back as it is."""
        out = np.empty_like(X)
        for some in self._in_blocks("mending", len(X)):
            out[some] = self._row_mender.mend(X[some])[0]
        return out

    def _score_rows(self, X: Array) -> Array:
        """Return -log10 of the chance of a good row being as far out as each row."""
        scores = np.empty(len(X))
        for some in self._in_blocks("judging", len(X)):
            scores[some] = self._row_mender.judge(X[some]).scores
        return scores

    def _in_blocks(self, description: str, n: int) -> Iterator[slice]:
        """Yield slices of n rows, a block at a time; with `verbose` a bar shows how many are done."""
        with self._counting(description, n, "") if n > BLOCK else nullcontext() as callback:
            for some in blocks(n):
                yield some
                if callback is not None:
                    callback(some.stop, 0.0)

    @property
    def confidence_(self) -> Array:
        """The probability of each flagged row being wrong; NaN for the others.

        It is 1 - n p / k: of n good rows, n p would be as far out, and k rows are. p is the chance that the score
        stands for; of what it is smaller than 1 / n, a sixth of the exponent is believed. Rows that were given as wrong
        have 1.
        """
        est: Any = self._in_memory("confidence_")
        scores, flags = est.outlier_scores_, est.outliers_
        given = flags & (scores <= (-np.inf if by_share(est) else est.threshold_))
        return np.where(given, 1.0, confidence(believed(scores), flags, -np.inf))

    @property
    def entry_confidence_(self) -> Array:
        """The probability of each entry of `entry_outliers_` having been wrong; NaN for all others.

        It is the confidence of the row, times the share of the values changed in this way that were wrong when errors
        were tried on good rows; that of the row alone without intervals.
        """
        est: Any = self._in_memory("entry_confidence_")
        rows: RowMender = est._row_mender
        whole, marked = est.whole_rows_, est.entry_outliers_
        kinds = np.where(whole, WHOLE, np.where(marked.sum(axis=1) > 1, SEVERAL, ONE))
        share = 1.0 if rows.intervals is None else rows.intervals.wrong[kinds]
        out: Array = np.where(marked, (est.confidence_ * share)[:, np.newaxis], np.nan)
        return out

    def explain(self, row: int) -> Explanation:
        """Return why a row of the fit was changed, or was not: an object that prints as sentences.

        Parameters
        ----------
        row : int
            Its number, from 0 on.

        Returns
        -------
        Explanation
            What was found of the row, cell by cell, with the good rows that are nearest.
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

    def _keep_first(self, n: int) -> None:
        """Forget what was found of the rows after the first n: good ones, only there to learn from."""
        whole: Any = self
        fitted = self._inner
        whole._n_reference = len(whole.recovered_) - n
        for est in [whole] if fitted is whole else [whole, fitted]:
            for name in {*lazy.OF_ROWS, "entry_scores_", "_row_names"} & vars(est).keys():
                setattr(est, name, getattr(est, name)[:n].copy())
            inside = est._changed_rows < n
            est._changed_rows, est._originals = est._changed_rows[inside], est._originals[inside]
        fitted._share = float(fitted.outliers_.mean())

    def _in_memory(self, name: str) -> Any:
        """Return the fitted estimator; AttributeError after a fit to a lazy array, whose rows are not here."""
        check_is_fitted(self)
        if "_of_landmarks" in vars(self):
            raise AttributeError(f"{name} needs rows in memory: fit them, not a dask array")
        return self


def list_changes(
    est: Any, numbers: NDArray[np.intp], old: Array, new: Array, found: dict[str, Any], labels: Any = None
) -> Changes:
    """Return the changes that an estimator made of rows `old` to `new`, whose numbers in the data are `numbers`.

    `labels` are the names of all rows of the data.

    `found` has what was found of these rows, by the names of the estimator's attributes. If a share of the rows was
    flagged, no flagged row is one that the user called wrong, however low its score. Unsure values that were left as
    they are become changes that are not accepted, to what transform would make of them.
    """
    rows: RowMender = est._row_mender
    made, unsure = changed_entries(old, new), found["unsure_"]
    if rows.unsure == "keep" and unsure.any():
        some = unsure.any(axis=1)
        with est._far_values(old):
            anyway = rows.mended_anyway(old[some], found["outliers_"][some])
        new = new.copy()
        new[some] = np.where(unsure[some], anyway, new[some])
    which = changed_entries(old, new)
    at, columns = np.nonzero(which)
    records = np.zeros(len(at), CHANGE)
    records["row"], records["column"] = numbers[at], columns
    records["old"], records["new"] = old[which], new[which]
    half = found["half_widths_"][which] if "half_widths_" in found else np.full(len(at), np.nan)
    records["low"], records["high"] = rows.ends(records["new"], half, unsure[which], columns)
    missing = np.isnan(records["old"])
    records["kind"] = np.where(missing, "missing", "wrong")
    whole, scores = found["whole_rows_"][at], found["outlier_scores_"][at]
    if "entry_scores_" in found:
        scores = np.where(whole, scores, found["entry_scores_"][which])
    records["score"] = np.where(missing, np.nan, scores)
    records["accepted"] = made[which]
    known = found["outlier_scores_"][at] <= (-np.inf if by_share(est) else rows.detector.threshold)
    sides = (np.broadcast_to(side, which.shape)[which] for side in ranges(rows, old))
    reasons = Reasons(whole, known, unsure[which], *sides)
    return Changes(records, reasons, getattr(est, "feature_names_in_", None), labels)


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


def believed(scores: Array) -> Array:
    """Return the scores of n rows as far as they are believed: up to log10(n), and beyond that a sixth (`BELIEVED`).

    >>> believed(np.array([0.0, 0.3, 3.0, 300.0])).round(3)
    array([ 0.   ,  0.3  ,  1.002, 50.502])
    """
    seen = np.minimum(scores, np.log10(max(scores.size, 1)))
    return np.asarray(seen + BELIEVED * (scores - seen))


def by_share(est: Any) -> bool:
    """Return whether a given share of the rows was flagged."""
    return not isinstance(est._inner.contamination, str)


def ranges(rows: RowMender, X: Array) -> tuple[Array, Array]:
    """Return the lowest and the highest good value of each column, in the units of rows `X` of the data."""
    low, high = rows.mender.L.min(axis=0), rows.mender.L.max(axis=0)
    return rows.units.back(low[np.newaxis], X), rows.units.back(high[np.newaxis], X)


def explain(est: Any, row: int) -> Explanation:
    """Return why a row of a fit was changed, or was not."""
    place = int(np.searchsorted(est._changed_rows, row))
    kept = place < len(est._changed_rows) and est._changed_rows[place] == row
    new = np.asarray(est.recovered_)[[row]].astype(np.float64)
    old = est._originals[[place]].astype(np.float64) if kept else new
    changed = changed_entries(old, new)[0]
    flagged, whole = bool(est.outliers_[row]), bool(est.whole_rows_[row])
    told = changed | est.unsure_[row] | (est.entry_outliers_[row] & (flagged and not whole))
    facts: dict[str, Any] = {
        "flagged": flagged,
        "suspect": bool(est.suspects_[row]),
        "score": float(est.outlier_scores_[row]),
        "threshold": float(est.threshold_),
        "confidence": float(est.confidence_[row]),
        "whole": whole,
        "cells": _cells(est, row, old, new, told) if told.any() else (),
        "nearest": _nearest(est, row, est._row_mender.enter(np.where(np.isnan(new), old, new))),
    }
    words = sentences(row, by_share=by_share(est), names=getattr(est, "_row_names", None), **facts)
    return Explanation(row, changed=bool(changed.any()), sentences=words, **facts)


def _cells(est: Any, row: int, old: Array, new: Array, told: NDArray[np.bool_]) -> tuple[CellReason, ...]:
    """Return the reasons of some cells of a row, those that changed most first."""
    rows: RowMender = est._row_mender
    would, unsure = new, est.unsure_[row]
    if unsure.any() and rows.unsure != "mend":
        with est._far_values(old):
            would = np.where(unsure, rows.mended_anyway(old, est.outliers_[[row]]), new)
    hidden = told & ~np.isnan(old[0])
    expected, spread = rows.expectation(old, hidden, whole=bool(est.whole_rows_[row]), new=would)
    unknown = np.full(told.shape, np.nan)
    half = est.half_widths_[row] if hasattr(est, "half_widths_") else unknown
    scores = est.entry_scores_[row] if hasattr(est, "entry_scores_") else unknown
    columns = np.arange(told.size)
    low, high = rows.ends(would[0], half, unsure, columns)
    lowest, highest = (np.broadcast_to(side, new.shape)[0] for side in ranges(rows, old))
    names = getattr(est, "feature_names_in_", None)
    size = np.abs(np.nan_to_num(would[0] - old[0])) / np.where(spread > 0, spread, 1.0)
    order = columns[told][np.argsort(-size[told], kind="stable")]
    parts = (old[0], new[0], low, high, scores, expected, spread, lowest, highest, est.entry_confidence_[row])
    numbers = zip(*np.column_stack(parts)[order].tolist(), strict=True)
    called = [f"column {j}" if names is None else str(names[j]) for j in order]
    each = zip(order.tolist(), called, *numbers, unsure[order].tolist(), strict=True)
    return tuple(CellReason(*cell) for cell in each)


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
