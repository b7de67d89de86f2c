"""Pictures of `benchmarks real`: pixels in [0, 1] or rows of unit length, with errors that cameras and people make."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits, load_sample_image

from benchmarks.real_sample import Sample, some_rows
from kernmend.datasets import MissingDataError, load_coil20, load_mnist, rotate_images
from kernmend.datasets.corruption import gaussian_noise, occlusion

SIZES = (100, 300)
KINDS = ("noise", "occlusion", "salt and pepper", "stripe", "intruders", "clean")


@dataclass(frozen=True)
class Pictures:
    """Flattened square pictures with values in [0, 1]; `draw(n, rng)` returns n of them."""

    side: int
    draw: Callable[[int, np.random.Generator], np.ndarray]
    intruder: str

    def corrupted(self, n: int, kind: str, rng: np.random.Generator, *, unit: bool) -> Sample:
        """Return n pictures with one kind of error; scaled to unit length after that, if asked for."""
        truth = self.draw(n, rng)
        X, bad = self._errors(truth, kind, rng)
        if unit:
            X, truth = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (X, truth))
        return Sample(X, bad, truth)

    def _errors(self, truth: np.ndarray, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        seed, n = int(rng.integers(2**31)), len(truth)
        if kind == "noise":
            return tuple(gaussian_noise(truth, random_state=seed))
        if kind == "occlusion":
            size = max(2, round(self.side / 7.5))
            return tuple(occlusion(truth, (self.side, self.side), size=size, random_state=seed))
        X, bad = truth.copy(), np.zeros(n, dtype=bool)
        if kind == "clean":
            return X, bad
        bad[some_rows(n, 0.3 if kind.startswith("salt") else 0.1, rng)] = True
        if kind == "salt and pepper":
            hit = (rng.uniform(size=X.shape) < 0.25) & bad[:, np.newaxis]
            X[hit] = rng.integers(0, 2, int(hit.sum()))
        elif kind == "stripe":
            width = max(1, self.side // 8)
            for row in np.flatnonzero(bad):
                left = int(rng.integers(self.side // 4, 3 * self.side // 4 - width + 1))
                X[row].reshape(self.side, self.side)[:, left : left + width] = 0.0
            bad &= (truth != X).any(axis=1)
        else:
            X[bad] = _resized(PICTURES[self.intruder], int(bad.sum()), self.side, rng)
        return X, bad

    def new_rows(self, kind: str, rng: np.random.Generator) -> Sample:
        """Return clean pictures to fit to, and others of which a tenth is corrupted."""
        truth = self.draw(400, rng)
        X, bad = self._errors(truth[200:], kind, rng)
        return Sample(X, bad, truth[200:], None, truth[:200])


def _resized(other: Pictures, n: int, side: int, rng: np.random.Generator) -> np.ndarray:
    images = other.draw(n, rng).reshape(n, other.side, other.side)
    return np.array([np.clip(zoom(image, side / other.side, order=1), 0, 1).ravel() for image in images])


def _digits(n: int, rng: np.random.Generator) -> np.ndarray:
    X = load_digits(return_X_y=True)[0] / 16.0
    return X[rng.permutation(len(X))[:n]]


def _mnist(*digits: int) -> Callable[[int, np.random.Generator], np.ndarray]:
    return lambda n, rng: load_mnist(n, digits=digits, random_state=int(rng.integers(2**31)))


def _coil(objects: tuple[int, ...], *, turned: bool) -> Callable[[int, np.random.Generator], np.ndarray]:
    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        views = _views(objects)
        X = views[rng.permutation(np.tile(np.arange(len(views)), 1 + n // len(views)))[:n]]
        return rotate_images(X, (32, 32), rng.uniform(-90, 90, n)) if turned else views[rng.permutation(len(views))[:n]]

    return draw


@cache
def _views(objects: tuple[int, ...]) -> np.ndarray:
    coil = load_coil20()
    return np.asarray(coil.X, dtype=float)[np.isin(coil.labels, objects)]


@cache
def _photograph() -> np.ndarray:
    return load_sample_image("china.jpg").mean(axis=2) / 255.0


def _patches(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return patches of 16 × 16 pixels of a photograph of a temple."""
    image = _photograph()
    tops, lefts = rng.integers(0, image.shape[0] - 16, n), rng.integers(0, image.shape[1] - 16, n)
    return np.array([image[top : top + 16, left : left + 16].ravel() for top, left in zip(tops, lefts, strict=True)])


PICTURES = {
    "digits": Pictures(8, _digits, "MNIST 2/3"),
    "MNIST 2/3": Pictures(28, _mnist(2, 3), "patches"),
    "MNIST 7/9": Pictures(28, _mnist(7, 9), "patches"),
    "patches": Pictures(16, _patches, "MNIST 2/3"),
}
try:
    load_coil20()
except MissingDataError:
    pass
else:
    PICTURES |= {
        "COIL one object": Pictures(32, _coil((1,), turned=True), "MNIST 2/3"),
        "COIL five objects": Pictures(32, _coil((1, 2, 3, 4, 5), turned=False), "MNIST 2/3"),
        "COIL objects 6-10": Pictures(32, _coil((6, 7, 8, 9, 10), turned=False), "patches"),
    }


def picture_cases() -> Iterator[tuple[str, str, Callable[[np.random.Generator], Sample]]]:
    """Yield name, kind and what makes the sample; the kind says the scale and the number of rows."""
    for name, pictures in PICTURES.items():
        for unit in (False, True):
            for n in SIZES:
                for kind in KINDS:
                    yield (
                        f"{name}: {'unit length' if unit else '[0, 1]'}, {n}",
                        kind,
                        lambda rng, p=pictures, n=n, k=kind, u=unit: p.corrupted(n, k, rng, unit=u),
                    )
