"""The inverse with a ridge, by Cholesky: against numpy.linalg.inv."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend.kernels import RBF
from kernmend.ridge import RidgeInverse

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, n=st.integers(1, 30), eps=st.sampled_from([1e-4, 1e-2, 1.0]), single=st.booleans())
def test_products_and_the_diagonal_are_those_of_the_inverse(seed, n, eps, single):
    rng = np.random.default_rng(seed)
    X, B = rng.standard_normal((n, 3)), rng.standard_normal((n, 4))
    K = RBF(0.3).gram(X).astype(np.float32 if single else np.float64)
    before = K.copy()
    expected = np.linalg.inv(K + eps * np.eye(n))  # in float64
    P = RidgeInverse.of(K, eps)
    W = P.root()
    np.testing.assert_allclose(P.times(B), expected @ B, rtol=1e-6, atol=1e-7 / eps)
    np.testing.assert_allclose(W.T @ W, expected, rtol=1e-6, atol=1e-7 / eps)
    np.testing.assert_allclose(P.diagonal(W), np.diag(expected), rtol=1e-6)
    np.testing.assert_array_equal(K, before)


def test_negative_eigenvalues_count_as_zero():
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    s = np.array([-0.5, -1e-3, 0.2, 1.0, 2.0])
    W = RidgeInverse.of((U * s) @ U.T, 1e-2).root()
    np.testing.assert_allclose(W.T @ W, (U / (np.maximum(s, 0.0) + 1e-2)) @ U.T, rtol=1e-8, atol=1e-10)


def test_no_ridge_at_all_is_an_error():
    with pytest.raises(np.linalg.LinAlgError, match="no Cholesky factor"):
        RidgeInverse.of(np.zeros((3, 3)), 0.0)
