"""Rows mended one by one against a reference of good rows: flagged rows, new rows, and any number of rows.

    minimise over a:  sqrt(dist2(a) + eps) + lam E(a; x),    dist2(a) = k(a, a) - |V' k(L, a)|^2

L are the reference rows and V = U S^(-1/2) the eigenpairs of their Gram matrix above the cut-off, so that dist2 is the
squared distance of phi(a) from their span. Eq. (relax) would move all rows together and needs all of them in memory;
here good rows stay as they are, and a row's result does not depend on which others are mended with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from kernmend._typing import Array
from kernmend.linalg.distances import THIN, few_threads
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.errors import ErrorModel
from kernmend.model.kernels import FixedRows, Kernel
from kernmend.solvers.rows import Some, minimise_rows

# Squared distance from the span, as a share of the mean k(l, l), at which a row counts as in it: eps of the root.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Reference:
    """The span of the reference rows `L` in the kernel space, without eigenvectors of small eigenvalues.

    `V` are the eigenvectors kept, divided by the roots of their eigenvalues; `eps` smooths the root of the distance.
    """

    kernel: Kernel
    L: Array
    V: Array
    eps: float

    @classmethod
    def from_largest(cls, kernel: Kernel, L: Array, s: Array, U: Array, rank: int) -> "Reference":
        """Return the span of the eigenvectors of the `rank` largest eigenvalues, at least one.

        `s` and `U` are eigenpairs of K(L), ascending: as many or more, so that one decomposition serves several spans.
        """
        first = s.size - min(max(rank, 1), s.size)
        kept = s[first:]
        rounding = float(np.finfo(s.dtype).eps) * U.shape[0] * float(s[-1])
        weight = np.divide(1.0, np.sqrt(np.maximum(kept, 0.0)), out=np.zeros_like(kept), where=kept > rounding)
        V: Array = U[:, first:] * weight
        return cls(kernel, L, V, _ROUNDING * (float(np.mean(kernel.diag(L))) or 1.0))

    @classmethod
    def with_ridge(cls, kernel: Kernel, L: Array, s: Array, U: Array, ridge: float, cutoff: float) -> "Reference":
        """Return the span where dist2(a) is k(a, a) - k(a, L) (K(L) + ridge I)^-1 k(L, a), from all eigenpairs of K(L).

        The ridge, and the `cutoff` up to which eigenvalues are left out, are shares of the mean k(l, l).
        """
        unit = float(np.mean(kernel.diag(L))) or 1.0
        kept = s > cutoff * unit
        return cls(kernel, L, U[:, kept] / np.sqrt(s[kept] + ridge * unit), ridge * unit)

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return int(self.V.shape[1])

    @cached_property
    def _rows(self) -> FixedRows:
        """The kernel with the reference as its second argument."""
        return self.kernel.against(self.L)

    @cached_property
    def _inverse(self) -> Array | None:
        """VV', the inverse of K(L) on the span, where one product with it is less work than one with V and one with V'.

        Not where it would lose digits: |v|^2 = 1 / s for the smallest eigenvalue s kept, and rounding grows with it.
        """
        largest = float(np.einsum("ij,ij->j", self.V, self.V).max())
        lost = float(np.finfo(self.V.dtype).eps) * float(np.sum(self.kernel.diag(self.L))) * largest
        return self.V @ self.V.T if 2 * self.rank > self.L.shape[0] and lost < 1e-2 * _ROUNDING else None

    def rows(self, index: NDArray[np.intp] | slice) -> "Reference":
        """Return the span for some of the rows that are mended: it is the same for all."""
        return self

    def squared_values(self, A: Array) -> tuple[Array, Callable[[Some], Array]]:
        """Return dist2(a_i) for each row, and a function for the gradient of some, to be called once at most."""
        K = self._rows.gram(A)
        if self._inverse is None:
            C = K @ self.V
            inside = np.einsum("ij,ij->i", C, C)
        else:
            C = K @ self._inverse
            inside = np.einsum("ij,ij->i", C, K)
        dist2: Array = np.maximum(self.kernel.diag(A) - inside, 0.0)

        def gradient(some: Some) -> Array:
            G = C[some] @ self.V.T if self._inverse is None else C[some]
            out = self._rows.pullback(A[some], K[some], G)
            out *= -2.0
            out += self.kernel.diag_gradient(A[some])
            return out

        return dist2, gradient

    def squared_rows(self, A: Array) -> tuple[Array, Array]:
        """Return dist2(a_i) for each row, and the gradient."""
        dist2, gradient = self.squared_values(A)
        return dist2, gradient(slice(None))

    def values(self, A: Array) -> tuple[Array, Callable[[Some], Array]]:
        """Return sqrt(dist2(a_i) + eps) for each row, and a function for the gradient of some, to be called once."""
        dist2, of_square = self.squared_values(A)
        root: Array = np.sqrt(dist2 + self.eps)

        def gradient(some: Some) -> Array:
            out = of_square(some)
            out *= (0.5 / root[some])[:, np.newaxis]
            return out

        return root, gradient


@dataclass(frozen=True)
class Others:
    """The span of all rows of a reference with a ridge but one, another one for each row that is mended: leave-one-out.

    Such a reference has dist2(a) = k(a, a) - k(a, L) P k(L, a), P = (K(L) + ridge I)^-1. Without row i of L it has
    P - p_i p_i' / P_ii in place of P. `left_out` has i for each row that is mended, `diagonal` is that of P.
    """

    reference: Reference
    diagonal: Array
    left_out: NDArray[np.intp]

    @classmethod
    def of(cls, kernel: Kernel, L: Array, ridge: float, left_out: NDArray[np.intp]) -> "Others":
        """Return the spans of the rows `L` but one; the ridge is that of `Reference.with_ridge`.

        They come from a Cholesky factor, which takes a fifth of the time of all eigenpairs: few rows are mended. Where
        some rows are very far from the others, rounding leaves eigenvalues of K(L) below -ridge: they count as 0.
        """
        K, eps = kernel.gram(L), ridge * (float(np.mean(kernel.diag(L))) or 1.0)
        K.flat[:: len(L) + 1] += eps
        try:
            V: Array = dtrtri(np.linalg.cholesky(K).T)[0]  # V V' = (K + eps I)^-1
        except np.linalg.LinAlgError:
            s, U = eigenpairs(K)
            V = U / np.sqrt(np.maximum(s, eps))
        return cls(Reference(kernel, L, V, eps), np.square(V).sum(axis=1), left_out)

    @property
    def L(self) -> Array:
        """The reference rows."""
        return self.reference.L

    @property
    def eps(self) -> float:
        """The ridge."""
        return self.reference.eps

    def rows(self, index: NDArray[np.intp] | slice) -> "Others":
        """Return the spans for some of the rows that are mended."""
        return replace(self, left_out=self.left_out[index])

    def squared_values(self, A: Array) -> tuple[Array, Callable[[Some], Array]]:
        """Return dist2(a_i) for each row, and a function for the gradient of some, to be called once at most."""
        kernel, fixed, V = self.reference.kernel, self.reference._rows, self.reference.V
        K, own = fixed.gram(A), V[self.left_out]
        C = K @ V
        share = np.einsum("ij,ij->i", C, own) / self.diagonal[self.left_out]
        D = C - share[:, np.newaxis] * own
        dist2: Array = np.maximum(kernel.diag(A) - np.einsum("ij,ij->i", C, D), 0.0)

        def gradient(some: Some) -> Array:
            out = fixed.pullback(A[some], K[some], D[some] @ V.T)
            out *= -2.0
            out += kernel.diag_gradient(A[some])
            return out

        return dist2, gradient


def mend_rows(
    reference: Reference,
    A: Array,
    error: ErrorModel,
    lam: float | Array,
    *,
    scale: float | Array = 1.0,
    bounds: tuple[Array, Array] | None = None,
    free: NDArray[np.bool_] | None = None,
    max_iter: int = 100,
    tol: float = 1e-5,
) -> tuple[Array, list[float], bool]:
    """Move the rows of `A` towards the span of the reference, each held to its observation by lam E.

    `lam` is one number, or one for each row. Returns the rows, the objective summed over them at the start and after
    each iteration, and whether all converged.
    """
    weights, n = np.broadcast_to(lam, len(A)), len(A)

    def objective(rows: Array, index: NDArray[np.intp]) -> tuple[Array, Callable[[Some], Array]]:
        value, of_value = reference.values(rows)
        error_value, of_error = (error if len(rows) == n else error.rows(index)).evaluate_rows(rows)
        weight = weights[index]

        def gradient(some: Some) -> Array:
            out: Array = of_error[some] * weight[some][:, np.newaxis]
            out += of_value(some)
            return out

        return value + weight * error_value, gradient

    with few_threads(reference.L.size * A.shape[0] // THIN):
        return minimise_rows(objective, A, scale=scale, bounds=bounds, free=free, max_iter=max_iter, tol=tol)


def move_into_span(
    reference: Reference | Others, A: Array, free: NDArray[np.bool_], *, scale: Array, max_iter: int, tol: float = 1e-5
) -> Array:
    """Return the rows `A` with free entries moved to minimise log(dist2(a) + eps); nothing holds them back.

    `scale` is the length of the first step of each row.
    """

    def objective(rows: Array, index: NDArray[np.intp]) -> tuple[Array, Callable[[Some], Array]]:
        dist2, of_square = reference.rows(index).squared_values(rows)
        dist2 += reference.eps
        return np.log(dist2), lambda some: of_square(some) / dist2[some][:, np.newaxis]

    with few_threads(reference.L.size * A.shape[0] // THIN):
        return minimise_rows(objective, A, scale=scale, free=free, max_iter=max_iter, tol=tol)[0]
