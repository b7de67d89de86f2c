"""The change log of a data set that was mended: which of its cells are other than they were, in the file's own text."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._cells import number_texts
from kernmend.io._change_log import ChangeLog
from kernmend.io._dataset import differing
from kernmend.io.frames import row_name

MISSING, WRONG = "missing", "wrong"
# Number of rows that a sentence names.
MOST_NAMED = 5


class Found(NamedTuple):
    """What an estimator found of rows: their scores, which are flagged, and what `changes_` tells of single cells."""

    scores: Array
    flags: NDArray[np.bool_]
    records: NDArray[Any] | None = None


# --- making -----------------------------------------------------------------------------------------------------------


def make_log(source: Any, A: Array, found: Found, among: NDArray[np.bool_] | None = None) -> ChangeLog:
    """Return the log of what differs between the numbers of `source` and the mended `A`.

    `source` is a data set, a block of one, or a table without a file, whose numbers become texts. `A` is as it will be
    written: rounded as the file writes its numbers. Changes that were proposed and not made are not accepted. `among`
    chooses rows, all if it is None.
    """
    X = source.X
    differs = differing(A, X)
    notes = _Notes(found, X.shape)
    asked = notes.refused & ~differs
    listed = differs | asked
    rows, columns = np.nonzero(listed if among is None else listed & among[:, np.newaxis])
    values = np.where(asked[rows, columns], notes.get("new", rows, columns), A[rows, columns]).astype(A.dtype)
    missing = np.isnan(X[rows, columns])
    labels = source.row_labels
    old, new = _texts(source, rows, columns, X[rows, columns]), _written(source, values, columns)
    # A value that was rounded to be written may lie outside of its interval, which then reaches to it.
    low, high = (
        _bounds(source, np.where(np.isnan(values), ends, reach(ends, values)), columns)
        for name, reach in (("low", np.minimum), ("high", np.maximum))
        for ends in (notes.get(name, rows, columns),)
    )
    log = ChangeLog(
        row=rows if source.rows is None else source.rows[rows],
        label=[""] * len(rows) if labels is None else [labels[row] for row in rows.tolist()],
        column=_names(source, columns),
        old=old,
        new=new,
        low=low,
        high=high,
        kind=[MISSING if one else WRONG for one in missing.tolist()],
        score=[f"{score:.4g}" for score in found.scores[rows].tolist()],
        reason=notes.reasons(rows, columns, missing),
        accepted=~asked[rows, columns],
    )
    return _in_blocks(log, source, columns) if _has_pixels(source) else log


def worst_rows(source: Any, A: Array, found: Found, most: int) -> tuple[NDArray[np.bool_], int]:
    """Return the rows whose changes are shown where there may be `most`, and the number of all changes.

    Flagged rows come first, the worst of them first; one row is always there.
    """
    counts = differing(A, source.X).sum(axis=1)
    if found.records is not None:
        np.add.at(counts, found.records["row"][~found.records["accepted"]], 1)
    order = np.lexsort((-found.scores, ~found.flags, counts == 0))
    before = np.cumsum(counts[order]) - counts[order]
    out = np.zeros(len(counts), dtype=bool)
    out[order[(before == 0) | (before + counts[order] <= most)]] = True
    return out, int(counts.sum())


def kept_rows(found: Found, changed_rows: NDArray[np.bool_]) -> list[int]:
    """Return the flagged rows in which nothing was changed, nor proposed to be, the worst first."""
    kept = found.flags & ~changed_rows
    if found.records is not None:
        kept[found.records["row"][~found.records["accepted"]]] = False
    order = np.argsort(-found.scores, kind="stable")
    out: list[int] = order[kept[order]].tolist()
    return out


def words_on_kept(source: Any, rows: Sequence[int]) -> list[str]:
    """Return why flagged rows were not changed, in a sentence that names them; nothing if there are none."""
    if not rows:
        return []
    some = ", ".join(row_name(source, row) for row in rows[:MOST_NAMED])
    more = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    what, whose = ("1 flagged row was", "its") if len(rows) == 1 else (f"{len(rows)} flagged rows were", "their")
    return [f"{what} not changed, since mending leaves {whose} values where they are: {some}{more}."]


class _Notes:
    """What the records of an estimator say of single cells, found by row and column."""

    def __init__(self, found: Found, shape: tuple[int, ...]) -> None:
        self._found, self._width = found, shape[1]
        some = found.records
        records = np.empty(0, dtype=[("row", np.intp), ("column", np.intp)]) if some is None else some
        records = records[records["row"] < shape[0]]
        keys = records["row"] * self._width + records["column"]
        order = np.argsort(keys, kind="stable")
        self._records, self._keys = records[order], keys[order]
        self.refused = np.zeros(shape, dtype=bool)
        if "accepted" in (records.dtype.names or ()):
            left = records[~records["accepted"]]
            self.refused[left["row"], left["column"]] = True

    def get(self, name: str, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        """Return a number of each cell, NaN where none is known."""
        places, known = self._places(rows, columns)
        out = np.full(len(rows), np.nan)
        if known.any():
            out[known] = self._records[name][places[known]]
        return out

    def reasons(self, rows: NDArray[np.intp], columns: NDArray[np.intp], missing: NDArray[np.bool_]) -> list[str]:
        """Return why each cell was changed."""
        places, known = self._places(rows, columns)
        flags = self._found.flags[rows]
        plain = np.where(
            missing, "was missing", np.where(flags, "the row does not fit the others", "moved by the model")
        )
        out: list[str] = plain.tolist()
        for k in np.flatnonzero(known).tolist():
            out[k] = " ".join(str(self._records["reason"][places[k]]).split()) or out[k]
        return out

    def _places(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return where the records of cells are, and which cells have one."""
        keys = rows * self._width + columns
        places = np.searchsorted(self._keys, keys)
        known = np.zeros(len(keys), dtype=bool)
        inside = places < len(self._keys)
        known[inside] = self._keys[places[inside]] == keys[inside]
        return places, known


