"""COIL-20 in each of its forms, made here from a few random images."""

import io
import sys
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from kernmend import datasets
from kernmend.datasets import metrics
from kernmend.datasets.corruption import gaussian_noise


@pytest.fixture
def images():
    """Two objects with three views, of whole grey values."""
    return np.random.default_rng(0).integers(0, 256, (6, 32, 32)).astype(np.float64)


LABELS = np.repeat([1, 2], 3)


def png(image):
    image_module = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image_module.fromarray(np.kron(image, np.ones((4, 4))).astype(np.uint8)).save(out, format="png")
    return out.getvalue()


def write(kind, folder, images):
    if kind == "npz":
        np.savez(folder / "coil20_32.npz", images_f32=images.astype(np.float32), labels=LABELS, angle_deg=np.arange(6))
    elif kind == "mat":
        fea = images.transpose(0, 2, 1).reshape(6, -1) / 255
        savemat(folder / "COIL20.mat", {"fea": fea, "gnd": LABELS[:, None].astype(float)})
    elif kind == "zip":
        with zipfile.ZipFile(folder / "coil-20-proc.zip", "w") as archive:
            for index, image in enumerate(images):
                archive.writestr(f"coil-20-proc/obj{1 + index // 3}__{index % 3}.png", png(image))
    else:
        for index, image in enumerate(images):
            (folder / f"obj{1 + index // 3}__{index % 3}.png").write_bytes(png(image))


@pytest.mark.parametrize("kind", ["npz", "mat", "zip", "folder"])
def test_every_form_gives_the_same_images(kind, tmp_path, images, monkeypatch):
    write(kind, tmp_path, images)
    found = datasets.load_coil20(tmp_path)
    np.testing.assert_allclose(found.X, images.reshape(6, -1) / 255, atol=1e-7)
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.angles.shape == (6,)
    monkeypatch.setenv("KERNMEND_DATA", str(tmp_path))
    np.testing.assert_array_equal(datasets.load_coil20().X, found.X)


def test_missing_data_is_one_sentence_that_says_where(tmp_path, monkeypatch):
    monkeypatch.delenv("KERNMEND_DATA", raising=False)
    for path in (None, tmp_path, tmp_path / "nowhere"):
        with pytest.raises(datasets.MissingDataError, match=r"columbia\.edu.* and put it") as caught:
            datasets.load_coil20(path)
        assert "\n" not in str(caught.value)


def test_a_wrong_file_is_named(tmp_path):
    np.savez(tmp_path / "coil20_32.npz", other=np.zeros(3))
    with pytest.raises(ValueError, match=r"coil20_32\.npz is not COIL-20"):
        datasets.load_coil20(tmp_path)
    (tmp_path / "x.zip").write_text("no zip")
    with pytest.raises(ValueError, match=r"x\.zip is not COIL-20"):
        datasets.load_coil20(tmp_path / "x.zip")


def test_grey_values_up_to_255_in_a_mat_file(tmp_path, images):
    fea = images.transpose(0, 2, 1).reshape(6, -1)
    savemat(tmp_path / "COIL20.mat", {"fea": fea, "gnd": LABELS[:, None].astype(float)})
    np.testing.assert_allclose(datasets.load_coil20(tmp_path).X, images.reshape(6, -1) / 255, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("cat.png", (32, 32), "no file named like obj1__0.png"),
        ("obj1__0.png", (32, 30), r"an image of shape \(128, 120\) cannot be divided into 32 by 32 blocks"),
        ("obj1__0.png", (20, 20), r"an image of shape \(80, 80\) cannot be divided into 32 by 32 blocks"),
    ],
)
def test_pictures_that_are_not_coil20(name, shape, words, tmp_path):
    with zipfile.ZipFile(tmp_path / "coil-20-proc.zip", "w") as archive:
        archive.writestr(name, png(np.zeros(shape)))
        archive.writestr("readme.txt", "no picture")
    with pytest.raises(ValueError, match=words):
        datasets.load_coil20(tmp_path)


def test_without_pillow_the_error_says_what_to_install(tmp_path, images, monkeypatch):
    write("zip", tmp_path, images)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"pip install pillow"):
        datasets.load_coil20(tmp_path)


def test_the_three_readings_of_the_noise():
    X = np.random.default_rng(0).uniform(0.2, 1, (40, 300))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    literal, rows = gaussian_noise(X, 0.5, level="literal")
    assert (literal - X)[rows].std() == pytest.approx(0.5, rel=0.05)
    released, rows = gaussian_noise(X, 0.5, level="released")
    assert released.min() == 0
    assert (released - X)[rows].std() < 0.05
    np.testing.assert_array_equal(released[~rows], X[~rows])
    with pytest.raises(ValueError, match="level must be one of"):
        gaussian_noise(X, level="loud")


def test_readings_differ_by_the_signal_alone():
    rng = np.random.default_rng(0)
    truth, rows = rng.uniform(0, 1, (10, 20)), np.arange(10) < 2
    differences = set()
    for noise in (0.1, 0.3):
        found = metrics.readings(truth, truth + noise * rng.standard_normal(truth.shape), rows)
        differences.add(round(found["psnr_all"] - found["snr_all"], 9))
    assert len(differences) == 1
    assert metrics.readings(truth, truth, rows)["psnr_mean_per_image"] == pytest.approx(58.92, abs=0.01)
    assert np.isnan(metrics.auc(rows & False, truth[:, 0]))
    assert metrics.auc(rows, rows.astype(float)) == 1.0
