"""Good and wrong rows by their scores: a mixture of two groups, averaged over all that is not known of it.

Nobody says how good scores are distributed, how many rows are wrong, or how far these stand out. So `TwoGroups` looks
at every combination of a small grid: f0, the density of good scores, is a `LogGamma` with a location, a scale and a
skewness; the share of wrong rows is 0 with probability 1/2, else one of `SHARES`; f1, the density of wrong scores, is
that of injected rows, or normal about one of three distances. Every combination is weighted by its prior probability
times the likelihood of the scores (Bayes). A second grid of f0 is finer, where the first one found it plausible.
What is asked for is a weighted mean over all combinations:

- `u`, minus the logarithm of the chance of a good row having a higher score;
- `threshold`, the score above which a row is wrong with a given probability: one of these rows, whose scores show how
  many are wrong, or a new one, of which only the prior share of wrong rows is known.

Few scores leave many combinations plausible, so small tables become cautious by themselves; and whether there are
wrong rows at all needs no rule of its own. The docstring of the package says what the constants were chosen on.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.ndimage import maximum_filter1d
from scipy.special import gammainc, gammaincc, gammaincinv, gammaln, log_ndtr, logsumexp

from kernmend._typing import Array
from kernmend.detect.columns import FEWEST

# Scores are counted in units of the spread of their lower half, which wrong rows do not reach, from their median on.

# Prior mean and standard deviation of the skewness q of good scores where rows fill many dimensions, and what both
# change by where they fill only one. A score of many dimensions is a mean of many errors, so that its logarithm is
# nearly normal (q = 0); few leave a longer upper tail, of a kind that is less known. With (-0.5, 0.7) for all rows
# "pictures", unit length, occlusion has an F1 of 0.57 in place of 0.63.
SKEW, FEW_DIMENSIONS = (0.0, 0.4), (-1.0, 1.5)
# Least spread of scores, in units of sqrt(2 / d), the spread of log squared lengths of random rows in d dimensions.
# Only those of a regular grid, or of an exact surface relative to their neighbours, have scores that spread less
# (test_spikes_are_marked).
LEAST_SPREAD = 0.8
# Prior standard deviation of the logarithm of the scale of good scores, whose mean is that of the lower half.
SCALE_SD = 0.35
# Least and largest median, logarithm of the scale and skewness of f0, and the number of values of each that are looked
# at. With 30 % of the rows wrong the median of the good scores is 0.6 below that of all.
LOWEST, HIGHEST, POINTS = np.array([-0.7, np.log(0.5), -3.0]), np.array([0.3, np.log(2.0), 1.5]), (6, 7, 10)
# Standard deviations about the mean, of what is believed after the first grid, that the second, finer one covers.
FINER = 2.5
# Shares of wrong rows, if there are any: all equally probable. What is wrong is the smaller part.
SHARES = np.geomspace(0.004, 0.3, 7)
# Prior probabilities of no row being wrong, and of each of `SHARES`; and those where no row can be wrong.
PRIOR_SHARES, NONE_WRONG = np.append(0.5, np.full(SHARES.size, 0.5 / SHARES.size)), np.eye(1, 1 + SHARES.size)[0]
# Distances of wrong rows: the nearest one, the number of distances up to the highest score, and the standard deviation
# about each as a share of it.
NEAREST_WRONG, DISTANCES, SPREAD = 2.5, 3, 0.3
# Share of f1 that is spread evenly above the median, since wrong rows may differ from what is assumed of them.
BROAD = 0.1
# Lowest and highest score that is told from those beyond it, and the width of the bins between them.
RANGE, BIN = (-12.0, 30.0), 0.1
# Largest number of rows that their dimensions are counted on, for memory: copies of more would double that of a fit.
SOME_ROWS = 300
# Scores at which u is computed. Between them it is interpolated by cubics that never fall, with an error below 0.001;
# above them it goes on as a straight line, as chances of scores that are logarithms do.
NODES = np.linspace(*RANGE, 169)
# Least weight of a combination that counts in means, as a share of all.
NEGLIGIBLE = 1e-3
# Exponent beyond which `exp` is not evaluated: there the chance is 0 for all that follows, and `exp` would overflow.
LOG_LIMIT = 50.0


@dataclass(frozen=True)
class LogGamma:
    """The distribution of the logarithm of a power of a gamma variable: location, log of the scale, skewness q.

    q = 0 is normal, q > 0 the logarithm of mean squares (a long lower, a short upper tail), q < 0 its mirror image.
    With w = (x - location) / scale and k = 1 / q^2 the density is |q| k^k / Gamma(k) exp(k (q w - e^(q w))) / scale.
    The three may be columns, of shape (m, 1): then every result has a row for each of m distributions.
    """

    location: Array | float
    log_scale: Array | float
    q: Array | float

    def log_density(self, x: Array) -> Array:
        """Return the logarithm of the density at each x."""
        w, q, normal = self._at(x)
        k = q**-2
        constant = np.log(np.abs(q)) - gammaln(k) + k * np.log(k)
        skewed = constant + k * (q * w - np.exp(np.minimum(q * w, LOG_LIMIT)))
        out: Array = np.where(normal, -0.5 * w * w - 0.5 * np.log(2.0 * np.pi), skewed) - self.log_scale
        return out

    def u(self, x: Array) -> Array:
        """Return -log P(a value above x) for each x, by its asymptote where the chance underflows."""
        w, q, normal = self._at(x)
        k = q**-2
        log_a = np.log(k) + np.minimum(q * w, LOG_LIMIT)
        a = np.exp(log_a)
        chance = np.where(q > 0, gammaincc(k, a), gammainc(k, a))
        asymptote = np.where(q > 0, (k - 1.0) * log_a - a - gammaln(k), k * log_a - gammaln(k + 1.0) - a)
        skewed = np.where(chance > 1e-280, -np.log(np.maximum(chance, 1e-300)), -asymptote)
        out: Array = np.where(normal, -log_ndtr(-w), skewed)
        return out

    def _at(self, x: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Return w of each x, q with 1 in place of what is nearly 0, and where it is nearly 0."""
        normal = np.asarray(np.abs(self.q) < 1e-2)
        return (x - self.location) * np.exp(-np.asarray(self.log_scale)), np.where(normal, 1.0, self.q), normal


