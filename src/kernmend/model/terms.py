"""Proximal operators of the convex models: the terms that `solvers.admm` puts together.

    prox of t f at V:  argmin over A of t f(A) + |A - V|_F^2 / 2

A term is a function of the recovered matrix with its prox: to add one is to write one class.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.singular import TopSingular


def row_lengths(X: Array) -> Array:
    """Return the lengths of the rows, as a column."""
    out: Array = np.sqrt(np.einsum("ij,ij->i", X, X))[:, np.newaxis]
    return out


@dataclass(frozen=True)
class Parts:
    """F(A, B) = low_rank + error + gram, the three terms of eq. (relax), and the rank of B."""

    low_rank: float
    error: float
    gram: float
    rank: int

    @property
    def total(self) -> float:
        """The objective itself."""
        return self.low_rank + self.error + self.gram


class Term:
    """A function f of a matrix. A subclass has `value` and `prox`."""

    part: ClassVar[Literal["low_rank", "error", "gram"]] = "error"
    """Which of the `Parts` of the objective it belongs to."""
    rank: int = 0
    """Rank of the last result of `prox`, if f is what makes it low."""

    def value(self, A: Array) -> float:
        """Return f(A)."""
        raise NotImplementedError

    def prox(self, V: Array, t: float) -> Array:
        """Return argmin over A of t f(A) + |A - V|_F^2 / 2; `V` may be overwritten."""
        raise NotImplementedError

    def proved(self, tol: float) -> bool:
        """Return whether the last `prox` was exact to `tol`; after one that was not, the next ones are exact."""
        return True


@dataclass
class NuclearTerm(Term):
    """|A|_*, the sum of the singular values, the first term of eq. (eq:rpca_l), with a warm-started partial SVD.

    `U`, `singular_values`, `Vt` are those of the last result of `prox`, None before the first.
    """

    part: ClassVar[Literal["low_rank", "error", "gram"]] = "low_rank"
    svd: TopSingular = field(default_factory=TopSingular)
    U: Array | None = field(default=None, init=False, repr=False)
    singular_values: Array | None = field(default=None, init=False, repr=False)
    Vt: Array | None = field(default=None, init=False, repr=False)
    _asked: tuple[Array, float] | None = field(default=None, init=False, repr=False)

    def value(self, A: Array) -> float:
        """Return |A|_* of the last result of `prox`, which `A` must be: its singular values are known. 0.0 before."""
        return 0.0 if self.singular_values is None else float(self.singular_values.sum(dtype=np.float64))

    def prox(self, V: Array, t: float) -> Array:
        """Return V with every singular value nearer to 0 by t."""
        self._asked = (V, t)
        U, s, Vt = self.svd(V, t)
        return self._keep(U, s - t, Vt)

    def proved(self, tol: float) -> bool:  # noqa: D102
        if self._asked is None or self.U is None or self.singular_values is None or self.Vt is None:
            return True
        V, t = self._asked
        return self.svd.proved(V, t, (self.U, self.singular_values + t, self.Vt), tol)

    def _keep(self, U: Array, s: Array, Vt: Array) -> Array:
        """Return U diag(s) Vt, and keep its parts for `value` and `proved`."""
        self.U, self.singular_values, self.Vt, self.rank = U, s, Vt, int(s.size)
        out: Array = (U * s) @ Vt
        return out


@dataclass
class RankTerm(NuclearTerm):
    """0 where the rank is at most `limit`, infinite elsewhere. Not convex: its prox is a nearest such matrix."""

    limit: int = 1

    def value(self, A: Array) -> float:
        """Return 0.0: the matrices that `prox` returns are within the rank."""
        return 0.0

    def prox(self, V: Array, t: float) -> Array:
        """Return V with its `limit` largest singular values only."""
        return self._keep(*self.svd(V, 0.0, self.limit))


@dataclass(frozen=True)
class SubspaceTerm(Term):
    """sum_i a_i M^-1 a_i' / 2 with M = V diag(s) V', infinite outside the span of V: new rows under a known |.|_*.

    Since |A|_* is the minimum over M of (tr A M^-1 A' + tr M) / 2, reached at M = (A'A)^(1/2), a row of the minimiser
    of |A|_* plus a sum over the rows also minimises this plus its own summand, M held fixed. `s=None` is no weight.
    """

    Vt: Array
    s: Array | None = None
    part: ClassVar[Literal["low_rank", "error", "gram"]] = "gram"

    def value(self, A: Array) -> float:
        """Return the value of the part of A in the span."""
        if self.s is None:
            return 0.0
        C = A @ self.Vt.T
        return float(0.5 * np.sum(C * C / self.s, dtype=np.float64))

    def prox(self, V: Array, t: float) -> Array:
        """Return the projection on the span, coordinate j shrunk by s_j / (s_j + t)."""
        C: Array = V @ self.Vt.T
        if self.s is not None:
            C *= self.s / (self.s + t)
        return C @ self.Vt


@dataclass(frozen=True)
class ErrorTerm(Term):
    """The error term lam |A - X|_l of linear low-rank recovery, eq. (eq:rpca_l), with the norm left to the subclass.

    Both subclasses have the data, `lam`, the mask of observed entries and the allowance for small noise from here.

    `slack` > 0 is the form for noisy data: the error E = X - A may be split into a sparse S and a dense N, and costs
    min lam |S| + |N|_F^2 / (2 slack) over S + N = E, which is Huber's function.
    """

    X: Array
    lam: float
    slack: float = 0.0
    observed: Array | None = field(default=None, repr=False)

    @classmethod
    def of(cls, X: Array, lam: float, slack: float = 0.0) -> Self:
        """Return the term of data in which NaN means missing: such an entry costs nothing."""
        missing = np.isnan(X)
        if not missing.any():
            return cls(X, lam, slack)
        return cls(np.where(missing, 0.0, X).astype(X.dtype), lam, slack, (~missing).astype(X.dtype))

    def rows(self, keep: NDArray[np.bool_]) -> Self:
        """Return the term of some of the rows."""
        return replace(self, X=self.X[keep], observed=None if self.observed is None else self.observed[keep])

    def residual(self, A: Array) -> Array:
        """Return X - A, 0 where X is missing."""
        out: Array = self.X - A
        if self.observed is not None:
            out *= self.observed
        return out

    def sizes(self, E: Array) -> Array:
        """Return what the sum is over: the sizes of the errors, those of entries or those of rows."""
        raise NotImplementedError

    def gross(self, A: Array) -> Array:
        """Return S, the error of A beyond the allowance for noise."""
        E, edge = self.residual(A), self.lam * self.slack
        if edge > 0:
            E *= 1.0 - edge / np.maximum(self.sizes(E), edge)
        return E

    def value(self, A: Array) -> float:  # noqa: D102
        return self._huber(self.sizes(self.residual(A)))

    def prox(self, V: Array, t: float) -> Array:
        """Return V moved towards X, each entry, or row, by at most t lam."""
        step, most = self.residual(V), t * self.lam
        step *= np.minimum(t / (t + self.slack), most / np.maximum(self.sizes(step), most))
        step += V
        return step

    def _huber(self, size: Array) -> float:
        """Return the sum of Huber's function of the sizes of the errors."""
        edge = self.lam * self.slack
        if edge == 0:
            return self.lam * float(size.sum(dtype=np.float64))
        inner = np.minimum(size, edge)
        return float(np.sum(inner * inner / (2.0 * self.slack) + self.lam * (size - inner), dtype=np.float64))


@dataclass(frozen=True)
class EntryTerm(ErrorTerm):
    """lam sum_ij |x_ij - a_ij|: some entries are wrong. With `NuclearTerm` this is robust PCA."""

    def sizes(self, E: Array) -> Array:  # noqa: D102
        return np.abs(E)

    def prox(self, V: Array, t: float) -> Array:
        """Return V moved towards X, each entry by at most t lam, with fewer temporary arrays than `ErrorTerm.prox`."""
        step = self.residual(V)
        if self.slack > 0:
            step *= t / (t + self.slack)
        np.clip(step, -t * self.lam, t * self.lam, out=step)
        step += V
        return step


@dataclass(frozen=True)
class RowTerm(ErrorTerm):
    """lam sum_i |x_i - a_i|: some rows are wrong. With `NuclearTerm` this is outlier pursuit, eq. (eq:rpca)."""

    def sizes(self, E: Array) -> Array:  # noqa: D102
        return row_lengths(E)
