"""`patch` makes the accepted changes of a change log in a file, `revert` takes them back: exact inverses."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend.io._cells import Cells, Verbatim
from kernmend.io._change_log import ChangeLog, read_log
from kernmend.io._dataset import Origin
from kernmend.io._files import FileError, opening, stamp
from kernmend.io._parquet import FolderCells, Parquet, is_parquet_folder
from kernmend.io._reading import recognise, request

# Names of columns that have none: several pixels of an image, and one column.
PIXELS = re.compile(r"pixels ([0-9]{1,12})-([0-9]{1,12})")
NUMBERED = re.compile(r"column ([0-9]{1,9})")


@dataclass(frozen=True, eq=False, kw_only=True)
class CellFile(Origin):
    """A file as cells."""

    cells: Cells


class Patched(NamedTuple):
    """What was written, and how many cells were changed, and how many left as they were."""

    path: Path
    changed: int
    left: int


def patch(source: str | Path, changes: Any, path: str | Path, *, force: bool = False, **layout: Any) -> Patched:
    r"""Write a file again with the accepted changes of a change log made.

    Parameters
    ----------
    source : str or Path
        The file that was mended, as it was before.
    changes : ChangeLog, str or Path
        The change log, or the csv of one; values in its column `new` may have been typed by hand.
    path : str or Path
        Where to write.
    force : bool, default=False
        Replace a file that is there.
    **layout
        Of a text table what is not to be found out: `header` (bool), `delimiter`, `decimal`, `thousands`, `encoding`.

    Returns
    -------
    Patched
        `path`, how many cells were `changed`, and how many were not accepted and `left`.

    Raises
    ------
    FileError
        If the log does not fit the file; the message names the first difference.

    See Also
    --------
    revert : Take the changes back.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from kernmend.io import ChangeLog, patch
    >>> home = Path(mkdtemp())
    >>> _ = (home / "a.csv").write_text("x,y\n1.0,2.0\n1.5,99\n2.0,4.0\n")
    >>> columns = "row,label,column,old,new,low,high,kind,score,reason,accepted"
    >>> _ = (home / "log.csv").write_text(columns + "\n1,,y,99,3.0,2.9,3.1,wrong,9,too large,yes\n")
    >>> patch(home / "a.csv", home / "log.csv", home / "b.csv").changed
    1
    >>> (home / "b.csv").read_text()
    'x,y\n1.0,2.0\n1.5,3.0\n2.0,4.0\n'
    """
    return _apply(source, changes, Path(path), back=False, force=force, layout=layout)


def revert(source: str | Path, changes: Any, path: str | Path, *, force: bool = False, **layout: Any) -> Patched:
    """Write a patched or mended file again as it was before: the inverse of `patch`.

    Text tables, npy and NetCDF 3 come back byte for byte, all others value for value. Images that are compressed with
    loss are refused: they do not keep the pixels that are written to them.

    Parameters
    ----------
    source : str or Path
        The file with the changes made.
    changes : ChangeLog, str or Path
        The change log, or the csv of one.
    path, force : str or Path, bool, default=False
        Where to write, and whether to replace a file that is there.
    **layout
        As in `patch`.

    Returns
    -------
    Patched
        `path`, how many cells were `changed` back, and how many were not accepted and `left`.

    Raises
    ------
    FileError
        If the log does not fit the file; the message names the first difference.

    See Also
    --------
    patch : Make the changes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> import kernmend
    >>> from kernmend.datasets import make_circle
    >>> X = make_circle(60).X
    >>> X[7] = [0.4, 0.4]
    >>> home = Path(mkdtemp())
    >>> np.save(home / "dirty.npy", X)
    >>> mended = kernmend.mend(home / "dirty.npy")
    >>> clean = mended.write(home / "clean.npy")
    >>> back = kernmend.io.revert(clean, mended.changes, home / "back.npy").path
    >>> back.read_bytes() == (home / "dirty.npy").read_bytes()
    True
    """
    return _apply(source, changes, Path(path), back=True, force=force, layout=layout)


def _apply(source: Any, changes: Any, path: Path, *, back: bool, force: bool, layout: dict[str, Any]) -> Patched:
    """Make changes, or take them back, and return what was written.

    Where the log does not fit, other readings of the header are tried first.
    """
    log, name = (changes, "the change log") if isinstance(changes, ChangeLog) else (read_log(changes), str(changes))
    problem: FileError | None = None
    for asked, blank in _readings(source, layout):
        try:
            file = open_cells(source, blank=blank, **asked)
            edits = _Fitting(log, name, file, back=back).edits()
        except FileError as error:
            problem = problem or error
            continue
        file.write_whole(path, partial(file.cells.save, edits=edits) if edits else None, force=force)
        return Patched(path, int(log.accepted.sum()), int((~log.accepted).sum()))
    raise problem or FileError(f"{source}: cannot be read")


def _readings(source: Any, layout: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Give ways to read a table: as it looks, with and without a header, with lines that were emptied.

    Mended values may make a table look otherwise than it did. A log fits one way of reading it at most.
    """
    yield layout, False
    path = request(source).path
    if path.is_file() and "header" in recognise(path).layout:
        if layout.get("header") is None:
            yield layout | {"header": True}, False
            yield layout | {"header": False}, False
        yield layout, True


