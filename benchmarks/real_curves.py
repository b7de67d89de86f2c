"""Curves and surfaces of `benchmarks real`: random or regular points, outliers farther off than 5 % of the extent."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.real_sample import Sample, some_rows

SHARES = (0.01, 0.03, 0.1, 0.3)
SIZES = (60, 300, 1500)
OFF = 0.05  # of the extent: nearer outliers are drawn again
BOX = 1.5  # times the bounding box


@dataclass(frozen=True)
class Curve:
    """Points at parameters u, v in [0, 1]; `line` has no v."""

    at: Callable[[np.ndarray, np.ndarray], np.ndarray]
    line: bool

    def points(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return self.at(*rng.uniform(size=(2, n)))

    def grid(self, n: int) -> np.ndarray:
        """Return about n points at regular parameters."""
        if self.line:
            return self.at(np.linspace(0, 1, n, endpoint=False), np.zeros(n))
        side = round(np.sqrt(n))
        u, v = np.meshgrid(np.linspace(0, 1, side, endpoint=False), np.linspace(0, 1, side, endpoint=False))
        return self.at(u.ravel(), v.ravel())

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.points(100_000, np.random.default_rng(0)))

    def outliers(self, X: np.ndarray, share: float, rng: np.random.Generator) -> Sample:
        out, rows = X.copy(), some_rows(len(X), share, rng)
        low, high = X.min(axis=0), X.max(axis=0)
        centre, half = (low + high) / 2, BOX * (high - low) / 2
        for row in rows:
            while True:
                out[row] = rng.uniform(centre - half, centre + half)
                if self._tree.query(out[row])[0] > OFF * (high - low).max():
                    break
        return Sample.of(X, out)

    def new_rows(self, rng: np.random.Generator) -> Sample:
        later = self.outliers(self.points(300, rng), 0.2, rng)
        return Sample(later.X, later.bad, later.truth, None, self.points(300, rng))


def _torus(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    ring = 2.0 + 0.7 * np.cos(2 * np.pi * v)
    return np.column_stack([ring * np.cos(2 * np.pi * u), ring * np.sin(2 * np.pi * u), 0.7 * np.sin(2 * np.pi * v)])


def _sphere(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    z = 2 * v - 1
    ring = np.sqrt(1 - z**2)
    return np.column_stack([ring * np.cos(2 * np.pi * u), ring * np.sin(2 * np.pi * u), z])


def _swiss_roll(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    t = 1.5 * np.pi * (1 + 2 * u)
    return np.column_stack([t * np.cos(t), 21 * v, t * np.sin(t)])


def _s_curve(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    t = 3 * np.pi * (u - 0.5)
    return np.column_stack([np.sin(t), 2 * v, np.sign(t) * (np.cos(t) - 1)])


def _two_circles(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    turn = 4 * np.pi * u
    return np.column_stack([np.cos(turn) + 3.0 * (u >= 0.5), np.sin(turn)])


CURVES = {
    "circle": Curve(lambda u, v: np.column_stack([np.cos(2 * np.pi * u), np.sin(2 * np.pi * u)]), True),
    "two circles": Curve(_two_circles, True),
    "sphere": Curve(_sphere, False),
    "torus": Curve(_torus, False),
    "swiss roll": Curve(_swiss_roll, False),
    "S-curve": Curve(_s_curve, False),
    "helix": Curve(lambda u, v: np.column_stack([np.cos(6 * np.pi * u), np.sin(6 * np.pi * u), 3 * u]), True),
    "parabola": Curve(lambda u, v: np.column_stack([2 * u - 1, (2 * u - 1) ** 2]), True),
}


def curve_cases() -> Iterator[tuple[str, str, int, Callable[[np.random.Generator], Sample]]]:
    """Yield name, kind, seed and what makes the sample; the kind says the share and the number of rows."""
    for name, curve in CURVES.items():
        for n in SIZES:
            repeats = range(1 if n == SIZES[-1] else 2)
            for share in SHARES:
                if share * n < 1:
                    continue
                for seed in repeats:
                    kind = f"{100 * share:.0f} % of {n}"
                    yield name, kind, seed, lambda rng, c=curve, n=n, s=share: c.outliers(c.points(n, rng), s, rng)
            for seed in repeats:
                yield name, f"clean {n}", seed, lambda rng, c=curve, n=n: Sample.clean(c.points(n, rng))
        yield name, "clean grid 300", 0, lambda rng, c=curve: Sample.clean(c.grid(300))
        yield name, "10 % of grid 300", 0, lambda rng, c=curve: c.outliers(c.grid(300), 0.1, rng)
