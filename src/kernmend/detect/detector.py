"""Both looks together: one score for each row, with one threshold, the same for fitted and for new rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect.entries import CONSTANT, EntryDetector
from kernmend.detect.flags import flag_share
from kernmend.detect.rows import RowDetector
from kernmend.detect.tails import EVIDENCE, FEWEST

ALPHA = 0.05  # good rows called wrong in a clean data set, expected over all looks
LOOKS = 3  # at entries of a column, at entries given their row, at rows
CROWDED = 0.5  # columns for each row above which an entry alone makes no row wrong: n values tell no tail of 1 / (n d)
LOG10 = float(np.log(10.0))


@dataclass(frozen=True)
class Found:
    """What was found of some rows. Scores are -log10 of the chance of a good row, or entry, being as far out.

    `filled` are the rows with wrong entries replaced by what the other entries of their row say of them; `whole` are
    the flagged rows that are unusual even so, or have no wrong entries.
    """

    scores: Array
    rows: NDArray[np.bool_]
    suspects: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    entry_scores: Array
    entries: NDArray[np.bool_]
    filled: Array

    def with_known(self, good: NDArray[np.bool_] | None, wrong: NDArray[np.bool_] | None) -> "Found":
        """Return the same with the flags of rows that are known."""
        rows = self.rows if wrong is None else self.rows | wrong
        rows = rows if good is None else rows & ~good
        entries = self.entries & rows[:, np.newaxis]
        whole = rows & (self.whole | ~entries.any(axis=1))
        return replace(self, rows=rows, suspects=self.suspects & ~rows, whole=whole, entries=entries)


@dataclass(frozen=True)
class Detector:
    """Tells which rows and entries are wrong. `fit` returns it with what it found of the rows it was fitted to."""

    centre: Array
    scale: Array
    columns: bool
    alone: bool
    entries: EntryDetector
    rows: RowDetector
    threshold: float
    suspect_threshold: float

    @classmethod
    def fit(
        cls,
        X: Array,
        *,
        alpha: float = ALPHA,
        columns: bool = False,
        good: NDArray[np.bool_] | None = None,
        wrong: NDArray[np.bool_] | None = None,
    ) -> tuple["Detector", Found]:
        """Learn what good rows are like, and judge each row of `X` without itself.

        Parameters
        ----------
        X : array of shape (n, d)
            Finite.
        alpha : float
            How many good rows of a clean data set may be called wrong, on average.
        columns : bool
            Whether rows are compared in units of each column, not in common ones.
        good, wrong : bool arrays of shape (n,), optional
            Rows that are known: good ones are never flagged, nothing is learned from wrong ones, which always are.
        """
        n_all = len(X)
        known_good = np.zeros(n_all, dtype=bool) if good is None else good
        known_wrong = np.zeros(n_all, dtype=bool) if wrong is None else wrong
        learned = np.flatnonzero(~known_wrong)
        D, where = distinct(X[learned])
        n, d = D.shape
        keep = np.zeros(n, dtype=bool)
        np.logical_or.at(keep, where, known_good[learned])
        centre, scale, cap = np.median(D, axis=0), robust_sd(D), float(np.log(LOOKS * n / alpha))
        Z = (D - centre) / scale
        equal = np.mean(centre == D, axis=0) > CONSTANT
        entries = EntryDetector.fit(Z, equal, cap + float(np.log(d)))
        looked = entries.find(Z, np.arange(n))
        alone = d <= CROWDED * n
        Y = looked[2] if alone else Z
        # Where entries alone make no row wrong, one look is left: it need not share alpha, nor the chance that
        # `EVIDENCE` stands for, with the others ("pictures", [0, 1], occlusion: .65 without it, .79 with it).
        one_look = 0.0 if alone else float(np.log(LOOKS))
        Y = Y if columns else Y * scale + centre
        rows, u = RowDetector.fit(Y, cap - one_look, keep, EVIDENCE - one_look)
        threshold, suspect = rows.line / LOG10, rows.suspect_line / LOG10
        detector = cls(centre, scale, columns, alone, entries, rows, threshold, suspect)
        return detector, detector._spread(X, known_good, known_wrong, learned, where, detector._join(Z, *looked, u))

    def find(self, X: Array) -> Found:
        """Judge new rows."""
        Z = (X - self.centre) / self.scale
        looked = self.entries.find(Z)
        Y = looked[2] if self.alone else Z
        return self._join(Z, *looked, self.rows.u(Y if self.columns else Y * self.scale + self.centre))

    def scores(self, X: Array) -> Array:
        """Return the scores that `find` gives new rows; entries are not looked at where they decide nothing."""
        return self.rows.u(X) / LOG10 if self.rows_only() else self.find(X).scores

    def rows_only(self) -> bool:
        """Whether rows are judged as they are."""
        return not (self.alone or self.columns)

    def expected(self, X: Array, entries: NDArray[np.bool_]) -> Array:
        """Return the rows with some entries replaced by what the others of their row say of them."""
        Z = np.where(entries, np.nan, (X - self.centre) / self.scale)
        return np.where(entries, self.entries.expected(Z) * self.scale + self.centre, X)

    def against(self, L: Array) -> "Detector":
        """Return one that holds rows and entries against other good rows, with the same threshold and kernel."""
        D = distinct(L)[0]
        centre, scale = np.median(D, axis=0), robust_sd(D)
        Z = (D - centre) / scale
        entries = EntryDetector.fit(Z, np.mean(centre == D, axis=0) > CONSTANT, self.entries.line)
        rows = self.rows.against(Z if self.columns else D)
        return replace(self, centre=centre, scale=scale, entries=entries, rows=rows)

    def at_share(self, found: Found, share: float) -> tuple["Detector", Found]:
        """Return the detector and what it found with the threshold under which that share of the rows is flagged."""
        flags, threshold = flag_share(found.scores, share)
        detector = replace(self, threshold=threshold, suspect_threshold=min(threshold, self.suspect_threshold))
        return detector, detector._judged(replace(found, rows=flags))

    def _join(self, Z: Array, entry_u: Array, entries: NDArray[np.bool_], filled: Array, row_u: Array) -> Found:
        """One score for a row: that of the row, or of its worst entry out of d where one is beyond its line."""
        beyond = entries.any(axis=1) & self.alone
        u = np.where(beyond, np.maximum(row_u, entry_u.max(axis=1) - np.log(Z.shape[1])), row_u)
        scores = u / LOG10
        rows = scores > self.threshold
        whole = (row_u / LOG10 > self.suspect_threshold) | (not self.alone)
        found = Found(scores, rows, ~rows, whole, entry_u / LOG10, entries, filled * self.scale + self.centre)
        return self._judged(found)

    def _judged(self, found: Found) -> Found:
        """Return the same with suspects and wrong entries as the flags of the rows have it."""
        suspects = (found.scores > self.suspect_threshold) & ~found.rows
        return replace(found, suspects=suspects).with_known(None, None)

    def _spread(
        self,
        X: Array,
        good: NDArray[np.bool_],
        wrong: NDArray[np.bool_],
        learned: NDArray[np.intp],
        where: NDArray[np.intp],
        found: Found,
    ) -> Found:
        """Return what was found of distinct rows for all rows, those known to be wrong among them."""
        parts: dict[str, Any] = {name: values[where] for name, values in vars(found).items()}
        if wrong.any():
            whole = dict(vars(self.find(X)))
            for name, values in parts.items():
                whole[name][learned] = values
            parts = whole
        return self._judged(Found(**parts).with_known(good, wrong))


def distinct(X: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the distinct rows and where each row is among them: wrong rows that repeat must not vouch for each other.

    Where fewer than `FEWEST` differ, all rows count.
    """
    rows, where = np.unique(X, axis=0, return_inverse=True)
    return (rows, where.ravel()) if len(rows) >= FEWEST else (X, np.arange(len(X)))


def robust_sd(X: Array) -> Array:
    """Return 1.4826 MAD of each column; where that is 0 the interquartile range / 1.349, then the sd, then 1."""
    spread = 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
    for other in (np.subtract(*np.percentile(X, [75, 25], axis=0)) / 1.349, X.std(axis=0), np.ones(X.shape[1])):
        spread = np.where(spread > 0, spread, other)
    return spread
