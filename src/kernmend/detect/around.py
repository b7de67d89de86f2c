"""The score to be expected of a row, given the scores of its nearest rows: good rows are not all alike.

Views of an object with little detail are predicted well by the others and have low scores; views of one with much
detail have high scores. An error of the same size therefore leads to a lower score among the first than a good row has
among the second. Where the plain scores find nothing, `rows.py` subtracts what this module expects of each row.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.distances import squared_distances

# Number of nearest rows. The standard error of the median of 12 scores is a third of their spread.
NEAREST = 12
# Size of an error, in robust standard deviations, up to which it has full weight in the regression: 96 % efficient for
# normal errors.
HUBER = 1.5


@dataclass(frozen=True)
class Neighbours:
    """The score to be expected of a row: slope * (median score of its `NEAREST` rows of L - middle).

    `scores` are those of the rows of `L`, `middle` is their median, and `slope`, between 0 and 1, says how far scores
    follow those of the nearest rows. Errors differ from each other, so that the neighbours of a wrong row are good.
    """

    L: Array
    scores: Array
    middle: float
    slope: float

    @classmethod
    def of(cls, L: Array, scores: Array) -> "Neighbours":
        """Return the neighbours with the slope learned from the rows `L` and their scores, leave-one-out."""
        unit_slope = cls(L, scores, float(np.median(scores)), 1.0)
        return replace(unit_slope, slope=robust_slope(unit_slope.expected(L, np.arange(len(L))), scores))

    def against(self, L: Array, scores: Array) -> "Neighbours":
        """Return neighbours that are other rows `L` with other scores; the slope stays."""
        return replace(self, L=L, scores=scores, middle=float(np.median(scores)))

    def expected(self, Y: Array, left_out: NDArray[np.intp] | None = None) -> Array:
        """Return by how much the score of each row of Y is expected to exceed `middle`.

        `left_out` has for each row of Y the number of a row of L that does not count as its neighbour: itself, or the
        row that it was made from. The result is 0 where the slope is 0 or L has at most `NEAREST` rows.
        """
        if self.slope == 0.0 or len(self.L) <= NEAREST:
            return np.zeros(len(Y))
        nearest = nearest_rows(squared_distances(Y, self.L), left_out)
        out: Array = self.slope * (np.median(self.scores[nearest], axis=1) - self.middle)
        return out


def nearest_rows(distances: Array, left_out: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """Return the numbers of the `NEAREST` smallest columns of each row of distances, without the one left out.

    `distances` is overwritten.
    """
    if left_out is not None:
        distances[np.arange(len(distances)), left_out] = np.inf
    out: NDArray[np.intp] = np.argpartition(distances, NEAREST - 1, axis=1)[:, :NEAREST]
    return out


def robust_slope(x: Array, y: Array) -> float:
    """Return the slope of y on x, clipped to [0, 1], by Huber's regression: wrong rows have large errors.

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
