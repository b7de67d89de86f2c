"""Generated data on curved surfaces."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from kernmend._typing import Array


@dataclass(frozen=True)
class Surface:
    """Clean rows and the distance of any point from the surface they lie on.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows on the surface.
    distance : callable
        Gives the distance of each row of an array from the surface.

    Examples
    --------
    >>> from kernmend.datasets import make_circle
    >>> make_circle(5).distance(np.array([[0.0, 3.0]]))
    array([2.])
    """

    X: Array
    distance: Callable[[Array], Array]


def make_circle(n_samples: int = 100, *, radius: float = 1.0, random_state: int = 0) -> Surface:
    """Return points at random angles on a circle in the plane, the paper's figure `toydata`.

    Parameters
    ----------
    n_samples : int, default=100
        Number of points.
    radius : float, default=1.0
        Radius of the circle.
    random_state : int, default=0
        Seed of the angles.

    Returns
    -------
    Surface
        The points, and the distance of any point from the circle.

    Examples
    --------
    >>> circle = make_circle(5)
    >>> circle.X.shape, bool(circle.distance(circle.X).max() < 1e-12)
    ((5, 2), True)
    """
    angle = np.random.default_rng(random_state).uniform(0.0, 2.0 * np.pi, n_samples)
    X = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return Surface(X, lambda points: np.abs(np.linalg.norm(points, axis=1) - radius))


# Names of the surfaces that `make_surface` knows.
SURFACES = ("circle", "two circles", "sphere", "torus", "swiss roll")


def make_surface(name: str, n_samples: int = 300, *, random_state: int = 0) -> Surface:
    """Return random points on one of `SURFACES`. Distances are to the nearest of 200,000 more points on it.

    Parameters
    ----------
    name : {"circle", "two circles", "sphere", "torus", "swiss roll"}
        Which surface.
    n_samples : int, default=300
        Number of points.
    random_state : int, default=0
        Seed of the points.

    Returns
    -------
    Surface
        The points, and the distance of any point from the surface.

    Examples
    --------
    >>> make_surface("torus", 50).X.shape
    (50, 3)
    """
    if name not in SURFACES:
        raise ValueError(f"there is no surface named {name!r}: choose from {', '.join(SURFACES)}")

    def distance(points: Array) -> Array:
        tree = cKDTree(_points(name, 200_000, np.random.default_rng(0)))
        return np.asarray(tree.query(points)[0])

    return Surface(_points(name, n_samples, np.random.default_rng(random_state)), distance)


def _points(name: str, n: int, rng: np.random.Generator) -> Array:
    """Return n random points on a surface."""
    u, v = rng.uniform(0.0, 2.0 * np.pi, (2, n))
    if name == "circle":
        return np.column_stack([np.cos(u), np.sin(u)])
    if name == "two circles":
        return np.column_stack([np.cos(u) + 3.0 * rng.integers(0, 2, n), np.sin(u)])
    if name == "sphere":
        X: Array = rng.standard_normal((n, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X
    if name == "torus":
        ring = 2.0 + 0.7 * np.cos(v)
        return np.column_stack([ring * np.cos(u), ring * np.sin(u), 0.7 * np.sin(v)])
    t = 1.5 * np.pi * (1.0 + u / np.pi)
    return np.column_stack([t * np.cos(t), 21.0 * v / (2.0 * np.pi), t * np.sin(t)])


def make_cubic_surface(n_samples: int = 100, n_features: int = 20, *, random_state: int = 0) -> Array:
    """Return X = Z P1' + 0.5 Z^2 P2' + 0.5 Z^3 P3' with Z uniform in [-1, 1]^2 and normal P.

    These are the data of the experiments on robust kernel PCA (RKPCA).

    Parameters
    ----------
    n_samples, n_features : int, default=100, 20
        Numbers of rows and columns.
    random_state : int, default=0
        Seed of Z and P.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        Rows on a surface of two dimensions that is bent in all directions.

    Examples
    --------
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

    Parameters
    ----------
    n_samples, n_features : int, default=1000, 64
        Numbers of positions and of columns.
    random_state : int, default=0
        Seed of the steps.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        The positions, in the order of time.

    Examples
    --------
    >>> make_random_walk(4, 6).shape
    (4, 6)
    """
    steps = np.random.default_rng(random_state).standard_normal((n_samples, n_features))
    X: Array = np.cumsum(steps, axis=0) / np.sqrt(n_samples)
    return X
