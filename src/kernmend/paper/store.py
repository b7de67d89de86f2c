"""Results on disk: one JSON line each, written at once and never changed."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend.io import replacing

Record = dict[str, Any]


class Store:
    """A file of a folder, `results.jsonl` unless named, and small arrays for pictures beside it."""

    def __init__(self, folder: Path, name: str = "results.jsonl") -> None:
        self.folder = folder
        self.path = folder / name

    def append(self, record: Record) -> None:
        """Write one line, whole or (if the machine dies in the middle) recognisably not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps(_plain(record), allow_nan=False, sort_keys=True) + "\n"
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, ("\n" + line if torn else line).encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self) -> dict[str, Record]:
        """Return the records by key; a line cut short by a kill is passed over."""
        return {record["key"]: record for record in self._records()}

    def _records(self) -> Iterator[Record]:
        """Yield the records of the file, in its order."""
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = _numbers(json.loads(line))
            except ValueError:
                continue
            if isinstance(record, dict) and "key" in record:
                yield record

    def save_arrays(self, key: str, arrays: dict[str, Array]) -> None:
        """Keep small arrays for a picture, in half precision."""
        folder = self.folder / "images"
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / f"{key}.npz") as temporary, temporary.open("wb") as file:
            small: dict[str, Any] = {name: np.asarray(value, np.float16) for name, value in arrays.items()}
            np.savez_compressed(file, **small)

    def load_arrays(self, key: str) -> dict[str, Array] | None:
        """Return the arrays kept for a key; None where there are none."""
        path = self.folder / "images" / f"{key}.npz"
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as data:
            return {name: data[name].astype(np.float64) for name in data.files}


def _plain(value: Any) -> Any:
    """Return what JSON can hold: infinity as a word, nan as null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _numbers(value: Any) -> Any:
    """Return what `_plain` made for JSON with infinities as numbers again."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if value in ("inf", "-inf") else value
