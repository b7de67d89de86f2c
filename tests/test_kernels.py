import itertools
import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from kernel_contract import check_kernel_contract

from kernmend.linalg.distances import capped_squared_distances, median_squared_distance, row_blocks, squared_distances
from kernmend.model.kernels import RBF, Kernel, Linear, Polynomial, RadialKernel

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)

# Each kernel of the library beside its name and parameters in the slow implementation.
BUILT_IN = [
    pytest.param(RBF(0.7), "rbf", {"gamma": 0.7}, id="rbf"),
    pytest.param(RBF(12.0), "rbf", {"gamma": 12.0}, id="rbf-narrow"),
    pytest.param(Polynomial(1, 0.5), "poly", {"degree": 1, "coef0": 0.5}, id="poly1"),
    pytest.param(Polynomial(2, 1.0), "poly", {"degree": 2, "coef0": 1.0}, id="poly2"),
    pytest.param(Polynomial(3, 0.0), "poly", {"degree": 3, "coef0": 0.0}, id="poly3"),
    pytest.param(Polynomial(1.5, 0.2), "poly", {"degree": 1.5, "coef0": 0.2}, id="poly1.5"),
    pytest.param(Linear(), "linear", {}, id="linear"),
]


def rows(seed, n, d, *, positive=False):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return np.abs(X) + 0.05 if positive else X


# --- kernels that are not built in: what a user writes --------------------------------------------------------------


@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """k = (1 + t / (2 alpha width^2))^-alpha: the two methods that `RadialKernel` asks for."""

    alpha: float = 1.5
    width: float = 0.8

    def profile(self, t):
        return (1.0 + t / (2.0 * self.alpha * self.width**2)) ** -self.alpha

    def slope(self, k):
        return -(k ** (1.0 + 1.0 / self.alpha)) / (2.0 * self.width**2)


@dataclass(frozen=True)
class SmoothLaplacian(Kernel):
    """k = prod_j exp(-rate (sqrt((a_j - b_j)^2 + r^2) - r)): neither radial nor a function of the inner product."""

    rate: float = 0.9
    r: float = 0.3

    def gram(self, X, Y=None):
        difference = X[:, np.newaxis, :] - (X if Y is None else Y)[np.newaxis]
        return np.exp(-self.rate * (np.sqrt(difference**2 + self.r**2) - self.r).sum(axis=2))

    def diag(self, X):
        return np.ones(X.shape[0])

    def pullback(self, A, B, K, G):
        difference = A[:, np.newaxis, :] - B[np.newaxis]
        return -self.rate * np.einsum("ij,ijk->ik", G * K, difference / np.sqrt(difference**2 + self.r**2))

    def distances(self, A, X):
        difference = A - X
        root = np.sqrt(difference**2 + self.r**2)
        k = np.exp(-self.rate * (root - self.r).sum(axis=1))
        return 2.0 - 2.0 * k, 2.0 * self.rate * k[:, np.newaxis] * difference / root


@dataclass(frozen=True)
class Sum(Kernel):
    """k = k_1 + k_2."""

    first: Kernel
    second: Kernel

    def gram(self, X, Y=None):
        return self.first.gram(X, Y) + self.second.gram(X, Y)

    def diag(self, X):
        return self.first.diag(X) + self.second.diag(X)

    def pullback(self, A, B, K, G):
        first = self.first.pullback(A, B, self.first.gram(A, B), G.copy())  # G may be overwritten, and is needed again
        return first + self.second.pullback(A, B, self.second.gram(A, B), G)

    def distances(self, A, X):
        (h, gradient), (more, more_gradient) = self.first.distances(A, X), self.second.distances(A, X)
        return h + more, gradient + more_gradient


NEW_KERNELS = [
    pytest.param(RationalQuadratic(), id="rational-quadratic"),
    pytest.param(SmoothLaplacian(), id="smooth-laplacian"),
    pytest.param(Sum(RBF(0.5), Polynomial(2, 1.0)), id="sum"),
]


