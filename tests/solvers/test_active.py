"""The solver that moves only the rows that are pulled: the same minimum, in few decompositions of the Gram matrix."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from kernmend import KernelLowRank
from kernmend.linalg import eigen
from kernmend.model.errors import KernelError, RowError
from kernmend.model.kernels import RBF, Polynomial
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty
from kernmend.repair import joint
from kernmend.solvers import active, solve_reduced
from kernmend.solvers.active import solve_active

RHO = {"rbf": 1e4, "poly": 1e-2}


def problem(kernel="rbf", error=KernelError, n=70, d=6, gamma=0.01):
    """Rows near a plane, a tenth of them with noise; X, which are wrong, the objective."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    wrong = np.arange(n) < n // 10
    X[wrong] += rng.standard_normal((int(wrong.sum()), d))
    k = RBF(gamma) if kernel == "rbf" else Polynomial(2, 5.0)
    model = KernelError(k, X, 1e-4) if error is KernelError else RowError(X, 1e-3)
    penalty = NuclearPenalty(RHO[kernel])
    lam = 0.7 if error is KernelError else 0.1
    return X, wrong, Objective(k, penalty, model, lam), penalty


@pytest.mark.parametrize(("kernel", "error"), [("rbf", KernelError), ("rbf", RowError), ("poly", KernelError)])
def test_it_ends_no_higher_than_all_rows_together(kernel, error):
    X, _, objective, penalty = problem(kernel, error)
    budget = {"tol": 1e-9, "max_iter": 2000}
    some, all_rows = solve_active(objective, X, penalty, **budget), solve_reduced(objective, X, **budget)
    assert some.stop_reason == "converged"
    assert some.objective[-1] <= 1.001 * all_rows.objective[-1]
    assert some.objective[-1] == pytest.approx(objective.parts(some.A).total, rel=1e-6)
    assert np.all(np.diff(some.objective) <= 1e-10 * some.objective[0])
    assert [record.iteration for record in some.history] == list(range(some.n_iter + 1))


def test_it_stops_where_little_is_gained_though_much_stays():
    X, _, objective, penalty = problem()
    early = solve_active(objective, X, penalty, tol=1e-6, max_iter=2000)
    late = solve_active(objective, X, penalty, tol=1e-9, max_iter=2000)
    assert early.stop_reason == late.stop_reason == "converged"
    assert early.n_iter < late.n_iter
    whole = late.objective[0] - late.objective[-1]
    assert early.objective[-1] - late.objective[-1] <= 0.01 * whole


def test_rows_that_nothing_pulls_stay_bit_for_bit():
    X, wrong, objective, penalty = problem()
    A = solve_active(objective, X, penalty).A
    stayed = np.all(A == X, axis=1)
    assert stayed.mean() > 0.5
    assert not stayed[wrong].any()


@pytest.mark.parametrize("gamma", [0.01, 1.0], ids=["few eigenvectors", "more than rows without one of their own"])
@pytest.mark.parametrize("others", [0, 6], ids=["all have vectors of their own", "six have none"])
def test_the_gradient_is_that_of_the_value(others, gamma):
    X, wrong, objective, penalty = problem(n=30, gamma=gamma)
    moving = wrong | (np.arange(len(X)) >= len(X) - others)
    A = X + 0.1 * np.random.default_rng(1).standard_normal(X.shape)
    over = active._Round.at(objective, penalty, A).over(moving, wrong)
    parts, gradient = over.evaluate(A[moving] + 0.05)
    numeric = approx_fprime((A[moving] + 0.05).ravel(), lambda a: over.parts(a.reshape(-1, X.shape[1])).total, 1e-7)
    np.testing.assert_allclose(gradient.ravel(), numeric, rtol=1e-3, atol=1e-4 * np.abs(numeric).max())
    assert over.evaluate(A[moving])[0].total == pytest.approx(objective.parts(A).total, rel=1e-9)
    moved = A.copy()
    moved[moving] += 0.05
    assert parts.total >= objective.parts(moved).total - 1e-9


def test_eigenvectors_of_the_basis_are_nearly_those_of_all_rows():
    X, wrong, objective, penalty = problem(n=30)
    over = active._Round.at(objective, penalty, X).over(wrong, wrong)
    A = X.copy()
    A[wrong] += 0.05
    near = over.vectors(A[wrong], wrong)
    np.testing.assert_allclose(near.T @ near, np.eye(near.shape[1]), atol=1e-10)
    K, cut = objective.kernel.gram(A), active.NEARLY * active.cutoff_from_rho(penalty.rho)
    s, U = eigen.eigenpairs_near(K, near, cut)
    exact = np.linalg.eigvalsh(K)[::-1][: s.size]
    np.testing.assert_allclose(s, exact, rtol=1e-3)
    np.testing.assert_allclose(U.T @ K @ U, np.diag(s), atol=1e-9 * s[0])


