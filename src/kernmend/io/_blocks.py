"""Zarr and Parquet larger than memory: read and written again one block of rows at a time, by several processes.

What is written grows in a working folder beside the target and takes its name when it is whole. A block is always made
from the input, never from what is there, so it may be written twice: by a process that died, and by another.
"""

import math
import os
import shutil
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io import _arrays, _parquet
from kernmend.io._arrays import Entry, array_dataset, check_image_shape, pick
from kernmend.io._cells import ArrayCells, Cells, NewValues, with_values
from kernmend.io._containers import Worker, Zarr
from kernmend.io._dataset import Dataset, Mask, Request, check_folder, to_write
from kernmend.io._files import FileError, beside, damaged, files_below, need, opening, place
from kernmend.io._identifiers import measured, note
from kernmend.io._reading import recognise, request
from kernmend.io._worker import zarr_array

# Size of a block in bytes, as float64; a chunk or a row group that is larger is a block by itself.
BLOCK_BYTES = 32 * 2**20
# Number of blocks that a zarr array is divided into, where chunks are small enough, so that every worker gets some.
LEAST_BLOCKS = 16
# Number of rows of a block when all is in memory. A block on disk that ends where one of these does gives the same
# result bit for bit.
ROWS = 2000
# Number of rows taken from each of three blocks, to decide whether columns have units of their own.
SAMPLE = 2000
# Name of the output in the working folder.
OUT = "out"


@dataclass(frozen=True, eq=False)
class Block:
    """The numbers of one block, with their texts."""

    X: Array
    cells: Cells
    places: NDArray[np.intp]
    columns: tuple[str, ...] | None
    image_shape: tuple[int, ...] | None = None
    row_labels: None = None
    formats: None = None
    rows: None = None


@dataclass(frozen=True)
class Blocks(ABC):
    """A file or folder as blocks of rows. It can be pickled, so that other processes can read and write blocks."""

    ask: Request
    sizes: tuple[int, ...]
    integer: Mask
    bounds: tuple[float, float] | None

    @abstractmethod
    def numbers(self, k: int) -> Array:
        """Return the numbers of block k, NaN where missing."""

    @abstractmethod
    def begin(self, folder: Path) -> None:
        """Prepare a working folder."""

    @abstractmethod
    def put(self, folder: Path, k: int, A: Array) -> tuple[Array, Mask]:
        """Write block k with the values of `A` where these differ; return its values, and the mask of what differs."""

    @abstractmethod
    def source(self, k: int) -> "Block":
        """Return block k as the source of a change log."""

    @abstractmethod
    def endings(self, folder: Path) -> list[Any]:
        """Return what is left to do when all blocks are there, as functions without arguments."""


@dataclass(frozen=True)
class ZarrBlocks(Blocks):
    """An array of a zarr folder: the folder is copied, and chunks in which something changes are written anew."""

    name: str
    features: NDArray[np.intp]
    step: int
    """Number of rows of a chunk."""

    def numbers(self, k: int) -> Array:
        return _arrays.numbers(self._raw(k), self.features, self.ask)

    def begin(self, folder: Path) -> None:
        shutil.copytree(self.ask.path, folder / OUT)

    def put(self, folder: Path, k: int, A: Array) -> tuple[Array, Mask]:
        raw, start = self._raw(k), sum(self.sizes[:k])
        values, changed = to_write(
            A, _arrays.numbers(raw, self.features, self.ask), self.integer, self.bounds, self.ask.path
        )
        if changed.any():
            new = with_values(raw, NewValues.among(values, changed, self.features), self.ask.path)
            there = zarr_array(str(folder / OUT), self.name, "r+")
            for first in range(0, len(raw), self.step):
                rows = slice(first, first + self.step)
                if changed[rows].any():
                    there[start + first : start + first + len(new[rows])] = new[rows]
        return values, changed

    def source(self, k: int) -> Block:
        raw = self._raw(k)
        shape = self.ask.image_shape or (raw.shape[1:] if raw.ndim > 2 else None)
        cells = ArrayCells(raw, self.ask.path, _not_here)
        return Block(_arrays.numbers(raw, self.features, self.ask), cells, self.features, None, shape)

    def endings(self, folder: Path) -> list[Any]:
        return []

    def _raw(self, k: int) -> Any:
        """Return the numbers of block k in the type of the file."""
        start = sum(self.sizes[:k])
        with damaged(self.ask.path, "zarr folder"):
            return np.asarray(zarr_array(str(self.ask.path), self.name, "r")[start : start + self.sizes[k]])