@pytest.mark.parametrize(("kernel", "name", "params"), BUILT_IN)
@pytest.mark.parametrize(("n", "m", "d"), [(5, 4, 3), (4, 7, 1), (1, 2, 4)])
def test_built_in_kernels_keep_the_contract(kernel, name, params, n, m, d):
    fractional = name == "poly" and params["degree"] == 1.5
    A, B = rows(1, n, d, positive=fractional), rows(2, m, d, positive=fractional)
    check_kernel_contract(kernel, A, B, psd=not fractional)


@pytest.mark.parametrize("kernel", NEW_KERNELS)
@pytest.mark.parametrize(("n", "m", "d"), [(5, 4, 3), (4, 7, 1)])
def test_new_kernels_keep_the_contract(kernel, n, m, d):
    check_kernel_contract(kernel, rows(1, n, d), rows(2, m, d))


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        ("pullback", lambda self, A, B, K, G: 0.5 * RBF.pullback(self, A, B, K, G)),
        ("distances", lambda self, A, X: (RBF.distances(self, A, X)[0], 0.5 * RBF.distances(self, A, X)[1])),
        ("majoriser", lambda self, A, X: 0.5 * RBF.majoriser(self, A, X)),
        ("diag", lambda self, X: 0.5 * RBF.diag(self, X)),
        ("diag_gradient", lambda self, A: np.ones_like(A)),
        ("against", lambda self, L: RBF(0.6).against(L)),
    ],
)
def test_contract_notices_a_wrong_kernel(method, wrong):
    broken = type("Broken", (RBF,), {method: wrong})(0.7)
    with pytest.raises(AssertionError):
        check_kernel_contract(broken, rows(1, 5, 3), rows(2, 4, 3))


# --- against the slow implementation --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "name", "params"), BUILT_IN)
@given(seed=seeds, n=sizes, m=sizes, d=sizes)
def test_gram_is_the_kernel_of_each_pair(kernel, name, params, seed, n, m, d):
    positive = params.get("degree") == 1.5
    X, Y = rows(seed, n, d, positive=positive), rows(seed + 1, m, d, positive=positive)
    expected = reference.gram(name, params, X)
    tolerance = {"rtol": 1e-11, "atol": 1e-13 * np.abs(expected).max()}
    np.testing.assert_allclose(kernel.gram(X), expected, **tolerance)
    np.testing.assert_allclose(kernel.gram(X, Y), reference.gram(name, params, X, Y), **tolerance)
    np.testing.assert_allclose(kernel.diag(X), np.diag(expected), **tolerance)


@pytest.mark.parametrize(("kernel", "name", "params"), BUILT_IN)
@given(seed=seeds, n=sizes, d=sizes)
def test_distances_are_those_of_the_feature_vectors(kernel, name, params, seed, n, d):
    positive = params.get("degree") == 1.5
    A, X = rows(seed, n, d, positive=positive), rows(seed + 1, n, d, positive=positive)
    expected = reference.feature_distances(name, params, A, X)
    np.testing.assert_allclose(kernel.distances(A, X)[0], expected, rtol=1e-11, atol=1e-13 * kernel.diag(A).max())


def test_a_gram_matrix_larger_than_one_block_is_pulled_back_whole():
    """More than a million pairs, so that `pullback` works in several blocks of rows."""
    A, B = rows(0, 1100, 2), rows(1, 1000, 2)
    G = np.random.default_rng(2).standard_normal((1100, 1000))
    for kernel in (RBF(0.5), Polynomial(2, 1.0)):
        whole = kernel.pullback(A, B, kernel.gram(A, B), G.copy())
        for i in (0, 17, 1047, 1048, 1049, 1099):
            one = kernel.pullback(A[[i]], B, kernel.gram(A[[i]], B), G[[i]].copy())
            np.testing.assert_allclose(whole[[i]], one, rtol=1e-9, atol=1e-9)


@given(n=st.integers(0, 10**7), m=st.integers(1, 10**7))
def test_row_blocks_cover_every_row_once(n, m):
    blocks = []
    for block in row_blocks(n, m):
        blocks.append(block)
        if len(blocks) == 50:
            break
    assert sum(b.stop - b.start for b in blocks) == (n if len(blocks) < 50 else blocks[-1].stop)
    assert all(b.stop > b.start for b in blocks)
    assert all(left.stop == right.start for left, right in itertools.pairwise(blocks))
    assert all((b.stop - b.start) * m <= max(m, 2**20) for b in blocks)


