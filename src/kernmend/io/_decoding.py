"""A text file as its bytes: cut into records there, and decoded a few records at a time.

As a string it would take up to four times the memory: one letter outside Latin-1 makes all the others as wide.
"""

import re
import warnings
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend.io._files import FileError

Ends: TypeAlias = NDArray[np.int32 | np.int64]
"""Numbers of bytes; of 4 bytes each if that suffices, since there may be as many lines as a quarter of the bytes."""
MARKS = {BOM_UTF8: "utf-8", BOM_UTF16_LE: "utf-16-le", BOM_UTF16_BE: "utf-16-be"}
"""Encodings by the mark that a file begins with."""
# A quoted cell, and the rest of one that began in an earlier line.
QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"(?!")')
QUOTE_END = re.compile(r'[^"]*(?:""[^"]*)*"(?!")')
FEED, RETURN = b"\n"[0], b"\r"[0]
# Number of bytes that tell UTF-16 without a mark.
HEAD = 1024
# Number of bytes that are looked at together.
PIECE = 2**20
# Number of lines that are looked at together.
LINES = 10_000


@dataclass(frozen=True)
class Text:
    """The content of a text file without its mark, as bytes in an encoding whose ASCII letters are bytes of their own.

    `encoding` is that of the file, `own` that of `body`: the same, or UTF-8 where the file's is not of that kind.
    """

    body: bytes
    encoding: str
    mark: bytes = b""
    own: str = "utf-8"

    def part(self, start: int, stop: int) -> str:
        """Return what some of the bytes say."""
        return self.body[start:stop].decode(self.own)

    def encoded(self, start: int, stop: int) -> bytes | memoryview:
        """Return some of the bytes as the file has them."""
        if self.own == self.encoding:
            return memoryview(self.body)[start:stop]
        return self.part(start, stop).encode(self.encoding)

    def line(self, at: int) -> int:
        """Return the number of the line, from 1, in which a byte stands."""
        ends = (self.body.count(end, 0, at) for end in (b"\n", b"\r", b"\r\n"))
        return next(ends) + next(ends) - next(ends) + 1


def wide(head: bytes) -> str | None:
    """Return the encoding of a text without a mark whose letters have two bytes, one of them mostly 0; None if not so.

    >>> wide("x;y".encode("utf-16-le")), wide(b"x;y")
    ('utf-16-le', None)
    """
    for name, low, high in (("utf-16-le", head[::2], head[1::2]), ("utf-16-be", head[1::2], head[::2])):
        if b"\0" not in low and 2 * high.count(0) > len(high):
            return name
    return None


def decode(raw: bytes, path: Path, told: str | None = None) -> Text:
    """Return bytes as text: as told, or UTF-16 or UTF-8, or else the Windows code page, or Latin-1."""
    mark = next((mark for mark in MARKS if raw.startswith(mark)), b"")
    body = raw[len(mark) :] if mark else raw
    out = _decoded(body, path, mark) if told is None else _decoded_as(body, path, mark, told)
    if b"\0" in out.body:
        raise FileError(f"{path}: has zero bytes, so it is no text: it is damaged or of another kind")
    return out


def _decoded(body: bytes, path: Path, mark: bytes) -> Text:
    """Return bytes as text in the encoding of the mark; without one in UTF-16, in UTF-8, or in one of Windows."""
    known = MARKS[mark] if mark else wide(body[:HEAD])
    names = (known,) if known else ("utf-8", "cp1252", "latin-1")
    for name in names:
        try:
            return _checked(body, name, mark)
        except UnicodeDecodeError:
            continue
    raise FileError(f"{path}: not sound {names[0]} text: save it as UTF-8")


