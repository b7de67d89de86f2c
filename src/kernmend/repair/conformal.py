"""Intervals of mended values by split conformal prediction: what is known of errors is tried on good rows.

Good rows are held out of the reference and corrupted: with what mending took off the flagged rows, and by hiding
entries where other rows lack them. They are then judged and mended as the fit does it, and since their truth is known,
so are the residuals |truth - mended| / scale. If an error of the data is exchangeable with those tried, its residual
exceeds their quantile of rank ceil((m + 1) level) with a chance of 1 - level at most. This is the only assumption:
nothing is supposed about the shape of errors or of the data.

What mending took off a row is the part of its error that leads away from the good rows. Where rows have few columns
this may be a small part: a point beside a curve may come from anywhere on it. So each row that is wrong as a whole is
compared with rows that have nothing to do with any good one (`Trial.by_chance`). The share of rows that came as near to
the good rows as these did is taken for rows whose truth may be any good row, and tried as such.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Found
from kernmend.repair.calibrate import in_order
from kernmend.repair.filling import ENOUGH, Filler
from kernmend.repair.intervals import KINDS, MISSING, WHOLE, Intervals, conformal_quantile, scales, some_rows
from kernmend.repair.row_mender import RowMender

TRIED = 100
"""Rows that are tried for each kind, at most: the coverage of a 90 % interval then has a standard error of 3 %."""
FOLDS = 5
"""Parts into which few good rows are divided, each held out once."""
FEWEST = 10
"""Good rows below which nothing is known of an interval."""


class Residuals(NamedTuple):
    """Residuals of one kind of change, in units of their scales, and how much each counts."""

    kind: int
    values: Array
    weights: Array


class Fitted(NamedTuple):
    """What a fit made of its rows, in the units in which they are compared.

    `X` has NaN where entries are missing, `filled` has these filled in before any row was judged, `mended` is the
    result and `found` what was found.
    """

    X: Array
    filled: Array
    mended: Array
    found: Found


def calibrate_intervals(rows: RowMender, fitted: Fitted, level: float, seed: int) -> Intervals:
    """Return the intervals of what `rows` mends at a level; infinite ones for kinds of changes that no row shows.

    Ctrl-C ends the trials, not the fit.
    """
    found: list[Residuals] = []
    good = np.flatnonzero(~fitted.found.rows)
    if len(good) >= FEWEST:
        try:
            for trial in _trials(rows, fitted, good, seed):
                found += trial.residuals()
        except KeyboardInterrupt:
            found = []
    quantiles = []
    for kind in range(len(KINDS)):
        parts = [each for each in found if each.kind == kind]
        values, weights = (np.concatenate([np.zeros(0), *(each[place] for each in parts)]) for place in (1, 2))
        quantiles.append(conformal_quantile(values, level, weights))
    return Intervals.against(rows.mender.L, level, np.array(quantiles))


def _trials(rows: RowMender, fitted: Fitted, good: NDArray[np.intp], seed: int) -> "list[Trial]":
    """Return parts of the good rows to hold out, with the others: several where rows are few.

    Rows that lack nothing are held out if there are enough. What is drawn does not depend on the order of the data.
    """
    rng = np.random.default_rng(seed)
    whole = good[~np.isnan(fitted.X[good]).any(axis=1)]
    count = max(1, min(TRIED, len(good) // FOLDS))
    from_these = whole if len(whole) >= 2 * count else good
    from_these = from_these[np.lexsort(fitted.filled[from_these].T[::-1])]
    order = rng.permutation(from_these)
    folds = min(len(order) // count, -(-TRIED // count), FOLDS)
    return [Trial(rows, fitted, good, order[k * count : (k + 1) * count], rng) for k in range(folds)]


@dataclass(frozen=True)
class Trial:
    """Rows with the numbers `held` of the `good` ones, which are corrupted and mended against the others."""

    rows: RowMender
    fitted: Fitted
    good: NDArray[np.intp]
    held: NDArray[np.intp]
    rng: np.random.Generator

    @cached_property
    def truth(self) -> Array:
        """The rows that are held out."""
        return self.fitted.filled[self.held]

    @cached_property
    def against(self) -> RowMender:
        """What judges and mends rows against the others."""
        L = self.fitted.filled[np.setdiff1d(self.good, self.held)]
        return replace(self.rows, mender=self.rows.mender.with_rows(L), detector=self.rows.detector.against(L))

    def residuals(self) -> list[Residuals]:
        """Return the residuals of all kinds of changes that can be tried."""
        X, _, mended, found = self.fitted
        out = [self._missing()]
        partly = self.rows.partly_wrong(found)
        for donors, replaced in ((partly, True), (found.rows & ~partly, self.rows.settings.error.by_entry)):
            if donors.any():
                drawn = self._drawn(donors)
                errors = X[drawn] - mended[drawn]
                wrong = np.where(errors == 0.0, self.truth, X[drawn]) if replaced else self.truth + errors
                out += self._injected(wrong, int(donors.sum()), 0.0 if replaced else self.by_chance(errors))
        return out

    def _drawn(self, donors: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the numbers of some of the marked rows, one for each row that is held out."""
        numbers = np.flatnonzero(donors)
        numbers = numbers[np.lexsort(self.fitted.filled[numbers].T[::-1])]
        return np.asarray(numbers[self.rng.integers(0, len(numbers), len(self.held))])

    def _missing(self) -> Residuals:
        """Return the residuals of hidden entries that were filled in as the fit does it: before any row is judged."""
        X, filled, _, found = self.fitted
        lacks = np.isnan(X)
        patterns = lacks[~found.rows & lacks.any(axis=1)]
        n, d = self.truth.shape
        hidden: NDArray[np.bool_] = np.arange(d) == self.rng.integers(0, d, (n, 1))
        if len(patterns) and not lacks[self.held].any():
            hidden = in_order(patterns)[self.rng.integers(0, len(patterns), n)]
        done = int((~lacks.any(axis=1)).sum())
        others = self.rng.permutation(in_order(np.delete(filled, self.held, axis=0)))
        filler = Filler.against(others[: done if done >= ENOUGH else None])
        A = filler.fill(np.where(hidden | lacks[self.held], np.nan, self.truth))
        values = self._scaled(A, hidden & ~lacks[self.held])
        return Residuals(MISSING, values, np.ones(values.size))

    def _injected(self, X: Array, count: int, anywhere: float) -> list[Residuals]:
        """Return the residuals of rows with the errors of `count` flagged rows, by the kind of change they were given.

        Rows that are not flagged are left out. The share `anywhere` is that of rows whose truth may be any good row.
        """
        filled = self.against.fill(X)
        found = self.against.detector.find(filled, entry_scores=False)
        A = self.against.mend_found(X, filled, found)[0]
        kinds, changed = self.against.kinds(found), (A != X) & found.rows[:, np.newaxis]
        out = []
        for kind in np.unique(kinds[found.rows]).tolist():
            which = changed & (kinds == kind)[:, np.newaxis]
            share = anywhere if kind == WHOLE else 0.0
            near, far = self._scaled(A, which), self._anywhere(int(which.any(axis=1).sum())) if share else np.zeros(0)
            weight = count / len(X) * near.size
            for values, part in ((near, 1.0 - share), (far, share)):
                out.append(Residuals(kind, values, np.full(values.size, part * weight / max(values.size, 1))))
        return out

    def by_chance(self, errors: Array) -> float:
        """Return which share of flagged rows is as near to the good rows as rows by chance are, at most 1.

        By chance are rows whose entries are drawn from good rows, each from another one, with the errors added: those
        belong to no good row. As many rows as come nearer than the flagged ones did are half of the share.
        """
        L = self.against.mender.L
        n, d = errors.shape
        given = np.nan_to_num(errors)
        X = L[self.rng.integers(0, len(L), (n, d)), np.arange(d)] + given
        A = self.against.mender.mend(X, self.rows.settings, max_iter=self.rows.max_iter)
        nearer = np.square(X - A).sum(axis=1) <= np.square(given).sum(axis=1)
        return min(1.0, 2.0 * float(nearer.mean()))

    def _anywhere(self, count: int) -> Array:
        """Return the residuals of flagged rows whose truth is any good row: `count` of them, drawn at random."""
        X, _, mended, found = self.fitted
        flagged = np.flatnonzero(found.rows & ~self.rows.partly_wrong(found))
        drawn = flagged[self.rng.integers(0, len(flagged), count)]
        other = self.truth[self.rng.integers(0, len(self.truth), count)]
        A = mended[drawn]
        changed: NDArray[np.bool_] = np.not_equal(A, X[drawn])
        return self._distances(A, other)[changed]

    def _scaled(self, A: Array, which: NDArray[np.bool_]) -> Array:
        """Return |truth - A| in units of its scale, of the given entries."""
        return self._distances(A, self.truth)[which & ~np.isnan(self.fitted.X[self.held])]

    def _distances(self, A: Array, truth: Array) -> Array:
        """Return |truth - A| in units of its scale."""
        L = self.against.mender.L
        scale = scales(A, some_rows(L), L.std(axis=0))
        out: Array = np.abs(A - truth) / np.maximum(scale, np.finfo(np.float64).tiny)
        return out