# --- invariances ----------------------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(2, 6), d=sizes)
def test_rbf_does_not_see_an_offset_of_a_million(seed, n, d):
    """X lies on a grid of 2^-12, so that X + 1e6 is exact: what differs is the kernel's own rounding."""
    X = np.round(rows(seed, n, d) * 2**12) / 2**12
    kernel, far = RBF(0.7), X + 1e6
    np.testing.assert_allclose(kernel.gram(far), kernel.gram(X), rtol=1e-13)
    np.testing.assert_allclose(kernel.gram(far, far), kernel.gram(X), rtol=1e-13)
    G = np.random.default_rng(seed).standard_normal((n, n))
    near_gradient = kernel.pullback(X, X, kernel.gram(X), G.copy())
    far_gradient = kernel.pullback(far, far, kernel.gram(far), G.copy())
    np.testing.assert_allclose(far_gradient, near_gradient, rtol=0, atol=1e-13 * max(1.0, np.abs(G).max()))
    Y = np.round(rows(seed + 1, n, d) * 2**12) / 2**12
    for near, away in zip(kernel.distances(X, Y), kernel.distances(far, Y + 1e6), strict=True):
        np.testing.assert_array_equal(away, near)


@pytest.mark.parametrize("kernel", [RBF(0.7), Polynomial(2, 1.0), Polynomial(3, 0.5), Linear()], ids=repr)
@given(seed=seeds, n=sizes, d=sizes)
def test_rotated_data_has_the_same_gram_and_a_rotated_gradient(kernel, seed, n, d):
    X, R = rows(seed, n, d), reference.random_rotation(seed, d)
    K = kernel.gram(X)
    np.testing.assert_allclose(kernel.gram(X @ R), K, rtol=0, atol=1e-12 * np.abs(K).max())
    G = np.random.default_rng(seed).standard_normal((n, n))
    G = G + G.T
    expected = kernel.gradient(X, K, G.copy()) @ R
    found = kernel.gradient(X @ R, kernel.gram(X @ R), G.copy())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * (1.0 + np.abs(K).max()) * np.abs(G).max())


# --- numerical care -------------------------------------------------------------------------------------------------


@given(seed=seeds, n=sizes, d=sizes, offset=st.sampled_from([0.0, 1e3, 1e6]))
def test_squared_distances_against_loops_with_an_exact_zero_diagonal(seed, n, d, offset):
    X, Y = rows(seed, n, d) + offset, rows(seed + 1, n + 1, d) + offset
    t = squared_distances(X)
    assert np.all(np.diag(t) == 0.0)
    assert np.all(t >= 0.0)
    expected = np.array(
        [[math.fsum((float(p) - float(q)) ** 2 for p, q in zip(x, z, strict=True)) for z in X] for x in X]
    )
    np.testing.assert_allclose(t, expected, rtol=1e-8, atol=1e-9)
    expected = np.array(
        [[math.fsum((float(p) - float(q)) ** 2 for p, q in zip(x, y, strict=True)) for y in Y] for x in X]
    )
    np.testing.assert_allclose(squared_distances(X, Y), expected, rtol=1e-8, atol=1e-9)


@given(seed=seeds, d=sizes)
def test_equal_rows_are_at_no_negative_distance(seed, d):
    """Rounding alone would leave half of them a little below zero, and k above 1."""
    X = np.repeat(rows(seed, 5, d), 3, axis=0)
    assert squared_distances(X).min() == 0.0
    assert squared_distances(X, X.copy()).min() >= 0.0
    assert RBF(1e3).gram(X).max() == 1.0


