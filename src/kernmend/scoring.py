"""Which rows do not fit the others: leave-one-out residuals in a kernel space.

Every score comes from P = (K + eps I)^-1, K the Gram matrix of the rows:
- "span": r_i = 1 / P_ii - eps, the regularised squared distance of phi(x_i) from the span of the *other* samples;
- "rows": the mean square of e_i = (P X)_i / P_ii, the difference of x_i from its prediction by kernel ridge regression
  on the others;
- "entries": the mean of the largest twentieth of the squares of e_i: a few entries that are far off.

Which kernel, ridge and kind is decided by how the scores separate (`separation.py`) and by planting: what the rows that
stand apart differ by from their nearest neighbours is added to other rows. If those do not stand apart then, the
rows were rare (the edge of a cloud that fills its space), not wrong. Nor are they if most rows near them have high
scores too: then they are a group of a wider spread (`nearby.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.kernels import RBF, FixedRows, median_squared_distance, squared_distances
from kernmend.nearby import closest, nearest_rows, usual
from kernmend.ridge import RidgeInverse
from kernmend.separation import GUARD, Line, Split, draw_line, hard_split, line_at, natural_spread, needed_gain
from kernmend.spectral import eigenpairs

ScoreKind = Literal["span", "rows", "entries"]

WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0)  # gamma times the median squared distance
NARROWER = (30.0, 100.0, 300.0, 1e3, 1e4)  # only where none of those leaves any freedom: rows along a line
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # eps
MIN_FREEDOM = 0.1  # of the leverages' median: below, the fit is so smooth that a score says how dense, not how wrong
MIN_FEATURES = 16  # for scores of entries; with fewer, or where rows span fewer dimensions, planting
FLAT = 0.99  # of the variance: dimensions beyond are noise
TOP_SHARE = 0.05  # of the entries
SUBSET = 800  # rows on which the score is chosen
PLANTED, PLACES = 200, 30  # rows in all, rows for each flagged one
SHARE_OF_GAIN = 0.3  # of the clearest score's: what another must separate to be chosen for finding planted rows better
NEAR, CLOSE = 1.5, 0.04  # distances to the nearest row, their 90th percentile, and typical distances: near is less
ALMOST = 0.8  # of the threshold of scores relative to the usual ones: those are known less well
WRONG, CLEARLY_WRONG = 0.75, 0.8  # share of the good rows below a planted one: for a single row, for all; rare ones 0.6


class Bar(NamedTuple):
    """The score that is too high; where that is usual, the multiple of the usual one that is."""

    level: float
    multiple: float

    def passed(self, scores: Array, usual_nearby: Array) -> Array:
        """Return scores as multiples of what is too high in their place."""
        high = np.maximum(self.level, self.multiple * usual_nearby)
        out: Array = scores / np.where(usual_nearby > self.level, high, self.level)
        return out


@dataclass(frozen=True)
class Scorer:
    """A kind of score with its kernel and ridge, ready to score the rows of a reference or new ones against it."""

    kind: ScoreKind
    kernel: RBF
    eps: float
    bar: Bar | None = None

    def leave_one_out(self, X: Array) -> Array:
        """Return the score of each row of `X` against the others."""
        return self.against(X).leave_one_out()

    def against(self, L: Array) -> "ReferenceScorer":
        """Return what scores new rows against the rows of `L`."""
        return ReferenceScorer(self, L, np.median(L, axis=0))


@dataclass(frozen=True)
class ReferenceScorer:
    """Scores of new rows against a reference; what `Scorer.leave_one_out` gives, were the row among them.

    (But what is usual in a place does not change with a new row.)
    """

    scorer: Scorer
    L: Array
    centre: Array

    @cached_property
    def _rows(self) -> FixedRows:  # with a centre of its own: scores do not depend on what else is in a block
        return self.scorer.kernel.against(self.L)

    @cached_property
    def _solved(self) -> tuple[Array, Array]:
        """The diagonal of P, and what meets new rows: P (L - centre); for the span W, P = W'W. At the first score."""
        P = RidgeInverse.of(self.scorer.kernel.gram(self.L), self.scorer.eps)
        W = P.root()
        return P.diagonal(W), W if self.scorer.kind == "span" else P.times(self.L - self.centre)

    @cached_property
    def _own(self) -> Array:
        """The score of each row of the reference against the others, with no bar."""
        diagonal, coefficients = self._solved
        if self.scorer.kind == "span":
            r: Array = np.maximum(1.0 / diagonal - self.scorer.eps, 0.0)
            return r
        return _summary(np.square(coefficients / diagonal[:, np.newaxis]), self.scorer.kind)

    def leave_one_out(self) -> Array:
        """Return the score of each row of the reference against the others."""
        bar = self.scorer.bar
        return self._own if bar is None else bar.passed(self._own, usual(self._own, nearest_rows(self.L)))

    def score(self, X: Array) -> Array:
        """Return the score of each row."""
        k, coefficients, bar = self._rows.gram(X), self._solved[1], self.scorer.bar
        if self.scorer.kind == "span":
            own: Array = np.maximum(1.0 - np.square(k @ coefficients.T).sum(axis=1), 0.0)
        else:
            own = _summary(np.square(X - self.centre - k @ coefficients), self.scorer.kind)
        return own if bar is None else bar.passed(own, usual(self._own, closest(k)))


