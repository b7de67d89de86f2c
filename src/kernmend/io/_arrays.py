"""Arrays of any number type as (n, d) data, and back: shared by npy, npz, mat, HDF5 and zarr."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._cells import ArrayCells, Raw, SaveArray
from kernmend.io._dataset import Dataset, Request, differing
from kernmend.io._files import FileError, damaged


@dataclass(frozen=True)
class Entry:
    """Shape and type of an array in a file, known before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def numeric(self) -> bool:
        """Whether these are real numbers in one to four axes."""
        return self.dtype.kind in "bfiu" and 1 <= len(self.shape) <= 4 and 0 not in self.shape

    @property
    def wide(self) -> int:
        """The number of axes longer than one: a vector stored as a column has one."""
        return sum(length > 1 for length in self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes that it takes in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def pick(entries: Mapping[str, Entry], ask: Request) -> str:
    """Return the array that is meant: the named one, else the only one that is a matrix of numbers."""
    if ask.member is not None:
        if ask.member not in entries:
            raise FileError(f"{ask.path}: holds no array {ask.member!r}; it holds {_listed(entries)}")
        check_numeric(ask, entries[ask.member], ask.member)
        return ask.member
    numeric = {name: entry for name, entry in entries.items() if entry.numeric}
    for fits in (lambda e: e.wide >= 2, lambda e: e.wide == 2, lambda e: True):
        found = [name for name, entry in numeric.items() if fits(entry)]
        if len(found) == 1:
            return found[0]
    if not numeric:
        if len(entries) == 1:
            check_numeric(ask, next(iter(entries.values())), next(iter(entries)))
        raise FileError(f"{ask.path}: holds no array of real numbers; it holds {_listed(entries)}")
    raise FileError(
        f"{ask.path}: holds several arrays, {_listed(numeric)}: name the one that is meant, as in "
        f"{ask.path.name}::{next(iter(numeric))}"
    )


def _listed(entries: Mapping[str, Entry]) -> str:
    """Return the names and shapes of arrays as text, eight at most."""
    words = [f"{name} {'×'.join(map(str, entry.shape))}" for name, entry in list(entries.items())[:8]]
    return ", ".join(words) + (f" and {len(entries) - 8} more" if len(entries) > 8 else "") if words else "none"


def check_numeric(ask: Request, entry: Entry, name: str = "") -> None:
    """Raise FileError, which says what an array holds, if these are not real numbers."""
    where = f"{ask.path}::{name}" if name else str(ask.path)
    kinds = {
        "c": "complex numbers: store real and imaginary parts as separate columns",
        "O": "Python objects, which are not read for safety: store numbers",
        "V": "records of several fields: store them as csv or parquet",
        "M": "dates: store numbers",
        "m": "time spans: store numbers",
    }
    if entry.dtype.kind not in "bfiu":
        raise FileError(f"{where}: holds {kinds.get(entry.dtype.kind, 'text: store numbers')}")
    if 0 in entry.shape:
        raise FileError(f"{where}: the array is empty, {entry.shape}")
    if not entry.numeric:
        raise FileError(f"{where}: has {len(entry.shape)} axes: rows × columns or images × height × width is needed")


def array_dataset(
    raw: Raw,
    ask: Request,
    *,
    format: str,
    save: SaveArray,
    row_labels: Sequence[str] | None = None,
    passed: Iterable[str] = (),
    exact: bool = True,
    **facts: Any,
) -> Dataset:
    """Return the data set of an array whose first axis counts the samples; `save` writes the file with another.

    One axis is one feature; three are images (n, h, w), four colour images (n, h, w, 3). `passed` names what else is in
    the file; `exact` says that it is read back as it is written.
    """
    check_numeric(ask, Entry(raw.shape, raw.dtype), facts.get("member") or "")
    image_shape, width = _image_shape(raw, ask), math.prod(raw.shape[1:])
    if image_shape is not None:
        ask.no_columns("images")
    features = ask.chosen(None, width)
    with damaged(ask.path, format):
        X = numbers(raw, features, ask)
    left_out = np.setdiff1d(np.arange(width), features)
    return Dataset(
        X=X,
        columns=tuple(f"column {j}" for j in features) if len(left_out) else None,
        row_labels=None if row_labels is None else tuple(row_labels),
        image_shape=image_shape,
        bounds=_bounds(raw.dtype) if image_shape is not None else None,
        integer=np.full(len(features), raw.dtype.kind != "f"),
        passed=(*(f"column {j}" for j in left_out), *(name for name in passed if name != facts.get("member"))),
        format=format,
        source=ask.path,
        cells=ArrayCells(raw, ask.path, save, labels=row_labels, exact=exact),
        places=features,
        **facts,
    )


def numbers(raw: Raw, features: NDArray[np.intp], ask: Request) -> Array:
    """Return some columns of rows as floats, NaN where they are missing."""
    narrow = raw.dtype.kind == "f" and raw.dtype.itemsize <= 4
    return ask.without_missing(raw.reshape(len(raw), -1)[:, features].astype(np.float32 if narrow else np.float64))


def _image_shape(raw: Raw, ask: Request) -> tuple[int, ...] | None:
    """Return the shape of the images that the rows are, from the axes of the array or as given; None if none."""
    shape = raw.shape[1:]
    if raw.ndim == 4 and shape[2] not in (1, 3):
        raise FileError(f"{ask.path}: the array is {raw.shape}: colour images are (n, height, width, 3)")
    if raw.ndim >= 3:
        own = shape[:2] if shape[2:] == (1,) else shape
        if ask.image_shape is not None and ask.image_shape != own:
            raise FileError(f"{ask.path}: the images are {own}, not {ask.image_shape}: leave out the image shape")
        return own
    return check_image_shape(ask, shape[0] if shape else 1)


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Return the shape of an image, without an axis of one channel; FileError if it is none."""
    try:
        whole = tuple(int(length) for length in shape)
    except (TypeError, ValueError):
        whole = ()
    if len(whole) == 3 and whole[2] == 1:
        whole = whole[:2]
    if min(whole, default=0) < 1 or len(whole) not in (2, 3) or whole[2:] not in ((), (3,)):
        raise FileError(f"the image shape must be height × width or height × width × 3, got {shape!r}")
    return whole


def check_image_shape(ask: Request, width: int) -> tuple[int, ...] | None:
    """Return the shape of images that are stored one per row, if one was given and fits."""
    if ask.image_shape is not None and math.prod(ask.image_shape) != width:
        raise FileError(f"{ask.path}: rows have {width} values, which are not images of {ask.image_shape}")
    return ask.image_shape


def _bounds(dtype: np.dtype[Any]) -> tuple[float, float] | None:
    """Return the range of a pixel; wider types hold other things."""
    return {"b1": (0.0, 1.0), "u1": (0.0, 255.0), "u2": (0.0, 65535.0)}.get(f"{dtype.kind}{dtype.itemsize}")


def differing_rows(new: Raw, raw: Raw) -> dict[int, Raw]:
    """Return the rows of an array, by their numbers, that are others than in one of the same shape and type."""
    other = differing(new, raw).reshape(len(raw), -1).any(axis=1)
    return {row: new[row] for row in np.flatnonzero(other).tolist()}