@given(exponent=st.floats(-9.0, -3.0), gamma=st.floats(1e-3, 1e3), seed=seeds, offset=st.sampled_from([0.0, 1.0, 1e3]))
def test_rbf_distance_keeps_its_digits_where_a_is_close_to_x(exponent, gamma, seed, offset):
    """h = 2 (1 - exp(-gamma t)) = 2 gamma t - (gamma t)^2 + ..., though 1 - exp(-gamma t) itself has few digits."""
    X = rows(seed, 4, 3) + offset
    A = X + 10.0**exponent * rows(seed + 1, 4, 3)
    step = A - X
    u = gamma * np.sum(step**2, axis=1)
    h, gradient = RBF(gamma).distances(A, X)
    series = 2.0 * u - u**2 + u**3 / 3.0 - u**4 / 12.0
    small = u < 1e-2
    np.testing.assert_allclose(h[small], series[small], rtol=1e-9)
    np.testing.assert_allclose(gradient, 4.0 * gamma * np.exp(-u)[:, np.newaxis] * step, rtol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.7), Polynomial(2, 1.0), Polynomial(1.5, 20.0), Linear()], ids=repr)
def test_float32_stays_float32(kernel):
    A, B = rows(1, 6, 3).astype(np.float32), rows(2, 5, 3).astype(np.float32)
    K, C = kernel.gram(A), kernel.gram(A, B)
    G = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
    S = np.eye(6, dtype=np.float32)
    found = [K, C, kernel.diag(A), kernel.pullback(A, B, C, G.copy()), kernel.gradient(A, K, S.copy())]
    assert [array.dtype for array in found] == [np.float32] * len(found)
    A, B, G, S = (array.astype(np.float64) for array in (A, B, G, S))
    K, C = kernel.gram(A), kernel.gram(A, B)
    expected = [K, C, kernel.diag(A), kernel.pullback(A, B, C, G.copy()), kernel.gradient(A, K, S.copy())]
    for single, double in zip(found, expected, strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-5 * np.abs(double).max())


@pytest.mark.parametrize("kernel", [RBF(0.7), Polynomial(2, 1.0), Linear()], ids=repr)
def test_distances_of_float32_are_computed_in_float64(kernel):
    """What is small beside k(a, a) would be lost in float32."""
    X = rows(1, 6, 3).astype(np.float32)
    A = X + np.float32(1e-3)
    h, gradient = kernel.distances(A, X)
    expected, expected_gradient = kernel.distances(A.astype(np.float64), X.astype(np.float64))
    assert h.dtype == np.float64
    np.testing.assert_allclose(h, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12)


# --- the majoriser --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [RBF(0.7), RBF(30.0), Linear(), RationalQuadratic()], ids=repr)
@given(seed=seeds, d=sizes, size=st.floats(-4.0, 3.0), spread=st.floats(-4.0, 1.0))
def test_majoriser_lies_above_the_distance_and_touches_it(kernel, seed, d, size, spread):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((8, d))
    A = X + 10.0**spread * rng.standard_normal((8, d))
    b = X + 10.0**size * rng.standard_normal((8, d))
    w, h = kernel.majoriser(A, X), kernel.distances(A, X)[0]

    def bound(Z):
        return h + w * (np.sum((Z - X) ** 2, axis=1) - np.sum((A - X) ** 2, axis=1))

    assert np.all(kernel.distances(b, X)[0] <= bound(b) + 1e-12 * (1.0 + np.abs(bound(b))))
    np.testing.assert_allclose(bound(A), h, rtol=1e-13)


def test_no_majoriser_is_claimed_where_none_is_known():
    assert Polynomial(2, 1.0).majoriser(rows(0, 3, 2), rows(1, 3, 2)) is None
    assert SmoothLaplacian().majoriser(rows(0, 3, 2), rows(1, 3, 2)) is None


def test_the_papers_polynomial_step_is_no_majoriser():
    """Their g(a) = (tau_a a - tau_x x)'(a - x) has another gradient than the error term; ours is the true one."""
    kernel, A, X = Polynomial(2, 1.0), rows(0, 4, 3), rows(1, 4, 3)
    _, gradient = kernel.distances(A, X)
    tau_a = 2.0 * (np.sum(A * A, axis=1, keepdims=True) + 1.0)
    tau_x = 2.0 * (np.sum(A * X, axis=1, keepdims=True) + 1.0)
    np.testing.assert_allclose(gradient, 2.0 * (tau_a * A - tau_x * X), rtol=1e-12)
    assert np.all(np.linalg.norm(gradient - (2.0 * tau_a * A - (tau_a + tau_x) * X), axis=1) > 1e-2)


