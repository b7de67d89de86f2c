"""What one column says by itself: whether it holds amounts, and how often a good entry deviates as far as this one.

*Amounts.* Prices, counts, incomes and concentrations are never negative, differ by factors, and depend on each other by
products: an order costs quantity times price. As they are, their upper tails are heavy, so that errors hide among good
values, and linear expectations miss products. By their logarithms their tails are those of other columns, and products
are sums. Whether a column is one of amounts, its values say (`Logarithms.of`).

*Tails.* A tail on each side of the median is fitted to the bulk of the deviations in a column, since nobody says which
entries are good (`EntryTail`). Chances are natural logarithms, u = -log P(a good entry deviates as far), so that a
large u means an entry that good ones hardly reach. `groups.py` does the same for the scores of rows.

The docstring of the package says what the constants were chosen on.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.distances import cached_blocks

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
# Share of the values at each end of a column that does not say whether it is one of amounts: that many may be negative,
# and wrong. Where this quantile of the positive values lies, logarithms begin to be linear, so that 0 has one.
ENDS = 0.01
# Least gain in log-likelihood, for each value, of a column of amounts. Tails fit columns that are a little skewed, and
# logarithms would enlarge what noise does near 0 (test_one_wrong_cell_on_a_curve). Without logarithms more good rows
# are flagged ("tables", breast cancer), and "tables", drawn has a lower F1.
GAIN = 0.15
# Largest logarithm whose exponential is finite. Negative values end where its square root would be: as far as any code.
LARGEST = 709.0


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
    def of(cls, D: Array) -> "EntryTail":
        """Return the tails fitted to deviations from the medians of their columns; NaN does not count."""
        low, high = -np.log1p(-np.array(SIDE))
        far, columns = np.ascontiguousarray(np.abs(D).T), np.arange(D.shape[1])
        count = np.maximum((~np.isnan(far)).sum(axis=1), 1)
        parts = []
        for sign in (1.0, -1.0):
            values, size = _sorted(far, (sign * D > TINY).T)
            share = np.maximum(size, 1) / count
            few = size < FEWEST
            values[few], size[few] = _sorted(far[few], far[few] > TINY)
            bulk = without_end_group(values, size, END_GROUP * count)
            values[bulk == 0] = TINY
            # Quantiles as `np.quantile` defines them, of the first values of each column.
            quantiles = []
            for at in SIDE:
                last = np.maximum(bulk - 1, 0)
                position = at * last
                below = position.astype(np.intp)
                start, end = values[columns, below], values[columns, np.minimum(below + 1, last)]
                quantiles.append(np.maximum(start + (position - below) * (end - start), TINY))
            known = bulk > 3
            q_low, q = (np.where(known, found, other) for found, other in zip(quantiles, (low, high), strict=True))
            parts.append((q, np.log(q / q_low) / np.log(high / low), share, np.maximum(bulk, 4)))
        q, shape, share, m = (np.stack(part, axis=1).ravel() for part in zip(*parts, strict=True))
        middle = max(float(np.median(shape)), SHAPES[0])
        chance = middle**2 / m
        true = max(0.0, float(np.mean(np.square(shape - middle) - chance)))
        shape = np.clip(middle + (shape - middle) * true / (true + chance), *SHAPES)
        return cls(q, shape, share, m / INFORMATION)

    def u(self, D: Array) -> Array:
        """Return u of each deviation, an array of the shape of `D`; 0 for deviations of at most `TINY`."""
        parts = [(part[0::2], part[1::2]) for part in (self.q, 1.0 / self.shape, np.log(self.share), self.N)]
        out = np.empty(D.shape)
        for rows in cached_blocks(*D.shape):
            above, far = D[rows] > 0.0, np.abs(D[rows])
            q, power, log_share, N = (np.where(above, *sides) for sides in parts)
            u0 = -np.log1p(-SIDE[1]) * np.minimum(far / q, 1e6) ** power
            out[rows] = np.where(far > TINY, N * np.log1p(u0 / N) - log_share, 0.0)
        return out


def _sorted(values: Array, counts: NDArray[np.bool_]) -> tuple[Array, NDArray[np.intp]]:
    """Return the values of each row that count, sorted and followed by infinite ones, and how many these are."""
    return np.sort(np.where(counts, values, np.inf), axis=1), counts.sum(axis=1)


def without_end_group(values: Array, size: NDArray[np.intp], most: Array) -> NDArray[np.intp]:
    """Return how many of the sorted positive values are left in each row without its end group.

    Those are the first `size` values of a row; its end group are those beyond the first gap, if these are at most
    `most`. Such a group (a tenth of a column at -999) would shift the quantiles; whether it is wrong is decided later.

    >>> values = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 900.0, 901.0]])
    >>> without_end_group(values, np.array([10]), np.array([2.0])).tolist()
    [8]
    """
    if values.shape[1] < 2:
        return size
    last = size[:, np.newaxis] - 1
    place = np.arange(values.shape[1] - 1)
    upper = (place >= np.maximum((last + 1) // 2, last - most.astype(np.intp)[:, np.newaxis])) & (place < last)
    gap = upper & (last >= 7) & (values[:, 1:] > GAP * np.maximum(values[:, :-1], TINY))
    return np.where(gap.any(axis=1), gap.argmax(axis=1) + 1, size)


@dataclass(frozen=True)
class Logarithms:
    """t(x) = factor log(1 + x / offset) for x >= 0 and factor x / offset for x < 0, in each column of amounts.

    Other columns stay as they are; their `offset` is 0. The factor leaves the spread of a column as it is, so that rows
    are compared with the same weights as without logarithms.
    """

    offset: Array
    factor: Array

    @classmethod
    def of(cls, X: Array) -> "Logarithms":
        """Return the logarithms of those columns of `X` that are amounts.

        A column is one of amounts if most of its values are positive, none but for a share `ENDS` is negative, and the
        positive ones are likelier with normal logarithms than as normal values, by `GAIN` for each in log-likelihood.
        An end group beyond a gap, such as -999 in place of missing values, does not count.
        """
        offset, factor = np.zeros(X.shape[1]), np.ones(X.shape[1])
        for j, column in enumerate(X.T):
            found = _offset(column)
            if found > 0.0:
                offset[j] = found
                factor[j] = float((robust_sd(X[:, [j]]) / robust_sd(_log(X[:, [j]], found)))[0])
        return cls(offset, factor)

    @classmethod
    def none(cls, columns: int) -> "Logarithms":
        """Return those of so many columns none of which is one of amounts."""
        return cls(np.zeros(columns), np.ones(columns))

    @cached_property
    def _at(self) -> NDArray[np.intp]:
        """The numbers of the columns of amounts."""
        return np.flatnonzero(self.offset)

    def enter(self, X: Array) -> Array:
        """Return the rows with logarithms in the columns of amounts."""
        at = self._at
        if not at.size:
            return X
        out = X.copy()
        out[:, at] = self.factor[at] * _log(X[:, at], self.offset[at])
        return out

    def leave(self, T: Array) -> Array:
        """Return the rows whose logarithms `T` are, but for rounding."""
        at = self._at
        if not at.size:
            return T
        out, t, offset = T.copy(), T[:, at] / self.factor[at], self.offset[at]
        large = np.exp(np.minimum(t + np.log(offset), LARGEST)) - offset
        out[:, at] = np.where(t > 1.0, large, offset * np.where(t > 0.0, np.expm1(np.clip(t, 0.0, 1.0)), t))
        return out


def _log(x: Array, offset: Array | float) -> Array:
    """Return log(1 + x / offset) for x >= 0 and x / offset for x < 0: one slope at 0, and no value without one."""
    with np.errstate(divide="ignore", over="ignore"):
        above = np.logaddexp(0.0, np.log(np.maximum(x, 0.0)) - np.log(offset))
        below = np.maximum(np.minimum(x, 0.0) / offset, -np.exp(0.5 * LARGEST))
    out: Array = np.where(x > 0.0, above, below)
    return out


def _offset(column: Array) -> float:
    """Return where the logarithms of a column begin to be linear; 0 if it is not one of amounts."""
    far = np.abs(column - np.median(column))
    order = np.argsort(far, kind="stable")
    count = without_end_group(far[order][np.newaxis], np.array([far.size]), np.array([END_GROUP * far.size]))[0]
    bulk = np.sort(column[order[:count]])
    positive = bulk[bulk > 0.0]
    end = int(np.ceil(ENDS * positive.size))
    values = positive[end : positive.size - end]
    if values.size < FEWEST or values[0] == values[-1] or np.mean(bulk < 0.0) > ENDS or np.median(bulk) <= 0.0:
        return 0.0
    offset = float(np.quantile(positive, ENDS))
    logarithms = np.log(values + offset)
    spread = np.log((values / values[-1]).std()) + np.log(values[-1])
    gain = spread - np.log(logarithms.std()) - logarithms.mean()
    return offset if gain > GAIN else 0.0
