"""NetCDF 3, the classic format, read and spliced: every byte but those of mended numbers stays.

A file is a header (dimensions, attributes, variables with the place of their data) and the data, in big-endian order.
Variables along the unlimited dimension are stored record by record, one after the other in each. See "The NetCDF
Classic Format Specification", Unidata.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernmend.io._arrays import Entry, array_dataset, pick
from kernmend.io._cells import Raw
from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._files import damaged

# NumPy's types by their number in the file.
TYPES = {1: "i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8"}
# Tags of the lists in the header.
DIMENSIONS, VARIABLES, ATTRIBUTES = 10, 11, 12
# Attributes that name the value that means missing.
FILLS = ("_FillValue", "missing_value")
# Number of records of a file that does not say it, since it was never closed.
STREAMING = 0xFFFFFFFF


@dataclass(frozen=True)
class Variable:
    """One variable: its type and shape, where its data begin, and the bytes from a record to the next (0 for none)."""

    entry: Entry
    begin: int
    step: int
    fills: tuple[float, ...]

    def array(self, raw: Any) -> Raw:
        """Return a view of its numbers on the bytes of a file; ValueError if they are not all there."""
        shape, kind = self.entry.shape, self.entry.dtype
        inner = [kind.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        if self.step:
            inner[0] = self.step
        out: Raw = np.ndarray(shape, kind, raw, self.begin, inner)  # checks that it lies within the bytes
        return out


class Reader:
    """Takes numbers and names from the bytes of a header, one after the other."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 4
        self.wide = raw[3] == 2

    def number(self) -> int:
        """Return the next number of four bytes."""
        return int(self._take(">I", 4))

    def place(self) -> int:
        """Return the next place in the file, of eight bytes in version 2."""
        return int(self._take(">Q", 8) if self.wide else self._take(">I", 4))

    def name(self) -> str:
        """Return the next name."""
        return self.bytes(self.number()).decode("utf-8", "replace")

    def bytes(self, size: int) -> bytes:
        """Return the next bytes, which are filled up to a multiple of four."""
        out = self.raw[self.at : self.at + size]
        if len(out) < size:
            raise ValueError("the header is cut short")
        self.at += size + -size % 4
        return out

    def several(self, tag: int, read: Callable[[], Any]) -> list[Any]:
        """Return what a list holds."""
        found, count = self.number(), self.number()
        if found not in (0, tag) or (found == 0 and count):
            raise ValueError("a list in the header is of another kind")
        return [read() for _ in range(count)]

    def _take(self, format: str, size: int) -> Any:
        if self.at + size > len(self.raw):
            raise ValueError("the header is cut short")
        self.at += size
        return struct.unpack_from(format, self.raw, self.at - size)[0]


def variables(raw: bytes) -> dict[str, Variable]:
    """Return the variables of a file by their names; ValueError if its header is not sound."""
    header = Reader(raw)
    records = header.number()
    lengths: list[int] = header.several(DIMENSIONS, lambda: (header.name(), header.number())[1])
    header.several(ATTRIBUTES, lambda: _attribute(header))
    found = header.several(VARIABLES, lambda: _variable(header, lengths))
    moving = [one for one in found if one[1][:1] == [0]]
    sizes = [_bytes(kind, shape[1:]) for _, shape, kind, _, _ in moving]
    step = sizes[0] if len(sizes) == 1 else sum(size + -size % 4 for size in sizes)  # one alone is not filled up
    if records == STREAMING:
        first = min((begin for *_, begin in moving), default=0)
        records = max((len(raw) - first) // step, 0) if step else 0
    out = {}
    for name, shape, kind, fills, begin in found:
        grows = shape[:1] == [0]
        whole = (records, *shape[1:]) if grows else tuple(shape)
        out[name] = Variable(Entry(whole, np.dtype(kind)), begin, step if grows else 0, fills)
    _check_places(header.at, found, step)
    return out


def _check_places(end: int, found: list[Any], step: int) -> None:
    """Raise ValueError if data begin inside the header, which ends at `end`, or lie upon each other.

    What is written to one would change the other. Of data that grow the first records are compared, which stand
    behind all others.
    """
    spans = [(shape[:1] == [0], begin, kind, shape) for _, shape, kind, _, begin in found]
    for grows, begin, kind, shape in sorted(spans):
        size = _bytes(kind, shape[1:] if grows else shape)
        if begin < end and size:
            raise ValueError("the data of a variable begin inside the header or inside others")
        end = max(end, begin + size)
    first = min((begin for grows, begin, _, _ in spans if grows), default=end)
    if step and end - first > step:
        raise ValueError("the records of variables lie upon each other")


def _bytes(kind: str, shape: list[int]) -> int:
    return np.dtype(kind).itemsize * math.prod(shape)


def _attribute(header: Reader) -> tuple[str, Any]:
    """Return the next attribute: its name, and its values if they are numbers."""
    name, kind, count = header.name(), header.number(), header.number()
    if kind not in TYPES:
        raise ValueError(f"there is no type {kind}")
    values = np.frombuffer(header.bytes(np.dtype(TYPES[kind]).itemsize * count), TYPES[kind])
    return name, values


def _variable(header: Reader, lengths: list[int]) -> tuple[str, list[int], str, tuple[float, ...], int]:
    """Return the next variable: name, shape, type, values that mean missing, and where it begins."""
    name = header.name()
    axes = [header.number() for _ in range(header.number())]
    if any(axis >= len(lengths) for axis in axes):
        raise ValueError("a variable has a dimension that is not there")
    attributes = dict(header.several(ATTRIBUTES, lambda: _attribute(header)))
    kind = header.number()
    header.number()  # its size, which does not hold for large ones
    begin = header.place()
    if kind not in TYPES:
        raise ValueError(f"there is no type {kind}")
    fills = [attributes[key] for key in FILLS if key in attributes and attributes[key].dtype.kind != "S"]
    return name, [lengths[a] for a in axes], TYPES[kind], tuple(float(v) for some in fills for v in some), begin


class NetCdf(Format):
    """NetCDF 3: one variable is mended, the others pass through."""

    name = "netcdf"
    words = "a NetCDF 3 file"
    endings = (".nc", ".cdf", ".nc3")
    marks = (b"CDF\x01", b"CDF\x02")  # of version 1 and 2
    several = True

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the only matrix, or of the named variable; its fill values are missing."""
        raw = ask.path.read_bytes()
        with damaged(ask.path, "NetCDF 3 file"):
            found = variables(raw)
        name = pick({key: one.entry for key, one in found.items()}, ask)
        with damaged(ask.path, "NetCDF 3 file"):
            array = found[name].array(raw)
        fills = tuple(repr(value) for value in found[name].fills)

        def save(temporary: Path, new: Raw) -> None:
            out = bytearray(raw)
            found[name].array(out)[...] = new
            temporary.write_bytes(out)

        asked = replace(ask, missing=ask.missing + fills)
        return array_dataset(array, asked, format=self.name, save=save, passed=found, member=name)
