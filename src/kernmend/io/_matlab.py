"""MATLAB's version 5 files, read and spliced: every variable but the mended one stays byte for byte.

A file is a header of 128 bytes and a list of elements, each a type, a size and data; a variable is an element of
elements (flags, dimensions, name, numbers) and may be packed by zlib. See "MAT-File Format", The MathWorks.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from kernmend.io._arrays import Entry, array_dataset, pick
from kernmend.io._cells import Raw
from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._files import FileError, check_expansion, damaged

# Bytes of the header.
HEADER = 128
# Types of an element that is a variable: plain, and packed by zlib.
MATRIX, PACKED = 14, 15
# Flags of a variable: truth values, complex numbers.
LOGICAL, COMPLEX = 0x0200, 0x0800
# NumPy's type of numbers as they are stored, by the type of the element.
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
# NumPy's type of a variable, by its class in MATLAB.
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
# Bytes of a packed variable that are unpacked at first: enough for its flags, dimensions and name.
PEEK = 4096

Order: TypeAlias = Literal["little", "big"]


def order_of(head: bytes) -> Order | None:
    """Return the byte order of a version 5 file; None if it is none."""
    orders: dict[bytes, Order] = {b"\x00\x01IM": "little", b"\x01\x00MI": "big"}
    return orders.get(head[124:128])


def _element(data: bytes, at: int, order: Order) -> tuple[int, int, int, int]:
    """Return type, start of the data, their end, and where the next element begins."""
    word = int.from_bytes(data[at : at + 4], order)
    if len(data) < at + 8:
        raise ValueError("an element is cut short")
    if word >> 16:  # the short form: four bytes of data in the tag itself
        return word & 0xFFFF, at + 4, at + 4 + (word >> 16), at + 8
    size = int.from_bytes(data[at + 4 : at + 8], order)
    return word, at + 8, at + 8 + size, at + 8 + size + -size % 8


@dataclass(frozen=True)
class Variable:
    """One variable of a file, in its bytes from `start` to `end`."""

    name: str
    entry: Entry
    logical: bool
    packed: bool
    start: int
    end: int

    def unpacked(self, raw: bytes, order: Order, path: Path) -> bytes:
        """Return the variable's own elements, without the tag."""
        data = raw[self.start : self.end]
        if not self.packed:
            return data[8:]
        worker = zlib.decompressobj()
        head = worker.decompress(data[8:], 8)
        size = int.from_bytes(head[4:], order)
        check_expansion(path, len(raw), size)
        out = worker.decompress(worker.unconsumed_tail, size) if size else b""
        if len(out) != size:
            raise ValueError(f"variable {self.name} is cut short")
        return out

    def numbers_at(self, data: bytes, order: Order) -> int:
        """Return where the element of the numbers begins: after flags, dimensions and name."""
        at = 0
        for _ in range(3):
            at = _element(data, at, order)[3]
        return at

    def array(self, data: bytes, order: Order) -> Raw:
        """Return the numbers. MATLAB may store whole doubles in a smaller type."""
        kind, start, end, _ = _element(data, self.numbers_at(data, order), order)
        stored = np.dtype(NUMBERS[kind]).newbyteorder("<" if order == "little" else ">")
        if end > len(data):
            raise ValueError(f"variable {self.name} is cut short")
        values = np.frombuffer(data[start:end], stored).reshape(self.entry.shape, order="F")
        return values.astype(bool) if self.logical else values.astype(self.entry.dtype)

    def with_array(self, new: Raw, data: bytes, order: Order) -> bytes:
        """Return the element again with other numbers."""
        full = new.astype(np.uint8 if self.logical else self.entry.dtype)
        kind = next(kind for kind, code in NUMBERS.items() if np.dtype(code) == full.dtype.newbyteorder("="))
        values = full.astype(full.dtype.newbyteorder("<" if order == "little" else ">")).tobytes("F")
        body = data[: self.numbers_at(data, order)] + _tag(kind, len(values), order) + values + bytes(-len(values) % 8)
        whole = _tag(MATRIX, len(body), order) + body
        if not self.packed:
            return whole
        packed = zlib.compress(whole)
        return _tag(PACKED, len(packed), order) + packed


