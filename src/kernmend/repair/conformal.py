"""Intervals of mended values by split conformal prediction: what is known of errors is tried on good rows.

Good rows are held out of the reference and corrupted: with what mending took off the flagged rows, and by hiding
entries where other rows lack them. They are then judged and mended as the fit does it, and since their truth is known,
so are the residuals |truth - mended| / scale. If an error of the data is exchangeable with those tried, its residual
exceeds their quantile of rank ceil((m + 1) level) with a chance of 1 - level at most. This is the only assumption:
nothing is supposed about the shape of errors or of the data.

What mending took off a row is not its error, but the part of it that was seen. The rest is tried as well:

- The part that leads along the good rows stays in the mended row. So errors of whole rows are tried in other columns
  (`Trial._with_errors`), where they have such a part.
- A row may have more wrong entries than were found (`Trial._with_entries`).
- Rows in units of their own have wrong ones while they are wrong: they get their units after the error (`Units.again`).
- Where rows have few columns, the part that was seen may be a small one: a point beside a curve may come from anywhere
  on it. So each row that is wrong as a whole is compared with rows that have nothing to do with any good one
  (`Trial.by_chance`). The share of rows that came as near to the good rows as these did is taken for rows whose truth
  may be any good row, and tried as such.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Found
from kernmend.linalg.distances import lexicographic
from kernmend.repair.calibrate import FEW_ENTRIES, in_order
from kernmend.repair.completion import TOGETHER, fill_without
from kernmend.repair.row_mender import (
    KINDS,
    MISSING,
    WHOLE,
    Intervals,
    RowMender,
    by_kind,
    column_factors,
    evenly,
    own_intervals,
    scales,
    some_rows,
)

TRIED = 60
"""Rows that are tried for each kind, at most: the coverage of a 90 % interval then has a standard error of 4 %. With
100 a fit of iris takes 1.5 times as long as without intervals, in place of 1.3."""
SHARE, TIMES = 0.3, 2
"""Share of the good rows that is held out, at most, and how often each of them is tried where they are few, each time
with another error. With once a table of 60 rows has no intervals (test_parameters)."""
ITERATIONS = 50
"""Iterations of mending a row that is tried, at most: the rows that take more are few."""
TOL = 1e-3
"""Fall of the objective of a row that is tried, as a share, below which it is done. Quantiles of six sets differ by
1.5 % at most from those at 1e-6, with 1e-2 one of them by a quarter."""
AGAINST, JUDGED = 900, 300
"""Good rows that trials are mended against, at most, and judged: the eigendecomposition of 900 takes a tenth of that of
2,000. Judged against 300, quantiles are those of 900 within 3 % on average (against 200 within 6 %), and trials take a
third less time (`intervals --cost`, quakes)."""
SOME, CHANCES = 5, 20
"""Flagged rows from which on their entries can be exchanged to make rows by chance, and the most that are compared with
such rows: a share of 20 is known to a tenth."""
MORE = 0.3
"""Share of a row's other entries that may be wrong where some were found to be, at most."""
MOST = 20_000
"""Residuals of a kind that count, drawn from all: the coverage is then known to 0.2 %, and memory stays small."""
HIDDEN = 4
"""Of so many entries that a row lacks one more is hidden: it is then filled in nearly as it was in the fit."""
FEWEST = 10
"""Good rows below which nothing is known of an interval."""


class Residuals(NamedTuple):
    """Residuals of one kind of change, in units of their scales, with how much each counts.

    `limits` are the quantiles above which their intervals would be wider than their columns, `wrong` says which values
    were wrong, NaN for those that changed too little to count as found wrong.
    """

    kind: int
    values: Array
    limits: Array
    wrong: Array
    weights: Array


class Fitted(NamedTuple):
    """What a fit made of its rows, in the units in which they are compared.

    `X` has NaN where entries are missing, `filled` has these filled in before any row was judged; `mended` is the
    result and `found` what was found.
    """

    X: Array
    filled: Array
    mended: Array
    found: Found


class Group(NamedTuple):
    """Rows with the errors of `flagged` flagged ones; the share `anywhere` of them may come from any good row."""

    X: Array
    flagged: int
    anywhere: float


