"""Text tables: csv, tsv and their relatives. Cells that are not mended are written back character by character."""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._arrays import check_image_shape, choose
from kernmend.io._dataset import Dataset, Format, Mask, Request
from kernmend.io._files import FileError
from kernmend.io._numpy import no_member
from kernmend.io._text import (
    MISSING,
    Text,
    cells,
    decode,
    guess_delimiter,
    is_header,
    plain,
    replaced,
    split_records,
    unique,
)

# Bytes that do not occur in text.
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
# Characters that do not occur in numbers with a decimal point.
NOT_DIGITS = re.compile(r"[^0-9eE.+\-\s]")
# Characters that do not occur in whole numbers.
NOT_WHOLE = re.compile(r"[^0-9+\-\s]")
# Names of a first column, in lower case, that is taken for the names of the rows.
INDEX_NAMES = frozenset(["", "index", "id", "row", "unnamed: 0"])
# Number of records that are split into cells at one time: cells take far more memory than numbers.
BLOCK = 1000


@dataclass(frozen=True)
class Table:
    """The records of a file and which of them are data."""

    text: Text
    delimiter: str
    records: list[str]
    header: list[str] | None
    rows: list[int]
    width: int


@dataclass(frozen=True)
class Numbers:
    """All cells as numbers, NaN where missing or not a number, and what each column is made of."""

    values: Array
    present: NDArray[np.intp]
    bad: NDArray[np.intp]
    example: dict[int, tuple[int, str]]
    whole: Mask
    first: list[str]


class Csv(Format):
    """Text tables; delimiter, header, decimal sign, index and columns of other things are found from the content."""

    name = "csv"
    words = "a text table"
    endings = (".csv", ".tsv", ".tab")

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether this is text: no control characters, or UTF-16 that says so."""
        return bool(head) and (head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or not CONTROL.search(head))

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the columns of numbers."""
        no_member(ask)
        missing = MISSING | set(ask.missing)
        table = _cut(decode(ask.path.read_bytes(), ask.path), ask.path, missing)
        decimal, numbers = _best_numbers(table, ask.path, missing)
        for number in ask.missing_numbers:
            numbers.values[numbers.values == number] = np.nan
        names = None if table.header is None else unique(table.header)
        index = _index(table, numbers, ask)
        features = _features(numbers, names, index, ask)
        shown = names or tuple(f"column {j}" for j in range(table.width))

        def save(temporary: Path, A: Array, changed: Mask) -> None:
            text = _written(table, decimal, features, numbers.whole, A, changed)
            temporary.write_bytes(table.text.encode(text))

        return Dataset(
            X=np.ascontiguousarray(numbers.values[:, features]),
            columns=None if names is None else tuple(names[j] for j in features),
            row_labels=None if index is None else tuple(numbers.first),
            image_shape=check_image_shape(ask, len(features)),
            integer=numbers.whole[features],
            passed=tuple(shown[j] for j in np.setdiff1d(np.arange(table.width), features)),
            notes=_notes(numbers, shown),
            format="tsv" if table.delimiter == "\t" else "csv",
            source=ask.path,
            save=save,
        )


def _cut(text: Text, path: Path, missing: frozenset[str]) -> Table:
    """Return the table with its delimiter and header found; FileError if it has no rows or an open quote."""
    delimiter = guess_delimiter(_without_comments(text.text))
    records, opened = split_records(text.text, delimiter)
    if opened is not None:
        raise FileError(f"{path}: the quote opened in line {opened:,} is never closed: close it or double it")
    filled = [i for i, record in enumerate(records) if record.strip("\r\n")]
    while filled and records[filled[0]].startswith("#"):
        filled.pop(0)
    if not filled:
        raise FileError(f"{path}: holds no rows")
    first, *rest = filled
    top = [plain(cell) for cell in cells(records[first], delimiter)]
    sample = [[plain(cell) for cell in cells(records[i], delimiter)] for i in rest[:20]]
    width = len(sample[0]) if sample and len(sample[0]) == len(top) + 1 else len(top)
    named = is_header(top, [row for row in sample if len(row) == width], missing)
    rows = rest if named else filled
    if named and width == len(top) + 1:  # R leaves out the name of the index
        top = ["", *top]
    elif width != len(top):
        width = len(top)
    if width == 1 and rows:  # here an empty line is an empty cell
        rows = list(range(rows[0], rows[-1] + 1))
    return Table(text, delimiter, records, top if named else None, rows, width)


def _without_comments(text: str) -> str:
    """Return the text without the lines at its top that begin with #."""
    while text.startswith("#"):
        text = text.partition("\n")[2]
    return text


def _best_numbers(table: Table, path: Path, missing: frozenset[str]) -> tuple[str, Numbers]:
    """Return the decimal sign and the numbers: points, or commas where these leave fewer cells that are not numbers."""
    numbers = _numbers(table, ".", path, missing)
    if table.delimiter != "," and "," in table.text.text and numbers.bad.any():
        other = _numbers(table, ",", path, missing)
        if other.bad.sum() < numbers.bad.sum():
            return ",", other
    return ".", numbers


