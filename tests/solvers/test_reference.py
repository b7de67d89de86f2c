"""Rows against a reference: the distance from the span by dense algebra, its gradient, and where rows end."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import RationalQuadratic, off_circle
from reference import numerical_gradient

from kernmend.linalg.eigen import eigenpairs
from kernmend.model.errors import EntryError, KernelError, RowError
from kernmend.model.kernels import RBF, Kernel, Linear, Polynomial
from kernmend.repair.mender import Mender, Settings
from kernmend.solvers.reference import Reference, mend_rows

seeds = st.integers(0, 2**32 - 1)
KERNELS = [
    pytest.param(RBF(0.7), id="rbf"),
    pytest.param(Polynomial(2, 1.0), id="poly2"),
    pytest.param(Linear(), id="linear"),
    pytest.param(RationalQuadratic(1.5), id="rational"),
]


@dataclass(frozen=True)
class Weighted(Kernel):
    """k(a, b) = g(a) g(b) a'b with g = 1 + |a|^2: neither radial nor dot-product; uses the default diag_gradient."""

    def gram(self, X, Y=None):
        Y = X if Y is None else Y
        return np.outer(1.0 + (X**2).sum(1), 1.0 + (Y**2).sum(1)) * (X @ Y.T)

    def diag(self, X):
        t = (X**2).sum(1)
        return (1.0 + t) ** 2 * t

    def pullback(self, A, B, K, G):
        a, b = 1.0 + (A**2).sum(1), 1.0 + (B**2).sum(1)
        return 2.0 * A * ((G * (A @ B.T)) @ b)[:, np.newaxis] + a[:, np.newaxis] * ((G * b) @ B)

    def distances(self, A, X):
        raise NotImplementedError


def data(seed, n=12, m=5, d=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d))


def circle(n=60, seed=0):
    angle = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def fitted(kernel, L, cutoff):
    """The span of the eigenvectors of K(L) with eigenvalues above the cut-off."""
    return Mender(L, fixed_cutoff=cutoff).reference(Settings(kernel, cutoff, RowError, 0.5))


def distances(reference, A):
    """sqrt(dist2 + eps) of each row, and the gradient."""
    root, gradient = reference.values(A)
    return root, gradient(slice(None))


def dense_dist2(kernel, L, A, cutoff):
    """k(a, a) - k(a, L) K^+ k(L, a), K^+ the pseudo-inverse over the eigenvalues above the cut-off, row by row."""
    s, U = np.linalg.eigh(kernel.gram(L))
    keep = s > cutoff
    K_plus = U[:, keep] @ np.diag(1.0 / s[keep]) @ U[:, keep].T
    out = []
    for a in A:
        k = kernel.gram(a[np.newaxis], L)[0]
        out.append(float(kernel.gram(a[np.newaxis])[0, 0] - k @ K_plus @ k))
    return np.array(out)


# --- the distance -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cutoff", [1e-6, 0.1, 3.0])
def test_the_value_is_the_distance_from_the_span(kernel, cutoff):
    L, A = data(0)
    reference = fitted(kernel, L, cutoff)
    value, _ = distances(reference, A)
    np.testing.assert_allclose(
        value, np.sqrt(np.maximum(dense_dist2(kernel, L, A, cutoff), 0.0) + reference.eps), rtol=1e-7
    )


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_the_gradient_by_finite_differences(kernel, seed):
    L, A = data(seed, n=8, m=3, d=4)
    reference = fitted(kernel, L, 0.3)
    _, gradient = distances(reference, A)
    expected = numerical_gradient(lambda Z: float(distances(reference, Z)[0].sum()), A, step=1e-4)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_reference_row_lies_on_the_span(kernel):
    L, A = data(1, n=6, d=8)
    reference = fitted(kernel, L, 1e-12)
    on = np.sqrt(reference.eps)
    np.testing.assert_allclose(distances(reference, L)[0], on, rtol=1e-3)
    assert np.all(distances(reference, A)[0] > 10 * on)


def test_rank_counts_the_eigenvalues_above_the_cutoff():
    L, _ = data(2)
    s, U = eigenpairs(RBF(0.7).gram(L))
    for cutoff in (1e-9, 0.5 * (s[3] + s[4]), 0.5 * (s[-2] + s[-1])):
        reference = Reference.from_largest(RBF(0.7), L, s, U, int((s > cutoff).sum()))
        assert reference.rank == np.sum(s > cutoff)
        assert fitted(RBF(0.7), L, cutoff).rank == reference.rank
        np.testing.assert_array_equal(fitted(RBF(0.7), L, cutoff).V, reference.V)
    assert fitted(RBF(0.7), L, 1e9).rank == 1  # the largest one is always kept


