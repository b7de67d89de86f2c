"""PNG of 16-bit colours, which pillow would cut to 8 bits: pixels unpacked, and packed again among the same chunks."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"\x89PNG\r\n\x1a\n"
# Numbers of samples of a pixel by the type of its colours: grey with alpha, colour, colour with alpha.
CHANNELS = {4: 2, 2: 3, 6: 4}


def chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Give the kind of each chunk, and where its content begins and ends; ValueError if it is cut short or changed."""
    at = len(MAGIC)
    while at < len(data):
        if at + 12 > len(data):
            raise ValueError("it is cut short")
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + size
        if end + 4 > len(data) or zlib.crc32(data[at + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise ValueError("it is cut short or damaged")
        yield kind, at + 8, end
        at = end + 4
        if kind == b"IEND":
            return


def is_deep(data: bytes) -> bool:
    """Return whether this is a PNG of 16 bits with more than one sample per pixel."""
    return data.startswith(MAGIC) and len(data) > 28 and data[24] == 16 and data[25] in CHANNELS


def read_deep(data: bytes) -> NDArray[np.uint16]:
    """Return the samples (h, w, channels) of a PNG of 16-bit colours; ValueError if it is damaged or interlaced."""
    width, height, _, colours, _, _, interlaced = struct.unpack_from(">IIBBBBB", data, 16)
    if interlaced:
        raise ValueError("it is interlaced: save it without")
    packed = b"".join(data[start:end] for kind, start, end in chunks(data) if kind == b"IDAT")
    channels = CHANNELS[colours]
    line = 1 + 2 * channels * width
    raw = zlib.decompressobj().decompress(packed, height * line)
    if len(raw) != height * line:
        raise ValueError("pixels are missing")
    rows = np.frombuffer(raw, np.uint8).reshape(height, line)
    bytes_of = _unfiltered(rows[:, 1:].reshape(height, width, 2 * channels), rows[:, 0])
    return bytes_of.reshape(height, width, channels, 2).view(">u2")[..., 0].astype(np.uint16)


def _unfiltered(filtered: NDArray[np.uint8], kinds: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return pixels from their differences to what stands left, above and left above of them.

    The kind of a row says to which. A pixel needs those before it in its row and in the row above, so all pixels on one
    diagonal, i + j = t, are worked out together.
    """
    if kinds.max(initial=0) > 4:
        raise ValueError("there is no such filter")
    height, width, size = filtered.shape
    out = np.zeros((height + 1, width + 1, size), dtype=np.int16)  # a row and a column of zeros before the pixels
    kind = kinds[:, None]
    for t in range(height + width - 1):
        i = np.arange(max(0, t - width + 1), min(height, t + 1))
        j = t - i
        left, above, corner = out[i + 1, j], out[i, j + 1], out[i, j]
        near = left + above - corner
        distances = np.abs(near - left), np.abs(near - above), np.abs(near - corner)
        paeth = np.where(
            (distances[0] <= distances[1]) & (distances[0] <= distances[2]),
            left,
            np.where(distances[1] <= distances[2], above, corner),
        )
        added = np.select(
            [kind[i] == 1, kind[i] == 2, kind[i] == 3, kind[i] == 4], [left, above, (left + above) // 2, paeth], 0
        )
        out[i + 1, j + 1] = (filtered[i, j] + added) & 255
    return np.ascontiguousarray(out[1:, 1:].astype(np.uint8))


def write_deep(data: bytes, samples: NDArray[Any]) -> bytes:
    """Return a PNG with other samples (h, w, channels); all other chunks stay as they are."""
    height = samples.shape[0]
    rows = np.ascontiguousarray(samples, dtype=">u2").view(np.uint8).reshape(height, -1)
    raw = np.hstack([np.full((height, 1), 2, dtype=np.uint8), np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))])
    packed = zlib.compress(raw.tobytes(), 9)
    fresh = struct.pack(">I4s", len(packed), b"IDAT") + packed + struct.pack(">I", zlib.crc32(b"IDAT" + packed))
    out, done = [data[: len(MAGIC)]], False
    for kind, start, end in chunks(data):
        if kind != b"IDAT":
            out.append(data[start - 8 : end + 4])
        elif not done:
            out.append(fresh)
            done = True
    return b"".join(out)
