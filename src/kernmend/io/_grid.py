"""A table of texts as numbers: what each column is made of, which columns are measured, and what was assumed.

Csv, Excel and JSON lines are read this way, each as a `Grid`, which gives its cells as texts and writes others.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._arrays import check_image_shape
from kernmend.io._cells import Cells, Edits, Places, is_same_number
from kernmend.io._dataset import Dataset, Format, Mask, Request
from kernmend.io._decoding import Text, decode
from kernmend.io._files import FileError
from kernmend.io._identifiers import LONGEST_NAME, distinct, measured, note
from kernmend.io._number_format import NumberFormat, is_number
from kernmend.io._shapes import Brief, Reading, Shapes, add_cells, best_readings
from kernmend.io._summaries import note as summaries_note
from kernmend.io._summaries import summary_rows
from kernmend.io._tables import Grid, TextGrid, missing_texts
from kernmend.io._text import MISSING, counted, plain, unique

# Names of a first column, in lower case, that is taken for the names of the rows.
INDEX_NAMES = frozenset(["", "index", "id", "row", "unnamed: 0"])
# Largest numbers of cells and of rows that are taken apart at one time: texts take 10 times the memory of the file, ...
CELLS, ROWS = 40_000, 2000
# ... and into how many such blocks a table is divided at least, so that this is a small part of a small file, too.
LEAST_BLOCKS = 16


class TableFormat(Format):
    """A kind of file that holds a table of texts."""

    @abstractmethod
    def grid(self, ask: Request) -> Grid:
        """Return the table of a file; FileError if there is none."""

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the columns of numbers."""
        return grid_dataset(self.grid(ask), ask)

    def cells(self, ask: Request) -> Cells:
        """Return the cells of the table."""
        grid = self.grid(ask)
        return GridCells(grid, lambda: find_columns(grid, ask))


class TextFormat(TableFormat):
    """A kind of text file that holds a table."""

    def grid(self, ask: Request) -> TextGrid:
        """Return the table of a file; FileError if there is none."""
        return self.parse(decode(ask.path.read_bytes(), ask.path, ask.layout.encoding), ask)

    @abstractmethod
    def parse(self, text: Text, ask: Request) -> TextGrid:
        """Return the table of a text; FileError if there is none."""


@dataclass(frozen=True)
class Columns:
    """What was found of the columns of a grid."""

    briefs: list[Brief]
    readings: list[Reading]
    names: tuple[str, ...] | None

    @property
    def numeric(self) -> Mask:
        """Which columns are numbers."""
        pairs = zip(self.readings, self.briefs, strict=True)
        return np.array([one.format is not None and brief.present > 0 for one, brief in pairs])

    @cached_property
    def apart(self) -> Mask:
        """Which columns are of another table: empty columns part them from one that has more than twice the rows."""
        present = np.array([brief.present for brief in self.briefs])
        block = np.cumsum(present == 0)
        rows = np.zeros(block[-1] + 1, dtype=np.intp)
        np.maximum.at(rows, block, present)
        return np.asarray((2 * rows < rows.max())[block] & (present > 0))

    def name(self, j: int) -> str:
        """Return the name of a column, or its number."""
        return f"column {j}" if self.names is None else self.names[j]

    def formats(self, features: Sequence[int]) -> tuple[NumberFormat, ...]:
        """Return how some columns write their numbers; the plain way for those that do not."""
        return tuple(self.readings[j].format or NumberFormat() for j in features)


