"""Matrices with a given spectrum, and the block solver without its dense shortcut."""

import numpy as np

from kernmend.linalg.eigen import TopEigenpairs


def orthogonal(seed, n):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def with_spectrum(s, Q):
    K = (Q * np.asarray(s)) @ Q.T
    return 0.5 * (K + K.T)


def falling_spectrum(n, kept, *, cut=1.0, seed=0):
    """`kept` eigenvalues between 1.2 and 50 times the cut, the others falling from 0.8 of it like a Gram matrix's."""
    rng = np.random.default_rng(seed)
    top = cut * 10.0 ** rng.uniform(np.log10(1.2), np.log10(50.0), kept)
    return np.concatenate([np.sort(top)[::-1], 0.8 * cut * 0.97 ** np.arange(n - kept)])


def block_solver(**options):
    """A solver that never takes the dense path on account of the size."""
    return TopEigenpairs(dense_below=0, **options)
