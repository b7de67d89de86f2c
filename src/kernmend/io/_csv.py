"""Text tables: csv, tsv and their relatives. Cells that are not mended are written back character by character."""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kernmend.io._cells import Verbatim
from kernmend.io._dataset import Request
from kernmend.io._decoding import LINES, Ends, Text, split_records, wide
from kernmend.io._files import FileError
from kernmend.io._grid import CELLS, Columns, TextFormat
from kernmend.io._header import LEAST_SAMPLE, SAMPLE, Header, find_header, has_groups, lines_above, units_note
from kernmend.io._number_format import is_number
from kernmend.io._tables import TextGrid, missing_texts
from kernmend.io._text import (
    BLANKS,
    aligned,
    cells,
    counted,
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


@dataclass(frozen=True, kw_only=True)
class CsvGrid(TextGrid):
    """The records of a text table and which of them are data."""

    delimiter: str
    found: Header
    above: int = 0
    """Number of records above the table that are not part of it."""
    below: int = 0
    """Number of records below it that are not."""
    comments: int = 0
    """Number of records inside it that are comments."""

    @property
    def format(self) -> str:
        """The name of the format."""
        return "tsv" if self.delimiter == "\t" else "csv"

    @property
    def decimals(self) -> tuple[str, str]:
        """The decimal signs: between semicolons decimal commas are tried first."""
        return (",", ".") if self.delimiter == ";" else (".", ",")

    @property
    def prefer_plain(self) -> bool:  # type: ignore[override]
        """Whether commas cannot be delimiters, so that they may stand between thousands."""
        return self.delimiter != ","

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

    def edited(self, number: int, texts: Mapping[int, str]) -> str:
        """Return a record with other texts in some cells; FileError for one that would be several cells."""
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
        return joined(parts, self.delimiter) + record[len(record.rstrip("\r\n")) :]

    def assumed(self, ask: Request, columns: Columns) -> tuple[str, ...]:
        """Return what was assumed of the table and not told, unless most tables are so."""
        return (*_notes(self), *_read_as(self, columns, ask.layout.told))

    def line(self, i: int) -> int:
        """Return the number of the line, from 1, in which record i begins."""
        return self.text.line(self.begin(i))

    def _uneven(self, i: int, width: int) -> str:
        """Return what is wrong with a record of another width."""
        have = counted(width, "cell")
        advice = f"mend the line, or quote cells that hold {self.delimiter!r}"
        expected = "1 is expected" if self.width == 1 else f"{self.width} are expected"
        return f"{self.path}: line {self.line(i):,} has {have} where {expected}: {advice}"


class Csv(TextFormat):
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

    def parse(self, text: Text, ask: Request) -> CsvGrid:
        """Return the table with its delimiter and header found; FileError if it has no rows or an open quote."""
        said = said_delimiter(text)
        delimiter = ask.layout.delimiter or said or guess_delimiter(text)
        ends, opened = split_records(text, delimiter)
        if opened is not None:
            raise FileError(f"{ask.path}: the quote opened in line {opened:,} is never closed: close it or double it")
        whole = CsvGrid(path=ask.path, text=text, ends=ends, rows=ends[:0], delimiter=delimiter, found=Header(False))
        filled = _filled(whole)
        if not len(filled):
            raise FileError(f"{ask.path}: holds {_nothing(whole)}")
        top = _top(whole, filled)
        missing = missing_texts(ask)
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
        if found.names and width == len(first) + 1:  # R names no index; some programs end rows with a delimiter
            first = [*first, ""] if not any(row[-1] for row in sample[1:]) else ["", *first]
        rows = filled[found.names + found.units :]
        below = _signature(whole, rows, len(first))
        rows = rows[: len(rows) - below]
        comments = _comments(whole, rows, len(first))
        rows = np.delete(rows, comments) if comments else rows
        if len(rows) and (len(first) == 1 or ask.blank):  # with one column an empty line is an empty cell
            rows = np.arange(rows[0], rows[-1] + 1, dtype=rows.dtype)
        whole = replace(whole, above=above, below=below, comments=len(comments))
        return replace(whole, header=first if found.names else None, rows=rows, width=len(first), found=found)


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


def _notes(grid: CsvGrid) -> list[str]:
    """Return what stands around the rows of a table and is kept, and what was taken for names and units."""
    notes = []
    for number, where in ((grid.above, "above"), (grid.below, "below")):
        if number:
            notes.append(f"{counted(number, 'line')} {where} the table {'is' if number == 1 else 'are'} kept.")
    if grid.comments == 1:
        notes.append("1 line in the table that begins with # is kept.")
    elif grid.comments:
        notes.append(f"{grid.comments} lines in it that begin with # are kept.")
    if grid.found.doubt:
        line = grid.line(int(grid.rows[0]) - 1 - grid.found.units)
        notes.append(f"The numbers in line {line} are taken for the names of the columns; say --no-header if not.")
    if grid.found.units:
        notes.append(units_note("line", grid.line(int(grid.rows[0])) - grid.found.units, grid.found.units))
    return notes


def _read_as(grid: CsvGrid, columns: Columns, told: Sequence[str]) -> list[str]:
    """Return a note on delimiter, decimal sign, thousands and letters, where they are unusual and nobody told them."""
    known = [one.format for one in columns.readings if one.format is not None]
    marks = sorted({one.thousands for one in known} - {""})
    between, letters = NAMES.get(grid.delimiter, repr(grid.delimiter)), grid.text.encoding
    found = {
        "delimiter": "" if grid.delimiter == "," else f"columns between {between}",
        "decimal": "decimal commas" if any(one.decimal == "," and one.most != 0 for one in known) else "",
        "thousands": f"thousands apart by {' and '.join(map(repr, marks))}" if marks else "",
        "encoding": "" if letters in ("utf-8", "utf-16-le", "utf-16-be") else f"letters as {letters}",
    }
    words = [text for name, text in found.items() if text and name not in told]
    return [f"Read with {', '.join(words)}."] if words else []


def _rewritten(cell: str, value: str, delimiter: str) -> str:
    """Return a cell with another value; in quotes if that holds the delimiter, as 1,469 does in a table of commas."""
    if delimiter == BLANKS:
        return aligned(cell, value or "NA")  # nothing at all would move the cells that follow
    if delimiter in value and not is_quoted(cell.strip()):
        return f'"{value}"'  # blanks before a quote would make it a part of the text
    return replaced(cell, value)
