"""What `kernmend apply`, `patch` and `revert` do: new files mended by a model, and change logs made and taken back."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kernmend import _mend as sugar
from kernmend import io
from kernmend._methods import METHODS
from kernmend._typing import Array
from kernmend.cli import words as cli_words
from kernmend.cli.targets import Refused, check_free, find_beside, find_targets, input_file
from kernmend.cli.work import LAYOUT, check_report, failing, read_data, reading, session, stop, tell, writing
from kernmend.io import Dataset
from kernmend.io import model_file as saving
from kernmend.io._dataset import differing
from kernmend.io.changes import Found, make_log
from kernmend.io.frames import settle


def run_apply(
    model: Path,
    sources: Sequence[Path],
    *,
    output: Path | None,
    report: Path | None,
    changes: Path | None,
    follow: bool,
    **options: Any,
) -> None:
    """Mend one file after the other with a model from disk; those that are done stay when a later one fails."""
    with session(options) as started:
        estimator = _load(model)
        estimator.verbose = int(options["progress"])
        if follow and not hasattr(estimator, "partial_fit"):
            raise Refused(f"{model} is of a method that cannot follow drift: kernel can")
        targets, pages = find_targets(sources, output), find_beside(sources, report, "--report", ".html")
        logs = find_beside(sources, changes, "--changes", ".changes.csv")
        inputs = [model, *map(input_file, sources)]
        check_free([*targets, *pages, *logs], options["force"], [output, report, changes], inputs)
        check_report(report)
        for source, target, page, log in zip(sources, targets, pages, logs, strict=True):
            data, order = _read_for_model(source, options, estimator)
            with failing(estimator):
                X = data.X[:, order]
                told = page is not None or log is not None
                A, flags, scores, cells = _apply(estimator, X, order, follow=follow, cells=told)
                A = settle(A[:, np.argsort(order)], data)
            found = Found(scores, flags, cells)
            facts = cli_words.facts("apply", data, flags, scores) | {"model": str(model)}
            facts |= cli_words.changes(differing(A, data.X), data.X)
            with writing():
                for path in (target, page, log):
                    if path is not None:
                        path.parent.mkdir(exist_ok=True)
                facts["output"] = str(data.write(target, A, force=options["force"]))
                if page is not None:
                    done = _report_applied(page, estimator, data, order, A, found, force=options["force"])
                    facts["report"] = str(done)
                if log is not None:
                    facts["changes"] = str(make_log(data, A, found).write(log, force=options["force"]))
            now = time.perf_counter()
            facts["seconds"], started = round(now - started, 3), now
            tell(options, facts, lambda facts=facts, data=data: cli_words.of_apply(facts, data))


def _apply(estimator: Any, X: Array, order: list[int], *, follow: bool, cells: bool) -> tuple[Array, Any, Array, Any]:
    """Return the rows mended, which do not fit, their scores, and what is told of each cell that was changed, if asked.

    The model stays as it is, or follows. Cells are told by the columns of the data; None without.
    """
    if follow:
        estimator.partial_fit(X)
        return estimator.recovered_, estimator.outliers_, estimator.outlier_scores_, None
    if not hasattr(estimator, "changes_of"):
        samples = estimator.score_samples(X)
        return estimator.transform(X), samples + estimator.threshold_ < 0, -samples, None
    A, scores, changes = estimator._apply(X, listed=cells)
    if changes is None:
        return A, scores > estimator.threshold_, scores, None
    records = changes.records.copy()
    records["column"] = np.array(order)[records["column"]]
    return A, scores > estimator.threshold_, scores, records[np.lexsort((records["column"], records["row"]))]


def _report_applied(
    page: Path, estimator: Any, data: Dataset, order: list[int], A: Array, found: Found, *, force: bool
) -> Path:
    """Write the report on new rows that a model has mended to `A`, and return its path.

    `order` has the numbers of the columns of the model in the data.
    """
    from kernmend.report import Applied, report_data, telling_of, write_page

    told = telling_of(estimator, data.X[:, order], Applied(A[:, order], found.flags, found.scores))
    names = getattr(estimator, "feature_names_in_", data.columns)
    file, records = sugar.file_facts(data, A, found), found.records
    if records is not None:  # as the report has the columns
        records = records.copy()
        records["column"] = np.argsort(order)[records["column"]]
        records = records[np.lexsort((records["column"], records["row"]))]
    file = replace(file, types=tuple(file.types[j] for j in order), records=records)
    facts = report_data(told, columns=names, row_labels=data.row_labels, image_shape=data.image_shape, file=file)
    return write_page(facts, page, title=data.source.name, force=force)


def _load(path: Path) -> Any:
    try:
        estimator = saving.load(path)
    except saving.ModelError as error:
        raise Refused(str(error)) from error
    if not hasattr(estimator, "transform"):
        name = next(name for name, value in METHODS.items() if value == type(estimator).__name__)
        stop(f"{path} is of the method {name}, which cannot mend new data: use another method", 1)
    return estimator


def _read_for_model(source: Path, options: dict[str, Any], estimator: Any) -> tuple[Dataset, list[int]]:
    """Return the data, and the places of the model's columns in it: found by name where both have names."""
    data, names = read_data(source, options), getattr(estimator, "feature_names_in_", None)
    if names is not None and data.columns is None and options["columns"] is None:
        places = [re.fullmatch(r"column (\d+)", name) for name in names]
        if all(places):  # some columns of a table without names: in a shorter one they may not look like identifiers
            return read_data(source, options | {"columns": tuple(p[1] for p in places if p), "keep": None}), [
                *range(len(names))
            ]
    if names is not None and data.columns is not None and options["columns"] is None and set(names) != {*data.columns}:
        data = read_data(source, options | {"columns": tuple(names), "keep": None})  # the others are passed through
    if data.X.shape[1] != estimator.n_features_in_:
        has = (
            f"{data.X.shape[1]} columns of numbers"
            if data.image_shape is None
            else f"images of {data.X.shape[1]} values"
        )
        raise Refused(f"{source} has {has}, the model {estimator.n_features_in_}")
    if names is None or data.columns is None:
        return data, list(range(data.X.shape[1]))
    unknown = [name for name in data.columns if name not in names]
    if unknown:
        raise Refused(f"{source}: the model has no column {unknown[0]!r}")
    return data, [data.columns.index(name) for name in names]


def run_patch(command: str, source: Path, log: Path, output: Path, **options: Any) -> None:
    """Make the changes of a log, or take them back."""
    check_free([output], options["force"], inputs=[input_file(source), log])
    do = io.revert if command == "revert" else io.patch
    with reading():
        done = do(source, log, output, force=options["force"], **{name: options[name] for name in LAYOUT})
    facts: dict[str, Any] = {"command": command, "input": str(source), "log": str(log), "output": str(done.path)}
    facts |= {"changed": done.changed, "left": done.left}
    tell(options, facts, lambda: cli_words.of_patch(facts))
