"""COIL-20, which may not come with the package: read from a file or folder that the user has."""

import os
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

# Pixels along the edge of an image.
SIDE = 32
# Names of files and folders that are searched for, in this order.
NAMES = ("coil20_32.npz", "COIL20.mat", "coil-20-proc.zip", "coil-20-proc")
_PNG = re.compile(r"obj(\d+)__(\d+)\.png$")


class MissingDataError(FileNotFoundError):
    """A data set is not there; the message says where to get it and where to put it.

    Examples
    --------
    >>> from kernmend.datasets import MissingDataError, find_coil20
    >>> try:
    ...     find_coil20("no such folder")
    ... except MissingDataError as error:
    ...     print(str(error)[:19])
    COIL-20 is not here
    """


class Coil20(NamedTuple):
    """Images as rows of 1024 pixels in [0, 1], the object of each (1 to 20) and the angle of its view in degrees.

    Parameters
    ----------
    X : ndarray of shape (n_samples, 1024)
        The pixels.
    labels : ndarray of int, shape (n_samples,)
        The objects.
    angles : ndarray of shape (n_samples,)
        The angles.

    Examples
    --------
    >>> from kernmend.datasets import Coil20
    >>> Coil20(np.zeros((1, 1024)), np.array([1]), np.zeros(1)).labels
    array([1])
    """

    X: Array
    labels: NDArray[np.int64]
    angles: Array


def load_coil20(path: str | Path | None = None) -> Coil20:
    """Return COIL-20, 1440 images of 20 objects, from a file or folder that you have.

    Parameters
    ----------
    path : path, optional
        The Columbia zip or its folder of PNG files (obj1__0.png and so on, made smaller to 32 by 32 by block means),
        COIL20.mat, an npz with `images_f32`, `labels` and `angle_deg`, or a folder with one of these. By default the
        folder that the environment variable KERNMEND_DATA names.

    Returns
    -------
    Coil20
        Pixels, objects and angles.

    Examples
    --------
    >>> import tempfile
    >>> from kernmend.datasets import load_coil20
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "coil20_32.npz"
    ...     np.savez(file, images_f32=np.ones((2, 1024)), labels=[1, 1], angle_deg=[0.0, 5.0])
    ...     load_coil20(folder).X.shape
    (2, 1024)
    """
    found = find_coil20(path)
    if found.is_dir():
        return _from_pngs((file.name, file.read_bytes()) for file in sorted(found.rglob("*.png")))
    try:
        if found.suffix == ".npz":
            return _from_npz(found)
        if found.suffix == ".mat":
            return _from_mat(found)
        with ZipFile(found) as archive:
            return _from_pngs((name, archive.read(name)) for name in sorted(archive.namelist()) if _PNG.search(name))
    except (KeyError, BadZipFile, ValueError) as error:
        raise ValueError(f"{found} is not COIL-20 in a form that is known here: {error}") from error


def find_coil20(path: str | Path | None = None) -> Path:
    """Return the file or folder that holds COIL-20; MissingDataError where there is none.

    Parameters
    ----------
    path : path, optional
        A file, or a folder to look in; by default the one that the environment variable KERNMEND_DATA names.

    Returns
    -------
    Path
        What was found.

    Examples
    --------
    >>> import tempfile
    >>> from kernmend.datasets import find_coil20
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "COIL20.mat").touch()
    ...     find_coil20(folder).name
    'COIL20.mat'
    """
    given = path if path is not None else os.environ.get("KERNMEND_DATA")
    where = Path(given) if given else None
    if where is not None and where.is_file():
        return where
    if where is not None and where.is_dir():
        for name in NAMES:
            if (where / name).exists():
                return where / name
        if any(_PNG.search(file.name) for file in where.glob("*.png")):
            return where
    place = f"{where} (where it was not found)" if where is not None else "a folder named by KERNMEND_DATA or --data"
    raise MissingDataError(
        "COIL-20 is not here: get coil-20-proc.zip from https://www.cs.columbia.edu/CAVE/software/softlib/coil-20.php "
        f"and put it, COIL20.mat or coil20_32.npz into {place}"
    )


def _from_npz(path: Path) -> Coil20:
    """Return the data of an npz file with `images_f32` and `labels`."""
    with np.load(path, allow_pickle=False) as data:
        images = data["images_f32"].astype(np.float64).reshape(len(data["images_f32"]), -1) / 255.0
        labels = data["labels"].astype(np.int64)
        angles = data["angle_deg"].astype(np.float64) if "angle_deg" in data else _angles(labels)
    return Coil20(images, labels, angles)


def _from_mat(path: Path) -> Coil20:
    """Return the data of a MATLAB file with `fea` and `gnd`."""
    from scipy.io import loadmat

    content = loadmat(path)
    fea, labels = np.asarray(content["fea"], dtype=np.float64), content["gnd"].ravel().astype(np.int64)
    if fea.max() > 1.5:
        fea = fea / 255.0
    upright = fea.reshape(-1, SIDE, SIDE).transpose(0, 2, 1).reshape(len(fea), -1)  # MATLAB stores columns first
    return Coil20(np.ascontiguousarray(upright), labels, _angles(labels))


def _from_pngs(files: Iterator[tuple[str, bytes]]) -> Coil20:
    """Return the data of PNG files, given as names and contents."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("PNG files need the package pillow: pip install pillow") from error
    rows: dict[tuple[int, int], Array] = {}
    for name, content in files:
        match = _PNG.search(name)
        if match is None:
            continue
        with Image.open(BytesIO(content)) as image:
            rows[int(match[1]), int(match[2])] = _shrink(np.asarray(image.convert("L"), dtype=np.float64)).ravel() / 255
    if not rows:
        raise ValueError("no file named like obj1__0.png")
    keys = sorted(rows)
    labels = np.array([label for label, _ in keys], dtype=np.int64)
    return Coil20(np.stack([rows[key] for key in keys]), labels, _angles(labels))


def _shrink(image: Array) -> Array:
    """Return an image made smaller to 32 by 32 pixels by block means."""
    if image.shape[0] != image.shape[1] or image.shape[0] % SIDE:
        raise ValueError(f"an image of shape {image.shape} cannot be divided into {SIDE} by {SIDE} blocks")
    step = image.shape[0] // SIDE
    means: Array = image.reshape(SIDE, step, SIDE, step).mean(axis=(1, 3))
    return means


def _angles(labels: NDArray[np.int64]) -> Array:
    """Return the angle of each view: the views of an object are in order and evenly spaced."""
    angles = np.zeros(len(labels))
    for label in np.unique(labels):
        views = np.flatnonzero(labels == label)
        angles[views] = 360.0 * np.arange(views.size) / views.size
    return angles
