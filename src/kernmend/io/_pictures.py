"""One image file as numbers, and back in the same format: what pillow's modes mean here."""

import logging
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend.io._deep_png import is_deep, read_deep, write_deep
from kernmend.io._files import FileError, damaged, need
from kernmend.io._tiff import deep_colours, with_pages

logging.getLogger("PIL").addHandler(logging.NullHandler())  # It would print what a FileError tells already.
# Formats that are read, by their names in pillow.
DECODERS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")
# Largest number of pixels of an image.
MAX_PIXELS = 10**8
# Facts of an image that are written again with changed pixels.
KEPT = ("dpi", "icc_profile", "exif", "transparency")
# Words of the notes on formats that do not give back the pixels that were written.
LOSSY = ("are JPEG", "are GIF")
# Compressions of TIFF that lose nothing, so that they are used again.
TIFF_PACKINGS = frozenset(["raw", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits", "group3", "group4"])


@dataclass(frozen=True)
class Kind:
    """What a pixel is; all images of a set are of one kind."""

    words: str
    dtype: str


class BrokenImage(FileError):
    """An image file that is damaged, or no image: the others of its set can be mended without it."""


BIT = Kind("1-bit pixels", "?")
GREY = Kind("grey pixels", "u1")
COLOUR = Kind("colour pixels", "u1")
GREY16 = Kind("16-bit grey pixels", "u2")
COLOUR16 = Kind("16-bit colour pixels", "u2")
GREY32 = Kind("32-bit grey pixels", "i4")
FLOAT = Kind("floating-point pixels", "f4")


@dataclass(frozen=True)
class Picture:
    """The numbers of an image without its alpha channel."""

    values: NDArray[Any]
    kind: Kind
    notes: tuple[str, ...]


def decode(data: bytes, where: str, shape: tuple[int, ...] | None) -> Picture:
    """Return the numbers of an image; with `shape`, the size that it must have is checked before it is unpacked."""
    with damaged(where, "image", BrokenImage), opened_image(data, where) as image:
        return decode_page(image, data, 0, where, shape)


def decode_page(image: Any, data: bytes, page: int, where: str, shape: tuple[int, ...] | None) -> Picture:
    """Return the numbers of one page of an open image whose file is `data`."""
    if page or image.format == "TIFF":
        image.seek(page)
    height, width = image.height, image.width
    if shape is not None and (height, width) != shape[:2]:
        raise FileError(
            f"{where} is {width}×{height}, the images before it {shape[1]}×{shape[0]}: all must have one size, "
            "resize or remove some"
        )
    if width * height > MAX_PIXELS:
        raise FileError(f"{where} has {width}×{height} pixels: more than {MAX_PIXELS:,} are not read, make it smaller")
    deep = _deep(image, data, page, where)
    if deep is not None:
        return Picture(
            deep[..., :3] if deep.shape[2] > 2 else deep[..., 0], COLOUR16 if deep.shape[2] > 2 else GREY16, ()
        )
    image.load()
    kind, colours, _ = _parts(image, where)
    return Picture(np.asarray(colours), kind, _notes(image))


def encode(data: bytes, values: NDArray[Any], where: str) -> bytes:
    """Return the file `data` with other pixels of its kind; alpha, resolution, colour profile, camera facts stay."""
    module = need("PIL.Image", "images")
    with damaged(where, "image"), opened_image(data, where) as image:
        deep = _deep(image, data, 0, where)
        if deep is not None:
            return _encode_deep(data, deep, values)
        image.load()
        _, _, alpha = _parts(image, where)
        new = module.fromarray(values)
        if alpha is not None:
            new.putalpha(alpha)
        if image.format == "PPM" and new.mode == "I;16":  # the only way in which Pillow 10.1 writes 16 bits
            new = new.convert("I")
        facts = {key: image.info[key] for key in KEPT if key in image.info and image.mode != "P"}
        out = BytesIO()
        new.save(out, format=image.format, **facts, **_packing(image))
    return out.getvalue()


def opened_image(data: bytes, where: str, *, several: bool = False) -> Any:
    """Return the image, open and not unpacked; FileError if it is of a kind that is not read."""
    pillow = need("PIL", "images")
    try:
        image = need("PIL.Image", "images").open(BytesIO(data), formats=DECODERS)
    except pillow.UnidentifiedImageError as error:
        raise BrokenImage(
            f"{where}: not an image of a kind that is read: it is damaged, or has the wrong ending"
        ) from error
    if not several and getattr(image, "n_frames", 1) > 1:
        raise FileError(f"{where} holds several pictures: split it into one file each")
    return image


def _deep(image: Any, data: bytes, page: int, where: str) -> NDArray[Any] | None:
    """Return the samples (h, w, channels) of an image whose colours have 16 bits, half of which pillow would drop."""
    if image.format == "PNG" and is_deep(data):
        return read_deep(data)
    if image.format == "TIFF" and image.mode in ("RGB", "RGBA") and max(image.tag_v2.get(258, (8,))) > 8:
        values = deep_colours(data, page)
        if values.dtype != np.uint16 or values.ndim != 3 or values.shape[2] != 3:
            raise FileError(f"{where} has colours of an unusual kind: convert it to 8 or 16 bits, without alpha")
        return np.asarray(values)
    return None


def _encode_deep(data: bytes, old: NDArray[Any], values: NDArray[Any]) -> bytes:
    """Return a file of 16-bit colours with other ones; alpha stays."""
    new = old.copy()
    new[..., : 3 if old.shape[2] > 2 else 1] = values.reshape((*old.shape[:2], -1))
    if is_deep(data):
        return write_deep(data, new)
    return with_pages(data, {0: new})


def _parts(image: Any, where: str) -> tuple[Kind, Any, Any]:
    """Return the kind of pixels, an image of nothing else, and the alpha channel if there is one."""
    plain = {"1": BIT, "L": GREY, "RGB": COLOUR, "I;16": GREY16, "I;16B": GREY16, "I;16L": GREY16, "F": FLOAT}
    mode = image.mode
    if mode in plain:
        return plain[mode], image, None
    if mode == "I":
        return (GREY32 if image.format == "TIFF" else GREY16), image, None
    if mode == "LA":
        return GREY, image.getchannel(0), image.getchannel("A")
    if mode == "P" and "transparency" not in image.info:
        colours = image.convert("RGB")
        red, green, blue = (channel.tobytes() for channel in colours.split())
        return (GREY, colours.getchannel(0), None) if red == green == blue else (COLOUR, colours, None)
    if mode in ("P", "PA", "RGBA"):
        full = image.convert("RGBA")
        return COLOUR, full.convert("RGB"), full.getchannel("A")
    raise FileError(f"{where} is in the colour space {mode}: convert it to grey or RGB")


def _notes(image: Any) -> tuple[str, ...]:
    """Return what writing an image again will change, as the ends of sentences."""
    notes = []
    if image.mode in ("P", "PA"):
        notes.append("have a palette: they are read as grey or colour, and written so if they are mended")
    if image.format == "JPEG":
        notes.append("are JPEG: mended ones are compressed again, so that all their pixels change slightly")
    if image.format == "GIF":
        notes.append("are GIF: mended ones are reduced to 256 colours again")
    return tuple(notes)


def _packing(image: Any) -> dict[str, Any]:
    """Return how an image was packed, for packing another in the same way, without loss where there is a choice."""
    if image.format == "JPEG":
        sampling = need("PIL.JpegImagePlugin", "images").get_sampling(image)
        return {"qtables": image.quantization} | ({"subsampling": sampling} if sampling >= 0 else {})
    if image.format == "WEBP":
        return {"lossless": True, "exact": True}
    if image.format == "TIFF" and image.info.get("compression") in TIFF_PACKINGS:
        return {"compression": image.info["compression"]}
    return {}
