"""Seeded corruption: every function returns the corrupted data and the truth about what was corrupted."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array


class Corrupted(NamedTuple):
    """All rows after the corruption, and the mask of those that were corrupted.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        All rows.
    rows : ndarray of bool, shape (n_samples,)
        Which were corrupted.

    Examples
    --------
    >>> from kernmend.datasets.corruption import uniform_outliers
    >>> X, rows = uniform_outliers(np.zeros((20, 2)), 0.1)
    >>> int(rows.sum())
    2
    """

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

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Clean rows; they are not changed.
    fraction : float, default=0.1
        Share of the rows to replace.
    low, high : float or ndarray of shape (n_features,), default=-1.5, 1.5
        The box.
    random_state : int, default=0
        Seed of the rows and points.

    Returns
    -------
    Corrupted
        All rows, and which were replaced.

    Examples
    --------
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

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Clean rows; they are not changed.
    fraction : float, default=0.1
        Share of the rows that get noise.
    energy : float, default=0.5
        How much, as above.
    level : {"energy", "literal", "released"}, default="energy"
        The reading of the paper.
    random_state : int, default=0
        Seed of the rows and the noise.

    Returns
    -------
    Corrupted
        All rows, and which have noise.

    Examples
    --------
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

    Parameters
    ----------
    X : ndarray of shape (n_samples, height * width)
        Clean images; they are not changed.
    shape : (int, int)
        Height and width.
    fraction : float, default=0.1
        Share of the images to cover.
    n_blocks : int, default=3
        Blocks in each.
    size : int, default=4
        Edge of a block in pixels.
    value : float, default=1.0
        What the covered pixels become.
    random_state : int, default=0
        Seed of the images and positions.

    Returns
    -------
    Corrupted
        All images, and which are covered.

    Examples
    --------
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


class CorruptedCells(NamedTuple):
    """All rows after the corruption, and the mask of the single cells that were corrupted.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        All rows.
    cells : ndarray of bool, shape (n_samples, n_features)
        Which cells were corrupted.

    Examples
    --------
    >>> from kernmend.datasets.corruption import wrong_cells
    >>> isinstance(wrong_cells(np.zeros((20, 3)), 0.1), CorruptedCells)
    True
    """

    X: Array
    cells: NDArray[np.bool_]


def wrong_cells(X: Array, fraction: float = 0.05, *, size: float = 6.0, random_state: int = 0) -> CorruptedCells:
    """Move one cell in each of a fraction of the rows by `size` times the spread of its column.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Clean rows; they are not changed.
    fraction : float, default=0.05
        Share of the rows that get one wrong cell.
    size : float, default=6.0
        How far a cell moves, up or down, in standard deviations of its column.
    random_state : int, default=0
        Seed of the rows, columns and directions.

    Returns
    -------
    CorruptedCells
        All rows, and which cells are wrong.

    Examples
    --------
    >>> X, cells = wrong_cells(np.eye(20), 0.1)
    >>> int(cells.sum()), bool((X == np.eye(20))[~cells].all())
    (2, True)
    """
    rng = np.random.default_rng(random_state)
    rows = np.flatnonzero(_choose_rows(X.shape[0], fraction, rng))
    columns = rng.integers(0, X.shape[1], rows.size)
    out, cells = X.copy(), np.zeros(X.shape, dtype=bool)
    out[rows, columns] += size * X.std(axis=0)[columns] * rng.choice([-1.0, 1.0], rows.size)
    cells[rows, columns] = True
    return CorruptedCells(out, cells)


def cosmic_rays(X: Array, fraction: float = 0.1, *, size: float = 1.0, random_state: int = 0) -> CorruptedCells:
    """Add one sharp spike, two channels wide, to each of a fraction of the spectra, as a cosmic ray leaves it.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_channels)
        Clean spectra; they are not changed.
    fraction : float, default=0.1
        Share of the spectra that are hit.
    size : float, default=1.0
        Mean height of a spike, as a share of the range of all values; each is 0.5 to 1.5 times that.
    random_state : int, default=0
        Seed of the spectra, positions and heights.

    Returns
    -------
    CorruptedCells
        All spectra, and which channels were hit.

    Examples
    --------
    >>> X, cells = cosmic_rays(np.eye(20), 0.1)
    >>> int(cells.sum(axis=1).max()), bool((X[cells] > np.eye(20)[cells]).all())
    (2, True)
    """
    rng = np.random.default_rng(random_state)
    rows = np.flatnonzero(_choose_rows(X.shape[0], fraction, rng))
    out, cells = X.copy(), np.zeros(X.shape, dtype=bool)
    for row, channel in zip(rows, rng.integers(0, X.shape[1] - 1, rows.size), strict=True):
        height = size * rng.uniform(0.5, 1.5) * np.ptp(X)
        out[row, channel : channel + 2] += height * np.array([1.0, 0.6])
        cells[row, channel : channel + 2] = True
    return CorruptedCells(out, cells)


def stuck_channel(X: Array, column: int, start: int, length: int) -> CorruptedCells:
    """Let one column repeat its value at `start` for `length` rows, as a sensor does that hangs.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Clean rows in the order of time; they are not changed.
    column : int
        The column that hangs.
    start, length : int
        The first row of the period and the number of its rows; the first one still has its own value.

    Returns
    -------
    CorruptedCells
        All rows, and which cells were replaced.

    Examples
    --------
    >>> stuck_channel(np.arange(8.0).reshape(4, 2), column=1, start=0, length=3).X[:, 1]
    array([1., 1., 1., 7.])
    """
    out, cells = X.copy(), np.zeros(X.shape, dtype=bool)
    period = slice(start + 1, start + length)
    out[period, column] = X[start, column]
    cells[period, column] = True
    return CorruptedCells(out, cells)