def _texts(source: Any, rows: NDArray[np.intp], columns: NDArray[np.intp], values: Array) -> list[str]:
    """Return what stands in some cells of the file, or numbers as texts if there is none."""
    if source.cells is None:
        return _plain(source, values, columns)
    out: list[str] = source.cells.texts(rows if source.rows is None else source.rows[rows], source.places[columns])
    return out


def _plain(table: Any, values: Array, columns: NDArray[np.intp]) -> list[str]:
    """Return numbers of a table without a file as texts, those of columns of whole numbers without decimals."""
    texts = number_texts(values)
    if table.integer is None:
        return texts
    whole = table.integer[columns] & ~np.isnan(values)
    return [str(int(value)) if one else text for value, one, text in zip(values, whole, texts, strict=True)]


def _written(source: Any, values: Array, columns: NDArray[np.intp]) -> list[str]:
    """Return numbers as they are written to columns."""
    if source.cells is None:
        return _plain(source, values, columns)
    out: list[str] = source.cells.written(values, source.places[columns])
    return out


def _bounds(source: Any, values: Array, columns: NDArray[np.intp]) -> list[str]:
    """Return ends of intervals as texts, in the format of their columns if these have one; nothing for NaN."""
    formats = source.formats
    if formats is None:
        return ["" if value != value else f"{value:.6g}" for value in values.tolist()]
    return [formats[j].write(value) for value, j in zip(values, columns.tolist(), strict=True)]


def _names(source: Any, columns: NDArray[np.intp]) -> list[str]:
    """Return the names of columns; their numbers in the file where they have none."""
    places = np.arange(source.X.shape[1]) if source.cells is None else source.places
    names = source.columns or tuple(f"column {j}" for j in places.tolist())
    return [names[j] for j in columns.tolist()]


# --- pixels -----------------------------------------------------------------------------------------------------------


def _has_pixels(source: Any) -> bool:
    """Return whether cells are pixels of images, of which many change together, and not texts of their own."""
    return source.columns is None and source.formats is None and source.image_shape is not None


def _in_blocks(log: ChangeLog, source: Any, columns: NDArray[np.intp]) -> ChangeLog:
    """Return a log in which pixels that follow each other in a line of an image are one entry."""
    line = int(np.prod(source.image_shape[1:]))
    if not len(log):
        return log
    same = (np.diff(log.row) == 0) & (np.diff(columns) == 1) & (columns[1:] % line != 0)
    same &= np.diff(log.accepted.astype(np.int8)) == 0
    starts = np.flatnonzero(np.r_[True, ~same])
    ends = np.r_[starts[1:], len(log)]
    pairs = list(zip(starts.tolist(), ends.tolist(), strict=True))

    def together(texts: Sequence[str]) -> list[str]:
        return [" ".join(text or "nan" for text in texts[a:b]) if any(texts[a:b]) else "" for a, b in pairs]

    first = {name: [getattr(log, name)[a] for a, _ in pairs] for name in ("label", "kind", "score", "reason")}
    return ChangeLog(
        row=log.row[starts],
        column=[f"pixels {columns[a]}-{columns[b - 1]}" for a, b in pairs],
        old=[" ".join(text or "nan" for text in log.old[a:b]) for a, b in pairs],
        new=[" ".join(text or "nan" for text in log.new[a:b]) for a, b in pairs],
        low=together(log.low),
        high=together(log.high),
        accepted=log.accepted[starts],
        **first,
    )