def test_a_lower_cutoff_never_takes_a_row_farther():
    L, A = data(3)
    values = [distances(fitted(RBF(0.7), L, cutoff), A)[0] for cutoff in (3.0, 1.0, 0.1, 1e-3, 1e-9)]
    assert np.all(np.diff(values, axis=0) <= 1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_constant_reference_rows(kernel, value):
    L = np.full((7, 3), value)
    for cutoff in (0.0, 1e-12, 1.0):
        reference = fitted(kernel, L, cutoff)
        for A in (L[:2], np.ones((2, 3)), np.zeros((2, 3))):
            root, gradient = distances(reference, A)
            assert np.isfinite(gradient).all()
            np.testing.assert_array_equal(root[0], root[1])  # both rows of A are the same
            dist2 = root**2 - reference.eps
            assert (dist2 <= kernel.diag(A) * (1 + 1e-9) + 1e-9).all()
            if (L[:2] == A).all() and cutoff < 1.0:  # in the span itself
                assert (dist2 <= 1e-6 * kernel.diag(A) + 1e-9).all()


def test_duplicated_reference_rows_change_nothing():
    L, A = data(4)
    once = distances(fitted(RBF(0.7), L, 1e-8), A)
    twice = distances(fitted(RBF(0.7), np.vstack([L, L]), 2e-8), A)
    np.testing.assert_allclose(once[0], twice[0], rtol=1e-6)
    np.testing.assert_allclose(once[1], twice[1], atol=1e-5)


# --- the gradient of k(a, a) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [*KERNELS, pytest.param(Polynomial(3, 0.5), id="poly3"), Weighted()])
def test_diag_gradient(kernel):
    _, A = data(5)
    expected = numerical_gradient(lambda Z: float(kernel.diag(Z).sum()), A)
    np.testing.assert_allclose(kernel.diag_gradient(A), expected, atol=1e-8 * max(1.0, np.abs(expected).max()))
    # the loop over rows that a new kernel inherits
    np.testing.assert_allclose(Kernel.diag_gradient(kernel, A), expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


# --- where rows end ---------------------------------------------------------------------------------------------------

OFF = np.array([[0.3, 0.4], [-1.2, 0.5], [0.9, -0.9], [0.0, 0.6]])


def mend(X, error, lam, start=None, **options):
    reference = fitted(RBF(0.5), circle(), 1e-4)
    return mend_rows(reference, X if start is None else start, error, lam, scale=0.1, **options)


@pytest.mark.parametrize("model", ["rows", "entries", "kernel"])
def test_a_small_force_lets_a_row_go_to_the_circle_and_a_large_one_holds_it(model):
    error = {"rows": RowError(OFF, 1e-3), "entries": EntryError(OFF, 1e-3), "kernel": KernelError(RBF(0.5), OFF, 1e-3)}
    A, totals, _ = mend(OFF, error[model], 0.01)
    assert off_circle(OFF).min() > 0.2
    assert off_circle(A).max() < 0.05
    assert np.all(np.diff(totals) <= 0)
    held, _, _ = mend(OFF, error[model], 1e3)
    np.testing.assert_allclose(held, OFF, atol=1e-3)


def test_a_row_lands_near_where_it_was():
    A, _, _ = mend(OFF, RowError(OFF, 1e-3), 0.01)
    foot = OFF / np.linalg.norm(OFF, axis=1, keepdims=True)
    assert np.linalg.norm(A - foot, axis=1).max() < 0.3


def test_row_by_row_is_the_batch():
    batch, _, _ = mend(OFF, RowError(OFF, 1e-3), 0.05)
    alone = np.vstack([mend(x[np.newaxis], RowError(x[np.newaxis], 1e-3), 0.05)[0] for x in OFF])
    np.testing.assert_allclose(batch, alone, atol=1e-6)


@pytest.mark.parametrize("model", [RowError, EntryError])
def test_missing_entries_are_filled_and_carry_no_error(model):
    angle = np.array([0.3, 1.0, 2.5])
    truth = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2.0 * angle)])
    angles = np.linspace(0.0, 2.0 * np.pi, 80, endpoint=False)
    L = np.column_stack([np.cos(angles), np.sin(angles), np.cos(2.0 * angles)])
    X, start = truth.copy(), truth.copy()
    X[:, 2], start[:, 2] = np.nan, 0.0
    reference = fitted(RBF(0.3), L, 1e-6)
    A, _, _ = mend_rows(reference, start, model(X, 1e-3), 100.0, scale=0.1, free=np.isnan(X), tol=1e-10)
    np.testing.assert_array_equal(A[:, :2], truth[:, :2])
    np.testing.assert_allclose(A[:, 2], truth[:, 2], atol=0.02)
    loose, _, _ = mend_rows(reference, start, model(X, 1e-3), 100.0, scale=0.1, tol=1e-10)
    np.testing.assert_allclose(loose, truth, atol=0.02)  # lam holds the observed ones, nothing holds the others


def test_bounds_hold():
    low, high = np.full(2, -0.8), np.full(2, 0.8)
    X = OFF[:3]  # the last one is pulled straight up, out of the box
    A, totals, _ = mend(X, RowError(X, 1e-3), 0.01, bounds=(low, high))
    assert np.all((low <= A) & (high >= A))
    assert np.all(np.diff(totals) <= 0)
    assert off_circle(A).max() < 0.1  # the circle passes through the box


@pytest.mark.parametrize("kernel", [RBF(0.7), Polynomial(2)], ids=str)
def test_one_product_or_two_give_the_same_distances(kernel):
    rng = np.random.default_rng(4)
    L, A = rng.standard_normal((30, 12)), rng.standard_normal((6, 12))
    with_inverse = fitted(kernel, L, 1e-3)
    assert with_inverse._inverse is not None
    without = fitted(kernel, L, 1e-3)
    without.__dict__["_inverse"] = None
    for found, expected in zip(with_inverse.squared_rows(A), without.squared_rows(A), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_a_span_down_to_rounding_takes_two_products():
    L = np.random.default_rng(5).standard_normal((30, 2))
    assert fitted(RBF(0.1), L, 1e-13)._inverse is None
