"""`report_data`: everything that a report shows, as lists, numbers and text."""

import inspect
import shlex
from functools import partial
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernmend._methods import METHODS
from kernmend._validation import check_count
from kernmend.estimators._summary import summary
from kernmend.io.changes import Found, kept_rows, words_on_kept
from kernmend.io.frames import row_name
from kernmend.report._changes import FileFacts, cell_records, change_facts, log_of
from kernmend.report._given import Given, rounded, worst_first
from kernmend.report._map import POINTS, map_facts
from kernmend.report._overview import column_facts
from kernmend.report._rows import CURVES, PICTURES, TABLE, check_image_shape, choose_view, row_facts
from kernmend.report._scores import KEPT, score_facts
from kernmend.report._why import parameter_facts, python_lines, version_facts

# Largest number of values of the objective that are drawn.
OBJECTIVE_POINTS = 500
STOPPED = {
    "converged": "converged",
    "max_iter": "stopped at max_iter, not converged: the result may still improve",
    "stalled": "stopped where no step lowers the objective any more",
    "interrupted": "interrupted: this is what was found until then",
}


def report_data(
    est: Any,
    *,
    columns: Any = None,
    row_labels: Any = None,
    image_shape: Any = None,
    max_rows: int = 200,
    file: FileFacts | None = None,
) -> dict[str, Any]:
    """Return the facts of a fitted estimator; parameters as in `Recovery.report_data`, and the file that was mended."""
    check_count("max_rows", max_rows)
    given = Given(est, columns, row_labels)
    image_shape = check_image_shape(image_shape, given.shape[1])
    view = choose_view(given.columns, given.shape[1], image_shape)
    scores = score_facts(est, given, est._score_meaning)
    # The flagged rows, then those just below the threshold: a threshold that is moved on the page finds them.
    order = np.concatenate([scores["flagged"], worst_first(est.outlier_scores_, np.flatnonzero(~est.outliers_))])
    order = order.astype(np.intp)
    rows = row_facts(given, order, max_rows, view, image_shape, _bounds(est))
    log, total = log_of(est, given, image_shape) if file is None else (file.log, file.total)
    flagged = int(est.outliers_.sum())
    first = order[: max(flagged, len(rows["shown"]))]
    facts = {
        "format": 1,
        "method": type(est).__name__,
        "about": inspect.getdoc(type(est)).splitlines()[0],  # type: ignore[union-attr]
        "n_rows": given.shape[0],
        "n_columns": given.shape[1],
        "n_flagged": flagged,
        "n_changed": given.n_changed,
        "n_missing": given.n_missing,
        "words": _words(est, given, file),
        "stop": {"reason": est.stop_reason_, "words": STOPPED[est.stop_reason_], "n_iter": int(est.n_iter_)},
        "columns": column_facts(est, given, file),
        "scores": scores,
        "changes": change_facts(est, given, log, total, file),
        "skipped_rows": [] if file is None else file.skipped,
        "commands": _commands(est, file),
        "rows": rows,
        "map": map_facts(est, given, first),
        "objective": _objective(est),
        "parameters": parameter_facts(est),
        "python": python_lines(est, image_shape),
        "versions": version_facts(),
    }
    return facts | {"left_out": _left_out(facts)}


def _words(est: Any, given: Given, file: FileFacts | None) -> list[str]:
    """Return the summary, and a sentence on flagged rows in which nothing was changed; rows by number and name."""
    changed = np.zeros(given.shape[0], dtype=bool)
    changed[given.changed] = True
    records = cell_records(est) if file is None else file.records
    source = SimpleNamespace(rows=None if file is None else file.rows, row_labels=given.row_labels)
    kept = kept_rows(Found(est.outlier_scores_, est.outliers_, records), changed)
    return [*summary(est, partial(row_name, source)).splitlines(), *words_on_kept(source, kept)]


def _commands(est: Any, file: FileFacts | None) -> dict[str, str]:
    """Return the name of the file of decisions, and the beginnings of the commands that the page shows.

    `patch` applies decisions; `flag` fits again with another share of flagged rows, which the page adds.
    """
    path = PurePath(file.name if file is not None else "data.csv")
    suffix = "".join(path.suffixes[-2:] if path.suffix in (".gz", ".zip") else path.suffixes[-1:])
    stem = path.name.removesuffix(suffix) or "data"
    decisions = f"{stem}.decisions.csv"
    names = (str(path), decisions, f"{stem}.reviewed{suffix}")
    source, log, target = map(shlex.quote, names)
    command = type(est).__name__
    method = next((name for name, known in METHODS.items() if known == command), "kernel")
    chosen = "" if method == "kernel" else f" --method {method}"
    return {
        "decisions": decisions,
        "patch": f"kernmend patch {source} {log} -o {target}",
        "flag": f"kernmend mend {source}{chosen} --contamination" if file is not None else "",
    }


def _bounds(est: Any) -> list[float] | None:
    """Return the one range of all values, where it was given: then pictures are drawn in it."""
    bounds = getattr(est._inner, "bounds", None)
    if bounds is None or isinstance(bounds, str):
        return None
    low, high = (np.asarray(side, dtype=np.float64) for side in bounds)
    return [float(low), float(high)] if low.ndim == high.ndim == 0 and np.isfinite(high - low) and high > low else None


def _objective(est: Any) -> dict[str, Any]:
    values = np.asarray(est.objective_, dtype=np.float64)
    kept = np.unique(np.linspace(0, values.size - 1, min(values.size, OBJECTIVE_POINTS)).astype(np.intp))
    return {"iterations": kept.tolist(), "values": rounded(values[kept], 9)}


def _left_out(facts: dict[str, Any]) -> list[str]:
    """Return what is in the data but not in the facts, in words."""
    n_rows, rows = facts["n_rows"], facts["rows"]
    out = []
    if facts["n_flagged"] > len(rows["shown"]):
        out.append(
            f"The worst {len(rows['shown']):,} of {facts['n_flagged']:,} flagged rows are shown before and after."
        )
    if len(facts["map"]["rows"]) < n_rows:
        out.append(f"The map shows {POINTS:,} of {n_rows:,} rows: flagged ones first, then a sample of the others.")
    if len(facts["scores"]["rows"]) < n_rows:
        out.append(
            f"Of {n_rows:,} scores the worst {KEPT // 2:,} are here, and as many of the others as a sample; the "
            "histogram counts all."
        )
    if rows["view"] == TABLE and len(rows["columns"]) < facts["n_columns"]:
        out.append(f"The table shows the {len(rows['columns'])} of {facts['n_columns']:,} columns that changed most.")
    if rows["view"] == CURVES and len(rows["positions"]) < facts["n_columns"]:
        out.append(
            f"Curves show {len(rows['positions'])} of {facts['n_columns']:,} columns: of neighbours the one that "
            "changed most."
        )
    if rows["view"] == PICTURES and np.prod(rows["image_shape"]) < facts["n_columns"]:
        out.append("Pictures are shown smaller than they are.")
    return out
