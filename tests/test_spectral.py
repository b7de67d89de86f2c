"""The B-step, and eigenpairs above a cut-off with the proof that none is missing."""

import math

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from spectra import block_solver, falling_spectrum, orthogonal, with_spectrum

from kernmend.linalg import eigen
from kernmend.linalg.eigen import TopEigenpairs, eigenpairs, eigenpairs_above
from kernmend.model.kernels import RBF
from kernmend.model.penalties import cutoff_from_rho, rho_from_cutoff, shrink_eigenvalues

seeds = st.integers(0, 2**32 - 1)
log_rho = st.floats(-6.0, 8.0)


def expected_top(K, cut):
    s, U = np.linalg.eigh(K.astype(np.float64))
    return s[s > cut][::-1], U[:, s > cut][:, ::-1]


def assert_top(found, K, cut, *, value=1e-6, projector=None):
    """Same eigenvalues above the cut (relative to it), descending; orthonormal vectors that belong to them."""
    s, U = found
    expected, V = expected_top(K, cut)
    assert s.shape == expected.shape
    assert U.shape == V.shape
    np.testing.assert_allclose(s, expected, rtol=0, atol=value * cut)
    assert np.all(np.diff(s) <= 0)
    bound = max(1.001e-3 * cut, 20.0 * np.finfo(K.dtype).eps * np.abs(K).sum(axis=1).max())
    assert np.all(np.linalg.norm(K @ U - U * s, axis=0) <= bound)
    np.testing.assert_allclose(U.T @ U, np.eye(s.size), rtol=0, atol=1e-5 if K.dtype == np.float32 else 1e-10)
    if projector is not None and s.size:
        assert np.linalg.norm(U @ U.T - V @ V.T, 2) <= projector


# --- the B-step -----------------------------------------------------------------------------------------------------


@given(exponent=st.floats(-12.0, 12.0))
def test_cutoff_and_rho_are_inverse_of_each_other(exponent):
    value = 10.0**exponent
    assert rho_from_cutoff(cutoff_from_rho(value)) == pytest.approx(value, rel=1e-12)
    assert cutoff_from_rho(rho_from_cutoff(value)) == pytest.approx(value, rel=1e-12)


def test_cutoff_of_a_known_rho():
    assert cutoff_from_rho(1.0) == 1.5
    assert cutoff_from_rho(8.0) == pytest.approx(0.375)
    assert rho_from_cutoff(1.5) == 1.0


@given(exponent=log_rho, ratios=st.lists(st.floats(-3.0, 4.0), min_size=1, max_size=4))
def test_shrinking_is_the_brute_force_minimiser(exponent, ratios):
    """Eigenvalues from a thousandth of the cut-off to ten thousand times it."""
    rho = 10.0**exponent
    s = cutoff_from_rho(rho) * 10.0 ** np.array(ratios)
    s = s[np.abs(s / cutoff_from_rho(rho) - 1.0) > 1e-9]  # at the cut-off itself there are two minimisers
    g = shrink_eigenvalues(s, rho)
    brute = np.array([reference.scalar_minimiser(float(value), rho) for value in s])
    np.testing.assert_allclose(g, brute, rtol=1e-6, atol=1e-7 * math.sqrt(cutoff_from_rho(rho)))
    for found, expected, value in zip(g, brute, s, strict=True):
        best = reference.scalar_cost(expected, value, rho)
        rounding = rho * (4.0 * np.finfo(float).eps * value) ** 2  # of (s - g^2)^2, where the two are nearly equal
        assert reference.scalar_cost(found, value, rho) <= best * (1.0 + 1e-12) + rounding


@given(exponent=log_rho)
def test_shrinking_on_both_sides_of_the_cutoff(exponent):
    """g jumps from 0 to sqrt(s* / 1.5), and the two minima have the same value at s*."""
    rho = 10.0**exponent
    cut = cutoff_from_rho(rho)
    below, at, above = shrink_eigenvalues(cut * np.array([1.0 - 1e-6, 1.0, 1.0 + 1e-6]), rho)
    assert below == 0.0
    assert at == 0.0
    assert above**2 == pytest.approx(cut / 1.5, rel=1e-5)
    assert reference.scalar_minimiser(cut * (1.0 - 1e-6), rho) == 0.0
    assert reference.scalar_minimiser(cut * (1.0 + 1e-6), rho) == pytest.approx(above, rel=1e-6)
    inner = math.sqrt(cut / 1.5)
    assert reference.scalar_cost(inner, cut, rho) == pytest.approx(reference.scalar_cost(0.0, cut, rho), rel=1e-12)
    assert reference.scalar_minimiser(1.2 * cut, rho) > 0.9 * inner  # the kept root is the large one


