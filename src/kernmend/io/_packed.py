"""Text tables that are packed: gzip, and zip archives of one table. What is inside is read as if it were not packed."""

import zlib
from dataclasses import replace
from pathlib import Path, PurePosixPath
from zipfile import ZipInfo

from kernmend.io._cells import Cells, PackedCells
from kernmend.io._csv import Csv
from kernmend.io._dataset import Dataset, Format, NewRows, Request
from kernmend.io._files import FREE_BYTES, MAX_BYTES, MAX_RATIO, FileError, check_expansion, damaged
from kernmend.io._json_lines import JsonLines
from kernmend.io._numpy import ZIP_MAGIC
from kernmend.io._zips import content, names_in, opened, rewrite

GZIP_MAGIC = b"\x1f\x8b"
# Flags of the header of gzip: more fields, a name, a comment, a checksum.
EXTRA, NAME, COMMENT, CHECK = 4, 8, 16, 2
# Endings of files in an archive that are taken for tables, in lower case.
TABLES = (".csv", ".tsv", ".tab", ".txt", ".jsonl", ".ndjson")


class Gzipped(Format):
    """A text table packed by gzip."""

    name = "gz"
    words = "a file packed by gzip"
    endings = (".gz",)
    layout = Csv.layout

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether the file begins with gzip's mark."""
        return head.startswith(GZIP_MAGIC)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the table inside."""
        packed, raw = _read(ask)
        inside = _inner(ask, ask.path.with_suffix("").name, raw).parse(raw, ask)

        def save(temporary: Path, mended: NewRows) -> None:
            if not len(mended.rows):
                temporary.write_bytes(packed)
                return
            inside.save(temporary, mended)
            _pack(temporary, packed)

        return replace(inside, save=save, cells=PackedCells(inside.cells, lambda temporary: _pack(temporary, packed)))

    def cells(self, ask: Request) -> Cells:
        """Return the cells of the table inside."""
        packed, raw = _read(ask)
        inside = _inner(ask, ask.path.with_suffix("").name, raw).parse_cells(raw, ask)
        return PackedCells(inside, lambda temporary: _pack(temporary, packed))


def _read(ask: Request) -> tuple[bytes, bytes]:
    """Return the bytes of a gzip file, and what is packed in it."""
    packed = ask.path.read_bytes()
    with damaged(ask.path, "gzip file"):
        return packed, _unpacked(ask.path, packed)


def _pack(temporary: Path, like: bytes) -> None:
    """Pack a file in its place, with the header of another: its time, its name."""
    body = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    new = temporary.read_bytes()
    tail = zlib.crc32(new).to_bytes(4, "little") + (len(new) % 2**32).to_bytes(4, "little")
    temporary.write_bytes(like[: _header(like)] + body.compress(new) + body.flush() + tail)


def _unpacked(path: Path, packed: bytes) -> bytes:
    """Return what gzip packed, one member after the other; FileError if that is far more than its size."""
    limit = max(FREE_BYTES, min(MAX_RATIO * len(packed), MAX_BYTES))
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


class ZippedTable(Format):
    """A zip archive with one text table in it; other files pass through."""

    name = "zip"
    words = "a zip archive of a table"
    endings = (".zip",)
    layout = Csv.layout

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether this is a zip with one table."""
        return head.startswith(ZIP_MAGIC) and sum(map(_is_table, names_in(path))) == 1

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the table inside."""
        info, raw, others = _only_table(ask)
        inside = _inner(ask, info.filename, raw).parse(raw, ask)

        def save(temporary: Path, mended: NewRows) -> None:
            if not len(mended.rows):
                rewrite(ask.path, temporary, lambda *_: None)
                return
            inside.save(temporary, mended)
            _put_back(temporary, ask.path, info)

        cells = PackedCells(inside.cells, lambda temporary: _put_back(temporary, ask.path, info))
        return replace(inside, save=save, cells=cells, passed=inside.passed + others)

    def cells(self, ask: Request) -> Cells:
        """Return the cells of the table inside."""
        info, raw, _ = _only_table(ask)
        inside = _inner(ask, info.filename, raw).parse_cells(raw, ask)
        return PackedCells(inside, lambda temporary: _put_back(temporary, ask.path, info))


def _only_table(ask: Request) -> tuple[ZipInfo, bytes, tuple[str, ...]]:
    """Return the table of an archive, its bytes, and the names of the other files."""
    with opened(ask.path) as archive:
        infos = archive.infolist()
        info = next(info for info in infos if _is_table(info.filename))
        raw = content(archive, info)
    return info, raw, tuple(other.filename for other in infos if other is not info and not other.is_dir())


def _put_back(temporary: Path, archive: Path, info: ZipInfo) -> None:
    """Put a table, in its place, into a copy of its archive."""
    new = temporary.read_bytes()
    rewrite(archive, temporary, lambda own, _: new if own.filename == info.filename else None)


def _is_table(name: str) -> bool:
    """Return whether a file of an archive is a table by its name: macOS puts files like __MACOSX/._a.csv beside it."""
    path = PurePosixPath(name)
    return path.suffix.lower() in TABLES and not path.name.startswith(".")


def _inner(ask: Request, name: str, raw: bytes) -> Csv | JsonLines:
    """Return the format of an unpacked table; FileError if it is none."""
    head = raw[:1024]
    if not head:
        raise FileError(f"{ask.path}: the file in it is empty")
    for format in (JsonLines(), Csv()):
        if format.sees(Path(name), head):
            for told in ask.layout.told:
                if told not in format.layout:
                    raise FileError(
                        f"{ask.path}: holds {format.words}, which has no {told} to choose: leave out --{told}"
                    )
            return format
    raise FileError(f"{ask.path}: what is packed in it is no text table: unpack it first")
