"""Text tables cut into records and cells that keep every byte, and what the table's author meant by them."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from kernmend.io._files import FileError

# Delimiters that are tried.
DELIMITERS = (",", ";", "\t", "|", " ")
# Texts that mean a missing value in Excel.
EXCEL_MISSING = frozenset(["#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"])
MISSING = EXCEL_MISSING | {"", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
"""Texts that mean a missing value, as in pandas."""
# A number with a decimal point or comma, or infinity.
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
# A quoted cell, and the rest of one that began in an earlier line.
QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"(?!")')
QUOTE_END = re.compile(r'[^"]*(?:""[^"]*)*"(?!")')
# Characters, records, and cells of a record that the delimiter is guessed from.
SAMPLE = 2**16
SAMPLE_RECORDS = 50
SAMPLE_CELLS = 200


@dataclass(frozen=True)
class Text:
    """A decoded file that encodes to the same bytes."""

    text: str
    encoding: str
    mark: bytes

    def encode(self, text: str) -> bytes:
        """Return the bytes of another text in the same encoding."""
        return self.mark + text.encode(self.encoding)


def decode(raw: bytes, path: Path) -> Text:
    """Return bytes as text: UTF-8, UTF-16 with a mark, or else Latin-1, in which any bytes are text."""
    marks = {BOM_UTF8: "utf-8", BOM_UTF16_LE: "utf-16-le", BOM_UTF16_BE: "utf-16-be"}
    mark = next((mark for mark in marks if raw.startswith(mark)), b"")
    body = raw[len(mark) :]
    encoding = marks.get(mark, "utf-8")
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8" or mark:
            raise FileError(f"{path}: not sound {encoding} text: save it as UTF-8") from error
        encoding = "latin-1"
        text = body.decode(encoding)
    if "\0" in text:
        raise FileError(f"{path}: has zero bytes, so it is no text: it is damaged or of another kind")
    return Text(text, encoding, mark)


def split_records(text: str, delimiter: str) -> tuple[list[str], int | None]:
    """Return the records with their line ends, and the number of the line whose quote is never closed, if any.

    A record goes over several lines where a quoted cell does.
    """
    lines = StringIO(text, newline="").readlines()
    if '"' not in text:
        return lines, None
    records: list[str] = []
    held: list[str] = []
    opened = None
    for number, line in enumerate(lines, start=1):
        inside = bool(held)
        held.append(line)
        if _stays_open(line, delimiter, inside):
            opened = number if not inside else opened
        else:
            records.append("".join(held))
            held, opened = [], None
    return records, opened


def _stays_open(line: str, delimiter: str, inside: bool) -> bool:
    """Return whether a quoted cell is open at the end of a line; `inside`: one was at its beginning."""
    at = 0
    while True:
        quoted = inside or line.startswith('"', at)
        if quoted:
            match = (QUOTE_END if inside else QUOTED).match(line, at)
            if match is None:
                return True
            at = match.end()
        inside = False
        at = line.find(delimiter, at) + 1
        if not at:
            return False


def cells(record: str, delimiter: str) -> list[str]:
    """Return the cells of a record as they stand there, quotes and blanks included."""
    body = record.rstrip("\r\n")
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


def plain(cell: str) -> str:
    """Return what a cell says, without quotes and blanks around it."""
    text = cell.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('""', '"').strip()
    return text


def replaced(cell: str, value: str) -> str:
    """Return a cell with another value between the same quotes and blanks."""
    text = cell.strip()
    if not text:
        return value
    quote = '"' if len(text) >= 2 and text[0] == text[-1] == '"' else ""
    return cell.replace(text, f"{quote}{value}{quote}", 1)


def is_number(text: str) -> bool:
    """Return whether a text is a number, with a decimal point or comma."""
    return NUMBER.fullmatch(text) is not None


def guess_delimiter(text: str) -> str:
    """Return the delimiter that cuts the first records into equally many cells, most of them numbers."""
    sample = text[:SAMPLE]
    if len(text) > SAMPLE and "\n" in sample:
        sample = sample[: sample.rindex("\n") + 1]
    scores = {}
    for delimiter in DELIMITERS:
        records = [record for record in split_records(sample, delimiter)[0] if record.strip("\r\n")]
        rows = [cells(record, delimiter) for record in records[:SAMPLE_RECORDS]]
        width, count = Counter(map(len, rows[1:] or rows)).most_common(1)[0] if rows else (1, 0)
        if width > 1:
            scores[delimiter] = (count >= 0.9 * len(rows[1:] or rows), _share_of_numbers(rows), width)
    return max(scores, key=scores.__getitem__, default=",")


def _share_of_numbers(rows: list[list[str]]) -> float:
    """Return the share of the cells below the first record that are numbers or missing."""
    texts = [plain(cell) for row in rows[1:] or rows for cell in row[:SAMPLE_CELLS]]
    return sum(text in MISSING or is_number(text) for text in texts) / len(texts)


def is_header(first: Sequence[str], rows: Sequence[Sequence[str]], missing: frozenset[str]) -> bool:
    """Return whether the first record names the columns.

    It does if it has no number; if a word stands above numbers; if only its first cell is empty, above an index; or if
    it counts 0, 1, 2, ...: the names that pandas gives.
    """
    if not rows or all(text in missing for text in first):
        return False
    if len(first) < len(rows[0]):
        return True
    words = [j for j, text in enumerate(first) if not is_number(text) and text not in missing]
    if len(words) == sum(text not in missing for text in first):
        return True
    if any(all(is_number(row[j]) for row in rows) for j in words):
        return True
    count = [str(j) for j in range(len(first))]
    if first[0] == "":
        return all(row[0] not in missing for row in rows) and len(set(first)) == len(first)
    return len(first) > 2 and list(first) == count and not all(list(row) == count for row in rows)


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
