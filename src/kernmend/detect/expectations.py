"""What is expected of an entry given the others of its row, and how far good entries are from that.

Expectations are linear (`Conditional`), which is enough to find an entry that is grossly wrong. What is filled in for
it has to lie on the surface of the good rows, so it is corrected by the errors of the linear expectation in the nearest
good rows. How far linear expectations are off, and how far entries scatter about them, differs from place to place:
every error is judged beside those of the nearest rows (`Nearby`).

The docstring of the package says what the constants were chosen on.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from kernmend._typing import Array
from kernmend.detect.columns import CLIP, TINY
from kernmend.detect.scores import LANDMARKS, MANY_COLUMNS, NEAREST, landmarks, nearest_rows, robust_slope
from kernmend.linalg.distances import column_medians, squared_distances

# Ridge of the regressions, as a share of the variance of a column; it is multiplied by 1 + 10 d / n.
RIDGE = 0.02


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

    def standardised(self, Z: Array) -> Array:
        """Return rows in standardised columns."""
        out: Array = (Z - self.mean) / self.sd
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


class Beside(NamedTuple):
    """Errors of expectations, NaN where an entry is, the same judged beside those of nearest rows, and which count."""

    errors: Array
    judged: Array
    counts: NDArray[np.bool_]


@dataclass(frozen=True)
class Nearby:
    """The errors of expectations in the nearest rows, beside which the error of an entry is judged.

    For an entry the `NEAREST` of the rows `L` count, by their distance in all other entries (in all entries where there
    are `MANY_COLUMNS` or more). Where these err on one side, the surface is curved: the error loses `slope` times the
    mean of theirs. Where their errors scatter, rows are hard to predict, or the surface bends: what is left is divided
    by ((1 + s) / 2)^(power / 2), with s the mean square of theirs about what is taken off. `slope` and `power`, between
    0 and 1, are learned in each column from all rows. An error counts if what is left of it is beyond `CLIP` roots of
    s: at the end of a curve it is as large as the steps between the rows around it, and not gross.

    `errors` are those of the rows `L`, in `units` from their `centre` on and clipped at `CLIP`. `numbers` are the
    numbers of the rows `L` among the fitted ones.
    """

    L: Array
    numbers: NDArray[np.intp]
    centre: Array
    units: Array
    slope: Array
    power: Array
    errors: Array

    @classmethod
    def of(cls, others: Conditional, left: Array) -> tuple["Nearby", Beside]:
        """Return what is known of the fitted rows `left`, NaN where an entry is wrong, and their errors as judged."""
        all_rows, nothing = np.arange(len(left)), np.zeros(left.shape[1])
        expected = others.predict(left, all_rows)
        V = others.standardised(np.where(np.isnan(left), expected, left))
        numbers = landmarks(V, all_rows, LANDMARKS // 2)
        centre, units = centre_and_spread(left - expected)
        own = np.nan_to_num(np.clip((left - expected - centre) / units, -CLIP, CLIP))
        out = cls(V[numbers], numbers, centre, units, nothing, nothing, own[numbers])
        near = out._means(V, all_rows)
        if near is not None:
            out = replace(out, slope=_slopes(near[0], own))
            off, scatter = out._beside(own, *near)
            out = replace(out, power=_slopes(0.5 * np.log(0.5 + 0.5 * scatter), np.log(np.abs(off) + TINY)))
        return out, out._judged(others, left, left - expected, near, all_rows)

    def judged(self, others: Conditional, left: Array, rows: NDArray[np.intp] | None = None) -> Beside:
        """Return the errors of rows, NaN where an entry is, and these as judged.

        `rows` are the numbers of these rows among the fitted ones, which are not their own neighbours; None for new
        rows.
        """
        expected = others.predict(left, rows)
        near = self._means(others.standardised(np.where(np.isnan(left), expected, left)), rows)
        return self._judged(others, left, left - expected, near, rows)

    def _judged(
        self,
        others: Conditional,
        left: Array,
        errors: Array,
        near: tuple[Array, Array] | None,
        rows: NDArray[np.intp] | None,
    ) -> Beside:
        """Return errors as judged; `near` is what `_means` returns of the rows."""
        if near is None:
            return Beside(errors, errors, np.ones(errors.shape, dtype=bool))
        off, scatter = self._beside((errors - self.centre) / self.units, *near)
        judged = off * (0.5 + 0.5 * scatter) ** (-0.5 * self.power)
        holes = np.isnan(left)
        at = np.flatnonzero(holes.any(axis=1) & ~holes.all(axis=1))
        if at.size and others.dense:
            off[at], spread = self._without(others, left[at], errors[at], None if rows is None else rows[at])
            judged[at], scatter[at] = off[at] / np.maximum(spread, 1.0), np.square(spread)
        return Beside(errors, self.centre + self.units * judged, np.abs(off) > CLIP * np.sqrt(scatter))

    def _without(
        self, others: Conditional, left: Array, errors: Array, rows: NDArray[np.intp] | None
    ) -> tuple[Array, Array]:
        """Return what is left of the errors of rows that lack entries, and how those of their neighbours scatter.

        With fewer entries known errors are others, and larger: the same entries of the nearest rows are left out. That
        takes an expectation for each of these, so it is done only where columns are no more than rows.
        """
        nearest, d = nearest_rows(self._distances(others.standardised(left), rows), None), left.shape[1]
        known = np.repeat(~np.isnan(left), NEAREST, axis=0)
        hidden = np.where(known, self.L[nearest.ravel()] * others.sd + others.mean, np.nan)
        near = (hidden - others.predict(hidden, self.numbers[nearest.ravel()]) - self.centre) / self.units
        near = np.sort(near.reshape(len(left), NEAREST, d), axis=1)
        middle = 0.5 * (near[:, (NEAREST - 1) // 2] + near[:, NEAREST // 2])
        spread = 1.4826 * np.median(np.abs(near - middle[:, np.newaxis]), axis=1)
        return (errors - self.centre) / self.units - self.slope * middle, spread

    def _beside(self, own: Array, mean: Array, square: Array) -> tuple[Array, Array]:
        """Return what is left of errors in units, and s of each; `mean` and `square` are those of the nearest rows."""
        scatter = square - self.slope * (2.0 - self.slope) * np.square(mean)
        return own - self.slope * mean, np.maximum(scatter, 0.0)

    def _means(self, V: Array, rows: NDArray[np.intp] | None) -> tuple[Array, Array] | None:
        """Return the means of the errors, and of their squares, in the rows near each entry of `V`.

        None where there are too few rows.
        """
        if len(self.L) <= NEAREST:
            return None
        squares, D = np.square(self.errors), self._distances(V, rows)
        if V.shape[1] >= MANY_COLUMNS:
            nearest = nearest_rows(D, None)
            starts = np.arange(0, nearest.size + 1, NEAREST)
            mean = csr_array((np.full(nearest.size, 1.0 / NEAREST), nearest.ravel(), starts), shape=D.shape)
            return mean @ self.errors, mean @ squares
        means, mean_squares = np.empty(V.shape), np.empty(V.shape)
        for j in range(V.shape[1]):
            nearest = nearest_rows(D - np.square(V[:, j, np.newaxis] - self.L[:, j]), None)
            means[:, j], mean_squares[:, j] = self.errors[nearest, j].mean(axis=1), squares[nearest, j].mean(axis=1)
        return means, mean_squares

    def _distances(self, V: Array, rows: NDArray[np.intp] | None) -> Array:
        """Return the squared distances from `L` in the entries that are not NaN, infinite to the row and its copies."""
        D: Array = squared_distances(np.nan_to_num(V), self.L) - np.isnan(V) @ np.square(self.L).T
        D[D <= TINY] = np.inf
        if rows is not None:
            D[rows[:, np.newaxis] == self.numbers] = np.inf
        return D


def centre_and_spread(errors: Array) -> tuple[Array, Array]:
    """Return the median of each column and the robust standard deviation about it, never 0; NaN does not count."""
    centre = column_medians(errors)
    return centre, np.maximum(1.4826 * column_medians(np.abs(errors - centre)), TINY)


def _slopes(X: Array, Y: Array) -> Array:
    """Return the slope of each column of Y on that of X, between 0 and 1 and robust, less what chance adds.

    A slope that is t standard errors is multiplied by 1 - 1 / t^2, at least 0 (James and Stein).
    """
    slopes = np.array([robust_slope(x, y) for x, y in zip(X.T, Y.T, strict=True)])
    noise = np.square(centre_and_spread(Y - slopes * X)[1])
    explained = np.square(slopes) * X.var(axis=0) * len(X)
    out: Array = slopes * np.maximum(1.0 - noise / np.maximum(explained, np.finfo(np.float64).tiny), 0.0)
    return out