def _decoded_as(body: bytes, path: Path, mark: bytes, told: str) -> Text:
    """Return bytes as text in the encoding that was told; FileError if they are not, or do not come back from it."""
    try:
        return _checked(body, MARKS.get(mark, told), mark)
    except LookupError:
        raise FileError(f"{path}: there is no encoding {told!r}: utf-8, cp1252 and utf-16-le are some") from None
    except _OtherBytesError:
        raise FileError(f"{path}: would not be the same when written as {told} again: say another encoding") from None
    except UnicodeError as error:
        raise FileError(f"{path}: is not {told} text: leave out the encoding, or say another") from error


class _OtherBytesError(ValueError):
    """A text that is not written as the same bytes again."""


def _checked(body: bytes, encoding: str, mark: bytes) -> Text:
    """Return bytes as text in an encoding; an error if they are not, or would be written as others."""
    if not _keeps_ascii(encoding):
        text = body.decode(encoding)
        if text.encode(encoding) != body:
            raise _OtherBytesError
        return Text(text.encode(), encoding, mark)
    decoder, done = getincrementaldecoder(encoding)(), 0
    for at in range(0, len(body), PIECE):
        piece = decoder.decode(body[at : at + PIECE], at + PIECE >= len(body)).encode(encoding)
        if not body.startswith(piece, done):
            raise _OtherBytesError
        done += len(piece)
    return Text(body, encoding, mark, encoding)


@cache
def _keeps_ascii(encoding: str) -> bool:
    """Return whether each ASCII letter is one byte that means nothing else: not so in UTF-16 and in Shift JIS."""
    letters = bytes(range(128))
    try:
        with warnings.catch_warnings(action="ignore"):
            same = letters.decode(encoding) == letters.decode("ascii") and "a".encode(encoding) == b"a"
            pairs = (bytes([high, low]) for high in range(128, 256) for low in letters)
            return same and all(pair.decode(encoding, "replace")[-1:] == chr(pair[1]) for pair in pairs)
    except UnicodeError:
        return False


def line_ends(body: bytes) -> Ends:
    r"""Return where lines end: after the line ends of Unix, of Windows and of old Macs, and at the end of the text.

    >>> line_ends(b"a\nb\r\nc\rd").tolist()
    [2, 5, 7, 8]
    """
    letters, kind = np.frombuffer(body, np.uint8), np.int32 if len(body) < 2**31 else np.int64
    parts = []
    for at in range(0, len(body), PIECE):
        piece = letters[at : at + PIECE]
        ends = piece == FEED
        returns = np.flatnonzero(piece == RETURN)
        if len(returns):
            after = letters[np.minimum(at + returns + 1, len(body) - 1)]
            ends[returns[after != FEED]] = True
        parts.append((np.flatnonzero(ends) + (at + 1)).astype(kind))
    if body and not body.endswith((b"\n", b"\r")):
        parts.append(np.array([len(body)], dtype=kind))
    return np.concatenate(parts) if parts else np.empty(0, kind)


def split_records(text: Text, delimiter: str) -> tuple[Ends, int | None]:
    """Return where the records end, and the number of the line whose quote is never closed, if any.

    A record goes over several lines where a quoted cell does.
    """
    ends = line_ends(text.body)
    if b'"' not in text.body:
        return ends, None
    closed = np.ones(len(ends), dtype=bool)
    start, opened = 0, None
    for first in range(0, len(ends), LINES):
        for number, end in enumerate(ends[first : first + LINES].tolist(), start=first):
            if opened is not None or text.body.find(b'"', start, end) >= 0:
                if _stays_open(text.part(start, end), delimiter, opened is not None):
                    closed[number] = False
                    opened = number + 1 if opened is None else opened
                else:
                    opened = None
            start = end
    return ends[closed], opened


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


def write_records(target: Path, text: Text, ends: Ends, new: Iterable[tuple[int, str]]) -> None:
    """Write a whole text with some of its records replaced; these come in rising order."""
    done = 0
    with target.open("wb") as file:
        file.write(text.mark)
        for number, record in new:
            file.write(text.encoded(done, int(ends[number - 1]) if number else 0))
            file.write(record.encode(text.encoding))
            done = int(ends[number])
        file.write(text.encoded(done, len(text.body)))
