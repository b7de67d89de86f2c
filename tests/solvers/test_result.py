"""What every solver promises: the objective never rises, the records are true, the symmetries of F are kept."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import PROBLEMS, ROUNDING, SOLVERS, circle, clipped, slow_gram, slow_rank, start

from kernmend.model.errors import KernelError
from kernmend.model.kernels import RBF, Linear, Polynomial
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty, similarity_target
from kernmend.model.terms import Parts
from kernmend.solvers import SolverResult
from kernmend.solvers.result import History

# The slow F has the same value up to rounding, but at an eigenvalue that is all but equal to the cut-off the two may
# take different sides: F is continuous there, with a slope, so that 1e-16 in the eigenvalue is far less than 1e-8 in F.
SLOW = 1e-8
# |B|_* of a given M = B'B sums roots of its eigenvalues: 1e-13 of rounding in one of them is 3e-7 in its root, and
# whether such an eigenvalue counts as zero is a matter of taste.
GIVEN = 1e-5

each_solver = pytest.mark.parametrize("solver", SOLVERS)
each_problem = pytest.mark.parametrize("name", PROBLEMS)
each_init = pytest.mark.parametrize("init", ["data", "zeros", "random"])
# One row after the other is not the same for another order of the rows; its limit is (test_sequential_*).
each_simultaneous_solver = pytest.mark.parametrize("solver", ["reduced", "alternating-parallel"])


def solve(problem, solver, init="data", **options):
    A, target = start(problem, init)
    return SOLVERS[solver](problem.objective(), A, start=target, **{"max_iter": 30, "tol": 0.0} | options)


def rises(objective):
    """Largest relative rise from one record to the next."""
    return np.max(np.diff(objective) / np.abs(objective[:-1]), initial=0.0)


# --- the records ----------------------------------------------------------------------------------------------------


@each_solver
@each_init
@each_problem
def test_objective_never_rises_and_records_are_true(name, init, solver):
    problem = PROBLEMS[name]
    A0, target = start(problem, init)
    result = solve(problem, solver, init)

    assert rises(result.objective) <= ROUNDING
    assert result.objective[-1] < result.objective[0]
    at_start = problem.slow(A0, None if target is None else target.M)
    first, last = result.history[0], result.history[-1]
    assert first.low_rank == pytest.approx(at_start[0], rel=SLOW if target is None else GIVEN)
    assert (first.error, first.gram) == pytest.approx(at_start[1:], rel=SLOW, abs=SLOW)
    at_end = problem.slow(result.A)
    assert result.objective[-1] == pytest.approx(sum(at_end), rel=SLOW)
    # Rounding moves weight between the parts more easily than it changes their sum.
    assert (last.low_rank, last.error, last.gram) == pytest.approx(at_end, rel=1e-6, abs=1e-6)
    assert result.rank == last.rank == slow_rank(problem.k, result.A, problem.rho)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    solver=st.sampled_from(list(SOLVERS)),
    name=st.sampled_from(list(PROBLEMS)),
    seed=st.integers(0, 2**16),
    n=st.integers(2, 8),
    d=st.integers(1, 4),
    log_lam=st.floats(-3.0, 0.0),
    log_rho=st.floats(-2.0, 4.0),
)
def test_objective_never_rises_on_any_data(solver, name, seed, n, d, log_lam, log_rho):
    X = np.random.default_rng(seed).uniform(0.0, 2.0, (n, d))
    problem = replace(PROBLEMS[name], X=X, lam=10.0**log_lam, rho=10.0**log_rho)
    result = solve(problem, solver, max_iter=12)
    assert rises(result.objective) <= ROUNDING
    assert result.objective[-1] == pytest.approx(sum(problem.slow(result.A)), rel=SLOW)


@each_solver
def test_history_is_consistent(solver):
    seen = []
    problem = PROBLEMS["rbf"]
    result = solve(problem, solver, max_iter=8, callback=seen.append)
    history = result.history
    assert isinstance(result, SolverResult)
    assert seen == history
    assert [record.iteration for record in history] == list(range(result.n_iter + 1))
    assert [record.objective for record in history] == result.objective.tolist()
    for record in history:
        assert record.low_rank + record.error + record.gram == pytest.approx(record.objective, rel=1e-15)
        assert min(record.low_rank, record.error, record.gram, record.rank) >= 0
    seconds = np.array([record.seconds for record in history])
    assert seconds[0] >= 0
    assert np.all(np.diff(seconds) > 0)
    steps = [record.step for record in history]
    assert steps[0] == 0
    assert sum(steps) >= np.linalg.norm(result.A - problem.X)  # the triangle inequality
    one = solve(problem, solver, max_iter=1)
    assert one.history[1].step == pytest.approx(np.linalg.norm(one.A - problem.X), rel=1e-12)


@each_solver
@each_init
def test_input_is_not_modified(solver, init):
    problem = PROBLEMS["rbf"]
    A, target = start(problem, init)
    A, X = A.copy(), problem.X.copy()
    before = A.copy(), None if target is None else target.M.copy()
    result = SOLVERS[solver](problem.objective(X), A, start=target, max_iter=5)
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(X, problem.X)
    if target is not None:
        np.testing.assert_array_equal(target.M, before[1])
    assert not np.shares_memory(result.A, A)


@each_solver
@each_problem
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(name, solver, dtype):
    problem = PROBLEMS[name]
    result = SOLVERS[solver](problem.objective(dtype=dtype), problem.X.astype(dtype), max_iter=30, tol=0.0)
    assert result.A.dtype == dtype
    assert result.objective.dtype == np.float64
    # A float32 Gram matrix rounds at 1e-7 of its entries, which reach 80 here; F is a few tens.
    tolerance = ROUNDING if dtype == np.float64 else 1e-5
    assert rises(result.objective) <= tolerance
    assert result.objective[-1] < result.objective[0]
    assert result.objective[-1] == pytest.approx(sum(problem.slow(result.A)), rel=max(SLOW, tolerance))


@each_solver
@each_problem
def test_same_result_twice(name, solver):
    first, second = (solve(PROBLEMS[name], solver, max_iter=10) for _ in range(2))
    np.testing.assert_array_equal(first.A, second.A)
    np.testing.assert_array_equal(first.objective, second.objective)


# --- why a solver stops ---------------------------------------------------------------------------------------------


@each_solver
def test_stops_when_the_budget_is_used_up(solver):
    result = solve(PROBLEMS["rbf"], solver, max_iter=7)
    assert (result.stop_reason, result.n_iter) == ("max_iter", 7)


@each_solver
@each_init
@pytest.mark.parametrize("max_iter", [1, 5, 20, 30])
def test_budget_is_kept_from_any_start(init, solver, max_iter):
    """The warm-up with B held at its start is part of the budget."""
    problem = PROBLEMS["rbf"]
    result = solve(problem, solver, init, max_iter=max_iter)
    assert result.n_iter == max_iter
    assert result.stop_reason == "max_iter"
    assert sum(problem.slow(result.A)) <= result.objective[-1] * (1.0 + ROUNDING)


@each_solver
@each_problem
def test_stops_when_converged(name, solver):
    tol = 3e-2
    result = solve(PROBLEMS[name], solver, max_iter=500, tol=tol)
    assert result.stop_reason == "converged"
    objective = result.objective
    falls = objective[:-10] - objective[10:]  # over ten iterations
    assert falls[-1] <= tol * objective[-1]
    assert np.all(falls[:-1] > tol * objective[10:-1])  # and not before


@each_solver
@pytest.mark.parametrize("at", [1, 3])
def test_interrupted_by_the_callback(solver, at):
    problem = PROBLEMS["rbf"]

    def interrupt(record):
        if record.iteration == at:
            raise KeyboardInterrupt

    result = solve(problem, solver, callback=interrupt)
    assert result.stop_reason == "interrupted"
    assert result.n_iter == at
    np.testing.assert_array_equal(result.A, solve(problem, solver, max_iter=at).A)
    assert result.objective[-1] == pytest.approx(sum(problem.slow(result.A)), rel=SLOW)


@dataclass(frozen=True)
class InterruptedRBF(RBF):
    """Ctrl-C in the middle of an iteration: while the Gram matrix is computed for the `calls`-th time."""

    calls: int = 0
    seen: list = field(default_factory=list)

    def gram(self, X, Y=None):
        self.seen.append(X.shape)
        if len(self.seen) == self.calls:
            raise KeyboardInterrupt
        return super().gram(X, Y)


@each_solver
@pytest.mark.parametrize("calls", [5, 16, 47, 150, 151, 152, 153])
def test_interrupted_in_the_middle_of_an_iteration(solver, calls):
    kernel = InterruptedRBF(1.0, calls)
    problem = replace(PROBLEMS["rbf"], kernel=kernel)
    result = SOLVERS[solver](problem.objective(), problem.X, max_iter=1000, tol=0.0)
    assert len(kernel.seen) == calls
    assert result.stop_reason == "interrupted"
    assert np.isfinite(result.A).all()
    assert sum(problem.slow(result.A)) <= result.objective[-1] * (1.0 + SLOW)  # the best so far, or a little better


def test_convergence_is_judged_over_a_window():
    def history_of(values, tol):
        history = History(tol, window=3)
        for value in values:
            history.add(Parts(value, 0.0, 0.0, 1), 0.0)
        return history.converged

    assert not history_of([5.0, 5.0, 5.0], tol=1.0)  # too few to judge
    assert history_of([5.0, 5.0, 5.0, 5.0], tol=0.0)
    assert not history_of([4.0, 3.0, 2.0, 2.0], tol=0.5)
    assert history_of([9.0, 3.0, 2.0, 2.0, 2.0], tol=0.5)
    assert not history_of([9.0, 3.0, 2.0, 2.0, 2.0], tol=0.49)
    assert history_of([0.0, 0.0, 0.0, 0.0], tol=1e-6)


# --- symmetries of F ------------------------------------------------------------------------------------------------

ROTATION = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
PERMUTATION = np.random.default_rng(3).permutation(24)
# A quasi-Newton method amplifies rounding from iteration to iteration: twelve of them keep it below the tolerance.
FEW = {"max_iter": 12}
MOVED = 2e-5  # what moves less cannot show a symmetry to 1e-6


@each_simultaneous_solver
@each_problem
def test_permuting_samples_permutes_the_result(name, solver):
    problem = PROBLEMS[name]
    A = solve(problem, solver, **FEW).A
    permuted = solve(replace(problem, X=problem.X[PERMUTATION]), solver, **FEW).A
    assert np.abs(A - problem.X).max() > MOVED
    np.testing.assert_allclose(permuted, A[PERMUTATION], atol=1e-6)


# A problem on which one row after the other converges in a second, with rows that move by over 1.
QUICK = replace(PROBLEMS["linear"], lam=0.3, rho=0.1)
TO_THE_END = {"max_iter": 400, "tol": 1e-14}


def test_sequential_permuting_samples_permutes_the_limit():
    A = solve(QUICK, "alternating", **TO_THE_END).A
    permuted = solve(replace(QUICK, X=QUICK.X[PERMUTATION]), "alternating", **TO_THE_END).A
    assert np.abs(A - QUICK.X).max() > 0.5
    np.testing.assert_allclose(permuted, A[PERMUTATION], atol=1e-6)


@each_solver
@each_problem
def test_rotating_the_data_rotates_the_result(name, solver):
    problem = PROBLEMS[name]
    A = solve(problem, solver, **FEW).A
    rotated = solve(replace(problem, X=problem.X @ ROTATION.T), solver, **FEW).A
    assert np.abs(A - problem.X).max() > MOVED
    np.testing.assert_allclose(rotated, A @ ROTATION.T, atol=1e-6)


@each_solver
@pytest.mark.parametrize("name", ["rbf", "rational"])
def test_shifting_the_data_shifts_the_result(name, solver):
    problem, shift = PROBLEMS[name], np.array([30.0, -50.0])
    A = solve(problem, solver, **FEW).A
    shifted = solve(replace(problem, X=problem.X + shift), solver, **FEW).A
    assert np.abs(A - problem.X).max() > MOVED
    np.testing.assert_allclose(shifted, A + shift, atol=1e-6)


@each_solver
@pytest.mark.parametrize("c", [37.0, 1e-3])
def test_scaling_the_data_scales_the_result(solver, c):
    problem = PROBLEMS["rbf"]
    gamma = 1.0 / c**2
    scaled = replace(problem, kernel=RBF(gamma), k=lambda a, b: np.exp(-gamma * np.sum((a - b) ** 2)), X=c * problem.X)
    A = solve(problem, solver, scale=1.3, **FEW).A
    assert np.abs(A - problem.X).max() > MOVED
    np.testing.assert_allclose(solve(scaled, solver, scale=1.3 * c, **FEW).A / c, A, atol=1e-6)


def with_duplicates(problem):
    """Two copies of each of the first twelve rows."""
    return replace(problem, X=np.vstack([problem.X[:12], problem.X[:12]]))


@each_simultaneous_solver
@each_problem
def test_equal_rows_move_alike(name, solver):
    problem = with_duplicates(PROBLEMS[name])
    A = solve(problem, solver, **FEW).A
    assert np.abs(A - problem.X).max() > MOVED
    np.testing.assert_allclose(A[:12], A[12:], atol=1e-6)


def test_sequential_equal_rows_end_alike():
    problem = with_duplicates(QUICK)
    A = solve(problem, "alternating", **TO_THE_END).A
    assert np.abs(A - problem.X).max() > 0.5
    np.testing.assert_allclose(A[:12], A[12:], atol=1e-6)


# --- limits ---------------------------------------------------------------------------------------------------------


@each_solver
@each_problem
def test_huge_lam_keeps_the_data(name, solver):
    problem = replace(PROBLEMS[name], lam=1e8)
    np.testing.assert_allclose(solve(problem, solver).A, problem.X, atol=1e-6)


@each_solver
@each_problem
def test_huge_lam_brings_a_start_nearby_back_to_the_data(name, solver):
    problem = replace(PROBLEMS[name], lam=1e8)
    nearby = problem.X + 0.1 * np.random.default_rng(0).standard_normal(problem.X.shape)
    result = SOLVERS[solver](problem.objective(), nearby, max_iter=200, tol=0.0)
    np.testing.assert_allclose(result.A, problem.X, atol=1e-6)


@each_solver
@each_problem
def test_constant_data_is_kept(name, solver):
    problem = PROBLEMS[name]
    X = np.tile(problem.X[3], (24, 1))
    problem = replace(problem, X=X)
    result = solve(problem, solver, max_iter=500, tol=1e-6)
    assert result.stop_reason in ("converged", "stalled")
    if name in ("rbf", "rational"):  # all distances are 0: nothing pulls
        np.testing.assert_allclose(result.A, X, rtol=0, atol=1e-15)
    # A dot product pulls each row to 0 with the force 1/sqrt(n) = 0.204 of the kernel space, and the smoothed error
    # holds it with lam r / sqrt(r^2 + mu^2): they meet at r = 0.204 mu / sqrt(0.3^2 - 0.204^2) = 0.93 mu.
    assert problem.objective().error.residuals(result.A).max() <= problem.mu


@each_solver
def test_data_of_zeros_is_kept(solver):
    X = np.zeros((5, 3))
    for kernel, rank in ((Linear(), 0), (Polynomial(2.0, 1.0), 1), (RBF(1.0), 1)):
        result = SOLVERS[solver](Objective(kernel, NuclearPenalty(100.0), KernelError(kernel, X, 1e-3), 0.3), X)
        np.testing.assert_array_equal(result.A, X)
        assert result.rank == rank


# --- a given Gram matrix --------------------------------------------------------------------------------------------


@each_solver
@each_problem
def test_fixed_gram_brings_a_row_back(name, solver):
    truth = circle(24, seed=0, outlier_share=0.0, offset=2.0 if name == "poly1.5" else 0.0)[1]
    X = truth.copy()
    X[5] += [0.25, -0.2]
    problem = replace(PROBLEMS[name], X=X, lam=0.01)
    M = clipped(slow_gram(problem.k, truth))
    target = similarity_target("gram", M, problem.rho)
    result = SOLVERS[solver](problem.objective(penalty=target), X, max_iter=100, tol=1e-9)

    assert rises(result.objective) <= ROUNDING
    assert result.objective[-1] == pytest.approx(sum(problem.slow(result.A, M)), rel=GIVEN)
    assert {(record.low_rank, record.rank) for record in result.history} == {(target.low_rank, target.rank)}
    gram_before, gram_after = (np.linalg.norm(slow_gram(problem.k, A) - M) for A in (X, result.A))
    assert gram_after < 0.01 * gram_before
    before, after = (np.linalg.norm(A[5] - truth[5]) for A in (X, result.A))
    assert after < 0.1 * before


@each_solver
@each_problem
def test_start_gram_is_where_b_starts(name, solver):
    problem = PROBLEMS[name]
    rng = np.random.default_rng(2)
    B = rng.standard_normal(problem.X.shape) @ rng.standard_normal((2, 24))
    target = similarity_target("start_gram", B.T @ B, problem.rho)
    result = SOLVERS[solver](problem.objective(), problem.X, start=target, max_iter=40, tol=0.0)
    assert result.objective[0] == pytest.approx(sum(problem.slow(problem.X, target.M)), rel=GIVEN)
    assert result.history[0].rank == 2
    assert rises(result.objective) <= ROUNDING
    assert result.objective[-1] == pytest.approx(sum(problem.slow(result.A)), rel=SLOW)
