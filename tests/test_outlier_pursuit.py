"""Outlier pursuit: exact recovery with the default, CVXPY, missing entries, new rows, the kernel model's limit."""

import numpy as np
import pytest
from cases import with_holes
from convex import low_rank, solve, wrong_rows

from kernmend import KernelLowRank, OutlierPursuit


def relative(A, B):
    return np.linalg.norm(A - B) / np.linalg.norm(B)


@pytest.mark.parametrize("shape", [(100, 100, 4), (90, 70, 3), (300, 20, 3), (100, 300, 5)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_exact_flags_row_space_and_inliers_with_the_default(shape, scale):
    n, d, r = shape
    L = scale * low_rank(n, d, r)
    X, bad = wrong_rows(L / scale)
    est = OutlierPursuit(tol=1e-9).fit(scale * X)
    assert est.stop_reason_ == "converged"
    assert est.history_[-1].residual <= est.tol
    np.testing.assert_array_equal(est.outliers_, bad)
    assert est.rank_ == r
    assert relative(est.recovered_[~bad], L[~bad]) < 1e-6
    basis = np.linalg.svd(L, full_matrices=False)[2][:r]
    assert np.linalg.norm(est.components_ @ basis.T @ basis - est.components_) < 1e-6


@pytest.mark.parametrize("share", [0.02, 0.2, 0.3])
def test_other_shares_than_the_one_that_the_default_is_made_for(share):
    L = low_rank(150, 150, 4)
    X, bad = wrong_rows(L, share)
    est = OutlierPursuit().fit(X)
    np.testing.assert_array_equal(est.outliers_, bad)
    assert relative(est.recovered_[~bad], L[~bad]) < 1e-4


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("lam", ["auto", 0.4])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_agrees_with_cvxpy(seed, lam, noise):
    X = with_holes(wrong_rows(low_rank(10, 7, 2, seed), 0.2, seed)[0], 0.1, seed)
    est = OutlierPursuit(lam=lam, noise=noise, tol=1e-9, max_iter=20000).fit(X)
    share = np.sqrt(np.isfinite(X).mean())
    value, L = solve(X, est.lam_, "rows", slack=noise * share * (np.sqrt(10) + np.sqrt(7)))
    assert est.objective_[-1] == pytest.approx(value, rel=1e-6)
    assert np.linalg.norm(est.recovered_ - L) < 1e-4 * np.linalg.norm(np.nan_to_num(X))


def test_missing_entries_are_filled_in():
    L = low_rank(120, 100, 3)
    X, bad = wrong_rows(L)
    est = OutlierPursuit().fit(with_holes(X, 0.2))
    np.testing.assert_array_equal(est.outliers_, bad)
    assert relative(est.recovered_[~bad], L[~bad]) < 1e-5


def test_noise_in_all_rows_flags_none_of_them():
    L = low_rank(100, 80, 3)
    X, bad = wrong_rows(L)
    X = X + 0.1 * np.random.default_rng(5).standard_normal(X.shape)
    stable = OutlierPursuit(noise=0.1).fit(X)
    np.testing.assert_array_equal(stable.outliers_, bad)
    assert relative(stable.recovered_[~bad], L[~bad]) < relative(X[~bad], L[~bad])


def test_new_rows():
    L = low_rank(150, 60, 3)
    X, bad = wrong_rows(L)
    est = OutlierPursuit().fit(X[:120])
    np.testing.assert_allclose(est.transform(X[:120]), est.recovered_, atol=1e-4)
    new = with_holes(X[120:], 0.1)
    mended = est.transform(new)
    assert relative(mended[~bad[120:]], L[120:][~bad[120:]]) < 1e-5
    np.testing.assert_array_equal(est.predict(new), np.where(bad[120:], -1, 1))
    np.testing.assert_allclose(est.transform(new[4:5]), mended[4:5], atol=1e-12)


def test_contamination_flags_that_share():
    X, bad = wrong_rows(low_rank(100, 60, 2))
    est = OutlierPursuit(contamination=0.05).fit(X)
    assert est.outliers_.sum() == 5
    assert bad[est.outliers_].all()


def test_a_lam_of_one_or_more_keeps_everything():
    """The pull on a row is never above 1: the largest value that means anything."""
    X, _ = wrong_rows(low_rank(30, 20, 2))
    np.testing.assert_allclose(OutlierPursuit(lam=1.01).fit(X).recovered_, X, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("lam", [0.5, 0.6])
def test_the_linear_kernel_with_a_large_rho_is_the_same_model(seed, lam):
    """B'B = A A' makes |B|_* = |A|_*: the same lam. What is left is the smoothing of |a - x|, 1e-3 of a distance."""
    X, _ = wrong_rows(low_rank(40, 15, 2, seed))
    linear = OutlierPursuit(lam=lam).fit(X)
    distances = []
    for rho in (1e2, 1e4, 1e7):
        model = {"kernel": "linear", "error": "rows", "lam": lam, "rho": rho}
        kernel = KernelLowRank(**model, max_iter=3000, tol=1e-10).fit(X)
        distances.append(relative(kernel.recovered_, linear.recovered_))
    assert distances[2] < distances[1] < distances[0] < 0.03
    assert distances[2] < 2e-3
    assert kernel.objective_[-1] == pytest.approx(linear.objective_[-1], rel=5e-3)
    assert kernel.rank_ == linear.rank_ == 2
    np.testing.assert_array_equal(kernel.outliers_, linear.outliers_)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [({"lam": 0}, "lam must be"), ({"noise": -1}, "noise must be"), ({"max_iter": 1.5}, "max_iter must be")],
)
def test_bad_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        OutlierPursuit(**parameters).fit(low_rank())