@dataclass(frozen=True)
class TwoGroups:
    """What is believed of the scores of rows, of which some may be wrong.

    `middle` and `unit` are the median of the scores and the spread of their lower half; x = (score - middle) / unit.
    `node_u` is u at each of `NODES`, minus the logarithm of the mean chance of all f0 that are plausible. `wrong` is
    the probability of one of the rows being wrong at each x of `grid`, never falling, `new_wrong` that of a new row,
    and `shares` those of no row being wrong and of each of `SHARES`. `evidence` is the logarithm of the likelihood of
    the `count` scores, averaged over all combinations.
    """

    middle: float
    unit: float
    node_u: Array
    grid: Array
    wrong: Array
    new_wrong: Array
    shares: Array
    evidence: float
    count: int

    @classmethod
    def of(
        cls,
        scores: Array,
        injected: Array | None = None,
        *,
        least: float = 1e-3,
        dimensions: float = 4.0,
        only_good: bool = False,
        shares: Array | None = None,
    ) -> "TwoGroups":
        """Return what is to be believed of the scores of rows.

        Parameters
        ----------
        scores : array of shape (n,)
            The scores of the rows, a larger one meaning a larger deviation. None of fewer than `FEWEST` is believed
            wrong.
        injected : array, optional
            The scores of injected rows, which are known to be wrong.
        least : float
            The least scale of the good scores, in units of the scores.
        dimensions : float
            The number of dimensions that the rows fill (`effective_dimensions`).
        only_good : bool
            Whether no row is believed wrong, since the scores do not tell wrong rows from good ones.
        shares : array of shape (1 + number of `SHARES`,), optional
            The prior probabilities of no row being wrong and of each of `SHARES`; `PRIOR_SHARES` where None.
        """
        shares = PRIOR_SHARES if shares is None else shares
        shares = NONE_WRONG if only_good or scores.size < FEWEST else shares
        middle, low = np.percentile(scores, [50.0, 15.87])
        unit = max(float(middle - low), least)
        x = np.clip((scores - middle) / unit, *RANGE)
        z = None if injected is None else np.clip((injected - middle) / unit, *RANGE)
        edges = _bins(x, z)
        grid = 0.5 * (edges[1:] + edges[:-1])
        counts = np.histogram(x, edges)[0]
        f1, log_prior_f1 = _alternatives(grid, z)
        low, high = LOWEST.copy(), HIGHEST.copy()
        low[1] = min(max(low[1], float(np.log(least / unit))), high[1])
        for _ in range(2):
            parameters, log_prior = _null_grid(low, high, dimensions)
            null = parameters.copy()
            null[:, 0] -= np.exp(null[:, 1]) * _medians(null[:, 2])
            f0 = np.exp(LogGamma(*_columns(null)).log_density(grid))
            posterior, evidence = _posterior(counts, f0, log_prior, f1, log_prior_f1, shares)
            weights = posterior.sum(axis=(1, 2))
            low, high = _plausible(parameters, weights, low, high)
        keep = weights > NEGLIGIBLE
        log_weights = np.log(weights[keep] / weights[keep].sum())[:, np.newaxis]
        node_u = -logsumexp(log_weights - LogGamma(*_columns(null[keep])).u(NODES), axis=0)
        return cls(
            float(middle), unit, np.maximum(node_u, 0.0), grid,
            _probability_wrong(grid, f0, f1, posterior), _probability_new(grid, f0, f1, posterior),
            posterior.sum(axis=(0, 1)),
            evidence - scores.size * float(np.log(unit)), scores.size,
        )  # fmt: skip

    def u(self, scores: Array) -> Array:
        """Return u of each score: minus the logarithm of the mean chance of a good row having a higher one."""
        x = (scores - self.middle) / self.unit
        inside: Array = self._inside(np.clip(x, NODES[0], NODES[-1]))
        slope = (self.node_u[-1] - self.node_u[-2]) / (NODES[-1] - NODES[-2])
        out: Array = inside + slope * np.maximum(x - NODES[-1], 0.0)
        return out

    @cached_property
    def _inside(self) -> PchipInterpolator:
        """What interpolates u between the nodes."""
        return PchipInterpolator(NODES, self.node_u)

    @property
    def any_wrong(self) -> float:
        """The probability of there being wrong rows at all."""
        return float(self.shares[1:].sum())

    def plausible_shares(self) -> Array:
        """Return prior probabilities of shares for other scores of the same rows, of which the same share is wrong.

        Two kinds of scores need not show the same rows, so that shares agree within a factor of two: one step of
        `SHARES`. Each is that of `PRIOR_SHARES`, less as far as these scores make it and its neighbours less plausible
        than the most plausible one; what is taken off them is the probability of no row being wrong.
        """
        near = maximum_filter1d(self.shares[1:], 3, mode="nearest")
        some = near / max(float(near.max()), np.finfo(np.float64).tiny) * PRIOR_SHARES[1:]
        out: Array = np.append(1.0 - some.sum(), some)
        return out

    def probability(self, scores: Array) -> Array:
        """Return the probability of rows with these scores being wrong, if they are some of the rows."""
        out: Array = np.interp((scores - self.middle) / self.unit, self.grid, self.wrong)
        return out

    def threshold(self, sure: float, *, new: bool = False) -> float:
        """Return the score above which rows, or new ones, are wrong with this probability; infinite if none is."""
        wrong = self.new_wrong if new else self.wrong
        beyond = np.flatnonzero(wrong > sure)
        if not beyond.size:
            return float("inf")
        around = slice(max(beyond[0] - 1, 0), beyond[0] + 1)
        return float(np.interp(sure, wrong[around], self.grid[around]) * self.unit + self.middle)


