"""The logarithm of a determinant and the inverse, from one Cholesky factorisation."""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from kernmend._typing import Array

# Rows that are copied from below the diagonal to above it at a time: both fit into the cache. In one piece this takes
# as long as the factorisation.
_BLOCK = 64


def log_det_and_inverse(K: Array, ridge: float) -> tuple[float, Array]:
    """Return log det(K + ridge I) and (K + ridge I)^-1, in float64; (inf, zeros) where it is not positive definite.

    A sixth of the work of all eigenpairs.

    >>> value, inverse = log_det_and_inverse(np.diag([1.0, 3.0]), 1.0)
    >>> bool(abs(value - np.log(8.0)) < 1e-12), np.diag(inverse).round(12).tolist()
    (True, [0.5, 0.25])
    """
    shifted = np.array(K, dtype=np.float64)
    n = shifted.shape[0]
    shifted.flat[:: n + 1] += ridge
    factor, info = dpotrf(shifted.T, lower=1, overwrite_a=1)  # in place: the transpose is Fortran's order
    if info != 0:
        return np.inf, np.zeros_like(shifted)
    value = 2.0 * float(np.log(np.diag(factor)).sum())
    inverse: Array = dpotri(factor, lower=1, overwrite_c=1)[0]
    for start in range(0, n, _BLOCK):  # the part above the diagonal
        rows, after = slice(start, start + _BLOCK), slice(start + _BLOCK, n)
        square = np.tril(inverse[rows, rows])
        inverse[rows, rows] = square + np.tril(square, -1).T
        inverse[rows, after] = inverse[after, rows].T
    return value, inverse
