"""`read`: finds out what a file is, by its content and its ending, and reads it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernmend.io._arrays import checked_shape
from kernmend.io._containers import Hdf5, Matlab73, Zarr
from kernmend.io._csv import Csv
from kernmend.io._dataset import HEAD, Dataset, Format, Layout, Request
from kernmend.io._files import FileError, opening
from kernmend.io._images import ImageFolder, ImageZip, TiffStack
from kernmend.io._json_lines import JsonLines
from kernmend.io._matlab import Matlab
from kernmend.io._netcdf import NetCdf
from kernmend.io._number_format import GROUPERS
from kernmend.io._numpy import Npy, Npz
from kernmend.io._packed import Gzipped, ZippedTable
from kernmend.io._parquet import Feather, Parquet
from kernmend.io._text import BLANKS, texts_of
from kernmend.io._xlsx import Xlsx

FORMATS: tuple[Format, ...] = (
    Npy(), Npz(), Xlsx(), ZippedTable(), ImageZip(), Parquet(), Feather(), Matlab(), Matlab73(), Hdf5(), NetCdf(),
    Zarr(), TiffStack(), ImageFolder(), Gzipped(), JsonLines(),
    Csv(),  # The last, since it takes every text.
)  # fmt: skip

FOREIGN = {
    b"\xfd7zXZ": "compressed with xz: unpack it first",
    b"BZh": "compressed with bzip2: unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it first",
    b"7z\xbc\xaf": "a 7z archive: unpack it first",
    b"\xd0\xcf\x11\xe0": "an old Office file: save the table as csv",
    b"%PDF": "a PDF: it holds no table that can be mended",
    b"SQLite format 3": "a database: export the table as csv",
    b"\x89PNG": "one image: give a folder or zip of equally sized ones",
    b"\xff\xd8\xff": "one image: give a folder or zip of equally sized ones",
    b"GIF8": "one image: give a folder or zip of equally sized ones",
    b"\x80\x04\x95": "a pickle, which is not read for safety: save it as npy or csv",
    b"\x80\x05\x95": "a pickle, which is not read for safety: save it as npy or csv",
    b"<": "a web page or XML: save the table as csv or xlsx",
    b"FEA1": "an old Feather file: save it as parquet",
    b"CDF\x05": "a NetCDF file of 64-bit data: save it as NetCDF 4",
}
"""Files of other kinds that are often given, by their first bytes, with what to do."""


def read(
    path: str | Path,
    *,
    columns: Sequence[str | int] | None = None,
    image_shape: Sequence[int] | None = None,
    missing: Sequence[str | float] = (),
    keep: Sequence[str | int] = (),
    **layout: Any,
) -> Dataset:
    """Return the numbers of a file or folder: a table, an array or images, see `FORMATS`.

    Parameters
    ----------
    path : the file or folder; ``file.npz::name`` names one of several arrays in a file, or a sheet of a workbook.
    columns : names of the columns to mend, or their numbers from 0; the others pass through. Default: all with numbers.
        Of columns, missing and keep a single one may stand by itself.
    image_shape : (h, w) or (h, w, 3) if every row is a flattened image.
    missing : texts or numbers that mean a missing value, besides empty cells, NA, NaN and null.
    keep : names or numbers of columns that stay as they are.
    layout : `header` (bool), `delimiter`, `decimal`, `thousands` and `encoding` of a table of texts; `thousands=""`
        says that no mark stands between groups of digits. What is not said is found from the content, and the `notes`
        of the result tell what was assumed.

    Raises
    ------
    FileError : the file cannot be read; the message says why and what to do.
    """
    ask = request(path, columns=columns, image_shape=image_shape, missing=missing, keep=keep, **layout)
    with opening(ask.path, "read"):
        format = recognise(ask.path)
        format.check(ask)
        return replace(format.read(ask), endings=format.endings)


def request(
    path: str | Path,
    *,
    columns: Sequence[str | int] | None = None,
    image_shape: Sequence[int] | None = None,
    missing: Sequence[str | float] = (),
    keep: Sequence[str | int] = (),
    **layout: Any,
) -> Request:
    """Return the arguments of `read` as a request, checked."""
    place, member = _split(path)
    shape = None if image_shape is None else checked_shape(image_shape)
    named, kept = None if columns is None else texts_of(columns), texts_of(keep)
    if set(named or ()) & set(kept):
        raise FileError(f"{place}: a column is either to be mended or to be kept: name it once")
    return Request(place, member, named, shape, texts_of(missing), kept, _checked_layout(place, Layout(**layout)))


def _checked_layout(place: Path, layout: Layout) -> Layout:
    """Return what was said of a table of texts; FileError if it makes no sense."""
    delimiter = layout.delimiter
    if delimiter is not None and delimiter != BLANKS and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise FileError(f"{place}: the delimiter must be one character, got {delimiter!r}")
    if layout.decimal not in (None, ".", ","):
        raise FileError(f"{place}: the decimal sign must be a point or a comma, got {layout.decimal!r}")
    if layout.thousands is not None and layout.thousands not in ("", ",", ".", *GROUPERS):
        raise FileError(f"{place}: {layout.thousands!r} cannot stand between groups of digits")
    if layout.decimal is not None and layout.decimal in (layout.thousands, layout.delimiter):
        raise FileError(f"{place}: {layout.decimal!r} cannot be the decimal sign and something else")
    return layout


def _split(path: str | Path) -> tuple[Path, str | None]:
    """Return the file and the name of the array in it."""
    text = str(path)
    if "\0" in text or not text:
        raise FileError(f"{text!r}: not the name of a file")
    file, mark, member = text.rpartition("::")
    with opening(text, "read"):
        if mark and file and member and not Path(text).exists():
            return Path(file), member
        return Path(text), None


def recognise(path: Path) -> Format:
    """Return the format of a file; FileError if it has none that is known, or not the one that its ending says."""
    if not path.exists():
        raise FileError(f"{path}: no such file or folder")
    head = b""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(HEAD)
        if not head:
            raise FileError(f"{path}: the file is empty")
    elif not path.is_dir():
        raise FileError(f"{path}: neither a file nor a folder")
    promised = [format for format in FORMATS if path.suffix.lower() in format.endings]
    for format in FORMATS:
        if format.sees(path, head):
            if promised and format not in promised:
                raise FileError(
                    f"{path}: ends in {path.suffix} but its content is {format.words}: give it the right ending"
                )
            return format
    if promised:
        raise FileError(
            f"{path}: ends in {path.suffix} but is not {promised[0].words}: it is damaged or of another kind"
        )
    for start, words in FOREIGN.items():
        if head.startswith(start):
            raise FileError(f"{path}: is {words}")
    raise FileError(f"{path}: of no kind that is read here: {', '.join(format.name for format in FORMATS)} are")
