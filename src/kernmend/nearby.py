"""Groups of rows with a spread of their own: what is usual in a place, from the scores of the nearest rows.

Where groups differ in spread, scores tell the wide groups from the tight ones, not wrong rows from good ones. If most
rows of a place have high scores, that is how rows are there: a row is wrong there only if it stands out among them.
"""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.kernels import squared_distances

NEARBY = 12, 0.15  # rows at least, and of all: wrong rows in one place are fewer than half of that
ROUNDING = 1e-9  # of the median score: no usual score is less


def nearest_rows(X: Array, block: int = 512) -> NDArray[np.intp]:
    """Return for each row the others nearby, in no order; a block of rows at a time.

    >>> import numpy as np
    >>> sorted(nearest_rows(np.arange(30.0)[:, None] ** 2)[0].tolist())
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    """
    parts = []
    for start in range(0, X.shape[0], block):
        closeness = -squared_distances(X[start : start + block], X)
        rows = np.arange(closeness.shape[0])
        closeness[rows, start + rows] = -np.inf
        parts.append(closest(closeness))
    return np.concatenate(parts)


def closest(closeness: Array) -> NDArray[np.intp]:
    """Return the columns of the largest numbers in each row, as many as count as nearby: all but one at most."""
    n = closeness.shape[1]
    count = max(1, min(max(NEARBY[0], int(NEARBY[1] * n)), n - 1))
    out: NDArray[np.intp] = np.argpartition(closeness, -count, axis=1)[:, -count:]
    return out


def usual(scores: Array, nearby: NDArray[np.intp]) -> Array:
    """Return the median score of the rows nearby."""
    out: Array = np.maximum(np.median(scores[nearby], axis=1), ROUNDING * float(np.median(scores)))
    return np.maximum(out, np.finfo(np.float64).tiny)
