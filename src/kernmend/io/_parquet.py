"""Parquet and Arrow files: types, index and metadata stay; columns of numbers are mended, all others pass through."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._arrays import check_image_shape
from kernmend.io._cells import Cells, Edits, NewValues, Places, cast, is_same_number, number_texts, wrong_number
from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._files import FileError, check_expansion, damaged, files_below, need
from kernmend.io._identifiers import measured, note
from kernmend.io._text import unique

SaveTable: TypeAlias = Callable[[Path, Any], None]
"""Writes a table of pyarrow to a temporary path, in the layout of the file that it came from."""
# First bytes of what each codec packs.
CODECS = {"lz4": b"\x04\x22\x4d\x18", "zstd": b"\x28\xb5\x2f\xfd"}


class Parquet(Format):
    """Parquet files, read and written by pyarrow."""

    name = "parquet"
    words = "a Parquet file"
    endings = (".parquet", ".pq")
    marks = (b"PAR1",)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the columns of whole numbers and floats."""
        parquet = need("pyarrow.parquet", "parquet")
        with damaged(ask.path, "Parquet file"), parquet.ParquetFile(ask.path) as file:
            facts = file.metadata
            check_expansion(ask.path, ask.path.stat().st_size, 8 * facts.num_rows * facts.num_columns)
            table = file.read(use_threads=False)
            table.validate(full=True)
            layout = layout_of(facts)  # after reading, which raises an error where this would end the process

        def save(temporary: Path, new: Any) -> None:
            parquet.write_table(new, temporary, **layout)

        return table_dataset(table, ask, format=self.name, save=save)


class Feather(Format):
    """Arrow IPC files, Feather version 2, read and written by pyarrow."""

    name = "feather"
    words = "an Arrow file"
    endings = (".feather", ".arrow", ".ftr")
    marks = (b"ARROW1",)

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the columns of whole numbers and floats."""
        arrow, ipc = need("pyarrow", "Feather"), need("pyarrow.ipc", "Feather")
        raw = ask.path.read_bytes()
        codec = next((name for name, mark in CODECS.items() if mark in raw), None)
        with damaged(ask.path, "Arrow file"), ipc.open_file(arrow.py_buffer(raw)) as file:
            if codec is not None:
                check_expansion(ask.path, len(raw), _claimed(raw, codec))
            table = file.read_all()
            table.validate(full=True)
            batches = [file.get_batch(k).num_rows for k in range(file.num_record_batches)]

        def save(temporary: Path, new: Any) -> None:
            options = ipc.IpcWriteOptions(compression=codec)
            new = new.combine_chunks()
            with ipc.new_file(temporary, new.schema, options=options) as writer:
                writer.write_table(new, max_chunksize=max(batches, default=0) or None)

        return table_dataset(table, ask, format=self.name, save=save)


def _claimed(raw: bytes, codec: str) -> int:
    """Return the number of bytes that packed buffers claim to unpack to: eight bytes before the mark of each."""
    total, at = 0, raw.find(CODECS[codec])
    while at >= 0:
        total += max(int.from_bytes(raw[max(at - 8, 0) : at], "little", signed=True), 0)
        at = raw.find(CODECS[codec], at + 4)
    return total


def table_dataset(table: Any, ask: Request, *, format: str, save: SaveTable) -> Dataset:
    """Return the data set of a table of pyarrow; `save` writes the file with another."""
    names, features = columns_of(table, ask)
    index = _index(table)
    if not features or not table.num_rows:
        raise FileError(f"{ask.path}: holds no {'columns' if table.num_rows else 'rows'} of numbers")
    X = numbers(table, features, ask)
    identifiers: dict[str, str] = {}
    if ask.columns is None:
        keep, identifiers = measured([names[j] for j in features], X, are_whole(table, features))
        if not keep.all():
            features = [features[k] for k in np.flatnonzero(keep)]
            X = numbers(table, features, ask)
    return Dataset(
        X=X,
        columns=tuple(names[j] for j in features),
        row_labels=tuple(map(str, table.column(index[0]).to_pylist())) if index else None,
        image_shape=check_image_shape(ask, len(features)),
        integer=are_whole(table, features),
        passed=tuple(names[j] for j in np.setdiff1d(np.arange(len(names)), features)),
        why_passed=dict.fromkeys(index, "names the rows") | identifiers,
        notes=note(identifiers),
        format=format,
        source=ask.path,
        cells=TableCells(table, ask.path, save),
        places=np.array(features, dtype=np.intp),
    )


class TableCells(Cells):
    """The cells of a table of pyarrow: null is empty, NaN is nan. Only those of columns of numbers can be changed."""

    def __init__(self, table: Any, path: Path, save: SaveTable) -> None:
        self._table, self._path, self._save = table, path, save
        self.columns = unique(table.column_names)
        self.height, self.width = table.num_rows, table.num_columns
        self._kinds = [_number_type(field.type) for field in table.schema]
        index = _index(table)
        self._labels = table.column(index[0]) if index else None

    def texts(self, rows: Places, columns: Places) -> list[str]:
        """Return the numbers of some cells as texts."""
        out = [""] * len(rows)
        for j in np.unique(columns).tolist():
            places = np.flatnonzero(columns == j)
            values = self._table.column(j).take(need("pyarrow", "parquet").array(rows[places])).to_pylist()
            for place, text in zip(places.tolist(), _texts(values, self._kinds[j]), strict=True):
                out[place] = text
        return out

    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the table with other numbers in some cells, given as texts."""
        by_column: dict[int, dict[int, str]] = {}
        for row, texts in edits:
            for j, text in texts.items():
                by_column.setdefault(j, {})[row] = text
        new = self._table
        for j, texts in by_column.items():
            rows = sorted(texts)
            new = _with_column(new, j, rows, [_value(texts[row], self._kinds[j]) for row in rows])
        self._save(temporary, new)

    def put(self, temporary: Path, mended: NewValues) -> None:
        """Write the table with other numbers in some cells."""
        self._save(temporary, put(self._table, mended, self._path))

    def label(self, row: int) -> str | None:
        """Return the name of a row in the index of pandas; None if there is none."""
        return None if self._labels is None else str(self._labels[row].as_py())

    def written(self, values: Array, columns: Places) -> list[str]:
        """Return the texts of numbers in the types of their columns; nothing for NaN, which is written as null."""
        out = []
        for value, j in zip(values, columns.tolist(), strict=True):
            kind = np.dtype(self._kinds[j])
            out.append("" if np.isnan(value) else number_texts(cast(np.atleast_1d(value), kind, self._path))[0])
        return out

    def same(self, column: int, text: str, other: str) -> bool:
        """Return whether two texts are the same number; null and NaN are not, unless both texts say so."""
        return text == other or is_same_number(text, other)

    def wrong(self, column: int, text: str) -> str | None:
        """Return what is wrong with a text that is to be a number of the column's type, or empty for null."""
        kind = self._kinds[column]
        if kind is None:
            return "stands in a column that is not made of numbers"
        return None if text == "" else wrong_number(text, np.dtype(kind))


