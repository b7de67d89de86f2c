"""The Schatten penalty: its definition, its gradient, and the linear tail that large matrices get."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.kernels import RBF
from kernmend.model.penalties import SchattenPenalty

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 7)
ps = st.sampled_from([0.1, 0.5, 1.0, 2.0])
log_eps = st.floats(-6.0, 0.0)


def gram(seed, n, rank=None):
    features = np.random.default_rng(seed).standard_normal((n, n if rank is None else rank))
    return features @ features.T / n


@given(seed=seeds, n=sizes, p=ps, exponent=log_eps)
def test_value_by_its_definition(seed, n, p, exponent):
    K, eps = gram(seed, n), 10.0**exponent
    term = SchattenPenalty(p, eps).evaluate(K, TopEigenpairs())
    s = np.linalg.svd(K, compute_uv=False)
    assert term.low_rank == pytest.approx(sum((value + eps) ** (p / 2) for value in s), rel=1e-6)
    assert term.gram == 0.0
    assert term.rank == np.count_nonzero(s > eps)


@given(seed=seeds, n=sizes, p=ps)
def test_gradient_by_finite_differences(seed, n, p):
    K, penalty = gram(seed, n), SchattenPenalty(p, 0.05)
    D = np.random.default_rng(seed + 1).standard_normal((n, n))
    D = (D + D.T) / n
    step = 1e-6  # over the smallest eigenvalue the clip at 0 is not differentiable: keep clear of it
    K = K + 1e-4 * np.eye(n)
    up, down = (penalty.evaluate(K + sign * step * D, TopEigenpairs()).low_rank for sign in (1.0, -1.0))
    gradient = penalty.evaluate(K, TopEigenpairs()).gradient
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-10 * np.abs(gradient).max())
    assert np.vdot(gradient, D) == pytest.approx((up - down) / (2.0 * step), rel=1e-5, abs=1e-6)


def test_gradient_on_a_singular_matrix_by_the_spectral_formula():
    K = gram(0, 6, rank=2)
    s, U = np.linalg.eigh(K)
    expected = (U * (0.25 * (np.maximum(s, 0.0) + 1e-3) ** -0.75)) @ U.T
    np.testing.assert_allclose(SchattenPenalty(0.5, 1e-3).evaluate(K, TopEigenpairs()).gradient, expected, rtol=1e-8)


def test_p_of_two_is_the_trace():
    K = gram(0, 5)
    term = SchattenPenalty(2.0, 1e-3).evaluate(K, TopEigenpairs())
    assert term.low_rank == pytest.approx(np.trace(K) + 5e-3)
    np.testing.assert_allclose(term.gradient, np.eye(5), atol=1e-12)


def test_a_falling_eps_never_raises_the_value():
    K = gram(0, 6, rank=3)
    values = [SchattenPenalty(0.5, eps).evaluate(K, TopEigenpairs()).low_rank for eps in (1.0, 0.1, 1e-2, 1e-5)]
    assert values == sorted(values, reverse=True)


# --- many rows: a linear tail ---------------------------------------------------------------------------------------


def large(seed, n=160, d=2, gamma=0.2):
    return RBF(gamma).gram(np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d)))


def both(K, p, eps):
    dense = SchattenPenalty(p, eps).evaluate(K, TopEigenpairs())
    tail = SchattenPenalty(p, eps, dense_below=0).evaluate(K, TopEigenpairs(dense_below=0))
    return dense, tail


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("p", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_tail_lies_above_the_exact_value_by_little(seed, p, eps):
    K = large(seed)
    dense, tail = both(K, p, eps)
    assert tail.low_rank >= dense.low_rank * (1.0 - 1e-9)
    assert tail.low_rank - dense.low_rank <= 0.007 * K.shape[0] * eps ** (p / 2)
    assert tail.rank == dense.rank
    # The slope of the tail is between those at 0 and at the cut: a share of 1 - 1.25^(p/2 - 1) at most is lost.
    largest = 0.5 * p * eps ** (0.5 * p - 1.0)
    assert np.linalg.norm(tail.gradient - dense.gradient, 2) <= (1.0 - 1.25 ** (0.5 * p - 1.0)) * largest * (1.0 + 1e-3)


def test_tail_is_the_gradient_of_its_own_value():
    """With a kink or a jump at the cut a line search would fail there."""
    K, penalty = large(0), SchattenPenalty(0.5, 1e-3, dense_below=0)
    D = RBF(0.5).gram(np.random.default_rng(5).uniform(-1.0, 1.0, (160, 2))) - K
    step = 1e-8
    up, down = (
        penalty.evaluate(K + sign * step * D, TopEigenpairs(dense_below=0, tol=1e-6)).low_rank for sign in (1.0, -1.0)
    )
    gradient = penalty.evaluate(K, TopEigenpairs(dense_below=0, tol=1e-6)).gradient
    assert np.vdot(gradient, D) == pytest.approx((up - down) / (2.0 * step), rel=1e-4)


def test_value_is_continuous_where_an_eigenvalue_crosses_the_cut():
    eps = 1e-2
    values = [
        SchattenPenalty(0.5, eps, dense_below=0)
        .evaluate(np.diag([1.0, 0.25 * eps * factor, 0.0]), TopEigenpairs())
        .low_rank
        for factor in (1.0 - 1e-6, 1.0 + 1e-6)
    ]
    assert values[1] - values[0] == pytest.approx(0.25 * (1.25 * eps) ** -0.75 * 0.5e-6 * eps, rel=1e-3)


@pytest.mark.parametrize("p", [0.0, -1.0, 2.1, math.nan])
def test_p_must_lie_in_its_range(p):
    with pytest.raises(ValueError, match="p must be a number in"):
        SchattenPenalty(p)


@pytest.mark.parametrize("eps", [0.0, -1.0, math.nan, math.inf])
def test_eps_must_be_positive(eps):
    with pytest.raises(ValueError, match="eps must be a positive number"):
        SchattenPenalty(0.5, eps)