class Choice(NamedTuple):
    """The score that was chosen, where it splits, and the scores of all rows."""

    scorer: Scorer
    line: Line
    scores: Array


def choose_scorer(X: Array, *, seed: int = 0) -> Choice:
    """Return the score that tells wrong rows from the others best.

    Tried are five widths of the Gaussian kernel and five ridges; one eigendecomposition serves all ridges of a width.
    The score whose distribution splits most clearly in two says which rows may be wrong. In few dimensions, where a
    row's nearest neighbour shows what is wrong with it, the score that finds planted rows best takes its place. In the
    end groups of rows that have high scores together are spared.
    """
    subset = X if X.shape[0] <= SUBSET else X[np.random.default_rng(seed).choice(X.shape[0], SUBSET, replace=False)]
    candidates = list(_candidates(subset))
    best = max(candidates, key=lambda candidate: candidate.split.gain)
    least = natural_spread(X.shape[1])
    line = draw_line(best.scores, least=least)
    good = line.standardise(best.scores) <= line.threshold
    flat = _flattened(subset, good) if not good.all() else None
    if flat is not None:
        best = _best_at_planted(subset, flat, best, line, candidates, np.random.default_rng(seed))
        line = _above_rare(subset, flat, best, draw_line(best.scores, evidence=line.gain, least=least), candidates)
    choice = _spare_groups(subset, Choice(best.scorer, line, best.scores))
    if subset is X:
        return choice
    scores = choice.scorer.leave_one_out(X)
    return Choice(choice.scorer, choice.line.moved_to(scores), scores)


def _spare_groups(X: Array, choice: Choice) -> Choice:
    """Return the score with a bar for places where most rows are flagged; nothing is, if none stands out from them."""
    scorer, line, scores = choice
    flags = line.standardise(scores) > line.threshold
    if not flags.any():
        return choice
    nearby = usual(scores, nearest_rows(X))
    if not (nearby[flags] > line.level).any():
        return choice
    ratio = scores / nearby
    gain = hard_split(ratio, line.least).gain
    if gain < needed_gain(scores.size):
        return choice._replace(line=replace(line, threshold=float("inf"), gain=gain))
    relative = draw_line(ratio, evidence=gain, least=line.least)
    bar = Bar(line.level, replace(relative, threshold=max(GUARD, ALMOST * relative.threshold)).level)
    scores = bar.passed(scores, nearby)
    return Choice(replace(scorer, bar=bar), line_at(1.0, scores, gain, line.least), scores)


# --- planting ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Suspects:
    """The flagged rows, worst first, what each differs by from the nearest good row, and the good rows, best first.

    Both are ordered by score, so that the order of the data does not matter.
    """

    flagged: NDArray[np.intp]
    wrong: Array
    good: NDArray[np.intp]

    @classmethod
    def of(cls, X: Array, flat: Array, scores: Array, flags: NDArray[np.bool_]) -> "_Suspects":
        order = np.argsort(scores, kind="stable")
        good, flagged = order[~flags[order]], order[flags[order]][::-1]
        nearest = good[squared_distances(X[flagged], X[good]).argmin(axis=1)]
        return cls(flagged, X[flagged] - flat[nearest], good)

    def near(self, X: Array) -> NDArray[np.bool_]:
        """Return which flagged rows are no farther from the good ones than these are from each other."""
        apart = squared_distances(X[self.good])
        np.fill_diagonal(apart, np.inf)
        usual = float(np.percentile(apart.min(axis=1), 90.0))
        limit = min(NEAR**2 * usual, CLOSE**2 * median_squared_distance(X))
        out: NDArray[np.bool_] = np.square(self.wrong).sum(axis=1) <= limit
        return out


