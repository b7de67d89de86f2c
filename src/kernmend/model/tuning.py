"""Parameters that nobody gave: simple rules from the data, without labels."""

import numpy as np

from kernmend._typing import Array
from kernmend.model.penalties import rho_from_cutoff, shrink_eigenvalues

# Largest rank of B under rho="auto", as a share of the number of rows.
RANK_SHARE = 0.125
# Least eigenvalue cut-off under rho="auto", as a share of the trace of the Gram matrix: less is rounding and noise.
CUT_SHARE = 1e-4
# Distance of lam="auto" above the median of the pulls, in spreads of the lower half of their logarithms.
PULL_SPREADS = 1.0


def auto_rho(s: Array) -> float:
    """Return the rho whose eigenvalue cut-off keeps at most an eighth of the eigenvalues `s` of K, one at least.

    The cut-off is also at least 1e-4 of the trace: what is smaller is rounding and noise on any data.
    """
    descending = np.sort(np.abs(s))[::-1]
    rank = max(1, int(RANK_SHARE * descending.size))
    # Between two eigenvalues and on neither, so that rounding does not decide which are kept.
    between = float(np.sqrt(descending[rank - 1] * descending[min(rank, descending.size - 1)]))
    cut = max(between, CUT_SHARE * float(descending.sum()))
    return rho_from_cutoff(cut) if cut > 0 else 1.0


def centred_trace(K: Array) -> float:
    """Return tr K - 1'K1 / n: the sum of the squared distances of the images of the rows from their mean.

    >>> centred_trace(np.ones((3, 3)))
    0.0
    """
    total = float(K.sum(dtype=np.float64))
    return float(np.trace(K, dtype=np.float64)) - total / float(K.shape[0])


def auto_components(s: Array, share: float) -> int:
    """Return how many of the variances `s` make up that share of their sum; at most an eighth of them, one at least.

    The eighth matters for data with many features: there 90 % would keep most of the noise.

    >>> auto_components(np.array([8.0, 1.5, 0.5] + 21 * [0.0]), 0.9)
    2
    """
    descending = np.sort(np.maximum(s, 0.0))[::-1]
    needed = 1 + int(np.searchsorted(np.cumsum(descending), share * descending.sum()))
    return max(1, min(needed, int(RANK_SHARE * descending.size)))


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


def auto_lam(f: Array) -> float:
    """Return the lam that holds all rows but those with unusually strong pulls `f`; 1.0 where no pull is positive.

    In logarithms it is one spread above the median of the pulls. The spread is that of the lower half, which outliers
    do not change.
    """
    positive = f[f > 0]
    if positive.size == 0:
        return 1.0
    log_f = np.log(positive)
    middle, low = np.percentile(log_f, [50.0, 15.87])
    return float(np.exp(middle + PULL_SPREADS * max(middle - low, 0.05)))
