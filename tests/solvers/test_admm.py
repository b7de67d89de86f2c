"""The ADMM loop: against CVXPY, its residuals, its stop reasons, and the partial SVD inside it."""

import numpy as np
import pytest
from convex import cp, low_rank, solve, wrong_entries, wrong_rows
from threadpoolctl import threadpool_info

from kernmend.linalg.singular import TopSingular, spectral_norm
from kernmend.model.terms import EntryTerm, NuclearTerm, RankTerm, RowTerm, SubspaceTerm, Term
from kernmend.solvers import Block, solve_admm, solve_rows

KINDS = {"entries": EntryTerm, "rows": RowTerm}
LAM = {"entries": 0.35, "rows": 0.6}


def small(holes=False, seed=0):
    X, _ = wrong_entries(low_rank(8, 6, 2, seed), seed=seed)
    if holes:
        X[1, 2] = X[4, 0] = np.nan
    return X


def run(term, center=None, **options):
    X = term.X
    options = {"penalty": 1.25 / max(np.linalg.norm(X, 2), 1e-9), "size": np.linalg.norm(X), "max_iter": 5000} | options
    return solve_admm(np.zeros_like(X), [term], center=NuclearTerm() if center is None else center, **options)


# --- where it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slack", [0.0, 0.5])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_cvxpy(kind, slack, holes, seed):
    X = small(holes, seed)
    value, L = solve(X, LAM[kind], kind, slack)
    result = run(KINDS[kind].of(X, LAM[kind], slack), tol=1e-9)
    assert result.stop_reason == "converged"
    assert result.objective[-1] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(result.A, L, atol=1e-4)


class Smooth(Term):
    """weight tr(A' P A) / 2, the kind of third term that a graph gives."""

    part = "gram"

    def __init__(self, P, weight):
        self.P, self.weight = P, weight

    def value(self, A):
        return 0.5 * self.weight * float(np.sum(A * (self.P @ A)))

    def prox(self, V, t):
        return np.linalg.solve(np.eye(len(V)) + t * self.weight * self.P, V)


@pytest.mark.parametrize("central", ["nuclear", "smooth", "none"])
def test_three_terms_agree_with_cvxpy_whichever_is_central(central):
    X = small()
    chain = np.diff(np.eye(len(X)), axis=0)
    P = chain.T @ chain
    value, L = solve(X, 0.35, "entries", extra=lambda A: 0.3 / 2 * cp.sum_squares(chain @ A))
    terms = {"nuclear": NuclearTerm(), "smooth": Smooth(P, 0.3), "errors": EntryTerm(X, 0.35)}
    center = terms.pop(central, None)
    size = np.linalg.norm(X)
    options = {"penalty": 1.0, "size": size, "tol": 1e-9, "max_iter": 5000}
    result = solve_admm(np.zeros_like(X), list(terms.values()), center=center, **options)
    assert result.stop_reason == "converged"
    assert result.objective[-1] == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(result.A, L, atol=1e-4)
    assert result.history[-1].gram > 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_has_a_residual_and_the_last_is_below_the_tolerance(kind):
    result = run(KINDS[kind].of(small(holes=True), LAM[kind]), tol=1e-6)
    residuals = [record.residual for record in result.history]
    assert np.isnan(residuals[0])
    assert np.isfinite(residuals[1:]).all()
    assert residuals[-1] <= 1e-6 < min(residuals[1:-1])
    assert result.n_iter == len(residuals) - 1


def test_the_end_has_a_dual_certificate():
    """Some Y with |Y|_2 <= 1, Y = U V' on the row space, |Y|_inf <= lam, Y = lam sign(S) on the errors."""
    L = low_rank(120, 100, 3)
    X, _ = wrong_entries(L)
    lam = 1 / np.sqrt(120)
    center = NuclearTerm()
    result = run(EntryTerm(X, lam), center, tol=1e-8)
    np.testing.assert_allclose(result.A, L, atol=1e-6)
    V, t = center._asked
    Y = (V - result.A) / t
    assert np.linalg.norm(Y, 2) <= 1 + 1e-4
    assert np.abs(Y).max() <= lam * (1 + 1e-4)
    S = X - result.A
    wrong = np.abs(S) > 1e-3
    np.testing.assert_allclose(Y[wrong], lam * np.sign(S[wrong]), atol=1e-5)
    np.testing.assert_allclose(center.U.T @ Y, center.Vt, atol=1e-5)


def test_a_rank_that_is_given_and_one_that_is_too_high():
    L = low_rank(100, 90, 3)
    X, _ = wrong_entries(L, share=0.2, size=10.0)
    options = {"penalty": 1 / np.median(np.abs(X)), "growth": 1.2}
    right = run(EntryTerm(X, 1.0), RankTerm(limit=3), **options)
    assert (right.stop_reason, right.rank) == ("converged", 3)
    np.testing.assert_allclose(right.A, L, atol=1e-6)
    high = run(EntryTerm(X, 1.0), RankTerm(limit=5), **options)
    assert high.stop_reason == "stalled"
    assert high.history[-1].residual > 1e-7
    assert high.objective[-1] <= right.objective[-1] * (1 + 1e-6)