def _numbers(table: Table, decimal: str, path: Path, missing: frozenset[str]) -> Numbers:
    """Return all cells as numbers with the given decimal sign; FileError where a record has another width."""
    n, d = len(table.rows), table.width
    values = np.empty((n, d))
    present, bad = np.zeros(d, dtype=np.intp), np.zeros(d, dtype=np.intp)
    whole = np.ones(d, dtype=bool)
    example: dict[int, tuple[int, str]] = {}
    first: list[str] = []
    for start in range(0, n, BLOCK):
        block = [_checked_cells(table, i, path) for i in table.rows[start : start + BLOCK]]
        first += [plain(row[0]) for row in block]
        for j, column in enumerate(zip(*block, strict=True)):
            fast = _all_numbers(column) if decimal == "." else None
            if fast is not None:
                texts: list[str] = list(column)
                values[start : start + len(block), j] = fast
            else:
                texts = []
                for i, cell in enumerate(column, start=start):
                    text = plain(cell)
                    number = _number(text, decimal, missing)
                    values[i, j] = np.nan if number is None else number
                    if text not in missing:
                        texts.append(text)
                        if number is None:
                            bad[j] += 1
                            example.setdefault(j, (i, text))
            present[j] += len(texts)
            whole[j] &= NOT_WHOLE.search(" ".join(texts)) is None
    return Numbers(values, present, bad, example, whole, first)


def _checked_cells(table: Table, i: int, path: Path) -> list[str]:
    """Return the cells of record i; FileError if they are not as many as the table is wide."""
    row = cells(table.records[i], table.delimiter)
    if len(row) != table.width:
        line = sum(record.count("\n") or 1 for record in table.records[:i]) + 1
        raise FileError(
            f"{path}: line {line:,} has {len(row)} cells where {table.width} are expected: "
            f"mend the line, or quote cells that hold {table.delimiter!r}"
        )
    return row


def _all_numbers(column: tuple[str, ...]) -> list[float] | None:
    """Return a column of nothing but numbers, the fast way; None for others."""
    if NOT_DIGITS.search(" ".join(column)):  # also 1_000 and nan, which Python takes for numbers
        return None
    try:
        return list(map(float, column))
    except ValueError:
        return None


def _number(text: str, decimal: str, missing: frozenset[str]) -> float | None:
    """Return a number; None for a word, and for a missing value."""
    if text in missing or "_" in text or (decimal == "," and "." in text):
        return None
    try:
        number = float(text.replace(",", ".") if decimal == "," else text)
    except ValueError:
        return None
    return None if np.isnan(number) else number


def _index(table: Table, numbers: Numbers, ask: Request) -> int | None:
    """Return 0 if the first column names the rows: it is named so or not made of numbers, and no two cells agree."""
    distinct = len(set(numbers.first)) == len(numbers.first) and "" not in numbers.first
    if not distinct or table.width < 2:
        return None
    if numbers.bad[0] == numbers.present[0]:
        return 0
    if table.header is None or ask.columns is not None:
        return None
    return 0 if table.header[0].lower() in INDEX_NAMES and numbers.whole[0] else None


def _features(numbers: Numbers, names: tuple[str, ...] | None, index: int | None, ask: Request) -> NDArray[np.intp]:
    """Return the numbers of the columns to mend: those asked for, or all of numbers but the index."""
    numeric = (numbers.bad == 0) & (numbers.present > 0)
    if ask.columns is not None:
        chosen = choose(ask, names, len(numeric))
        for j in chosen[~numeric[chosen]]:
            name = str(j) if names is None else names[j]
            row, text = numbers.example.get(int(j), (0, ""))
            raise FileError(
                f"{ask.path}: column {name!r} is not made of numbers, row {row} has {text!r}: leave it out, or "
                "say that this means missing"
            )
        return chosen
    if index is not None:
        numeric[index] = False
    if not numeric.any():
        raise FileError(f"{ask.path}: no column of numbers was found: check that it is a table with a row per sample")
    return np.flatnonzero(numeric)


def _notes(numbers: Numbers, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note for each column most of whose cells are numbers: the others may be errors."""
    notes = []
    for j in np.flatnonzero((numbers.bad > 0) & (2 * numbers.bad < numbers.present)):
        row, text = numbers.example[int(j)]
        notes.append(
            f"column {names[j]!r} is passed through: {numbers.bad[j]} of its cells are not numbers, first {text!r} in "
            f"row {row}; say that this means missing to have it mended"
        )
    return tuple(notes)


def _written(table: Table, decimal: str, features: NDArray[np.intp], whole: Mask, A: Array, changed: Mask) -> str:
    """Return the whole text with the changed cells replaced."""
    records = list(table.records)
    for row in np.flatnonzero(changed.any(axis=1)):
        record = records[table.rows[row]]
        body = record.rstrip("\r\n")
        parts = cells(record, table.delimiter)
        for j in np.flatnonzero(changed[row]):
            at = features[j]
            parts[at] = replaced(parts[at], _shown(A[row, j], bool(whole[at]), decimal))
        records[table.rows[row]] = table.delimiter.join(parts) + record[len(body) :]
    return "".join(records)


def _shown(value: Any, whole: bool, decimal: str) -> str:
    """Return the shortest text that reads back as the same number; nothing for a missing one."""
    if np.isnan(value):
        return ""
    if whole:
        return str(int(value))
    return (repr(float(value)) if value.dtype == np.float64 else str(value)).replace(".", decimal)
