"""Columns of amounts, in which ratios count: they are judged by their logarithms.

Prices, counts, incomes and concentrations are never negative, differ by factors, and depend on each other by products:
an order costs quantity times price. As they are, their upper tails are heavy, so that errors hide among good values,
and linear expectations miss products. By their logarithms their tails are those of other columns, and products are
sums. Whether a column is one of amounts, its values say (`Logarithms.of`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect.tails import END_GROUP, FEWEST, robust_sd, without_end_group

# Share of the values at each end of a column that does not say whether it is one of amounts: that many may be negative,
# and wrong. Where this quantile of the positive values lies, logarithms begin to be linear, so that 0 has one.
ENDS = 0.01
# Least gain in log-likelihood, for each value, of a column of amounts. Tails fit columns that are a little skewed, and
# logarithms would enlarge what noise does near 0 (test_one_wrong_cell_on_a_curve). Without logarithms more good rows
# are flagged ("tables", breast cancer), and "tables", drawn has a lower F1.
GAIN = 0.15
# Largest logarithm whose exponential is finite. Negative values end where its square root would be: as far as any code.
LARGEST = 709.0


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
