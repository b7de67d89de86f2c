"""Rows that a user knows: a column of a table says of some that they are good, or wrong."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend.io._dataset import Dataset, place_of
from kernmend.io._files import FileError
from kernmend.io._text import MISSING, plain

GOOD = frozenset(["good", "ok", "right", "clean"])
WRONG = frozenset(["wrong", "bad", "faulty", "dirty"])
UNKNOWN = frozenset([*(text.lower() for text in MISSING), "?", "unknown"])
"""What a column may say of a row, in any case of letters."""


LABELS = "holds the labels: which rows are good or wrong"
"""Why a column that says so is passed over."""


class Known(NamedTuple):
    """Masks of the rows that are known to be good, and of those that are known to be wrong; the column that says so."""

    good: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    column: str | None = None


def known_rows(words: Sequence[Any], column: str, where: str) -> Known:
    """Return what words, one a row, say of the rows; FileError, which names the first that says neither.

    >>> known_rows(["good", "", "Wrong"], "checked", "data.csv").wrong.tolist()
    [False, False, True]
    """
    said = ["" if word is None or word != word else plain(str(word)).lower() for word in words]
    for row, word in enumerate(said):
        if word not in GOOD | WRONG | UNKNOWN:
            advice = "it must say good, wrong, or nothing"
            raise FileError(f"{where}: column {column!r} says {str(words[row])[:40]!r} of row {row}: {advice}")
    return Known(np.array([word in GOOD for word in said]), np.array([word in WRONG for word in said]), column)


def known_in_file(data: Dataset, column: str) -> Known:
    """Return what a column of a file says of the rows of its data set; FileError if there is none."""
    names = data.cells.columns or tuple(f"column {j}" for j in range(data.cells.width))
    place = place_of(column, names, len(names))
    if place is None:
        raise FileError(f"{data.source}: has no column {column!r} that says which rows are good or wrong")
    if place in data.places:
        raise FileError(f"{data.source}: column {column!r} is made of numbers: it must say good, wrong, or nothing")
    rows = np.arange(len(data.X)) if data.rows is None else data.rows
    return known_rows(data.cells.texts(rows, np.full(len(rows), place)), names[place], str(data.source))
