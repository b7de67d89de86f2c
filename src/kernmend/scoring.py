"""Which rows do not fit the others: leave-one-out residuals in a kernel space, and where to draw the line.

Every score comes from P = (K + eps I)^-1, K the Gram matrix of the rows:
- "span": r_i = 1 / P_ii - eps, the regularised squared distance of phi(x_i) from the span of the *other* samples;
- "rows": the mean square of e_i = (P X)_i / P_ii, the difference of x_i from its prediction by kernel ridge regression
  on the others;
- "entries": the mean of the largest twentieth of the squares of e_i: a few entries that are far off.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.kernels import RBF, median_squared_distance
from kernmend.spectral import eigenpairs

ScoreKind = Literal["span", "rows", "entries"]

WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0)  # gamma times the median squared distance
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # eps
MIN_FREEDOM = 0.1  # of the leverages' median: below, the fit is so smooth that a score says how dense, not how wrong
MIN_FEATURES = 16  # for scores of entries
TOP_SHARE = 0.05  # of the entries
MIN_GAIN = 20.0  # of log-likelihood by a second group of rows; clean sets reach 19, seldom 30, corrupted ones 26 to 700
FEW_ROWS_GAIN = 12.0, 0.06  # the same for few rows, which cannot say so much: this much, and this much more for each
SMALL_GROUP = 8  # rows: too few to fit a distribution to
GUARD = 1.5  # spreads: nothing closer to the bulk is ever flagged
SUBSET = 800  # rows on which the score is chosen
LARGE = 5.0  # spreads of the lower half: an error above is larger than those of the other rows


@dataclass(frozen=True)
class Line:
    """Where the bulk of the scores ends: log-scores above `middle + threshold * spread` belong to the second group.

    `gain` is the log-likelihood that the second group adds: the evidence that there is one.
    """

    middle: float
    spread: float
    threshold: float
    gain: float

    def standardise(self, scores: Array) -> Array:
        """Return robust z: 0 is typical, -1 the 16th percentile of the bulk."""
        z: Array = (_log(scores) - self.middle) / self.spread
        return z


@dataclass(frozen=True)
class Scorer:
    """A kind of score with its kernel and ridge, ready to score the rows of a reference or new ones against it."""

    kind: ScoreKind
    kernel: RBF
    eps: float

    def leave_one_out(self, X: Array) -> Array:
        """Return the score of each row of `X` against the others."""
        s, U = eigenpairs(self.kernel.gram(X))
        return _scores(s, U, X, (self.kind,), self.eps)[self.kind]

    def against(self, L: Array) -> "ReferenceScorer":
        """Return what scores new rows against the rows of `L`."""
        K = self.kernel.gram(L)
        K.flat[:: K.shape[0] + 1] += self.eps
        P = np.linalg.inv(K)
        centre = np.median(L, axis=0)
        return ReferenceScorer(self, L, P, centre, P @ (L - centre))


@dataclass(frozen=True)
class ReferenceScorer:
    """Scores of new rows against a reference; what `Scorer.leave_one_out` gives, were the row among them."""

    scorer: Scorer
    L: Array
    P: Array
    centre: Array
    coefficients: Array

    def score(self, X: Array) -> Array:
        """Return the score of each row."""
        k = self.scorer.kernel.gram(X, self.L)
        if self.scorer.kind == "span":
            r: Array = np.maximum(1.0 - np.einsum("ij,ij->i", k @ self.P, k), 0.0)
            return r
        return _summary(np.square(X - self.centre - k @ self.coefficients), self.scorer.kind)


def choose_scorer(X: Array, *, seed: int = 0) -> tuple[Scorer, Line]:
    """Return the score whose distribution splits most clearly in two on the rows of `X`, and where it splits.

    Tried are five widths of the Gaussian kernel and five ridges; one eigendecomposition serves all ridges of a width.
    """
    if X.shape[0] > SUBSET:
        X = X[np.random.default_rng(seed).choice(X.shape[0], SUBSET, replace=False)]
    best: tuple[float, Scorer, Array] | None = None
    for scorer, scores in _candidates(X):
        gain = _hard_split(scores).gain
        if best is None or gain > best[0]:
            best = gain, scorer, scores
    assert best is not None
    return best[1], draw_line(best[2])


def needed_gain(n: int) -> float:
    """Return how much evidence for a second group `n` rows must give."""
    return min(MIN_GAIN, FEW_ROWS_GAIN[0] + FEW_ROWS_GAIN[1] * n)


def draw_line(scores: Array) -> Line:
    """Return where the second group begins: where it becomes likelier than the bulk, or nowhere if there is none."""
    middle, spread = _bulk(_log(scores))
    split = _hard_split(scores)
    threshold = float("inf")
    if split.gain >= needed_gain(scores.size):
        threshold = max(split.cut if split.above < SMALL_GROUP else _soft_threshold(scores), GUARD)
    return Line(middle, spread, threshold, split.gain)


def flag_share(scores: Array, share: float) -> tuple[NDArray[np.bool_], float]:
    """Return the flags of that share of the highest scores, and a threshold between them and the others."""
    count = round(share * scores.size)
    descending = np.argsort(-scores, kind="stable")
    flags = np.zeros(scores.size, dtype=bool)
    flags[descending[:count]] = True
    if not count:
        return flags, float("inf")
    return flags, float(scores[descending[[count - 1, min(count, scores.size - 1)]]].mean())


def flag_large(scores: Array, least: float) -> tuple[NDArray[np.bool_], float]:
    """Return the flags of scores far above the others, and the threshold: never below `least`.

    The threshold is median + `LARGE` * (median - 15.87th percentile), as many times the spread of the lower half, which
    outliers do not touch: where half the scores are 0 it is `least`, where every row has some error it is above that.
    """
    low, median = np.percentile(scores, [15.87, 50.0])
    threshold = max(float(least), float(median + LARGE * (median - low)))
    return scores > threshold, threshold


def _candidates(X: Array) -> Iterator[tuple[Scorer, Array]]:
    """Yield every score that says how wrong a row is; the default one where none does (constant rows, tiny n)."""
    median = median_squared_distance(X) or 1.0
    many = X.shape[1] >= MIN_FEATURES
    found = False
    for width in WIDTHS:
        kernel = RBF(width / median)
        s, U = eigenpairs(kernel.gram(X))
        for eps in RIDGES:
            span = _scores(s, U, X, ("span",), eps)["span"]
            if np.median(span / (span + eps)) < MIN_FREEDOM:
                continue
            found = True
            if eps < 0.05:
                yield Scorer("span", kernel, eps), span
            if many and width <= 1.0 and eps >= 1e-3:
                for kind, scores in _scores(s, U, X, ("rows", "entries"), eps).items():
                    yield Scorer(kind, kernel, eps), scores
    if not found:
        scorer = Scorer("span", RBF(1.0 / median), 1e-3)
        yield scorer, scorer.leave_one_out(X)


def _scores(s: Array, U: Array, X: Array, kinds: tuple[ScoreKind, ...], eps: float) -> dict[ScoreKind, Array]:
    weight = 1.0 / (np.maximum(s, 0.0) + eps)
    diagonal = np.square(U) @ weight
    out: dict[ScoreKind, Array] = {}
    if "span" in kinds:
        out["span"] = np.maximum(1.0 / diagonal - eps, 0.0)
    if len(kinds) > len(out):
        e = (U * weight) @ (U.T @ (X - np.median(X, axis=0)))
        e2 = np.square(e / diagonal[:, np.newaxis], out=e)
        out |= {kind: _summary(e2, kind) for kind in kinds if kind != "span"}
    return out


def _summary(squares: Array, kind: ScoreKind) -> Array:
    if kind == "rows":
        mean: Array = squares.mean(axis=1)
        return mean
    top = max(1, int(TOP_SHARE * squares.shape[1]))
    largest: Array = np.partition(squares, -top, axis=1)[:, -top:].mean(axis=1)
    return largest


# --- one group or two -------------------------------------------------------------------------------------------------


def _log(scores: Array) -> Array:
    out: Array = np.log(np.maximum(scores, np.finfo(np.float64).tiny))
    return out


def _bulk(log_scores: Array) -> tuple[float, float]:
    """Return the median and the spread of the lower half, which outliers do not touch."""
    middle, low = np.percentile(log_scores, [50.0, 15.87])
    return float(middle), max(float(middle - low), 1e-9 * max(1.0, abs(float(middle))))


def _upper_half(scores: Array) -> Array:
    """Return the sorted standardised log-scores above the median."""
    log_scores = _log(scores)
    middle, spread = _bulk(log_scores)
    z = np.sort((log_scores - middle) / spread)
    return z[z > 0]


def _half_normal(v: Array, sigma: float | Array) -> Array:
    out: Array = np.log(np.sqrt(2.0 / np.pi) / sigma) - 0.5 * np.square(v / sigma)
    return out


class _Split(NamedTuple):
    gain: float
    cut: float
    above: int


def _hard_split(scores: Array) -> _Split:
    """Return the split of the upper half, half-normal below and uniform above, that gains most log-likelihood."""
    v = _upper_half(scores)
    n = v.size
    if n < 4:
        return _Split(0.0, float("inf"), 0)
    below = np.arange(1, n)
    above = n - below
    cut = 0.5 * (v[:-1] + v[1:])
    sigma2 = np.cumsum(np.square(v))[:-1] / below
    width = np.maximum(v[-1] - cut, 1e-12) * (1.0 + 1.0 / above)
    split = (
        below * (0.5 * np.log(2.0 / (np.pi * np.maximum(sigma2, 1e-300))) - 0.5 + np.log(below / n))
        + above * (np.log(above / n) - np.log(width))
    )  # fmt: skip
    whole = float(_half_normal(v, np.sqrt(np.mean(np.square(v)))).sum())
    allowed = cut > GUARD + 0.5
    if not allowed.any():
        return _Split(0.0, float("inf"), 0)
    best = int(np.argmax(np.where(allowed, split, -np.inf)))
    return _Split(float(split[best]) - whole, float(cut[best]), int(above[best]))


def _soft_threshold(scores: Array) -> float:
    """Return z where a normal second group becomes likelier than the half-normal bulk, by EM from several starts."""
    v = _upper_half(scores)
    best = (-np.inf, 0.0)
    for start in (50, 60, 70, 80, 85, 90, 94, 97):
        likelihood, threshold = _em(v, (v > np.percentile(v, start)).astype(np.float64))
        best = max(best, (likelihood, threshold))
    return best[1]


def _em(v: Array, member: NDArray[np.float64], rounds: int = 40) -> tuple[float, float]:
    grid = np.linspace(0.0, float(v[-1]), 2000)
    for _ in range(rounds):
        share = float(np.clip(member.mean(), 1e-4, 0.9))
        sigma = max(float(np.sqrt(((1 - member) * v * v).sum() / max(float((1 - member).sum()), 1e-9))), 1e-6)
        weight = max(float(member.sum()), 1e-9)
        mean = float((member * v).sum()) / weight
        width = max(float(np.sqrt((member * (v - mean) ** 2).sum() / weight)), 0.3 * sigma)

        def densities(
            z: Array, share: float = share, sigma: float = sigma, mean: float = mean, width: float = width
        ) -> tuple[Array, Array]:
            second = np.log(share / (width * np.sqrt(2 * np.pi))) - 0.5 * np.square((z - mean) / width)
            return np.log(1 - share) + _half_normal(z, sigma), second

        bulk, second = densities(v)
        total = np.logaddexp(bulk, second)
        member = np.exp(second - total)
    bulk, second = densities(grid)
    last = np.flatnonzero(bulk >= second)
    return float(total.sum()), float(grid[last[-1]]) if last.size else 0.0
