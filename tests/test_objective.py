"""Phi: its value, gradient, symmetries and memory."""

import math
import tracemalloc

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.errors import KernelError
from kernmend.model.kernels import RBF, Linear, Polynomial
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty, cutoff_from_rho, rho_from_cutoff, similarity_target
from kernmend.model.terms import Parts

seeds = st.integers(0, 2**32 - 1)

KERNELS = [
    pytest.param(RBF(0.7), "rbf", {"gamma": 0.7}, id="rbf"),
    pytest.param(Polynomial(2, 1.0), "poly", {"degree": 2, "coef0": 1.0}, id="poly2"),
    pytest.param(Polynomial(3, 0.5), "poly", {"degree": 3, "coef0": 0.5}, id="poly3"),
    pytest.param(Linear(), "linear", {}, id="linear"),
]
ROTATION_INVARIANT = [RBF(0.7), Polynomial(2, 1.0), Linear()]
LAM, MU = 0.3, 0.05


def data(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X + 0.3 * rng.standard_normal((n, d)), X


def rho_between(kernel, A, kept):
    """A rho whose cut-off is the geometric mean of two eigenvalues of K(A), `kept` of them above it."""
    s = np.linalg.eigvalsh(kernel.gram(A))[::-1]
    rank = int(np.count_nonzero(s > 1e-4 * s[0]))  # a smaller cut-off is a larger rho, and rho (K - M) mere rounding
    kept = min(kept, rank - 1)
    return rho_from_cutoff(math.sqrt(s[kept - 1] * s[kept])) if kept else rho_from_cutoff(1.5 * s[0])


def objective(kernel, X, rho):
    return Objective(kernel, NuclearPenalty(rho), KernelError(kernel, X, MU), LAM)


@pytest.mark.parametrize(("kernel", "name", "params"), KERNELS)
@given(seed=seeds, n=st.integers(2, 8), d=st.integers(1, 5), kept=st.integers(0, 6))
def test_value_is_the_slow_objective(kernel, name, params, seed, n, d, kept):
    A, X = data(seed, n, d)
    rho = rho_between(kernel, A, kept)
    parts = objective(kernel, X, rho).evaluate(A)[0]
    expected = reference.objective_phi(name, params, A, X, lam=LAM, rho=rho, mu=MU)
    assert parts.total == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("kernel", "name", "params"), KERNELS)
@given(seed=seeds, n=st.integers(2, 8), d=st.integers(1, 5), kept=st.integers(0, 6))
def test_parts_are_the_three_terms_at_the_best_b_and_no_other_b_is_better(kernel, name, params, seed, n, d, kept):
    A, X = data(seed, n, d)
    rho = rho_between(kernel, A, kept)
    found = objective(kernel, X, rho)
    parts = found.parts(A)
    M = NuclearPenalty(rho).b_step(kernel.gram(A), TopEigenpairs()).M
    low_rank, error, gram = reference.objective_f(name, params, A, X, M, lam=LAM, rho=rho, mu=MU)
    assert parts.low_rank == pytest.approx(low_rank, rel=1e-6, abs=1e-6 * parts.total)  # |B|_* from M: sqrt of rounding
    assert parts.error == pytest.approx(error, rel=1e-10)
    assert parts.gram == pytest.approx(gram, rel=1e-9, abs=1e-10 * parts.total)
    assert parts.total == parts.low_rank + parts.error + parts.gram
    assert parts == found.evaluate(A)[0]
    B = np.random.default_rng(seed).standard_normal((n, n))
    for other in (M + 0.01 * B.T @ B, 0.9 * M, 1.1 * M, B.T @ B):
        f = sum(reference.objective_f(name, params, A, X, other, lam=LAM, rho=rho, mu=MU))
        assert parts.total <= f * (1.0 + 1e-8)