def calibrate_intervals(rows: RowMender, fitted: Fitted, level: float, seed: int) -> Intervals:
    """Return the intervals of what `rows` mends at a level; infinite ones for kinds of changes that no row shows.

    Ctrl-C ends the trials, not the fit.
    """
    found: list[Residuals] = []
    good, L = np.flatnonzero(~fitted.found.rows), rows.mender.L
    factors = column_factors(L)

    def trial(draw: Callable[[Fitted, NDArray[np.intp], np.random.Generator], NDArray[np.intp]]) -> Trial:
        rng = np.random.default_rng(seed)
        return Trial(rows, fitted, good, factors, level, draw(fitted, good, rng), rng)

    if len(good) >= FEWEST:
        with suppress(KeyboardInterrupt):
            found.append(trial(to_hide_in).missing())
            found += trial(to_hold_out).residuals()
    quantiles, wrong = [], []
    for kind in range(len(KINDS)):
        parts = [each for each in found if each.kind == kind]
        size = sum(each.values.size for each in parts)
        some = np.sort(np.random.default_rng(seed).permutation(size)[:MOST])
        together = (np.concatenate([np.zeros(0), *(each[k] for each in parts)])[some] for k in range(1, 5))
        values, limits, share, weights = together
        quantiles.append(conformal_quantile(values, level, weights, limits))
        marked = ~np.isnan(share)
        wrong.append(float(np.average(share[marked], weights=weights[marked])) if weights[marked].any() else 1.0)
    return Intervals.against(L, level, np.array(quantiles), np.array(wrong), factors)


