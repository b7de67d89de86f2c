"""Wrong entries: far out in their column, or far from what the other entries of their row predict.

Entries come in robust units: column medians subtracted, divided by robust standard deviations. Every entry gets two
deviations, from the median of its column (marginal) and from its expectation given the rest of its row (conditional),
each with the chance u of a good entry deviating as far (`columns.py`). The larger u counts, and an entry is wrong where
it exceeds the threshold. A wrong entry spoils the expectations of the others of its row; so that one is removed whose
removal brings the row nearest to the good ones, and the row judged again, up to `ROUNDS` times.

Expectations are linear, which is enough to find an entry that is grossly wrong. What is filled in for it has to lie on
the surface of the good rows, so it is corrected by the errors of the linear expectation in the nearest good rows. The
docstring of the package says what the constants were chosen on.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from kernmend._typing import Array
from kernmend.detect.columns import CLIP, TINY, EntryTail
from kernmend.detect.groups import TwoGroups, effective_dimensions, least_spread
from kernmend.detect.scores import NEAREST, landmarks
from kernmend.linalg.distances import column_medians

# Ridge of the regressions, as a share of the variance of a column; it is multiplied by 1 + 10 d / n.
RIDGE = 0.02
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


@dataclass(frozen=True)
class Conditional:
    """E[entry | the other entries of its row]: ridge regression of every column on all others, from one matrix.

    V are the standardised entries, O = (V'V / n + lam I)^-1. The error of entry j of row v is (O v)_j / O_jj. With
    a = O v and f = n - v'a, leaving the row v out of the fit turns O into O + a a' / f: an exact leave-one-out. Entries
    that are NaN (found wrong) are not used: they are filled in with their expectation -O_mm^-1 O_mo v_o, with m the NaN
    and o the other entries, and O_jj loses O_jm O_mm^-1 O_mj. `A` has a row a for each fitted row, `free` its f.
    """

    mean: Array
    sd: Array
    inverse: Array
    """O itself if `dense`; else, with fewer rows than columns, the W of O = (I - W'W) / lam (Woodbury)."""
    lam: float
    dense: bool
    A: Array
    free: Array

    @classmethod
    def of(cls, Z: Array) -> "Conditional":
        """Return the regressions fitted to rows in robust units, with NaN where an entry is wrong."""
        n, d = Z.shape
        V = np.clip(Z, -CLIP, CLIP)
        seen = ~np.isnan(V)
        mean = np.where(seen, V, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        V = np.nan_to_num(V - mean)
        sd = np.sqrt(np.mean(V**2, axis=0))
        sd = np.where(sd > 0, sd, 1.0)
        V /= sd
        lam = RIDGE * (1 + 10 * d / n)
        if d > n:
            root = np.linalg.cholesky(V @ V.T + n * lam * np.eye(n))
            inverse = solve_triangular(root, V, lower=True, check_finite=False)
            A = n * solve_triangular(root, inverse, lower=True, trans=1, check_finite=False)  # (VV' / n + lam I)^-1 V
        else:
            inverse = np.linalg.inv(V.T @ V / n + lam * np.eye(d))
            A = V @ inverse
        return cls(mean, sd, inverse, lam, d <= n, A, n - np.einsum("ij,ij->i", A, V))

    def times(self, V: Array) -> Array:
        """Return V O."""
        out: Array = V @ self.inverse if self.dense else (V - (V @ self.inverse.T) @ self.inverse) / self.lam
        return out

    def diagonal(self) -> Array:
        """Return the diagonal of O."""
        if self.dense:
            return np.diag(self.inverse).copy()
        out: Array = (1.0 - np.square(self.inverse).sum(axis=0)) / self.lam
        return out

    def some(self, columns: NDArray[np.intp]) -> Array:
        """Return the rows of O that belong to these columns."""
        if self.dense:
            return self.inverse[columns]
        out: Array = -(self.inverse[:, columns].T @ self.inverse)
        out[np.arange(len(out)), columns] += 1.0
        return out / self.lam

    def predict(self, Z: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return the expectation of every entry given the others of its row, in the units of `Z`.

        `rows` are the numbers of these rows among the fitted ones, each then left out of the fit; None for new rows.
        """
        missing, V = np.isnan(Z), np.nan_to_num((Z - self.mean) / self.sd)
        a = np.zeros(V.shape) if rows is None else self.A[rows]
        f = np.ones(len(V)) if rows is None else self.free[rows]
        diagonal = self.diagonal() + a**2 / f[:, np.newaxis]
        count = missing.sum(axis=1)
        at = np.flatnonzero(count == 1)  # then O_mm is one number, and all such rows are solved at once
        if at.size:
            column = missing[at].argmax(axis=1)
            G = self.some(column) + a[at, column, np.newaxis] * a[at] / f[at, np.newaxis]
            S = G / G[np.arange(at.size), column, np.newaxis]
            V[at, column] = -np.einsum("ij,ij->i", S, V[at])
            diagonal[at] -= np.where(missing[at], 0.0, G * S)
        for i in np.flatnonzero(count > 1):
            m = missing[i]
            G = self.some(np.flatnonzero(m)) + np.outer(a[i, m], a[i]) / f[i]
            S = np.linalg.solve(G[:, m], G)
            V[i, m] = -S[:, ~m] @ V[i, ~m]
            diagonal[i, ~m] -= np.einsum("kj,kj->j", G, S)[~m]
        error = self.times(V) + a * (np.einsum("ij,ij->i", a, V) / f)[:, np.newaxis]
        out: Array = np.where(missing, V, V - error / diagonal) * self.sd + self.mean
        return out

    def filled(self, Z: Array, good: Array) -> Array:
        """Return the rows with each NaN replaced by its expectation given the entries that are not NaN.

        That is the linear expectation, -O_mm^-1 O_mo v_o, plus the mean of its errors in the `NEAREST` of the rows
        `good`, by their squared distance in the entries that are not NaN, whose inverse is the weight of a row. A copy
        of the row itself does not count as near.
        """
        V, known = (Z - self.mean) / self.sd, (good - self.mean) / self.sd
        missing = np.isnan(V)
        rows = np.flatnonzero(missing.any(axis=1))
        masks, which = np.unique(missing[rows], axis=0, return_inverse=True)
        for k, m in enumerate(masks):  # rows that lack the same entries have the same equations
            at, G = rows[which == k], self.some(np.flatnonzero(m))
            S = np.linalg.solve(G[:, m], G)
            seen = V[np.ix_(at, ~m)]
            distances = cdist(seen, known[:, ~m], "sqeuclidean")
            distances[distances <= TINY**2] = np.inf
            count = min(NEAREST, len(known))
            nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
            weights = 1.0 / np.take_along_axis(distances, nearest, axis=1)
            weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
            V[np.ix_(at, m)] = np.einsum("ij,ijk->ik", weights, (known @ S.T)[nearest]) - seen @ S[:, ~m].T
        out: Array = V * self.sd + self.mean
        return out


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
    `conditional` are the two tails, `others` gives the expectations, `centre` the median errors of these, and `spread`
    their robust standard deviations. `power`, `factor` and `high` make the conditional tail heavier where the rows show
    it (see `fit`). `good` are rows without a wrong entry, between whose least and largest entries that which is filled
    in stays.
    """

    threshold: float
    equal: NDArray[np.bool_]
    marginal: EntryTail
    others: Conditional
    centre: Array
    spread: Array
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
        R = left - others.predict(left, np.arange(len(left)))
        seen = np.isfinite(R)
        centre = column_medians(R)
        spread = 1.4826 * column_medians(np.abs(R - centre))
        conditional = EntryTail.of(R - centre)
        # The largest u of a row should be distributed like the largest of d exponential variables. Where it spreads
        # more, tails are heavier than the quantiles of a column showed, and u is reduced to factor (u / high)^power.
        u = conditional.u(np.nan_to_num(R - centre))
        worst = np.maximum((u * ~equal).max(axis=1), TINY)
        low, high = np.quantile(worst, MAXIMA)
        gumbel = np.log(max(int((~equal).sum()), 1) / -np.log(np.array(MAXIMA)))
        power = min(1.0, float(np.log(gumbel[1] / max(gumbel[0], 0.1)) / max(np.log(high / low), TINY)))
        factor = max(float(high), float(gumbel[1]))
        spread = np.maximum(spread, TINY)
        out = cls(threshold, equal, marginal, others, centre, spread, conditional, power, factor, float(high), Z[:0])
        u = out._reduced(u, R)
        complete = seen.all(axis=1) & (u <= threshold).all(axis=1)
        return replace(out, good=Z[landmarks(Z, np.flatnonzero(complete))]), Deviations(marginal_u, R, u)

    def deviations(self, Z: Array) -> Deviations:
        """Return what is known of the entries of new rows."""
        marginal_u = self.marginal.u(Z)
        left = np.where(marginal_u > self.threshold, np.nan, Z)
        errors = left - self.others.predict(left)
        return Deviations(marginal_u, errors, self._u_of_errors(errors))

    def _u_of_errors(self, errors: Array) -> Array:
        """Return u of entries from the errors of their expectations; 0 where an error is NaN, or too small."""
        return self._reduced(self.conditional.u(np.nan_to_num(errors - self.centre)), errors)

    def _reduced(self, u: Array, errors: Array) -> Array:
        """Return the u that the tail of a column gives, reduced as the rows show it; 0 where an error is too small."""
        u = u * (~self.equal & (np.abs(errors - self.centre) > LEAST))
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
                errors = left[at] - self.others.predict(left[at], None if fitted is None else at)
                now = self._u_of_errors(errors)
            off = np.abs(np.nan_to_num(errors - self.centre))
            size = off / self.spread * (~self.equal & (off > LEAST))
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