@given(exponent=log_rho, seed=seeds)
def test_shrunk_eigenvalues_solve_the_cubic(exponent, seed):
    rho = 10.0**exponent
    s = cutoff_from_rho(rho) * (1.0 + 10.0 ** np.random.default_rng(seed).uniform(-6, 6, 20))
    g = shrink_eigenvalues(s, rho)
    np.testing.assert_allclose(g**3 + 1.0 / (2.0 * rho), s * g, rtol=1e-12)
    assert np.all(g**2 >= s / 3.0)  # the largest of the three roots
    assert np.all(g**2 < s * (1.0 + 1e-14))


@pytest.mark.parametrize("rho", [1e-6, 1.0, 1e8])
def test_eigenvalues_that_are_not_positive_are_dropped_in_silence(rho):
    s = np.array([0.0, -0.0, -1e-300, -1.0, -1e12, 1e-300])
    np.testing.assert_array_equal(shrink_eigenvalues(s, rho), np.zeros(6))
    assert shrink_eigenvalues(np.array([]), rho).shape == (0,)


def test_shrinking_keeps_float32():
    s = np.array([0.5, 1.4, 1.6, 30.0], dtype=np.float32)
    g = shrink_eigenvalues(s, 1.0)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, shrink_eigenvalues(s.astype(np.float64), 1.0), rtol=1e-6)


# --- eigenpairs above a cut-off -------------------------------------------------------------------------------------


def test_eigenpairs_are_all_of_them_ascending():
    K = with_spectrum([3.0, -1.0, 2.0, 0.5], orthogonal(0, 4))
    s, U = eigenpairs(K)
    np.testing.assert_allclose(s, [-1.0, 0.5, 2.0, 3.0], atol=1e-14)
    np.testing.assert_allclose((U * s) @ U.T, K, atol=1e-14)


@given(seed=seeds, n=st.integers(1, 40), kept=st.integers(0, 40))
def test_dense_path_agrees_with_numpy(seed, n, kept):
    K = with_spectrum(falling_spectrum(n, min(kept, n), seed=seed), orthogonal(seed, n))
    solver = TopEigenpairs()
    assert_top(solver(K, 1.0), K, 1.0, value=1e-10, projector=1e-10)
    assert solver.n_dense == 1


@given(seed=seeds, kept=st.integers(0, 8), n=st.integers(330, 370), log_scale=st.floats(-6.0, 6.0))
def test_block_path_agrees_with_numpy(seed, kept, n, log_scale):
    """Residuals of at most tol * cut leave the square of it in the eigenvalues and about tol in the projector."""
    cut = 10.0**log_scale
    K = with_spectrum(falling_spectrum(n, kept, cut=cut, seed=seed), orthogonal(seed, n))
    solver = block_solver()
    assert_top(solver(K, cut), K, cut, value=1e-5, projector=2e-2)
    assert solver.n_dense == 0


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-8])
def test_tol_bounds_the_residuals(tol):
    K = with_spectrum(falling_spectrum(250, 8), orthogonal(1, 250))
    solver = block_solver(tol=tol)
    s, U = solver(K, 1.0)
    assert solver.n_dense == 0
    assert np.linalg.norm(K @ U - U * s, axis=0).max() <= tol * (1.0 + 1e-6)
    np.testing.assert_allclose(s, expected_top(K, 1.0)[0], rtol=0, atol=max(10.0 * tol**2, 1e-12))


def test_a_matrix_over_600_rows_takes_the_block_path_by_itself():
    rng = np.random.default_rng(0)
    K = RBF(0.5).gram(rng.standard_normal((650, 2)))
    solver = TopEigenpairs()
    assert_top(solver(K, 5.0), K, 5.0, value=1e-5)
    assert (solver.n_dense, solver.n_passes > 0) == (0, True)
    small = TopEigenpairs()
    small(K[:600, :600], 5.0)
    assert (small.n_dense, small.n_passes) == (1, 0)


def test_the_same_call_gives_the_same_bits():
    K = with_spectrum(falling_spectrum(220, 6), orthogonal(2, 220))
    (s, U), (again, V) = block_solver()(K, 1.0), block_solver()(K, 1.0)
    np.testing.assert_array_equal(s, again)
    np.testing.assert_array_equal(U, V)


