"""The change log: which cells of a file were changed, from what to what, and why, as a csv that a person can edit.

What a program for spreadsheets would take for a formula is written with an apostrophe before it, which is taken off
again when the log is read.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend.io._files import FileError, opening, replacing
from kernmend.io._number_format import is_number
from kernmend.io._text import counted

FIELDS = ("row", "label", "column", "old", "new", "low", "high", "kind", "score", "reason", "accepted")
"""The columns of the file."""
# Largest number of lines of a log: about 300 MB, which takes some 10 s to read. Ten times as many are no review.
MOST_LINES = 2_000_000
# First characters of what a spreadsheet may take for a formula; and the mark that says that it is none.
RISKY, MARK = ("=", "+", "-", "@", "\t", "\r"), "'"
# What may stand in the column accepted, in lower case.
ACCEPTED = {"yes": True, "true": True, "1": True, "y": True, "no": False, "false": False, "0": False, "n": False}
# Number of rows that are shown in a notebook.
SHOWN = 12


@dataclass(frozen=True, eq=False)
class ChangeLog:
    """Changed cells, one a line: all texts are those of the file.

    Parameters
    ----------
    row : ndarray of int
        The number of each cell's row in the file, from 0.
    label : sequence of str
        The names of the rows, empty if they have none.
    column : sequence of str
        The names of the columns, "column 3" without one; "pixels 5-20" are several cells of an image.
    old, new : sequence of str
        What stood there, and what stands there now; several values apart by blanks for pixels.
    low, high : sequence of str
        The interval of the new value; empty if none is known.
    kind : sequence of str
        "wrong" or "missing".
    score : sequence of str
        How wrong the row looks.
    reason : sequence of str
        Why the cell was changed.
    accepted : ndarray of bool
        Changes that are not accepted are not made by `patch`.

    Examples
    --------
    >>> import kernmend
    >>> from kernmend.datasets import make_circle
    >>> X = make_circle(60).X
    >>> X[7] = [0.4, 0.4]
    >>> log = kernmend.mend(X).changes
    >>> log
    <ChangeLog: 2 changes in 1 row, 2 accepted>
    >>> log.row.tolist(), log.old
    ([7, 7], ['0.4', '0.4'])
    """

    row: NDArray[np.intp]
    label: Sequence[str]
    column: Sequence[str]
    old: Sequence[str]
    new: Sequence[str]
    low: Sequence[str]
    high: Sequence[str]
    kind: Sequence[str]
    score: Sequence[str]
    reason: Sequence[str]
    accepted: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        rows, some = len(np.unique(self.row)), int(self.accepted.sum())
        return f"<ChangeLog: {counted(len(self), 'change')} in {counted(rows, 'row')}, {some} accepted>"

    def _repr_html_(self) -> str:
        from html import escape

        shown = ("row", "label", "column", "old", "new", "low", "high", "reason")
        names = [name for name in shown if name == "row" or any(getattr(self, name)[:SHOWN])]
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(str(getattr(self, name)[k]))}</td>' for name in names)}</tr>"
            for k in range(min(SHOWN, len(self)))
        )
        more = f"<p>and {len(self) - SHOWN:,} more</p>" if len(self) > SHOWN else ""
        return (
            f"<p>{escape(repr(self)[1:-1])}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
        )

    @property
    def records(self) -> NDArray[Any]:
        """The log as a record array: row is a whole number, accepted a truth value, all others are texts."""
        kinds = [(name, {"row": np.intp, "accepted": np.bool_}.get(name, object)) for name in FIELDS]
        out = np.empty(len(self), dtype=kinds)
        for name in FIELDS:
            out[name] = getattr(self, name)
        return out

    def to_frame(self) -> Any:
        """Return the log as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One line for each change, with the columns of the csv.
        """
        import pandas as pd

        return pd.DataFrame({name: getattr(self, name) for name in FIELDS})

    def lines(self) -> Iterator[list[str]]:
        """Give the lines of the file, the names of the columns first.

        Yields
        ------
        list of str
            The texts of one line.
        """
        yield list(FIELDS)
        accepted = ["yes" if value else "no" for value in self.accepted.tolist()]
        texts = [[*map(shielded, getattr(self, name))] for name in FIELDS[1:-1]]
        yield from map(list, zip(map(str, self.row.tolist()), *texts, accepted, strict=True))

    def write(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the log as csv, complete or not at all; return the path. One that exists is replaced with `force`.

        Parameters
        ----------
        path : str or Path
            The name of the csv.
        force : bool, default=False
            Overwrite a file that is there already; without it this is an error.

        Returns
        -------
        Path
            Where the csv is.
        """
        path = Path(path)
        if len(self) > MOST_LINES:
            raise FileError(f"{path}: {len(self):,} changes are too many for a change log: mend fewer rows at a time")
        if path.exists() and not force:
            raise FileError(f"{path}: exists already: choose another name, or force it to be replaced")
        with (
            opening(path, "written"),
            replacing(path) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as file,
        ):
            csv.writer(file, lineterminator="\n").writerows(self.lines())
        return path