def _blocks(grid: Grid) -> Iterator[tuple[int, int]]:
    """Give the first row of each block of rows, and the one after its last."""
    rows = max(1, min(ROWS, CELLS // grid.width, grid.height // LEAST_BLOCKS))
    for start in range(0, grid.height, rows):
        yield start, min(start + rows, grid.height)


def find_columns(grid: Grid, ask: Request) -> Columns:
    """Return what each column is made of, from the shapes of all its cells."""
    missing = missing_texts(ask)
    hidden = {text for text in ask.missing if any(letter.isdigit() for letter in text)}
    shapes = [Shapes(Counter(), {}) for _ in range(grid.width)]
    for start, stop in _blocks(grid):
        for own, cells in zip(shapes, zip(*grid.cells(start, stop), strict=True), strict=True):
            if hidden:  # a shape would hide them
                cells = tuple("" if plain(cell) in hidden else cell for cell in cells)
            add_cells(own, cells, start, plain, missing)
    told = ask.layout.decimal
    _, readings = best_readings(
        shapes, grid.decimals if told is None else (told,), ask.layout.thousands, prefer_plain=grid.prefer_plain
    )
    readings = [_with_exact_unit(grid, j, one, missing) for j, one in enumerate(readings)]
    return Columns([own.brief() for own in shapes], readings, None if grid.header is None else unique(grid.header))


def _with_exact_unit(grid: Grid, j: int, one: Reading, missing: frozenset[str]) -> Reading:
    """Return how a column reads after a look at each cell if its unit has a digit: m2 and m3 have one shape."""
    if one.format is None or not any(letter.isdigit() for letter in one.format.after):
        return one
    others = 0
    for start, stop in _blocks(grid):
        for i, row in enumerate(grid.cells(start, stop), start=start):
            text = plain(row[j])
            if text not in missing and any(map(str.isdigit, text)) and one.format.parse(text) is None:
                others += 1
                one = replace(one, word=(i, text)) if others == 1 else one
    return replace(one, format=None, others=others) if others else one


def grid_values(grid: Grid, columns: Columns, features: Sequence[int], ask: Request) -> Array:
    """Return some columns as numbers, NaN where they are missing or words."""
    X = np.empty((grid.height, len(features)))
    formats = columns.formats(features)
    hidden = set(ask.missing) - ask.missing_numbers.keys()
    for start, stop in _blocks(grid):
        by_column = list(zip(*grid.cells(start, stop), strict=True))
        for k, j in enumerate(features):
            cells: Sequence[str] = by_column[j]
            if hidden:
                cells = ["" if plain(cell) in hidden else cell for cell in cells]
            X[start:stop, k] = formats[k].parse_all(cells, plain)
        del by_column  # before the next block is read
    return ask.without_missing(X)


def grid_dataset(grid: Grid, ask: Request) -> Dataset:
    """Return the data set of the columns that are measured, without rows at the end that sum up the others."""
    columns, labels, chosen, X = _values(grid, ask)
    formats = columns.formats(chosen.tolist())
    last, sums = summary_rows(X, formats, lambda i: [plain(cell) for cell in grid.raw(i)])
    if sums:
        del X
        grid = grid.upto(last)
        columns, labels, chosen, X = _values(grid, ask)
        formats = columns.formats(chosen.tolist())
    identifiers: dict[str, str] = {}
    if ask.columns is None:
        names = [columns.name(j) for j in chosen.tolist()]
        whole = np.array([one.whole for one in formats])
        keep, identifiers = measured(names, X, whole, np.array([columns.briefs[j].zeros for j in chosen]))
        chosen, X = chosen[keep], X if keep.all() else np.ascontiguousarray(X[:, keep])
        formats = columns.formats(chosen.tolist())
    formats = tuple(one.without_noise(X[:, k]) for k, one in enumerate(formats))
    left, index = np.setdiff1d(np.arange(grid.width), chosen).tolist(), None if labels is None else labels[0]
    named = columns.names is not None or identifiers  # so that a model finds its columns again
    notes = (*grid.assumed(ask, columns), *summaries_note(sums), *note(identifiers))
    return Dataset(
        X=X,
        columns=tuple(columns.name(j) for j in chosen.tolist()) if named else None,
        row_labels=None if labels is None else labels[1],
        image_shape=check_image_shape(ask, len(chosen)),
        integer=np.array([one.whole for one in formats]),
        formats=formats,
        passed=tuple(columns.name(j) for j in left),
        why_passed={columns.name(j): _why_left(columns, j, ask, index) for j in left} | identifiers,
        notes=(*notes, *_notes(columns, set(chosen.tolist()))),
        format=grid.format,
        source=ask.path,
        cells=GridCells(grid, lambda: columns, chosen, formats),
        places=chosen,
    )


def _values(grid: Grid, ask: Request) -> tuple[Columns, tuple[int, tuple[str, ...]] | None, NDArray[np.intp], Array]:
    """Return the columns of a grid, the names of its rows, the numbers of the columns to look at, and their values."""
    columns = find_columns(grid, ask)
    labels = _labels(grid, columns, ask)
    chosen = _chosen(columns, ask, index=None if labels is None else labels[0])
    return columns, labels, chosen, grid_values(grid, columns, chosen.tolist(), ask)


def _why_left(columns: Columns, j: int, ask: Request, index: int | None) -> str:
    """Return why a column is passed through that is no identifier; `index` is that which names the rows."""
    if j == index:
        return "names the rows"
    if not columns.briefs[j].present:
        return "empty"
    if columns.apart[j] and ask.columns is None:
        return "stands apart from the table"
    if columns.numeric[j]:
        return "not asked for" if ask.columns is not None else "to be kept"
    return "numbers with several units" if columns.readings[j].others else "not made of numbers"


class GridCells(Cells):
    """The cells of a table of texts.

    `columns()` finds what they are made of, which is needed for new values only; `formats` says how the columns with
    the numbers `chosen`, which rise, write mended numbers.
    """

    def __init__(
        self,
        grid: Grid,
        columns: Callable[[], Columns],
        chosen: Places | tuple[()] = (),
        formats: Sequence[NumberFormat] = (),
    ) -> None:
        self._grid, self._find, self._chosen, self._formats = grid, columns, chosen, formats
        self.columns = None if grid.header is None else unique(grid.header)
        self.height, self.width = grid.height, grid.width

    @cached_property
    def _found(self) -> Columns:
        return self._find()

    def texts(self, rows: Places, columns: Places) -> list[str]:
        """Return what stands in some cells, quotes and blanks included."""
        out, last = [], -1
        parts: Sequence[str] = ()
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            if row != last:
                last, parts = row, self._grid.raw(row)
            out.append(parts[column])
        return out

    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the file with other texts in some cells."""
        self._grid.save(temporary, edits)

    def label(self, row: int) -> str | None:
        """Return what the first cell of a row says."""
        return plain(self._grid.raw(row)[0])

    def is_label(self, row: int, label: str) -> bool:
        """Return whether a text stands in some cell of a row: any column may name the rows."""
        return any(plain(cell) == label for cell in self._grid.raw(row))

    def written(self, values: Array, columns: Places) -> list[str]:
        """Return the texts of numbers as their columns write them; nothing for a missing one."""
        places = np.searchsorted(self._chosen, columns).tolist()
        return [self._formats[k].write(value) for value, k in zip(values, places, strict=True)]

    def same(self, column: int, text: str, other: str) -> bool:
        """Return whether two texts say the same: but for quotes and blanks, as numbers, or as missing."""
        one, two = plain(text), plain(other)
        return one == two or is_same_number(one, two) or (one in MISSING and two in MISSING)

    def wrong(self, column: int, text: str) -> str | None:
        """Return what is wrong with a text that is to be a number as the column writes them, or missing."""
        if text in MISSING:
            return None
        reading, brief = self._found.readings[column], self._found.briefs[column]
        format = reading.format
        if format is None and 2 * reading.bad >= brief.present:
            return "stands in a column that is not made of numbers"
        value = None if format is None else format.parse(text)
        if value is not None and not math.isfinite(value):
            return "is too large for a number"
        known = is_number(text) if format is None else value is not None
        marked = format is not None and (format.thousands or format.before or format.after)
        if known and (marked or self._grid.accepts(text)):
            return None
        example = f", such as {brief.example!r}" if brief.example else ""
        return f"is not a number as the column writes them{example}"


def _labels(grid: Grid, columns: Columns, ask: Request) -> tuple[int, tuple[str, ...]] | None:
    """Return which column names the rows, and their names: the first that does, of words or named so, no two alike."""
    for j in range(grid.width if grid.width > 1 else 0):
        reading, present = columns.readings[j], columns.briefs[j].present
        words = present > 0 and reading.format is None and reading.words == present
        header = None if grid.header is None else grid.header[j].lower()
        named = j == 0 and header in INDEX_NAMES and reading.format is not None and reading.format.whole
        if not words and (not named or ask.columns is not None):
            continue
        names = distinct(plain(row[j]) for start, stop in _blocks(grid) for row in grid.cells(start, stop))
        if names is not None and (j == 0 or max(map(len, names)) <= LONGEST_NAME):
            return j, names
    return None


def _chosen(columns: Columns, ask: Request, index: int | None) -> NDArray[np.intp]:
    """Return the numbers of the columns to look at: those asked for, or all of numbers but the index."""
    numeric, names = columns.numeric, columns.names
    if ask.columns is not None:
        chosen = ask.chosen(names, len(numeric))
        for j in chosen[~numeric[chosen]]:
            raise FileError(_not_numbers(columns, int(j), ask))
        return chosen
    kept = numeric & ~columns.apart
    kept[ask.kept(names, len(numeric))] = False
    if index is not None:
        kept[index] = False
    if not kept.any():
        if numeric.any() and ask.keep:
            raise FileError(f"{ask.path}: holds no column of numbers but those to keep")
        raise FileError(f"{ask.path}: no column of numbers was found: check that it is a table with a row per sample")
    return np.flatnonzero(kept)


def _not_numbers(columns: Columns, j: int, ask: Request) -> str:
    """Return why a column that was asked for cannot be mended."""
    row, text = columns.readings[j].word or (0, "")
    name = columns.name(j) if columns.names is None else repr(columns.name(j))
    where = f"{ask.path}: {'' if columns.names is None else 'column '}{name}"
    if not columns.briefs[j].present:
        return f"{where} is empty: leave it out"
    return f"{where} is not made of numbers, row {row} has {text!r}: leave it out, or say --missing {_shell(text)}"


def _notes(columns: Columns, chosen: set[int]) -> tuple[str, ...]:
    """Return notes on columns with numbers in brackets, and on those some of whose cells are no numbers.

    These are taken as missing, or the column is passed through.
    """
    notes = []
    apart = [columns.name(j) for j in np.flatnonzero(columns.apart & columns.numeric).tolist() if j not in chosen]
    if apart:
        some = ", ".join(apart[:6]) + (", ..." if len(apart) > 6 else "")
        notes.append(f"Another table beside this one is kept as it is: {some}; --columns decides which are mended.")
    bracketed = [j for j in chosen if (format := columns.readings[j].format) and format.minus.after == ")"]
    if bracketed:
        some = ", ".join(columns.name(j) for j in sorted(bracketed)[:6]) + (", ..." if len(bracketed) > 6 else "")
        notes.append(f"Numbers in brackets are taken for negative ones: {some}.")
    for j, (one, brief) in enumerate(zip(columns.readings, columns.briefs, strict=True)):
        if not one.bad or one.word is None or 2 * one.bad >= brief.present:
            continue
        row, text = one.word
        cells = counted(one.bad, "cell")
        if j in chosen:
            verb = "is no number and counts" if one.bad == 1 else "are no numbers and count"
            notes.append(f"column {columns.name(j)!r}: {cells} {verb} as missing, first {text!r} in row {row}")
        elif one.format is None:
            verb = "has another unit" if one.others else "is no number"
            verb = verb if one.bad == 1 else verb.replace("has", "have").replace("is no number", "are no numbers")
            advice = "" if one.others else f"; to have it mended say --missing {_shell(text)}"
            notes.append(
                f"column {columns.name(j)!r} is passed through: {cells} {verb}, first {text!r} in row {row}{advice}"
            )
    return tuple(notes)


def _shell(text: str) -> str:
    """Return a text as it is typed on the command line."""
    return text if text.isalnum() else "'" + text.replace("'", "'\\''") + "'"
