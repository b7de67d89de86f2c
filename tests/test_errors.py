import math

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from kernmend.model.errors import EntryError, KernelError, RowError
from kernmend.model.kernels import RBF, Linear, Polynomial

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)
mus = st.floats(-6.0, 0.0).map(lambda exponent: 10.0**exponent)

KERNELS = [
    pytest.param(RBF(0.7), "rbf", {"gamma": 0.7}, id="rbf"),
    pytest.param(Polynomial(2, 1.0), "poly", {"degree": 2, "coef0": 1.0}, id="poly2"),
    pytest.param(Polynomial(1.5, 0.1), "poly", {"degree": 1.5, "coef0": 0.1}, id="poly1.5"),
    pytest.param(Linear(), "linear", {}, id="linear"),
]
WITH_MAJORISER = [pytest.param(RBF(0.7), id="rbf"), pytest.param(RBF(20.0), id="rbf-narrow"), pytest.param(Linear())]


def two_sets(seed, n, d):
    """Positive rows, so that a fractional degree is defined too."""
    rng = np.random.default_rng(seed)
    return np.abs(rng.standard_normal((n, d))) + 0.1, np.abs(rng.standard_normal((n, d))) + 0.1


@pytest.mark.parametrize(("kernel", "name", "params"), KERNELS)
@given(seed=seeds, n=sizes, d=sizes, mu=mus)
def test_value_and_residuals_against_the_slow_implementation(kernel, name, params, seed, n, d, mu):
    A, X = two_sets(seed, n, d)
    model = KernelError(kernel, X, mu)
    value, gradient = model.evaluate(A)
    assert value == pytest.approx(reference.error_value(name, params, A, X, mu), rel=1e-10)
    assert gradient.shape == A.shape
    h = reference.feature_distances(name, params, A, X)
    np.testing.assert_allclose(model.residuals(A), np.sqrt(np.maximum(h, 0.0)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("kernel", "name", "params"), KERNELS)
@given(seed=seeds, n=sizes, d=sizes, mu=st.floats(0.05, 1.0))
def test_gradient_is_that_of_the_value(kernel, name, params, seed, n, d, mu):
    A, X = two_sets(seed, n, d)
    found = KernelError(kernel, X, mu).evaluate(A)[1]
    expected = reference.numerical_gradient(lambda Z: reference.error_value(name, params, Z, X, mu), A, step=2e-4)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("kernel", [RBF(0.7), Polynomial(2, 1.0), Linear()], ids=repr)
@given(seed=seeds, n=sizes, d=sizes, mu=mus)
def test_at_the_data_itself_the_error_is_mu_a_row_and_flat(kernel, seed, n, d, mu):
    X = np.random.default_rng(seed).standard_normal((n, d))
    model = KernelError(kernel, X, mu)
    value, gradient = model.evaluate(X.copy())
    assert value == pytest.approx(n * mu, rel=1e-12)
    np.testing.assert_array_equal(gradient, np.zeros((n, d)))
    np.testing.assert_array_equal(model.residuals(X.copy()), np.zeros(n))


@given(seed=seeds, d=sizes, exponent=st.floats(-10.0, -4.0))
def test_rbf_residuals_of_samples_that_hardly_moved(seed, d, exponent):
    """sqrt(2 gamma) |a - x|, with all its digits."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5, d))
    A = X + 10.0**exponent * rng.standard_normal((5, d))
    expected = math.sqrt(2.0 * 0.7) * np.linalg.norm(A - X, axis=1)
    np.testing.assert_allclose(KernelError(RBF(0.7), X, 1e-3).residuals(A), expected, rtol=1e-7)


@pytest.mark.parametrize("kernel", WITH_MAJORISER)
@given(seed=seeds, d=sizes, mu=mus, spread=st.floats(-4.0, 1.0), size=st.floats(-4.0, 2.0))
def test_majoriser_lies_above_the_error_and_touches_it(kernel, seed, d, mu, spread, size):
    """The step of the paper, with the weights that make it monotone: row by row, and so in the sum."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, d))
    A, B = X + 10.0**spread * rng.standard_normal((6, d)), X + 10.0**size * rng.standard_normal((6, d))
    model = KernelError(kernel, X, mu)
    w = model.majoriser(A)
    value, gradient = model.evaluate(A)
    bound = value + float(np.sum(w * (np.sum((B - X) ** 2, axis=1) - np.sum((A - X) ** 2, axis=1))))
    assert model.evaluate(B)[0] <= bound + 1e-12 * (abs(bound) + value)
    np.testing.assert_allclose(2.0 * w[:, np.newaxis] * (A - X), gradient, rtol=1e-9, atol=1e-300)  # it touches
    for i in range(6):
        one = KernelError(kernel, X[[i]], mu)
        row_bound = one.evaluate(A[[i]])[0] + w[i] * (np.sum((B[i] - X[i]) ** 2) - np.sum((A[i] - X[i]) ** 2))
        assert one.evaluate(B[[i]])[0] <= row_bound + 1e-12 * (abs(row_bound) + value)


def test_gaussian_majoriser_has_half_the_weight_that_the_paper_prints():
    """It is beta_i p_i gamma with beta_i = 1 / sqrt(h_i + mu^2), p_i = exp(-gamma |a_i - x_i|^2)."""
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    p = np.exp(-0.7 * np.sum((A - X) ** 2, axis=1))
    beta = 1.0 / np.sqrt(2.0 - 2.0 * p + 0.01**2)
    np.testing.assert_allclose(KernelError(RBF(0.7), X, 0.01).majoriser(A), 0.7 * beta * p, rtol=1e-10)


def test_no_majoriser_where_the_kernel_has_none():
    X = np.ones((3, 2))
    assert KernelError(Polynomial(2, 1.0), X, 0.1).majoriser(X) is None


@pytest.mark.parametrize("mu", [0.0, -1e-3, math.nan, math.inf])
def test_mu_must_be_positive(mu):
    for model in (lambda X, mu: KernelError(Linear(), X, mu), RowError, EntryError):
        with pytest.raises(ValueError, match="mu must be a positive number"):
            model(np.ones((2, 2)), mu)


@given(seed=seeds, start=st.integers(0, 5), length=st.integers(0, 6))
def test_some_of_the_rows_are_the_same_model(seed, start, length):
    A, X = two_sets(seed, 6, 3)
    model, rows = KernelError(RBF(0.7), X, 0.1), slice(start, start + length)
    part = model.rows(rows)
    value, gradient = part.evaluate(A[rows])
    np.testing.assert_allclose(gradient, model.evaluate(A)[1][rows], rtol=1e-14)
    np.testing.assert_allclose(part.residuals(A[rows]), model.residuals(A)[rows], rtol=1e-14)
    np.testing.assert_array_equal(part.X, X[rows])
    rest = model.rows(slice(0, start)).evaluate(A[:start])[0]
    rest += model.rows(slice(start + length, None)).evaluate(A[start + length :])[0]
    assert value + rest == pytest.approx(model.evaluate(A)[0], rel=1e-12)


def test_arguments_are_left_alone():
    A, X = two_sets(0, 4, 3)
    A0, X0 = A.copy(), X.copy()
    for kernel in (RBF(0.7), Polynomial(1.5, 0.1), Linear()):
        model = KernelError(kernel, X, 0.1)
        model.evaluate(A)
        model.residuals(A)
        model.majoriser(A)
        np.testing.assert_array_equal(A, A0)
        np.testing.assert_array_equal(X, X0)


# --- rows and entries, in the units of the data ---------------------------------------------------------------------


@given(seed=seeds, n=sizes, d=sizes, mu=mus)
def test_rows_and_entries_by_their_definitions(seed, n, d, mu):
    A, X = two_sets(seed, n, d)
    rows = sum(math.sqrt(sum((A[i, j] - X[i, j]) ** 2 for j in range(d)) + mu**2) for i in range(n))
    entries = sum(math.sqrt((A[i, j] - X[i, j]) ** 2 + mu**2) for i in range(n) for j in range(d))
    assert RowError(X, mu).evaluate(A)[0] == pytest.approx(rows, rel=1e-12)
    assert EntryError(X, mu).evaluate(A)[0] == pytest.approx(entries, rel=1e-12)
    np.testing.assert_allclose(RowError(X, mu).residuals(A), np.sqrt(np.sum((A - X) ** 2, axis=1)), rtol=1e-12)
    np.testing.assert_allclose(EntryError(X, mu).residuals(A), np.sum(np.abs(A - X), axis=1), rtol=1e-12)


@given(seed=seeds, d=sizes, mu=mus, spread=st.floats(-4.0, 1.0), size=st.floats(-4.0, 2.0))
def test_majoriser_of_rows_lies_above_and_touches(seed, d, mu, spread, size):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, d))
    A, B = X + 10.0**spread * rng.standard_normal((6, d)), X + 10.0**size * rng.standard_normal((6, d))
    model = RowError(X, mu)
    w = model.majoriser(A)
    value, gradient = model.evaluate_rows(A)
    bound = value + w * (np.sum((B - X) ** 2, axis=1) - np.sum((A - X) ** 2, axis=1))
    assert np.all(model.evaluate_rows(B)[0] <= bound + 1e-12 * (np.abs(bound) + value))
    np.testing.assert_allclose(2.0 * w[:, np.newaxis] * (A - X), gradient, rtol=1e-9, atol=1e-300)


