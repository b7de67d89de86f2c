"""TIFF files whose pages are the rows: microscopes write such stacks. Pages that are not mended keep every byte."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._cells import ArrayCells, cast
from kernmend.io._dataset import Dataset, Format, NewRows, Request
from kernmend.io._files import MAX_BYTES, FileError, damaged
from kernmend.io._numpy import no_member
from kernmend.io._pictures import Picture, decode_page, opened_image
from kernmend.io._tiff import MAGICS, directories, with_pages


class TiffStack(Format):
    """A TIFF file of several pages of one size: each is a row."""

    name = "tiff"
    words = "a TIFF file"
    endings = (".tif", ".tiff")

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether the file begins as TIFF does."""
        return head[:4] in MAGICS

    def read(self, ask: Request) -> Dataset:
        """Return the data set of all pages."""
        no_member(ask)
        ask.no_columns("images")
        raw = ask.path.read_bytes()
        with damaged(ask.path, "TIFF file"):
            n_pages = len(directories(raw))
        if n_pages < 2:
            raise FileError(f"{ask.path}: is one image: give a folder or zip of equally sized ones")
        first, X = _pages(ask, raw, n_pages)
        shape, kind = first.values.shape, first.kind
        if ask.image_shape is not None and ask.image_shape != shape:
            raise FileError(f"{ask.path}: the pages are {shape}, not {ask.image_shape}: leave out the shape")

        def save(temporary: Path, mended: NewRows) -> None:
            pixels = cast(mended.values, np.dtype(kind.dtype), ask.path)
            pages = {row: page.reshape(shape) for row, page in zip(mended.rows.tolist(), pixels, strict=True)}
            temporary.write_bytes(with_pages(raw, pages))

        def save_pixels(temporary: Path, new: NDArray[Any] | None) -> None:
            A: Array = X if new is None else new.astype(X.dtype)
            save(temporary, NewRows.among(A, A != X))

        labels = tuple(f"page {k + 1}" for k in range(n_pages))
        return Dataset(
            X=X,
            row_labels=labels,
            image_shape=shape,
            bounds=kind.bounds,
            integer=np.full(X.shape[1], kind.whole),
            format=self.name,
            source=ask.path,
            save=save,
            cells=ArrayCells(X.astype(kind.dtype), save_pixels, labels=labels),
            places=np.arange(X.shape[1]),
        )


def _pages(ask: Request, raw: bytes, n_pages: int) -> tuple[Picture, Array]:
    """Return the first page, and all pages as rows."""
    with damaged(ask.path, "TIFF file"), opened_image(raw, str(ask.path), several=True) as image:
        first = decode_page(image, raw, 0, f"{ask.path}: page 1", None)
        if first.kind.dtype == "?":
            raise FileError(f"{ask.path}: has pages of 1-bit pixels: convert them to 8 bits")
        needed = 8 * n_pages * first.values.size
        if needed > MAX_BYTES:
            raise FileError(f"{ask.path}: needs {needed / 2**30:.0f} GB of memory: take fewer pages")
        X: Array = np.empty((n_pages, first.values.size), dtype=np.float32 if first.kind.floating else np.float64)
        for k in range(n_pages):
            page = decode_page(image, raw, k, f"{ask.path}: page {k + 1}", first.values.shape)
            if image.mode in ("RGBA", "LA", "PA"):
                raise FileError(f"{ask.path}: page {k + 1} has an alpha channel: save it without")
            if page.kind != first.kind:
                raise FileError(
                    f"{ask.path}: page {k + 1} has {page.kind.words} but page 1 has {first.kind.words}: "
                    "all must be of one kind"
                )
            X[k] = page.values.ravel()
    return first, X