def _texts(values: list[Any], kind: Any) -> list[str]:
    """Return the values of a column as texts."""
    if kind is None or np.dtype(kind).kind != "f":
        return ["" if value is None else str(value) for value in values]
    numbers = number_texts(np.array([np.nan if value is None else value for value in values], dtype=kind))
    return ["" if value is None else text or "nan" for value, text in zip(values, numbers, strict=True)]


def _value(text: str, kind: Any) -> Any:
    """Return the value of a text for a column of that type; None for null."""
    if not text:
        return None
    return np.dtype(kind).type(text) if np.dtype(kind).kind == "f" else int(text)


def layout_of(facts: Any) -> dict[str, Any]:
    """Return how the file is packed, for writing it again."""
    if not facts.num_row_groups:
        return {}
    group = facts.row_group(0)
    codecs = {group.column(j).path_in_schema: group.column(j).compression for j in range(group.num_columns)}
    return {
        "compression": {path: "NONE" if codec == "UNCOMPRESSED" else codec for path, codec in codecs.items()},
        "row_group_size": max(group.num_rows, 1),
        "version": facts.format_version if facts.format_version in ("1.0", "2.4", "2.6") else "2.6",
    }


def columns_of(table: Any, ask: Request) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of all columns, and the numbers of those to mend."""
    names = unique(table.column_names)
    index = _index(table)
    fits = [_number_type(field.type) for field in table.schema]
    if ask.columns is None:
        kept = set(ask.kept(names, len(names)))
        features = [j for j, kind in enumerate(fits) if kind is not None and names[j] not in index and j not in kept]
    else:
        features = ask.chosen(names, len(names)).tolist()
    for j in features:
        if fits[j] is None:
            raise FileError(f"{ask.path}: column {names[j]!r} is {table.schema.types[j]}, not numbers: leave it out")
    return names, features


def _number_type(kind: Any) -> Any:
    """Return the NumPy type of a column of numbers; None for others, also for decimals and truth values."""
    types = need("pyarrow", "parquet").types
    return kind.to_pandas_dtype() if types.is_integer(kind) or types.is_floating(kind) else None


def _index(table: Any) -> list[str]:
    """Return the columns that pandas takes for the index."""
    try:
        index = json.loads((table.schema.metadata or {})[b"pandas"])["index_columns"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    known, names = table.column_names, index if isinstance(index, list) else []
    return [name for name in names if isinstance(name, str) and known.count(name) == 1]


def _kinds(table: Any, features: Sequence[int]) -> list[np.dtype[Any]]:
    """Return the NumPy types of some columns of numbers."""
    return [np.dtype(_number_type(table.schema.field(j).type)) for j in features]


def are_whole(table: Any, features: Sequence[int]) -> NDArray[np.bool_]:
    """Return which of some columns of numbers hold whole ones."""
    return np.array([kind.kind != "f" for kind in _kinds(table, features)])


def numbers(table: Any, features: list[int], ask: Request) -> Array:
    """Return some columns as floats, NaN where they are missing."""
    narrow = all(kind.kind == "f" and kind.itemsize <= 4 for kind in _kinds(table, features))
    dtype: Any = np.float32 if narrow else np.float64
    X = np.empty((table.num_rows, len(features)), dtype=dtype)
    for k, j in enumerate(features):
        column = table.column(j)
        X[:, k] = column.cast("float32" if narrow else "float64", safe=False).to_numpy()
    return ask.without_missing(X)


def put(table: Any, mended: NewValues, path: Path) -> Any:
    """Return the table with the values that are new; NaN becomes null."""
    for k in np.flatnonzero(mended.new.any(axis=0)).tolist():
        j, where = int(mended.columns[k]), mended.new[:, k]
        values = mended.values[where, k]
        empty = np.isnan(values)
        new = cast(np.where(empty, 0, values), _kinds(table, [j])[0], path)
        table = _with_column(table, j, mended.rows[where], need("pyarrow", "parquet").array(new, mask=empty))
    return table


def _with_column(table: Any, j: int, rows: Sequence[int] | Places, values: Any) -> Any:
    """Return a table with other values in some rows, which rise, of one column; the others are not even converted."""
    arrow, column = need("pyarrow", "parquet"), table.column(j)
    where = np.zeros(table.num_rows, dtype=bool)
    where[rows] = True
    new = need("pyarrow.compute", "parquet").replace_with_mask(
        column.combine_chunks(), arrow.array(where), arrow.array(values, type=column.type)
    )
    return table.set_column(j, table.schema.field(j), new)


# --- folders of Parquet files, which are one table -------------------------------------------------------------------


def is_parquet_folder(path: Path) -> bool:
    """Return whether a path is a folder with Parquet files."""
    return path.is_dir() and bool(table_names(path))


def table_names(folder: Path) -> list[str]:
    """Return the names of the Parquet files in a folder, in order; what begins with _ or . tells of others."""
    names = [name for name in files_below(folder) if name.endswith(Parquet.endings)]
    return [name for name in names if not Path(name).name.startswith(("_", "."))]


class FolderCells(Cells):
    """The rows of all files, one after the other."""

    def __init__(self, ask: Request) -> None:
        self._ask, self._names = ask, table_names(ask.path)
        self._starts = np.cumsum([0, *(_rows(ask.path / name) for name in self._names)])
        self._part = cache(lambda k: Parquet().cells(replace(ask, path=ask.path / self._names[k])))
        first = self._part(0)
        self.columns, self.width, self.height = first.columns, first.width, int(self._starts[-1])

    def texts(self, rows: Places, columns: Places) -> list[str]:
        """Return the numbers of some cells as texts."""
        out = [""] * len(rows)
        files = np.searchsorted(self._starts, rows, side="right") - 1
        for k in np.unique(files).tolist():
            places = np.flatnonzero(files == k)
            texts = self._part(k).texts(rows[places] - self._starts[k], columns[places])
            for place, text in zip(places.tolist(), texts, strict=True):
                out[place] = text
        return out

    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the folder: files in which nothing changes are copied."""
        by_file: dict[int, list[tuple[int, dict[int, str]]]] = {}
        for row, texts in edits:
            k = int(np.searchsorted(self._starts, row, side="right")) - 1
            by_file.setdefault(k, []).append((row - int(self._starts[k]), dict(texts)))
        for name in files_below(self._ask.path):
            target = temporary / name
            target.parent.mkdir(parents=True, exist_ok=True)
            k = self._names.index(name) if name in self._names else -1
            if k in by_file:
                self._part(k).save(target, by_file[k])
            elif target.name != "_metadata":  # which tells of values as they were
                shutil.copyfile(self._ask.path / name, target)

    def label(self, row: int) -> str | None:
        """Return the name of a row in the index of pandas; None if there is none."""
        k = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._part(k).label(row - int(self._starts[k]))

    def written(self, values: Array, columns: Places) -> list[str]:
        """Return the texts of numbers in the types of their columns."""
        return self._part(0).written(values, columns)

    def same(self, column: int, text: str, other: str) -> bool:
        """Return whether two texts are the same number."""
        return self._part(0).same(column, text, other)

    def wrong(self, column: int, text: str) -> str | None:
        """Return what is wrong with a text that is to be a number of the column's type."""
        return self._part(0).wrong(column, text)


def _rows(path: Path) -> int:
    """Return the number of rows of a Parquet file."""
    with damaged(path, "Parquet file"), need("pyarrow.parquet", "parquet").ParquetFile(path) as file:
        return int(file.metadata.num_rows)
