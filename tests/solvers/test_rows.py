"""Many small minimisations at once: known minima, rows that share nothing, held entries, boxes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from kernmend.solvers import rows as _rows

seeds = st.integers(0, 2**32 - 1)
TO_THE_END = {"tol": 1e-15, "max_iter": 2000}


def minimise_rows(function, start, **options):
    """Minimise a function that gives values and gradients at once."""

    def lazy(A, rows):
        value, gradient = function(A, rows)
        return value, lambda some: gradient[some]

    return _rows.minimise_rows(lazy, start, **options)


class Quadratics:
    """One convex quadratic 1/2 (a - c)'H(a - c) + 1 per row, each with its own H and c."""

    def __init__(self, seed, n, d, condition=30.0):
        rng = np.random.default_rng(seed)
        self.minima = rng.standard_normal((n, d))
        Q = np.linalg.qr(rng.standard_normal((n, d, d)))[0]
        self.H = (Q * np.geomspace(1.0, condition, d)) @ Q.transpose(0, 2, 1)
        self.start = 3.0 * rng.standard_normal((n, d))

    def __call__(self, A, rows):
        difference = A - self.minima[rows]
        gradient = np.einsum("ijk,ik->ij", self.H[rows], difference)
        return 1.0 + 0.5 * np.einsum("ij,ij->i", difference, gradient), gradient

    def of_row(self, i):
        """The same function of one row, for SciPy."""

        def function(a):
            value, gradient = self(a[np.newaxis], np.array([i]))
            return float(value[0]), gradient[0]

        return function


def rosenbrock(A, rows):
    x, y = A.T
    value = (1.0 - x) ** 2 + 100.0 * (y - x**2) ** 2
    gradient = np.column_stack([-2.0 * (1.0 - x) - 400.0 * x * (y - x**2), 200.0 * (y - x**2)])
    return value, gradient


# --- where it ends ----------------------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 8), d=st.integers(1, 7), tol=st.sampled_from([1e-2, 1e-4, 1e-6]))
def test_rows_end_within_the_tolerance_of_their_minima(seed, n, d, tol):
    """Also those that end without a short step, since the next one promises no fall: each minimum is 1."""
    problem = Quadratics(seed, n, d, condition=4.0)
    A, _, converged = minimise_rows(problem, problem.start, tol=tol, max_iter=2000)
    assert converged
    assert np.all(problem(A, np.arange(n))[0] <= 1.0 + tol)


def test_the_first_step_of_each_row_has_its_own_length():
    tried = []

    def slope(A, rows):
        tried.append(A.copy())
        return 10.0 + A[:, 0], np.tile([1.0, 0.0], (len(A), 1))

    minimise_rows(slope, np.zeros((3, 2)), scale=np.array([0.1, 1.0, 5.0]), max_iter=1)
    np.testing.assert_allclose(tried[1], [[-0.1, 0.0], [-1.0, 0.0], [-5.0, 0.0]])


@given(seed=seeds, n=st.integers(1, 8), d=st.integers(1, 7))
def test_convex_quadratics_reach_their_minima(seed, n, d):
    problem = Quadratics(seed, n, d)
    A, sums, converged = minimise_rows(problem, problem.start, **TO_THE_END)
    np.testing.assert_allclose(A, problem.minima, atol=1e-5)
    assert converged
    assert sums[-1] == pytest.approx(n)


def test_rosenbrock_from_many_starts():
    start = np.random.default_rng(0).uniform(-2.0, 2.0, (30, 2))
    A, sums, converged = minimise_rows(rosenbrock, start, scale=0.1, tol=1e-12, max_iter=500)
    np.testing.assert_allclose(A, 1.0, atol=1e-4)
    assert converged
    assert np.all(np.diff(sums) <= 0)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_first_step_may_be_far_too_long_or_short(scale):
    problem = Quadratics(1, 5, 4)
    A, _, converged = minimise_rows(problem, problem.start, scale=scale, **TO_THE_END)
    np.testing.assert_allclose(A, problem.minima, atol=1e-5)
    assert converged


