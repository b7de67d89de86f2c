"""NumPy's npy and npz. Pickles are never loaded, and no header is believed before the bytes are counted."""

import math
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from kernmend.io._arrays import Entry, array_dataset, check_numeric, pick
from kernmend.io._cells import Raw
from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._files import FileError, damaged
from kernmend.io._zips import ZIP_MAGIC, content, opened, rewrite

# First bytes of an npy file.
MAGIC = b"\x93NUMPY"
# Readers of the header by the version of the format; later versions are for records.
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True)
class NpyBytes:
    """An npy file in memory: its header and whatever follows the array stay as they are when the array changes."""

    raw: bytes
    entry: Entry
    fortran: bool
    start: int

    @property
    def array(self) -> Raw:
        """The numbers, a view on the bytes."""
        flat = np.frombuffer(self.raw, self.entry.dtype, math.prod(self.entry.shape), self.start)
        return flat.reshape(self.entry.shape, order="F" if self.fortran else "C")

    def with_array(self, array: Raw) -> bytes:
        """Return the file with other numbers of the same type and shape."""
        end = self.start + self.entry.nbytes
        return self.raw[: self.start] + array.tobytes("F" if self.fortran else "C") + self.raw[end:]


def read_header(file: IO[bytes]) -> tuple[Entry, bool]:
    """Return shape and type that the header of an npy file states, and whether it is in the order of columns."""
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"version {version} of npy holds records")
    shape, fortran, dtype = HEADERS[version](file)
    if any(length < 0 for length in shape):
        raise ValueError(f"the shape is {shape}")
    return Entry(shape, dtype), fortran


def parse(raw: bytes, ask: Request, name: str = "") -> NpyBytes:
    """Return the array in the bytes of an npy file; FileError if there are fewer than its header says."""
    file = BytesIO(raw)
    with damaged(ask.path, "npy file"):
        entry, fortran = read_header(file)
    check_numeric(ask, entry, name)
    have = len(raw) - file.tell()
    if have < entry.nbytes:
        raise FileError(f"{ask.path}: cut short, {have:,} of {entry.nbytes:,} bytes are there: copy it again")
    return NpyBytes(raw, entry, fortran, file.tell())


class Npy(Format):
    """One array."""

    name = "npy"
    words = "a NumPy array file"
    endings = (".npy",)
    marks = (MAGIC,)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the array."""
        there = parse(ask.path.read_bytes(), ask)

        def save(temporary: Path, new: Raw) -> None:
            temporary.write_bytes(there.with_array(new))

        return array_dataset(there.array, ask, format=self.name, save=save)


class Npz(Format):
    """A zip of npy files: one of them is mended, the others pass through."""

    name = "npz"
    words = "a NumPy npz archive"
    endings = (".npz",)
    marks = ZIP_MAGIC
    several = True

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether this is a zip of npy files only, or one whose ending says so."""
        return super().sees(path, head) and (path.suffix.lower() == ".npz" or _all_npy(path))

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the only matrix, or of the named array."""
        with opened(ask.path) as archive:
            infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            entries = {name: _entry(archive, info) for name, info in infos.items() if info.filename.endswith(".npy")}
            if not entries:
                raise FileError(f"{ask.path}: holds no NumPy arrays: give a zip of images the ending .zip")
            name = pick(entries, ask)
            there = parse(content(archive, infos[name]), ask, name)

        def save(temporary: Path, new: Raw) -> None:
            rewrite(ask.path, temporary, {infos[name].filename: there.with_array(new)}.get)

        return array_dataset(there.array, ask, format=self.name, save=save, passed=infos, member=name)


def _all_npy(path: Path) -> bool:
    """Return whether a zip has files and all are npy files by their names."""
    with damaged(path, "zip archive"), ZipFile(path) as archive:
        names = archive.namelist()
    return bool(names) and all(name.endswith(".npy") for name in names)


def _entry(archive: ZipFile, info: ZipInfo) -> Entry:
    """Return shape and type of a member; one that is no npy file counts as an array of no axes."""
    unknown: np.dtype[Any] = np.dtype("V1")
    with archive.open(info) as file:
        if file.read(len(MAGIC)) != MAGIC:
            return Entry((), unknown)
        file.seek(0)
        return read_header(file)[0]
