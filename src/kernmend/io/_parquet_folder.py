"""The cells of a folder of Parquet files, which are one table: each file is opened and written by itself."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from kernmend._typing import Array
from kernmend.io._cells import Cells, Edits, Places
from kernmend.io._dataset import Request
from kernmend.io._files import damaged, files_below, need
from kernmend.io._parquet import Parquet


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
            elif not (by_file and target.name == "_metadata"):  # which tells of values as they were
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