@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_the_units_of_the_value_do_not_matter(factor):
    problem = Quadratics(2, 5, 4)

    def scaled(A, rows):
        value, gradient = problem(A, rows)
        return factor * value, factor * gradient

    A, _, _ = minimise_rows(scaled, problem.start, **TO_THE_END)
    np.testing.assert_allclose(A, problem.minima, atol=1e-5)


# --- on the way -------------------------------------------------------------------------------------------------------


@given(seed=seeds, max_iter=st.integers(1, 12))
def test_no_row_ever_rises(seed, max_iter):
    start = np.random.default_rng(seed).uniform(-2.0, 2.0, (6, 2))
    before = rosenbrock(start, None)[0]
    A, sums, _ = minimise_rows(rosenbrock, start, max_iter=max_iter)
    after = rosenbrock(A, None)[0]
    assert np.all(after <= before)
    assert np.all(np.diff(sums) <= 0)
    assert sums[0] == pytest.approx(before.sum())
    assert sums[-1] == pytest.approx(after.sum())


@settings(max_examples=10)
@given(seed=seeds)
def test_a_row_does_not_depend_on_the_others(seed):
    start = np.random.default_rng(seed).uniform(-1.5, 1.5, (7, 2))
    together = minimise_rows(rosenbrock, start, scale=0.1, max_iter=60)[0]
    alone = np.vstack([minimise_rows(rosenbrock, a[np.newaxis], scale=0.1, max_iter=60)[0] for a in start])
    np.testing.assert_allclose(together, alone, atol=1e-8)
    order = np.random.default_rng(seed).permutation(len(start))
    np.testing.assert_allclose(minimise_rows(rosenbrock, start[order], scale=0.1, max_iter=60)[0], together[order])


def test_rows_are_told_their_numbers():
    problem = Quadratics(3, 6, 3)
    problem.start[::2] = problem.minima[::2]  # these are done before they start
    A, _, _ = minimise_rows(problem, problem.start, **TO_THE_END)
    np.testing.assert_allclose(A, problem.minima, atol=1e-5)
    np.testing.assert_array_equal(A[::2], problem.minima[::2])


def test_the_start_is_not_overwritten():
    problem = Quadratics(4, 5, 3)
    start = problem.start.copy()
    minimise_rows(problem, problem.start)
    np.testing.assert_array_equal(problem.start, start)


def test_a_value_that_is_not_finite_is_stepped_back_from():
    def log_barrier(A, rows):  # minimum at 1, no value at a <= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(A > 0, A - np.log(A), np.nan)
            return value.sum(axis=1), 1.0 - 1.0 / A

    A, _, converged = minimise_rows(log_barrier, np.array([[5.0, 3.0], [0.1, 4.0]]), scale=50.0, **TO_THE_END)
    np.testing.assert_allclose(A, 1.0, atol=1e-5)
    assert converged


# --- held entries and boxes -------------------------------------------------------------------------------------------


@given(seed=seeds, bounded=st.booleans())
def test_only_free_entries_move(seed, bounded):
    problem = Quadratics(seed, 6, 5)
    free = np.random.default_rng(seed).random((6, 5)) < 0.5
    bounds = (np.full(5, -50.0), np.full(5, 50.0)) if bounded else None
    A, _, converged = minimise_rows(problem, problem.start, free=free, bounds=bounds, **TO_THE_END)
    np.testing.assert_array_equal(A[~free], problem.start[~free])
    assert converged
    for i in range(6):  # the minimum over the free entries, the others given
        f, H = free[i], problem.H[i]
        held = problem.start[i, ~f] - problem.minima[i, ~f]
        if f.any():
            best = problem.minima[i, f] - np.linalg.solve(H[np.ix_(f, f)], H[np.ix_(f, ~f)] @ held)
            np.testing.assert_allclose(A[i, f], best, atol=1e-5)


def test_held_entries_stay_even_outside_the_bounds():
    problem = Quadratics(5, 6, 4)
    free = np.random.default_rng(5).random((6, 4)) < 0.5
    low, high = np.full(4, -0.5), np.full(4, 0.5)
    A, _, _ = minimise_rows(problem, problem.start, free=free, bounds=(low, high), **TO_THE_END)
    np.testing.assert_array_equal(A[~free], problem.start[~free])
    assert np.all((low <= A) & (high >= A) | ~free)


