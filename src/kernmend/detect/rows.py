"""Wrong rows: how far each is from the span of the other rows in a kernel space, or from what they predict of it.

Scores. With K the Gram matrix of the rows L and P = (K + eps I)^-1, there are three kinds of score. All are logarithms,
all are leave-one-out (the row itself has no part in what it is compared with), and all come from one eigendecomposition
of K, class `KernelSpan`:

- "span": log(-log(1 - r)), where r = 1 / P_ii - eps is the squared distance of phi(x_i) from the span of the others.
  For small r this is log r, and it has no upper limit at r = 1.
- "all": the logarithm of the mean square of the error e_i = (P X)_i / P_ii, that of predicting the row from the others,
  with each column in units of its own errors.
- "worst": the same error, but the mean square of its largest twentieth of the entries only.

Which score. Nobody knows which rows are wrong, so rows with known errors are injected: copies of rows with some entries
taken from other rows. `choose_score` keeps the kind, kernel width and ridge eps under which these rank highest.

From scores to chances. `TwoGroups` fits the scores by a mixture of good and wrong rows, which gives the chance u of
each row, and a threshold: the u above which a row is wrong with probability `SURE`, at most `cap`. This is the plain
scoring. If it flags nothing, a second one is tried (`choose_scoring`): the score of each row minus what the scores of
its nearest rows let expect (`around.py`). It is used where it finds wrong rows or finds injected rows better, and it
only adds flags: all other rows keep their plain u, up to the threshold.

The reference. The rows that are not flagged, `LANDMARKS` at most, are kept, and new rows are scored against them.

The docstring of the package says what the constants were chosen on.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect.around import NEAREST, Neighbours, nearest_rows
from kernmend.detect.tails import EVIDENCE, TwoGroups
from kernmend.linalg.distances import median_squared_distance, squared_distances
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.kernels import RBF

Kind = Literal["span", "all", "worst"]

KINDS: tuple[Kind, ...] = ("span", "all", "worst")
# Kernel widths to choose from: gamma times the median squared distance of two rows.
WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Ridges eps to choose from, in units of k(x, x) = 1.
RIDGES = (1e-6, 1e-4, 1e-2)
# Share of the entries of a row that the score "worst" is the mean of.
WORST = 0.05
# Least number of columns for the scores "all" and "worst". With fewer, errors cannot be larger than the range of the
# data ("new rows", swiss roll: none was found).
MANY_COLUMNS = 16
# Median r above which a kernel is too narrow: most rows are then far from the span of all others.
TOO_NARROW = 0.5
# Number of injected rows. The standard error of their mean rank is 0.01.
INJECTED = 300
# Largest rank of an injected row that counts, as a share of the rows: the rows above may be wrong themselves.
RANK_CAP = 0.8
# Mean capped rank of injected rows below which a score does not tell them from good rows: 0.48 is that of chance, with
# a standard error of 0.016. Then no second group is fitted.
INFORMATIVE = 0.55
# Standard errors by which another score must rank injected rows higher than "span", which sees every kind of error.
STANDARD_ERRORS = 2.0
# Largest loss of mean rank of injected rows, as a share of the rows, at which scores relative to neighbours are used.
# Wrong rows in the data that these scores put above injected rows cost less than that.
RANK_LOSS = 0.02
# Least probability of being wrong of a flagged row, and of a suspect.
SURE, LIKELY = 0.9, 0.5
# Least spread of scores, in units of sqrt(2 / d), the spread of log squared lengths of random rows. Only the rows of a
# regular grid have scores that spread less.
LEAST_SPREAD = 0.8
# Share of rows above the threshold among the nearest rows of those above it, beyond which they are a group of good rows
# with a wider spread.
GROUP = 0.8
# Largest number of rows of the reference, for the time of the eigendecomposition.
LANDMARKS = 800
# Difference of entries, as a share of the largest entry of their column, up to which a row is one of the reference:
# what changing units and back leaves.
SAME = 1e-12
# Kernel of two rows above which they are worth comparing: distances by inner products are not exactly 0.
NEARLY_SAME = 1.0 - 1e-6
# Distance of r from 0 and 1 that rounding does not reach.
ROUNDING = 1e-14


@dataclass(frozen=True)
class KernelSpan:
    """The span of the rows L in the kernel space, from one eigendecomposition of their Gram matrix.

    `s` and `U` are its eigenvalues and eigenvectors, `centre` is the mean of the rows, and `UL` is U' (L - centre).
    """

    L: Array
    kernel: RBF
    s: Array
    U: Array
    centre: Array
    UL: Array

    @classmethod
    def of(cls, L: Array, kernel: RBF) -> "KernelSpan":
        """Return the span of the rows `L`."""
        s, U = eigenpairs(kernel.gram(L))
        centre = L.mean(axis=0)
        return cls(L, kernel, np.maximum(s, 0.0), U, centre, U.T @ (L - centre))

    def leave_one_out(self, eps: float) -> tuple[Array, Array]:
        """Return r of each row of L and its errors of prediction, one row each, against the other rows of L."""
        weight = 1.0 / (self.s + eps)
        inside = np.square(self.U) @ weight
        return 1.0 / inside - eps, (self.U * weight) @ self.UL / inside[:, np.newaxis]

    def project(self, Y: Array) -> Array:
        """Return k(Y, L) U, which `new_rows` needs for every eps."""
        out: Array = self.kernel.gram(Y, self.L) @ self.U
        return out

    def new_rows(
        self, Y: Array, projected: Array, eps: float, left_out: NDArray[np.intp] | None = None
    ) -> tuple[Array, Array]:
        """Return r of each row of Y and its errors of prediction, against the rows of L.

        `projected` is `project(Y)`. `left_out` has for each row of Y the number of a row of L that is left out.
        """
        weight = 1.0 / (self.s + eps)
        r = 1.0 - np.einsum("ij,ij,j->i", projected, projected, weight)
        errors = Y - self.centre - projected @ (weight[:, np.newaxis] * self.UL)
        if left_out is not None:
            U = self.U[left_out]
            both = (projected * U) @ weight
            share = both / (np.square(U) @ weight)
            r += share * both
            errors += share[:, np.newaxis] * ((U * weight) @ self.UL)
        return r, errors


def error_units(errors: Array) -> Array:
    """Return the unit of the errors of each column: the robust size of its own, and that of all columns, combined."""
    own = 1.4826 * np.median(np.abs(errors), axis=0)
    together = float(np.mean(np.median(np.square(errors), axis=0)))
    out: Array = np.sqrt(np.square(own) + together + np.finfo(np.float64).tiny)
    return out


def log_score(kind: Kind, r: Array, errors: Array, units: Array) -> Array:
    """Return the score of each row, of the given kind, from its r or from its errors in `units`."""
    if kind == "span":
        span: Array = np.log(-np.log1p(-np.clip(r, ROUNDING, 1.0 - ROUNDING)))
        return span
    squares = np.square(errors / units)
    if kind == "worst":
        count = max(1, round(WORST * errors.shape[1]))
        squares = np.partition(squares, -count, axis=1)[:, -count:]
    out: Array = np.log(np.maximum(squares.mean(axis=1), 1e-30))
    return out


class Choice(NamedTuple):
    """A kind of score with its span and ridge, and how it did on injected rows.

    `ranks` are the capped ranks of the injected rows, `injected` their scores, and `power` is the mean of the ranks,
    plus a hundredth of that of the ranks without the cap.
    """

    kind: Kind
    span: KernelSpan
    eps: float
    power: float
    ranks: Array
    injected: Array


def inject(L: Array, count: int = INJECTED) -> tuple[Array, NDArray[np.intp]]:
    """Return injected rows, and the number of the row of L that each was made from.

    Some entries of each, a random share of them, are taken from other rows. The random numbers are always the same.
    """
    rng, (n, d) = np.random.default_rng(0), L.shape
    source = rng.integers(0, n, count)
    mixed = L[rng.integers(0, n, (count, d)), np.arange(d)]
    out = np.where(rng.uniform(size=(count, d)) < rng.uniform(size=(count, 1)), mixed, L[source])
    return np.where((out == L[source]).all(axis=1, keepdims=True), mixed, out), source


def choose_score(L: Array) -> Choice:
    """Return the score that ranks injected rows highest; "span" unless another is clearly better."""
    median = median_squared_distance(L) or 1.0
    injected, source = inject(L)
    best: dict[Kind, Choice] = {}
    for width in WIDTHS:
        span = KernelSpan.of(L, RBF(width / median))
        projected = span.project(injected)
        for eps in RIDGES:
            r, errors = span.leave_one_out(eps)
            units = error_units(errors)
            new_r, new_errors = span.new_rows(injected, projected, eps, source)
            narrow = float(np.median(r)) > TOO_NARROW
            for kind in KINDS if L.shape[1] >= MANY_COLUMNS else KINDS[:1]:
                scores = log_score(kind, r, errors, units)
                injected_scores = log_score(kind, new_r, new_errors, units)
                rank = ranks(scores, injected_scores)
                capped = np.minimum(rank, RANK_CAP)
                power = float(capped.mean() + 0.01 * rank.mean())
                if kind not in best or (power > best[kind].power and not (kind == "span" and narrow)):
                    best[kind] = Choice(kind, span, eps, power, capped, injected_scores)
    first = max(best.values(), key=lambda choice: choice.power)
    return first if clearly_positive(first.ranks - best["span"].ranks) else best["span"]


def clearly_positive(differences: Array) -> bool:
    """Return whether the mean of paired differences is above 0 by more than `STANDARD_ERRORS`."""
    return float(differences.mean()) > STANDARD_ERRORS * float(differences.std() / np.sqrt(differences.size))


def ranks(scores: Array, injected: Array) -> Array:
    """Return for each score of an injected row the share of the other scores that it exceeds."""
    out: Array = np.searchsorted(np.sort(scores), injected) / scores.size
    return out


@dataclass(frozen=True)
class Scoring:
    """Scores of rows and of injected rows, and the two groups fitted to them.

    They are plain scores where `neighbours` is None, else scores relative to those of the neighbours.
    """

    neighbours: Neighbours | None
    scores: Array
    injected: Array
    groups: TwoGroups

    def finds_wrong_rows(self, cap: float) -> bool:
        """Return whether any row is wrong: it belongs to the second group, or its u exceeds the largest threshold."""
        return bool(((self.scores > self.groups.threshold(SURE)) | (self.groups.u(self.scores) > cap)).any())

    def finds_more_injected(self, other: "Scoring", threshold: float) -> bool:
        """Return whether clearly more injected rows exceed a threshold in u than under another scoring."""
        here, there = (each.groups.u(each.injected) > threshold for each in (self, other))
        return clearly_positive(here.astype(np.float64) - there)

    def ranks_injected_lower(self, other: "Scoring") -> bool:
        """Return whether the mean rank of injected rows is lower than under another scoring, by `RANK_LOSS`."""
        here, there = (float(ranks(each.scores, each.injected).mean()) for each in (self, other))
        return there - here > RANK_LOSS


@dataclass(frozen=True)
class RowDetector:
    """Scores rows against the reference; a row is wrong where its u exceeds `threshold`.

    `kind`, `eps`, `span` and `units` give the score of a row. `plain` is the distribution of the plain scores, `groups`
    that of the scoring that was chosen, relative to the `neighbours` if these are not None. `cap` is the largest
    threshold; a row whose u exceeds `suspect_threshold` is a suspect. `reference_u` is u of the rows of the reference,
    each judged without itself.
    """

    kind: Kind
    eps: float
    span: KernelSpan
    units: Array
    plain: TwoGroups
    neighbours: Neighbours | None
    groups: TwoGroups
    cap: float
    threshold: float
    suspect_threshold: float
    reference_u: Array

    @classmethod
    def fit(
        cls, Y: Array, cap: float, good: NDArray[np.bool_], evidence: float = EVIDENCE
    ) -> tuple["RowDetector", Array]:
        """Return the detector fitted to the rows `Y`, and u of each row, leave-one-out.

        `cap` is the largest threshold, `evidence` the log-likelihood that a group of wrong rows must add. Rows marked
        in `good` are part of the reference whatever their u.
        """
        sample = landmarks(Y, np.arange(len(Y)))
        choice = choose_score(Y[sample])
        span, (r, errors) = choice.span, choice.span.leave_one_out(choice.eps)
        units = error_units(errors)
        scores = np.empty(len(Y))
        if sample.size < len(Y):
            scores[:] = log_score(choice.kind, *span.new_rows(Y, span.project(Y), choice.eps), units)
        scores[sample] = log_score(choice.kind, r, errors, units)
        plain, chosen = choose_scoring(Y, sample, scores, choice, cap, evidence)
        groups = chosen.groups
        threshold, suspect = (min(float(groups.u(np.array([groups.threshold(p)]))[0]), cap) for p in (SURE, LIKELY))
        suspect = min(threshold, suspect, float(np.log(len(Y))))
        u = _combined(plain.groups.u(plain.scores), groups.u(chosen.scores), threshold, cap)
        reference = landmarks(Y, np.flatnonzero((u <= threshold) | good))
        if not np.array_equal(reference, sample):
            span = KernelSpan.of(Y[reference], span.kernel)
        neighbours = chosen.neighbours
        if neighbours is not None:
            neighbours = neighbours.against(span.L, log_score(choice.kind, *span.leave_one_out(choice.eps), units))
        scored_by = choice.kind, choice.eps, span, units
        return cls(*scored_by, plain.groups, neighbours, groups, cap, threshold, suspect, u[reference]), u

    def against(self, Y: Array) -> "RowDetector":
        """Return a detector whose reference is the good rows `Y`: these set the level of scores; thresholds stay."""
        span = KernelSpan.of(Y[landmarks(Y, np.arange(len(Y)))], self.span.kernel)
        r, errors = span.leave_one_out(self.eps)
        units = error_units(errors)
        scores = log_score(self.kind, r, errors, units)
        plain = groups = _recentred(self.plain if self.neighbours else self.groups, scores, least_spread(Y))
        neighbours, expected = self.neighbours and self.neighbours.against(span.L, scores), None
        if neighbours is not None:
            expected = neighbours.expected(span.L, np.arange(len(scores)))
            groups = _recentred(self.groups, scores - expected, least_spread(Y))
        moved = replace(self, span=span, units=units, plain=plain, neighbours=neighbours, groups=groups)
        return replace(moved, reference_u=moved._u(scores, expected))

    def u(self, Y: Array) -> Array:
        """Return u of rows, each by itself; rows of the reference, which are their own neighbours, have theirs."""
        scores, seen, which = self._scores(Y)
        u = self._u(scores, None if self.neighbours is None else self.neighbours.expected(Y))
        u[seen] = self.reference_u[which]
        return u

    def _scores(self, Y: Array) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
        """Return the scores of rows, the numbers of those that are rows of the reference, and which these are."""
        K = self.span.kernel.gram(Y, self.span.L)
        nearest, near = K.argmax(axis=1), np.flatnonzero(K.max(axis=1) > NEARLY_SAME)
        size = SAME * np.abs(self.span.L).max(axis=0)
        seen = near[(np.abs(Y[near] - self.span.L[nearest[near]]) <= size).all(axis=1)]
        projected: Array = K @ self.span.U
        del K  # as large as what comes next
        scores = log_score(self.kind, *self.span.new_rows(Y, projected, self.eps), self.units)
        return scores, seen, nearest[seen]

    def _u(self, scores: Array, expected: Array | None) -> Array:
        """Return u of scores, and of what they exceed the expected ones by."""
        if expected is None:
            return self.groups.u(scores)
        return _combined(self.plain.u(scores), self.groups.u(scores - expected), self.threshold, self.cap)


def _combined(plain: Array, relative: Array, threshold: float, cap: float) -> Array:
    """Return u of rows from their plain u and from their u relative to neighbours.

    The second counts only where it exceeds the threshold. Else the plain one counts, at most up to the threshold unless
    it exceeds `cap`: rows of a rare kind have neighbours like themselves and keep a high score all the same.
    """
    by_itself = np.where(plain > cap, plain, np.minimum(plain, threshold))
    return np.where(relative > threshold, np.maximum(relative, by_itself), by_itself)


def _recentred(groups: TwoGroups, scores: Array, least: float) -> TwoGroups:
    """Return a distribution of the shape of `groups` with the median and the spread of other scores."""
    middle, low = np.percentile(scores, [50.0, 15.87])
    return replace(groups, middle=float(middle), unit=max(float(middle - low), least))


def choose_scoring(
    Y: Array, sample: NDArray[np.intp], scores: Array, choice: Choice, cap: float, evidence: float
) -> tuple[Scoring, Scoring]:
    """Return the plain scoring and the one to use: the plain one, or that relative to neighbours.

    The plain one is used where it finds wrong rows. Else the relative one is, if it finds wrong rows or if clearly more
    injected rows exceed `cap` under it. Its second group needs log(n) more evidence, since rows at the edge of a cloud
    have higher scores than their neighbours as well. It is not used where injected rows rank lower under it: there
    neighbours mislead (patches of a photograph at the edge of the sky). `sample` are the numbers of the rows that
    `choice` was made on, `scores` those of all rows `Y`.
    """
    L, least, uninformative = Y[sample], least_spread(Y), choice.power < INFORMATIVE

    def scoring(neighbours: Neighbours | None, scores: Array, injected: Array) -> Scoring:
        """Return the scoring with its groups fitted; one group where the second is good rows of a wider spread."""
        needed = evidence + (float(np.log(len(Y))) if neighbours else 0.0)
        groups = TwoGroups.of(scores, injected, least=least, evidence=needed, only_one=uninformative)
        if _is_group(L, scores[sample] > groups.threshold(SURE)):
            groups = TwoGroups.of(scores, least=least, only_one=True)
        return Scoring(neighbours, scores, injected, groups)

    plain = scoring(None, scores, choice.injected)
    if plain.finds_wrong_rows(cap):
        return plain, plain
    neighbours, (injected, source) = Neighbours.of(L, scores[sample]), inject(L)
    expected = neighbours.expected(Y) if sample.size < len(Y) else np.empty(len(Y))
    expected[sample] = neighbours.expected(L, np.arange(sample.size))
    relative = scoring(neighbours, scores - expected, choice.injected - neighbours.expected(injected, source))
    misleads = relative.ranks_injected_lower(plain)
    better = not misleads and (relative.finds_wrong_rows(cap) or relative.finds_more_injected(plain, cap))
    return plain, relative if better else plain


def least_spread(Y: Array) -> float:
    """Return the least spread of the scores of rows with as many columns as `Y`, unless they are a regular grid."""
    return LEAST_SPREAD * float(np.sqrt(2.0 / Y.shape[1]))


def _is_group(L: Array, wrong: NDArray[np.bool_]) -> bool:
    """Return whether the rows marked wrong are each other's neighbours: a group of a wider spread, not errors."""
    rows = np.flatnonzero(wrong)
    if rows.size < NEAREST:
        return False
    return float(wrong[nearest_rows(squared_distances(L[rows], L), rows)].mean()) > GROUP


def landmarks(Y: Array, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return at most `LANDMARKS` of the row numbers `rows`; the choice does not depend on the order of the data."""
    rows = rows[np.lexsort(Y[rows].T[::-1])]
    if rows.size <= LANDMARKS:
        return rows
    out: NDArray[np.intp] = rows[np.linspace(0, rows.size - 1, LANDMARKS).astype(np.intp)]
    return out