# --- how it stops ---------------------------------------------------------------------------------------------------


def test_running_out_of_iterations():
    result = run(EntryTerm(small(), 0.35), max_iter=3)
    assert (result.stop_reason, result.n_iter) == ("max_iter", 3)
    assert result.history[-1].residual > 1e-7


@pytest.mark.parametrize("where", ["callback", "prox"])
def test_interruption_keeps_the_last_iterate(where):
    X, calls = small(), []

    def count(*_):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt

    class Impatient(NuclearTerm):
        def prox(self, V, t):
            count()
            return super().prox(V, t)

    center = Impatient() if where == "prox" else NuclearTerm()
    result = run(EntryTerm(X, 0.35), center, callback=count if where == "callback" else None)
    assert result.stop_reason == "interrupted"
    assert result.n_iter == 4
    np.testing.assert_array_equal(result.A, run(EntryTerm(X, 0.35), max_iter=4).A)


def test_zero_data_is_its_own_answer():
    result = run(EntryTerm(np.zeros((5, 4)), 0.3), penalty=1.0, size=0.0)
    assert result.stop_reason == "converged"
    assert not result.A.any()


def test_scales_need_a_centre_without_a_term():
    block = Block(EntryTerm(np.eye(3), 1.0), np.ones(3))
    with pytest.raises(ValueError, match="center=None"):
        solve_admm(np.zeros((3, 3)), [block], center=NuclearTerm(), penalty=1.0, size=1.0)


# --- rows by themselves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("holes", [False, True])
def test_rows_by_themselves_end_where_the_joint_problem_did(kind, holes):
    X = small(holes)
    center = NuclearTerm()
    joint = run(KINDS[kind].of(X, LAM[kind]), center, tol=1e-10)
    term, known = KINDS[kind].of(X, LAM[kind]), SubspaceTerm(center.Vt, center.singular_values)
    rows, unfinished = solve_rows(term, known, penalty=1.0, size=1.0, tol=1e-9, max_iter=20000)
    assert unfinished == 0
    np.testing.assert_allclose(rows, joint.A, atol=1e-6)
    some = np.array([True, False] * 4)
    alone, _ = solve_rows(term.rows(some), known, penalty=1.0, size=1.0, tol=1e-9, max_iter=20000)
    np.testing.assert_allclose(alone, rows[some], atol=1e-12)
    assert solve_rows(term, known, penalty=1.0, size=1.0, tol=1e-9, max_iter=1)[1] == len(X)


# --- the partial SVD ------------------------------------------------------------------------------------------------


def decaying(n, d, seed=0, power=1.0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((m, min(n, d))))[0] for m in (n, d))
    return (U * (np.arange(1, min(n, d) + 1.0) ** -power)) @ V.T


@pytest.mark.parametrize("shape", [(200, 150), (150, 200)])
@pytest.mark.parametrize("cut", [0.45, 0.105, 0.031, 1e-3])
def test_warm_started_singular_values_are_the_true_ones(shape, cut):
    X, svd = decaying(*shape), TopSingular()
    for _ in range(12):
        U, s, Vt = svd(X, cut)
    exact = np.linalg.svd(X, compute_uv=False)
    np.testing.assert_allclose(s, exact[exact > cut], rtol=1e-6)
    np.testing.assert_allclose((U * s) @ Vt, X @ Vt.T @ Vt, atol=1e-3 * cut)
    assert svd.proved(X, cut, (U, s, Vt), tol=1e-2 * cut)


def test_a_wrong_answer_is_not_proved_and_the_next_is_dense():
    X, svd = decaying(200, 150), TopSingular()
    U, s, Vt = svd(X, 0.1)
    assert not svd.proved(X, 0.1, (U[:, 1:], s[1:], Vt[1:]), tol=1e-2)
    U, s, Vt = svd(X, 0.1)
    assert svd.n_dense == 1
    assert svd.proved(X, 0.1, (U, s, Vt), tol=1e-10)


def test_a_limit_and_the_spectral_norm():
    X = decaying(200, 150)
    assert TopSingular()(X, 0.0, limit=3)[1].size == 3
    assert spectral_norm(X) == pytest.approx(1.0, rel=0.05)
    assert spectral_norm(np.zeros((100, 90))) == 0.0


@pytest.mark.parametrize("shape", [(300, 40), (100, 120)])
def test_partial_and_full_svd_give_the_same_path(shape):
    X, _ = wrong_rows(low_rank(*shape, r=3))
    partial = run(RowTerm(X, 0.6), NuclearTerm())
    full = run(RowTerm(X, 0.6), NuclearTerm(svd=TopSingular(dense=True)))
    np.testing.assert_allclose(partial.A, full.A, atol=1e-5)
    assert partial.objective[-1] == pytest.approx(full.objective[-1], rel=1e-6)


def test_thread_pools_are_left_as_they_were():
    before = [pool["num_threads"] for pool in threadpool_info()]
    run(EntryTerm(small(), 0.35), max_iter=3)
    assert [pool["num_threads"] for pool in threadpool_info()] == before
