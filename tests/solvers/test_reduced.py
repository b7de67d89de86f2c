"""The reduced solver: stationary points, known answers, and how well it mends a circle."""

from dataclasses import replace

import numpy as np
import pytest
from problems import PROBLEMS, ROUNDING, Problem, circle, off_circle, slow_gradient, start
from scipy.optimize import brentq
from threadpoolctl import threadpool_info, threadpool_limits

from kernmend.model.errors import EntryError, KernelError, RowError
from kernmend.model.kernels import RBF, Linear, Polynomial
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty, SchattenPenalty, SpectralTerm
from kernmend.solvers import solve_alternating, solve_parallel, solve_reduced
from kernmend.solvers.reduced import Stage

TO_THE_END = {"tol": 1e-12, "max_iter": 3000}


def circle_problem(n, seed, rho=1e4, lam=0.3):
    X, _, outliers = circle(n, seed)
    return replace(PROBLEMS["rbf"], X=X, rho=rho, lam=lam), outliers


# --- where it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [100.0, 1e4])
@pytest.mark.parametrize("n", [40, 60])
def test_end_is_stationary(n, rho):
    problem, _ = circle_problem(n, seed=1, rho=rho)
    result = solve_reduced(problem.objective(), problem.X, **TO_THE_END)
    assert result.stop_reason == "converged"
    before, after = (np.linalg.norm(problem.objective().evaluate(A)[1]) for A in (problem.X, result.A))
    assert after < 1e-4 * before


@pytest.mark.parametrize("name", PROBLEMS)
def test_end_is_stationary_for_each_kernel(name):
    """By finite differences of the slow F, which shares no code with the solver."""
    problem = PROBLEMS[name]
    result = solve_reduced(problem.objective(), problem.X, **TO_THE_END)
    before, after = (slow_gradient(problem, A) for A in (problem.X, result.A))
    assert np.linalg.norm(after) < 1e-3 * np.linalg.norm(before)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("rho", [100.0, 1e4])
def test_ends_no_higher_than_alternating(seed, rho):
    problem, _ = circle_problem(40, seed, rho)
    reduced = solve_reduced(problem.objective(), problem.X, max_iter=100)
    sequential = solve_alternating(problem.objective(), problem.X, max_iter=20)
    parallel = solve_parallel(problem.objective(), problem.X, max_iter=100)
    assert reduced.objective[-1] <= sequential.objective[-1]
    assert reduced.objective[-1] <= parallel.objective[-1]


def test_a_second_run_from_the_end_changes_nothing():
    problem, _ = circle_problem(40, seed=1)
    end = solve_reduced(problem.objective(), problem.X, **TO_THE_END)
    again = solve_reduced(problem.objective(), end.A, **TO_THE_END)
    assert again.objective[0] == pytest.approx(end.objective[-1], rel=1e-13)
    assert again.objective[-1] >= end.objective[-1] * (1.0 - 1e-9)
    assert again.objective[-1] <= end.objective[-1] * (1.0 + ROUNDING)


class TracePenalty:
    """trace(K), so that each row has its own problem with a known answer."""

    def evaluate(self, K, eigen):
        return SpectralTerm(float(np.trace(K)), 0.0, 0, np.eye(K.shape[0]))


@pytest.mark.parametrize("lam", [0.5, 1.0, 3.0])
def test_known_answer_of_a_trace_penalty(lam):
    """|a|^2 + lam sqrt(|a - x|^2 + mu^2) is smallest at r x / |x|, 2 r = lam (|x| - r) / sqrt((|x| - r)^2 + mu^2)."""
    rng = np.random.default_rng(0)
    X, mu = rng.standard_normal((12, 3)), 1e-2
    objective = Objective(Linear(), TracePenalty(), KernelError(Linear(), X, mu), lam)
    A = solve_reduced(objective, X, **TO_THE_END).A
    for a, x in zip(A, X, strict=True):
        length = np.linalg.norm(x)
        r = brentq(lambda r, length=length: 2 * r - lam * (length - r) / np.hypot(length - r, mu), 0.0, length)
        np.testing.assert_allclose(a, r * x / length, atol=1e-4)


