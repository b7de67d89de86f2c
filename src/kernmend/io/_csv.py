"""Text tables: csv, tsv and their relatives. Cells that are not mended are written back character by character."""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kernmend.io._cells import Cells, Edits, Verbatim
from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._decoding import LINES, Ends, Text, decode, split_records, wide, write_records
from kernmend.io._files import FileError
from kernmend.io._grid import CELLS, Columns, GridCells, find_columns, grid_dataset
from kernmend.io._header import LEAST_SAMPLE, SAMPLE, Header, find_header, has_groups, lines_above, units_note
from kernmend.io._number_format import is_number
from kernmend.io._numpy import no_member
from kernmend.io._text import (
    BLANKS,
    MISSING,
    aligned,
    cells,
    guess_delimiter,
    is_empty,
    is_quoted,
    joined,
    plain,
    replaced,
    said_delimiter,
)

# Bytes that do not occur in text.
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
# The beginning of a web page, which some programs write as a table of Excel.
MARKUP = re.compile(rb"\s*<(?:!doctype|html|table|\?xml)", re.IGNORECASE)
# The byte that comments begin with.
COMMENT = b"#"[0]
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks", BLANKS: "runs of blanks"}
"""Delimiters in words."""


@dataclass(frozen=True)
class CsvGrid:
    """The records of a file and which of them are data."""

    path: Path
    text: Text
    delimiter: str
    ends: Ends
    header: list[str] | None
    rows: Ends
    width: int
    found: Header
    above: int = 0
    """Number of records above the table that are not part of it."""
    below: int = 0
    """Number of records below it that are not."""
    comments: int = 0
    """Number of records inside it that are comments."""

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def record(self, i: int) -> str:
        """Return record i of the file with its line end."""
        return self.text.part(self.begin(i), int(self.ends[i]))

    def begin(self, i: int) -> int:
        """Return where record i begins."""
        return int(self.ends[i - 1]) if i else 0

    def cells(self, start: int, stop: int) -> list[list[str]]:
        """Return the cells of some rows as they stand there."""
        body, own, width, delimiter = self.text.body, self.text.own, self.width, self.delimiter
        numbers = self.rows[start:stop]
        ends = self.ends[numbers].tolist()
        begins = np.where(numbers > 0, self.ends[numbers - 1], 0).tolist()
        out = [cells(body[begin:end].decode(own), delimiter) for begin, end in zip(begins, ends, strict=True)]
        for i, row in zip(numbers.tolist(), out, strict=True):
            if len(row) != width:
                raise FileError(self._uneven(i, len(row)))
        return out

    @property
    def format(self) -> str:
        """The name of the format."""
        return "tsv" if self.delimiter == "\t" else "csv"

    def raw(self, row: int) -> list[str]:
        """Return the cells of a row as they stand there."""
        return self.cells(row, row + 1)[0]

    def accepts(self, text: str) -> bool:
        """Return whether a number may be written so."""
        return True

    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the whole text with other texts in some cells."""
        write_records(temporary, self.text, self.ends, (self._edited(row, texts) for row, texts in edits))

    def _edited(self, row: int, texts: Mapping[int, str]) -> tuple[int, str]:
        """Return the number of the record of a row, and that record with other texts in some cells."""
        number = int(self.rows[row])
        record = self.record(number)
        parts = cells(record, self.delimiter)
        for at, text in texts.items():
            if isinstance(text, Verbatim):
                if cells(text, self.delimiter) != [text]:
                    raise FileError(
                        f"{self.path}: {text[:40]!r} cannot stand in one cell of line {self.line(number):,}"
                    )
                parts[at] = text
            else:
                parts[at] = _rewritten(parts[at], text, self.delimiter)
        return number, joined(parts, self.delimiter) + record[len(record.rstrip("\r\n")) :]

    def upto(self, stop: int) -> "CsvGrid":
        """Return the grid with the first rows only."""
        return replace(self, rows=self.rows[:stop])

    def line(self, i: int) -> int:
        """Return the number of the line, from 1, in which record i begins."""
        return self.text.line(self.begin(i))

    def _uneven(self, i: int, width: int) -> str:
        """Return what is wrong with a record of another width."""
        have = f"{width} cell" if width == 1 else f"{width} cells"
        advice = f"mend the line, or quote cells that hold {self.delimiter!r}"
        expected = "1 is expected" if self.width == 1 else f"{self.width} are expected"
        return f"{self.path}: line {self.line(i):,} has {have} where {expected}: {advice}"


class Csv(Format):
    """Text tables; delimiter, header, decimal sign, index and columns of other things are found from the content."""

    name = "csv"
    words = "a text table"
    endings = (".csv", ".tsv", ".tab")
    layout = ("header", "delimiter", "decimal", "thousands", "encoding")

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether this is text: no control characters, but for those of UTF-16, and no web page."""
        if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            return True
        if MARKUP.match(head):
            return False
        head = head.rstrip(b"\x1a")  # with which DOS ends files
        return bool(head) and not CONTROL.search(head.replace(b"\0", b"") if wide(head) else head)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the columns of numbers."""
        return self.parse(ask.path.read_bytes(), ask)

    def parse(self, raw: bytes, ask: Request) -> Dataset:
        """Return the data set of a table whose bytes are given."""
        no_member(ask)
        text = decode(raw, ask.path, ask.layout.encoding)
        del raw
        grid = _cut(text, ask)
        return grid_dataset(grid, _columns, ask, format=grid.format, assumed=_assumed)

    def cells(self, ask: Request) -> Cells:
        """Return the cells of a table."""
        return self.parse_cells(ask.path.read_bytes(), ask)

    def parse_cells(self, raw: bytes, ask: Request) -> Cells:
        """Return the cells of a table whose bytes are given."""
        no_member(ask)
        grid = _cut(decode(raw, ask.path, ask.layout.encoding), ask)
        return GridCells(grid, lambda: _columns(grid, ask))


def _columns(grid: CsvGrid, ask: Request) -> Columns:
    """Return what the columns are made of: between semicolons decimal commas are tried first."""
    decimals = (",", ".") if grid.delimiter == ";" else (".", ",")
    return find_columns(grid, ask, decimals, prefer_plain=grid.delimiter != ",")


def _cut(text: Text, ask: Request) -> CsvGrid:
    """Return the table with its delimiter and header found; FileError if it has no rows or an open quote."""
    said = said_delimiter(text)
    delimiter = ask.layout.delimiter or said or guess_delimiter(text)
    ends, opened = split_records(text, delimiter)
    if opened is not None:
        raise FileError(f"{ask.path}: the quote opened in line {opened:,} is never closed: close it or double it")
    whole = CsvGrid(ask.path, text, delimiter, ends, None, np.arange(0), 0, Header(False))
    filled = _filled(whole)
    if not len(filled):
        raise FileError(f"{ask.path}: holds {_nothing(whole)}")
    top = _top(whole, filled)
    missing = frozenset(MISSING | set(ask.missing))
    above = 1 if said and len(top) > 1 else _preamble(top, missing, ask.layout.header)
    above += has_groups(top[above:], missing, ask.layout.header)
    filled, top = filled[above:], top[above:]
    first = top[0]
    if len(filled) == 1 and not any(map(is_number, first)):
        under = _nothing(whole, int(filled[0]) + 1)
        raise FileError(f"{ask.path}: no column of numbers was found: it has a header and {under} below")
    width = len(top[1]) if len(top) > 1 and len(top[1]) == len(first) + 1 else len(first)
    sample = [first, *(row for row in top[1:] if len(row) == width)]
    found = find_header(sample, missing, ask.layout.header)
    if found.names and width == len(first) + 1:  # R leaves out the name of the index; others end rows with a delimiter
        first = [*first, ""] if not any(row[-1] for row in sample[1:]) else ["", *first]
    rows = filled[found.names + found.units :]
    below = _signature(whole, rows, len(first))
    rows = rows[: len(rows) - below]
    comments = _comments(whole, rows, len(first))
    rows = np.delete(rows, comments) if comments else rows
    if len(rows) and (len(first) == 1 or ask.blank):  # with one column an empty line is an empty cell
        rows = np.arange(rows[0], rows[-1] + 1, dtype=rows.dtype)
    header = first if found.names else None
    return CsvGrid(ask.path, text, delimiter, ends, header, rows, len(first), found, above, below, len(comments))


def _nothing(grid: CsvGrid, below: int = 0) -> str:
    """Return what the records from number `below` on are that hold nothing: rows of empty cells, or no rows."""
    records = map(grid.record, range(below, len(grid.ends)))
    empty = any(grid.delimiter in record and not record.startswith("#") for record in records)
    return "only empty cells" if empty else "no rows"


def _top(grid: CsvGrid, filled: Ends) -> list[list[str]]:
    """Return what the cells of the first records say: enough for a header and those that it is compared with."""
    out: list[list[str]] = []
    for i in filled[: SAMPLE + 2].tolist():
        out.append([plain(cell) for cell in cells(grid.record(i), grid.delimiter)])
        if len(out) > LEAST_SAMPLE and sum(map(len, out)) > CELLS:
            break
    return out


def _preamble(top: list[list[str]], missing: frozenset[str], told: bool | None) -> int:
    """Return the number of records that stand above the table, as loggers write them.

    They stand above a header of words, or have fewer cells than most. A header may have one cell less than the rows, so
    it is at least two. `told` says whether there is a header.
    """
    above = 0 if told is False else lines_above(top, missing)
    if above:
        return above
    width = Counter(map(len, top)).most_common(1)[0][0]
    return next((k for k, row in enumerate(top) if len(row) >= width - 1), 0) if width > 2 else 0


def _comments(grid: CsvGrid, rows: Ends, width: int) -> list[int]:
    """Return which rows are comments inside a table: they begin with # and have another number of cells."""
    if b"#" not in grid.text.body:
        return []
    letters = np.frombuffer(grid.text.body, np.uint8)
    marked = np.flatnonzero(letters[np.where(rows > 0, grid.ends[rows - 1], 0)] == COMMENT).tolist()
    return [k for k in marked if len(cells(grid.record(int(rows[k])), grid.delimiter)) != width]