def _flattened(X: Array, good: NDArray[np.bool_]) -> Array | None:
    """Return the rows, without what is noise beside the few dimensions that the good ones span; None if those are many.

    With few features that is the rows themselves. What is planted on a row would else bring noise of its own.
    """
    if X.shape[1] < MIN_FEATURES:
        return X
    centre = X[good].mean(axis=0)
    centred = X[good] - centre
    products = centred @ centred.T if centred.shape[0] < centred.shape[1] else centred.T @ centred
    variance = np.cumsum(np.linalg.eigvalsh(products)[::-1])
    rank = int(np.searchsorted(variance, FLAT * variance[-1])) + 1
    if rank >= MIN_FEATURES:
        return None
    axes = np.linalg.svd(centred, full_matrices=False)[2][:rank]
    flat: Array = centre + (X - centre) @ axes.T @ axes
    return flat


def _best_at_planted(
    X: Array, flat: Array, first: "_Candidate", line: Line, candidates: "list[_Candidate]", rng: np.random.Generator
) -> "_Candidate":
    """Return the score that finds what is wrong with the flagged rows, weakened at random, on other rows best."""
    flags = line.standardise(first.scores) > line.threshold
    if not flags.any() or flags.all():
        return first
    suspects = _Suspects.of(X, flat, first.scores, flags)
    rows = suspects.good[rng.integers(0, suspects.good.size, PLANTED)]
    wrong = suspects.wrong[rng.integers(0, suspects.flagged.size, PLANTED)]
    planted = flat[rows] + rng.uniform(size=(PLANTED, 1)) * wrong
    clear = [c for c in candidates if c.split.gain >= SHARE_OF_GAIN * first.split.gain]
    return max(clear, key=lambda c: c.detection(planted, rows, suspects.good).mean())


def _above_rare(X: Array, flat: Array, best: "_Candidate", line: Line, candidates: "list[_Candidate]") -> Line:
    """Return the line, raised over rows that are rare, not wrong: what they differ by is not found on other rows.

    Nor is a row wrong that is as near to a good one as good rows are to each other: the end of a curve. The line is
    raised to where most of the rows above are wrong; if they are not found well enough even so, to infinity.
    """
    z = line.standardise(best.scores)
    flags = z > line.threshold
    if not flags.any() or flags.all():
        return line
    suspects = _Suspects.of(X, flat, best.scores, flags)
    each = suspects.good[np.linspace(0, suspects.good.size - 1, PLACES).astype(np.intp)]
    rows = np.tile(each, suspects.flagged.size)
    planted = flat[rows] + np.repeat(suspects.wrong, PLACES, axis=0)
    found = [c.detection(planted, rows, suspects.good).reshape(-1, PLACES).mean(axis=1) for c in candidates]
    detection = np.where(suspects.near(X), 0.0, max(found, key=np.mean))
    balance = np.cumsum(np.where(detection >= WRONG, 1, -1))
    count = balance.size - int(balance[::-1].argmax())
    if balance.max() <= 0 or detection[:count].mean() < CLEARLY_WRONG:
        return replace(line, threshold=float("inf"), gain=0.0)
    if count == suspects.flagged.size:
        return line
    return replace(line, threshold=float(z[suspects.flagged[count - 1 : count + 1]].mean()))