def test_a_slowly_changing_matrix_is_followed():
    """Outliers of a circle walk back to it, as in the solver; each step is checked, and warm starts save passes."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 400)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    start = circle.copy()
    start[:40] += 0.6 * rng.standard_normal((40, 2))
    solver, cold_passes = block_solver(), 0
    for t in np.linspace(0.0, 1.0, 20):
        K = RBF(2.0).gram(start + t * (circle - start))
        cut = cutoff_from_rho(10.0)
        assert_top(solver(K, cut), K, cut, value=1e-4)
        cold = block_solver()
        cold(K, cut)
        cold_passes += cold.n_passes
    assert solver.n_dense == 0
    assert solver.n_passes < cold_passes


def test_a_matrix_that_does_not_change_costs_one_pass():
    K = with_spectrum(falling_spectrum(240, 7), orthogonal(0, 240))
    solver = block_solver()
    first = solver(K, 1.0)
    passes = solver.n_passes
    second = solver(K, 1.0)
    assert solver.n_passes == passes + 1
    np.testing.assert_allclose(second[0], first[0], rtol=1e-12)


def test_the_block_grows_when_the_cut_falls_and_shrinks_when_it_rises():
    K = with_spectrum(10.0 * 0.9 ** np.arange(400), orthogonal(3, 400))
    solver, ranks = block_solver(), []
    for cut in (7.5, 4.0, 2.0, 1.0, 0.5, 2.0, 7.5, 0.5):
        s, U = solver(K, cut)
        assert_top((s, U), K, cut, value=1e-5, projector=5e-2)
        ranks.append(s.size)
    assert ranks == [3, 9, 16, 22, 29, 16, 3, 29]
    assert solver.n_dense == 0


def test_nothing_above_the_cut():
    K = with_spectrum(0.9 * 0.97 ** np.arange(220), orthogonal(0, 220))
    for solver in (TopEigenpairs(), block_solver()):
        s, U = solver(K, 1.0)
        assert s.shape == (0,)
        assert U.shape == (220, 0)
    zero = block_solver()(np.zeros((220, 220)), 1.0)
    assert zero[0].size == 0


def test_everything_above_the_cut_falls_back_to_a_dense_solver():
    K = with_spectrum(np.linspace(2.0, 9.0, 220), orthogonal(0, 220))
    solver = block_solver()
    assert_top(solver(K, 1.0), K, 1.0, value=1e-10, projector=1e-10)
    assert solver.n_dense == 1
    assert_top(solver(K, 8.9), K, 8.9, value=1e-5, projector=0.3)  # from the wide block it kept


@pytest.mark.parametrize("n", [1, 2, 5, 19, 30])
def test_block_path_of_a_matrix_smaller_than_its_block(n):
    K = with_spectrum(np.linspace(0.5, 3.0, n), orthogonal(0, n))
    assert_top(block_solver()(K, 1.1), K, 1.1, value=1e-10, projector=1e-10)


@pytest.mark.parametrize(
    "top",
    [
        pytest.param([5.0] * 6, id="repeated"),
        pytest.param([5.0] * 25, id="repeated-more-often-than-the-block-is-wide"),
        pytest.param([5.0, 5.0 + 1e-9, 5.0 - 1e-9, 3.0, 3.0, 3.0 + 1e-12], id="clusters"),
        pytest.param([1e6, 1.01, 1.01, 1.01], id="just-above-the-cut"),
    ],
)
@pytest.mark.parametrize("tail", ["flat", "zero", "falling"])
def test_clustered_eigenvalues(top, tail):
    n = 300
    rest = {"flat": np.full(n, 0.5), "zero": np.zeros(n), "falling": 0.9 * 0.95 ** np.arange(n)}[tail]
    K = with_spectrum(np.concatenate([top, rest[len(top) :]]), orthogonal(4, n))
    assert_top(block_solver(tol=1e-5)(K, 1.0), K, 1.0, value=1e-6 * max(1.0, top[0] / 1e3), projector=1e-3)


def test_block_matrix_with_equal_rows():
    """Duplicated samples: a Gram matrix of low rank, whose residuals are linearly dependent."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((6, 2)), 40, axis=0)
    K = RBF(1.0).gram(X)
    solver = block_solver()
    assert_top(solver(K, 1.0), K, 1.0, value=1e-5, projector=2e-2)
    assert_top(solver(K, 0.01), K, 0.01, value=1e-5, projector=2e-2)


