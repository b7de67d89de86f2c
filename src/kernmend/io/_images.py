"""Equally sized images, one row per image: folders and zips of them, and the pages of a TIFF file.

Images that are not mended are copied byte for byte, and pages that are not keep every byte.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import numpy as np

from kernmend.io._arrays import array_dataset, differing_rows
from kernmend.io._cells import Raw
from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._files import MAX_BYTES, FileError, damaged, files_below
from kernmend.io._pictures import LOSSY, BrokenImage, Kind, Picture, decode, decode_page, encode, opened_image
from kernmend.io._tiff import MAGICS, directories, with_pages
from kernmend.io._zips import ZIP_MAGIC, content, opened, rewrite

# Endings of files that are taken for images, in lower case.
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".pbm", ".pnm", ".webp")

# Number of damaged images that are named.
BROKEN = 5


class ImageFolder(Format):
    """All images in a folder and the folders in it."""

    name = "images"
    words = "a folder of images"
    endings = ()

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether this is a folder."""
        return not head

    def read(self, ask: Request) -> Dataset:
        """Return the data set of all images; other files pass through."""
        names = files_below(ask.path)
        if not names:
            raise FileError(f"{ask.path}: the folder is empty: give one with images")

        def save(temporary: Path, new: dict[str, Raw]) -> None:
            for name in names:
                target = temporary / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if name in new:
                    target.write_bytes(encode((ask.path / name).read_bytes(), new[name], name))
                else:
                    shutil.copyfile(ask.path / name, target)

        return _dataset(ask, self.name, names, lambda name: (ask.path / name).read_bytes(), save)


class ImageZip(Format):
    """All images in a zip archive."""

    name = "zip"
    words = "a zip archive"
    endings = (".zip",)
    marks = ZIP_MAGIC

    def read(self, ask: Request) -> Dataset:
        """Return the data set of all images; other files pass through."""

        def save(temporary: Path, new: dict[str, Raw]) -> None:
            with ZipFile(ask.path) as old:
                changed = {name: encode(content(old, infos[name]), new[name], name) for name in new}
            rewrite(ask.path, temporary, changed.get)

        with opened(ask.path) as archive:
            infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
            names = sorted(infos)
            return _dataset(ask, self.name, names, lambda name: content(archive, infos[name]), save)


class TiffStack(Format):
    """A TIFF file of several pages of one size: each is a row."""

    name = "tiff"
    words = "a TIFF file"
    endings = (".tif", ".tiff")
    marks = tuple(MAGICS)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of all pages."""
        raw = ask.path.read_bytes()
        with damaged(ask.path, "TIFF file"):
            n_pages = len(directories(raw))
        if n_pages < 2:
            raise FileError(f"{ask.path}: is one image: give a folder or zip of equally sized ones")
        pixels = _pages(ask, raw, n_pages)

        def save(temporary: Path, new: Raw) -> None:
            temporary.write_bytes(with_pages(raw, differing_rows(new, pixels)))

        labels = [f"page {k + 1}" for k in range(n_pages)]
        return array_dataset(pixels, ask, format=self.name, save=save, row_labels=labels)


def _pages(ask: Request, raw: bytes, n_pages: int) -> Raw:
    """Return the pixels of all pages, of which all are of one kind and size."""
    with damaged(ask.path, "TIFF file"), opened_image(raw, str(ask.path), several=True) as image:
        first = decode_page(image, raw, 0, f"{ask.path}: page 1", None)
        if first.kind.dtype == "?":
            raise FileError(f"{ask.path}: has pages of 1-bit pixels: convert them to 8 bits")
        pixels = _room(ask, n_pages, first)
        for k in range(n_pages):
            page = decode_page(image, raw, k, f"{ask.path}: page {k + 1}", first.values.shape)
            if image.mode in ("RGBA", "LA", "PA"):
                raise FileError(f"{ask.path}: page {k + 1} has an alpha channel: save it without")
            _check_alike(ask, "page 1", first.kind, f"page {k + 1}", page.kind)
            pixels[k] = page.values
    return pixels


def _is_image(name: str) -> bool:
    """Return whether a file is one of the images: macOS puts files like ._a.png beside them, which are none."""
    path = PurePosixPath(name)
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".")


def _dataset(
    ask: Request,
    format: str,
    names: Iterable[str],
    load: Callable[[str], bytes],
    save: Callable[[Path, dict[str, Raw]], None],
) -> Dataset:
    """Return the data set of the images among `names`; `load` reads a file, `save` writes changed images."""
    candidates = [name for name in names if _is_image(name)]
    if not candidates:
        raise FileError(f"{ask.path}: holds no images: png, jpg, bmp, gif, tiff, pgm, ppm and webp are read")
    images, pixels, notes = _rows(ask, candidates, load)

    def save_pixels(temporary: Path, new: Raw) -> None:
        save(temporary, {images[row]: picture for row, picture in differing_rows(new, pixels).items()})

    chosen, lossless = set(images), not any(word in note for note in notes for word in LOSSY)
    others = [name for name in names if name not in chosen]
    return array_dataset(
        pixels, ask, format=format, save=save_pixels, row_labels=images, passed=others, notes=notes, exact=lossless
    )


def _rows(ask: Request, candidates: list[str], load: Callable[[str], bytes]) -> tuple[list[str], Raw, tuple[str, ...]]:
    """Return the names of the sound images, their pixels, and notes: which are broken is said."""
    names: list[str] = []
    broken: list[tuple[str, FileError]] = []
    notes: Counter[str] = Counter()
    first: Picture | None = None
    for name in candidates:
        try:
            picture = decode(load(name), f"{ask.path}: {name}", None if first is None else first.values.shape)
        except BrokenImage as error:
            broken.append((name, error))
            continue
        if first is None:
            first, pixels = picture, _room(ask, len(candidates), picture)
        _check_alike(ask, names[0] if names else name, first.kind, name, picture.kind)
        pixels[len(names)] = picture.values
        names.append(name)
        notes.update(picture.notes)
    if broken and len(names) < 2:
        raise broken[0][1]
    said = [f"{name} is damaged or no image, and kept as it is." for name, _ in broken[:BROKEN]]
    if len(broken) > BROKEN:
        said.append(f"So are {len(broken) - BROKEN} more.")
    said += [f"{count} of {len(names)} images {note}" for note, count in notes.items()]
    return names, pixels[: len(names)], tuple(said)


def _room(ask: Request, number: int, first: Picture) -> Raw:
    """Return an array for the pixels of so many images; FileError if they need more memory than there may be."""
    needed = number * first.values.size * 8
    if needed > MAX_BYTES:
        raise FileError(f"{ask.path}: the images need {needed / 2**30:.0f} GB of memory: take fewer or smaller ones")
    with damaged(ask.path, "set of images"):
        return np.empty((number, *first.values.shape), dtype=first.kind.dtype)


def _check_alike(ask: Request, first: str, expected: Kind, name: str, kind: Kind) -> None:
    """Raise FileError where an image has other pixels than the first."""
    if kind != expected:
        raise FileError(
            f"{ask.path}: {name} has {kind.words} but {first} has {expected.words}: all images must be of one kind, "
            "convert some"
        )
