"""A file as cells of text: what stands in each, and the file written again with other texts in some of them.

A change log is about such cells. In a table of texts they are what stands between the delimiters, quotes and blanks
included; in a file of numbers they are the shortest texts that read back as the same numbers.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._files import FileError

# A number without anything around it.
PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
Edits: TypeAlias = Iterable[tuple[int, Mapping[int, str]]]
"""New texts by column for some rows, which come in rising order."""
Places: TypeAlias = NDArray[np.intp]
Raw: TypeAlias = NDArray[Any]
SaveArray: TypeAlias = Callable[[Path, Raw], None]
"""Writes the file to a temporary path with another array in it."""


@dataclass(frozen=True)
class NewValues:
    """Numbers that are to be written to cells of a file: of rows in which nothing is new nothing is kept.

    `rows` (k,) and `columns` (d,) are the numbers of rows, which rise, and of columns in the file, `values` (k, d) what
    is to stand there, and `new` (k, d) which of that is new.
    """

    rows: Places
    columns: Places
    values: Array
    new: NDArray[np.bool_]

    @classmethod
    def among(cls, A: Array, new: NDArray[np.bool_], columns: Places) -> "NewValues":
        """Return those of a matrix of all rows."""
        rows = np.flatnonzero(new.any(axis=1))
        return cls(rows, columns, A[rows], new[rows])


class Verbatim(str):
    """A text that is the whole cell, with its quotes and blanks; other texts are put where the old value stood."""

    __slots__ = ()


class Cells(ABC):
    """The cells of a file, by row and column from 0. All columns count, also those that are not mended."""

    columns: tuple[str, ...] | None
    height: int
    width: int
    exact: bool = True
    """Whether what is written is read back as the same: pictures that are compressed with loss are not."""

    @abstractmethod
    def texts(self, rows: Places, columns: Places) -> list[str]:
        """Return what stands in some cells."""

    @abstractmethod
    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the file to a temporary path with other texts in some cells."""

    def put(self, temporary: Path, mended: NewValues) -> None:
        """Write the file to a temporary path with other numbers in some cells."""
        self.save(temporary, self._edits(mended))

    def _edits(self, mended: NewValues) -> Edits:
        """Give rows in which something is new, with the texts of the new numbers."""
        for row, values, new in zip(mended.rows.tolist(), mended.values, mended.new, strict=True):
            columns = mended.columns[new]
            yield row, dict(zip(columns.tolist(), self.written(values[new], columns), strict=True))

    def label(self, row: int) -> str | None:
        """Return the name of a row; None if rows have none."""
        return None

    def is_label(self, row: int, label: str) -> bool:
        """Return whether a row has a name, or none at all."""
        return self.label(row) in (None, label)

    @abstractmethod
    def written(self, values: Array, columns: Places) -> list[str]:
        """Return the texts of numbers as they would be read back after they were written to cells of these columns."""

    @abstractmethod
    def same(self, column: int, text: str, other: str) -> bool:
        """Return whether two texts say the same in a column."""

    @abstractmethod
    def wrong(self, column: int, text: str) -> str | None:
        """Return what is wrong with a text as a new value in a column; None if it can stand there."""


def is_same_number(text: str, other: str) -> bool:
    """Return whether two texts are the same number, as programs write numbers.

    >>> is_same_number("1.50", "1.5"), is_same_number("1_0", "10"), is_same_number("", "")
    (True, False, False)
    """
    return bool(PLAIN.fullmatch(text) and PLAIN.fullmatch(other)) and float(text) == float(other)


