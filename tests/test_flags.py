"""Flags are the scores above the threshold, whatever the scores are."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from test_common import data

from kernmend import OutlierPursuit, RobustPCA


def flagged(scores, share):
    est = OutlierPursuit(contamination=share)
    est.outlier_scores_ = np.array(scores)
    est._set_flags(1.0)
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)
    return np.flatnonzero(est.outliers_).tolist(), est.threshold_


def test_a_share():
    assert flagged([0.0, 3.0, 1.0, 2.0], 0.5) == ([1, 3], 1.5)
    assert flagged([0.0, 3.0, 1.0, 2.0], 0.25) == ([1], 2.5)
    assert flagged([0.0, 3.0, 1.0, 2.0], 0.0) == ([], 3.0)
    assert flagged([0.0, 3.0, 1.0, 2.0], "auto") == ([1, 3], 1.0)


def test_equal_scores_are_not_divided():
    assert flagged([0.0, 0.0, 5.0, 0.0], 0.5) == ([2], 0.0)
    assert flagged([7.0, 7.0, 7.0, 0.0], 0.5) == ([], 7.0)
    assert flagged([1.0, 1.0], 0.5) == ([], 1.0)


def test_neighbouring_numbers_are_told_apart():
    low = np.nextafter(1.0, 2.0)
    high = np.nextafter(low, 2.0)
    assert (low + high) / 2 == high  # the mean is rounded up
    assert flagged([0.0, high, low, 0.5], 0.25) == ([1], low)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_rows_without_error_are_not_flagged(noise):
    _, X, bad = data()
    est = RobustPCA(noise=noise, contamination=0.5).fit(X)
    assert (est.outlier_scores_ == 0).mean() > 0.6
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > 0)
    assert est.outliers_[bad].all()


@pytest.mark.parametrize("share", ["auto", 0.1])
def test_what_the_solver_leaves_is_no_score(share):
    X = make_blobs(300, random_state=0)[0]  # two features, of full rank: L = X, to the tolerance
    est = OutlierPursuit(contamination=share).fit(X)
    assert not est.outlier_scores_.any()
    assert (est.predict(X) == 1).all()