@given(seed=seeds, d=st.integers(1, 6), width=st.floats(0.05, 2.0))
def test_the_minimum_in_a_box(seed, d, width):
    problem = Quadratics(seed, 5, d)
    rng = np.random.default_rng(seed)
    low = rng.standard_normal(d) - width
    high = low + 2.0 * width
    A, sums, _ = minimise_rows(problem, problem.start, bounds=(low, high), **TO_THE_END)
    assert np.all((low <= A) & (high >= A))
    assert np.all(np.diff(sums) <= 0)
    for i in range(5):
        best = minimize(
            problem.of_row(i),
            np.clip(problem.start[i], low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"ftol": 1e-14, "gtol": 1e-10, "maxiter": 2000},
        )
        assert problem.of_row(i)(A[i])[0] <= best.fun + 1e-5 * abs(best.fun)


def test_a_box_of_no_width():
    problem = Quadratics(6, 4, 3)
    bound = np.array([0.1, -0.2, 0.3])
    A, _, converged = minimise_rows(problem, problem.start, bounds=(bound, bound))
    np.testing.assert_array_equal(A, np.tile(bound, (4, 1)))
    assert converged


def test_the_box_holds_and_nothing_rises():
    problem = Quadratics(8, 30, 5)
    low, high = np.full(5, -0.3), np.full(5, 0.4)
    A, sums, _ = minimise_rows(problem, problem.start, bounds=(low, high), **TO_THE_END)
    assert np.all((low <= A) & (high >= A))
    assert np.all(np.diff(sums) <= 0)


# --- odd cases --------------------------------------------------------------------------------------------------------


def test_a_zero_gradient_returns_the_start():
    start = np.random.default_rng(0).standard_normal((4, 3))
    A, sums, converged = minimise_rows(lambda a, rows: (np.full(len(a), 2.0), np.zeros_like(a)), start)
    np.testing.assert_array_equal(A, start)
    assert sums == [8.0]
    assert converged


def test_an_empty_batch():
    A, sums, converged = minimise_rows(rosenbrock, np.empty((0, 2)))
    assert A.shape == (0, 2)
    assert sums == [0.0]
    assert converged


def test_nothing_free():
    problem = Quadratics(7, 3, 2)
    A, sums, converged = minimise_rows(problem, problem.start, free=np.zeros((3, 2), dtype=bool))
    np.testing.assert_array_equal(A, problem.start)
    assert len(sums) == 1
    assert converged


@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_max_iter(max_iter):
    start = np.array([[-1.2, 1.0], [0.0, 2.0]])
    _, sums, converged = minimise_rows(rosenbrock, start, max_iter=max_iter)
    assert len(sums) == max_iter + 1
    assert not converged


def test_integers_become_floats():
    A, _, _ = minimise_rows(rosenbrock, np.array([[0, 0], [2, 2]]), max_iter=2)
    assert A.dtype == np.float64


def test_gradients_are_asked_for_only_where_a_step_is_taken():
    asked, tried = [], []

    def function(A, rows):
        value, gradient = rosenbrock(A, rows)
        tried.append(len(A))
        return value, lambda some: (asked.append(len(gradient[some])), gradient[some])[1]

    start = np.random.default_rng(0).uniform(-2.0, 2.0, (20, 2))
    _rows.minimise_rows(function, start, scale=10.0, max_iter=20)
    assert len(asked) <= len(tried)
    assert sum(asked) <= 20 * 21  # the start, and one for each iteration
    assert sum(asked) < sum(tried)


def test_a_row_at_the_bottom_does_not_halve_its_step_to_the_last_digit():
    """Where no step falls, halving ends as soon as what the step promises is less than the tolerance."""
    tried = []

    def bottom(A, rows):  # values do not fall any more, though the gradient says so: rounding does that
        tried.append(len(A))
        return np.ones(len(A)), np.full(A.shape, 1e-3)

    A, totals, converged = minimise_rows(bottom, np.zeros((3, 2)), tol=1e-5)
    np.testing.assert_array_equal(A, 0.0)
    assert totals == [3.0, 3.0]
    assert converged
    # The first step promises 1.4e-3, that straight down the same: after eight halvings each it is below 1e-5.
    assert len(tried) <= 1 + 2 * 9