def test_two_runs_of_different_units_take_the_same_path():
    """`scale` makes the variables dimensionless: without it the first step would be of the data's unit."""
    problem = PROBLEMS["rbf"]
    c = 1e4
    stretched = replace(
        problem, kernel=RBF(c**-2), k=lambda a, b: np.exp(-np.sum((a - b) ** 2) / c**2), X=c * problem.X
    )
    one = solve_reduced(problem.objective(), problem.X, max_iter=10, tol=0.0)
    other = solve_reduced(stretched.objective(), stretched.X, scale=c, max_iter=10, tol=0.0)
    np.testing.assert_allclose(other.objective, one.objective, rtol=1e-9)


# --- the start, and what it leaves behind ---------------------------------------------------------------------------


def test_warm_up_holds_b_and_then_lets_it_go():
    problem = PROBLEMS["rbf"]
    A, target = start(problem, "zeros")
    history = solve_reduced(problem.objective(), A, start=target, max_iter=40, tol=0.0).history
    ranks = [record.rank for record in history]
    assert ranks[0] == target.rank
    held = [record for record in history if record.low_rank == target.low_rank]
    assert 1 < len(held) < len(history)
    assert held == history[: len(held)]
    assert ranks[-1] < target.rank


@pytest.mark.parametrize("interrupt", [False, True])
def test_thread_pools_are_left_as_they_were(interrupt):
    def pools():
        return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info()}

    during = []

    def callback(record):
        during.append(pools())
        if interrupt and record.iteration == 2:
            raise KeyboardInterrupt

    problem = PROBLEMS["rbf"]
    with threadpool_limits(limits=2):  # not 1, which the solver sets
        before = pools()
        solve_reduced(problem.objective(), problem.X, max_iter=5, callback=callback)
        after = pools()
    assert after == before
    assert all(inside[path] == 1 for inside in during for path in inside if "scipy.libs" in path)
    assert all(inside[path] == before[path] for inside in during for path in inside if "scipy.libs" not in path)


# --- the circle -----------------------------------------------------------------------------------------------------

SEEDS = range(10)


def mend_circle(kernel, seed):
    X, _, outliers = circle(100, seed)
    mu = 1e-3 * float(np.sqrt(np.mean(kernel.diag(X))))
    objective = Objective(kernel, NuclearPenalty(1e4), KernelError(kernel, X, mu), 0.3)
    return X, solve_reduced(objective, X, max_iter=500).A, outliers


def test_gaussian_kernel_brings_outliers_to_the_circle():
    before, after, inliers_moved = [], [], []
    for seed in SEEDS:
        X, A, outliers = mend_circle(RBF(1.0), seed)
        before.append(off_circle(X[outliers]).mean())
        after.append(off_circle(A[outliers]).mean())
        inliers_moved.append(np.linalg.norm(A - X, axis=1)[~outliers].mean())
    assert np.median(before) > 0.3
    assert np.median(after) <= 0.05
    assert np.max(inliers_moved) <= 0.002


def test_polynomial_kernel_brings_outliers_nearer_to_the_circle():
    ratios, inliers_moved = [], []
    for seed in SEEDS:
        X, A, outliers = mend_circle(Polynomial(2.0, 1.0), seed)
        ratios.append(np.median(off_circle(A[outliers])) / np.median(off_circle(X[outliers])))
        inliers_moved.append(np.linalg.norm(A - X, axis=1)[~outliers].mean())
    assert np.median(ratios) <= 0.40
    assert np.max(inliers_moved) <= 0.002