# --- the certificate ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [1.05, 2.0, 1e3, 1e6])
@pytest.mark.parametrize("n", [240, 640])
def test_a_large_eigenvector_outside_the_warm_block_is_found(hidden, n):
    """The block is an exactly invariant subspace, all its residuals are zero, and yet it misses the largest pair."""
    Q = orthogonal(5, n)
    s = falling_spectrum(n, 5)
    solver = TopEigenpairs(dense_below=0 if n < 600 else 600)
    first = with_spectrum(s, Q)
    assert_top(solver(first, 1.0), first, 1.0, value=1e-5)
    solver._block = np.ascontiguousarray(Q[:, :16])
    s[100] = hidden  # its vector is orthogonal to the block
    K = with_spectrum(s, Q)
    assert np.linalg.norm(solver._block.T @ K @ Q[:, 100]) < 1e-9 * hidden
    assert_top(solver(K, 1.0), K, 1.0, value=1e-5 * max(1.0, hidden / 1e3), projector=2e-2)


def test_several_large_eigenvectors_outside_the_warm_block_are_found():
    Q, s = orthogonal(6, 300), falling_spectrum(300, 5)
    solver = block_solver()
    solver._block = np.ascontiguousarray(Q[:, :16])
    s[150:190] = np.linspace(1.1, 20.0, 40)
    K = with_spectrum(s, Q)
    assert_top(solver(K, 1.0), K, 1.0, value=1e-5, projector=5e-2)


def test_an_abrupt_change_of_the_matrix():
    """The new matrix has nothing to do with the old one, whose block is all that the solver knows."""
    solver = block_solver()
    for seed in range(6):
        K = with_spectrum(falling_spectrum(240, 4 + seed, seed=seed), orthogonal(seed, 240))
        assert_top(solver(K, 1.0), K, 1.0, value=1e-5, projector=2e-2)
    Q = orthogonal(9, 240)
    for order in (slice(None), slice(None, None, -1)):  # the same vectors, the large eigenvalues at the other end
        K = with_spectrum(falling_spectrum(240, 6)[order], Q)
        assert_top(solver(K, 1.0), K, 1.0, value=1e-5, projector=2e-2)


@pytest.mark.parametrize("size", [0.0, 1e-3, 0.1])
def test_a_block_diagonal_matrix_whose_blocks_swap_their_weights(size):
    """The old eigenvectors are zero on half of the rows, where the new large eigenvalue lives."""
    rng = np.random.default_rng(0)
    left, right = RBF(0.5).gram(rng.standard_normal((120, 2))), RBF(0.5).gram(rng.standard_normal((120, 2)))
    K, swapped = np.zeros((240, 240)), np.zeros((240, 240))
    K[:120, :120], K[120:, 120:] = left, size * right
    swapped[:120, :120], swapped[120:, 120:] = size * left, right
    solver = block_solver()
    assert_top(solver(K, 2.0), K, 2.0, value=1e-5)
    assert_top(solver(swapped, 2.0), swapped, 2.0, value=1e-5)


@pytest.mark.parametrize("risen", [1.05, 1.15, 1.3, 1.45])
@pytest.mark.parametrize("n", [300, 640])
def test_a_guard_that_rises_over_the_cut_is_found(risen, n):
    """A pair below the cut rises over it and turns, so that its old vector, a guard, has a Ritz value below the cut.

    The pairs above the cut stay as they are: nothing but the certificate can notice.
    """
    Q, s = orthogonal(0, n), np.full(n, 0.05)
    s[:5], s[5] = [10.0, 9.0, 8.0, 7.0, 6.0], 0.9
    solver = TopEigenpairs(dense_below=0 if n < 600 else 600)
    first = with_spectrum(s, Q)
    assert_top(solver(first, 1.0), first, 1.0, value=1e-5)
    share = (0.98 - 0.05) / (risen - 0.05)  # of the old vector in the new one, for a Ritz value of 0.98
    c, d = math.sqrt(share), math.sqrt(1.0 - share)
    V = Q.copy()
    V[:, 5], V[:, -1] = c * Q[:, 5] + d * Q[:, -1], d * Q[:, 5] - c * Q[:, -1]
    s[5] = risen
    K = with_spectrum(s, V)
    assert Q[:, 5] @ K @ Q[:, 5] < 0.99
    assert_top(solver(K, 1.0), K, 1.0, value=1e-3)


