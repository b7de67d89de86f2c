"""The matrices of the experiments, from a description and a seed, and the oracles that know the truth."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.datasets import load_coil20, load_mnist, make_circle, rotate_images
from kernmend.datasets.corruption import Corrupted, gaussian_noise, occlusion, uniform_outliers
from kernmend.paper.spec import Corruption, Data

# Number that is added to the seed of the data for the seed of its corruption.
CORRUPTION_SEED = 100_000


class Matrix(NamedTuple):
    """Clean data, corrupted data, which rows were corrupted."""

    truth: Array
    X: Array
    rows: NDArray[np.bool_]

    @property
    def digest(self) -> str:
        """Short name of the corrupted matrix, which tells whether two methods got one matrix."""
        return hashlib.sha256(np.ascontiguousarray(self.X).tobytes()).hexdigest()[:16]

    def in_double(self) -> "Matrix":
        """Return the data in double precision, in which all is measured."""
        return Matrix(self.truth.astype(np.float64, copy=False), self.X.astype(np.float64, copy=False), self.rows)


def make_matrix(data: Data, corruption: Corruption, seed: int, folder: Path | None = None) -> Matrix:
    """Return the data of an experiment, clean and corrupted; COIL-20 in single precision, as its file has it."""
    truth = load(data, seed, folder)
    if data.unit_length:
        truth = to_unit_length(truth)
    X, rows = _corrupt(truth, data, corruption, CORRUPTION_SEED + seed)
    if data.unit_after:
        truth, X = to_unit_length(truth), to_unit_length(X)
    if data.name == "coil":
        truth, X = truth.astype(np.float32), X.astype(np.float32)
    return Matrix(truth, X, rows)


def to_unit_length(X: Array) -> Array:
    """Return rows divided by their lengths; a row of zeros stays."""
    scaled: Array = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    return scaled


def load(data: Data, seed: int, folder: Path | None = None) -> Array:
    """Return the clean rows."""
    if data.name == "circle":
        return make_circle(data.n, random_state=seed).X
    if data.name == "mnist":
        return load_mnist(data.n, digits=data.digits, random_state=seed)
    images, labels, _ = load_coil20(folder)
    rng = np.random.default_rng(seed)
    objects = rng.choice(np.unique(labels), min(data.objects, len(np.unique(labels))), replace=False)
    views = [np.flatnonzero(labels == label)[: data.views] for label in np.sort(objects)]
    chosen = np.repeat(images[np.concatenate(views)], data.rotations, axis=0)
    return rotate_images(chosen, (data.side, data.side), rng.uniform(-90.0, 90.0, len(chosen)))


def _corrupt(truth: Array, data: Data, corruption: Corruption, seed: int) -> Corrupted:
    """Return the corrupted rows and which they are."""
    if corruption.kind == "outliers":
        return uniform_outliers(truth, corruption.fraction, random_state=seed)
    if corruption.kind == "gaussian":
        return gaussian_noise(truth, corruption.fraction, level=corruption.level, random_state=seed)
    return occlusion(truth, (data.side, data.side), corruption.fraction, random_state=seed)


def oracle(matrix: Matrix, corruption: Corruption) -> Array:
    """Return an estimate of the best recovery by a linear method that knows which entries are wrong."""
    if corruption.kind == "outliers":
        return matrix.truth.copy()
    return inpaint(matrix) if corruption.kind == "occlusion" else wiener(matrix)


def wiener(matrix: Matrix) -> Array:
    """Return all rows, the corrupted ones denoised by PCA of the clean ones with Wiener weights of the true noise."""
    truth, X, bad = matrix.in_double()
    centre, out = truth[~bad].mean(axis=0), X.copy()
    _, s, V = np.linalg.svd(truth[~bad] - centre, full_matrices=False)
    variance = s**2 / max(int((~bad).sum()), 1)
    noise = np.mean(np.square(X[bad] - truth[bad]), axis=1, keepdims=True)
    out[bad] = ((X[bad] - centre) @ V.T * (variance / (variance + noise + 1e-300))) @ V + centre
    return out


def inpaint(matrix: Matrix) -> Array:
    """Return all rows with covered pixels replaced by their mean given the others, from the clean rows' covariance."""
    truth, X, bad = matrix.in_double()
    centre, out = truth[~bad].mean(axis=0), X.copy()
    C = np.cov(truth[~bad], rowvar=False)
    C.flat[:: len(C) + 1] += 1e-3 * np.trace(C) / len(C)
    for row in np.flatnonzero(bad):
        covered = X[row] != truth[row]
        seen = ~covered
        weights = np.linalg.solve(C[np.ix_(seen, seen)], X[row, seen] - centre[seen])
        out[row, covered] = centre[covered] + C[np.ix_(covered, seen)] @ weights
    return out
