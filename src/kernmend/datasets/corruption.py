"""Seeded corruption: every function returns the corrupted data and the truth about what was corrupted."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array


class Corrupted(NamedTuple):
    """All rows after the corruption, and the mask of those that were corrupted."""

    X: Array
    rows: NDArray[np.bool_]


def _choose_rows(n_samples: int, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return the mask of a random fraction of the rows."""
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction!r}")
    rows = np.zeros(n_samples, dtype=bool)
    rows[rng.choice(n_samples, round(fraction * n_samples), replace=False)] = True
    return rows


def uniform_outliers(
    X: Array, fraction: float = 0.1, *, low: float | Array = -1.5, high: float | Array = 1.5, random_state: int = 0
) -> Corrupted:
    """Replace a fraction of the rows by points uniform in the box from `low` to `high`.

    Returned are all rows and which of them were corrupted.

    >>> X, rows = uniform_outliers(np.zeros((20, 2)), 0.1)
    >>> int(rows.sum()), bool((X[~rows] == 0).all())
    (2, True)
    """
    rng = np.random.default_rng(random_state)
    rows = _choose_rows(X.shape[0], fraction, rng)
    out = X.copy()
    out[rows] = rng.uniform(low, high, (int(rows.sum()), X.shape[1]))
    return Corrupted(out, rows)


# Readings of the level of the noise in the paper; `gaussian_noise` explains them.
LEVELS = ("energy", "literal", "released")
# Standard deviation per entry in the authors' released program, for rows of length 1.
RELEASED_STD = 0.05


def gaussian_noise(
    X: Array, fraction: float = 0.1, *, energy: float = 0.5, level: str = "energy", random_state: int = 0
) -> Corrupted:
    """Add normal noise to a fraction of the rows, by one of three readings of the paper; return all rows and which.

    `level="energy"`: of expected energy `energy` |x|^2, the reading that agrees with the paper's own table.
    `level="literal"`: standard deviation `energy` |x|^2 per entry, as the paper prints it: far more than the signal.
    `level="released"`: standard deviation 0.05 per entry, negative values set to 0, as the authors' program does on
    rows of unit length; the caller has to scale the rows.

    >>> X, rows = gaussian_noise(np.ones((10, 4)), 0.2)
    >>> int(rows.sum()), bool((X[rows] != 1).all())
    (2, True)
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(map(repr, LEVELS))}, got {level!r}")
    rng = np.random.default_rng(random_state)
    rows = _choose_rows(X.shape[0], fraction, rng)
    out = X.copy()
    lengths = np.linalg.norm(X[rows], axis=1, keepdims=True)
    spread: Array | float = np.sqrt(energy / X.shape[1]) * lengths
    if level != "energy":
        spread = energy * lengths**2 if level == "literal" else RELEASED_STD
    out[rows] += spread * rng.standard_normal((int(rows.sum()), X.shape[1]))
    if level == "released":
        out[rows] = np.maximum(out[rows], 0.0)
    return Corrupted(out, rows)


def occlusion(
    X: Array,
    shape: tuple[int, int],
    fraction: float = 0.1,
    *,
    n_blocks: int = 3,
    size: int = 4,
    value: float = 1.0,
    random_state: int = 0,
) -> Corrupted:
    """Set square blocks at random positions in a fraction of the flattened images to `value`.

    Returned are all images and which of them were corrupted.

    >>> X, rows = occlusion(np.zeros((10, 64)), (8, 8), 0.2, n_blocks=1)
    >>> (X[rows] == 1).sum(axis=1)
    array([16, 16])
    """
    rng = np.random.default_rng(random_state)
    rows = _choose_rows(X.shape[0], fraction, rng)
    out = X.copy()
    for image in np.flatnonzero(rows):
        pixels = out[image].reshape(shape)
        for _ in range(n_blocks):
            top, left = rng.integers(0, shape[0] - size + 1), rng.integers(0, shape[1] - size + 1)
            pixels[top : top + size, left : left + size] = value
    return Corrupted(out, rows)