@pytest.mark.parametrize(("kernel", "name", "params"), KERNELS)
@given(seed=seeds, n=st.integers(2, 7), d=st.integers(1, 4), kept=st.integers(0, 5))
def test_gradient_is_that_of_the_value(kernel, name, params, seed, n, d, kept):
    """Away from the kink: the step is small beside the distance of every eigenvalue from the cut-off."""
    A, X = data(seed, n, d)
    rho = rho_between(kernel, A, kept)
    found = objective(kernel, X, rho)
    cut, s = cutoff_from_rho(rho), np.linalg.eigvalsh(kernel.gram(A))
    slope = 1.0 + np.abs(s).max()  # how fast an eigenvalue can move, roughly
    step = min(1e-3, 0.02 * np.abs(s - cut).min() / slope)
    gradient = found.evaluate(A)[1]
    expected = reference.numerical_gradient(lambda Z: found.parts(Z).total, A, step=step)
    noise = 1e-14 * found.parts(A).total / step
    scale = np.abs(gradient).max()
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-5 * scale + 10.0 * noise)
    assert noise < 0.01 * scale  # else the comparison says nothing


def test_gradient_against_the_slow_objective():
    """Nothing of kernmend on the other side of the comparison."""
    A, X = data(3, 6, 2)
    for kernel, name, params in [(RBF(0.7), "rbf", {"gamma": 0.7}), (Linear(), "linear", {})]:
        rho = rho_between(kernel, A, 1)

        def phi(Z, name=name, params=params, rho=rho):
            return reference.objective_phi(name, params, Z, X, lam=LAM, rho=rho, mu=MU)

        expected = reference.numerical_gradient(phi, A, step=1e-3)
        np.testing.assert_allclose(objective(kernel, X, rho).evaluate(A)[1], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kernel", "name", "params"), KERNELS)
@given(seed=seeds, n=st.integers(2, 8), d=st.integers(1, 5), kept=st.integers(1, 5))
def test_permuting_the_samples_permutes_the_gradient(kernel, name, params, seed, n, d, kept):
    A, X = data(seed, n, d)
    rho = rho_between(kernel, A, kept)
    order = np.random.default_rng(seed).permutation(n)
    parts, gradient = objective(kernel, X, rho).evaluate(A)
    moved_parts, moved_gradient = objective(kernel, X[order], rho).evaluate(A[order])
    assert moved_parts.total == pytest.approx(parts.total, rel=1e-11)
    assert moved_parts.rank == parts.rank
    np.testing.assert_allclose(moved_gradient, gradient[order], rtol=0, atol=1e-8 * np.abs(gradient).max())


@pytest.mark.parametrize("kernel", ROTATION_INVARIANT, ids=repr)
@given(seed=seeds, n=st.integers(2, 8), d=st.integers(1, 5), kept=st.integers(1, 5))
def test_rotating_the_data_rotates_the_gradient(kernel, seed, n, d, kept):
    A, X = data(seed, n, d)
    rho, R = rho_between(kernel, A, kept), reference.random_rotation(seed, d)
    parts, gradient = objective(kernel, X, rho).evaluate(A)
    turned_parts, turned_gradient = objective(kernel, X @ R, rho).evaluate(A @ R)
    assert turned_parts.total == pytest.approx(parts.total, rel=1e-11)
    np.testing.assert_allclose(turned_gradient, gradient @ R, rtol=0, atol=1e-8 * np.abs(gradient).max())


@given(seed=seeds, n=st.integers(2, 8), d=st.integers(1, 5), kept=st.integers(1, 5))
def test_moving_all_the_data_changes_nothing_for_a_gaussian(seed, n, d, kept):
    A, X = data(seed, n, d)
    kernel, shift = RBF(0.7), np.full(d, 128.0)
    rho = rho_between(kernel, A, kept)
    parts, gradient = objective(kernel, X, rho).evaluate(A)
    far_parts, far_gradient = objective(kernel, X + shift, rho).evaluate(A + shift)
    assert far_parts.total == pytest.approx(parts.total, rel=1e-9)
    np.testing.assert_allclose(far_gradient, gradient, rtol=0, atol=1e-7 * np.abs(gradient).max())


def test_total_of_parts_by_hand():
    parts = Parts(low_rank=1.0, error=20.0, gram=300.0, rank=7)
    assert parts.total == 321.0


def test_rank_counts_the_eigenvalues_above_the_cutoff():
    A, X = data(0, 9, 3)
    for kept in range(6):
        rho = rho_between(RBF(0.7), A, kept)
        assert objective(RBF(0.7), X, rho).parts(A).rank == kept


def test_lam_weighs_the_error_alone():
    A, X = data(0, 6, 3)
    kernel = RBF(0.7)
    once, gradient = Objective(kernel, NuclearPenalty(5.0), KernelError(kernel, X, MU), 0.2).evaluate(A)
    twice, more = Objective(kernel, NuclearPenalty(5.0), KernelError(kernel, X, MU), 0.4).evaluate(A)
    assert (twice.low_rank, twice.gram) == (once.low_rank, once.gram)
    assert twice.error == pytest.approx(2.0 * once.error)
    np.testing.assert_allclose(more - gradient, 0.2 * KernelError(kernel, X, MU).evaluate(A)[1], atol=1e-12)


@pytest.mark.parametrize("kernel", ROTATION_INVARIANT, ids=repr)
def test_a_given_similarity_in_place_of_the_penalty(kernel):
    A, X = data(1, 6, 3)
    B = np.random.default_rng(0).standard_normal((4, 6))
    found = Objective(kernel, similarity_target("gram", B.T @ B, 2.0), KernelError(kernel, X, MU), LAM)
    parts, gradient = found.evaluate(A)
    assert parts.low_rank == pytest.approx(np.linalg.norm(B, "nuc"), rel=1e-6)
    assert parts.gram == pytest.approx(np.sum((B.T @ B - kernel.gram(A)) ** 2), rel=1e-12)
    expected = reference.numerical_gradient(lambda Z: found.parts(Z).total, A)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


def test_block_solver_gives_the_dense_value_and_gradient():
    """What carries over between evaluations changes the speed, not the result."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 320)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[:30] += 0.5 * rng.standard_normal((30, 2))
    kernel = RBF(1.0)
    eigen = TopEigenpairs(dense_below=0)
    warm = Objective(kernel, NuclearPenalty(3.0), KernelError(kernel, X, MU), LAM, eigen)
    for step in range(5):
        A = X + 0.02 * step * rng.standard_normal(X.shape)
        parts, gradient = warm.evaluate(A)
        expected, expected_gradient = objective(kernel, X, 3.0).evaluate(A)
        assert parts.rank == expected.rank
        assert parts.total == pytest.approx(expected.total, rel=1e-6)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-2 * np.abs(expected_gradient).max())
    assert eigen.n_dense == 0


def test_the_iterate_is_left_alone():
    A, X = data(0, 5, 3)
    copies = A.copy(), X.copy()
    for kernel in ROTATION_INVARIANT:
        objective(kernel, X, 2.0).evaluate(A)
        objective(kernel, X, 2.0).parts(A)
        np.testing.assert_array_equal(A, copies[0])
        np.testing.assert_array_equal(X, copies[1])


@pytest.mark.parametrize("kernel", [RBF(0.5), Polynomial(2, 1.0)], ids=["rbf", "poly"])
def test_at_most_four_arrays_of_n_by_n_live_at_once(kernel):
    n = 1500
    X = np.random.default_rng(0).standard_normal((n, 3))
    objective = Objective(kernel, NuclearPenalty(rho_from_cutoff(5.0)), KernelError(kernel, X, 1e-3), 0.3)
    objective.evaluate(X)  # so that the block of eigenvectors is there
    tracemalloc.start()
    objective.evaluate(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert objective.eigen.n_dense == 0
    assert peak <= 4 * n * n * X.itemsize