def shielded(text: str) -> str:
    """Return a text with an apostrophe before it if a spreadsheet might take it for a formula, or it begins with one.

    >>> [shielded(text) for text in ("=cmd()", "-12.5 kg", "-", "'x", "plain")]
    ["'=cmd()", '-12.5 kg', "'-", "''x", 'plain']
    """
    risky = text.startswith(MARK) or (text.startswith(RISKY) and not is_number(text))
    return MARK + text if risky else text


def read_log(path: str | Path) -> ChangeLog:
    """Return the change log in a file; FileError, which names the first wrong line, if it is none."""
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    with opening(path, "read"):
        _check_length(path)
        problem: Exception | None = None
        for encoding in ("utf-8-sig", _other_encoding(path)):
            try:
                with path.open(newline="", encoding=encoding) as file:
                    return _parsed(path, file)
            except UnicodeDecodeError as error:
                problem = error
            except csv.Error as error:
                raise FileError(f"{path}: is not a sound csv ({error}): make the change log again") from error
        raise FileError(f"{path}: is not UTF-8 text: save the change log as csv in UTF-8") from problem


def _other_encoding(path: Path) -> str:
    """Return the letters of Windows for what begins as a change log does: Excel saves csv in these."""
    with path.open("rb") as file:
        return "cp1252" if file.read(4)[:3] == FIELDS[0].encode() else "utf-8"


def _check_length(path: Path) -> None:
    """Raise FileError for a file of too many lines, without reading all of it."""
    count = 0
    with path.open("rb") as file:
        while piece := file.read(2**22):
            count += piece.count(b"\n")
            if count > MOST_LINES + 1:
                raise FileError(f"{path}: has more than {MOST_LINES:,} lines, which no change log has")


def _parsed(path: Path, file: Any) -> ChangeLog:
    """Return the log of an open file."""
    head = file.readline(1000)
    delimiter = next((mark for mark in ",;\t" if f"{mark}" in head), ",")
    names = [name.strip().strip('"') for name in head.strip("\r\n").split(delimiter)]
    wrong = [name for name in names if name not in FIELDS] or [name for name in FIELDS if name not in names]
    if wrong or len(names) != len(FIELDS):
        what = f"has no column {wrong[0]!r}" if wrong and wrong[0] in FIELDS else "has other columns"
        raise FileError(f"{path}: is no change log, it {what}: the first line must be {','.join(FIELDS)}")
    columns: dict[str, list[Any]] = {name: [] for name in FIELDS}
    places = [columns[name] for name in names]
    known: dict[str, str] = {}  # equal texts are kept once: a log of a million lines has a few reasons
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    for texts in reader:
        if not texts:
            continue
        if len(texts) != len(FIELDS):
            cells = f"{len(texts)} cells where {len(FIELDS)} are expected"
            raise FileError(f"{path}: line {reader.line_num + 1} has {cells}")
        for place, text in zip(places, texts, strict=True):
            if text.startswith((MARK, *RISKY)):
                text = _unshielded(path, reader.line_num + 1, text)
            place.append(known.setdefault(text, text))
    return _checked(path, columns)


def _unshielded(path: Path, line: int, text: str) -> str:
    """Return a text without the apostrophe before it; FileError for a formula."""
    if text.startswith(MARK):
        return text[1:]
    if is_number(text):
        return text
    raise FileError(f"{path}: line {line} holds {text[:40]!r}, which is a formula: a change log holds none")


def _checked(path: Path, columns: dict[str, list[Any]]) -> ChangeLog:
    """Return the log of columns of texts, its rows as numbers and what is accepted as truth values."""
    for k, text in enumerate(columns["row"]):
        if not (text.isascii() and text.isdecimal()) or len(text) > 15:
            raise FileError(f"{path}: line {k + 2}: {text[:40]!r} is not the number of a row")
    accepted = [ACCEPTED.get(text.strip().lower()) for text in columns["accepted"]]
    if None in accepted:
        k = accepted.index(None)
        raise FileError(f"{path}: line {k + 2}: accepted must be yes or no, not {columns['accepted'][k][:40]!r}")
    rows = np.array([int(text) for text in columns["row"]], dtype=np.intp)
    texts: dict[str, Any] = columns | {"row": rows, "accepted": np.array(accepted, dtype=bool)}
    return ChangeLog(**texts)


def joined(logs: Sequence[ChangeLog]) -> ChangeLog:
    """Return several logs, of the blocks of one file, as one."""
    parts: dict[str, Any] = {}
    for name in (own.name for own in fields(ChangeLog)):
        some = [getattr(log, name) for log in logs]
        parts[name] = np.concatenate(some) if name in ("row", "accepted") else [text for one in some for text in one]
    return ChangeLog(**parts)