def open_cells(path: str | Path, *, blank: bool = False, **layout: Any) -> CellFile:
    """Return a file as cells; `blank` counts lines with nothing in them as rows."""
    ask = replace(request(path, **layout), blank=blank)
    with opening(ask.path, "read"):
        facts: dict[str, Any] = {"source": ask.path, "stamp": stamp(ask.path) if ask.path.exists() else None}
        if is_parquet_folder(ask.path):
            return CellFile(cells=FolderCells(ask), format="parquet", endings=Parquet.endings, **facts)
        format = recognise(ask.path)
        format.check(ask)
        return CellFile(cells=format.cells(ask), format=format.name, endings=format.endings, **facts)


class _Fitting:
    """A log held against the cells of a file."""

    def __init__(self, log: ChangeLog, name: str, file: CellFile, *, back: bool) -> None:
        self._log, self._name, self._file, self._cells, self._back = log, name, file, file.cells, back
        self._numbers = {name: j for j, name in enumerate(file.cells.columns or ())}

    def edits(self) -> list[tuple[int, dict[int, str]]]:
        """Return the new texts by row and column; FileError that names the first line that does not fit."""
        log, cells = self._log, self._cells
        if self._back and not cells.exact:
            raise FileError(
                f"{self._file.source}: holds JPEG or GIF images, which lose pixels: keep the original files"
            )
        self._check_rows()
        spans = [self._span(k) for k in range(len(log))]
        sizes = np.array([stop - start for start, stop in spans], dtype=np.intp)
        rows = np.repeat(log.row, sizes)
        columns = np.concatenate([np.arange(*span) for span in spans]) if spans else rows
        lines = np.repeat(np.arange(len(log)), sizes)
        old, new = (self._values(texts, sizes) for texts in (log.old, log.new))
        order = np.lexsort((columns, rows))
        twice = (np.diff(rows[order]) == 0) & (np.diff(columns[order]) == 0)
        if twice.any():
            k = int(lines[order][1:][twice].max())
            raise self._refused(k, f"row {log.row[k]}, column {log.column[k]!r} is there a second time")
        have = dict(zip(order.tolist(), cells.texts(rows[order], columns[order]), strict=True))
        out: dict[int, dict[int, str]] = {}
        for at, (k, row, column) in enumerate(zip(lines.tolist(), rows.tolist(), columns.tolist(), strict=True)):
            accepted = bool(log.accepted[k])
            self._check(k, column, have[at], old[at], new[at])
            if accepted:
                out.setdefault(row, {})[column] = Verbatim(old[at]) if self._back else new[at]
        return sorted(out.items())

    def _span(self, k: int) -> tuple[int, int]:
        """Return the first column of a line, and the one after its last."""
        cells, name = self._cells, self._log.column[k]
        if name in self._numbers:
            return self._numbers[name], self._numbers[name] + 1
        number, pixels = NUMBERED.fullmatch(name), PIXELS.fullmatch(name)
        if number and int(number[1]) < cells.width:
            return int(number[1]), int(number[1]) + 1
        if pixels and cells.columns is None and int(pixels[1]) <= int(pixels[2]) < cells.width:
            return int(pixels[1]), int(pixels[2]) + 1
        raise self._refused(k, f"{self._file.source} has no column {name[:40]!r}")

    def _check_rows(self) -> None:
        """Raise FileError if the file has no such rows, or they have other names."""
        log, cells, source = self._log, self._cells, self._file.source
        seen: dict[int, str] = {}
        for k, (row, label) in enumerate(zip(log.row.tolist(), log.label, strict=True)):
            if row >= cells.height:
                raise self._refused(k, f"there is no row {row}, {source} has {cells.height} rows, counted from 0")
            if not label or label == str(row) or seen.get(row) == label:
                continue
            seen[row] = label
            if not cells.is_label(row, label):
                there = str(cells.label(row))[:40]
                raise self._refused(k, f"row {row} is {there!r} in {source}, the log says {label[:40]!r}")

    def _values(self, texts: Sequence[str], sizes: NDArray[np.intp]) -> list[str]:
        """Return the value of each cell: several pixels stand in one line."""
        out: list[str] = []
        for k, (text, size) in enumerate(zip(texts, sizes.tolist(), strict=True)):
            if not PIXELS.fullmatch(self._log.column[k]):
                out.append(text)
                continue
            parts = ["" if part == "nan" else part for part in text.split(" ")]
            if len(parts) != size:
                raise self._refused(k, f"{len(parts)} values stand where {size} pixels are")
            out += parts
        return out

    def _check(self, k: int, column: int, have: str, old: str, new: str) -> None:
        """Raise FileError if a cell is not as the log says, or the new value cannot stand there."""
        log, same, made = self._log, self._cells.same, bool(self._log.accepted[k])
        expected = new if self._back and made else old
        if have != expected and not same(column, have, expected):
            where = f"row {log.row[k]}, column {log.column[k]!r} is {have[:40]!r} in {self._file.source}"
            done = made and same(column, have, old if self._back else new)
            why = "the change was taken back already" if self._back else "the change was made already"
            raise self._refused(
                k, f"{where}, the log says {expected[:40]!r}: {why if done else 'it is the log of another file'}"
            )
        if made and not self._back:
            wrong = self._cells.wrong(column, new)
            if wrong:
                raise self._refused(k, f"the new value {new[:40]!r} {wrong}")

    def _refused(self, k: int, what: str) -> FileError:
        return FileError(f"{self._name}: line {k + 2}: {what}")
