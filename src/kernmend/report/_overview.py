"""The columns: what each is, its range, what was missing and changed; and those that were passed over, with reasons."""

from typing import Any

import numpy as np

from kernmend.report._changes import FileFacts
from kernmend.report._given import Given, rounded

# Number of columns that are listed, of mended and of passed ones; those with most changes where there are more.
LISTED = 60


def column_facts(est: Any, given: Given, file: FileFacts | None) -> dict[str, Any]:
    """Return a line for each column, in their order, and what was passed over."""
    before, after = given.before(given.changed), given.after(given.changed)
    missing, changed = np.isnan(before).sum(axis=0), (~np.isnan(before) & (before != after)).sum(axis=0)
    # Rows that did not change have the values that they had.
    others = np.ones(given.shape[0], dtype=bool)
    others[given.changed] = False
    kept = given.recovered[others]
    listed = np.arange(given.shape[1])
    if listed.size > LISTED:
        listed = np.sort(np.argsort(-(missing + changed), kind="stable")[:LISTED])
    lines = []
    for j in listed.tolist():
        was = np.concatenate([kept[:, j], before[:, j]])
        now = np.concatenate([kept[:, j], after[:, j]])
        lines.append(
            {
                "name": given.columns[j] if given.columns is not None else f"column {j}",
                "type": file.types[j] if file is not None else "numbers",
                "before": rounded([np.nanmin(was), np.nanmax(was)], 6) if np.isfinite(was).any() else [None, None],
                "after": rounded([np.nanmin(now), np.nanmax(now)], 6) if np.isfinite(now).any() else [None, None],
                "missing": int(missing[j]),
                "changed": int(changed[j]),
            }
        )
    passed = listed_passed(file.passed if file is not None else ())
    return {"lines": lines, "left_out": given.shape[1] - len(lines)} | passed


def listed_passed(passed: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Return the columns that were passed over, with the reasons, and how many more there are."""
    return {"passed": [list(pair) for pair in passed[:LISTED]], "more_passed": max(0, len(passed) - LISTED)}