# --- the candidates ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Spectrum:
    """All scores of the rows X under one kernel, from one eigendecomposition of their Gram matrix."""

    kernel: RBF
    X: Array
    s: Array
    U: Array

    @classmethod
    def of(cls, kernel: RBF, X: Array) -> "_Spectrum":
        s, U = eigenpairs(kernel.gram(X))
        return cls(kernel, X, np.maximum(s, 0.0), U)

    def scores(self, kinds: tuple[ScoreKind, ...], eps: float) -> dict[ScoreKind, Array]:
        """Return the scores of each row against the others."""
        weight = 1.0 / (self.s + eps)
        diagonal = np.square(self.U) @ weight
        out: dict[ScoreKind, Array] = {}
        if "span" in kinds:
            out["span"] = np.maximum(1.0 / diagonal - eps, 0.0)
        if len(kinds) > len(out):
            e = (self.U * weight) @ (self.U.T @ (self.X - np.median(self.X, axis=0)))
            e2 = np.square(e / diagonal[:, np.newaxis], out=e)
            out |= {kind: _summary(e2, kind) for kind in kinds if kind != "span"}
        return out

    def scores_in_place(self, Y: Array, rows: NDArray[np.intp], kind: ScoreKind, eps: float) -> Array:
        """Return the score of each row of `Y` against all rows but the one in whose place it stands.

        Without row i the inverse is P - p p' / P_ii, p the i-th column of P: row i of that is 0.
        """
        weight = 1.0 / (self.s + eps)
        k = self.kernel.gram(Y, self.X)
        kP = ((k @ self.U) * weight) @ self.U.T
        at_row, diagonal = kP[np.arange(rows.size), rows], np.square(self.U[rows]) @ weight
        if kind == "span":
            r: Array = np.maximum(1.0 - np.einsum("ij,ij->i", kP, k) + np.square(at_row) / diagonal, 0.0)
            return r
        centre = np.median(self.X, axis=0)
        PX = (self.U[rows] * weight) @ (self.U.T @ (self.X - centre))
        share = at_row / diagonal
        return _summary(np.square(Y - centre - kP @ (self.X - centre) + share[:, np.newaxis] * PX), kind)


@dataclass(frozen=True)
class _Candidate:
    scorer: Scorer
    spectrum: _Spectrum
    scores: Array
    split: Split

    def detection(self, Y: Array, rows: NDArray[np.intp], good: NDArray[np.intp]) -> Array:
        """Return the share of the good rows whose score is below that of each row of `Y`, in the place of another."""
        scores = self.spectrum.scores_in_place(Y, rows, self.scorer.kind, self.scorer.eps)
        below: Array = np.searchsorted(np.sort(self.scores[good]), scores) / good.size
        return below


def _candidates(X: Array) -> Iterator[_Candidate]:
    """Yield every score that says how wrong a row is; the default one where none does (constant rows, tiny n)."""
    median = median_squared_distance(X) or 1.0
    found = False
    for width in (*WIDTHS, *NARROWER):
        if found and width in NARROWER:
            break
        for candidate in _of_kernel(RBF(width / median), X, residuals=X.shape[1] >= MIN_FEATURES and width <= 1.0):
            found = True
            yield candidate
    if not found:
        scorer = Scorer("span", RBF(1.0 / median), 1e-3)
        yield _candidate(scorer, _Spectrum.of(scorer.kernel, X))


def _of_kernel(kernel: RBF, X: Array, *, residuals: bool) -> Iterator[_Candidate]:
    spectrum = _Spectrum.of(kernel, X)
    for eps in RIDGES:
        span = spectrum.scores(("span",), eps)["span"]
        if np.median(span / (span + eps)) < MIN_FREEDOM:
            continue
        if eps < 0.05:
            yield _candidate(Scorer("span", kernel, eps), spectrum, span)
        if residuals and eps >= 1e-3:
            for kind, scores in spectrum.scores(("rows", "entries"), eps).items():
                yield _candidate(Scorer(kind, kernel, eps), spectrum, scores)


def _candidate(scorer: Scorer, spectrum: _Spectrum, scores: Array | None = None) -> _Candidate:
    scores = spectrum.scores((scorer.kind,), scorer.eps)[scorer.kind] if scores is None else scores
    return _Candidate(scorer, spectrum, scores, hard_split(scores, natural_spread(spectrum.X.shape[1])))


def _summary(squares: Array, kind: ScoreKind) -> Array:
    if kind == "rows":
        mean: Array = squares.mean(axis=1)
        return mean
    top = max(1, int(TOP_SHARE * squares.shape[1]))
    largest: Array = np.partition(squares, -top, axis=1)[:, -top:].mean(axis=1)
    return largest
