"""Text tables cut into records and cells that keep every byte, and what the table's author meant by them."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernmend.io._files import FileError
from kernmend.io._number_format import is_number

# Delimiters that are tried.
DELIMITERS = (",", ";", "\t", "|", " ", "  ")
# The delimiter of columns that are aligned by any number of blanks; these belong to the cells, so that none is lost.
BLANKS = "  "
ALIGNED = re.compile(r"[ \t]*[^ \t]+(?:[ \t]+$)?")
# Texts that mean a missing value in Excel.
EXCEL_MISSING = frozenset(["#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"])
MISSING = EXCEL_MISSING | {"", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
"""Texts that mean a missing value, as in pandas."""
# Ends of lines: of Unix, of Windows, of old Macs.
LINE_END = re.compile(r"\r\n|\n|\r")
# A quoted cell, and the rest of one that began in an earlier line.
QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"(?!")')
QUOTE_END = re.compile(r'[^"]*(?:""[^"]*)*"(?!")')
# Characters, records, and cells of a record that the delimiter is guessed from.
SAMPLE = 2**16
SAMPLE_RECORDS = 50
SAMPLE_CELLS = 200
# Number of characters that are encoded at one time.
PIECE = 2**22


@dataclass(frozen=True)
class Text:
    """A decoded file that encodes to the same bytes."""

    text: str
    encoding: str
    mark: bytes

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Give a part of the text as bytes, a few at a time."""
        for at in range(start, stop, PIECE):
            yield self.text[at : min(at + PIECE, stop)].encode(self.encoding)


def decode(raw: bytes, path: Path, told: str | None = None) -> Text:
    """Return bytes as text: as told, or UTF-8, UTF-16 with a mark, or else the Windows code page, or Latin-1."""
    marks = {BOM_UTF8: "utf-8", BOM_UTF16_LE: "utf-16-le", BOM_UTF16_BE: "utf-16-be"}
    mark = next((mark for mark in marks if raw.startswith(mark)), b"")
    body = raw[len(mark) :] if mark else raw
    if told is not None:
        out = Text(_decoded_as(body, path, told, marks.get(mark)), marks.get(mark, told), mark)
    else:
        out = _decoded(body, path, mark, marks.get(mark, "utf-8"))
    if "\0" in out.text:
        raise FileError(f"{path}: has zero bytes, so it is no text: it is damaged or of another kind")
    return out


def _decoded(body: bytes, path: Path, mark: bytes, encoding: str) -> Text:
    """Return bytes as text in an encoding, or in those of Windows if nothing says that it must be that one."""
    for name in (encoding,) if mark else (encoding, "cp1252", "latin-1"):
        try:
            return Text(body.decode(name), name, mark)
        except UnicodeDecodeError:
            continue
    raise FileError(f"{path}: not sound {encoding} text: save it as UTF-8")


def _decoded_as(body: bytes, path: Path, told: str, marked: str | None) -> str:
    """Return bytes as text in the encoding that was told; FileError if they are not, or do not come back from it."""
    try:
        text = body.decode(marked or told)
        same = text.encode(marked or told) == body
    except LookupError:
        raise FileError(f"{path}: there is no encoding {told!r}: utf-8, cp1252 and utf-16-le are some") from None
    except UnicodeError as error:
        raise FileError(f"{path}: is not {told} text: leave out the encoding, or say another") from error
    if not same:
        raise FileError(f"{path}: would not be the same when written as {told} again: say another encoding")
    return text


def split_records(text: str, delimiter: str) -> tuple[NDArray[np.int64], int | None]:
    """Return where the records end, and the number of the line whose quote is never closed, if any.

    A record goes over several lines where a quoted cell does.
    """
    ends = np.fromiter((match.end() for match in LINE_END.finditer(text)), np.int64)
    if not len(ends) or ends[-1] < len(text):
        ends = np.append(ends, len(text)) if text else ends
    if '"' not in text:
        return ends, None
    closed: list[int] = []
    start, opened = 0, None
    for number, end in enumerate(ends.tolist(), start=1):
        if _stays_open(text[start:end], delimiter, opened is not None):
            opened = number if opened is None else opened
        else:
            closed.append(end)
            opened = None
        start = end
    return np.array(closed, dtype=np.int64), opened


def write_records(target: Path, text: Text, ends: NDArray[np.int64], new: Iterable[tuple[int, str]]) -> None:
    """Write a whole text with some of its records replaced, a piece at a time; these come in rising order."""
    done = 0
    with target.open("wb") as file:
        file.write(text.mark)
        for number, record in new:
            for piece in text.pieces(done, int(ends[number - 1]) if number else 0):
                file.write(piece)
            file.write(record.encode(text.encoding))
            done = int(ends[number])
        for piece in text.pieces(done, len(text.text)):
            file.write(piece)


def records(text: str, ends: NDArray[np.int64]) -> list[str]:
    """Return the records of a text with their line ends."""
    out, start = [], 0
    for end in ends.tolist():
        out.append(text[start:end])
        start = end
    return out


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
    return text


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
    """Return a cell with another value between the same quotes and blanks."""
    text = cell.strip()
    if not text:
        return value
    quote = '"' if is_quoted(text) else ""
    return cell.replace(text, f"{quote}{value}{quote}", 1)


def is_quoted(text: str) -> bool:
    """Return whether a text without blanks around it stands in quotes."""
    return len(text) >= 2 and text[0] == text[-1] == '"'


def guess_delimiter(text: str) -> str:
    """Return the delimiter that cuts the first records into equally many cells, most of them numbers."""
    sample = text[:SAMPLE]
    if len(text) > SAMPLE and "\n" in sample:
        sample = sample[: sample.rindex("\n") + 1]
    scores = {}
    for delimiter in DELIMITERS:
        lines = records(sample, split_records(sample, delimiter)[0])
        rows = [cells(line, delimiter) for line in lines if not is_empty(line, delimiter)][:SAMPLE_RECORDS]
        width, count = Counter(map(len, rows[1:] or rows)).most_common(1)[0] if rows else (1, 0)
        if width > 1:
            scores[delimiter] = (count >= 0.9 * len(rows[1:] or rows), _share_of_numbers(rows), width)
    return max(scores, key=scores.__getitem__, default=",")


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
