"""Records of text tables cut into cells that keep every character, and what the table's author meant by them."""

import re
from collections import Counter
from collections.abc import Sequence
from numbers import Number
from typing import Any

from kernmend.io._decoding import QUOTED, Text, split_records
from kernmend.io._number_format import is_number

# Delimiters that are tried.
DELIMITERS = (",", ";", "\t", "|", " ", "  ")
# The delimiter of columns that are aligned by any number of blanks; these belong to the cells, so that none is lost.
BLANKS = "  "
ALIGNED = re.compile(r"[ \t]*[^ \t]+(?:[ \t]+$)?")
# Texts that mean a missing value in Excel.
EXCEL_MISSING = frozenset(["#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"])
MISSING = EXCEL_MISSING | {"", "-NaN", "-nan", "<NA>", "N/A", "NA", "NAN", "NULL", "NaN", "None", "n/a", "nan", "null"}
"""Texts that mean a missing value, as in pandas; and NAN, as loggers write it."""
# A line in which Excel says the delimiter.
SAID = re.compile(r'"?sep=([^\s"]|\t)"?\r?\n', re.IGNORECASE)
# Ends of lines: of Unix, of Windows, of old Macs.
LINE_END = re.compile(rb"\r\n|\n|\r")
# Numbers of bytes, of records, and of cells of a record that the delimiter is guessed from.
SAMPLE, SAMPLE_RECORDS, SAMPLE_CELLS = 2**16, 50, 200


def cells(record: str, delimiter: str) -> list[str]:
    """Return the cells of a record as they stand there, quotes and blanks included."""
    body = record.rstrip("\r\n")
    if delimiter == BLANKS:
        return ALIGNED.findall(body) or [body]
    if '"' not in body:
        return body.split(delimiter)
    out = []
    at = 0
    while True:
        match = QUOTED.match(body, at)
        end = body.find(delimiter, match.end() if match else at)
        if end < 0:
            out.append(body[at:])
            return out
        out.append(body[at:end])
        at = end + 1


def is_empty(record: str, delimiter: str) -> bool:
    """Return whether nothing but delimiters is in a record: Excel ends tables with such lines."""
    return not record.strip(f"{delimiter} \t\r\n")


def plain(cell: str) -> str:
    """Return what a cell says, without quotes and blanks around it."""
    text = cell.strip()
    if is_quoted(text):
        return text[1:-1].replace('""', '"').strip()
    return text[1:-1].strip() if is_quoted(text, "'") else text


def joined(parts: Sequence[str], delimiter: str) -> str:
    """Return a record from its cells."""
    return ("" if delimiter == BLANKS else delimiter).join(parts)


def aligned(cell: str, value: str) -> str:
    """Return a cell with another value that ends where the old one did, as columns of blanks want it."""
    text = cell.strip()
    start = cell.index(text)
    blanks = max(start + len(text) - len(value), min(start, 1))
    return " " * blanks + value + cell[start + len(text) :]


def replaced(cell: str, value: str) -> str:
    """Return a cell with another value between the same quotes and blanks.

    >>> replaced(' " $5.00 "', "$12.50"), replaced("''", "7")
    (' " $12.50 "', "'7'")
    """
    text = cell.strip()
    if not text:
        return value
    if is_quoted(text) or is_quoted(text, "'"):
        inner = text[1:-1].strip()
        start = text.index(inner, 1)
        value = text[:start] + value + text[start + len(inner) :]
    return cell.replace(text, value, 1)


def is_quoted(text: str, quote: str = '"') -> bool:
    """Return whether a text without blanks around it stands in quotes; single ones do not hide a delimiter."""
    return len(text) >= 2 and text[0] == text[-1] == quote


def said_delimiter(text: Text) -> str | None:
    """Return the delimiter that the first line says, as Excel writes and reads it: `sep=;`; None if it does not."""
    match = SAID.match(text.part(0, text.body.find(b"\n", 0, 20) + 1))
    return match[1] if match else None


def guess_delimiter(text: Text) -> str:
    """Return the delimiter that cuts the first records into equally many cells, most of them numbers."""
    sample = _first_lines(text.body)
    scores, runs = {}, False
    for delimiter in DELIMITERS:
        part = Text(sample, text.own, own=text.own)
        ends = split_records(part, delimiter)[0].tolist()
        lines = [part.part(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        rows = [cells(line, delimiter) for line in lines if not is_empty(line, delimiter)][:SAMPLE_RECORDS]
        width, count = Counter(map(len, rows[1:] or rows)).most_common(1)[0] if rows else (1, 0)
        if width > 1:
            scores[delimiter] = (count >= 0.9 * len(rows[1:] or rows), _share_of_numbers(rows), width)
            runs = runs or (delimiter == " " and not all(all(row) for row in rows))
    if runs and scores.get(BLANKS, (False,))[0]:  # a blank more or less does not make cells
        del scores[" "]
    return max(scores, key=scores.__getitem__, default=",")


def _first_lines(body: bytes) -> bytes:
    """Return the first lines of a text, as many as are in a sample and at least two, without comments at the top."""
    at = 0
    while body.startswith(b"#", at) and (comment := LINE_END.search(body, at)):
        at = comment.end()
    first = LINE_END.search(body, at)
    second = LINE_END.search(body, first.end()) if first else None
    last = max(body.rfind(b"\n", at, at + SAMPLE), body.rfind(b"\r", at, at + SAMPLE)) + 1
    return body[at : max(last, second.end() if second else len(body))]


def _share_of_numbers(rows: list[list[str]]) -> float:
    """Return the share of the cells below the first record that are numbers or missing."""
    texts = [plain(cell) for row in rows[1:] or rows for cell in row[:SAMPLE_CELLS]]
    return sum(text in MISSING or is_number(text) for text in texts) / len(texts)


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return names that differ: an empty one becomes `column 3`, a second `x` becomes `x (2)`."""
    taken = set(names)
    seen: set[str] = set()
    out = []
    for j, name in enumerate(names):
        new = base = name or f"column {j}"
        number = 2
        while new in seen or (new != name and new in taken):
            new = f"{base} ({number})"
            number += 1
        seen.add(new)
        out.append(new)
    return tuple(out)


def texts_of(given: Any) -> tuple[str, ...]:
    """Return several names or values as texts; a single one may be given by itself, None is none.

    >>> texts_of("x"), texts_of(["x", 3]), texts_of(-999), texts_of(None)
    (('x',), ('x', '3'), ('-999',), ())
    """
    return (str(given),) if isinstance(given, (str, Number)) else tuple(map(str, () if given is None else given))


def counted(number: int, what: str) -> str:
    """Return a number with what it counts.

    >>> counted(1, "line"), counted(2, "line")
    ('1 line', '2 lines')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
