"""Proximal operators: every one against brute force, and the identities that hold for all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernmend.model.terms import (
    EntryTerm,
    NuclearTerm,
    RankTerm,
    RowTerm,
    SubspaceTerm,
    Term,
    row_lengths,
)

NUMBERS = st.floats(-4, 4, allow_nan=False, width=32)
MATRICES = arrays(np.float64, (4, 3), elements=NUMBERS)
STEPS = st.floats(0.05, 5.0)
ERROR_TERMS = [EntryTerm, RowTerm]


def nuclear(A):
    return float(np.linalg.svd(A, compute_uv=False).sum())


def shrunk(kind, V, t):
    """V with every entry, or row, nearer to 0 by t: the prox of the error from data that is 0."""
    return kind(np.zeros_like(V), 1.0).prox(V.copy(), t)


def assert_minimises(f, P, V, t, seed=0):
    """P beats its neighbours at every distance, and the obvious candidates."""
    rng = np.random.default_rng(seed)

    def cost(A):
        return t * f(A) + 0.5 * np.sum((A - V) ** 2)

    best = cost(P)
    others = [V, np.zeros_like(V), P / 2, 2 * P, (P + V) / 2]
    others += [P + size * rng.standard_normal(P.shape) for size in (1e-3, 1e-2, 0.1, 1.0) for _ in range(25)]
    for i in range(P.size):
        step = np.zeros(P.size)
        step[i] = 1e-3
        others += [P + step.reshape(P.shape), P - step.reshape(P.shape)]
    assert min(cost(A) for A in others) >= best - 1e-9 * (1.0 + best)


@given(MATRICES, STEPS)
def test_shrinking_entries(V, t):
    P = shrunk(EntryTerm, V, t)
    assert_minimises(lambda A: np.abs(A).sum(), P, V, t)
    grid = np.linspace(-5, 5, 2001)
    for v, p in zip(V.ravel()[:3], P.ravel()[:3], strict=True):
        assert abs(grid[np.argmin(t * np.abs(grid) + 0.5 * (grid - v) ** 2)] - p) <= 0.005 + 1e-9


@given(MATRICES, STEPS)
def test_shrinking_rows(V, t):
    P = shrunk(RowTerm, V, t)
    assert_minimises(lambda A: np.linalg.norm(A, axis=1).sum(), P, V, t)
    np.testing.assert_allclose(row_lengths(P), np.maximum(row_lengths(V) - t, 0), atol=1e-12)


@given(MATRICES, STEPS)
def test_shrinking_singular_values(V, t):
    term = NuclearTerm()
    P = term.prox(V.copy(), t)
    assert_minimises(nuclear, P, V, t)
    U, s, Vt = np.linalg.svd(V, full_matrices=False)
    np.testing.assert_allclose(P, (U * np.maximum(s - t, 0)) @ Vt, atol=1e-7)
    assert np.linalg.norm(V - P, 2) <= t + 1e-9  # Moreau: what is left is the projection on the dual ball
    assert term.value(P) == pytest.approx(nuclear(P), abs=1e-6)
    assert term.rank == np.linalg.matrix_rank(P, tol=1e-12)


@given(MATRICES, st.integers(1, 3))
def test_the_rank_term_is_the_nearest_matrix_of_that_rank(V, limit):
    term = RankTerm(limit=limit)
    P = term.prox(V.copy(), 1.0)
    s = np.linalg.svd(V, compute_uv=False)
    assert term.rank <= limit
    assert np.linalg.norm(V - P) == pytest.approx(np.linalg.norm(s[limit:]), abs=1e-6)
    assert term.value(P) == 0.0


def slow_error(kind, X, lam, slack, A):
    """By definition, the smallest lam |S| + |N|^2 / (2 slack) over S + N = E, on a grid of splits."""
    E = np.nan_to_num(X - A)
    sizes = np.abs(E).ravel() if kind is EntryTerm else np.linalg.norm(E, axis=1)
    if slack == 0:
        return lam * sizes.sum()
    part = np.linspace(0, 1, 4001)
    return sum(np.min(lam * part * e + ((1 - part) * e) ** 2 / (2 * slack)) for e in sizes)


@pytest.mark.parametrize("kind", ERROR_TERMS)
@pytest.mark.parametrize("slack", [0.0, 0.7])
@given(X=MATRICES, V=MATRICES, t=STEPS, lam=st.floats(0.1, 2.0), hole=st.booleans())
def test_error_terms(kind, slack, X, V, t, lam, hole):
    if hole:
        X = X.copy()
        X[1, 2] = X[3, 0] = np.nan
    term = kind.of(X, lam, slack)
    assert term.value(V) == pytest.approx(slow_error(kind, X, lam, slack, V), rel=1e-5, abs=1e-5)
    P = term.prox(V.copy(), t)
    assert_minimises(term.value, P, V, t)
    if hole:
        assert P[1, 2] == V[1, 2]
        assert P[3, 0] == V[3, 0]


@pytest.mark.parametrize("kind", ERROR_TERMS)
@given(X=MATRICES, A=MATRICES, lam=st.floats(0.1, 2.0))
def test_gross_errors_are_what_is_beyond_the_noise(kind, X, A, lam):
    assert np.array_equal(kind.of(X, lam).gross(A), X - A)
    np.testing.assert_allclose(kind.of(X, lam, 0.5).gross(A), shrunk(kind, X - A, 0.5 * lam), atol=1e-12)


@pytest.mark.parametrize("kind", ERROR_TERMS)
def test_a_term_of_some_rows(kind):
    X = np.arange(12.0).reshape(4, 3)
    X[2, 1] = np.nan
    term, keep = kind.of(X, 0.5), np.array([True, False, True, False])
    V = np.ones((4, 3))
    np.testing.assert_array_equal(term.rows(keep).prox(V[keep], 1.0), term.prox(V.copy(), 1.0)[keep])


@given(MATRICES, STEPS)
def test_rows_of_a_low_rank_matrix_solve_their_own_problem(A, t):
    """a M^-1 a' / 2 summed over the rows, M = (A'A)^(1/2), is half of |A|_*, with the same gradient in A."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    kept = s > 0.1
    U, s, Vt = U[:, kept], s[kept], Vt[kept]
    term, A = SubspaceTerm(Vt, s), (U * s) @ Vt
    assert term.value(A) == pytest.approx(0.5 * nuclear(A), abs=1e-9)
    P = term.prox(A.copy(), t)
    np.testing.assert_allclose((A - P) / t, (P @ Vt.T / s) @ Vt, atol=1e-9)
    np.testing.assert_allclose(SubspaceTerm(Vt).prox(A.copy(), t), A, atol=1e-12)


def test_a_term_must_say_what_it_is():
    with pytest.raises(NotImplementedError):
        Term().value(np.eye(2))
    with pytest.raises(NotImplementedError):
        Term().prox(np.eye(2), 1.0)
