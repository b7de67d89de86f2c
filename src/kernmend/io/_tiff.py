"""TIFF files taken apart into pages, and written with other pixels on some of them: the others keep every byte.

A file is a header and a chain of directories, one a page, each a list of tags that say where the pixels are. Pixels
that are not compressed are replaced where they are, so that they can be taken back byte for byte. Any other mended page
gets a new directory and new pixels at the end of the file, not compressed; the chain then leads there. See "TIFF 6.0",
Adobe, and for files of 64 bits "BigTIFF".
"""

import struct
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np

from kernmend.io._files import FileError, need

MAGICS = {b"II*\0": ("<", False), b"MM\0*": (">", False), b"II+\0": ("<", True), b"MM\0+": (">", True)}
"""First bytes of a file, with its byte order and whether its places have 64 bits."""
# Tags of what is written anew: the size of samples, how they are packed, what they mean and where they are.
BITS, COMPRESSION, MEANING, OFFSETS, SAMPLES, STRIP_ROWS, COUNTS = 258, 259, 262, 273, 277, 278, 279
# Tags of how colours are arranged, of what was subtracted before packing, and of the kind of numbers.
PLANES, PREDICTOR, FORMAT = 284, 317, 339
OLD_PIXELS = frozenset(
    [OFFSETS, STRIP_ROWS, COUNTS, PLANES, PREDICTOR, 322, 323, 324, 325, 347, 512, 513, 514, 529, 530, 532]
)
# Number of bytes of a value of a tag, by its type, where that is not one.
SIZES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
# Types of whole numbers, as `struct` has them.
WHOLE = {3: "H", 4: "I", 16: "Q"}
# Number of each kind of samples: whole ones without and with a sign, floats.
KINDS = {"u": 1, "i": 2, "f": 3}
# Largest number of pages.
MOST_PAGES = 10**6

Strip = tuple[int, int]
"""Where a part of the pixels of a page is, and its number of bytes."""


@dataclass(frozen=True)
class Directory:
    """One page: the entries of its directory with their tags, which may occur twice, and where the next place is."""

    entries: list[tuple[int, bytes]]
    link: int


@dataclass(frozen=True)
class Layout:
    """How numbers stand in a file."""

    order: str
    big: bool

    @property
    def place(self) -> str:
        """The form of a place in the file."""
        return self.order + ("Q" if self.big else "I")

    @property
    def count(self) -> str:
        """The form of the number of entries of a directory."""
        return self.order + ("Q" if self.big else "H")

    @property
    def entry(self) -> int:
        """The number of bytes of an entry."""
        return 20 if self.big else 12

    def short(self, tag: int, values: tuple[int, ...], beyond: int) -> tuple[bytes, bytes]:
        """Return an entry of small numbers, and the bytes that stand at `beyond` if they do not fit into it."""
        size = 8 if self.big else 4
        data = struct.pack(f"{self.order}{len(values)}H", *values)
        head = struct.pack(self.order + ("HHQ" if self.big else "HHI"), tag, 3, len(values))
        if len(data) <= size:
            return head + data.ljust(size, b"\0"), b""
        return head + struct.pack(self.place, beyond), data

    def long(self, tag: int, value: int) -> bytes:
        """Return an entry of one large number."""
        if self.big:
            return struct.pack(self.order + "HHQQ", tag, 16, 1, value)
        return struct.pack(self.order + "HHII", tag, 4, 1, value)


def layout_of(raw: bytes) -> Layout:
    """Return how numbers stand in a file; ValueError if it is no TIFF."""
    if raw[:4] not in MAGICS:
        raise ValueError("it does not begin as TIFF does")
    return Layout(*MAGICS[raw[:4]])


def directories(raw: bytes) -> list[Directory]:
    """Return the pages of a file; ValueError if their chain is broken or goes round."""
    layout = layout_of(raw)
    link = 8 if layout.big else 4
    found: list[Directory] = []
    seen: set[int] = set()
    while at := _number(layout.place, raw, link):
        if at in seen or len(found) >= MOST_PAGES:
            raise ValueError("its pages follow each other without end")
        seen.add(at)
        count = _number(layout.count, raw, at)
        start = at + struct.calcsize(layout.count)
        end = start + count * layout.entry
        if end + struct.calcsize(layout.place) > len(raw):
            raise ValueError("a page is cut short")
        entries = [raw[k : k + layout.entry] for k in range(start, end, layout.entry)]
        for entry in entries:
            _check_whole(raw, layout, entry)
        found.append(Directory([(_number(layout.order + "H", one, 0), one) for one in entries], end))
        link = end
    return found


def _check_whole(raw: bytes, layout: Layout, entry: bytes) -> None:
    """Raise ValueError if what an entry refers to is not all there."""
    _, kind, count = struct.unpack_from(layout.order + ("HHQ" if layout.big else "HHI"), entry)
    size, room = SIZES.get(kind, 1) * count, 8 if layout.big else 4
    if size > room and _number(layout.place, entry, len(entry) - room) + size > len(raw):
        raise ValueError("it is cut short")


def _number(form: str, raw: bytes, at: int) -> int:
    if at + struct.calcsize(form) > len(raw):
        raise ValueError("it is cut short")
    return int(struct.unpack_from(form, raw, at)[0])


