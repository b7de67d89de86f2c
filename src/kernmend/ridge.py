"""The inverse P = (K + eps I)^-1 of a Gram matrix with a ridge, by Cholesky: a ninth of an eigendecomposition."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from kernmend._typing import Array
from kernmend.spectral import eigenpairs


@dataclass(frozen=True)
class RidgeInverse:
    """What scores need of P = (K + eps I)^-1, from the lower triangle R of K + eps I = R R'."""

    R: Array

    @classmethod
    def of(cls, K: Array, eps: float) -> "RidgeInverse":
        """Factorise; `K` and R live at once. Eigenvalues below 0, which rounding leaves of far rows, count as 0."""
        R, info = _lower(K, eps)
        if info != 0:
            s, U = eigenpairs(K)
            R, info = _lower((U * np.maximum(s, 0.0)) @ U.T, eps)
        if info != 0:
            raise np.linalg.LinAlgError(f"a Gram matrix with the ridge {eps:g} has no Cholesky factor")
        return cls(R)

    def times(self, B: Array) -> Array:
        """Return P B."""
        out: Array = dpotrs(self.R, np.asfortranarray(B, dtype=np.float64), lower=True)[0]
        return np.ascontiguousarray(out)

    def root(self) -> Array:
        """Return the lower triangle W = R^-1, for which P = W'W: the squares of a column sum up to P_ii."""
        W: Array = dtrtri(self.R, lower=True)[0]
        return W

    @staticmethod
    def diagonal(W: Array) -> Array:
        """Return the diagonal of P = W'W."""
        out: Array = np.einsum("ij,ij->j", W, W)
        return out


def _lower(K: Array, eps: float) -> tuple[Array, int]:
    shifted = K.astype(np.float64)
    shifted.flat[:: K.shape[0] + 1] += eps
    R, info = dpotrf(shifted.T, lower=True, overwrite_a=True)  # the transpose is Fortran's order
    return R, int(info)
