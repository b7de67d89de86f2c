"""The convex models as CVXPY writes them: independent solutions of tiny problems, and data for all linear models."""

import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import cvxpy as cp


def low_rank(n=40, d=20, r=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, r)) @ rng.standard_normal((r, d)) / np.sqrt(r)


def wrong_entries(L, share=0.05, size=3.0, seed=1):
    rng = np.random.default_rng(seed)
    wrong = rng.random(L.shape) < share
    return L + np.where(wrong, size * rng.choice([-1.0, 1.0], L.shape), 0.0), wrong


def wrong_rows(L, share=0.1, seed=1):
    rng = np.random.default_rng(seed)
    bad = np.zeros(len(L), dtype=bool)
    bad[rng.choice(len(L), round(share * len(L)), replace=False)] = True
    X = L.copy()
    X[bad] = rng.standard_normal((int(bad.sum()), L.shape[1]))
    return X, bad


def solve(X, lam, norm, slack=0.0, extra=None):
    """Return (value, L): |L|_* + lam norm(S) + |N|^2 / (2 slack) + extra(L) with L + S + N = X where X is observed."""
    seen = np.isfinite(X)
    mask, target = seen.astype(float), np.where(seen, X, 0.0)
    L, S = cp.Variable(X.shape), cp.Variable(X.shape)
    size = cp.sum(cp.abs(S)) if norm == "entries" else cp.sum(cp.norm(S, axis=1))
    rest = cp.multiply(mask, L + S) - target
    cost = cp.normNuc(L) + lam * size + (0.0 if extra is None else extra(L))
    constraints = [] if slack else [rest == 0]
    if slack:
        cost += cp.sum_squares(rest) / (2 * slack)
    return _minimise(cost, constraints), L.value


def solve_representation(X, D, lam):
    """Return (value, Z D)."""
    Z, E = cp.Variable((len(X), len(D))), cp.Variable(X.shape)
    cost = cp.normNuc(Z) + lam * cp.sum(cp.norm(E, axis=1))
    return _minimise(cost, [X == Z @ D + E]), Z.value @ D


def _minimise(cost, constraints):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        return float(cp.Problem(cp.Minimize(cost), constraints).solve(solver=cp.CLARABEL, **accuracy))
