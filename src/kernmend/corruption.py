"""Seeded corruption: every function returns the corrupted data and the truth about what was corrupted."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array


class Corrupted(NamedTuple):
    """Corrupted data, and which rows were touched."""

    X: Array
    rows: NDArray[np.bool_]


def _choose_rows(n_samples: int, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction!r}")
    rows = np.zeros(n_samples, dtype=bool)
    rows[rng.choice(n_samples, round(fraction * n_samples), replace=False)] = True
    return rows


def uniform_outliers(
    X: Array, fraction: float = 0.1, *, low: float = -1.5, high: float = 1.5, random_state: int = 0
) -> Corrupted:
    """Replace a fraction of the rows by points uniform in [low, high]^d.

    >>> X, rows = uniform_outliers(np.zeros((20, 2)), 0.1)
    >>> int(rows.sum()), bool((X[~rows] == 0).all())
    (2, True)
    """
    rng = np.random.default_rng(random_state)
    rows = _choose_rows(X.shape[0], fraction, rng)
    out = X.copy()
    out[rows] = rng.uniform(low, high, (int(rows.sum()), X.shape[1]))
    return Corrupted(out, rows)


def gaussian_noise(X: Array, fraction: float = 0.1, *, energy: float = 0.5, random_state: int = 0) -> Corrupted:
    """Add normal noise of expected energy `energy` |x|^2 to a fraction of the rows (the reading `level="energy"`).

    >>> X, rows = gaussian_noise(np.ones((10, 4)), 0.2)
    >>> int(rows.sum()), bool((X[rows] != 1).all())
    (2, True)
    """
    rng = np.random.default_rng(random_state)
    rows = _choose_rows(X.shape[0], fraction, rng)
    out = X.copy()
    spread = np.sqrt(energy / X.shape[1]) * np.linalg.norm(X[rows], axis=1, keepdims=True)
    out[rows] += spread * rng.standard_normal((int(rows.sum()), X.shape[1]))
    return Corrupted(out, rows)
