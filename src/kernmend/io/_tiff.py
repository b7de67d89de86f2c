"""TIFF files taken apart into pages, and written with other pixels on some of them: the others keep every byte.

A file is a header and a chain of directories, one a page, each a list of tags that say where the pixels are. A mended
page gets a new directory and new pixels at the end of the file, not compressed; the chain then leads there. See "TIFF
6.0", Adobe, and for files of 64 bits "BigTIFF".
"""

import struct
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from kernmend.io._files import FileError, need

MAGICS = {b"II*\0": ("<", False), b"MM\0*": (">", False), b"II+\0": ("<", True), b"MM\0+": (">", True)}
"""First bytes of a file, with its byte order and whether its places have 64 bits."""
# Tags of what is written anew: the size of samples, how they are packed, what they mean and where they are.
BITS, COMPRESSION, MEANING, OFFSETS, SAMPLES, STRIP_ROWS, COUNTS = 258, 259, 262, 273, 277, 278, 279
PLANES, PREDICTOR, FORMAT = 284, 317, 339
OLD_PIXELS = frozenset(
    [OFFSETS, STRIP_ROWS, COUNTS, PLANES, PREDICTOR, 322, 323, 324, 325, 347, 512, 513, 514, 529, 530, 532]
)
# Number of bytes of a value of a tag, by its type, where that is not one.
SIZES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
# Number of each kind of samples: whole ones without and with a sign, floats.
KINDS = {"u": 1, "i": 2, "f": 3}
# Largest number of pages.
MOST_PAGES = 10**6


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
    before = 8 if layout.big else 4
    for number, page in enumerate(pages):
        link = page.link
        if number in new:
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


def _with_pixels(out: bytearray, layout: Layout, page: Directory, pixels: Any) -> list[bytes]:
    """Add pixels to a file and return the entries of their page, in the order of their tags."""
    colours = pixels.shape[2] if pixels.ndim == 3 else 1
    out += b"\0" * (-len(out) % 8)
    start = len(out)
    data = np.ascontiguousarray(pixels, dtype=pixels.dtype.newbyteorder(layout.order)).tobytes()
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
