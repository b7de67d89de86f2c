"""Rows in lexicographic order, which is their own: it does not depend on that of the data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Columns that are looked at first, and the factor by which there are more each time that they do not tell all rows
# apart: of a picture a few pixels do.
_FIRST, _MORE = 8, 8


def lexicographic(rows: "np.ndarray[Any, Any]") -> NDArray[np.intp]:
    """Return the numbers of the rows in the order of their first column, then of the second, and so on; NaN comes last.

    Equal rows stay in the order they are in.

    >>> lexicographic(np.array([[0, 2, 1], [0, 1, 1], [0, 1, 0]])).tolist()
    [2, 1, 0]
    """
    some = np.flatnonzero((rows != rows[:1]).any(axis=0))
    count = _FIRST
    while True:
        part = rows[:, some[:count]]
        order: NDArray[np.intp] = np.lexsort(part.T[::-1]) if part.shape[1] else np.arange(len(rows))
        if count >= some.size or not same_as_before(part[order]).any():
            return order
        count *= _MORE


def same_as_before(rows: "np.ndarray[Any, Any]") -> NDArray[np.bool_]:
    """Return which of the rows, but for the first, are equal to the one before; NaN is equal to NaN."""
    after, before = rows[1:], rows[:-1]
    same: NDArray[np.bool_] = ((after == before) | ((after != after) & (before != before))).all(axis=1)
    return same
