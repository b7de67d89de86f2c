"""Low-rank representation: CVXPY, closed forms, subspaces told apart, outliers."""

import numpy as np
import pytest
from convex import low_rank, solve_representation, wrong_rows
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score

from kernmend import LowRankRepresentation

TIGHT = {"tol": 1e-9, "max_iter": 50000}


def subspaces(count=3, rows=30, d=40, r=2, seed=0):
    X = np.vstack([low_rank(rows, d, r, 10 * seed + k) for k in range(count)])
    return X, np.repeat(np.arange(count), rows)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("lam", ["auto", 0.6])
def test_agrees_with_cvxpy(seed, given, lam):
    X, _ = wrong_rows(low_rank(9, 6, 2, seed), 0.2, seed)
    D = low_rank(7, 6, 3, seed + 5) if given else X
    est = LowRankRepresentation(lam=lam, dictionary=D if given else None, **TIGHT).fit(X)
    value, mended = solve_representation(X, D, est.lam_)
    assert est.stop_reason_ == "converged"
    assert est.history_[-1].residual <= est.tol
    assert est.objective_[-1] == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(est.recovered_, mended, atol=1e-4)
    np.testing.assert_allclose(est.coefficients_ @ D, est.recovered_, atol=1e-9)
    assert est.coefficients_.shape == (9, 7 if given else 9)


def test_clean_data_gives_the_shape_interaction_matrix():
    X, _ = subspaces()
    est = LowRankRepresentation(lam=10.0, **TIGHT).fit(X)
    U = np.linalg.svd(X, full_matrices=False)[0][:, :6]
    np.testing.assert_allclose(est.coefficients_, U @ U.T, atol=1e-5)
    np.testing.assert_allclose(est.recovered_, X, atol=1e-5)
    assert est.rank_ == 6
    assert not est.outliers_.any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_subspaces_are_told_apart_among_outliers(seed, noise):
    clean, labels = subspaces(seed=seed)
    X, bad = wrong_rows(clean + noise * np.random.default_rng(seed).standard_normal(clean.shape), seed=seed)
    est = LowRankRepresentation().fit(X)
    np.testing.assert_array_equal(est.outliers_, bad)
    assert np.linalg.norm((est.recovered_ - clean)[~bad]) < max(1e-4, noise) * np.linalg.norm(clean)
    W = est.affinity_
    np.testing.assert_allclose(W, W.T, atol=1e-12)
    assert W.min() >= 0
    assert W.max() <= 1 + 1e-9
    found = SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(W[~bad][:, ~bad])
    assert adjusted_rand_score(labels[~bad], found) == 1.0


def test_a_dictionary_of_clean_rows_mends_others():
    L = low_rank(80, 30, 3)
    X, bad = wrong_rows(L[:60])
    est = LowRankRepresentation(dictionary=L[60:]).fit(X)
    np.testing.assert_array_equal(est.outliers_, bad)
    assert np.linalg.norm((est.recovered_ - L[:60])[~bad]) < 1e-4 * np.linalg.norm(L)


def test_the_default_follows_the_units():
    X, _ = wrong_rows(subspaces()[0])
    plain, other = LowRankRepresentation().fit(X), LowRankRepresentation().fit(1000 * X)
    assert other.lam_ * 1000 == pytest.approx(plain.lam_)
    np.testing.assert_allclose(other.recovered_ / 1000, plain.recovered_, atol=1e-5)


def test_there_is_no_transform():
    assert not hasattr(LowRankRepresentation(), "transform")


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"dictionary": np.eye(3)}, "dictionary must have the 20 features of X, got 3"),
        ({"dictionary": np.full((3, 20), np.nan)}, "dictionary contains NaN"),
        ({"lam": 0}, "lam must be"),
        ({"contamination": -1}, "contamination must be"),
    ],
)
def test_bad_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        LowRankRepresentation(**parameters).fit(low_rank())


def test_a_dictionary_of_zeros_explains_nothing():
    X = low_rank()
    est = LowRankRepresentation(dictionary=np.zeros((2, 20))).fit(X)
    np.testing.assert_allclose(est.recovered_, 0.0, atol=1e-12)
    assert est.rank_ == 0
