"""Flags are the scores above the threshold, whatever the scores are."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from test_common import data

from kernmend import KernelRecovery, OutlierPursuit, RobustPCA


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


def test_a_share_that_divides_equal_scores_of_the_default(recwarn):
    """Its flags are what `predict` says: rows of which half are equal, and as far out, are all flagged or none is."""
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 3)), 2, axis=0)
    X[:6] += 9.0
    for share in (0.05, 0.1, 0.25):
        est = KernelRecovery(contamination=share).fit(X)
        assert est.outliers_.sum() <= round(share * len(X))
        np.testing.assert_array_equal(est.outliers_, est.predict(X) == -1)
        np.testing.assert_array_equal(est.outliers_[::2], est.outliers_[1::2])