def _signature(grid: CsvGrid, rows: Ends, width: int) -> int:
    """Return the number of records that stand below a table: words in fewer cells than it has, as programs sign files.

    A row that was cut off has a number in its first cell, or nearly all cells.
    """
    for below, i in enumerate(rows[::-1][:SAMPLE].tolist()):
        parts = cells(grid.record(i), grid.delimiter)
        if len(parts) >= max(width - 1, 2) or is_number(plain(parts[0])):
            return below
    return 0


def _short(ends: Ends, most: int) -> Iterator[int]:
    """Give the numbers of the records that have at most so many bytes."""
    if len(ends) and ends[0] <= most:
        yield 0
    for start in range(0, len(ends), LINES):
        lengths = np.diff(ends[start : start + LINES + 1])
        yield from (start + 1 + np.flatnonzero(lengths <= most)).tolist()


def _filled(grid: CsvGrid) -> Ends:
    """Return the numbers of the records that are not empty, without comments at the top."""
    count = len(grid.ends)
    filled = np.ones(count, dtype=bool)
    width = grid.record(0).count(grid.delimiter) + 1 if count else 1
    for i in _short(grid.ends, 2 * width + 2):  # longer ones hold something, or blanks, which are seen later
        filled[i] = not is_empty(grid.record(i), grid.delimiter)
    numbers = np.arange(count, dtype=grid.ends.dtype)[filled]
    top = 0
    while top < len(numbers) and grid.record(int(numbers[top])).startswith("#"):
        top += 1
    return numbers[top:]


