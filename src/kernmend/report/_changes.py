"""The changes as the page reviews them: the lines of the change log, worst rows first, with what is drawn of each."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io import ChangeLog
from kernmend.io.changes import Found, make_log
from kernmend.report._given import Given, Rows, rounded

# Bytes of all lines in a page, as text: with rows, map and scores a page stays below 5 MB.
MOST_BYTES = 2_000_000
# Number of good rows beside a mended one that are named, and number of rows for which they are looked up.
NEAREST, EXPLAINED = 3, 200
TEXTS = ("column", "old", "new", "low", "high", "kind", "score", "reason")
"""What of a line is kept as text, in the order of the file."""


@dataclass(frozen=True)
class FileFacts:
    """What is known of the file that was mended.

    `name` is what was typed for it, `log` its change log, `types` what each feature is in words, `passed` the columns
    that were passed over, with reasons, `rows` the numbers of the rows in the file if some of these are left out.
    """

    name: str
    log: ChangeLog
    types: tuple[str, ...]
    passed: tuple[tuple[str, str], ...]
    rows: NDArray[np.intp] | None = None

    @property
    def skipped(self) -> list[int]:
        """The numbers of the rows of the file that are left out."""
        if self.rows is None or not len(self.rows):
            return []
        left: list[int] = np.setdiff1d(np.arange(int(self.rows[-1])), self.rows).tolist()
        return left


@dataclass(frozen=True, eq=False)
class ChangedRows:
    """The changed rows of an estimator as the source of a change log."""

    X: Array
    rows: NDArray[np.intp]
    columns: tuple[str, ...] | None
    row_labels: tuple[str, ...] | None
    image_shape: tuple[int, ...] | None


def log_of(est: Any, given: Given, image_shape: Any) -> ChangeLog:
    """Return the change log of a fitted estimator that mended no file: numbers as texts."""
    rows = given.changed
    labels = None if given.row_labels is None else tuple(given.row_labels[row] for row in rows.tolist())
    source = ChangedRows(given.before(rows), rows, given.columns, labels, image_shape)
    told = getattr(est, "changes_", None)
    records = None if told is None else told.records
    if records is not None:
        records = records[np.isin(records["row"], rows)]
        records = records.copy()
        records["row"] = np.searchsorted(rows, records["row"])
    return make_log(source, given.after(rows), Found(est.outlier_scores_[rows], est.outliers_[rows], records))


def change_facts(est: Any, given: Given, log: ChangeLog, file: FileFacts | None) -> dict[str, Any]:
    """Return the lines of a change log, those of the worst rows first, as many as fit, and the nearest good rows.

    Texts are as in the file of the log, an apostrophe before what might be a formula; `numbers` are old, new, low and
    high of lines that are about one cell.
    """
    at = log.row if file is None or file.rows is None else np.searchsorted(file.rows, log.row)
    order = np.lexsort((np.arange(len(log)), at, -est.outlier_scores_[at], ~est.outliers_[at]))
    lines = list(log.lines())[1:]
    numbers = _numbers(est, given, log, at)
    known: dict[str, int] = {}
    kept, size = [], 0
    for k in order.tolist():
        _, label, *texts, accepted = lines[k]
        places = [known.setdefault(text, len(known)) for text in (label, *texts)]
        line = [int(at[k]), *places, int(accepted == "yes"), numbers[k]]
        size += len(json.dumps(line)) + (len(texts[-1]) if places[-1] == len(known) - 1 else 0)
        if size > MOST_BYTES:
            break
        kept.append(line)
    rows = list(dict.fromkeys(line[0] for line in kept))
    return {
        "total": len(log),
        "texts": list(known),
        "lines": kept,
        "nearest": _nearest(est, rows, given),
    }


def _numbers(est: Any, given: Given, log: ChangeLog, at: Rows) -> list[list[float | None] | None]:
    """Return old, new, low and high of each line as numbers; None for those that are about several cells."""
    names = given.columns or tuple(f"column {j}" for j in range(given.shape[1]))
    places = {name: j for j, name in enumerate(names)}
    place = np.array([places.get(name, -1) for name in log.column], dtype=np.intp)
    single = place >= 0
    values = np.full((len(log), 4), np.nan)
    rows, columns = at[single], place[single]
    order = np.searchsorted(given.changed, rows)
    before = given.before(given.changed)
    values[single, 0], values[single, 1] = before[order, columns], given.recovered[rows, columns]
    told = getattr(est, "changes_", None)
    if told is not None:
        records = told.records
        keys, wanted = records["row"] * given.shape[1] + records["column"], at * given.shape[1] + place
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        found = single & (keys[place] == wanted) if len(keys) else np.zeros(len(log), dtype=bool)
        for k, name in ((2, "low"), (3, "high")):
            values[found, k] = records[name][place[found]]
    texts = rounded(values, 6) if len(log) else []
    return [line if one else None for line, one in zip(texts, single.tolist(), strict=True)]


def _nearest(est: Any, rows: list[int], given: Given) -> dict[str, list[list[Any]]]:
    """Return the good rows nearest to what flagged rows became: their numbers and names."""
    if not hasattr(est, "explain") or getattr(est, "changes_", None) is None:
        return {}
    out = {}
    for row in [row for row in rows if est.outliers_[row]][:EXPLAINED]:
        near = est.explain(row).nearest[:NEAREST]
        out[str(row)] = [[int(one), given.label(int(one))] for one in near]
    return out
