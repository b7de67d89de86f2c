"""Zip archives from strangers: names that lead elsewhere and contents that explode are refused before unpacking."""

import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from kernmend.io._files import FileError, check_expansion, damaged

# First bytes of a zip archive: one with files, and an empty one.
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
# Flag of a file in an archive that is encrypted.
ENCRYPTED = 0x1
# Version of the format in which sizes have 64 bits.
ZIP64_VERSION = 45


@contextmanager
def opened(path: Path) -> Iterator[ZipFile]:
    """Give a zip, open for reading, after a check of everything that it declares; FileError if it is not safe."""
    with damaged(path, "zip archive"), ZipFile(path) as archive:
        infos = archive.infolist()
        for info in infos:
            _check_member(path, info)
        if len({info.filename for info in infos}) < len(infos):
            raise FileError(f"{path}: refused, two of its files have the same name: pack it again")
        check_expansion(path, path.stat().st_size, sum(info.file_size for info in infos))
        for info in infos:  # also of what only passes through: better now than after hours of mending
            content(archive, info)
        yield archive


def _check_member(path: Path, info: ZipInfo) -> None:
    """Raise FileError for a file that leads outside, is a link, is encrypted or packed by another method."""
    name = info.orig_filename
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name) or ".." in re.split(r"[/\\]", name) or "\0" in name:
        raise FileError(f"{path}: refused, the name {name!r} in it leads outside: pack it again with relative names")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise FileError(f"{path}: refused, {name} in it is a symbolic link: pack the file itself")
    if info.flag_bits & ENCRYPTED:
        raise FileError(f"{path}: is encrypted: unpack it first")
    # The other methods of zipfile unpack a whole block at once, however long it gets.
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise FileError(f"{path}: packed by an unusual method: pack it again with deflate")


def names_in(path: Path) -> list[str]:
    """Return the names of the files in a zip, none if it cannot be opened."""
    try:
        with ZipFile(path) as archive:
            return archive.namelist()
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return []


def content(archive: ZipFile, info: ZipInfo) -> bytes:
    """Return one file of an archive. Never reads past the declared size, whatever the packed data hold."""
    with archive.open(info) as file:
        data = file.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise FileError(f"{archive.filename}: {info.filename} in it is cut short: pack it again")
    return data


def rewrite(source: Path, target: Path, new_content: Callable[[str], bytes | None]) -> None:
    """Write an archive again, files in the same order and packed as they were, some with other content.

    `new_content` returns that of a name, None for a file that stays as it is.
    """
    with ZipFile(source) as old, ZipFile(target, "w") as new:
        new.comment = old.comment
        for info in old.infolist():
            fresh = ZipInfo(info.filename, info.date_time)
            for name in ("compress_type", "external_attr", "comment", "create_system"):
                setattr(fresh, name, getattr(info, name))
            data = new_content(info.filename)
            if info.is_dir() and data is None:
                new.writestr(fresh, b"")
                continue
            # As NumPy does: sizes of 64 bits though they are not needed.
            large = info.extract_version >= ZIP64_VERSION or info.file_size > 2**30
            with new.open(fresh, "w", force_zip64=large) as here:
                if data is not None:
                    here.write(data)
                    continue
                with old.open(info) as there:
                    shutil.copyfileobj(there, here)
