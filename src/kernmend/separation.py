"""One group of rows or two: where the bulk of the scores ends and the wrong rows begin.

Scores are compared in logarithms, standardised by the median and the lower half, which outliers do not touch. The upper
half of the bulk is taken as half-normal; a second group there is believed if it makes the scores much likelier.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

MIN_GAIN = 20.0  # of log-likelihood by a second group of rows; clean sets reach 19, seldom 30, corrupted ones 26 to 700
FEW_ROWS_GAIN = 12.0, 0.06  # the same for few rows, which cannot say so much: this much, and this much more for each
SMALL_GROUP = 8  # rows: too few to fit a distribution to
GUARD = 1.5  # spreads: nothing closer to the bulk is ever flagged
ODDS = 3.0  # how much likelier than the bulk the second group must be, where planting chose the score
GRID_SHARE = 0.3  # of the spread that random rows have: less is that of a grid
LARGE = 5.0  # spreads of the lower half: an error above is larger than those of the other rows
LEAST_WIDTH = 1.0  # spreads, of the second group: scores end at 1, where far rows meet rare ones


@dataclass(frozen=True)
class Line:
    """Where the bulk of the scores ends: log-scores above `middle + threshold * spread` belong to the second group.

    `gain` is the log-likelihood that the second group adds: the evidence that there is one. `least` is the smallest
    spread that was allowed.
    """

    middle: float
    spread: float
    threshold: float
    gain: float
    least: float = 0.0

    def standardise(self, scores: Array) -> Array:
        """Return robust z: 0 is typical, -1 the 16th percentile of the bulk."""
        z: Array = (_log(scores) - self.middle) / self.spread
        return z

    @property
    def level(self) -> float:
        """The score at the threshold."""
        return float(np.exp(self.middle + self.threshold * self.spread))

    def moved_to(self, scores: Array) -> "Line":
        """Return the line with the same threshold for other scores of the same kind."""
        middle, spread = _bulk(_log(scores), self.least)
        return replace(self, middle=middle, spread=spread)

    @property
    def at_rounding(self) -> bool:
        """Whether typical scores are all but equal, so that their order says nothing."""
        return self.spread <= max(_rounding(self.middle), self.least)


def needed_gain(n: int) -> float:
    """Return how much evidence for a second group `n` rows must give."""
    return min(MIN_GAIN, FEW_ROWS_GAIN[0] + FEW_ROWS_GAIN[1] * n)


def natural_spread(n_features: int) -> float:
    """Return the least spread of the logarithms of scores of rows with so many features that counts as natural.

    That of squared lengths of random vectors is about sqrt(2 / d). Rows on a regular grid have none at all: without a
    limit the neighbours of a wrong row, with a gap beside them, would stand out as much as the row itself.
    """
    return GRID_SHARE * math.sqrt(2.0 / n_features)


def draw_line(scores: Array, *, evidence: float | None = None, least: float = 0.0) -> Line:
    """Return where the second group begins: where it becomes likelier than the bulk, or nowhere if there is none.

    `evidence` for a second group is that of these scores unless it is given, from others of the same rows. `least` is
    the smallest spread that the bulk may have.
    """
    middle, spread = _bulk(_log(scores), least)
    split = hard_split(scores, least)
    if evidence is None and split.gain < needed_gain(scores.size):
        return Line(middle, spread, float("inf"), split.gain, least)
    small = 0 < split.above < SMALL_GROUP
    if evidence is None:
        threshold = split.cut if small else _soft_threshold(scores, least)
        return Line(middle, spread, max(threshold, GUARD), split.gain, least)
    soft = _soft_threshold(scores, least, ODDS)
    on_grid = small and spread <= max(least, _rounding(middle))  # a bulk without spread says nothing of its own end
    return Line(middle, spread, max(soft, split.cut if on_grid else GUARD), evidence, least)


def line_at(level: float, scores: Array, gain: float, least: float) -> Line:
    """Return the line at a given score."""
    middle, spread = _bulk(_log(scores), least)
    return Line(middle, spread, (float(np.log(level)) - middle) / spread, gain, least)


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


def _log(scores: Array) -> Array:
    out: Array = np.log(np.maximum(scores, np.finfo(np.float64).tiny))
    return out


def _bulk(log_scores: Array, least: float) -> tuple[float, float]:
    """Return the median and the spread of the lower half, which outliers do not touch."""
    middle, low = np.percentile(log_scores, [50.0, 15.87])
    return float(middle), max(float(middle - low), _rounding(float(middle)), least)


def _rounding(middle: float) -> float:
    return 1e-4 * max(1.0, abs(middle))


def _upper_half(scores: Array, least: float) -> Array:
    """Return the sorted standardised log-scores above the median."""
    log_scores = _log(scores)
    middle, spread = _bulk(log_scores, least)
    z = np.sort((log_scores - middle) / spread)
    return z[z > 0]


def _half_normal(v: Array, sigma: float | Array) -> Array:
    out: Array = np.log(np.sqrt(2.0 / np.pi) / sigma) - 0.5 * np.square(v / sigma)
    return out


class Split(NamedTuple):
    """Where two groups begin to differ: the log-likelihood that the second adds, the z between, and its size."""

    gain: float
    cut: float
    above: int


def hard_split(scores: Array, least: float = 0.0) -> Split:
    """Return the split of the upper half, half-normal below and uniform above, that gains most log-likelihood."""
    v = _upper_half(scores, least)
    n = v.size
    if n < 4:
        return Split(0.0, float("inf"), 0)
    below = np.arange(1, n)
    above = n - below
    cut = 0.5 * (v[:-1] + v[1:])
    sigma2 = np.cumsum(np.square(v))[:-1] / below
    width = np.maximum(v[-1] - cut, LEAST_WIDTH) * (1.0 + 1.0 / above)
    split = (
        below * (0.5 * np.log(2.0 / (np.pi * np.maximum(sigma2, 1e-300))) - 0.5 + np.log(below / n))
        + above * (np.log(above / n) - np.log(width))
    )  # fmt: skip
    whole = float(_half_normal(v, np.sqrt(np.mean(np.square(v)))).sum())
    allowed = cut > GUARD + 0.5
    if not allowed.any():
        return Split(0.0, float("inf"), 0)
    best = int(np.argmax(np.where(allowed, split, -np.inf)))
    return Split(float(split[best]) - whole, float(cut[best]), int(above[best]))


def _soft_threshold(scores: Array, least: float, odds: float = 1.0) -> float:
    """Return z where a normal second group is `odds` times likelier than the half-normal bulk; EM, several starts."""
    v = _upper_half(scores, least)
    best = (-np.inf, 0.0)
    for start in (50, 60, 70, 80, 85, 90, 94, 97):
        likelihood, threshold = _em(v, (v > np.percentile(v, start)).astype(np.float64), odds)
        best = max(best, (likelihood, threshold))
    return best[1]


def _em(v: Array, member: NDArray[np.float64], odds: float, rounds: int = 40) -> tuple[float, float]:
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
    bulk = densities(grid)[0]
    second = densities(np.minimum(grid, mean))[1]  # nothing above the second group's middle belongs to the bulk
    last = np.flatnonzero(bulk + np.log(odds) >= second)
    return float(total.sum()), float(grid[last[-1]]) if last.size else 0.0
