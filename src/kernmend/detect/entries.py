"""Wrong entries: against their column, and given the other entries of their row."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from kernmend._typing import Array
from kernmend.detect.tails import TINY, EntryTail

CLIP = 2.5  # robust standard deviations, for the correlations only (Huber's psi)
RIDGE = 0.02  # of a column's variance, times 1 + 10 d / n
CONSTANT = 0.8  # share of equal entries: the rest of such a column says nothing of its spread given the others
MAXIMA = 0.25, 0.6  # quantiles of the worst u of each row: they reach the tail of an entry at 1 / d
ROUNDS = 10  # looks at a row, each without the entries found wrong before


@dataclass(frozen=True)
class Conditional:
    """E[entry | the other entries of its row]: ridge regression of every column on all others, from one matrix.

    V are the standardised entries, O = (V'V / n + lam I)^-1. The error of entry j of row v is (O v)_j / O_jj. Without
    its own row, a = O v and f = n - v'a, O becomes O + a a' / f: exact leave-one-row-out. Entries that are NaN (found
    wrong) are not used: they are filled in with their expectation -O_mm^-1 O_mo v_o, and O_jj loses O_jm O_mm^-1 O_mj.
    """

    mean: Array
    sd: Array
    inverse: Array  # O itself, or W with O = (I - W'W) / lam where rows are fewer than columns (Woodbury)
    lam: float
    dense: bool
    A: Array
    free: Array

    @classmethod
    def of(cls, Z: Array) -> "Conditional":
        """Fit to rows in robust units, NaN where an entry is wrong."""
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
            inverse = solve_triangular(root, V, lower=True)
        else:
            inverse = np.linalg.inv(V.T @ V / n + lam * np.eye(d))
        out = cls(mean, sd, inverse, lam, d <= n, V, np.zeros(n))
        A = out.times(V)
        return replace(out, A=A, free=n - (A * V).sum(axis=1))

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

    def some(self, m: NDArray[np.bool_]) -> Array:
        """Return some rows of O."""
        if self.dense:
            return self.inverse[m]
        out: Array = -(self.inverse[:, m].T @ self.inverse)
        out[np.arange(len(out)), np.flatnonzero(m)] += 1.0
        return out / self.lam

    def predict(self, Z: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return the expectation of every entry; `rows` says which of the fitted rows these are (None: new ones)."""
        missing, V = np.isnan(Z), np.nan_to_num((Z - self.mean) / self.sd)
        a = np.zeros(V.shape) if rows is None else self.A[rows]
        f = np.ones(len(V)) if rows is None else self.free[rows]
        diagonal = self.diagonal() + a**2 / f[:, np.newaxis]
        for i in np.flatnonzero(missing.any(axis=1)):
            m = missing[i]
            G = self.some(m) + np.outer(a[i, m], a[i]) / f[i]
            S = np.linalg.solve(G[:, m], G)
            V[i, m] = -S[:, ~m] @ V[i, ~m]
            diagonal[i, ~m] -= np.einsum("kj,kj->j", G, S)[~m]
        error = self.times(V) + a * (np.einsum("ij,ij->i", a, V) / f)[:, np.newaxis]
        out: Array = np.where(missing, V, V - error / diagonal) * self.sd + self.mean
        return out


@dataclass(frozen=True)
class EntryDetector:
    """Finds wrong entries of rows in robust units; `line` is the u beyond which an entry is wrong."""

    line: float
    equal: NDArray[np.bool_]
    marginal: EntryTail
    others: Conditional
    centre: Array
    conditional: EntryTail
    power: float
    factor: float
    high: float
    low_bound: Array
    high_bound: Array

    @classmethod
    def fit(cls, Z: Array, equal: NDArray[np.bool_], line: float) -> "EntryDetector":
        """Fit both tails. `equal` are columns most of whose entries are the same: they have no conditional tail."""
        marginal = EntryTail.of(list(Z.T))
        left = np.where(marginal.u(Z) > line, np.nan, Z)
        others = Conditional.of(left)
        R = left - others.predict(left, np.arange(len(left)))
        seen = np.isfinite(R)
        centre = np.array([np.median(column[ok]) if ok.any() else 0.0 for column, ok in zip(R.T, seen.T, strict=True)])
        columns = [column[ok] for column, ok in zip((R - centre).T, seen.T, strict=True)]
        conditional = EntryTail.of(columns)
        # Where the worst entries of the rows spread more than the largest of d exponentials, tails are heavier than
        # they seemed at the quantiles of a column.
        worst = np.maximum((conditional.u(np.nan_to_num(R - centre)) * ~equal).max(axis=1), TINY)
        low, high = np.quantile(worst, MAXIMA)
        gumbel = np.log(max(int((~equal).sum()), 1) / -np.log(np.array(MAXIMA)))
        power = min(1.0, float(np.log(gumbel[1] / max(gumbel[0], 0.1)) / max(np.log(high / low), TINY)))
        bounds = (np.where(seen, Z, 0.0).min(axis=0), np.where(seen, Z, 0.0).max(axis=0))
        return cls(
            line, equal, marginal, others, centre, conditional, power, max(float(high), float(gumbel[1])),
            float(high), *bounds,
        )  # fmt: skip

    def find(self, Z: Array, rows: NDArray[np.intp] | None = None) -> tuple[Array, NDArray[np.bool_], Array]:
        """Return u of every entry, which are wrong, and the rows with expectations in place of these.

        A wrong entry spoils the expectations of the others of its row: the row is looked at again without the farthest.
        """
        u = self.marginal.u(Z)
        wrong = u > self.line
        left, at = np.where(wrong, np.nan, Z), np.arange(len(Z))
        for again in range(ROUNDS):
            R = left[at] - self.others.predict(left[at], None if rows is None else rows[at])
            now = self.conditional.u(np.nan_to_num(R - self.centre)) * ~self.equal
            now = np.minimum(now, self.factor * (now / self.high) ** self.power)
            u = np.maximum(u, now) if again == 0 else u
            hit = (now > self.line) & (now == now.max(axis=1, keepdims=True))
            wrong[at], left[at] = wrong[at] | hit, np.where(hit, np.nan, left[at])
            at = at[hit.any(axis=1) & (2 * wrong[at].sum(axis=1) <= Z.shape[1])]
            if not at.size:
                break
        return u, wrong, np.where(wrong, self.expected(left, rows), Z)

    def expected(self, Z: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return what the other entries of its row say of each entry, within the range of the good ones."""
        out: Array = np.clip(self.others.predict(Z, rows), self.low_bound, self.high_bound)
        return out