def _tag(kind: int, size: int, order: Order) -> bytes:
    """Return the tag of an element; FileError if it is too large for one."""
    if size >= 2**32:
        raise FileError("a variable of 4 GB or more does not fit in a MATLAB 5 file: save the input with -v7.3")
    return kind.to_bytes(4, order) + size.to_bytes(4, order)


def variables(raw: bytes, order: Order) -> list[Variable]:
    """Return the variables of a file, without reading their numbers."""
    found = []
    at = HEADER
    while at < len(raw):
        kind, start, end, _ = _element(raw, at, order)
        if end > len(raw) or kind not in (MATRIX, PACKED) or start != at + 8:
            raise ValueError(f"no variable at byte {at:,}, or it is cut short")
        inner = raw[start : start + PEEK]
        if kind == PACKED:
            inner = zlib.decompressobj().decompress(raw[start:end], PEEK)[8:]
        found.append(_variable(inner, order, kind == PACKED, at, end))
        at = end
    return found


def _variable(inner: bytes, order: Order, packed: bool, start: int, end: int) -> Variable:
    """Return a variable from the first bytes of its own elements."""
    _, at, _, after_flags = _element(inner, 0, order)
    flags = int.from_bytes(inner[at : at + 4], order)
    code = flags & 0xFF
    dtype: np.dtype[Any] = np.dtype(CLASSES.get(code, "V1"))
    if flags & COMPLEX and code in CLASSES:
        dtype = np.dtype("c16")
    shape: tuple[int, ...] = ()
    name = ""
    if code != 17:  # objects of classes have no dimensions
        _, at, stop, after_shape = _element(inner, after_flags, order)
        steps = range(at, min(stop, len(inner)), 4)
        shape = tuple(int.from_bytes(inner[i : i + 4], order, signed=True) for i in steps)
        _, at, stop, _ = _element(inner, after_shape, order)
        name = inner[at:stop].decode("latin-1")
    if any(length < 0 for length in shape):
        raise ValueError(f"the dimensions are {shape}")
    return Variable(name, Entry(shape, dtype), bool(flags & LOGICAL), packed, start, end)


class Matlab(Format):
    """MATLAB -v6 and -v7."""

    name = "mat"
    words = "a MATLAB file"
    endings = (".mat",)
    several = True

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether the header is that of version 5."""
        return order_of(head) is not None

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the only matrix, or of the named variable."""
        raw = ask.path.read_bytes()
        order = order_of(raw)
        if order is None:
            raise FileError(f"{ask.path}: has changed while it was read: read it again")
        with damaged(ask.path, "MATLAB file"):
            found = {variable.name: variable for variable in variables(raw, order) if variable.name}
            chosen = found[pick({name: variable.entry for name, variable in found.items()}, ask)]
            data = chosen.unpacked(raw, order, ask.path)
            array = chosen.array(data, order)

        def save(temporary: Path, new: Raw) -> None:
            element = chosen.with_array(new, data, order)
            head = _moved_subsystem(raw[:HEADER], chosen, len(element), order)
            temporary.write_bytes(head + raw[HEADER : chosen.start] + element + raw[chosen.end :])

        return array_dataset(array, ask, format=self.name, save=save, passed=found, member=chosen.name)


def _moved_subsystem(head: bytes, chosen: Variable, size: int, order: Order) -> bytes:
    """Return the header with the place of the last element, where MATLAB keeps objects, if it has moved."""
    place = int.from_bytes(head[116:124], order)
    if head[116:124] == b" " * 8 or place <= chosen.start:
        return head
    moved = place + size - (chosen.end - chosen.start)
    return head[:116] + moved.to_bytes(8, order) + head[124:]
