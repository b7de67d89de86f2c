"""What the neighbours of a row say of its score: good rows are not all alike."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.distances import squared_distances

NEAREST = 12  # neighbours; the standard error of their median is a third of the spread of scores
HUBER = 1.5  # robust standard deviations up to which errors count in full: 96 % efficient for normal ones


@dataclass(frozen=True)
class Around:
    """The score to be expected of a row: slope (median score of its nearest rows of L - middle).

    Views of a plain object are predicted better than those of a lively one, and an error of the same size has a lower
    score among them. Errors are unlike each other, so the neighbours of a wrong row are good ones.
    """

    L: Array
    scores: Array
    middle: float
    slope: float

    @classmethod
    def of(cls, L: Array, scores: Array) -> "Around":
        """Learn the slope from rows and their scores; 0 is that neighbours say nothing."""
        plain = cls(L, scores, float(np.median(scores)), 1.0)
        return replace(plain, slope=robust_slope(plain.expected(L, np.arange(len(L))), scores))

    def against(self, L: Array, scores: Array) -> "Around":
        """Return the same with other rows as neighbours."""
        return replace(self, L=L, scores=scores, middle=float(np.median(scores)))

    def expected(self, Y: Array, place: NDArray[np.intp] | None = None) -> Array:
        """Return how much higher the scores of rows should be than the middle.

        `place` says in the place of which rows of L these stand: those are no neighbours of theirs.
        """
        if self.slope == 0.0 or len(self.L) <= NEAREST:
            return np.zeros(len(Y))
        nearest = nearest_rows(squared_distances(Y, self.L), place)
        out: Array = self.slope * (np.median(self.scores[nearest], axis=1) - self.middle)
        return out


def nearest_rows(distances: Array, place: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """Return the nearest columns of each row of distances, without that in `place`."""
    if place is not None:
        distances[np.arange(len(distances)), place] = np.inf
    out: NDArray[np.intp] = np.argpartition(distances, NEAREST - 1, axis=1)[:, :NEAREST]
    return out


def robust_slope(x: Array, y: Array) -> float:
    """Return the slope of y on x, between 0 and 1, by Huber's regression: wrong rows have large errors.

    >>> x = np.arange(20.0)
    >>> round(robust_slope(x, 0.5 * x + 30.0 * (x == 3.0)), 1)
    0.5
    """
    x, y, weight, slope = x - np.median(x), y - np.median(y), np.ones(len(y)), 0.0
    for _ in range(10):
        slope = float((weight * x * y).sum() / max(float((weight * x * x).sum()), 1e-300))
        errors = y - slope * x
        errors -= np.median(errors)
        size = np.abs(errors) / max(1.4826 * float(np.median(np.abs(errors))), 1e-300)
        weight = HUBER / np.maximum(size, HUBER)
    return min(max(slope, 0.0), 1.0)