@dataclass(frozen=True)
class ParquetBlocks(Blocks):
    """The row groups of Parquet, a file or a folder of them: each is written alone, those of a file then joined."""

    files: tuple[str, ...]
    """Names of the files in the folder; "" is the path itself."""
    groups: tuple[tuple[int, int], ...]
    """The number of the file and of the row group in it, for each block."""
    features: list[int]

    def numbers(self, k: int) -> Array:
        return _parquet.numbers(self._table(k), self.features, self.ask)

    def begin(self, folder: Path) -> None:
        (folder / "pieces").mkdir()
        if self.files == ("",):
            return
        (folder / OUT).mkdir()
        for name in files_below(self.ask.path):
            (folder / OUT / name).parent.mkdir(parents=True, exist_ok=True)
            if name not in self.files and Path(name).name != "_metadata":  # which tells of row groups as they were
                shutil.copyfile(self.ask.path / name, folder / OUT / name)

    def put(self, folder: Path, k: int, A: Array) -> tuple[Array, Mask]:
        table = self._table(k)
        X = _parquet.numbers(table, self.features, self.ask)
        values, changed = to_write(A, X, self.integer, self.bounds, self.ask.path)
        new = _parquet.put(table, NewValues.among(values, changed, np.array(self.features)), self.ask.path)
        temporary = folder / "pieces" / f"{k}.{os.getpid()}"
        need("pyarrow.parquet", "parquet").write_table(new, temporary, **self._layout(self.groups[k][0]))
        temporary.replace(folder / "pieces" / str(k))
        return values, changed

    def source(self, k: int) -> Block:
        table = self._table(k)
        cells = _parquet.TableCells(table, self.ask.path, _not_here)
        places = np.array(self.features, dtype=np.intp)
        names = tuple((cells.columns or ())[j] for j in self.features)
        return Block(_parquet.numbers(table, self.features, self.ask), cells, places, names)

    def endings(self, folder: Path) -> list[Any]:
        return [Joining(self, folder, number) for number in range(len(self.files))]

    def join(self, folder: Path, number: int) -> None:
        """Put the row groups of one file together, one at a time in memory."""
        parquet = need("pyarrow.parquet", "parquet")
        layout = self._layout(number)
        layout.pop("row_group_size", None)
        target = folder / OUT / self.files[number]
        with parquet.ParquetFile(self.ask.path / self.files[number]) as file:
            schema = file.schema_arrow
        temporary = folder / f"{number}.{os.getpid()}"
        with parquet.ParquetWriter(temporary, schema, **layout) as writer:
            for k in (k for k, (own, _) in enumerate(self.groups) if own == number):
                writer.write_table(parquet.read_table(folder / "pieces" / str(k), use_threads=False).cast(schema))
        temporary.replace(target)

    def _table(self, k: int) -> Any:
        """Return the row group of block k as a table of pyarrow."""
        number, group = self.groups[k]
        path = self.ask.path / self.files[number]
        with damaged(path, "Parquet file"), need("pyarrow.parquet", "parquet").ParquetFile(path) as file:
            return file.read_row_group(group, use_threads=False)

    def _layout(self, number: int) -> dict[str, Any]:
        """Return how the file of that number is packed."""
        with need("pyarrow.parquet", "parquet").ParquetFile(self.ask.path / self.files[number]) as file:
            return _parquet.layout_of(file.metadata)


@dataclass(frozen=True)
class Joining:
    """Joins the row groups of one Parquet file. A class, so that it pickles."""

    blocks: ParquetBlocks
    folder: Path
    number: int

    def __call__(self) -> None:
        """Write the joined file to the working folder."""
        self.blocks.join(self.folder, self.number)


# --- opening ----------------------------------------------------------------------------------------------------------


def open_blocks(path: Path, **options: Any) -> tuple[Blocks, Dataset]:
    """Return the blocks of a zarr folder or of Parquet, and a data set with some of the rows and all other facts."""
    ask = request(path, **options)
    with opening(ask.path, "read"):
        if _parquet.is_parquet_folder(ask.path):
            return _open_parquet(ask)
        format = recognise(ask.path)
        format.check(ask)
        if isinstance(format, _parquet.Parquet):
            return _open_parquet(ask)
        if isinstance(format, Zarr):
            return _open_zarr(ask)
    raise FileError(f"{ask.path}: is {format.words}: a cluster mends zarr and parquet, store it as one of those")


