"""Arrays of any number type as (n, d) data, and back: shared by npy, npz, mat, HDF5 and zarr."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._cells import ArrayCells, Raw, cast
from kernmend.io._dataset import Dataset, NewRows, Request
from kernmend.io._files import FileError, damaged

SaveArray: TypeAlias = Callable[[Path, Raw | None], None]
"""Writes the file to a temporary path with another array in it; None if nothing has changed."""


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


def array_dataset(raw: Raw, ask: Request, *, format: str, save: SaveArray, **facts: Any) -> Dataset:
    """Return the data set of an array whose first axis counts the samples.

    One axis is one feature; three are images (n, h, w), four colour images (n, h, w, 3).
    """
    check_numeric(ask, Entry(raw.shape, raw.dtype), facts.get("member") or "")
    flat = raw.reshape(len(raw), -1)
    image_shape = _image_shape(raw, ask)
    features = choose(ask, None, flat.shape[1])
    if image_shape is not None:
        ask.no_columns("images")
    with damaged(ask.path, format):
        X = numbers(raw, features, ask)

    def save_matrix(temporary: Path, mended: NewRows) -> None:
        save(temporary, put(raw, features, mended, ask) if len(mended.rows) else None)

    left_out = np.setdiff1d(np.arange(flat.shape[1]), features)
    return Dataset(
        X=X,
        columns=None if len(features) == flat.shape[1] else tuple(f"column {j}" for j in features),
        image_shape=image_shape,
        bounds=_bounds(raw.dtype) if image_shape is not None else None,
        integer=np.full(len(features), raw.dtype.kind != "f"),
        passed=tuple(f"column {j}" for j in left_out) + facts.pop("passed", ()),
        format=format,
        source=ask.path,
        save=save_matrix,
        cells=ArrayCells(raw, save),
        places=features,
        **facts,
    )


def numbers(raw: Raw, features: NDArray[np.intp], ask: Request) -> Array:
    """Return some columns of rows as floats, NaN where they are missing."""
    narrow = raw.dtype.kind == "f" and raw.dtype.itemsize <= 4
    X: Array = raw.reshape(len(raw), -1)[:, features].astype(np.float32 if narrow else np.float64)
    for number in ask.missing_numbers:
        np.putmask(X, number == X, np.nan)
    return X


def choose(ask: Request, names: tuple[str, ...] | None, width: int) -> NDArray[np.intp]:
    """Return the numbers of the columns that were asked for, by name or number from 0; all but the kept if none was."""
    if ask.columns is None:
        return np.setdiff1d(np.arange(width), ask.kept(names, width))
    chosen = []
    for column in ask.columns:
        if names is not None and column in names:
            chosen.append(names.index(column))
        elif column.isdecimal() and int(column) < width:
            chosen.append(int(column))
        else:
            known = f"columns 0 to {width - 1}" if names is None else ", ".join(names[:8])
            raise FileError(
                f"{ask.path}: has no column {column!r}; it has {known}{', ...' if width > 8 and names else ''}"
            )
    return np.array(sorted(set(chosen)), dtype=np.intp)


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


def check_image_shape(ask: Request, width: int) -> tuple[int, ...] | None:
    """Return the shape of images that are stored one per row, if one was given and fits."""
    if ask.image_shape is not None and math.prod(ask.image_shape) != width:
        raise FileError(f"{ask.path}: rows have {width} values, which are not images of {ask.image_shape}")
    return ask.image_shape


def _bounds(dtype: np.dtype[Any]) -> tuple[float, float] | None:
    """Return the range of a pixel; wider types hold other things."""
    return {"b1": (0.0, 1.0), "u1": (0.0, 255.0), "u2": (0.0, 65535.0)}.get(f"{dtype.kind}{dtype.itemsize}")


def put(raw: Raw, features: NDArray[np.intp], mended: NewRows, ask: Request) -> Raw:
    """Return a copy of `raw`, same type and memory order, with the values that are new."""
    flat = raw.reshape(len(raw), -1).copy()
    rows, columns = np.nonzero(mended.new)
    flat[mended.rows[rows], features[columns]] = cast(mended.values[mended.new], raw.dtype, ask.path)
    out = np.empty_like(raw)
    out[...] = flat.reshape(raw.shape)
    return out