def test_entries_have_no_majoriser_of_rows():
    assert EntryError(np.ones((3, 2)), 0.1).majoriser(np.zeros((3, 2))) is None


def test_one_wrong_entry_costs_the_same_whatever_its_row():
    """That is what sets entries apart from rows: two wrong entries cost 2, in one row as in two."""
    X = np.zeros((2, 2))
    one_row, two_rows = np.array([[1.0, 1.0], [0.0, 0.0]]), np.eye(2)
    assert EntryError(X, 1e-9).evaluate(one_row)[0] == pytest.approx(2.0)
    assert EntryError(X, 1e-9).evaluate(two_rows)[0] == pytest.approx(2.0)
    assert RowError(X, 1e-9).evaluate(one_row)[0] == pytest.approx(math.sqrt(2.0))
    assert RowError(X, 1e-9).evaluate(two_rows)[0] == pytest.approx(2.0)


# --- missing entries ------------------------------------------------------------------------------------------------

MODELS = [
    pytest.param(RowError, id="rows"),
    pytest.param(EntryError, id="entries"),
    pytest.param(lambda X, mu: KernelError(RBF(0.7), X, mu), id="rbf"),
    pytest.param(lambda X, mu: KernelError(Polynomial(2, 1.0), X, mu), id="poly2"),
    pytest.param(lambda X, mu: KernelError(Polynomial(1.5, 0.1), X, mu), id="poly1.5"),
    pytest.param(lambda X, mu: KernelError(Linear(), X, mu), id="linear"),
]
BLIND = MODELS[:3] + MODELS[5:]  # to what stands in A where X is missing; a polynomial's distance has mixed products