def _open_zarr(ask: Request) -> tuple[Blocks, Dataset]:
    """Return the blocks of an array of a zarr folder, each of whole chunks, and its data set with a sample."""
    with Worker() as worker:
        listed = worker.ask(ask.path, "zarr list")
    entries = {name: Entry(tuple(shape), np.dtype(kind)) for name, (shape, kind, _, _) in listed.items()}
    name = pick(entries, ask)
    shape, dtype = entries[name].shape, entries[name].dtype
    with damaged(ask.path, "zarr folder"):
        array = zarr_array(str(ask.path), name, "r")
        step = int((array.shards or array.chunks)[0])
    facts = {"passed": listed, "member": name, "endings": Zarr.endings}
    data = array_dataset(np.zeros((1, *shape[1:]), dtype), ask, format="zarr", save=_not_here, **facts)
    most = min(BLOCK_BYTES // (8 * step * math.prod(shape[1:])), shape[0] // (step * LEAST_BLOCKS))
    same = ROWS // math.gcd(ROWS, step)  # Number of chunks that together end where a block in memory does.
    rows = step * (most // same * same or max(1, most))
    sizes = tuple(min(rows, shape[0] - start) for start in range(0, shape[0], rows))
    blocks = ZarrBlocks(ask, sizes, data.integer, data.bounds, name, data.places, step)
    return blocks, _with_sample(data, blocks)


def _open_parquet(ask: Request) -> tuple[Blocks, Dataset]:
    """Return the row groups of Parquet as blocks, and its data set with a sample."""
    parquet = need("pyarrow.parquet", "parquet")
    _parquet.Parquet().check(ask)
    files = tuple(_parquet.table_names(ask.path)) if ask.path.is_dir() else ("",)
    groups: list[tuple[int, int]] = []
    sizes: list[int] = []
    first: Any = None
    for number, name in enumerate(files):
        with damaged(ask.path / name, "Parquet file"), parquet.ParquetFile(ask.path / name) as file:
            schema = file.schema_arrow
            groups += [(number, group) for group in range(file.num_row_groups)]
            sizes += [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        first = schema if first is None else first
        if not schema.equals(first, check_metadata=False):
            raise FileError(f"{ask.path / name}: has other columns than {files[0]}: mend them one by one")
    columns, features = _parquet.columns_of(first.empty_table(), ask)
    if not features or not sum(sizes):
        raise FileError(f"{ask.path}: holds no {'columns' if sum(sizes) else 'rows'} of numbers")
    whole = _parquet.are_whole(first.empty_table(), features)
    blocks = ParquetBlocks(ask, tuple(sizes), whole, None, files=files, groups=tuple(groups), features=features)
    identifiers: dict[str, str] = {}
    if ask.columns is None:
        keep, identifiers = _measured(blocks, [columns[j] for j in features])
        features = [features[k] for k in keep]
        blocks = replace(blocks, features=features, integer=whole[keep])
    data = Dataset(
        X=np.zeros((1, len(features))),
        columns=tuple(columns[j] for j in features),
        image_shape=check_image_shape(ask, len(features)),
        integer=blocks.integer,
        passed=tuple(name for j, name in enumerate(columns) if j not in set(features)),
        notes=note(identifiers),
        format="parquet",
        source=ask.path,
        endings=_parquet.Parquet.endings,
        cells=_parquet.TableCells(first.empty_table(), ask.path, _not_here),
        places=np.array(features, dtype=np.intp),
    )
    return blocks, _with_sample(data, blocks)


def _measured(blocks: Blocks, names: list[str]) -> tuple[list[int], dict[str, str]]:
    """Return the places of the columns that may be measurements, and why the others are identifiers, by name."""
    first, *others = [measured(names, part, blocks.integer)[1] for part in _samples(blocks)]
    found = {name: why for name, why in first.items() if all(name in other for other in others)}
    return [j for j, name in enumerate(names) if name not in found], found


def _samples(blocks: Blocks) -> list[Array]:
    """Return `SAMPLE` rows of the first, the middle and the last block."""
    count = len(blocks.sizes)
    return [blocks.numbers(k)[:SAMPLE] for k in sorted({0, count // 2, count - 1})]


def _with_sample(data: Dataset, blocks: Blocks) -> Dataset:
    """Return the data set with a sample of the rows as its numbers."""
    return replace(data, X=np.concatenate(_samples(blocks)))


def _not_here(*_: object) -> NoReturn:
    """Raise FileError: the data set of a sample cannot be written."""
    raise FileError("a sample of the rows is not written")


# --- the working folder -----------------------------------------------------------------------------------------------


def working_folder(target: Path) -> AbstractContextManager[Path]:
    """Give a new folder beside `target`, removed at the end; those left by runs that were killed are removed first."""
    return beside(target.with_name(f"{target.name}.part"), folder=True)


def finish(folder: Path, target: Path, data: Dataset, *, force: bool) -> Path:
    """Move the finished output from the working folder to `target`, and return `target`."""
    with opening(target, "written"):
        data.check_output(target, force)
        data.check_unchanged()
        if target.is_dir():
            check_folder(target, folder / OUT)
        place(folder / OUT, target)
    return target
