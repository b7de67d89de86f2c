"""Wrong entries: far out in their column, or far from what the other entries of their row predict.

Entries come in robust units: column medians subtracted, divided by robust standard deviations. Every entry gets two
deviations, from the median of its column (marginal) and from its expectation given the rest of its row (conditional),
each with the chance u of a good entry deviating as far (`columns.py`). The larger u counts, and an entry is wrong where
it exceeds the threshold. A wrong entry spoils the expectations of the others of its row; so that one is removed whose
removal brings the row nearest to the good ones, and the row judged again, up to `ROUNDS` times.

`expectations.py` says what is expected, and how far good entries are from it. The docstring of the package says what
the constants were chosen on.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect.columns import TINY, EntryTail
from kernmend.detect.expectations import Conditional, Nearby
from kernmend.detect.groups import TwoGroups, effective_dimensions, least_spread
from kernmend.detect.scores import landmarks
from kernmend.linalg.distances import column_medians

# Share of equal entries above which a column counts as constant: its other entries are too few to show how far they
# spread given the other columns.
CONSTANT = 0.8
# Quantiles, over the rows, of the largest u of a row. The largest of d entries reaches the tail of an entry at 1 / d.
MAXIMA = 0.25, 0.6
# Least deviation of a wrong entry from its expectation, in robust standard deviations of its column: less is not gross,
# though data of exact rank predicts entries to three digits (test_the_edge_of_a_flat_cloud).
LEAST = 0.15
# Number of times that a row is judged, each time without the entries found wrong before.
ROUNDS = 10


class Deviations(NamedTuple):
    """What is known of the entries of rows: their marginal u, the errors of expectations, and the u of these.

    Entries whose marginal u is beyond the threshold have no part in expectations, an error of NaN, and u = 0 there.
    """

    marginal_u: Array
    errors: Array
    conditional_u: Array


@dataclass(frozen=True)
class EntryDetector:
    """Finds wrong entries of rows in robust units.

    `threshold` is the u above which an entry is wrong, `equal` marks the columns that count as constant, `marginal` and
    `conditional` are the two tails, `others` gives the expectations, `nearby` judges their errors beside those of the
    nearest rows, and `centre` are the medians of the errors so judged. `power`, `factor` and `high` make the
    conditional tail heavier where the rows show it (see `fit`). `good` are rows without a wrong entry, between whose
    least and largest entries that which is filled in stays.
    """

    threshold: float
    equal: NDArray[np.bool_]
    marginal: EntryTail
    others: Conditional
    nearby: Nearby
    centre: Array
    conditional: EntryTail
    power: float
    factor: float
    high: float
    good: Array

    @classmethod
    def fit(cls, Z: Array, equal: NDArray[np.bool_], threshold: float) -> tuple["EntryDetector", Deviations]:
        """Return the detector with tails fitted to the rows `Z`, and what it knows of the entries of these.

        Columns marked in `equal` get no conditional tail.
        """
        marginal = EntryTail.of(Z)
        marginal_u = marginal.u(Z)
        left = np.where(marginal_u > threshold, np.nan, Z)
        others = Conditional.of(left)
        nearby, (errors, R, counts) = Nearby.of(others, left)
        centre = column_medians(R)
        conditional = EntryTail.of(R - centre)
        # The largest u of a row should be distributed like the largest of d exponential variables. Where it spreads
        # more, tails are heavier than the quantiles of a column showed, and u is reduced to factor (u / high)^power.
        off = np.nan_to_num(R - centre)
        u = conditional.u(off)
        worst = np.maximum((u * ~equal).max(axis=1), TINY)
        low, high = np.quantile(worst, MAXIMA)
        gumbel = np.log(max(int((~equal).sum()), 1) / -np.log(np.array(MAXIMA)))
        power = min(1.0, float(np.log(gumbel[1] / max(gumbel[0], 0.1)) / max(np.log(high / low), TINY)))
        factor = max(float(high), float(gumbel[1]))
        tail = conditional, power, factor, float(high)
        out = cls(threshold, equal, marginal, others, nearby, centre, *tail, Z[:0])
        u = out._u(off, counts)
        complete = ~np.isnan(left).any(axis=1) & (u <= threshold).all(axis=1)
        return replace(out, good=Z[landmarks(Z, np.flatnonzero(complete))]), Deviations(marginal_u, errors, u)

    def deviations(self, Z: Array) -> Deviations:
        """Return what is known of the entries of new rows."""
        marginal_u = self.marginal.u(Z)
        left = np.where(marginal_u > self.threshold, np.nan, Z)
        return Deviations(marginal_u, *self._errors(left))

    def _errors(self, left: Array, rows: NDArray[np.intp] | None = None) -> tuple[Array, Array]:
        """Return the errors of the expectations of rows, and u of each, judged beside those of the nearest rows.

        Errors are NaN where entries are, and u is 0 there and where an error does not count. `rows` are the numbers of
        these rows among the fitted ones; None for new rows.
        """
        errors, judged, counts = self.nearby.judged(self.others, left, rows)
        return errors, self._u(np.nan_to_num(judged - self.centre), counts)

    def _u(self, off: Array, counts: NDArray[np.bool_]) -> Array:
        """Return u of deviations as the tails give it, reduced as the rows show it; 0 where one does not count."""
        u = self.conditional.u(off) * (counts & ~self.equal & (np.abs(off) > LEAST))
        if self.power == 1.0:
            return u
        out: Array = np.minimum(u, self.factor * (u / self.high) ** self.power)
        return out

    def find(self, Z: Array, fitted: Deviations | None = None) -> tuple[Array, NDArray[np.bool_], Array]:
        """Return u of every entry, the mask of wrong ones, and the rows with expectations in place of wrong entries.

        `fitted` is what `fit` knows of the fitted rows, if `Z` are these: each is then judged leave-one-out. As long as
        an entry of a row is wrong, one is removed and the row judged again, `ROUNDS` times at most and while at most
        half of its entries are removed. It is the one with the largest error in units of its column: with normal errors
        its square is what the squared distance of the row from the others loses without that entry.
        """
        marginal_u, errors, now = fitted or self.deviations(Z)
        wrong, u = marginal_u > self.threshold, np.maximum(marginal_u, now)
        left, at = np.where(wrong, np.nan, Z), np.arange(len(Z))
        for again in range(ROUNDS):
            if again:
                errors, now = self._errors(left[at], None if fitted is None else at)
            size = np.abs(np.nan_to_num(errors - self.nearby.centre)) / self.nearby.units * (now > 0.0)
            hit = (size == size.max(axis=1, keepdims=True)) & (now > self.threshold).any(axis=1, keepdims=True)
            wrong[at], left[at] = wrong[at] | hit, np.where(hit, np.nan, left[at])
            at = at[hit.any(axis=1) & (2 * wrong[at].sum(axis=1) <= Z.shape[1])]
            if not at.size:
                break
        return u, wrong, self.filled(left)

    def filled(self, Z: Array) -> Array:
        """Return the rows with NaN replaced by the expectation given the other entries, within that of good rows."""
        if not len(self.good):
            return np.nan_to_num(Z)
        filled = self.others.filled(Z, self.good)
        return np.where(np.isnan(Z), np.clip(filled, self.good.min(axis=0), self.good.max(axis=0)), Z)


@dataclass(frozen=True)
class ManyEntries:
    """Rows that are far out in many of their entries, though perhaps in none of them as far as a wrong entry.

    The score of a row is the logarithm of the mean u of its entries, each judged in its column alone. A picture that
    does not belong to the others has a high one, though good rows may predict it well. `groups` gives the chance u of a
    good row having as high a score; a row is wrong where u exceeds `limit`.
    """

    groups: TwoGroups
    limit: float

    @classmethod
    def of(cls, Z: Array, entry_u: Array, limit: float) -> "ManyEntries":
        """Return what is believed of the scores of the rows `Z`, whose entries have these u in their columns."""
        dimensions = effective_dimensions(Z)
        least = least_spread(Z.shape[1], dimensions)
        return cls(TwoGroups.of(mean_score(entry_u), least=least, dimensions=dimensions), limit)

    def u(self, entry_u: Array) -> Array:
        """Return u of each row from those of its entries, each in its column alone; 0 where it is not wrong by that."""
        u = self.groups.u(mean_score(entry_u))
        return np.where(u > self.limit, u, 0.0)


def mean_score(u: Array) -> Array:
    """Return the logarithm of the mean u of the entries of each row."""
    out: Array = np.log(u.mean(axis=1) + TINY)
    return out
