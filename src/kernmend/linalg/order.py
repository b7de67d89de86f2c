"""Rows in lexicographic order, which is their own: it does not depend on that of the data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Columns that are looked at in one round. Few tell most rows apart, and only the others are looked at again.
_COLUMNS = 16


def lexicographic(rows: "np.ndarray[Any, Any]") -> NDArray[np.intp]:
    """Return the numbers of the rows in the order of their first column, then of the second, and so on; NaN comes last.

    Equal rows stay in the order they are in.

    >>> lexicographic(np.array([[0, 2, 1], [0, 1, 1], [0, 1, 0]])).tolist()
    [2, 1, 0]
    """
    if rows.shape[1] <= _COLUMNS:
        of_all: NDArray[np.intp] = np.lexsort(rows.T[::-1])
        return of_all
    place = np.zeros(len(rows), dtype=np.intp)  # in the order, of the first of the rows that are equal so far
    equal = np.arange(len(rows))
    for start in range(0, rows.shape[1], _COLUMNS):
        part = rows[equal, start : start + _COLUMNS]
        part = part[:, (part != part[:1]).any(axis=0)]
        if not part.shape[1]:
            continue
        order = np.lexsort((*part.T[::-1], place[equal]))
        equal, number = equal[order], np.arange(equal.size)
        group = _runs(np.diff(place[equal]) == 0)
        run = _runs((group[1:] == group[:-1]) & same_as_before(part[order]))
        place[equal] += run - group
        equal = equal[(run != number) | np.append(run[1:] == number[:-1], False)]
        if not equal.size:
            break
    out: NDArray[np.intp] = np.argsort(place, kind="stable")
    return out


def _runs(same: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return for each element the number of the first one of its run; `same` says which are like the one before."""
    number = np.arange(same.size + 1)
    number[1:][same] = 0
    out: NDArray[np.intp] = np.maximum.accumulate(number)
    return out


def same_as_before(rows: "np.ndarray[Any, Any]") -> NDArray[np.bool_]:
    """Return which of the rows, but for the first, are equal to the one before; NaN is equal to NaN."""
    after, before = rows[1:], rows[:-1]
    same: NDArray[np.bool_] = ((after == before) | ((after != after) & (before != before))).all(axis=1)
    return same
