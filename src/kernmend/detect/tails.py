"""Chances of entries: how often a good one deviates as far from what is expected of it as this one.

A tail on each side of the median is fitted to the bulk of the deviations in a column, since nobody says which entries
are good. Chances are natural logarithms, u = -log P(a good entry deviates as far), so that a large u means an entry
that good ones hardly reach. `groups.py` does the same for the scores of rows.

The docstring of the package says what the constants were chosen on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernmend._typing import Array

# Quantiles of the deviations on one side of the median that fix the tail there. Wrong entries lie beyond the upper one.
SIDE = 0.6, 0.9
# Number of deviations that are worth one observation of the scale in the gamma prior: from the 90 % quantile of m
# deviations alone, log u has the variance 1.7 / m.
INFORMATION = 2.0
# Least and largest shape of a tail: lighter than a squared normal or heavier than a cubed exponential is not believed.
SHAPES = 0.5, 3.0
# Ratio of neighbouring deviations that makes a gap. Values beyond a gap do not set the quantiles ("column -999": an F1
# of 0.19 without this rule, of 0.97 with it).
GAP = 3.0
# Largest share of a column that may lie beyond a gap; more is a cluster of good values ("clean", clusters: 23 % of the
# rows are flagged without this limit).
END_GROUP = 0.15
# Value at which entries are clipped for correlations, in robust standard deviations, and errors of the nearest rows in
# units of their column (Huber's psi): what lies beyond may be wrong itself.
CLIP = 2.5
# Least number of values for a tail of one side alone, and of rows for a second group.
FEWEST = 20
# Deviation below which two entries are equal, in the unit of the column (a robust standard deviation).
TINY = 1e-9


def robust_sd(X: Array) -> Array:
    """Return a robust standard deviation of each column, never 0.

    It is 1.4826 times the median absolute deviation; where that is 0 the interquartile range / 1.349, where that is 0
    the standard deviation, and 1 for a constant column.
    """
    spread = 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
    for other in (np.subtract(*np.percentile(X, [75, 25], axis=0)) / 1.349, X.std(axis=0), np.ones(X.shape[1])):
        spread = np.where(spread > 0, spread, other)
    return spread


@dataclass(frozen=True)
class EntryTail:
    """The chance u of deviations from the median, for each column and each side by itself: four numbers for each side.

    u0 = log 10 (|deviation| / q_90)^(1 / shape) goes through the 60 % and 90 % quantiles of the m deviations on that
    side: shape 0.7 is normal, 1 exponential. Shapes are drawn to their median over all columns as far as their spread
    is that of chance, shape^2 / m (empirical Bayes). What is not known of the scale makes the tail that of a gamma
    mixture of exponentials: u = N log(1 + u0 / N), N = m / 2; minus the logarithm of the share on that side.
    """

    q: Array
    shape: Array
    share: Array
    N: Array

    @classmethod
    def of(cls, columns: Sequence[Array]) -> "EntryTail":
        """Return the tails fitted to columns of deviations from their median."""
        low, high = -np.log1p(-np.array(SIDE))
        sides = []
        for deviations in columns:
            far = np.abs(deviations)
            for sign in (1.0, -1.0):
                side = far[sign * deviations > TINY]
                share = max(side.size, 1) / max(deviations.size, 1)
                bulk = without_end_group(side if side.size >= FEWEST else far[far > TINY], END_GROUP * deviations.size)
                q_low, q = (max(sorted_quantile(bulk, at), TINY) for at in SIDE) if bulk.size > 3 else (low, high)
                sides.append((q, np.log(q / q_low) / np.log(high / low), share, max(bulk.size, 4)))
        q, shape, share, m = np.array(sides).T
        middle = max(float(np.median(shape)), SHAPES[0])
        chance = middle**2 / m
        true = max(0.0, float(np.mean(np.square(shape - middle) - chance)))
        shape = np.clip(middle + (shape - middle) * true / (true + chance), *SHAPES)
        return cls(q, shape, share, m / INFORMATION)

    def u(self, D: Array) -> Array:
        """Return u of each deviation, an array of the shape of `D`; 0 for deviations of at most `TINY`."""
        out = np.zeros(D.shape)
        for side, sign in enumerate((1.0, -1.0)):
            q, shape, share, N = (part[side::2] for part in (self.q, self.shape, self.share, self.N))
            u0 = -np.log1p(-SIDE[1]) * np.minimum(np.abs(D) / q, 1e6) ** (1.0 / shape)
            out = np.where(sign * D > TINY, N * np.log1p(u0 / N) - np.log(share), out)
        return out


def sorted_quantile(values: Array, at: float) -> float:
    """Return the quantile `at` of sorted values as `np.quantile` defines it, which is slow for many columns."""
    position = at * (values.size - 1)
    below = int(position)
    return float(values[below] + (position - below) * (values[min(below + 1, values.size - 1)] - values[below]))


def without_end_group(values: Array, most: float) -> Array:
    """Return positive values, sorted, without those beyond the first gap if these are at most `most` values.

    Such a group (a tenth of a column at -999) would shift the quantiles; whether it is wrong is decided later.

    >>> float(without_end_group(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 900.0, 901.0]), 2).max())
    8.0
    """
    values = np.sort(values)
    if values.size < 8:
        return values
    upper = np.arange(max(values.size // 2, values.size - 1 - int(most)), values.size - 1)
    cut = upper[values[upper + 1] > GAP * np.maximum(values[upper], TINY)]
    return values[: cut[0] + 1] if cut.size else values