def test_polynomial_kernel_leaves_points_inside_the_circle():
    """A point near the origin is short in the kernel space, so that the low-rank term gains little by moving it.

    Its pull on such a point stays below lam, which therefore holds it: F is at its minimum with the point where it is.
    """
    n_inside = 0
    for seed in SEEDS:
        X, A, outliers = mend_circle(Polynomial(2.0, 1.0), seed)
        inside = outliers & (np.linalg.norm(X, axis=1) < 0.8)
        n_inside += inside.sum()
        assert np.linalg.norm((A - X)[inside], axis=1).max(initial=0.0) < 0.02
    assert n_inside >= 20


def test_small_lam_lets_go_what_large_lam_holds():
    X, outliers = circle(60, 1)[0], circle(60, 1)[2]
    moved = []
    for lam in (0.3, 2.0):
        problem = Problem(RBF(1.0), PROBLEMS["rbf"].k, X, lam, 1e4)
        A = solve_reduced(problem.objective(), X).A
        moved.append(np.linalg.norm(A - X, axis=1))
    assert moved[0][outliers].max() > 0.2
    assert moved[1].max() < 0.01


# --- bounds, entries that stay, stages ------------------------------------------------------------------------------


def never_rises(objective):
    return np.all(np.diff(objective) <= ROUNDING * np.abs(objective[:-1]))


def schatten_problem(error=RowError, eps=1e-3, seed=0, n=30):
    X = circle(n, seed)[0]
    return Objective(RBF(1.0), SchattenPenalty(0.5, eps), error(X, 1e-2), 0.3), X


@pytest.mark.parametrize("error", [RowError, EntryError])
def test_other_models_end_at_stationary_points(error):
    objective, X = schatten_problem(error, eps=1e-2)
    result = solve_reduced(objective, X, **TO_THE_END)
    before, after = (np.linalg.norm(objective.evaluate(A)[1]) for A in (X, result.A))
    assert after < 1e-3 * before
    assert never_rises(result.objective)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bounds", [(-0.5, 0.7), (np.array([-0.3, -np.inf]), np.array([np.inf, 0.4]))])
def test_bounds_are_kept_and_the_objective_never_rises(bounds, dtype):
    objective, X = schatten_problem()
    result = solve_reduced(objective, X.astype(dtype), bounds=bounds)
    lower, upper = (np.asarray(bound, dtype=dtype) for bound in bounds)
    assert result.A.dtype == dtype
    np.testing.assert_array_equal(np.clip(result.A, lower, upper), result.A)
    rises = np.diff(result.objective) / np.abs(result.objective[:-1])
    assert rises.max() <= (ROUNDING if dtype == np.float64 else 1e-6)
    start = objective.evaluate(np.clip(X, *bounds).astype(dtype))[0].total
    assert result.objective[0] == pytest.approx(start, rel=1e-6)
    assert result.objective[-1] < 0.99 * result.objective[0]


@pytest.mark.parametrize("upper", [0.2, 10.0])
def test_known_answer_within_bounds(upper):
    """trace(K) + lam E is a sum over entries: its minimum in a box is the clipped one of each entry."""
    X = np.random.default_rng(0).standard_normal((12, 3))
    objective = Objective(Linear(), TracePenalty(), EntryError(X, 1e-2), 1.0)
    A = solve_reduced(objective, X, bounds=(-upper, upper), **TO_THE_END).A
    unbounded = solve_reduced(objective, X, **TO_THE_END).A
    np.testing.assert_allclose(A, np.clip(unbounded, -upper, upper), atol=1e-4)


def test_wide_bounds_change_little():
    objective, X = schatten_problem(eps=1e-1)
    free, boxed = (solve_reduced(objective, X, bounds=bounds, **TO_THE_END) for bounds in (None, (-9.0, 9.0)))
    assert boxed.objective[-1] == pytest.approx(free.objective[-1], rel=1e-6)