class ArrayCells(Cells):
    """The cells of an array (n, ...) of any type of numbers; those of a float that is missing are empty.

    `save(temporary, new)` writes the file with another array, of the same type and shape.
    """

    def __init__(
        self, raw: Raw, path: Path, save: SaveArray, *, labels: Sequence[str] | None = None, exact: bool = True
    ) -> None:
        self._raw, self._path, self._save, self._labels = raw, path, save, labels
        self.columns = None
        self.height, self.width = len(raw), int(np.prod(raw.shape[1:], dtype=np.int64))
        self.exact = exact

    def texts(self, rows: Places, columns: Places) -> list[str]:
        """Return the numbers of some cells as texts."""
        return number_texts(self._raw[_index(self._raw, rows, columns)])

    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the file with other numbers in some cells, given as texts."""
        new = self._raw.copy(order="K")
        for row, texts in edits:
            columns = np.array([*texts], dtype=np.intp)
            new[_index(new, np.full(len(columns), row), columns)] = parsed(list(texts.values()), new.dtype)
        self._save(temporary, new)

    def put(self, temporary: Path, mended: NewValues) -> None:
        """Write the file with other numbers in some cells."""
        self._save(temporary, with_values(self._raw, mended, self._path))

    def label(self, row: int) -> str | None:
        """Return the name of a row: that of a picture."""
        return None if self._labels is None else self._labels[row]

    def written(self, values: Array, columns: Places) -> list[str]:
        """Return the texts of numbers in the array's type."""
        return number_texts(cast(values, self._raw.dtype, self._path))

    def same(self, column: int, text: str, other: str) -> bool:
        """Return whether two texts are the same number of the array's type."""
        try:
            one, two = parsed([text, other], self._raw.dtype)
        except ValueError:
            return False
        return bool(one == two or (one != one and two != two))

    def wrong(self, column: int, text: str) -> str | None:
        """Return what is wrong with a text that is to be a number of the array's type."""
        return wrong_number(text, self._raw.dtype)


def number_texts(values: NDArray[Any]) -> list[str]:
    """Return numbers as the shortest texts that read back as the same; nothing for NaN.

    >>> number_texts(np.array([0.1, np.nan, 3.0], dtype=np.float32))
    ['0.1', '', '3.0']
    """
    if values.dtype.kind == "f":
        return ["" if value != value else str(value) for value in values]
    return [str(int(value)) for value in values.tolist()]


def parsed(texts: Sequence[str], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return texts as numbers of a type; ValueError if one is none."""
    if dtype.kind == "f":
        return np.array([dtype.type(text) if text else np.nan for text in texts], dtype=dtype)
    values = [int(text) for text in texts]
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not all(low <= value <= high for value in values):
        raise ValueError(f"not within {low} and {high}")
    return np.array(values, dtype=dtype)


def wrong_number(text: str, dtype: np.dtype[Any]) -> str | None:
    """Return what is wrong with a text that is to be a number of a type; None if it is one."""
    what = "a number" if dtype.kind == "f" else "a whole number"
    try:
        (value,) = parsed([text], dtype)
    except (ValueError, OverflowError):
        return f"is not {what} of the type {dtype.name}"
    if "_" in text or (dtype.kind == "f" and np.isinf(value)):
        return f"is not {what} that can be written"
    return None


def with_values(raw: Raw, mended: NewValues, path: Path) -> Raw:
    """Return a copy of an array, of the same type and memory order, with the numbers that are new."""
    new = raw.copy(order="K")
    rows, columns = np.nonzero(mended.new)
    new[_index(raw, mended.rows[rows], mended.columns[columns])] = cast(mended.values[mended.new], raw.dtype, path)
    return new


def _index(raw: Raw, rows: Places, columns: Places) -> tuple[Places, ...]:
    """Return where cells stand in an array (n, ...): its columns are counted along all axes but the first."""
    return (rows, *np.unravel_index(columns, raw.shape[1:])) if raw.ndim > 1 else (rows,)


def cast(values: Array, dtype: np.dtype[Any], path: Path | str) -> Raw:
    """Return values in another number type: rounded and kept within its range where that is needed."""
    if dtype.kind == "f":
        if dtype.itemsize < values.itemsize:
            values = np.clip(values, np.finfo(dtype).min, np.finfo(dtype).max)
        return values.astype(dtype)
    if np.isnan(values).any():
        raise FileError(f"{path}: cannot mark values as missing in an array of whole numbers: store it as floats")
    if dtype.kind == "b":
        return values >= 0.5
    info = np.iinfo(dtype)
    high = float(info.max)
    if int(high) > info.max:  # 2^63 - 1 is not a float
        high = float(np.nextafter(high, 0))
    return np.clip(np.rint(values.astype(np.float64)), float(info.min), high).astype(dtype)
