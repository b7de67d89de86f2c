import math

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from kernmend.linalg.eigen import TopEigenpairs, eigenpairs
from kernmend.model.kernels import RBF, Linear, Polynomial, auto_gamma
from kernmend.model.penalties import NuclearPenalty, cutoff_from_rho, rho_from_cutoff
from kernmend.model.tuning import centred_trace, pulls

seeds = st.integers(0, 2**32 - 1)


def penalty_value(K, rho):
    term = NuclearPenalty(rho).evaluate(K, TopEigenpairs())
    return term.low_rank + term.gram


# --- gamma ----------------------------------------------------------------------------------------------------------


@given(seed=seeds, exponent=st.floats(-50.0, 50.0))
def test_gamma_falls_with_the_square_of_the_scale(seed, exponent):
    X, factor = np.random.default_rng(seed).standard_normal((15, 3)), 10.0**exponent
    assert auto_gamma(factor * X) == pytest.approx(auto_gamma(X) / factor**2, rel=1e-9)


def test_gamma_is_one_over_the_median():
    X = np.array([[0.0], [1.0], [3.0]])  # squared distances 1, 4, 9
    assert auto_gamma(X) == pytest.approx(0.25)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e9])
def test_gamma_of_equal_rows(value):
    assert auto_gamma(np.full((7, 3), value)) == 1.0


# --- the centred trace ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [RBF(0.5), Polynomial(2, 1.0), Linear()], ids=repr)
@given(seed=seeds, n=st.integers(1, 9))
def test_the_centred_trace_is_that_of_the_centred_matrix(kernel, seed, n):
    K = kernel.gram(np.random.default_rng(seed).standard_normal((n, 3)))
    C = np.eye(n) - 1.0 / n
    assert centred_trace(K) == pytest.approx(np.trace(C @ K @ C), rel=1e-9, abs=1e-12 * np.trace(K))


# --- pulls ----------------------------------------------------------------------------------------------------------


def kernel_and_rho(seed, n, kernel, kept_eigenvalues):
    """Gram matrix of random rows and a rho whose cut-off lies well between two of its eigenvalues."""
    K = kernel.gram(np.random.default_rng(seed).standard_normal((n, 3)))
    s = np.linalg.eigvalsh(K)[::-1]
    return K, rho_from_cutoff(math.sqrt(s[kept_eigenvalues - 1] * s[kept_eigenvalues]))


@pytest.mark.parametrize("kernel", [RBF(0.5), Polynomial(2, 1.0)], ids=repr)
@given(seed=seeds, n=st.integers(6, 9), kept_eigenvalues=st.integers(1, 4))
def test_pulls_are_those_of_the_formula(kernel, seed, n, kept_eigenvalues):
    """f_i^2 = 4 (G K G)_ii with G = rho (K - M) and M by brute force."""
    K, rho = kernel_and_rho(seed, n, kernel, kept_eigenvalues)
    G = rho * (K - reference.best_m(K, rho))
    expected = 2.0 * np.sqrt(np.diag(G @ K @ G))
    np.testing.assert_allclose(pulls(*eigenpairs(K), rho), expected, rtol=1e-6, atol=1e-7 * expected.max())


@given(seed=seeds, n=st.integers(6, 9), kept_eigenvalues=st.integers(1, 4))
def test_a_sample_stays_put_exactly_when_lam_reaches_its_pull(seed, n, kept_eigenvalues):
    """In the kernel space, where sample i is the column phi_i of K^(1/2) and may move by any vector v.

    Psi changes by t psi'(v), the error by t lam |v|. Along the steepest direction the first is -f_i |v|.
    """
    K, rho = kernel_and_rho(seed, n, RBF(0.5), kept_eigenvalues)
    s, U = eigenpairs(K)
    f = pulls(s, U, rho)
    root = (U * np.sqrt(np.maximum(s, 0.0))) @ U.T  # rows are feature vectors: root @ root.T = K
    G = NuclearPenalty(rho).evaluate(K, TopEigenpairs()).gradient
    rng = np.random.default_rng(seed)
    step = 1e-4 * min(cutoff_from_rho(rho), np.abs(s - cutoff_from_rho(rho)).min())
    for i in (0, n - 1):

        def along(v, i=i):
            move = np.zeros((n, n))
            move[i] = v
            return reference.directional_derivative(
                lambda P: penalty_value(P @ P.T, rho), root, move, step=step / np.linalg.norm(v)
            )

        steepest = -(G @ root)[i] / np.linalg.norm((G @ root)[i])
        slope = along(steepest)
        noise = 1e-4 * f.max() + 1e-13 * penalty_value(K, rho) / step
        assert slope == pytest.approx(-f[i], abs=noise)
        assert slope + 0.9 * f[i] < noise  # lam below the pull: the objective falls
        for _ in range(5):  # lam at the pull: it falls in no direction
            v = rng.standard_normal(n)
            v /= np.linalg.norm(v)
            assert along(v) + f[i] >= -noise


@settings(max_examples=8)
@given(seed=seeds, n=st.integers(4, 6))
def test_pull_is_the_gradient_for_the_linear_kernel(seed, n):
    """There the kernel space is the input space: f_i is the length of row i of the gradient of Psi(X X')."""
    X = np.random.default_rng(seed).standard_normal((n, 3))
    K = Linear().gram(X)
    s, U = eigenpairs(K)
    rho = rho_from_cutoff(math.sqrt(s[-1] * s[-2]))
    step = 0.01 * np.abs(s - cutoff_from_rho(rho)).min() / (1.0 + s[-1])
    gradient = reference.numerical_gradient(lambda Z: reference.psi(Z @ Z.T, rho), X, step=min(step, 1e-3))
    expected = np.linalg.norm(gradient, axis=1)
    np.testing.assert_allclose(pulls(s, U, rho), expected, rtol=1e-5, atol=1e-5 * expected.max())


def test_pulls_of_a_large_rho_are_the_roots_of_the_leverage_scores():
    """There rho (s - g^2) is 1 / (2 sqrt(s)), and f_i^2 = sum_k U_ik^2 over the kept eigenvectors."""
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))[0]
    s = np.concatenate([np.zeros(24), np.linspace(1.0, 4.0, 6)])
    leverage = np.sum(U[:, 24:] ** 2, axis=1)
    np.testing.assert_allclose(pulls(s, U, 1e8), np.sqrt(leverage), rtol=1e-6)


def test_negative_eigenvalues_pull_nothing():
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0]
    s = np.linspace(-1.0, 3.0, 12)
    np.testing.assert_allclose(pulls(s, U, 2.0), pulls(np.maximum(s, 0.0), U, 2.0), rtol=1e-12)


def outlier_auc(score, outlier):
    """Share of pairs (outlier, inlier) in which the outlier has the higher score."""
    return float(np.mean(score[outlier][:, np.newaxis] > score[~outlier][np.newaxis]))


@pytest.mark.parametrize("seed", range(5))
def test_pulls_find_the_outliers_of_a_circle(seed):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, 200)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    outlier = np.arange(200) < 20
    radius = rng.choice([0.3, 0.4, 1.7, 1.9], 20)
    X[outlier] *= radius[:, np.newaxis]
    s, U = eigenpairs(RBF(auto_gamma(X)).gram(X))
    assert outlier_auc(pulls(s, U, rho_from_cutoff(1e-3 * s.sum())), outlier) > 0.9