# --- fractional degree: defined only where a'b + coef0 is not negative ----------------------------------------------


def fractional_data():
    """Rows 1 and 3 point against each other: a'b = -1.5."""
    return np.array([[1.0, 0.1], [1.0, 0.5], [0.2, 0.2], [-1.3, -0.4]])


def test_fractional_degree_names_the_rows_and_the_coef0_that_helps():
    X = fractional_data()
    with pytest.raises(ValueError, match=r"rows (1 and 3|3 and 1) give -1\.4.*coef0 to at least 1\.5.*integer degree"):
        Polynomial(1.5, 0.1).check(X)
    Polynomial(1.5, 1.5).check(X)
    Polynomial(2, 0.0).check(X)
    Polynomial(3.0, 0.0).check(X)


@given(seed=seeds, n=st.integers(2, 6), d=sizes)
def test_the_coef0_that_the_message_asks_for_is_enough(seed, n, d):
    X = rows(seed, n, d)
    X[1] = -X[0] + 0.1 * X[1]
    with pytest.raises(ValueError, match="coef0 to at least") as caught:
        Polynomial(1.5, 0.0).check(X)
    enough = float(re.search(r"coef0 to at least ([-+.e0-9]+)", str(caught.value))[1].rstrip("."))
    Polynomial(1.5, enough).check(X)


@pytest.mark.parametrize("degree", [1.5, 2.5])
def test_a_negative_base_of_a_fractional_degree_counts_as_zero(degree):
    """Nothing is NaN where an iterate leaves the region in which the kernel is defined, and k stays continuous."""
    X, kernel = fractional_data(), Polynomial(degree, 0.1)
    K = kernel.gram(X)
    base = X @ X.T + 0.1
    assert np.any(base < 0)
    np.testing.assert_allclose(K, np.where(base > 0, np.abs(base), 0.0) ** degree, rtol=1e-12)
    G = np.random.default_rng(0).standard_normal(K.shape)
    G = G + G.T
    expected = reference.numerical_gradient(lambda Z: float(np.sum(G * kernel.gram(Z))), X, step=1e-4)
    np.testing.assert_allclose(kernel.gradient(X, K, G.copy()), expected, rtol=1e-6, atol=1e-6)
    h, gradient = kernel.distances(X, X[::-1])
    assert np.all(np.isfinite(h))
    assert np.all(np.isfinite(gradient))
    at_the_edge = np.array([[1.0], [-0.1]])  # a'b + coef0 = 0 exactly, where a power below 1 has an infinite slope
    assert np.all(np.isfinite(kernel.gradient(at_the_edge, kernel.gram(at_the_edge), np.ones((2, 2)))))


# --- parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_gamma_must_be_positive(gamma):
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        RBF(gamma)


@pytest.mark.parametrize("degree", [0.0, 0.99, -2.0, math.nan, math.inf])
def test_degree_must_be_at_least_one(degree):
    with pytest.raises(ValueError, match="degree must be a number >= 1"):
        Polynomial(degree, 1.0)


@pytest.mark.parametrize("coef0", [-1e-9, -1.0, math.nan, math.inf])
def test_coef0_must_not_be_negative(coef0):
    with pytest.raises(ValueError, match="coef0 must be a number >= 0"):
        Polynomial(2, coef0)


# --- the bandwidth rule ---------------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(2, 30), d=sizes)
def test_median_is_that_of_the_pairs(seed, n, d):
    X = rows(seed, n, d)
    pairs = [float(np.sum((X[i] - X[j]) ** 2)) for i in range(n) for j in range(i)]
    assert median_squared_distance(X) == pytest.approx(np.median(pairs), rel=1e-10)