def with_pages(raw: bytes, new: dict[int, Any]) -> bytes:
    """Return a file with other pixels on some pages; `new` has (h, w) or (h, w, 3) arrays by the number of the page."""
    layout, pages, out = layout_of(raw), directories(raw), bytearray(raw)
    before, strips = 8 if layout.big else 4, _in_place(raw, layout, pages, new)
    for number, page in enumerate(pages):
        link = page.link
        if number in strips:
            data, done = _bytes(new[number], layout), 0
            for at, size in strips[number]:
                out[at : at + size] = data[done : done + size]
                done += size
        elif number in new:
            following = _number(layout.place, raw, page.link)
            entries = _with_pixels(out, layout, page, new[number])
            struct.pack_into(layout.place, out, before, len(out))
            out += struct.pack(layout.count, len(entries)) + b"".join(entries)
            link = len(out)
            out += struct.pack(layout.place, following)
        before = link
    if not layout.big and len(out) >= 2**32:
        raise FileError("the mended TIFF would be larger than 4 GB: store it as BigTIFF")
    return bytes(out)


def _in_place(raw: bytes, layout: Layout, pages: list[Directory], new: dict[int, Any]) -> dict[int, list[Strip]]:
    """Return the strips of those mended pages whose pixels are stored as they are, where nothing else stands."""
    taken: list[tuple[int, int, int]] = [(0, 16 if layout.big else 8, -1)]
    strips: dict[int, list[Strip]] = {}
    for number, page in enumerate(pages):
        size = len(page.entries) * layout.entry + struct.calcsize(layout.count)
        taken.append((page.link - size, page.link + struct.calcsize(layout.place), -1))
        offsets, counts = (_values(raw, layout, page, tag) for tag in (OFFSETS, COUNTS))
        strips[number] = list(zip(offsets, counts, strict=False))
        taken += [(at, at + count, number) for at, count in strips[number]]
    taken = sorted(part for part in taken if part[0] < part[1])
    shared = {owner for one, other in pairwise(taken) if other[0] < one[1] for owner in (one[2], other[2])}
    shared |= {owner for start, stop, owner in taken if stop > len(raw)}
    whole = [number for number in new if number not in shared and _plain(raw, layout, pages[number], new[number])]
    return {number: strips[number] for number in whole if sum(size for _, size in strips[number]) == new[number].nbytes}


def _plain(raw: bytes, layout: Layout, page: Directory, pixels: Any) -> bool:
    """Return whether a page has such pixels, neither compressed nor turned into others."""
    colours = pixels.shape[2] if pixels.ndim == 3 else 1
    bits, meaning = (8 * pixels.dtype.itemsize,) * colours, (2 if colours == 3 else 1,)
    default = {COMPRESSION: (1,), SAMPLES: (1,), PLANES: (1,), PREDICTOR: (1,), FORMAT: (1,) * colours}  # if not said
    asked = default | {BITS: bits, MEANING: meaning, SAMPLES: (colours,), FORMAT: (KINDS[pixels.dtype.kind],) * colours}
    return all((_values(raw, layout, page, tag) or default.get(tag)) == value for tag, value in asked.items())


def _values(raw: bytes, layout: Layout, page: Directory, tag: int) -> tuple[int, ...]:
    """Return the whole numbers that a page has for a tag; none where it has others, or the tag is not there once."""
    entries = [entry for name, entry in page.entries if name == tag]
    if len(entries) != 1:
        return ()
    _, kind, count = struct.unpack_from(layout.order + ("HHQ" if layout.big else "HHI"), entries[0])
    if kind not in WHOLE:
        return ()
    form, room = f"{layout.order}{count}{WHOLE[kind]}", 8 if layout.big else 4
    place, there = len(entries[0]) - room, entries[0]
    if struct.calcsize(form) > room:
        place, there = _number(layout.place, there, place), raw
    return struct.unpack_from(form, there, place)


def _bytes(pixels: Any, layout: Layout) -> bytes:
    """Return pixels as they stand in a file."""
    return np.ascontiguousarray(pixels, dtype=pixels.dtype.newbyteorder(layout.order)).tobytes()


def _with_pixels(out: bytearray, layout: Layout, page: Directory, pixels: Any) -> list[bytes]:
    """Add pixels to a file and return the entries of their page, in the order of their tags."""
    colours = pixels.shape[2] if pixels.ndim == 3 else 1
    out += b"\0" * (-len(out) % 8)
    start = len(out)
    data = _bytes(pixels, layout)
    out += data + b"\0" * (-len(data) % 8)
    bits, beyond = layout.short(BITS, (8 * pixels.dtype.itemsize,) * colours, len(out))
    out += beyond + b"\0" * (-len(beyond) % 8)
    shorts = {COMPRESSION: 1, MEANING: 2 if colours == 3 else 1, SAMPLES: colours, FORMAT: KINDS[pixels.dtype.kind]}
    fresh = {tag: layout.short(tag, (value,), 0)[0] for tag, value in shorts.items()}
    fresh |= {OFFSETS: layout.long(OFFSETS, start), COUNTS: layout.long(COUNTS, len(data)), BITS: bits}
    fresh[STRIP_ROWS] = layout.long(STRIP_ROWS, pixels.shape[0])
    kept = [(tag, entry) for tag, entry in page.entries if tag not in OLD_PIXELS and tag not in fresh]
    return [entry for _, entry in sorted([*kept, *fresh.items()], key=lambda pair: pair[0])]


def deep_colours(raw: bytes, page: int) -> Any:
    """Return the pixels of a page of 16-bit colours, which pillow would cut to 8 bits."""
    with need("tifffile", "TIFF of 16-bit colours").TiffFile(BytesIO(raw)) as file:
        return np.asarray(file.pages[page].asarray())
