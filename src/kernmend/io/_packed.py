"""Text tables that are packed: gzip, and zip archives of one table. What is inside is read as if it were not packed."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from kernmend.io._csv import Csv
from kernmend.io._dataset import HEAD, Dataset, Request
from kernmend.io._decoding import decode
from kernmend.io._files import FileError, check_expansion, damaged, most_unpacked
from kernmend.io._grid import TableFormat
from kernmend.io._json_lines import JsonLines
from kernmend.io._tables import TextGrid
from kernmend.io._zips import ZIP_MAGIC, content, names_in, opened, rewrite

GZIP_MAGIC = b"\x1f\x8b"
# Flags of the header of gzip: more fields, a name, a comment, a checksum.
EXTRA, NAME, COMMENT, CHECK = 4, 8, 16, 2
# Endings of files in an archive that are taken for tables, in lower case.
TABLES = (".csv", ".tsv", ".tab", ".txt", ".jsonl", ".ndjson")


class Gzipped(TableFormat):
    """A text table packed by gzip."""

    name = "gz"
    words = "a file packed by gzip"
    endings = (".gz",)
    marks = (GZIP_MAGIC,)
    layout = Csv.layout

    def grid(self, ask: Request) -> TextGrid:
        """Return the table inside."""
        packed = ask.path.read_bytes()
        with damaged(ask.path, "gzip file"):
            raw = _unpacked(ask.path, packed)
        return _inside(ask, ask.path.with_suffix("").name, raw, lambda temporary: _pack(temporary, packed))


def _pack(temporary: Path, like: bytes) -> None:
    """Pack a file in its place, with the header of another: its time, its name."""
    body = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    new = temporary.read_bytes()
    tail = zlib.crc32(new).to_bytes(4, "little") + (len(new) % 2**32).to_bytes(4, "little")
    temporary.write_bytes(like[: _header(like)] + body.compress(new) + body.flush() + tail)


def _unpacked(path: Path, packed: bytes) -> bytes:
    """Return what gzip packed, one member after the other; FileError if that is far more than its size."""
    limit = most_unpacked(len(packed))
    parts, rest, size = [], packed, 0
    while rest.startswith(GZIP_MAGIC):
        engine = zlib.decompressobj(16 + zlib.MAX_WBITS)
        parts.append(engine.decompress(rest, limit - size + 1))
        size += len(parts[-1])
        check_expansion(path, len(packed), size)
        if not engine.eof:
            raise EOFError("it ends too early")
        rest = engine.unused_data
    return b"".join(parts)


def _header(packed: bytes) -> int:
    """Return the length of the header of a gzip file: its time, its name."""
    flags, at = packed[3], 10
    if flags & EXTRA:
        at += 2 + int.from_bytes(packed[at : at + 2], "little")
    for flag in (NAME, COMMENT):
        if flags & flag:
            at = packed.index(b"\0", at) + 1
    return at + (2 if flags & CHECK else 0)


class ZippedTable(TableFormat):
    """A zip archive with one text table in it; other files pass through."""

    name = "zip"
    words = "a zip archive of a table"
    endings = (".zip",)
    marks = ZIP_MAGIC
    layout = Csv.layout

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether this is a zip with one table."""
        return super().sees(path, head) and sum(map(_is_table, names_in(path))) == 1

    def grid(self, ask: Request) -> TextGrid:
        """Return the table inside."""
        with opened(ask.path) as archive:
            info = next(info for info in archive.infolist() if _is_table(info.filename))
            raw = content(archive, info)

        def pack(temporary: Path) -> None:
            rewrite(ask.path, temporary, {info.filename: temporary.read_bytes()}.get)

        return _inside(ask, info.filename, raw, pack)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the table inside."""
        data = super().read(ask)
        others = tuple(name for name in names_in(ask.path) if not _is_table(name) and not name.endswith("/"))
        return replace(data, passed=data.passed + others)


def _is_table(name: str) -> bool:
    """Return whether a file of an archive is a table by its name: macOS puts files like __MACOSX/._a.csv beside it."""
    path = PurePosixPath(name)
    return path.suffix.lower() in TABLES and not path.name.startswith(".")


def _inside(ask: Request, name: str, raw: bytes, pack: Callable[[Path], None]) -> TextGrid:
    """Return the table of an unpacked file, which `pack` packs again; FileError if it is none."""
    head = raw[:HEAD]
    if not head:
        raise FileError(f"{ask.path}: the file in it is empty")
    for format in (JsonLines(), Csv()):
        if format.sees(Path(name), head):
            format.check(ask, "holds")
            return replace(format.parse(decode(raw, ask.path, ask.layout.encoding), ask), pack=pack)
    raise FileError(f"{ask.path}: what is packed in it is no text table: unpack it first")
