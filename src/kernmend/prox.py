"""Proximal operators of the convex models: argmin over Z of t f(Z) + |Z - X|_F^2 / 2."""

import numpy as np

from kernmend._typing import Array


def shrink_entries(X: Array, t: float) -> Array:
    """Return the prox of t |.|_1: every entry nearer to 0 by t.

    >>> import numpy as np
    >>> shrink_entries(np.array([[3.0, -0.5]]), 1.0)
    array([[ 2., -0.]])
    """
    out: Array = np.sign(X) * np.maximum(np.abs(X) - t, 0.0)
    return out


def shrink_rows(X: Array, t: float) -> Array:
    """Return the prox of t times the sum of the rows' lengths: every row shorter by t.

    >>> import numpy as np
    >>> shrink_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    array([[2.4, 3.2],
           [0. , 0. ]])
    """
    length = np.linalg.norm(X, axis=1, keepdims=True)
    out: Array = X * np.maximum(1.0 - t / np.maximum(length, np.finfo(np.float64).tiny), 0.0)
    return out


def shrink_singular_values(X: Array, t: float) -> tuple[Array, Array]:
    """Return the prox of t |.|_*, and its singular values above 0: every singular value nearer to 0 by t."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    kept = s > t
    s = s[kept] - t
    return (U[:, kept] * s) @ Vt[kept], s