def effective_dimensions(Y: Array) -> float:
    """Return the number of dimensions that rows fill: (sum of v)^2 / (sum of v^2), v the variances along their axes.

    >>> round(effective_dimensions(np.random.default_rng(0).standard_normal((1000, 5))))
    5
    """
    some = Y[:: -(-len(Y) // SOME_ROWS)]
    centred = some - some.mean(axis=0)
    centred /= max(float(centred.max()), -float(centred.min()), np.finfo(np.float64).tiny)
    products = centred.T @ centred if centred.shape[0] > centred.shape[1] else centred @ centred.T
    total = float(np.trace(products))
    return float((total / np.linalg.norm(products)) ** 2) if total > 0.0 else 1.0


def least_spread(columns: int, dimensions: float) -> float:
    """Return the least spread of the scores of rows with so many columns that fill so many dimensions.

    A score sums errors in d directions: as many as there are columns where noise fills them all, as many as the rows
    fill where there is none. Nobody says which, so d is the geometric mean of both.
    """
    return LEAST_SPREAD * float(np.sqrt(2.0 / np.sqrt(columns * dimensions)))


def _columns(parameters: Array) -> list[Array]:
    """Return the columns of a table, each of shape (m, 1)."""
    return list(parameters.T[:, :, np.newaxis])


def _bins(x: Array, z: Array | None) -> Array:
    """Return the edges of bins that hold all scores, those of the rows and those of injected rows."""
    low = min(-3.0, float(x.min())) - BIN
    high = max(3.0, float(x.max()), 0.0 if z is None else float(z.max())) + BIN
    out: Array = np.linspace(low, high, round((high - low) / BIN) + 1)
    return out


def _null_grid(low: Array, high: Array, dimensions: float) -> tuple[Array, Array]:
    """Return a grid of f0, a row (median, log of the scale, skewness) each, and their log prior probabilities.

    The grid fills the box between `low` and `high`; each point stands for the volume around it. Rows fill this
    number of `dimensions`.
    """
    axes = [np.linspace(a, b, count) for a, b, count in zip(low, high, POINTS, strict=True)]
    parameters = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    mean, sd = (many + few / dimensions for many, few in zip(SKEW, FEW_DIMENSIONS, strict=True))
    z = np.stack([parameters[:, 1] / SCALE_SD, (parameters[:, 2] - mean) / sd])
    volume = np.prod(np.maximum((high - low) / (np.array(POINTS) - 1), np.finfo(np.float64).tiny))
    density = 2.0 * np.pi * SCALE_SD * sd * (HIGHEST[0] - LOWEST[0])
    return parameters, -0.5 * np.square(z).sum(axis=0) + float(np.log(volume / density))


def _medians(skews: Array) -> Array:
    """Return the median of a `LogGamma` of location 0 and scale 1 for each skewness."""
    size = np.maximum(np.abs(skews), 1e-2)
    k = size**-2
    out: Array = np.where(np.abs(skews) < 1e-2, 0.0, np.sign(skews) * np.log(gammaincinv(k, 0.5) / k) / size)
    return out


def _plausible(parameters: Array, weights: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the box of the finer grid: `FINER` standard deviations about the mean, within the present box."""
    mean = weights @ parameters
    sd = np.sqrt(weights @ np.square(parameters - mean))
    reach = FINER * np.maximum(sd, 0.5 * (high - low) / (np.array(POINTS) - 1))
    return np.maximum(mean - reach, low), np.minimum(mean + reach, high)


def _alternatives(grid: Array, injected: Array | None) -> tuple[Array, Array]:
    """Return the f1 to look at, a row of densities on the grid each, and their log prior probabilities.

    That of injected rows is as probable as all normal ones together.
    """
    top, width = float(grid[-1]), grid[1] - grid[0]
    shapes = [
        np.where(grid > 0.0, np.exp(-0.5 * np.square((grid / mean - 1.0) / SPREAD)), 0.0)
        for mean in np.geomspace(NEAREST_WRONG, max(top, NEAREST_WRONG), DISTANCES)
    ]
    prior = np.full(DISTANCES, 1.0 / DISTANCES)
    if injected is not None:
        injected = np.clip(injected, grid[0], top)
        bandwidth = max(1.06 * float(injected.std()) * injected.size**-0.2, NEAREST_WRONG * BIN)
        shapes.append(np.exp(-0.5 * np.square((grid[:, np.newaxis] - injected) / bandwidth)).sum(axis=1))
        prior = np.append(0.5 * prior, 0.5)
    densities = np.array([shape / (shape.sum() * width) for shape in shapes])
    return BROAD * (grid > 0.0) / top + (1.0 - BROAD) * densities, np.log(prior)


def _posterior(
    counts: Array, f0: Array, log_prior: Array, f1: Array, log_prior_f1: Array, shares: Array
) -> tuple[Array, float]:
    """Return the probability of each combination of f0, f1 and share, and the log of the mean likelihood.

    The first share is 0, where f1 does not matter; the others are `SHARES`. Their prior probabilities are `shares`.
    """
    seen = counts > 0
    n, good, wrong = counts[seen], f0[:, seen], f1[:, seen]
    tiny = np.finfo(np.float64).tiny
    log_joint = np.full((len(f0), len(f1), 1 + SHARES.size), -np.inf)
    log_joint[:, :, 0] = (log_prior + np.log(good + tiny) @ n)[:, np.newaxis] + log_prior_f1
    log_joint[:, :, 0] += np.log(shares[0] + tiny)
    for k, share in enumerate(SHARES):
        if shares[k + 1] > NEGLIGIBLE**2:
            for j, density in enumerate(wrong):
                likelihood = np.log((1.0 - share) * good + share * density + tiny) @ n
                log_joint[:, j, k + 1] = log_prior + log_prior_f1[j] + likelihood + np.log(shares[k + 1])
    evidence = float(logsumexp(log_joint))
    return np.exp(log_joint - evidence), evidence


def _probability_wrong(grid: Array, f0: Array, f1: Array, posterior: Array) -> Array:
    """Return the probability of a row being wrong at each point of the grid, made to never fall.

    Below the median it is 0: what is wrong stands out above.
    """
    wrong = np.zeros(grid.size)
    for k, share in enumerate(SHARES):
        for j, density in enumerate(f1):
            weights = posterior[:, j, k + 1]
            keep = weights > NEGLIGIBLE / posterior[0].size
            belongs = share * density / ((1.0 - share) * f0[keep] + share * density + np.finfo(np.float64).tiny)
            wrong += weights[keep] @ belongs
    out: Array = np.maximum.accumulate(np.where(grid > 0.0, wrong, 0.0))
    return out


def _probability_new(grid: Array, f0: Array, f1: Array, posterior: Array) -> Array:
    """Return the probability of a new row being wrong at each point of the grid, made to never fall.

    How many new rows are wrong is not known from these ones, which may have been chosen to be good: there are wrong
    ones with probability 1/2, and then `SHARES` are equally probable.
    """
    share = 0.5 * float(SHARES.mean())
    good = (1.0 - share) * (posterior.sum(axis=(1, 2)) @ f0)
    wrong = share * (posterior.sum(axis=(0, 2)) @ f1)
    probability = wrong / (good + wrong + np.finfo(np.float64).tiny)
    out: Array = np.maximum.accumulate(np.where(grid > 0.0, probability, 0.0))
    return out
