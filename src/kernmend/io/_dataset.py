"""A data set from a file: the numbers, what they are called, and how to put mended ones back."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernmend._typing import Array
from kernmend.io._cells import Cells, NewValues
from kernmend.io._files import FileError, copy, files_below, opening, replacing, stamp
from kernmend.io._number_format import NumberFormat, round_as_written

Mask: TypeAlias = NDArray[np.bool_]

# Number of bytes from the beginning of a file that its format is recognised by.
HEAD = 1024
# Number of entries that are compared at one time.
ENTRIES = 2**16


@dataclass(frozen=True)
class Layout:
    """What a user says of a table of texts; None where it is to be found from the content.

    `thousands` is the mark between groups of three digits, "" if there is none.
    """

    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None

    @property
    def told(self) -> tuple[str, ...]:
        """The names of what was said."""
        return tuple(own.name for own in fields(self) if getattr(self, own.name) is not None)


@dataclass(frozen=True)
class Request:
    """What was asked of `read`."""

    path: Path
    member: str | None = None
    columns: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    missing: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    layout: Layout = Layout()
    blank: bool = False
    """Whether lines with nothing in them count as rows."""

    def chosen(self, names: tuple[str, ...] | None, width: int) -> NDArray[np.intp]:
        """Return the numbers of the columns that were asked for; all but those to keep if none was."""
        if self.columns is None:
            return np.setdiff1d(np.arange(width), self.kept(names, width))
        return np.array(sorted({self._place(column, names, width) for column in self.columns}), dtype=np.intp)

    def kept(self, names: tuple[str, ...] | None, width: int) -> list[int]:
        """Return the numbers of the columns that are to stay as they are; FileError if there is no such column."""
        places: list[int] = []
        for column in self.keep:
            first, dots, last = column.partition("..")
            if (names is not None and column in names) or not dots:
                places.append(self._place(column, names, width, " to keep"))
            else:
                ends = (self._place(end, names, width, " to keep") for end in (first, last))
                some = range(next(ends), next(ends) + 1)
                if not some:
                    raise FileError(f"{self.path}: {last!r} stands before {first!r}: name the first column first")
                places += some
        return places

    def _place(self, column: str, names: tuple[str, ...] | None, width: int, use: str = "") -> int:
        """Return the number of a column, given by its name or its number; FileError, which says what for, if none."""
        place = place_of(column, names, width)
        if place is None:
            known = f"columns 0 to {width - 1}" if names is None else ", ".join(names[:8])
            more = ", ..." if width > 8 and names else ""
            raise FileError(f"{self.path}: has no column {column!r}{use}; it has {known}{more}")
        return place

    @property
    def missing_numbers(self) -> dict[str, float]:
        """The texts that mean missing, as far as they are numbers: -999 also means -999.0."""
        numbers = {}
        for text in self.missing:
            with suppress(ValueError):
                numbers[text] = float(text)
        return numbers

    def without_missing(self, X: Array) -> Array:
        """Return numbers with NaN, in place, where a number means missing."""
        for number in self.missing_numbers.values():
            np.putmask(X, number == X, np.nan)
        return X

    def no_columns(self, what: str) -> None:
        """Raise FileError if columns were chosen in data that has none."""
        if self.columns is not None or self.keep:
            raise FileError(f"{self.path}: {what} have no columns to choose from: leave out the choice of columns")


def place_of(column: str, names: Sequence[str] | None, width: int) -> int | None:
    """Return the number of a column, given by its name or its number from 0; None if there is none."""
    if names is not None and column in names:
        return names.index(column)
    return int(column) if column.isdecimal() and int(column) < width else None


class Format(ABC):
    """One kind of file. To add one is to add one such class, and its name to `FORMATS`."""

    name: ClassVar[str]
    words: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]
    marks: ClassVar[tuple[bytes, ...]] = ()
    """What such a file begins with, one of them."""
    several: ClassVar[bool] = False
    """Whether it may hold several arrays or sheets, of which one is named as in `file.npz::name`."""
    layout: ClassVar[tuple[str, ...]] = ()
    """What of a `Layout` can be said of such a file."""

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether a file begins like one of this kind; `head` is empty for a folder."""
        return head.startswith(self.marks)

    @abstractmethod
    def read(self, ask: Request) -> "Dataset":
        """Return the data set of a file; FileError if it cannot be read."""

    def cells(self, ask: Request) -> Cells:
        """Return the cells of a file, all its columns; FileError if it cannot be read."""
        return self.read(ask).cells

    def check(self, ask: Request, verb: str = "is") -> None:
        """Raise FileError if a member was named, or something said of the layout, that such a file does not have."""
        if ask.member is not None and not self.several:
            raise FileError(f"{ask.path}: holds a single table, leave out ::{ask.member}")
        for name in ask.layout.told:
            if name not in self.layout:
                raise FileError(f"{ask.path}: {verb} {self.words}, which has no {name} to choose: leave out --{name}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Origin:
    """A file or folder that was read, its format, and what must be known to write it again."""

    source: Path
    format: str
    endings: tuple[str, ...] = field(default=(), repr=False)
    """The endings of names of such files; none if any will do."""
    stamp: object = field(default=None, repr=False)
    """Size and time of the file when it was read."""

    def __post_init__(self) -> None:
        if self.stamp is None:
            object.__setattr__(self, "stamp", stamp(self.source))

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return self.source.is_dir()

    def write_whole(self, path: Path, save: Callable[[Path], None] | None, *, force: bool) -> Path:
        """Write it again at `path`, complete or not at all, and return the path.

        `save` writes it to a temporary path; None if nothing has changed, so that it is copied byte for byte.
        """
        with opening(path, "written"):
            self.check_output(path, force)
            self.check_unchanged()
            with replacing(path, folder=self.folder) as temporary:
                if save is not None:
                    save(temporary)
                else:
                    copy(self.source, temporary)
                if self.folder and path.exists():
                    check_folder(path, temporary)
        return path

    def check_unchanged(self) -> None:
        """Raise FileError if the file has changed since it was read."""
        if stamp(self.source) != self.stamp:
            raise FileError(f"{self.source}: has changed since it was read: read it again")

    def check_output(self, path: Path, force: bool) -> None:
        """Raise FileError if the output cannot be written at `path`."""
        if not path.parent.is_dir():
            raise FileError(f"{path}: cannot be written: the folder {path.parent} does not exist, make it first")
        if path.exists() and path.is_dir() != self.folder:
            here, there = ("folder", "file") if path.is_dir() else ("file", "folder")
            raise FileError(f"{path}: is a {here}, but {self.format} data go to a {there}: choose another name")
        ending = path.suffix.lower()
        if self.endings and ending not in ("", self.source.suffix.lower(), *self.endings):
            raise FileError(f"{path}: ends in {ending} but {self.format} data are written: end it in {self.endings[0]}")
        if path.exists() and not force:
            raise FileError(f"{path}: exists already: choose another name, or force it to be replaced")
        if self.folder and self.source.resolve() in path.resolve().parents:
            raise FileError(f"{path}: lies inside the input {self.source}: choose a place outside")


def check_folder(path: Path, new: Path) -> None:
    """Raise FileError if a folder to be replaced holds anything but older versions of the new files."""
    others = sorted(set(files_below(path)) - set(files_below(new)))
    if others:
        raise FileError(f"{path}: not replaced, it holds other files ({others[0]}): choose another name or empty it")


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(Origin):
    r"""The numbers of a file as an (n, d) array `X`, NaN where missing, and how to write mended ones back.

    Parameters
    ----------
    X : float array (n, d), read-only; float32 if the file has nothing wider, else float64.
    columns : names of the d features, made unique; None if the file has none.
    row_labels : names of the n rows (an index column, file names of images); None if the file has none.
    image_shape : (h, w) or (h, w, 3) if rows are images.
    bounds : (low, high), the range that the kind of file allows, in the units of X; None if it sets none.
    integer : bool array (d,), the features that stay whole numbers.
    formats : how each feature writes its numbers, in a table of texts; None elsewhere.
    passed : names of what is passed through untouched: columns, other arrays, other files.
    why_passed : why, by name, in a few words; not of all.
    notes : what a user should know of how the file was read, one sentence each.
    rows : numbers (n,) of the rows of X among those of the file, where some have no number; None if all have one.
    format : the name of the format: "csv", "parquet", "npy", ...
    source : the path that was read.
    member : the array inside it, if it holds several.
    cells : the texts of all cells of the file.
    places : numbers (d,) of the features among the columns of `cells`.

    Examples
    --------
    >>> import tempfile
    >>> from kernmend.io import read
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("name,x,y\nfirst,1,0.50\nsecond,,2.0\n")
    >>> data = read(folder / "a.csv")
    >>> data.columns, data.passed, data.X.tolist()
    (('x', 'y'), ('name',), [[1.0, 0.5], [nan, 2.0]])
    >>> print(data.write(folder / "b.csv", [[1.0, 0.5], [2.8, 2.0]]).read_text(), end="")
    name,x,y
    first,1,0.50
    second,3,2.0
    """

    X: Array
    columns: tuple[str, ...] | None = None
    row_labels: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    bounds: tuple[float, float] | None = None
    integer: Mask
    formats: tuple[NumberFormat, ...] | None = field(default=None, repr=False)
    rows: NDArray[np.intp] | None = field(default=None, repr=False)
    passed: tuple[str, ...] = ()
    why_passed: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    member: str | None = None
    cells: Cells = field(repr=False)
    places: NDArray[np.intp] = field(repr=False)

    def __post_init__(self) -> None:
        if 0 in self.X.shape:
            raise FileError(f"{self.source}: holds no {'rows' if self.X.shape[1] else 'columns'} of numbers")
        self.X.flags.writeable = False
        super().__post_init__()

    def write(self, path: str | Path, A: ArrayLike, *, force: bool = False) -> Path:
        """Write the file again at `path` with the values of A (n, d), in its format and layout; return the path.

        Cells that are as in X stay as they are in the file. Mended ones are rounded where `integer`, kept within
        `bounds`, and NaN is written as missing. The file appears complete or not at all; one that exists is replaced
        only with `force=True`.
        """
        new = self._new_values(A)
        save = (lambda temporary: self.cells.put(temporary, new)) if len(new.rows) else None
        return self.write_whole(Path(path), save, force=force)

    def _new_values(self, A: ArrayLike) -> NewValues:
        """Return the values that differ from those in the file, as they can be written, by their places there."""
        given = check_shape(A, self.X, self.source)
        other = [differing(given[some], self.X[some]).any(axis=1) for some in slices(given.shape)]
        rows = np.flatnonzero(np.concatenate(other))
        shape = (len(rows), given.shape[1])
        values, new = np.empty(shape, dtype=given.dtype), np.empty(shape, dtype=bool)
        for some in slices(shape):
            X = self.X[rows[some]]
            values[some], new[some] = to_write(
                given[rows[some]], X, self.integer, self.bounds, self.source, self.formats
            )
        kept = new.any(axis=1)  # where a value was not rounded to what it was
        if not kept.all():
            rows, values, new = rows[kept], values[kept], new[kept]
        return NewValues(rows if self.rows is None else self.rows[rows], self.places, values, new)


def without_empty(data: Dataset) -> Dataset:
    """Return a data set without rows and columns in which nothing is observed: they stay as they are in the file."""
    empty = np.isnan(data.X)
    if not empty.any():
        return data
    rows = np.flatnonzero(~empty.all(axis=1))
    lasting: Mask = np.ones(data.X.shape[1], dtype=bool)
    if data.image_shape is None:
        lasting = ~np.asarray(empty.all(axis=0))
    columns, n_empty = np.flatnonzero(lasting), len(data.X) - len(rows)
    if not len(rows) or (not n_empty and lasting.all()):
        return data
    names = data.columns or tuple(f"column {j}" for j in range(data.X.shape[1]))
    labels = data.row_labels or tuple(map(str, range(len(data.X))))
    note = (
        "1 row has no number and is kept as it is."
        if n_empty == 1
        else f"{n_empty} rows have no number and are kept as they are."
    )
    return replace(
        data,
        X=data.X[np.ix_(rows, columns)],
        columns=tuple(names[j] for j in columns) if data.columns is not None or not lasting.all() else None,
        row_labels=tuple(labels[i] for i in rows) if data.row_labels or n_empty else None,
        integer=data.integer[columns],
        formats=None if data.formats is None else tuple(data.formats[j] for j in columns),
        places=data.places[columns],
        rows=data.rows if not n_empty else rows if data.rows is None else data.rows[rows],
        passed=data.passed + tuple(names[j] for j in np.flatnonzero(~lasting)),
        why_passed={**data.why_passed, **{names[j]: "empty" for j in np.flatnonzero(~lasting)}},
        notes=data.notes + ((note,) if n_empty else ()),
    )


def to_write(
    A: ArrayLike,
    X: Array,
    integer: Mask,
    bounds: tuple[float, float] | None,
    source: Path,
    formats: tuple[NumberFormat, ...] | None = None,
) -> tuple[Array, Mask]:
    """Return mended values as they can be written instead of `X`, and the mask of those that differ from it."""
    given = check_shape(A, X, source)
    if np.isinf(given[differing(given, X)]).any():
        raise ValueError(f"{source}: A has infinite values where X has others")
    values = settled(given, X, integer, bounds, formats)
    return values, differing(values, X)


def settled(
    A: Array,
    X: Array,
    integer: Mask | None,
    bounds: tuple[float, float] | None,
    formats: tuple[NumberFormat, ...] | None = None,
) -> Array:
    """Return a copy of A whose values, where they differ from `X`, are rounded as columns are, and within bounds."""
    values = A.copy()
    changed = differing(values, X)
    if integer is not None:
        np.rint(values, out=values, where=changed & integer)
    round_as_written(values, formats, changed)
    if bounds is not None:
        np.copyto(values, np.clip(values, *bounds), where=changed)
    return values


def check_shape(A: ArrayLike, X: Array, source: Path) -> Array:
    """Return mended values as floats, without a copy if they are; ValueError if they have not the shape of `X`."""
    given: NDArray[Any] = np.asarray(A)
    if given.shape != X.shape:
        raise ValueError(f"{source}: A must have the shape of X, {X.shape}, got {given.shape}")
    return given if given.dtype.kind == "f" else given.astype(np.float64)


def slices(shape: tuple[int, ...]) -> Iterator[slice]:
    """Give the rows of an array, a few at a time."""
    step = max(1, ENTRIES // max(1, math.prod(shape[1:])))
    yield from (slice(start, start + step) for start in range(0, shape[0], step))


def differing(A: Array, X: Array) -> Mask:
    """Return which entries differ; two that are NaN do not. A few rows at a time: this needs no memory to speak of.

    A float32 result of float64 data counts as unchanged where it is X rounded to float32.
    """
    out = np.empty(A.shape, dtype=bool)
    for rows in slices(A.shape):
        known = X[rows].astype(A.dtype, copy=False)
        out[rows] = ~((A[rows] == known) | (np.isnan(A[rows]) & np.isnan(known)))
    return out
