"""The nuclear penalty and a given similarity: values, gradients, limits."""

import math

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from spectra import block_solver, falling_spectrum, orthogonal, with_spectrum

from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.kernels import RBF
from kernmend.model.penalties import GramTarget, NuclearPenalty, cutoff_from_rho, rho_from_cutoff, similarity_target

seeds = st.integers(0, 2**32 - 1)
log_rho = st.floats(-6.0, 8.0)


# --- the nuclear penalty --------------------------------------------------------------------------------------------


def gram_and_rho(seed, n, kept, d=3):
    """A Gram matrix, and a rho whose cut-off lies well between two of its eigenvalues, `kept` of them above."""
    rng = np.random.default_rng(seed)
    K = RBF(0.4).gram(rng.standard_normal((n, d)))
    s = np.linalg.eigvalsh(K)[::-1]
    return K, rho_from_cutoff(math.sqrt(s[kept - 1] * s[kept]) if kept else 1.3 * s[0])


@given(seed=seeds, n=st.integers(2, 12), kept=st.integers(0, 11))
def test_value_is_the_brute_force_minimum(seed, n, kept):
    K, rho = gram_and_rho(seed, n, min(kept, n - 1))
    term = NuclearPenalty(rho).evaluate(K.copy(), TopEigenpairs())
    assert term.low_rank + term.gram == pytest.approx(reference.psi(K, rho), rel=1e-10)
    assert term.rank == min(kept, n - 1)
    M = reference.best_m(K, rho)
    assert term.low_rank == pytest.approx(reference.nuclear_norm_of_root(M), rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(term.gradient, rho * (K - M), rtol=0, atol=1e-5 * rho * np.abs(K).max())


@given(seed=seeds, n=st.integers(1, 10), exponent=log_rho)
def test_value_is_the_brute_force_minimum_for_any_rho(seed, n, exponent):
    """Whatever lies at the kink: the value does not jump there."""
    K, rho = gram_and_rho(seed, max(n, 2), 1)[0][:n, :n], 10.0**exponent
    term = NuclearPenalty(rho).evaluate(K.copy(), TopEigenpairs())
    assert term.low_rank + term.gram == pytest.approx(reference.psi(K, rho), rel=1e-10, abs=1e-10)


@given(seed=seeds, n=st.integers(2, 10), kept=st.integers(1, 8), size=st.floats(-3.0, 1.0))
def test_no_other_b_is_better(seed, n, kept, size):
    K, rho = gram_and_rho(seed, n, min(kept, n - 1))
    term = NuclearPenalty(rho).evaluate(K.copy(), TopEigenpairs())
    best = term.low_rank + term.gram
    target = NuclearPenalty(rho).b_step(K, TopEigenpairs())
    rng = np.random.default_rng(seed)
    s, U = np.linalg.eigh(target.M)
    B = np.sqrt(np.maximum(s, 0.0))[:, np.newaxis] * U.T
    thin = rng.standard_normal((2, n))
    candidates = [np.zeros((n, n)), K, target.M * 1.01, target.M * 0.99, thin.T @ thin]
    moved = B + 10.0**size * rng.standard_normal((n, n))
    candidates.append(moved.T @ moved)
    for M in candidates:
        other = reference.nuclear_norm_of_root(M) + 0.5 * rho * reference.frobenius_squared(M - K)
        assert best <= other * (1.0 + 1e-9)


@given(seed=seeds, n=st.integers(2, 10), kept=st.integers(0, 9))
def test_gradient_is_that_of_the_value(seed, n, kept):
    K, rho = gram_and_rho(seed, n, min(kept, n - 1))
    penalty = NuclearPenalty(rho)
    D = np.random.default_rng(seed).standard_normal((n, n))
    D = (D + D.T) / np.linalg.norm(D + D.T)

    def value(Z):
        term = penalty.evaluate(Z, TopEigenpairs())
        return term.low_rank + term.gram

    s = np.linalg.eigvalsh(K)
    step = 0.01 * min(cutoff_from_rho(rho), np.abs(s - cutoff_from_rho(rho)).min())  # far from the kink
    expected = reference.directional_derivative(value, K, D, step=step)
    gradient = penalty.evaluate(K, TopEigenpairs()).gradient
    noise = 1e-13 * abs(value(K)) / step
    assert float(np.vdot(gradient, D)) == pytest.approx(expected, rel=1e-6, abs=1e-7 * np.linalg.norm(gradient) + noise)


def test_b_step_is_the_matrix_of_the_value():
    K, rho = gram_and_rho(0, 9, 4)
    target = NuclearPenalty(rho).b_step(K, TopEigenpairs())
    np.testing.assert_allclose(target.M, reference.best_m(K, rho), atol=1e-6)
    assert target.rank == np.linalg.matrix_rank(target.M) == 4
    assert target.low_rank == pytest.approx(reference.nuclear_norm_of_root(target.M), rel=1e-6)
    assert target.rho == rho
    term = NuclearPenalty(rho).evaluate(K, TopEigenpairs())
    same = target.evaluate(K, TopEigenpairs())
    assert (same.low_rank, same.rank) == (term.low_rank, term.rank)
    assert same.gram == pytest.approx(term.gram, rel=1e-12)
    np.testing.assert_allclose(same.gradient, term.gradient, rtol=1e-12)


def test_value_of_the_block_path_is_that_of_the_dense_one():
    """The residuals of the eigenpairs enter the value squared: with tol = 1e-3, six digits."""
    K, rho = with_spectrum(falling_spectrum(260, 9), orthogonal(0, 260)), rho_from_cutoff(1.0)
    dense = NuclearPenalty(rho).evaluate(K, TopEigenpairs())
    solver = block_solver()
    block = NuclearPenalty(rho).evaluate(K, solver)
    assert solver.n_dense == 0
    assert block.low_rank + block.gram == pytest.approx(dense.low_rank + dense.gram, rel=1e-6)
    assert block.low_rank + block.gram >= (dense.low_rank + dense.gram) * (1.0 - 1e-12)  # an honest value of F
    np.testing.assert_allclose(block.gradient, dense.gradient, rtol=0, atol=2e-2 * np.linalg.norm(dense.gradient, 2))


@pytest.mark.parametrize("rho", [0.0, -1.0, math.nan, math.inf])
def test_rho_must_be_positive(rho):
    with pytest.raises(ValueError, match="rho must be a positive number"):
        NuclearPenalty(rho)


# --- a given similarity ---------------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 8), exponent=st.floats(-3.0, 3.0))
def test_gram_target_value_and_gradient(seed, n, exponent):
    rng = np.random.default_rng(seed)
    B, K, rho = rng.standard_normal((n, n)), RBF(0.5).gram(rng.standard_normal((n, 2))), 10.0**exponent
    target = similarity_target("gram", B.T @ B, rho)
    term = target.evaluate(K, TopEigenpairs())
    assert term.low_rank == pytest.approx(np.linalg.norm(B, "nuc"), rel=1e-6)
    assert term.gram == pytest.approx(0.5 * rho * reference.frobenius_squared(B.T @ B - K), rel=1e-12)
    expected = reference.numerical_gradient(lambda Z: target.evaluate(Z, TopEigenpairs()).gram, K)
    np.testing.assert_allclose(term.gradient, expected, rtol=1e-7, atol=1e-8 * rho * (1.0 + np.abs(B).max() ** 2))
    np.testing.assert_allclose(target.M, B.T @ B)  # evaluating does not consume it
    assert target.b_step(K, TopEigenpairs()) is target


def test_a_similarity_must_be_positive_semidefinite():
    M = with_spectrum([2.0, 1.0, -0.1], orthogonal(0, 3))
    with pytest.raises(ValueError, match=r"similarity must be positive semidefinite.*-0\.1 \(largest 2\)"):
        similarity_target("similarity", M, 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_rank_deficient_similarity_is_accepted(rank, dtype):
    """Its zero eigenvalues come out a little below zero."""
    B = np.random.default_rng(0).standard_normal((rank, 40))
    target = similarity_target("gram", (B.T @ B).astype(dtype), 2.0)
    assert isinstance(target, GramTarget)
    assert (target.rank, target.rho) == (rank, 2.0)
    exact = float(np.linalg.svd(B, compute_uv=False).sum()) if rank else 0.0
    assert target.low_rank == pytest.approx(exact, rel=1e-5 if dtype == np.float64 else 5e-2, abs=1e-12)
