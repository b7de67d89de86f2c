"""Wrong rows: from scores to chances and a threshold.

Scores come from `scores.py`. `TwoGroups` describes them by a mixture of good and wrong rows, which gives the chance u
of each row, and a threshold: the u above which a row is wrong with probability `SURE`, at most `cap`. This is the plain
scoring.

Good rows are not all alike: views of an object with little detail are predicted well by the others and have low scores,
views of one with much detail have high scores. An error of the same size then leads to a lower score among the first
than a good row has among the second, and all of the second may seem to be wrong. So there is a second scoring
(`choose_scoring`): the score of each row minus what the scores of its nearest rows let expect (`Neighbours`). It
counts where it makes the scores likelier. Then a row is wrong if it is wrong by either scoring. Both are of the same
rows, of which one share is wrong: what the relative scores say of it is what is believed of it before the plain scores
are looked at. Else many of these would seem to be wrong that are good rows of a kind with higher scores.

Wrong rows are among those that the others are compared with, and that the kernel is chosen on: where rows are few, they
hide each other. So, where no row is surely wrong but some are more probably wrong than good, all rows are judged once
more, with these left out of what they are compared with (`Judgement`). Where rows are surely wrong they are found as it
is, and leaving out more would make good rows at the ends of curves stand out.

A row is wrong only if its error, judged by the good rows, can be told from the spacing of the rows (`EFFECT`): one at
the edge of a cloud that the others predict to three digits is unusual, but not wrong: its u is the threshold itself.

The reference. The rows that are not flagged, `LANDMARKS` at most, are kept, and new rows are scored against them. How
many of the fitted rows are wrong, their scores show; how many of the new ones are, nobody knows: the fitted ones may
have been chosen to be good. So the threshold is that of new rows, of which a prior share is wrong, where it is lower,
and the u of a fitted row that is not wrong is at most this threshold.

The docstring of the package says what the constants were chosen on.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect.columns import FEWEST
from kernmend.detect.groups import TwoGroups, effective_dimensions, least_spread
from kernmend.detect.scores import (
    NEAREST,
    KernelSpan,
    Measure,
    choose_score,
    inject,
    landmarks,
    nearest_rows,
)
from kernmend.linalg.distances import squared_distances

# Mean capped rank of injected rows below which a score does not tell them from good rows: 0.48 is that of chance, with
# a standard error of 0.016. Then no row is believed wrong by its group (test_clean_data_of_few_columns).
INFORMATIVE = 0.55
# Size of an error, in robust standard deviations, up to which it has full weight in the regression of scores on those
# of the nearest rows: 96 % efficient for normal errors.
HUBER = 1.5
# Least probability of being wrong of a flagged row, and of a suspect; suspects are left out where rows are judged once
# more ("curves", 10 % of 60: an F1 of 0.49 without that). A higher one misses more ("pictures", occlusion:
# an F1 of 0.65 at 0.8, 0.72 at 0.7), a lower one flags more good rows ("tables": 0.6 % at 0.6, 0.4 % at 0.8).
SURE, LIKELY = 0.75, 0.5
# Largest number of rows that the score is chosen on, for the time of the eigendecompositions: with 300 detection takes
# an eighth longer, and nothing but the noise of single sets differs.
CHOOSING = 200
# Number of steps in which wrong entries are filled in by the kernel prediction.
FILLS = 10
# Difference of entries, as a share of the largest entry of their column, up to which a row is one of the reference:
# what changing units and back leaves.
SAME = 1e-12
# Kernel of two rows above which they are worth comparing: distances by inner products are not exactly 0.
NEARLY_SAME = 1.0 - 1e-6


@dataclass(frozen=True)
class Neighbours:
    """The score to be expected of a row: slope * (median score of its `NEAREST` rows of L - middle).

    `scores` are those of the rows of `L`, NaN where they do not count, `middle` is their median, and `slope`, between 0
    and 1, says how far scores follow those of the nearest rows. Errors differ from each other, so that the neighbours
    of a wrong row are good.
    """

    L: Array
    scores: Array
    middle: float
    slope: float

    @classmethod
    def of(cls, L: Array, scores: Array) -> "Neighbours":
        """Return the neighbours with the slope learned from the rows `L` and their scores, leave-one-out."""
        unit_slope, known = cls(L, scores, float(np.nanmedian(scores)), 1.0), ~np.isnan(scores)
        expected = unit_slope.expected(L, np.arange(len(L)))
        return replace(unit_slope, slope=robust_slope(expected[known], scores[known]))

    def against(self, L: Array, scores: Array) -> "Neighbours":
        """Return neighbours that are other rows `L` with other scores; the slope stays."""
        return replace(self, L=L, scores=scores, middle=float(np.median(scores)))

    def expected(self, Y: Array, left_out: NDArray[np.intp] | None = None) -> Array:
        """Return by how much the score of each row of Y is expected to exceed `middle`.

        `left_out` has for each row of Y the number of a row of L that does not count as its neighbour: itself, or the
        row that it was made from. The result is 0 where the slope is 0 or L has at most `NEAREST` rows.
        """
        if self.slope == 0.0 or len(self.L) <= NEAREST:
            return np.zeros(len(Y))
        nearest = nearest_rows(squared_distances(Y, self.L), left_out)
        scores = self.scores[nearest]
        scores[np.isnan(scores).all(axis=1)] = self.middle
        # Sorted, since NaN comes last: faster than `np.nanmedian`.
        scores.sort(axis=1)
        count, rows = (~np.isnan(scores)).sum(axis=1), np.arange(len(scores))
        median = 0.5 * (scores[rows, (count - 1) // 2] + scores[rows, count // 2])
        out: Array = self.slope * (median - self.middle)
        return out


def robust_slope(x: Array, y: Array) -> float:
    """Return the slope of y on x, clipped to [0, 1], by Huber's regression: wrong rows have large errors.

    >>> x = np.arange(20.0)
    >>> round(robust_slope(x, 0.5 * x + 30.0 * (x == 3.0)), 1)
    0.5
    """
    x, y, weight, slope = x - np.median(x), y - np.median(y), np.ones(len(y)), 0.0
    for _ in range(10):
        slope = float((weight * x * y).sum() / max(float((weight * x * x).sum()), 1e-300))
        errors = y - slope * x
        errors -= np.median(errors)
        size = np.abs(errors) / max(1.4826 * float(np.median(np.abs(errors))), 1e-300)
        weight = HUBER / np.maximum(size, HUBER)
    return min(max(slope, 0.0), 1.0)


@dataclass(frozen=True)
class Scoring:
    """Scores of rows and what is believed of them: plain ones where `neighbours` is None, else relative to theirs."""

    neighbours: Neighbours | None
    scores: Array
    groups: TwoGroups

    def limit(self, probability: float, cap: float, *, new: bool = False) -> float:
        """Return the u above which a row, or a new one, is wrong with this probability, at most `cap`."""
        score = self.groups.threshold(probability, new=new)
        return min(float(self.groups.u(np.array([score]))[0]), cap) if np.isfinite(score) else cap

    def likelier(self, other: "Scoring") -> bool:
        """Return whether the scores are likelier than under another scoring with one parameter less (BIC).

        Both likelihoods are of the same scores, given those of the nearest rows.
        """
        return self.groups.evidence - 0.5 * float(np.log(self.groups.count)) > other.groups.evidence


class Judgement(NamedTuple):
    """What is believed of rows whose reference are some of them.

    `measure` gives the scores, `sample` are the numbers of the rows that it compares others with, and `plain` and
    `relative` are the scorings that `choose_scoring` returns.
    """

    measure: Measure
    sample: NDArray[np.intp]
    plain: Scoring
    relative: Scoring | None

    @classmethod
    def of(cls, Y: Array, trusted: NDArray[np.bool_], count: NDArray[np.bool_]) -> "Judgement":
        """Return what is believed of the rows `Y`, compared with those that are `trusted`, each without itself.

        `count` marks the rows whose scores count for what is believed of scores.
        """
        known = np.flatnonzero(trusted)
        choice, sample = choose_score(Y[landmarks(Y, known, CHOOSING)]), landmarks(Y, known)
        measure = Measure.of(choice.kind, choice.eps, KernelSpan.of(Y[sample], choice.kernel))
        others = np.setdiff1d(np.arange(len(Y)), sample)
        scores = np.empty(len(Y))
        scores[others] = measure.scores(Y[others], measure.span.project(Y[others]))
        scores[sample] = measure.scores_of_span()
        return cls(measure, sample, *choose_scoring(Y, sample, scores, count, measure, choice.power < INFORMATIVE))

    def probabilities(self) -> Array:
        """Return the probability of each row being wrong, by the scoring that makes it the larger."""
        counting = [self.plain] if plain_counts(self.relative) else []
        counting += [] if self.relative is None else [self.relative]
        out: Array = np.max([scoring.groups.probability(scoring.scores) for scoring in counting], axis=0)
        return out


@dataclass(frozen=True)
class RowDetector:
    """Scores rows against the reference; a row is wrong where its u exceeds `threshold`.

    `measure` gives the score of a row, against the rows of the reference. `plain` is the distribution of the plain
    scores, `relative` that of the scores relative to the `neighbours`, None if these do not count. `limits` are the u
    above which a row is wrong by the one and by the other, and `threshold` is the lower one of both. A row whose u
    exceeds `suspect_threshold` is a suspect. `reference_u` is u of the rows of the reference, each judged without
    itself.
    """

    measure: Measure
    plain: TwoGroups
    neighbours: Neighbours | None
    relative: TwoGroups | None
    limits: tuple[float, float]
    threshold: float
    suspect_threshold: float
    reference_u: Array

    @classmethod
    def fit(
        cls,
        Y: Array,
        cap: float,
        good: NDArray[np.bool_],
        filled: NDArray[np.bool_] | None = None,
        wrong: NDArray[np.bool_] | None = None,
    ) -> tuple["RowDetector", Array]:
        """Return the detector fitted to the rows `Y`, and u of each row, leave-one-out.

        `cap` is the largest threshold. Rows marked in `good` are part of the reference whatever their u. Those marked
        in `filled` had wrong entries, which were filled in: what that leaves of errors says nothing of the others, so
        that their scores do not count for what is believed of scores. Those marked in `wrong` are wrong by another
        test, and are not part of the reference.
        """
        count = np.ones(len(Y), dtype=bool) if filled is None or filled.mean() > 0.5 else ~filled
        judged = Judgement.of(Y, np.ones(len(Y), dtype=bool), count)
        probabilities = judged.probabilities()
        doubtful = ~good & (probabilities > LIKELY)
        if doubtful.any() and probabilities.max() <= SURE:
            judged = Judgement.of(Y, ~doubtful, count)
        measure, sample, plain, relative = judged
        limits = limits_of(plain, relative, SURE, cap)
        u = plain.groups.u(plain.scores)
        u = u if relative is None else combined(u, relative.groups.u(relative.scores), limits)
        flagged, limits = u > min(limits), limits_of(plain, relative, SURE, cap, new=True)
        threshold = min(limits)
        suspect = min(threshold, *limits_of(plain, relative, LIKELY, cap), float(np.log(max(len(Y), FEWEST))))
        u = np.where(flagged, u, np.minimum(u, threshold))
        fit = u <= threshold if wrong is None else (u <= threshold) & ~wrong
        reference = landmarks(Y, np.flatnonzero(fit | good))
        if not np.array_equal(reference, sample):
            measure = measure.against(Y[reference])
        high = np.flatnonzero(u > threshold)
        if high.size:
            u[high[~measure.visible(Y[high], measure.span.project(Y[high]))]] = threshold
        neighbours, groups = (None, None) if relative is None else (relative.neighbours, relative.groups)
        if neighbours is not None:
            neighbours = neighbours.against(measure.span.L, measure.scores_of_span())
        return cls(measure, plain.groups, neighbours, groups, limits, threshold, suspect, u[reference]), u

    def against(self, Y: Array) -> "RowDetector":
        """Return a detector whose reference is the good rows `Y`: these set the level of scores; thresholds stay."""
        span = self.measure.span.against(Y[landmarks(Y, np.arange(len(Y)))])
        measure = Measure.of(self.measure.kind, self.measure.eps, span)
        scores = measure.scores_of_span()
        least = least_spread(span.L.shape[1], effective_dimensions(span.L))
        plain = _recentred(self.plain, scores, least)
        neighbours, relative, expected = self.neighbours, self.relative, None
        if neighbours is not None and relative is not None:
            neighbours = neighbours.against(span.L, scores)
            expected = neighbours.expected(span.L, np.arange(len(scores)))
            relative = _recentred(relative, scores - expected, least)
        moved = replace(self, measure=measure, plain=plain, neighbours=neighbours, relative=relative)
        return replace(moved, reference_u=np.minimum(moved._u(scores, expected), self.threshold))

    def u(self, Y: Array) -> Array:
        """Return u of rows, each by itself; rows of the reference, which are their own neighbours, have theirs."""
        span = self.measure.span
        expected = None if self.neighbours is None else self.neighbours.expected(Y)  # before K: both are large
        K = span.kernel.gram(Y, span.L)
        nearest, near = K.argmax(axis=1), np.flatnonzero(K.max(axis=1) > NEARLY_SAME)
        size = SAME * np.abs(span.L).max(axis=0)
        seen = near[(np.abs(Y[near] - span.L[nearest[near]]) <= size).all(axis=1)]
        projected: Array = K @ span.U
        del K  # as large as what comes next
        u = self._u(self.measure.scores(Y, projected), expected)
        high = np.flatnonzero(u > self.threshold)
        u[high[~self.measure.visible(Y[high], projected[high])]] = self.threshold
        u[seen] = self.reference_u[nearest[seen]]
        return u

    def filled(self, Y: Array, entries: NDArray[np.bool_]) -> Array:
        """Return rows with the marked entries replaced by what the reference predicts of them, in `FILLS` steps.

        The kernel prediction of a row depends on the entries that are replaced, so each step predicts them anew.
        """
        span = self.measure.span
        low, high = span.L.min(axis=0), span.L.max(axis=0)
        for _ in range(FILLS):
            errors = span.new_rows(Y, span.project(Y), self.measure.eps)[1]
            Y = np.where(entries, np.clip(Y - errors, low, high), Y)
        return Y

    def _u(self, scores: Array, expected: Array | None) -> Array:
        """Return u of rows from their scores, and from what these exceed the expected ones by."""
        plain = self.plain.u(scores)
        if expected is None or self.relative is None:
            return plain
        return combined(plain, self.relative.u(scores - expected), self.limits)


def combined(plain: Array, relative: Array, limits: tuple[float, float]) -> Array:
    """Return u of rows from their plain u and from their u relative to neighbours, each with its limit.

    It is the larger one where one exceeds its limit. Else the plain one counts, up to the lower limit: rows of a rare
    kind have neighbours like themselves, and stay unusual.
    """
    wrong = (plain > limits[0]) | (relative > limits[1])
    return np.where(wrong, np.maximum(plain, relative), np.minimum(plain, min(limits)))


def _recentred(groups: TwoGroups, scores: Array, least: float) -> TwoGroups:
    """Return a distribution of the shape of `groups` with the median and the spread of other scores."""
    middle, low = np.percentile(scores, [50.0, 15.87])
    return replace(groups, middle=float(middle), unit=max(float(middle - low), least))


def choose_scoring(
    Y: Array, sample: NDArray[np.intp], scores: Array, count: NDArray[np.bool_], measure: Measure, only_good: bool
) -> tuple[Scoring, Scoring | None]:
    """Return the plain scoring, and that relative to neighbours if the scores are likelier under it.

    Parameters
    ----------
    Y, scores, count : arrays with one row or element for each row
        The rows, their scores, and which of these count for what is believed of scores.
    sample : array of int
        The numbers of the rows that are the span of `measure`.
    measure : Measure
        What gave the scores.
    only_good : bool
        Whether scores do not tell injected rows from good ones, so that there is no second group to believe in.
    """
    L, (rows, source) = measure.span.L, inject(measure.span.L)
    dimensions = effective_dimensions(L)
    least = least_spread(L.shape[1], dimensions)

    def believed(scores: Array, injected: Array, shares: Array | None = None) -> TwoGroups:
        known = {"least": least, "dimensions": dimensions}
        return TwoGroups.of(scores[count], injected, only_good=only_good, shares=shares, **known)

    injected = measure.scores(rows, measure.span.project(rows), source)
    plain = Scoring(None, scores, believed(scores, injected))
    neighbours = Neighbours.of(L, np.where(count, scores, np.nan)[sample])
    expected = neighbours.expected(Y) if sample.size < len(Y) else np.empty(len(Y))
    expected[sample] = neighbours.expected(L, np.arange(sample.size))
    groups = believed(scores - expected, injected - neighbours.expected(rows, source))
    relative = Scoring(neighbours, scores - expected, groups)
    if not relative.likelier(plain):
        return plain, None
    return replace(plain, groups=believed(scores, injected, groups.plausible_shares())), relative


def plain_counts(relative: Scoring | None) -> bool:
    """Return whether the plain scoring counts: not if relative to neighbours there are no wrong rows."""
    return relative is None or relative.groups.any_wrong >= 0.5


def limits_of(
    plain: Scoring, relative: Scoring | None, probability: float, cap: float, *, new: bool = False
) -> tuple[float, float]:
    """Return the u above which rows are wrong with this probability by each scoring; infinite where it does not count.

    The plain one does not count if under the relative one there are no wrong rows. With `new` the limits are those of
    new rows too, which may be wrong more often than these: where these show few wrong rows, the limits are lower.
    """

    def lower(scoring: Scoring) -> float:
        limit = scoring.limit(probability, cap)
        return min(limit, scoring.limit(probability, cap, new=True)) if new else limit

    return lower(plain) if plain_counts(relative) else np.inf, np.inf if relative is None else lower(relative)
