"""Folders and zips of equally sized images: one row per image. Images that are not mended are copied byte for byte."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._cells import ArrayCells
from kernmend.io._dataset import Dataset, Format, NewRows, Request
from kernmend.io._files import MAX_BYTES, FileError, damaged, files_below
from kernmend.io._numpy import ZIP_MAGIC, no_member
from kernmend.io._pictures import LOSSY, BrokenImage, Kind, Picture, decode, encode
from kernmend.io._zips import content, opened, rewrite

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

        def save_rows(temporary: Path, new: dict[str, Array]) -> None:
            for name in names:
                target = temporary / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if name in new:
                    target.write_bytes(encode((ask.path / name).read_bytes(), new[name], name))
                else:
                    shutil.copyfile(ask.path / name, target)

        return _dataset(ask, self.name, names, lambda name: (ask.path / name).read_bytes(), save_rows)


class ImageZip(Format):
    """All images in a zip archive."""

    name = "zip"
    words = "a zip archive"
    endings = (".zip",)

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether this is a zip."""
        return head.startswith(ZIP_MAGIC)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of all images; other files pass through."""

        def save_rows(temporary: Path, new: dict[str, Array]) -> None:
            def replace(info: ZipInfo, old: ZipFile) -> bytes | None:
                name = info.filename
                return encode(content(old, info), new[name], name) if name in new else None

            rewrite(ask.path, temporary, replace)

        with opened(ask.path) as archive:
            infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
            names = sorted(infos)
            return _dataset(ask, self.name, names, lambda name: content(archive, infos[name]), save_rows)


def _is_image(name: str) -> bool:
    """Return whether a file is one of the images: macOS puts files like ._a.png beside them, which are none."""
    path = PurePosixPath(name)
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".")


def _dataset(
    ask: Request,
    format: str,
    names: Iterable[str],
    load: Callable[[str], bytes],
    save_rows: Callable[[Path, dict[str, Array]], None],
) -> Dataset:
    """Return the data set of the images among `names`; `load` reads a file, `save_rows` writes changed images."""
    no_member(ask)
    ask.no_columns("images")
    candidates = [name for name in names if _is_image(name)]
    if not candidates:
        raise FileError(f"{ask.path}: holds no images: png, jpg, bmp, gif, tiff, pgm, ppm and webp are read")
    images, first, X, notes = _rows(ask, candidates, load)
    if ask.image_shape is not None and ask.image_shape != first.values.shape:
        raise FileError(f"{ask.path}: the images are {first.values.shape}, not {ask.image_shape}: leave out the shape")

    def save(temporary: Path, mended: NewRows) -> None:
        pairs = zip(mended.rows.tolist(), mended.values, strict=True)
        save_rows(temporary, {images[row]: values.reshape(first.values.shape) for row, values in pairs})

    def save_pixels(temporary: Path, new: NDArray[Any] | None) -> None:
        A: Array = X if new is None else new.astype(X.dtype)
        save(temporary, NewRows.among(A, A != X))

    chosen, lossless = set(images), not any(word in note for note in notes for word in LOSSY)
    return Dataset(
        X=X,
        row_labels=tuple(images),
        image_shape=first.values.shape,
        bounds=first.kind.bounds,
        integer=np.full(X.shape[1], first.kind.whole),
        passed=tuple(name for name in names if name not in chosen),
        notes=notes,
        format=format,
        source=ask.path,
        folder=format == "images",
        save=save,
        cells=ArrayCells(
            X.astype(first.kind.dtype),
            save_pixels,
            labels=images,
            exact=lossless,
        ),
        places=np.arange(X.shape[1]),
    )


def _rows(
    ask: Request, candidates: list[str], load: Callable[[str], bytes]
) -> tuple[list[str], Picture, Array, tuple[str, ...]]:
    """Return the names of the sound images, the first of them, all as rows, and notes: which are broken is said."""
    sound, broken, first = _first_sound(ask, candidates, load)
    needed = len(candidates) * first.values.size * 8
    if needed > MAX_BYTES:
        raise FileError(f"{ask.path}: the images need {needed / 2**30:.0f} GB of memory: take fewer or smaller ones")
    with damaged(ask.path, "set of images"):
        X: Array = np.empty((len(sound), first.values.size), dtype=np.float32 if first.kind.floating else np.float64)
    notes: dict[str, int] = {}
    names: list[str] = []
    for name in sound:
        try:
            picture = decode(load(name), f"{ask.path}: {name}", first.values.shape)
        except BrokenImage as error:
            broken.append((name, error))
            continue
        _check_alike(ask, sound[0], first.kind, name, picture.kind)
        X[len(names)] = picture.values.ravel()
        names.append(name)
        for note in picture.notes:
            notes[note] = notes.get(note, 0) + 1
    if broken and len(names) < 2:
        raise broken[0][1]
    said = [f"{name} is damaged or no image, and kept as it is." for name, _ in broken[:BROKEN]]
    if len(broken) > BROKEN:
        said.append(f"So are {len(broken) - BROKEN} more.")
    said += [f"{count} of {len(names)} images {note}" for note, count in notes.items()]
    return names, first, X[: len(names)], tuple(said)


def _first_sound(
    ask: Request, candidates: list[str], load: Callable[[str], bytes]
) -> tuple[list[str], list[tuple[str, FileError]], Picture]:
    """Return the names from the first sound image on, those before it with what is wrong, and that image."""
    broken: list[tuple[str, FileError]] = []
    for k, name in enumerate(candidates):
        try:
            return candidates[k:], broken, decode(load(name), f"{ask.path}: {name}", None)
        except BrokenImage as error:
            broken.append((name, error))
    raise broken[0][1]


def _check_alike(ask: Request, first: str, expected: Kind, name: str, kind: Kind) -> None:
    """Raise FileError where an image has other pixels than the first."""
    if kind != expected:
        raise FileError(
            f"{ask.path}: {name} has {kind.words} but {first} has {expected.words}: all images must be of one kind, "
            "convert some"
        )
