"""JSON lines: one object a line, its numbers are the columns. Whatever is not mended stays character by character."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import ClassVar

import numpy as np

from kernmend.io._cells import Verbatim
from kernmend.io._dataset import Request
from kernmend.io._decoding import Text, line_ends
from kernmend.io._files import FileError
from kernmend.io._grid import TextFormat
from kernmend.io._tables import TextGrid
from kernmend.io._text import MISSING, replaced

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
BLANK = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


@dataclass(frozen=True, kw_only=True)
class JsonGrid(TextGrid):
    """The lines of a file, and the keys that occur in them as columns."""

    header: list[str]
    format: ClassVar[str] = "jsonl"
    decimals: ClassVar[tuple[str, ...]] = (".",)

    def cells(self, start: int, stop: int) -> list[list[str]]:
        """Return the values of some lines as they stand there, and a word for lists and the like."""
        return [[*map(_shown, self.raw(row))] for row in range(start, min(stop, self.height))]

    def raw(self, row: int) -> list[str]:
        """Return the values of a line as they stand there; those of absent keys are empty."""
        line = self.record(int(self.rows[row]))
        found = {key: line[a:b] for key, (a, b) in spans(line).items()}
        return [found.get(key, "") for key in self.header]

    def accepts(self, text: str) -> bool:
        """Return whether JSON writes numbers so."""
        return NUMBER.fullmatch(text) is not None

    def edited(self, number: int, texts: Mapping[int, str]) -> str:
        """Return a line with other values; FileError for one that is none of JSON."""
        for text in texts.values():
            if isinstance(text, Verbatim) and text and not _is_value(text):
                raise FileError(f"{self.path}: {text[:40]!r} is no value of JSON for line {number + 1:,}")
        return _replaced(self.record(number), {self.header[at]: text for at, text in texts.items()})


def _is_value(text: str) -> bool:
    """Return whether a text is one value of JSON, and nothing else."""
    try:
        return bool(_decoder.raw_decode(text)[1] == len(text)) and "\n" not in text
    except (ValueError, RecursionError):
        return False


def _shown(value: str) -> str:
    """Return a value as the cell of a table: what is no number, text or null is a word."""
    return value if not value or value[0] not in "[{tf" else f"({value[0]})"


def spans(line: str) -> dict[str, tuple[int, int]]:
    """Return where the values of an object begin and end in its line; ValueError if it is none, or has a key twice.

    >>> spans('{"x": 1.50, "y": null}')
    {'x': (6, 10), 'y': (17, 21)}
    """
    out: dict[str, tuple[int, int]] = {}
    at = _skip(line, 0)
    if line[at : at + 1] != "{":
        raise ValueError("it is no object")
    at = _skip(line, at + 1)
    while line[at : at + 1] != "}":
        if line[at : at + 1] != '"':
            raise ValueError("a key is missing")
        key, at = scanstring(line, at + 1, True)
        at = _skip(line, at)
        if line[at : at + 1] != ":" or key in out:
            raise ValueError("a key is there twice" if key in out else "a colon is missing")
        start = _skip(line, at + 1)
        _, at = _decoder.raw_decode(line, start)
        out[key] = start, at
        at = _skip(line, at)
        if line[at : at + 1] == ",":
            at = _skip(line, at + 1)
        elif line[at : at + 1] != "}":
            raise ValueError("a comma is missing")
    if line[at + 1 :].strip():
        raise ValueError("something follows the object")
    return out


def _skip(line: str, at: int) -> int:
    """Return where the next character that is no blank stands."""
    match = BLANK.match(line, at)
    return at if match is None else match.end()


class JsonLines(TextFormat):
    """JSON lines; other JSON is refused by its name."""

    name = "jsonl"
    words = "JSON lines"
    endings = (".jsonl", ".ndjson", ".json")
    layout = ("encoding",)

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether the file begins as JSON does: with an object, or with a list if its name says JSON."""
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:40]
        if path.suffix.lower() in self.endings:
            return start[:1] in (b"{", b"[")
        return re.match(rb'\{\s*"', start) is not None

    def parse(self, text: Text, ask: Request) -> JsonGrid:
        """Return the lines that are not empty, with all keys in the order in which they come; each is an object."""
        ends = line_ends(text.body)  # a text of JSON has no line end in it
        keys: dict[str, None] = {}
        rows = []
        start = 0
        for number, end in enumerate(ends.tolist()):
            line = text.part(start, end)
            start = end
            if not line.strip():
                continue
            try:
                keys |= dict.fromkeys(spans(line))
            except (ValueError, RecursionError) as error:
                raise FileError(_wrong(ask, line, number, error)) from error
            rows.append(number)
        numbers = np.array(rows, dtype=np.int64)
        return JsonGrid(path=ask.path, text=text, ends=ends, rows=numbers, header=list(keys), width=len(keys))


def _wrong(ask: Request, line: str, number: int, error: Exception) -> str:
    """Return what is wrong with a line that is no object."""
    begun = line.strip()
    if begun.startswith("[") or (number == 0 and begun.startswith("{") and not begun.endswith("}")):
        return f"{ask.path}: is JSON, but not one object a line: store it as JSON lines, or as csv"
    reason = str(error).partition("\n")[0][:100]
    return f"{ask.path}: line {number + 1:,} is no object of JSON ({reason}): mend or remove it"


def _replaced(line: str, values: Mapping[str, str]) -> str:
    """Return a line with other values of some keys, those of absent ones at its end; an empty one takes its key away.

    >>> _replaced('{"x": 1 }', {"x": "2.5", "y": "3"})
    '{"x": 2.5, "y": 3 }'
    >>> _replaced('{"x": 2.5, "y": 3 }', {"x": Verbatim("1"), "y": Verbatim("")})
    '{"x": 1 }'
    """
    found = spans(line)
    ends = dict(zip(found, [0, *(end for _, end in found.values())], strict=False))  # where each key's comma stands
    blank = " " if re.search(r'":\s', line) else ""
    for key in sorted(values.keys() & found.keys(), key=lambda key: -found[key][0]):
        start, end = found[key]
        if values[key] == "" and isinstance(values[key], Verbatim):
            line = line[: ends[key] or line.index("{") + 1] + line[end:]
        else:
            line = line[:start] + _kept(line[start:end], values[key]) + line[end:]
    filled = bool(found)
    for key in (key for key in values if key not in found and values[key] not in MISSING):
        body = line.rstrip()
        inner = body[:-1].rstrip()
        comma = f",{blank}" if filled else ""
        line = f"{inner}{comma}{json.dumps(key)}:{blank}{values[key]}{line[len(inner) :]}"
        filled = True
    return line


def _kept(old: str, new: str) -> str:
    """Return a new value: as it is, null for nothing, or a number between the quotes of the old one if it had any."""
    if isinstance(new, Verbatim):
        return new
    if new in MISSING:
        return "null"
    return replaced(old, new) if old.startswith('"') else new