@given(seed=seeds, n=st.integers(2, 12), offset=st.sampled_from([0.0, 1e3]), copies=st.booleans())
def test_median_of_wide_rows_is_that_of_the_pairs(seed, n, offset, copies):
    """Rows with many columns take another way, unless most pairs are nearly equal."""
    X = rows(seed, n, 80) + offset
    X = np.vstack([X, np.tile(X[:1], (3 * n, 1))]) if copies else X
    pairs = np.array([float(np.sum((a - b) ** 2)) for i, a in enumerate(X) for b in X[:i]])
    expected = np.median(pairs) if np.median(pairs) > 0 else pairs[pairs > 0].mean()
    assert median_squared_distance(X) == pytest.approx(expected, rel=1e-9)


@given(seed=seeds, exponent=st.floats(-100, 100), offset=st.sampled_from([0.0, 100.0]))
def test_median_grows_with_the_square_of_the_scale(seed, exponent, offset):
    X, factor = rows(seed, 20, 3) + offset, 10.0**exponent
    assert median_squared_distance(factor * X) == pytest.approx(factor**2 * median_squared_distance(X), rel=1e-9)


@given(seed=seeds, n=st.integers(1, 40), d=st.integers(1, 40), exponent=st.floats(-8.0, 8.0))
def test_median_of_equal_rows_is_zero(seed, n, d, exponent):
    assert median_squared_distance(np.tile(10.0**exponent * rows(seed, 1, d), (n, 1))) == 0.0


def test_median_by_hand_where_most_pairs_coincide():
    """Rows with mean 0, so that nothing is rounded: 45 of the 78 pairs are equal, 33 of them are not."""
    X = np.array([0.0] * 10 + [-1.0, -2.0, 3.0])[:, np.newaxis]
    assert median_squared_distance(X) == (10 * (1 + 4 + 9) + 1 + 16 + 25) / 33


@given(seed=seeds, d=st.integers(1, 40), offset=st.sampled_from([0.0, 1.0, 100.0]))
def test_median_where_most_pairs_coincide_is_the_mean_of_the_others(seed, d, offset):
    """30 copies of one row and 10 others; the copies differ by rounding at most, which must not count as apart."""
    others = rows(seed, 10, d) + offset
    X = np.vstack([np.tile(rows(seed + 1, 1, d) + offset, (30, 1)), others])
    X = X[np.random.default_rng(seed).permutation(40)]
    pairs = np.array([float(np.sum((X[i] - X[j]) ** 2)) for i in range(40) for j in range(i)])
    assert np.count_nonzero(pairs == 0.0) == 30 * 29 // 2
    assert median_squared_distance(X) == pytest.approx(pairs[pairs > 0].mean(), rel=1e-8)


def test_median_on_a_sample_of_the_rows_is_seeded_and_close():
    X = rows(0, 3000, 4)
    sampled = median_squared_distance(X, max_rows=500, seed=1)
    assert sampled == median_squared_distance(X, max_rows=500, seed=1)
    assert sampled != median_squared_distance(X, max_rows=500, seed=2)
    assert sampled == pytest.approx(median_squared_distance(X, max_rows=3000), rel=0.05)


def test_median_on_a_sample_takes_no_row_twice():
    X = rows(0, 12, 3)
    found = median_squared_distance(X, max_rows=11)
    assert any(found == pytest.approx(median_squared_distance(np.delete(X, i, axis=0)), rel=1e-12) for i in range(12))


@given(seed=seeds, cap=st.floats(0.1, 3.0))
def test_capped_distances(seed, cap):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((4, 7)) + 1e3, rng.standard_normal((5, 7)) + 1e3
    X[0, 0] = 1e12
    expected = [[np.sum(np.minimum(np.abs(x - y) / cap, 1.0) ** 2) for y in Y] for x in X]
    np.testing.assert_allclose(capped_squared_distances(X, Y, cap), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1e-40, 1e30])
def test_capped_distances_have_no_size(size):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((4, 7)), rng.standard_normal((5, 7))
    expected = capped_squared_distances(X, Y, 0.5)
    np.testing.assert_allclose(capped_squared_distances(size * X, size * Y, 0.5 * size), expected, rtol=1e-5)