def _assumed(grid: CsvGrid, columns: Columns, ask: Request) -> tuple[str, ...]:
    """Return what was assumed of a table and not told, unless most tables are so, and how to say otherwise."""
    notes, told, text = [], ask.layout.told, grid.text
    if grid.above:
        lines = "1 line above the table is" if grid.above == 1 else f"{grid.above} lines above the table are"
        notes.append(f"{lines} kept.")
    if grid.below:
        lines = "1 line below the table is" if grid.below == 1 else f"{grid.below} lines below the table are"
        notes.append(f"{lines} kept.")
    if grid.comments:
        lines = "1 line in the table that begins" if grid.comments == 1 else f"{grid.comments} lines in it that begin"
        notes.append(f"{lines} with # {'is' if grid.comments == 1 else 'are'} kept.")
    if grid.found.doubt:
        line = grid.line(int(grid.rows[0]) - 1 - grid.found.units)
        notes.append(f"The numbers in line {line} are taken for the names of the columns; say --no-header if not.")
    if grid.found.units:
        notes.append(units_note("line", grid.line(int(grid.rows[0])) - grid.found.units, grid.found.units))
    known = [one.format for one in columns.readings if one.format is not None]
    marks = sorted({one.thousands for one in known} - {""})
    read_as = []
    if grid.delimiter != "," and "delimiter" not in told:
        read_as.append(f"columns between {NAMES.get(grid.delimiter, repr(grid.delimiter))}")
    if any(one.decimal == "," and one.most != 0 for one in known) and "decimal" not in told:
        read_as.append("decimal commas")
    if marks and "thousands" not in told:
        read_as.append(f"thousands apart by {' and '.join(map(repr, marks))}")
    if text.encoding not in ("utf-8", "utf-16-le", "utf-16-be") and "encoding" not in told:
        read_as.append(f"letters as {text.encoding}")
    if read_as:
        notes.append(f"Read with {', '.join(read_as)}.")
    return tuple(notes)


def _rewritten(cell: str, value: str, delimiter: str) -> str:
    """Return a cell with another value; in quotes if that holds the delimiter, as 1,469 does in a table of commas."""
    if delimiter == BLANKS:
        return aligned(cell, value or "NA")  # nothing at all would move the cells that follow
    if delimiter in value and not is_quoted(cell.strip()):
        return f'"{value}"'  # blanks before a quote would make it a part of the text
    return replaced(cell, value)
