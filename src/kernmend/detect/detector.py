"""The detection engine as a whole: entries and rows together, one score for each row and one threshold.

What happens in `Detector.fit`, from the data to the flags:

1. Repeated rows count once (`distinct`), columns of amounts are replaced by their logarithms (`columns.py`), and all
   columns are brought to robust units: (x - median) / robust standard deviation.
2. `entries.py` judges every entry against its column and against the other entries of its row. Wrong entries are
   replaced by their expectations, so that one wrong entry does not make its whole row unusual. Where it still seems to
   do so, they are replaced by what the good rows predict in the kernel space.
3. `rows.py` judges every row against the span of the other rows in a kernel space, and `ManyEntries` by how far out
   its entries are on average, each in its column alone: the span may hold a row that is unlike all others.
4. Every judgement is a chance, u = -log P(a good row or entry deviates as far), estimated by `columns.py` for entries,
   by `groups.py` for rows. Chances can be compared, so the u of a row is the larger one of two: that of the row as a
   whole, and that of its most extreme entry, less log d since it is the largest of d; an entry that is not wrong makes
   its row a suspect at most. The score of the row is u in logarithms to the base 10.
5. A row is flagged where its score exceeds `threshold`, and a suspect between `suspect_threshold` and `threshold`. The
   threshold is at most log10(3 n / alpha): n good rows in 3 tests exceed that `alpha` times on average. In data with
   many columns per row entries do not decide, and it is at most log10(n / alpha). It is lower where a row with such a
   score is more probably wrong than good all the same (`rows.py`). `ManyEntries` flags where the chance is below half
   of that.

The detector that `fit` returns keeps the good rows as its reference and judges new rows by the same threshold.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from kernmend._typing import Array
from kernmend.detect.columns import Logarithms, robust_sd
from kernmend.detect.entries import CONSTANT, Deviations, EntryDetector, ManyEntries
from kernmend.detect.flags import flag_share
from kernmend.detect.rows import RowDetector
from kernmend.linalg.distances import lexicographic, same_as_before

# Number of good rows that are flagged in a clean data set, on average and by all tests together.
ALPHA = 0.05
# Number of tests that share ALPHA: of entries in their column, of entries given their row, of rows. With an alpha of
# their own rows with one wrong entry are more often taken for wrong as a whole (test_large.py, wrong cells). The test
# of rows by all their entries has half the share of one of them on top: with four equal shares fewer small spikes are
# found (test_spikes_are_marked), with a whole share more good rows are flagged ("spectra", cartilage).
TESTS = 3
# Largest number of columns per row at which a wrong entry alone makes its row wrong. With more columns, the n values of
# one do not show a tail down to the chance 1 / (n d).
COLUMNS_PER_ROW = 0.5
# Probability of each other entry of a row with a wrong entry being wrong too. With 0.02 fewer entries of rows that are
# wrong as a whole are found ("tables", shift 4: 0.80 in place of 0.82 of them), with 0.005 more good ones are taken for
# wrong ("tables", times 100: 0.81 of those found are wrong in place of 0.86).
OTHERS = 0.01
# Factor from logarithms to the base 10, in which scores are given, to natural ones, in which u is.
LOG10 = float(np.log(10.0))


@dataclass(frozen=True)
class Found:
    """What was found in some rows; every array has one element for each row, or each entry, of the data.

    `scores` and `entry_scores` are -log10 of the chance of a good row, or entry, deviating as far. `rows` are the flags
    of wrong rows, `suspects` those of unusual rows that are not flagged, `entries` those of wrong entries in flagged
    rows. `filled` are the rows with wrong entries replaced by their expectation given the rest of their row. `whole`
    are the flagged rows that are wrong even then, or have many wrong entries, or none.
    """

    scores: Array
    rows: NDArray[np.bool_]
    suspects: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    entry_scores: Array
    entries: NDArray[np.bool_]
    filled: Array

    def with_known(self, good: NDArray[np.bool_] | None, wrong: NDArray[np.bool_] | None) -> "Found":
        """Return these results with rows in `good` not flagged and rows in `wrong` flagged; None is no such row."""
        rows = self.rows if wrong is None else self.rows | wrong
        rows = rows if good is None else rows & ~good
        entries = self.entries & rows[:, np.newaxis]
        whole = rows & (self.whole | ~entries.any(axis=1))
        return replace(self, rows=rows, suspects=self.suspects & ~rows, whole=whole, entries=entries)


@dataclass(frozen=True)
class Detector:
    """Tells which rows and entries are wrong; the docstring of this module says how.

    `logs` are the logarithms of columns of amounts, `centre` and `scale` the robust units of the columns.
    `entries_decide` says whether a wrong entry alone makes its row wrong. `entries`, `many` and `rows` find wrong
    entries, rows with many entries that are far out, and rows that do not fit the others. `threshold` and
    `suspect_threshold` are the scores (-log10 of a chance) above which a row is flagged or a suspect.
    """

    logs: Logarithms
    centre: Array
    scale: Array
    entries_decide: bool
    entries: EntryDetector
    many: ManyEntries
    rows: RowDetector
    threshold: float
    suspect_threshold: float

    @classmethod
    def fit(
        cls,
        X: Array,
        *,
        alpha: float = ALPHA,
        good: NDArray[np.bool_] | None = None,
        wrong: NDArray[np.bool_] | None = None,
    ) -> tuple["Detector", Found]:
        """Return a detector that has learned from `X` what good rows are like, and what it found in `X`.

        Every row of `X` is judged leave-one-out.

        Parameters
        ----------
        X : array of shape (n, d)
            The rows, all entries finite.
        alpha : float
            The number of good rows that may be flagged in a clean data set, on average.
        good, wrong : bool arrays of shape (n,), optional
            Rows that are known. Good ones are never flagged. Wrong ones always are, and nothing is learned from them.
        """
        n_all = len(X)
        known_good = np.zeros(n_all, dtype=bool) if good is None else good
        known_wrong = np.zeros(n_all, dtype=bool) if wrong is None else wrong
        learned = np.flatnonzero(~known_wrong)
        distinct_rows, where = distinct(X[learned])
        n, d = distinct_rows.shape
        decide = d <= COLUMNS_PER_ROW * n
        logs = Logarithms.of(distinct_rows) if decide else Logarithms.none(d)
        D = logs.enter(distinct_rows)
        keep = np.zeros(n, dtype=bool)
        np.logical_or.at(keep, where, known_good[learned])
        centre, scale, cap = np.median(D, axis=0), robust_sd(D), float(np.log(TESTS * n / alpha))
        Z = (D - centre) / scale
        equal = np.mean(centre == D, axis=0) > CONSTANT
        entries, deviations = EntryDetector.fit(Z, equal, cap + float(np.log(d)))
        judged = _judged(entries, Z, decide, deviations)
        # Where entries do not decide, the tests of rows are the only ones: they need not share alpha with the others.
        cap -= 0.0 if decide else float(np.log(TESTS))
        many = ManyEntries.of(judged.filled, judged.column_u, cap + float(np.log(2.0)))
        filled, far = np.asarray(judged.wrong.any(axis=1)), many.u(judged.column_u) > 0.0
        rows, u = RowDetector.fit(judged.filled * scale + centre, cap, keep, filled, far)
        threshold, suspect = rows.threshold / LOG10, rows.suspect_threshold / LOG10
        detector = cls(logs, centre, scale, decide, entries, many, rows, threshold, suspect)
        results = detector._settled(judged, u)
        found = detector._released(distinct_rows, detector._combine(distinct_rows, *results))
        return detector, detector._for_all_rows(X, known_good, known_wrong, learned, where, found)

    def find(self, X: Array, *, entry_scores: bool = True) -> Found:
        """Return what is found in new rows, each judged by itself against the reference.

        Without `entry_scores` these are 0 where no entry changes what is found of its row.
        """
        if self.rows_only() and not entry_scores:
            far = self.many.u(self.entries.marginal.u(self._enter(X)))
            scores, nothing = np.maximum(self.rows.u(X), far) / LOG10, np.zeros(X.shape, dtype=bool)
            flags = scores > self.threshold
            return self._with_flags(Found(scores, flags, ~flags, flags, np.broadcast_to(0.0, X.shape), nothing, X))
        judged = _judged(self.entries, self._enter(X), self.entries_decide)
        return self._combine(X, *self._settled(judged, self.rows.u(judged.filled * self.scale + self.centre)))

    def row_scores(self, X: Array) -> Array:
        """Return the scores of new rows as wholes: what their entries alone would say does not count."""
        return self.rows.u(self.logs.enter(X)) / LOG10

    def rows_only(self) -> bool:
        """Return whether rows are scored as they are, without wrong entries filled in."""
        return not self.entries_decide

    def expected(self, X: Array, entries: NDArray[np.bool_]) -> Array:
        """Return the rows with the marked entries replaced by their expectation given the rest of their row."""
        return np.where(entries, self._leave(self.entries.filled(np.where(entries, np.nan, self._enter(X)))), X)

    def against(self, L: Array) -> "Detector":
        """Return a detector whose reference is the good rows `L`; threshold, kernel and kind of score stay."""
        D = self.logs.enter(distinct(L)[0])
        centre, scale = np.median(D, axis=0), robust_sd(D)
        Z = (D - centre) / scale
        entries, _ = EntryDetector.fit(Z, np.mean(centre == D, axis=0) > CONSTANT, self.entries.threshold)
        return replace(self, centre=centre, scale=scale, entries=entries, rows=self.rows.against(D))

    def rows_against(self, L: Array) -> "Detector":
        """Return a detector whose reference is the good rows `L`, for `row_scores` alone."""
        return replace(self, rows=self.rows.against(self.logs.enter(distinct(L)[0])))

    def judge_against(self, L: Array) -> "Detector":
        """Return a detector whose reference is the good rows `L`, for the scores and flags of rows alone.

        Where entries do not decide, those of other rows than before need not be learned for that.
        """
        return self.against(L) if self.entries_decide else self.rows_against(L)

    def at_share(self, found: Found, share: float) -> tuple["Detector", Found]:
        """Return a detector, and what it found, with the threshold at which the given share of the rows is flagged."""
        flags, threshold = flag_share(found.scores, share)
        detector = replace(self, threshold=threshold, suspect_threshold=min(threshold, self.suspect_threshold))
        return detector, detector._with_flags(replace(found, rows=flags))

    def _settled(self, judged: "Judged", row_u: Array) -> tuple["Judged", Array]:
        """Return these results with those rows filled in better that seem to be wrong with wrong entries filled in.

        A linear guess may leave a row off the surface of the good rows. So their wrong entries are filled in by what
        the good rows predict in the kernel space, and the better one counts.
        """
        entries, filled = judged.wrong, judged.filled
        at = np.flatnonzero(entries.any(axis=1) & self._whole(entries, row_u))
        if at.size:
            Y = self.rows.filled(filled[at] * self.scale + self.centre, entries[at])
            u = self.rows.u(Y)
            better = u < row_u[at]
            filled, row_u = filled.copy(), row_u.copy()
            filled[at[better]], row_u[at[better]] = (Y[better] - self.centre) / self.scale, u[better]
        return judged._replace(filled=filled), row_u

    def _enter(self, X: Array) -> Array:
        """Return rows in robust units: logarithms of amounts, medians subtracted, divided by robust deviations."""
        out: Array = (self.logs.enter(X) - self.centre) / self.scale
        return out

    def _leave(self, Z: Array) -> Array:
        """Return rows in robust units as rows of the data."""
        return self.logs.leave(Z * self.scale + self.centre)

    def _combine(self, X: Array, judged: "Judged", row_u: Array) -> Found:
        """Return the results of all tests as one: the u of a row, or that of its most extreme of d entries if larger.

        Where no entry is wrong they make a row a suspect, or count for nothing.
        """
        entry_u, entries, filled, column_u = judged
        by_entry = entry_u.max(axis=1) - np.log(X.shape[1])
        unusual = self.entries_decide & (by_entry > self.rows.suspect_threshold)
        as_suspect = np.where(unusual, np.minimum(by_entry, self.rows.threshold), 0.0)
        row_u = np.maximum(row_u, self.many.u(column_u))
        scores = np.maximum(row_u, np.where(entries.any(axis=1), by_entry, as_suspect)) / LOG10
        rows = scores > self.threshold
        whole = self._whole(entries, row_u) | (not self.entries_decide)
        filled = np.where(entries, self._leave(filled), X)
        return self._with_flags(Found(scores, rows, ~rows, whole, entry_u / LOG10, entries, filled))

    def _whole(self, entries: NDArray[np.bool_], row_u: Array) -> NDArray[np.bool_]:
        """Return which rows are wrong as a whole.

        These are the rows with a u above the threshold, those that are suspects though wrong entries are filled in,
        and those with so many wrong entries that the u of their number is above the threshold. A u that is the
        threshold itself is that of a row whose error is not visible, or whose neighbours are like it.
        """
        count, u = entries.sum(axis=1), row_u / LOG10
        suspects = (count > 0) & (u > self.suspect_threshold) & (row_u < self.rows.threshold)
        return np.asarray(suspects | (u > self.threshold) | (count_u(count, entries.shape[1]) / LOG10 > self.threshold))

    def _released(self, X: Array, found: Found) -> Found:
        """Return these results of fitted rows with those released that the detector would not flag as new rows.

        A row that is flagged only leave-one-out lies so near the threshold that it is not to be changed; and what the
        detector says of the rows that it was fitted to is what it says of new ones.
        """
        flagged = np.flatnonzero(found.rows)
        if not flagged.size:
            return found
        again = self.find(X[flagged], entry_scores=False)
        if self.rows_only():
            again = replace(again, entry_scores=found.entry_scores[flagged])
        released = flagged[~again.rows]
        parts = {name: values.copy() for name, values in vars(found).items()}
        for name, values in parts.items():
            values[released] = vars(again)[name][~again.rows]
        return Found(**parts)

    def _with_flags(self, found: Found) -> Found:
        """Return these results with suspects, wrong entries and whole rows that agree with the flags of the rows."""
        suspects = (found.scores > self.suspect_threshold) & ~found.rows
        return replace(found, suspects=suspects).with_known(None, None)

    def _for_all_rows(
        self,
        X: Array,
        good: NDArray[np.bool_],
        wrong: NDArray[np.bool_],
        learned: NDArray[np.intp],
        where: NDArray[np.intp],
        found: Found,
    ) -> Found:
        """Return the results of distinct rows as results of all rows, with known rows flagged as they are known.

        `learned` are the numbers of the rows that were learned from, `where` those of each among the distinct ones.
        Rows known to be wrong are judged as new ones.
        """
        parts: dict[str, Any] = {name: values[where] for name, values in vars(found).items()}
        if wrong.any():
            whole = dict(vars(self.find(X)))
            for name, values in parts.items():
                whole[name][learned] = values
            parts = whole
        return self._with_flags(Found(**parts).with_known(good, wrong))


class Judged(NamedTuple):
    """What is known of rows by their entries, one row each.

    `entry_u` is u of every entry, `wrong` marks the wrong ones, `filled` has the rows with expectations in their place,
    and `column_u` is u of the entries of `filled`, each in its column alone.
    """

    entry_u: Array
    wrong: NDArray[np.bool_]
    filled: Array
    column_u: Array


def _judged(entries: EntryDetector, Z: Array, decide: bool, fitted: Deviations | None = None) -> Judged:
    """Return what is known of the rows `Z` by their entries.

    `fitted` is what is known of the fitted rows, if `Z` are these. Where entries do not decide, none is marked wrong
    and the rows stay as they are: to judge rows again without their most extreme entries would change nothing but the
    time.
    """
    if decide:
        entry_u, wrong, filled = entries.find(Z, fitted)
        return Judged(entry_u, wrong, filled, entries.marginal.u(filled))
    known = fitted or entries.deviations(Z)
    nothing = np.zeros(Z.shape, dtype=bool)
    return Judged(np.maximum(known.marginal_u, known.conditional_u), nothing, Z, known.marginal_u)


def count_u(count: NDArray[np.intp], d: int) -> Array:
    """Return u of the numbers of wrong entries in rows of d entries that have at least one: 0 for one, or for none.

    It is minus the logarithm of the chance of as many, or more, where each other entry of the row is wrong with
    probability `OTHERS`.

    >>> count_u(np.array([0, 1, 2, 3]), 10).round(1).tolist()
    [0.0, 0.0, 2.4, 5.7]
    """
    out: Array = np.abs(binom.logsf(np.maximum(count, 1) - 2, d - 1, OTHERS))  # not -0.0
    return out


def distinct(X: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the distinct rows, and the number among them of each row.

    Copies of a wrong row would predict each other and hide it. Of codes, such as 0 and 1, the rarer one is not wrong.
    """
    order = lexicographic(X)
    ordered = X[order]
    first = np.append(True, ~same_as_before(ordered))
    where = np.empty(len(X), dtype=np.intp)
    where[order] = np.cumsum(first) - 1
    return ordered[first], where
