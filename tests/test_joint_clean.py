"""Clean data whose noise differs from place to place comes back from `KernelLowRank` as it is."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d

from kernmend import KernelLowRank, NothingMendedWarning
from kernmend.repair.joint_hidden import ALIKE, typical_errors


def digits():
    return load_digits().data[:130]


def patches():
    picture = load_sample_image("china.jpg").mean(axis=2)
    return extract_patches_2d(picture, (3, 3), max_patches=150, random_state=0).reshape(150, -1)


def noise_like_the_size_of_what_it_is_added_to():
    rng = np.random.default_rng(0)
    plane = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 12))
    return plane + 0.3 * rng.standard_normal(plane.shape) * np.abs(plane)


@pytest.mark.parametrize("make", [digits, patches, noise_like_the_size_of_what_it_is_added_to])
def test_entries_that_are_predicted_badly_because_of_where_they_are_stay(make):
    """The Schatten path took ink, edges and large values for wrong, and changed nearly all entries."""
    X = make()
    with pytest.warns(NothingMendedWarning):
        np.testing.assert_array_equal(KernelLowRank(error="entries", tol=1e-4).fit_transform(X), X)


def test_what_is_typical_is_the_median_among_those_predicted_alike():
    rng = np.random.default_rng(1)
    order = rng.permutation(100)
    errors = np.where(np.arange(100) < 50, 1.0, 9.0)[order]
    typical = typical_errors(errors, order.astype(float))
    np.testing.assert_array_equal(typical[order < 50 - ALIKE // 2], 1.0)
    np.testing.assert_array_equal(typical[order >= 50 + ALIKE // 2], 9.0)
    np.testing.assert_array_equal(typical_errors(np.array([1.0, 5.0, 2.0]), np.zeros(3)), 2.0)
    assert typical_errors(np.empty(0), np.empty(0)).size == 0