@given(seed=seeds, kept=st.integers(1, 8), hidden=st.integers(0, 3), tilt=st.floats(0.0, 1.0))
def test_any_warm_block_gives_the_right_answer(seed, kept, hidden, tilt):
    """The block of the last call is a hint: right, wrong or half right, the answer is the same."""
    n = 220
    Q, s = orthogonal(seed, n), falling_spectrum(n, kept, seed=seed)
    K = with_spectrum(s, Q)
    noise = orthogonal(seed + 1, n)[:, : kept + 12]
    exact = Q[:, hidden : hidden + kept + 12]  # without the first `hidden` vectors
    solver = block_solver()
    solver._block = np.linalg.qr((1.0 - tilt) * exact + tilt * noise)[0]
    assert_top(solver(K, 1.0), K, 1.0, value=1e-5, projector=2e-2)


@pytest.mark.parametrize("negative", [-0.5, -20.0, -1e3])
def test_an_indefinite_matrix(negative):
    """A polynomial of fractional degree has negative eigenvalues too; only those above the cut count."""
    s = falling_spectrum(240, 6)
    s[100:130] = np.linspace(negative, 0.1 * negative, 30)
    Q = orthogonal(7, 240)
    K = with_spectrum(s, Q)
    for solver in (TopEigenpairs(), block_solver()):
        assert_top(solver(K, 1.0), K, 1.0, value=1e-5, projector=2e-2)
    solver = block_solver()
    solver._block = np.ascontiguousarray(Q[:, 90:130])
    assert_top(solver(K, 1.0), K, 1.0, value=1e-5, projector=2e-2)
    assert block_solver()(-np.eye(240) * 3.0, 1.0)[0].size == 0


@pytest.mark.parametrize("dense_below", [0, 600])
def test_float32_matrices(dense_below):
    n = 260
    Q, s = orthogonal(8, n), falling_spectrum(n, 7)
    K = with_spectrum(s, Q).astype(np.float32)
    solver = TopEigenpairs(dense_below=dense_below)
    for _ in range(2):  # cold, warm
        found = solver(K, 1.0)
        assert (found[0].dtype, found[1].dtype) == (np.float32, np.float32)
        assert_top(found, K, 1.0, value=1e-3, projector=2e-2)
    assert (solver.n_dense == 0) == (dense_below == 0)
    s[120] = 30.0  # outside the block
    K = with_spectrum(s, Q).astype(np.float32)
    assert_top(solver(K, 1.0), K, 1.0, value=1e-3, projector=2e-2)


def test_a_matrix_of_another_size_starts_afresh():
    solver = block_solver()
    for n in (240, 200, 260):
        K = with_spectrum(falling_spectrum(n, 5), orthogonal(0, n))
        assert_top(solver(K, 1.0), K, 1.0, value=1e-5, projector=2e-2)


def test_the_matrix_is_not_changed():
    K = with_spectrum(falling_spectrum(220, 5), orthogonal(0, 220))
    copy = K.copy()
    for solver in (TopEigenpairs(), block_solver()):
        solver(K, 1.0)
        np.testing.assert_array_equal(K, copy)


# --- eigenpairs above a cut-off, by whichever solver is fastest -------------------------------------------------------


@pytest.mark.parametrize(("kept", "all_of_them"), [(8, False), (60, False), (0, True), (230, True)])
def test_eigenpairs_above_a_cut_off(kept, all_of_them, monkeypatch):
    """Few, by iterations; some, by a dense solver for a part; none, most or all of few rows: all."""
    monkeypatch.setattr(eigen, "_DENSE_BELOW", 200)
    monkeypatch.setattr(eigen, "_SAMPLE", 120)
    n, cut = 240, 1.0
    K = with_spectrum(falling_spectrum(n, kept, cut=cut, seed=kept), orthogonal(kept, n))
    s, U = eigenpairs_above(K, cut)
    expected, V = expected_top(K, cut)
    assert (s.size == n) == all_of_them
    assert np.all(np.diff(s) >= 0)
    above = s > cut
    assert above.sum() == expected.size == kept
    np.testing.assert_allclose(s[above][::-1], expected, rtol=1e-6)
    np.testing.assert_allclose(U[:, above] @ U[:, above].T, V @ V.T, atol=1e-3)


def test_eigenpairs_above_a_cut_off_of_few_rows_are_all():
    K = with_spectrum(falling_spectrum(50, 5), orthogonal(0, 50))
    s, U = eigenpairs_above(K, 1.0)
    np.testing.assert_array_equal(s, eigenpairs(K)[0])
    np.testing.assert_array_equal(U, eigenpairs(K)[1])
