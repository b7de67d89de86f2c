"""The changes as the page reviews them: the lines of the change log, worst rows first, with what is drawn of each."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend.io import ChangeLog
from kernmend.io._patching import PIXELS
from kernmend.io.changes import Found, make_log, worst_rows
from kernmend.io.frames import Table
from kernmend.report._given import Given, Rows, rounded

# Number of cells whose changes are looked at for a page, and bytes of those kept there, as text: with rows, map and
# scores a page of 10,000 rows stays below 2 MB.
MOST_CELLS, MOST_BYTES = 20_000, 800_000
# Number of good rows beside a mended one that are named, and number of rows for which they are looked up.
NEAREST, EXPLAINED = 3, 200
LEFT_OUT = "The page holds {:,} of {:,} changes, those of the worst rows; kernmend mend --changes writes all."


@dataclass(frozen=True)
class FileFacts:
    """What is known of the file that was mended.

    `name` is what was typed for it, `log` its change log, of the worst rows if it is long, `total` the number of all
    changes, `types` what each feature is in words, `passed` the columns that were passed over, with reasons, `rows` the
    numbers of the rows in the file if some of these are left out, `records` what is known of single cells.
    """

    name: str
    log: ChangeLog
    total: int
    types: tuple[str, ...]
    passed: tuple[tuple[str, str], ...]
    rows: NDArray[np.intp] | None = None
    records: NDArray[Any] | None = None

    @property
    def skipped(self) -> list[int]:
        """The numbers of the rows of the file that are left out."""
        if self.rows is None or not len(self.rows):
            return []
        left: list[int] = np.setdiff1d(np.arange(int(self.rows[-1])), self.rows).tolist()
        return left


def log_of(est: Any, given: Given, image_shape: Any) -> tuple[ChangeLog, int]:
    """Return the change log of the worst rows of a fitted estimator that mended no file, and the number of changes."""
    rows = given.changed
    labels = None if given.row_labels is None else tuple(given.row_labels[row] for row in rows.tolist())
    source = Table(given.before(rows), columns=given.columns, row_labels=labels, image_shape=image_shape, rows=rows)
    records = cell_records(est)
    if records is not None:
        records = records[np.isin(records["row"], rows)]
        records = records.copy()
        records["row"] = np.searchsorted(rows, records["row"])
    after, found = given.after(rows), Found(est.outlier_scores_[rows], est.outliers_[rows], records)
    among, total = worst_rows(source, after, found, MOST_CELLS)
    return make_log(source, after, found, among), total


def change_facts(est: Any, given: Given, log: ChangeLog, total: int, file: FileFacts | None) -> dict[str, Any]:
    """Return the lines of a change log, those of the worst rows first, as many as fit, and the nearest good rows.

    Texts are as in the file of the log, an apostrophe before what might be a formula; `numbers` are old, new, low and
    high of lines that are about one cell.
    """
    at = log.row if file is None or file.rows is None else np.searchsorted(file.rows, log.row)
    order = np.lexsort((np.arange(len(log)), at, -est.outlier_scores_[at], ~est.outliers_[at]))
    lines = list(log.lines())[1:]
    numbers = _numbers(given, log, at, cell_records(est) if file is None else file.records)
    known: dict[str, int] = {}
    kept, size = [], 0
    for k in order.tolist():
        _, label, *texts, accepted = lines[k]
        size += sum(len(text.encode()) + 4 for text in {label, *texts} if text not in known)
        places = [known.setdefault(text, len(known)) for text in (label, *texts)]
        line = [int(at[k]), *places, int(accepted == "yes"), numbers[k]]
        size += len(json.dumps(line))
        if size > MOST_BYTES:
            break
        kept.append(line)
    rows, known_texts = list(dict.fromkeys(line[0] for line in kept)), list(known)
    shown = sum(_size(known_texts[line[2]]) for line in kept)
    return {
        "total": total,
        "cells": shown,
        "words": "" if shown >= total else LEFT_OUT.format(shown, total),
        "texts": known_texts,
        "lines": kept,
        "nearest": _nearest(est, rows, given),
    }


def _size(column: str) -> int:
    """Return the number of cells that a line is about, by the name of its column."""
    pixels = PIXELS.fullmatch(column)
    return 1 if pixels is None else int(pixels[2]) - int(pixels[1]) + 1


def cell_records(est: Any) -> NDArray[Any] | None:
    """Return what a fit tells of each changed cell; None where the method does not say."""
    told = getattr(est, "changes_", None)
    return None if told is None else np.asarray(told.records)


def _numbers(given: Given, log: ChangeLog, at: Rows, records: NDArray[Any] | None) -> list[list[float | None] | None]:
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
    if records is not None:
        keys, wanted = records["row"] * given.shape[1] + records["column"], at * given.shape[1] + place
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        found = single & (keys[place] == wanted) if len(keys) else np.zeros(len(log), dtype=bool)
        for k, name in ((2, "low"), (3, "high")):
            values[found, k] = records[name][place[found]]
    texts = rounded(values, 6) if len(log) else []
    return [line if one else None for line, one in zip(texts, single.tolist(), strict=True)]


def _nearest(est: Any, rows: list[int], given: Given) -> dict[str, list[list[Any]]]:
    """Return the good rows nearest to what flagged rows became: their numbers and names."""
    if not hasattr(est, "explain") or cell_records(est) is None:
        return {}
    out = {}
    for row in [row for row in rows if est.outliers_[row]][:EXPLAINED]:
        near = est.explain(row).nearest[:NEAREST]
        out[str(row)] = [[int(one), given.label(int(one))] for one in near]
    return out