def to_hide_in(fitted: Fitted, good: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the numbers of good rows to hide entries in: `TRIED` at most, that lack nothing if so many do."""
    return rng.permutation(_in_order(fitted, good, FEWEST))[:TRIED]


def to_hold_out(fitted: Fitted, good: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the numbers of good rows to hold out: a part of them, each several times where these are few.

    They are rows that lack nothing if there are enough. What is drawn does not depend on the order of the data.
    """
    count = max(1, min(TRIED, int(SHARE * len(good))))
    return np.tile(rng.permutation(_in_order(fitted, good, 2 * count))[:count], min(TRIED // count, TIMES))


def _in_order(fitted: Fitted, good: NDArray[np.intp], enough: int) -> NDArray[np.intp]:
    """Return those of the good rows that lack nothing if there are enough, else all, in an order that is their own."""
    whole = good[~np.isnan(fitted.X[good]).any(axis=1)]
    some = whole if len(whole) >= enough else good
    return some[lexicographic(fitted.filled[some])]


@dataclass(frozen=True)
class Trial:
    """Rows with the numbers `held` of the `good` ones, which are corrupted and mended against the others.

    A number that occurs several times is a row that is corrupted several times, each time otherwise.
    """

    rows: RowMender
    fitted: Fitted
    good: NDArray[np.intp]
    factors: Array
    level: float
    held: NDArray[np.intp]
    rng: np.random.Generator

    @cached_property
    def truth(self) -> Array:
        """The rows that are held out."""
        return self.fitted.filled[self.held]

    @cached_property
    def _known(self) -> NDArray[np.bool_]:
        """Which entries of the rows that are held out are not missing."""
        return ~np.isnan(self.fitted.X[self.held])

    @cached_property
    def _widths(self) -> Array:
        """The widths of the intervals of the columns; infinite where rows are in units of their own, which say less."""
        low, high = own_intervals(self.fitted.filled[self.good], self.level)
        return np.full(low.shape, np.inf) if self.rows.units.by_rows else high - low

    @cached_property
    def against(self) -> RowMender:
        """What judges and mends rows against the others."""
        L = some_rows(in_order(self.fitted.filled[np.setdiff1d(self.good, self.held)]), AGAINST)
        budget: dict[str, Any] = {"max_iter": min(ITERATIONS, self.rows.max_iter), "tol": max(TOL, self.rows.tol)}
        mender, detector = self.rows.mender.with_rows(L), self.rows.detector.judge_against(some_rows(L, JUDGED))
        return replace(self.rows, mender=mender, detector=detector, **budget)

    def residuals(self) -> list[Residuals]:
        """Return the residuals of all kinds of changes that can be tried."""
        partly = self.rows.partly_wrong(self.fitted.found)
        whole = self.fitted.found.rows & ~partly
        groups = []
        if partly.any():
            groups.append(Group(self._with_entries(self._drawn(partly)), int(partly.sum()), 0.0))
        if whole.any():
            drawn = self._drawn(whole)
            by_entry = self.rows.settings.error.by_entry
            wrong = self._with_errors(drawn, by_entry=by_entry)
            groups.append(Group(wrong, int(whole.sum()), 0.0 if by_entry else self.by_chance(drawn)))
        return self._injected(groups) if groups else []

    def _with_entries(self, drawn: NDArray[np.intp]) -> Array:
        """Return the rows that are held out with the wrong entries of the rows `drawn`, and with more of their entries.

        A row may have more wrong entries than were found, and the others are then predicted from them. How many is
        not known: the share is drawn, up to `MORE`. What a drawn row lacks is no error, and stays the truth.
        """
        X, shape = self.fitted.X[drawn], self.truth.shape
        more = self.rng.random(shape) < MORE * self.rng.random((shape[0], 1))
        return np.where((self.fitted.found.entries[drawn] | more) & ~np.isnan(X), X, self.truth)

    def _with_errors(self, drawn: NDArray[np.intp], *, by_entry: bool) -> Array:
        """Return the rows that are held out with the errors of the rows `drawn`, each moved along the columns.

        What mending takes off a row is its error without the part that leads along the good rows, which stays in the
        mended row. In the same columns of another row it would be easy to take off again. So it is put into others, a
        random number of columns farther on. If entries are wrong, `by_entry`, and few of a row, they stay where they
        are, and get what the wrong row has there, which says nothing of the truth.
        """
        X = self.fitted.X[drawn]
        errors = X - self.fitted.mended[drawn]
        few = np.abs(errors) > self.rows.entry_tolerance
        few &= by_entry & (few.mean(axis=1, keepdims=True) <= FEW_ENTRIES)
        d = errors.shape[1]
        columns = (np.arange(d) + self.rng.integers(0, d, (len(drawn), 1))) % d
        moved = np.where(few.any(axis=1, keepdims=True), errors, np.take_along_axis(errors, columns, axis=1))
        return np.where(few, X, self.truth + moved)

    def _drawn(self, donors: NDArray[np.bool_], count: int | None = None) -> NDArray[np.intp]:
        """Return the numbers of some of the marked rows; None is one for each row that is held out."""
        numbers = np.flatnonzero(donors)
        numbers = numbers[lexicographic(self.fitted.filled[numbers])]
        return np.asarray(numbers[self.rng.integers(0, len(numbers), len(self.held) if count is None else count)])

    def missing(self) -> Residuals:
        """Return the residuals of hidden entries that were filled in as the fit does it: before any row is judged.

        Each row is filled in against all others, as it is in the fit: against fewer, its error would be larger.
        """
        X, filled, _, found = self.fitted
        lacks, (n, d) = np.isnan(X), self.truth.shape
        patterns = lacks[~found.rows & lacks.any(axis=1)]
        if len(patterns) and not lacks[self.held].any():
            hidden = in_order(patterns)[self.rng.integers(0, len(patterns), n)]
        else:
            # Rows that lack entries themselves lose some more, half of those that they have at most.
            count = np.minimum((~self._known).sum(axis=1) // HIDDEN, self._known.sum(axis=1) // 2).clip(min=1)
            places = np.where(self._known, self.rng.random((n, d)), np.inf)
            hidden = places <= np.take_along_axis(np.sort(places, axis=1), count[:, np.newaxis] - 1, axis=1)
        others = self.rng.permutation(in_order(np.delete(filled, self.held, axis=0)))
        L = np.vstack([self.truth, others[: max(0, TOGETHER - n)]])
        unknown = np.where(hidden | lacks[self.held], np.nan, self.truth)
        A = fill_without(L, self.rows.mender.scale, unknown, np.arange(n))
        values, limits = self._scaled(A, self.truth, np.full(n, MISSING))[:, hidden & self._known]
        return Residuals(MISSING, values, limits, np.ones(values.size), np.ones(values.size))

    def _injected(self, groups: list[Group]) -> list[Residuals]:
        """Return the residuals of rows with errors, of all groups at once, by the kind of change they were given.

        Rows that are not flagged are left out.
        """
        X, truth = np.vstack([group.X for group in groups]), np.tile(self.truth, (len(groups), 1))
        X, truth = self.rows.units.again(X, truth)
        filled = self.against.fill(X)
        found = self.against.detector.find(filled, entry_scores=False)
        A = self.against.mend_found(X, filled, found)[0]
        marked = self.against.per_row(X, A, found)["entry_outliers_"]
        wrong = np.where(marked, np.abs(X - truth) > self.rows.entry_tolerance, np.nan)
        kinds, changed = self.against.kinds(found), (A != X) & found.rows[:, np.newaxis]
        parts = (np.split(each, len(groups)) for each in (A, truth, wrong, kinds, changed))
        return [each for group, *of_group in zip(groups, *parts, strict=True) for each in self._of(group, *of_group)]

    def _of(
        self, group: Group, A: Array, truth: Array, wrong: Array, kinds: Any, changed: NDArray[np.bool_]
    ) -> Iterator[Residuals]:
        """Yield the residuals of one group, which was mended to `A`, for each kind of change."""
        scaled = self._scaled(A, truth, kinds)
        for kind in np.unique(kinds[changed.any(axis=1)]).tolist():
            which = changed & (kinds == kind)[:, np.newaxis] & self._known
            share = group.anywhere if kind == WHOLE else 0.0
            near = np.vstack([scaled[:, which], wrong[which]])
            far = self._anywhere(int(which.any(axis=1).sum())) if share else np.zeros((3, 0))
            weight = group.flagged / len(A) * near.shape[1]
            for (values, limits, really), part in ((near, 1.0 - share), (far, share)):
                weights = np.full(values.size, part * weight / max(values.size, 1))
                yield Residuals(kind, values, limits, really, weights)

    def by_chance(self, flagged: NDArray[np.intp]) -> float:
        """Return which share of flagged rows is as near to the good rows as rows by chance are, at most 1.

        By chance are rows each of whose entries is that of another flagged row; where these are fewer than `SOME`,
        that of another good row, with the errors added. Both belong to no good row. If flagged rows do not either, as
        many rows by chance are nearer to the good rows than they are as are farther from them.
        """
        # More rows by chance than there are flagged ones would say little more; their order is not that of the data.
        flagged = np.unique(flagged)
        flagged = flagged[lexicographic(self.fitted.filled[flagged])]
        flagged = flagged[evenly(len(flagged), CHANCES)]
        n, L = len(flagged), self.against.mender.L
        rows = self.fitted.filled[flagged]
        errors = rows - self.fitted.mended[flagged]
        columns = np.arange(rows.shape[1])
        if n >= SOME:
            X = rows[self.rng.integers(0, n, rows.shape), columns]
        else:
            X = in_order(L)[self.rng.integers(0, len(L), rows.shape), columns] + errors
        A = self.against.mender.mend(X, self.rows.settings, max_iter=ITERATIONS // 2, tol=TOL)
        nearer = np.square(X - A).sum(axis=1) <= np.square(errors).sum(axis=1)
        return min(1.0, 2.0 * float(nearer.mean()))

    def _anywhere(self, count: int) -> Array:
        """Return the residuals of flagged rows whose truth is any good row: `count` of them, drawn at random.

        Below them are the limits, and ones: all values are wrong.
        """
        X, _, mended, found = self.fitted
        drawn = self._drawn(found.rows & ~self.rows.partly_wrong(found), count)
        other = self.truth[self.rng.integers(0, len(self.truth), count)]
        A = mended[drawn]
        changed: NDArray[np.bool_] = np.not_equal(A, X[drawn])
        residuals = self._distances(A, other, np.full(count, -1), WHOLE)[:, changed]
        return np.vstack([residuals, np.ones(residuals.shape[1])])

    def _scaled(self, A: Array, truth: Array, kinds: NDArray[np.intp]) -> Array:
        """Return |truth - A| of the rows that are held out, in units of its scale without the truth; and limits."""
        some = self.good[evenly(len(self.good))]
        places = np.minimum(np.searchsorted(some, self.held), len(some) - 1)
        left_out = np.where(some[places] == self.held, places, -1)
        return self._distances(A, truth, left_out, kinds)

    def _distances(self, A: Array, truth: Array, left_out: NDArray[np.intp], kinds: Any) -> Array:
        """Return |truth - A| in units of its scale, that which all good rows but the one left out give; and limits.

        `kinds` says in what each row was changed, one number for all or one for each.
        """
        L = self.fitted.filled[self.good]
        scale = scales(A, some_rows(L), L.std(axis=0), left_out) * by_kind(self.factors, kinds)
        scale = np.maximum(scale, np.finfo(np.float64).tiny)
        return np.stack([np.abs(A - truth) / scale, self._widths / (2.0 * scale)])


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
    if not residuals.size or (weights is not None and not weights.any()):
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
