"""Generated data on curved surfaces."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernmend._typing import Array


@dataclass(frozen=True)
class Surface:
    """Clean samples `X` and the distance of any point from the surface they lie on."""

    X: Array
    distance: Callable[[Array], Array]


def make_circle(n_samples: int = 100, *, radius: float = 1.0, random_state: int = 0) -> Surface:
    """Return points at random angles on a circle in the plane, the paper's figure `toydata`.

    >>> circle = make_circle(5)
    >>> circle.X.shape, bool(circle.distance(circle.X).max() < 1e-12)
    ((5, 2), True)
    """
    angle = np.random.default_rng(random_state).uniform(0.0, 2.0 * np.pi, n_samples)
    X = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return Surface(X, lambda points: np.abs(np.linalg.norm(points, axis=1) - radius))


def make_cubic_surface(n_samples: int = 100, n_features: int = 20, *, random_state: int = 0) -> Array:
    """Return X = Z P1' + 0.5 Z^2 P2' + 0.5 Z^3 P3' with Z uniform in [-1, 1]^2 and normal P, the protocol of RKPCA.

    >>> make_cubic_surface(4, 6).shape
    (4, 6)
    """
    rng = np.random.default_rng(random_state)
    Z = rng.uniform(-1.0, 1.0, (n_samples, 2))
    P1, P2, P3 = rng.standard_normal((3, n_features, 2))
    X: Array = Z @ P1.T + 0.5 * Z**2 @ P2.T + 0.5 * Z**3 @ P3.T
    return X


def make_random_walk(n_samples: int = 1000, n_features: int = 64, *, random_state: int = 0) -> Array:
    """Return the positions of one random walk, of length about 1 per feature: a long curve, for benchmarks.

    >>> make_random_walk(4, 6).shape
    (4, 6)
    """
    steps = np.random.default_rng(random_state).standard_normal((n_samples, n_features))
    X: Array = np.cumsum(steps, axis=0) / np.sqrt(n_samples)
    return X
