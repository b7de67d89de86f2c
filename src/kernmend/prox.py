"""Proximal operators of the convex models, as functions and as the terms that `solvers.admm` puts together.

    prox of t f at V:  argmin over A of t f(A) + |A - V|_F^2 / 2

A term is a function of the recovered matrix with its prox: to add one is to write one class.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from kernmend._typing import Array
from kernmend.singular import TopSingular

# --- pure functions -------------------------------------------------------------------------------------------------


def shrink_entries(X: Array, t: float) -> Array:
    """Return the prox of t |.|_1: every entry nearer to 0 by t.

    >>> import numpy as np
    >>> shrink_entries(np.array([[3.0, -0.5]]), 1.0)
    array([[2., 0.]])
    """
    out: Array = X - np.clip(X, -t, t)
    return out


def shrink_rows(X: Array, t: float) -> Array:
    """Return the prox of t times the sum of the rows' lengths: every row shorter by t.

    >>> import numpy as np
    >>> shrink_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    array([[2.4, 3.2],
           [0. , 0. ]])
    """
    out: Array = X * np.maximum(1.0 - t / np.maximum(row_lengths(X), np.finfo(X.dtype).tiny), 0.0)
    return out


def shrink_singular_values(X: Array, t: float) -> tuple[Array, Array]:
    """Return the prox of t |.|_*, and its singular values above 0: every singular value nearer to 0 by t."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    kept = s > t
    s = s[kept] - t
    return (U[:, kept] * s) @ Vt[kept], s


def row_lengths(X: Array) -> Array:
    """Return the lengths of the rows, as a column."""
    out: Array = np.sqrt(np.einsum("ij,ij->i", X, X))[:, np.newaxis]
    return out


# --- terms ----------------------------------------------------------------------------------------------------------


class Term:
    """A function f of a matrix. A subclass has `value` and `prox`."""

    part: ClassVar[Literal["low_rank", "error", "gram"]] = "error"
    """Which column of the history it counts for."""
    rank: int = 0
    """Rank of the last result of `prox`, if f is what makes it low."""

    def value(self, A: Array) -> float:
        """Return f(A)."""
        raise NotImplementedError

    def prox(self, V: Array, t: float) -> Array:
        """Return argmin over A of t f(A) + |A - V|_F^2 / 2; `V` may be overwritten."""
        raise NotImplementedError

    def proved(self, tol: float) -> bool:
        """Whether the last `prox` was exact to `tol`; one that was not makes the next ones so."""
        return True


@dataclass
class NuclearTerm(Term):
    """|A|_*, the sum of the singular values, with a warm-started partial SVD."""

    part: ClassVar[Literal["low_rank", "error", "gram"]] = "low_rank"
    svd: TopSingular = field(default_factory=TopSingular)
    singular_values: Array = field(default_factory=lambda: np.zeros(0))
    _last: tuple[Array, float, tuple[Array, Array, Array]] | None = field(default=None, repr=False)

    def value(self, A: Array) -> float:
        """Return |A|_* of the last result of `prox`, which is the only matrix that the loop asks for."""
        return float(self.singular_values.sum(dtype=np.float64))

    def prox(self, V: Array, t: float) -> Array:  # noqa: D102
        U, s, Vt = self.svd(V, t)
        self._last = (V, t, (U, s, Vt))
        self.singular_values = s - t
        self.rank = int(s.size)
        out: Array = (U * self.singular_values) @ Vt
        return out

    def proved(self, tol: float) -> bool:  # noqa: D102
        if self._last is None:
            return True
        V, t, triplets = self._last
        return self.svd.proved(V, t, triplets, tol)


@dataclass
class RankTerm(NuclearTerm):
    """0 where the rank is at most `limit`, infinite elsewhere. Not convex: its prox is the best such matrix."""

    limit: int = 1

    def prox(self, V: Array, t: float) -> Array:  # noqa: D102
        U, s, Vt = self.svd(V, 0.0, self.limit)
        self.singular_values = s
        self.rank = int(s.size)
        out: Array = (U * s) @ Vt
        return out


@dataclass(frozen=True)
class _ErrorTerm(Term):
    """What the two error terms share: the data, `lam`, the missing entries and the allowance for small noise.

    `slack` > 0 is the form for noisy data: the error E = X - A may be split into a sparse S and a dense N, and costs
    min lam |S| + |N|_F^2 / (2 slack) over S + N = E, which is Huber's function.
    """

    X: Array
    lam: float
    slack: float = 0.0
    observed: Array | None = field(default=None, repr=False)

    @classmethod
    def of(cls, X: Array, lam: float, slack: float = 0.0) -> "_ErrorTerm":
        """Return the term of data in which NaN means missing: such an entry costs nothing."""
        missing = np.isnan(X)
        if not missing.any():
            return cls(X, lam, slack)
        return cls(np.where(missing, 0.0, X).astype(X.dtype), lam, slack, (~missing).astype(X.dtype))

    def residual(self, A: Array) -> Array:
        """Return X - A, 0 where X is missing."""
        out: Array = self.X - A
        if self.observed is not None:
            out *= self.observed
        return out

    def _huber(self, size: Array) -> float:
        """Return the sum of Huber's function of the sizes of the errors."""
        edge = self.lam * self.slack
        if edge == 0:
            return self.lam * float(size.sum(dtype=np.float64))
        inner = np.minimum(size, edge)
        return float(np.sum(inner * inner / (2.0 * self.slack) + self.lam * (size - inner), dtype=np.float64))


@dataclass(frozen=True)
class EntryTerm(_ErrorTerm):
    """lam sum_ij |x_ij - a_ij|: some entries are wrong."""

    def value(self, A: Array) -> float:  # noqa: D102
        return self._huber(np.abs(self.residual(A)))

    def prox(self, V: Array, t: float) -> Array:
        """Return V moved towards X, each entry by at most t lam."""
        step = self.residual(V)
        if self.slack > 0:
            step *= t / (t + self.slack)
        np.clip(step, -t * self.lam, t * self.lam, out=step)
        step += V
        return step


@dataclass(frozen=True)
class RowTerm(_ErrorTerm):
    """lam sum_i |x_i - a_i|: some rows are wrong."""

    def value(self, A: Array) -> float:  # noqa: D102
        return self._huber(row_lengths(self.residual(A)))

    def prox(self, V: Array, t: float) -> Array:
        """Return V moved towards X, each row by at most t lam."""
        step = self.residual(V)
        length = np.maximum(row_lengths(step), np.finfo(step.dtype).tiny)
        step *= np.minimum(t / (t + self.slack), t * self.lam / length)
        step += V
        return step
