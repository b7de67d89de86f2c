"""What parameters are chosen by: the pulls on rows, the spread of the rows in the kernel space, shares of variance."""

import numpy as np

from kernmend._typing import Array
from kernmend.model.penalties import shrink_eigenvalues

# Largest number of components under "auto", as a share of the number of variances.
RANK_SHARE = 0.125


def centred_trace(K: Array) -> float:
    """Return tr K - 1'K1 / n: the sum of the squared distances of the images of the rows from their mean.

    >>> centred_trace(np.ones((3, 3)))
    0.0
    """
    total = float(K.sum(dtype=np.float64))
    return float(np.trace(K, dtype=np.float64)) - total / float(K.shape[0])


def components_of_share(s: Array, share: float) -> int:
    """Return how many of the variances `s` make up that share of their sum; all at most.

    >>> components_of_share(np.array([1.5, 8.0, 0.5]), 0.9)
    2
    """
    descending = np.sort(np.maximum(s, 0.0))[::-1]
    return min(1 + int(np.searchsorted(np.cumsum(descending), share * descending.sum())), s.size)


def auto_components(s: Array, share: float) -> int:
    """Return how many of the variances `s` make up that share of their sum; at most an eighth of them, one at least.

    The eighth matters for data with many features: there 90 % would keep most of the noise.
    """
    return max(1, min(components_of_share(s, share), int(RANK_SHARE * s.size)))


def pulls(s: Array, U: Array, rho: float) -> Array:
    """Return f_i = 2 sqrt((G K G)_ii), G = rho (K - M): the pull of the low-rank term on sample i at A = X.

    It is measured in the kernel space, where the error term holds a sample with the force lam. A sample with f_i <= lam
    stays put; one with f_i > lam moves if enough of the pull points along the surface phi(R^d), which it does not for
    a far outlier of a narrow Gaussian. `s, U` are all eigenpairs of the Gram matrix of X.
    """
    g = shrink_eigenvalues(s, rho)
    f2 = (U * U) @ ((rho * (s - g * g)) ** 2 * np.maximum(s, 0.0))
    f: Array = 2.0 * np.sqrt(np.maximum(f2, 0.0))
    return f
