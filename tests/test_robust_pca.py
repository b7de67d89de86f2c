"""Principal component pursuit: exact recovery, CVXPY, missing entries, noise, a given rank, new rows."""

import numpy as np
import pytest
from cases import with_holes
from convex import low_rank, solve, wrong_entries

from kernmend import RobustPCA


def relative(A, B):
    return np.linalg.norm(A - B) / np.linalg.norm(B)


@pytest.mark.parametrize("shape", [(100, 100, 4), (200, 50, 2), (50, 200, 2), (120, 110, 5)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_exact_recovery_with_the_default(shape, scale):
    n, d, r = shape
    L = scale * low_rank(n, d, r)
    X, wrong = wrong_entries(L, 0.05, 1.0)
    est = RobustPCA().fit(X)
    assert est.stop_reason_ == "converged"
    assert est.history_[-1].residual <= est.tol
    assert est.rank_ == r
    assert est.lam_ == 1 / np.sqrt(max(n, d))
    assert relative(est.recovered_, L) < 1e-5
    np.testing.assert_array_equal(est.entry_outliers_, wrong)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("lam", ["auto", 0.5])
def test_agrees_with_cvxpy(seed, lam):
    X = with_holes(wrong_entries(low_rank(9, 7, 2, seed), 0.1, seed=seed)[0], 0.1, seed)
    est = RobustPCA(lam=lam, tol=1e-9, max_iter=20000).fit(X)
    value, L = solve(X, est.lam_, "entries")
    assert est.objective_[-1] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(est.recovered_, L, atol=1e-4)


def test_the_noisy_form_agrees_with_cvxpy_and_beats_the_exact_one():
    X = wrong_entries(low_rank(9, 7, 2), 0.1)[0] + 0.1 * np.random.default_rng(3).standard_normal((9, 7))
    est = RobustPCA(noise=0.1, tol=1e-9, max_iter=20000).fit(X)
    value, L = solve(X, est.lam_, "entries", slack=0.1 * (3 + np.sqrt(7)))
    assert est.objective_[-1] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(est.recovered_, L, atol=1e-4)

    L = low_rank(100, 80, 3)
    X, wrong = wrong_entries(L, 0.05, 5.0)
    X += 0.1 * np.random.default_rng(3).standard_normal(L.shape)
    plain, stable = RobustPCA(max_iter=2000, tol=1e-5).fit(X), RobustPCA(noise=0.1).fit(X)
    assert stable.rank_ == 3 < plain.rank_
    assert relative(stable.recovered_, L) < 0.9 * relative(plain.recovered_, L)
    assert stable.entry_outliers_[wrong].all()
    assert stable.entry_outliers_[~wrong].mean() < 0.1
    assert not stable.outliers_.any()


def test_missing_entries_are_filled_in():
    L = low_rank(120, 100, 3)
    X, wrong = wrong_entries(L, 0.05)
    X = with_holes(X, 0.2)
    est = RobustPCA().fit(X)
    assert relative(est.recovered_, L) < 1e-5
    np.testing.assert_array_equal(est.entry_outliers_, wrong & ~np.isnan(X))


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_given_rank_needs_no_lam_and_bears_more_errors(share):
    L = low_rank(150, 120, 4)
    X, wrong = wrong_entries(L, share, 10.0)
    est = RobustPCA(rank=4, tol=1e-8).fit(X)
    assert (est.stop_reason_, est.rank_) == ("converged", 4)
    assert relative(est.recovered_, L) < 1e-6
    np.testing.assert_array_equal(est.entry_outliers_, wrong)
    np.testing.assert_allclose(est.transform(X), est.recovered_, atol=1e-4)
    holes = RobustPCA(rank=4, tol=1e-8).fit(with_holes(X, 0.1))
    assert relative(holes.recovered_, L) < 1e-6


def test_a_rank_that_is_too_high():
    L = low_rank(150, 120, 4)
    est = RobustPCA(rank=6).fit(wrong_entries(L, 0.02)[0])
    assert est.stop_reason_ == "stalled"
    assert 4 <= est.rank_ <= 6
    assert relative(est.recovered_, L) < 0.1
    whole = RobustPCA(rank=500).fit(L[:10, :8])
    assert relative(whole.recovered_, L[:10, :8]) < 1e-5


def test_rows_are_flagged_only_where_they_have_more_errors_than_the_others():
    L = low_rank(100, 80, 2)
    X, _ = wrong_entries(L, 0.05)
    assert not RobustPCA().fit(X).outliers_.any()
    X[7, :30] += 5.0
    est = RobustPCA().fit(X)
    assert np.flatnonzero(est.outliers_).tolist() == [7]
    assert est.threshold_ > 0.01
    alone = L.copy()
    alone[3, 3] += 5.0
    assert np.flatnonzero(RobustPCA().fit(alone).outliers_).tolist() == [3]
    assert RobustPCA(contamination=0.1).fit(X).outliers_.sum() == 10


def test_new_rows_are_mended_one_by_one():
    L = low_rank(140, 60, 3)
    X, wrong = wrong_entries(L, 0.05)
    est = RobustPCA().fit(X[:120])
    np.testing.assert_allclose(est.transform(X[:120]), est.recovered_, atol=1e-4)
    new = with_holes(X[120:], 0.1)
    mended = est.transform(new)
    assert relative(mended, L[120:]) < 1e-4
    np.testing.assert_allclose(est.transform(new[4:5]), mended[4:5], atol=1e-12)
    scores = -est.score_samples(new)
    rows = (wrong[120:] & ~np.isnan(new)).any(axis=1)
    assert scores[rows].min() > 100 * scores[~rows].max()
    np.testing.assert_array_equal(est.predict(new) == -1, scores > est.threshold_)
    np.testing.assert_allclose(est.decision_function(new), est.threshold_ - scores)


def test_summary_counts_entries():
    X, wrong = wrong_entries(low_rank(80, 60, 2))
    text = RobustPCA().fit(X).summary()
    assert f"{wrong.sum()} of 4800 cells replaced" in text
    assert "rank 2" in text


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"lam": -1.0}, "lam must be a positive number or 'auto'"),
        ({"noise": -0.1}, "noise must be a number >= 0"),
        ({"noise": "some"}, "noise must be"),
        ({"rank": 0}, "rank must be None or an integer >= 1"),
        ({"rank": 2.5}, "rank must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"tol": -1}, "tol must be"),
        ({"contamination": 0.9}, "contamination must be"),
    ],
)
def test_bad_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        RobustPCA(**parameters).fit(low_rank())
