"""TIFF files whose pages are the rows: microscopes write such stacks. Pages that are not mended keep every byte."""

from pathlib import Path

import numpy as np

from kernmend.io._arrays import array_dataset, differing_rows
from kernmend.io._cells import Raw
from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._files import MAX_BYTES, FileError, damaged
from kernmend.io._pictures import decode_page, opened_image
from kernmend.io._tiff import MAGICS, directories, with_pages


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
        needed = 8 * n_pages * first.values.size
        if needed > MAX_BYTES:
            raise FileError(f"{ask.path}: needs {needed / 2**30:.0f} GB of memory: take fewer pages")
        pixels: Raw = np.empty((n_pages, *first.values.shape), dtype=first.kind.dtype)
        for k in range(n_pages):
            page = decode_page(image, raw, k, f"{ask.path}: page {k + 1}", first.values.shape)
            if image.mode in ("RGBA", "LA", "PA"):
                raise FileError(f"{ask.path}: page {k + 1} has an alpha channel: save it without")
            if page.kind != first.kind:
                raise FileError(
                    f"{ask.path}: page {k + 1} has {page.kind.words} but page 1 has {first.kind.words}: "
                    "all must be of one kind"
                )
            pixels[k] = page.values
    return pixels