def with_holes(seed, n, d, share):
    A, X = two_sets(seed, n, d)
    X[np.random.default_rng(seed).random((n, d)) < share] = np.nan
    return A, X


@pytest.mark.parametrize("make", MODELS)
@given(seed=seeds, n=sizes, d=sizes, mu=st.floats(0.05, 1.0), share=st.sampled_from([0.0, 0.3, 0.7]))
def test_gradient_by_finite_differences_with_missing_entries(make, seed, n, d, mu, share):
    A, X = with_holes(seed, n, d, share)
    model = make(X, mu)
    value, gradient = model.evaluate(A)
    expected = reference.numerical_gradient(lambda Z: model.evaluate(Z)[0], A, step=2e-4)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7 * max(1.0, np.abs(expected).max()))
    assert np.isfinite(value)
    assert value == pytest.approx(model.evaluate_rows(A)[0].sum(), rel=1e-12)


@pytest.mark.parametrize("make", BLIND)
@given(seed=seeds, n=sizes, d=sizes, share=st.sampled_from([0.3, 0.7, 1.0]))
def test_a_missing_entry_carries_no_error_and_no_gradient(make, seed, n, d, share):
    A, X = with_holes(seed, n, d, share)
    missing = np.isnan(X)
    model = make(X, 0.1)
    moved = np.where(missing, A + 1.0, A)
    np.testing.assert_allclose(model.evaluate(moved)[0], model.evaluate(A)[0], rtol=1e-12)
    np.testing.assert_allclose(model.residuals(moved), model.residuals(A), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.evaluate(A)[1][missing], 0.0)


@pytest.mark.parametrize("make", MODELS)
@given(seed=seeds, n=sizes, d=sizes)
def test_at_the_data_missing_entries_change_nothing(make, seed, n, d):
    A, X = with_holes(seed, n, d, 0.4)
    model = make(X, 0.1)
    at_the_data = np.where(np.isnan(X), A, X)
    np.testing.assert_allclose(model.residuals(at_the_data), 0.0, atol=1e-6)
    np.testing.assert_allclose(model.evaluate(at_the_data)[1], 0.0, atol=1e-10)


def test_radial_distance_is_that_of_the_observed_entries():
    A, X = with_holes(3, 6, 4, 0.4)
    observed = ~np.isnan(X)
    expected = [
        KernelError(RBF(0.7), X[[i]][:, observed[i]], 0.1).evaluate(A[[i]][:, observed[i]])[0] for i in range(6)
    ]
    np.testing.assert_allclose(KernelError(RBF(0.7), X, 0.1).evaluate_rows(A)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("make", MODELS)
def test_majoriser_is_unknown_with_missing_entries_and_rows_can_be_taken(make):
    A, X = with_holes(3, 6, 4, 0.4)
    model = make(X, 0.1)
    assert model.majoriser(A) is None
    for index in (slice(1, 4), np.array([5, 0]), np.arange(6) > 3):
        part = model.rows(index)
        np.testing.assert_array_equal(part.X, X[index])
        np.testing.assert_allclose(part.evaluate_rows(A[index])[0], model.evaluate_rows(A)[0][index], rtol=1e-14)
        np.testing.assert_allclose(part.evaluate(A[index])[1], model.evaluate(A)[1][index], rtol=1e-13)


@pytest.mark.parametrize("make", MODELS)
def test_arguments_with_missing_entries_are_left_alone(make):
    A, X = with_holes(0, 4, 3, 0.4)
    A0, X0 = A.copy(), X.copy()
    model = make(X, 0.1)
    model.evaluate(A)
    model.residuals(A)
    model.majoriser(A)
    np.testing.assert_array_equal(A, A0)
    np.testing.assert_array_equal(X, X0)