def test_bounds_that_cross_are_an_error():
    objective, X = schatten_problem()
    for bounds in ((1.0, 0.0), (np.nan, 1.0)):
        with pytest.raises(ValueError, match="lower bound"):
            solve_reduced(objective, X, bounds=bounds)


@pytest.mark.parametrize("bounds", [None, (-0.5, 0.5)])
def test_entries_that_are_not_free_come_back_bit_for_bit(bounds):
    objective, X = schatten_problem()
    free = np.random.default_rng(1).random(X.shape) < 0.3
    result = solve_reduced(objective, X, free=free, bounds=bounds, max_iter=500, tol=1e-10)
    np.testing.assert_array_equal(result.A[~free], X[~free])
    assert np.abs(result.A - X)[free].max() > 1e-2
    assert never_rises(result.objective)
    if bounds is None:
        gradient = objective.evaluate(result.A)[1]
        assert np.linalg.norm(gradient[free]) < 1e-2 * np.linalg.norm(objective.evaluate(X)[1][free])


def test_all_entries_free_is_the_same_as_no_mask():
    objective, X = schatten_problem()
    one, other = (solve_reduced(objective, X, free=free).A for free in (None, np.ones((X.shape[0], 1), dtype=bool)))
    np.testing.assert_array_equal(one, other)


def test_only_free_entries_are_variables():
    """Where one entry is free, the minimum along it is found by a search on a line."""
    objective, X = schatten_problem(n=12)
    free = np.zeros(X.shape, dtype=bool)
    free[3, 1] = True
    A = solve_reduced(objective, X, free=free, **TO_THE_END).A
    nearby = [objective.evaluate(A + step * free)[0].total for step in (-1e-3, 0.0, 1e-3)]
    assert min(nearby) == nearby[1]


def test_nothing_free_is_done_at_once():
    objective, X = schatten_problem()
    result = solve_reduced(objective, X, free=np.zeros(X.shape, dtype=bool))
    np.testing.assert_array_equal(result.A, X)
    assert (result.n_iter, result.stop_reason) == (0, "converged")


def test_a_falling_eps_is_one_falling_record():
    objective, X = schatten_problem(eps=1e-4)
    stages = [Stage(replace(objective, penalty=SchattenPenalty(0.5, eps)), 15) for eps in (1e-1, 1e-2, 1e-3)]
    result = solve_reduced(objective, X, stages=stages, max_iter=80, tol=0.0)
    assert result.n_iter == 80
    assert never_rises(result.objective)
    assert result.objective[0] == stages[0].objective.evaluate(X)[0].total
    assert result.objective[-1] == pytest.approx(objective.evaluate(result.A)[0].total, rel=1e-12)


def test_stages_go_on_from_where_the_last_one_ended():
    objective, X = schatten_problem(eps=1e-4)
    wide = replace(objective, kernel=RBF(0.1))
    both = solve_reduced(objective, X, stages=[Stage(wide, 10)], max_iter=25, tol=0.0)
    first = solve_reduced(wide, X, max_iter=10, tol=0.0)
    second = solve_reduced(objective, first.A, max_iter=15, tol=0.0)
    np.testing.assert_array_equal(both.A, second.A)
    np.testing.assert_array_equal(both.objective, np.concatenate([first.objective, second.objective[1:]]))


def test_a_stage_that_starts_higher_does_not_look_converged():
    """The narrow kernel's objective is the larger one: judged against the wide one's it would stop at once."""
    objective, X = schatten_problem(eps=1e-3)
    wide = replace(objective, kernel=RBF(0.1))
    result = solve_reduced(objective, X, stages=[Stage(wide, 12)], max_iter=100)
    assert result.objective[13] > result.objective[12]
    assert result.n_iter > 30


def test_stages_share_the_budget():
    objective, X = schatten_problem()
    result = solve_reduced(objective, X, stages=[Stage(objective, 50)] * 3, max_iter=7, tol=0.0)
    assert (result.n_iter, result.stop_reason) == (7, "max_iter")
