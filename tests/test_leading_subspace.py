"""The subspace of the largest eigenvalues, followed from one matrix to the next, and the penalty of what it leaves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spectra import block_solver, falling_spectrum, orthogonal, with_spectrum

from kernmend.linalg.eigen import LeadingSubspace, TopEigenpairs
from kernmend.model.penalties import TailPenalty

seeds = st.integers(0, 2**32 - 1)


def changing(seed, n, kept, steps=4, size=0.02):
    """Yield matrices with `kept` large eigenvalues whose vectors turn a little from one to the next."""
    rng = np.random.default_rng(seed)
    s, Q = falling_spectrum(n, kept, seed=seed % 1000), orthogonal(seed, n)
    for _ in range(steps):
        yield with_spectrum(s, Q)
        Q = np.linalg.qr(Q + size * rng.standard_normal((n, n)) / np.sqrt(n))[0]


@given(seed=seeds, n=st.integers(2, 30), count=st.integers(1, 30))
def test_a_small_matrix_gives_what_numpy_gives(seed, n, count):
    count = min(count, n)
    K = with_spectrum(np.random.default_rng(seed).uniform(0.1, 2.0, n), orthogonal(seed, n))
    left, s, U = LeadingSubspace(count)(K)
    expected = np.linalg.eigvalsh(K)
    np.testing.assert_allclose(s, expected[n - count :], atol=1e-12)
    assert left == pytest.approx(expected[: n - count].sum(), abs=1e-11)
    np.testing.assert_allclose(K @ U, U * s, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_follows_a_changing_matrix_without_a_dense_solver(seed, dtype):
    n, count = 150, 20
    leading = LeadingSubspace(count, dense_below=0)
    for K in changing(seed, n, count):
        left, s, U = leading(K.astype(dtype))
        best = np.linalg.eigvalsh(K)[: n - count].sum()
        assert best * (1 - 1e-4) <= left <= best * 1.01
        honest = np.trace(K) - np.trace(U.T @ K @ U)
        assert left == pytest.approx(honest, rel=1e-3 if dtype == np.float32 else 1e-9)
        np.testing.assert_allclose(U.T @ U, np.eye(count), atol=1e-4 if dtype == np.float32 else 1e-10)
        assert np.all(np.diff(s) >= 0)
        assert U.dtype == dtype
    assert leading.n_dense == 1


def test_another_matrix_is_found_too():
    leading = LeadingSubspace(10, dense_below=0)
    for seed in (0, 1):
        K = with_spectrum(falling_spectrum(120, 10, seed=seed), orthogonal(seed, 120))
        left, _, _ = leading(K)
        assert left == pytest.approx(np.linalg.eigvalsh(K)[:110].sum(), rel=0.02)


def test_a_block_that_would_be_wide_comes_from_all_eigenpairs():
    leading = LeadingSubspace(40, dense_below=0)
    for K in changing(0, 60, 40):
        left, _, _ = leading(K)
        assert left == pytest.approx(np.linalg.eigvalsh(K)[:20].sum(), rel=1e-9)


@given(seed=seeds, n=st.integers(3, 12), rank=st.integers(1, 11), weight=st.floats(0.1, 10.0))
def test_the_gradient_of_the_tail_is_that_of_its_value(seed, n, rank, weight):
    rank = min(rank, n - 1)
    rng = np.random.default_rng(seed)
    Q = orthogonal(seed, n)
    K = with_spectrum(1.0 + np.arange(n) + rng.uniform(0.0, 0.5, n), Q)  # apart, so that the subspace is one
    D = rng.standard_normal((n, n))
    D = D + D.T
    penalty = TailPenalty(weight, LeadingSubspace(rank))
    term = penalty.evaluate(K, TopEigenpairs())
    assert term.low_rank == pytest.approx(weight * np.linalg.eigvalsh(K)[: n - rank].sum(), rel=1e-9)
    h = 1e-6
    ahead, behind = (penalty.evaluate(K + step * D, TopEigenpairs()).low_rank for step in (h, -h))
    assert np.vdot(term.gradient, D) == pytest.approx((ahead - behind) / (2 * h), rel=1e-4, abs=1e-4 * weight)


def test_a_wide_block_is_filtered_in_place_of_a_dense_solver():
    """A block of 0.2 n cannot be widened within 0.35 n; from the second matrix on, no dense solver is needed."""
    n, kept = 300, 60
    solver = block_solver()
    for K in changing(3, n, kept, steps=5, size=1e-3):
        s, U = solver(K, 1.0)
        np.testing.assert_allclose(s, np.linalg.eigvalsh(K)[::-1][:kept], atol=1e-5)
        assert np.all(np.linalg.norm(K @ U - U * s, axis=0) <= 1.001e-3)
    assert solver.n_dense <= 1
