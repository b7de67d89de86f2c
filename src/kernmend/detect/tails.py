"""Chances: how often a good value deviates as far as this one. One model for entries, one for the scores of rows.

Both are fitted to the bulk of the data itself, since nobody says which values are good. All chances are natural
logarithms, u = -log P(a good value deviates as far), so that a large u means a value that good ones hardly reach.

`EntryTail` is the model of the entries of a column: a tail on each side of the median, fitted to its 60 % and 90 %
quantiles. `TwoGroups` is the model of the scores of rows: a mixture of good and of wrong rows, fitted by maximum
likelihood; the group of wrong rows is dropped where the likelihood does not need it.

The docstring of the package says what the constants were chosen on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammainc, gammaincc, gammaln, log_ndtr

from kernmend._typing import Array

# --- constants of the tails of entries --------------------------------------------------------------------------------

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
# Least number of values for a tail of one side alone, and of rows for a second group.
FEWEST = 20
# Deviation below which two entries are equal, in the unit of the column (a robust standard deviation).
TINY = 1e-9

# --- constants of the two groups of rows ------------------------------------------------------------------------------

# Prior standard deviation of the skewness q of the good scores; the mean 0 is the normal distribution of logarithms.
SKEW_SD = 0.5
# Least and largest skewness q: from the tail of an exponential of the score to the logarithm of a quarter of a squared
# normal.
SKEWS = -1.0, 2.0
# Share of the second group that is spread evenly above the median, since wrong rows may differ from injected ones.
BROAD = 0.1
# Least scale of the good scores, as a share of the spread of the lower half of the scores. A narrower fit describes a
# part of the good rows only ("pictures", patches: half of the clean ones were flagged without this limit).
NARROWEST = 0.5
# Largest share of wrong rows: what is wrong is the smaller part.
MOST_WRONG = 0.5
# Log-likelihood that the second group must add: p = 0.002 for one parameter at its boundary.
EVIDENCE = 4.0
# Distance between the means, in standard deviations of each group, for a second group with a mean of its own.
APART = 2.0
# Exponent beyond which `exp` is not evaluated: there the chance is 0 for all that follows, and `exp` would overflow.
LOG_LIMIT = 50.0


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

    >>> without_end_group(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 900.0, 901.0]), 2).max()
    np.float64(8.0)
    """
    values = np.sort(values)
    if values.size < 8:
        return values
    upper = np.arange(max(values.size // 2, values.size - 1 - int(most)), values.size - 1)
    cut = upper[values[upper + 1] > GAP * np.maximum(values[upper], TINY)]
    return values[: cut[0] + 1] if cut.size else values


@dataclass(frozen=True)
class LogGamma:
    """The distribution of the logarithm of a power of a gamma variable: location, log of the scale, skewness q.

    q = 0 is normal, q > 0 the logarithm of mean squares (a long lower, a short upper tail), q < 0 its mirror image.
    With w = (x - location) / scale and k = 1 / q^2 the density is |q| k^k / Gamma(k) exp(k (q w - e^(q w))) / scale.
    """

    location: float
    log_scale: float
    q: float

    def log_density(self, x: Array) -> Array:
        """Return the logarithm of the density at each x."""
        w = (x - self.location) * np.exp(-self.log_scale)
        if abs(self.q) < 1e-2:
            normal: Array = -0.5 * w * w - 0.5 * np.log(2.0 * np.pi) - self.log_scale
            return normal
        k = self.q**-2
        constant = np.log(abs(self.q)) - gammaln(k) + k * np.log(k) - self.log_scale
        out: Array = constant + k * (self.q * w - np.exp(np.minimum(self.q * w, LOG_LIMIT)))
        return out

    def u(self, x: Array) -> Array:
        """Return -log P(a value above x) for each x, by its asymptote where the chance underflows."""
        w = (x - self.location) * np.exp(-self.log_scale)
        if abs(self.q) < 1e-2:
            by_normal: Array = -log_ndtr(-w)
            return by_normal
        k = self.q**-2
        a = np.maximum(k * np.exp(np.clip(self.q * w, -700.0, LOG_LIMIT)), 1e-300)
        chance = gammaincc(k, a) if self.q > 0 else gammainc(k, a)
        asymptote = (k - 1.0) * np.log(a) - a - gammaln(k) if self.q > 0 else k * np.log(a) - gammaln(k + 1.0) - a
        out: Array = np.where(chance > 1e-280, -np.log(np.maximum(chance, 1e-300)), -asymptote)
        return out


@dataclass(frozen=True)
class TwoGroups:
    """Scores of rows as a mixture (1 - share) f0 + share f1, fitted by maximum likelihood: f0 good rows, f1 wrong ones.

    f0 (`null`) is a `LogGamma`. f1 (`alternative`, its density on `grid`) is one of two: the density of the scores of
    injected rows with a part spread evenly above the median, or a normal distribution with a mean of its own where the
    scores show a group apart from the others. `gain` is the log-likelihood that f1 adds to the best f0 alone; where it
    is below the evidence asked for, `share` is 0 and there is no second group. Both densities are of
    x = (score - middle) / unit: the median of the scores and the spread of their lower half, which wrong rows do not
    reach. `N` is the number of observations that the scale of f0 is known from. `cost` is minus the log-likelihood
    of the scores, with what their parameters cost.
    """

    middle: float
    unit: float
    null: LogGamma
    share: float
    gain: float
    N: float
    grid: Array
    alternative: Array
    cost: float

    @classmethod
    def of(
        cls,
        scores: Array,
        injected: Array | None = None,
        *,
        least: float = 1e-3,
        evidence: float = EVIDENCE,
        only_one: bool = False,
    ) -> "TwoGroups":
        """Return the groups fitted to the scores of rows.

        Parameters
        ----------
        scores : array of shape (n,)
            The scores of the rows, a larger one meaning a larger deviation.
        injected : array, optional
            The scores of injected rows, which are known to be wrong.
        least : float
            The least scale of the good scores, in units of the scores.
        evidence : float
            The log-likelihood that a second group must add.
        only_one : bool
            Whether all rows are taken to be good, so that no second group is fitted.
        """
        middle, low = np.percentile(scores, [50.0, 15.87])
        unit = max(float(middle - low), least)
        x = np.sort((scores - middle) / unit)
        floor = float(np.log(max(least / unit, NARROWEST)))
        N, in_units = max(scores.size / 2, 4) / INFORMATION, scores.size * float(np.log(unit))
        one_value, null = _fit_one(x, floor)
        alone = cls(float(middle), unit, null, 0.0, 0.0, N, np.array([0.0, 1.0]), np.zeros(2), one_value + in_units)
        if only_one or x.size < FEWEST:
            return alone
        z = np.zeros(0) if injected is None else (injected - middle) / unit
        low_end, top = min(0.0, float(x[0]), *z.tolist()), max(1.0, float(x[-1]), *z.tolist())
        grid = np.linspace(low_end, top, 2000)
        candidates = [_fit_apart(x, grid, floor)]
        if z.size:
            candidates.append(_fit_injected(x, z, grid, floor))
        value, null, share, alternative = min(candidates, key=lambda found: found[0])
        gain = one_value - value
        if gain < evidence:
            return alone
        return cls(float(middle), unit, null, share, gain, N, grid, alternative, value + in_units)

    def u(self, scores: Array) -> Array:
        """Return u of each score: u = N log(1 + u0 / N), with u0 the chance under f0 as if its scale were known."""
        out: Array = self.N * np.log1p(self.null.u((scores - self.middle) / self.unit) / self.N)
        return out

    def threshold(self, sure: float) -> float:
        """Return the score above which rows are wrong with this probability; infinite without a second group."""
        if self.share == 0.0:
            return float("inf")
        good = np.log1p(-self.share) + self.null.log_density(self.grid)
        wrong = np.log(self.share) + np.log(np.maximum(self.alternative, 1e-300))
        doubtful = np.flatnonzero(wrong - good < np.log(sure / (1.0 - sure)))
        doubtful = doubtful if doubtful.size else np.flatnonzero(self.grid <= self.null.location)
        return float(self.grid[doubtful[-1]] * self.unit + self.middle)


Fit = tuple[float, LogGamma, float, Array]
"""The result of one fit: minus the log-likelihood, f0, the share of f1, the density f1 on the grid."""


def _penalty(q: float) -> float:
    """Return minus the logarithm of the prior density of the skewness q, without its constant."""
    return 0.5 * (q / SKEW_SD) ** 2


def _minimise(
    function: Callable[[Array], float], starts: Sequence[Sequence[float]], bounds: Any
) -> tuple[float, Array]:
    """Return the least value of a function that L-BFGS finds from several starts, and the point where it is."""
    found = [minimize(function, start, method="L-BFGS-B", bounds=bounds) for start in starts]
    best = min(found, key=lambda each: float(each.fun))
    return float(best.fun), best.x


def _null_bounds(floor: float) -> list[tuple[float, float]]:
    """Return the bounds of the location, the log of the scale (at least `floor`) and the skewness of f0."""
    return [(-3.0, 3.0), (floor, 3.0), SKEWS]


def _fit_one(x: Array, floor: float) -> tuple[float, LogGamma]:
    """Return minus the log-likelihood of the best f0 alone, and this f0."""

    def cost(p: Array) -> float:
        return -float(LogGamma(p[0], p[1], p[2]).log_density(x).sum()) + _penalty(p[2])

    value, p = _minimise(cost, [(0.0, max(0.0, floor), 0.3), (0.0, max(0.0, floor), -0.5)], _null_bounds(floor))
    return value, LogGamma(*map(float, p))


def _null_starts(x: Array, floor: float, shares: Sequence[float]) -> list[tuple[list[float], Array]]:
    """Return starts of a fit, one for each share: f0 and the share from the scores below, and the scores above."""
    out = []
    for share in shares:
        count = max(int(np.ceil(x.size * (1.0 - share))), 2)
        below = x[:count]
        log_scale = max(float(np.log(max(float(below.std()), 1e-9))), floor)
        out.append(([float(np.median(below)), min(log_scale, 3.0), 0.3, share], x[count - 1 :]))
    return out


def _mixture_cost(x: Array, p: Array, log_f1: Array) -> float:
    """Return minus the log-likelihood of the mixture; p is location, log scale and skewness of f0, and the share."""
    good = np.log1p(-p[3]) + LogGamma(p[0], p[1], p[2]).log_density(x)
    return -float(np.logaddexp(good, np.log(p[3]) + log_f1).sum()) + _penalty(p[2])


def _fit_injected(x: Array, injected: Array, grid: Array, floor: float) -> Fit:
    """Return the fit in which f1 is the density of the scores of injected rows; f0 and the share are free."""
    width = max(1.06 * float(injected.std()) * injected.size**-0.2, 0.05)
    kde = np.exp(-0.5 * np.square((grid[:, np.newaxis] - injected) / width)).mean(axis=1) / (width * np.sqrt(2 * np.pi))
    f1 = BROAD * (grid > 0.0) / grid[-1] + (1.0 - BROAD) * kde
    log_f1 = np.log(np.interp(x, grid, f1) + 1e-300)
    starts = [start for start, _ in _null_starts(x, floor, (min(2.0 / x.size, 0.1), 0.05, 0.25))]
    bounds = [*_null_bounds(floor), (1e-4, MOST_WRONG)]
    value, p = _minimise(lambda p: _mixture_cost(x, p, log_f1), starts, bounds)
    return value, LogGamma(*map(float, p[:3])), float(p[3]), f1


def _fit_apart(x: Array, grid: Array, floor: float) -> Fit:
    """Return the fit in which f1 is normal with a mean apart from f0; its two parameters cost log(n) together (BIC).

    The cost is infinite where the two groups are not `APART`.
    """
    top = float(grid[-1])

    def log_f1(at: Array, mean: float, log_sd: float) -> Array:
        normal = np.exp(-0.5 * np.square((at - mean) * np.exp(-log_sd)) - log_sd) / np.sqrt(2.0 * np.pi)
        out: Array = np.log(BROAD * (at > 0.0) / top + (1.0 - BROAD) * normal + 1e-300)
        return out

    starts = [
        [*start, float(above.mean()), float(np.log(max(float(above.std()), 0.3)))]
        for start, above in _null_starts(x, floor, (min(3.0 / x.size, 0.1), 0.1, 0.3))
    ]
    bounds = [*_null_bounds(floor), (1e-4, MOST_WRONG), (0.0, top), (np.log(0.3), np.log(max(top, 1.0)))]
    value, p = _minimise(lambda p: _mixture_cost(x, p, log_f1(x, p[4], p[5])), starts, bounds)
    apart = p[4] - APART * np.exp(p[5]) > p[0] + APART * np.exp(p[1])
    # A score above the mean of f1 is not less wrong than the mean itself, so the density stays at its peak there.
    f1 = np.exp(log_f1(np.minimum(grid, p[4]), p[4], p[5]))
    return value + np.log(x.size) if apart else np.inf, LogGamma(*map(float, p[:3])), float(p[3]), f1