def test_more_eigenvectors_than_rows_that_have_none_of_their_own():
    """A fit of 720 views, with 691 eigenvalues above the cut-off and 124 wrong rows, ended with a shape mismatch."""
    X, wrong, objective, penalty = problem(gamma=3.0)
    start = X.copy()
    start[wrong] *= 0.9
    begin = active._Round.at(objective, penalty, start)
    assert begin.U.shape[1] > np.sum(~wrong)
    over = begin.over(wrong, wrong)
    assert over.parts(start[wrong]).total == pytest.approx(begin.parts.total, rel=1e-9)
    again = active._Round.at(objective, penalty, start, over.vectors(start[wrong], wrong))
    assert again.parts.total == pytest.approx(begin.parts.total, rel=1e-9)
    np.testing.assert_allclose(again.U.T @ again.U, np.eye(again.U.shape[1]), atol=1e-10)
    result = solve_active(objective, start, penalty)
    assert np.all(np.diff(result.objective) <= 1e-10 * result.objective[0])
    assert result.objective[-1] == pytest.approx(objective.parts(result.A).total, rel=1e-6)


def test_bounds_and_missing_entries():
    X, _, _, penalty = problem()
    X[5, 2] = np.nan
    objective = Objective(RBF(0.01), penalty, KernelError(RBF(0.01), X, 1e-4), 0.7)
    A = solve_active(objective, np.nan_to_num(X), penalty, bounds=(-1.5, 1.5)).A
    assert np.isfinite(A).all()
    assert np.abs(A).max() <= 1.5
    assert A[5, 2] != 0.0


@pytest.mark.parametrize("when", [1, 40])
def test_interruption_keeps_what_was_reached(when):
    X, _, objective, penalty = problem()

    def stop(record):
        if record.iteration == when:
            raise KeyboardInterrupt

    result = solve_active(objective, X, penalty, callback=stop, tol=1e-12)
    assert result.stop_reason == "interrupted"
    assert objective.parts(result.A).total <= result.objective[0]


def test_where_most_rows_move_all_do(monkeypatch):
    X, _, objective, penalty = problem()
    monkeypatch.setattr(active, "MOST", 0.0)
    some, all_rows = solve_active(objective, X, penalty), solve_reduced(objective, X)
    np.testing.assert_array_equal(some.A, all_rows.A)
    np.testing.assert_array_equal(some.objective, all_rows.objective)


def test_a_fit_takes_few_decompositions_of_the_whole_gram_matrix(monkeypatch):
    X, wrong, _, _ = problem(n=120)
    monkeypatch.setattr(joint, "MANY_ROWS", 50)
    sizes, solve = [], eigen.np.linalg.eigh
    monkeypatch.setattr(eigen.np.linalg, "eigh", lambda K: sizes.append(len(K)) or solve(K))
    est = KernelLowRank(gamma=0.01, rho=1e4, lam=0.7).fit(X)
    assert est.outliers_[wrong].mean() > 0.9
    assert est.n_iter_ > 20
    assert sum(size == len(X) for size in sizes) <= 6
    assert max(size for size in sizes if size != len(X)) < len(X) // 2


def test_all_rows_may_move_while_few_have_vectors_of_their_own():
    X, wrong, objective, penalty = problem(n=30)
    everyone = np.ones_like(wrong)
    over = active._Round.at(objective, penalty, X).over(everyone, wrong)
    assert over.evaluate(X)[0].total == pytest.approx(objective.parts(X).total, rel=1e-9)
    steps = 1e-5 * np.eye(X.size).reshape(-1, *X.shape)
    numeric = [over.parts(X + 0.05 + step).total - over.parts(X + 0.05 - step).total for step in steps]
    np.testing.assert_allclose(over.evaluate(X + 0.05)[1].ravel(), np.array(numeric) / 2e-5, atol=1e-6)


def test_rows_that_would_hardly_move_do_not_follow():
    """Of 3,600 images two thirds were moved, by nothing to speak of, in most of the time of the fit."""
    X, wrong, objective, penalty = problem()
    begin, nobody, everyone = active._Round.at(objective, penalty, X), np.zeros_like(wrong), np.ones_like(wrong)
    pulled = begin.would_move(0.03)
    assert pulled.any()
    assert not begin.still_pulled(nobody, nobody, nobody, 0.03).any()
    assert begin.still_pulled(pulled, nobody, nobody, 0.03)[wrong & pulled].any()
    assert not begin.still_pulled(pulled, nobody, nobody, 100.0).any()
    np.testing.assert_array_equal(begin.still_pulled(everyone, nobody, nobody, 0.03), everyone)  # all: no basis


def test_followers_have_vectors_where_the_basis_stays_small(monkeypatch):
    X, wrong, objective, penalty = problem()
    begin, more = active._Round.at(objective, penalty, X), wrong | (np.arange(len(X)) < 20)
    np.testing.assert_array_equal(begin.with_vectors(more, wrong), more)
    monkeypatch.setattr(active, "MANY_ROWS", 20)
    np.testing.assert_array_equal(begin.with_vectors(more, wrong), wrong)
    np.testing.assert_array_equal(begin.with_vectors(more, np.zeros_like(wrong)), more)
