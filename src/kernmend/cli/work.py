"""What `kernmend mend`, `inspect` and `apply` do: options -> estimator -> data set, and words about it."""

import csv
import json
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np
from sklearn.exceptions import NotFittedError

from kernmend import _mend as sugar
from kernmend import io
from kernmend._methods import METHODS
from kernmend._typing import Array
from kernmend.cli import words as cli_words
from kernmend.cli.mend import plain
from kernmend.cli.targets import Refused, check_free, find_beside, find_targets, input_file
from kernmend.io import ChangeLog, Dataset, FileError, read, replacing, without_empty
from kernmend.io import model_file as saving
from kernmend.io.changes import Found, make_log
from kernmend.io.frames import changed, settle

LAYOUT = ("header", "delimiter", "decimal", "thousands", "encoding")  # options on how a table is read
NOTHING = ("holds no", "no column of numbers")  # words of the readers: the file is sound, but there is nothing to do


# --- the commands -----------------------------------------------------------------------------------------------------


def run_mend(
    source: Path,
    *,
    output: Path | None,
    report: Path | None,
    changes: Path | None,
    save_model: Path | None,
    good: Path | None,
    method: str,
    **options: Any,
) -> None:
    """Read, mend, write; after Ctrl-C what there is, if an output was named."""
    with session(options) as started:
        target = find_targets([source], output)[0]
        check_free([target, report, changes, save_model], options["force"], inputs=[input_file(source), good])
        data = _read(source, options)
        estimator = make_estimator(method, data, options)
        reference = None if good is None else _read_good(good, data, method, options)
        with failing(estimator):
            mended = sugar.fit(estimator, data, reference)
        interrupted = was_interrupted(estimator)
        if interrupted and output is None:
            raise KeyboardInterrupt
        facts = cli_words.facts("mend", data, mended.flags, mended.scores, estimator) | {"method": method}
        facts |= cli_words.changes(mended.changed, data.X) | {"interrupted": interrupted}
        facts["suspects"] = cli_words.numbered(data, cli_words.ranked(mended.scores, mended.suspects))
        if reference is not None:
            facts |= {"good": str(good), "good_rows": len(reference)}
        with writing():
            facts["output"] = str(mended.write(target, force=options["force"]))
            if report is not None:
                facts["report"] = str(mended.report(report, force=options["force"]))
            if changes is not None:
                facts["changes"] = str(mended.write_changes(changes, force=options["force"]))
            if save_model is not None:
                facts["model"] = str(estimator.save(save_model, force=options["force"]))
        facts["seconds"] = round(time.perf_counter() - started, 3)
        tell(options, facts, lambda: cli_words.of_mend(facts, data, estimator))
        if interrupted:
            click.echo(f"kernmend: interrupted: the best result so far is in {target}", err=True)
            raise click.exceptions.Exit(130)


def run_inspect(source: Path, *, rows: int | None, scores: Path | None, method: str, **options: Any) -> None:
    """Read and score; write the scores if asked."""
    with session(options) as started:
        check_free([scores], options["force"], inputs=[input_file(source)])
        data = _read(source, options)
        estimator = make_estimator(method, data, options)
        with failing(estimator):
            found = sugar.score(estimator, data.X)
        if was_interrupted(estimator):
            raise KeyboardInterrupt
        facts = cli_words.facts("inspect", data, found.flags, found.scores) | {"method": method}
        facts["threshold"] = found.threshold if np.isfinite(found.threshold) else None
        facts["suspects"] = cli_words.numbered(data, cli_words.ranked(found.scores, found.suspects))
        if scores is not None:
            with writing():
                _write_scores(scores, data, found)
            facts["scores"] = str(scores)
        facts["seconds"] = round(time.perf_counter() - started, 3)
        asked = isinstance(options["contamination"], float)
        tell(options, facts, lambda: cli_words.of_inspect(facts, data, found, rows, asked=asked))


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
        if follow and not hasattr(estimator, "partial_fit"):
            raise Refused(f"{model} is of a method that cannot follow drift: kernel can")
        targets, pages = find_targets(sources, output), find_beside(sources, report, "--report", ".html")
        logs = find_beside(sources, changes, "--changes", ".changes.csv")
        inputs = [model, *map(input_file, sources)]
        check_free([*targets, *pages, *logs], options["force"], [output, report, changes], inputs)
        for source, target, page, log in zip(sources, targets, pages, logs, strict=True):
            data, order = _read_for_model(source, options, estimator)
            with failing(estimator):
                X = data.X[:, order]
                A, flags, scores = _apply(estimator, X, follow)
                A = settle(A[:, np.argsort(order)], data)
            facts = cli_words.facts("apply", data, flags, scores) | {"model": str(model)}
            facts |= cli_words.changes(changed(A, data.X), data.X)
            made = make_log(data, A, Found(scores, flags))
            with writing():
                target.parent.mkdir(exist_ok=True)
                facts["output"] = str(data.write(target, A, force=options["force"]))
                if page is not None:
                    page.parent.mkdir(exist_ok=True)
                    found = sugar.Applied(A[:, order], flags, scores)
                    facts["report"] = str(
                        _report_applied(page, estimator, data, order, found, made, force=options["force"])
                    )
                if log is not None:
                    log.parent.mkdir(exist_ok=True)
                    facts["changes"] = str(made.write(log, force=options["force"]))
            now = time.perf_counter()
            facts["seconds"], started = round(now - started, 3), now
            tell(options, facts, lambda facts=facts, data=data: cli_words.of_apply(facts, data))


def run_patch(command: str, source: Path, log: Path, output: Path, **options: Any) -> None:
    """Make the changes of a log, or take them back."""
    check_free([output], options["force"], inputs=[input_file(source), log])
    do = io.revert if command == "revert" else io.patch
    with reading():
        done = do(source, log, output, force=options["force"], **{name: options[name] for name in LAYOUT})
    facts: dict[str, Any] = {"command": command, "input": str(source), "log": str(log), "output": str(done.path)}
    facts |= {"changed": done.changed, "left": done.left}
    tell(options, facts, lambda: cli_words.of_patch(facts))


def _report_applied(
    page: Path, estimator: Any, data: Dataset, order: list[int], found: sugar.Applied, log: ChangeLog, *, force: bool
) -> Path:
    """Write the report on new rows that a model has mended; `order` are the places of its columns in the data."""
    from kernmend.report import report_data, write_page

    told = sugar.telling_of(estimator, data.X[:, order], found)
    names = getattr(estimator, "feature_names_in_", data.columns)
    file = sugar.file_facts(data, log)
    file = replace(file, types=tuple(file.types[j] for j in order))
    facts = report_data(told, columns=names, row_labels=data.row_labels, image_shape=data.image_shape, file=file)
    return write_page(facts, page, title=data.source.name, force=force)


def _apply(estimator: Any, X: Array, follow: bool) -> tuple[Array, Any, Array]:
    """Return the rows mended, which do not fit, and their scores; the model as it is, or following."""
    if follow:
        estimator.partial_fit(X)
        return estimator.recovered_, estimator.outliers_, estimator.outlier_scores_
    return estimator.transform(X), estimator.predict(X) == -1, -estimator.score_samples(X)


# --- reading and fitting ----------------------------------------------------------------------------------------------


def _read(source: Path, options: dict[str, Any]) -> Dataset:
    with reading():
        data = without_empty(read(source, **of_reading(options)))
    try:
        sugar.check_source(data)
    except ValueError as error:
        raise Refused(f"{source}: {error}") from error
    return data


def of_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `read`."""
    names = ("columns", "image_shape", "missing", *LAYOUT)
    return {name: options[name] for name in names} | {"keep": options["keep"] or ()}


def _read_good(good: Path, data: Dataset, method: str, options: dict[str, Any]) -> Array:
    try:
        return sugar.good_rows(good, data, method, **of_reading(options))
    except ValueError as error:  # a FileError too
        raise Refused(str(error)) from error


@contextmanager
def reading() -> Iterator[None]:
    """Turn what a file cannot give into one line."""
    try:
        yield
    except FileError as error:
        _stop(str(error), 1 if any(words in str(error) for words in NOTHING) else 2)


def make_estimator(method: str, data: Dataset, options: dict[str, Any]) -> Any:
    """Return the estimator that the options ask for."""
    if len(data.X) < 2:
        _stop(f"{data.source} has one row: too few to tell what is normal", 1)
    names = ("contamination", "error", "kernel", "gamma", "bounds", "landmarks", "max_iter")
    params = {name: options[name] for name in names if options[name] is not None}
    params["verbose"] = int(options["progress"])
    if options["seed"] is not None and method in ("kernel", "search"):  # the others draw nothing
        params["random_state"] = options["seed"]
    try:
        if options["scale"] != "auto" and method in ("kernel", "search"):
            params["scale"] = None if options["scale"] == "none" else options["scale"]
        if options["alpha"] is not None:
            if method not in ("kernel", "search"):  # kernel-pca has another alpha
                raise ValueError(f"--alpha is for the methods kernel and search, not for {method}")
            params["alpha"] = options["alpha"]
        return sugar.make_estimator(method, params, data.bounds)
    except ValueError as error:
        raise Refused(str(error)) from error


def _load(path: Path) -> Any:
    try:
        estimator = saving.load(path)
    except saving.ModelError as error:
        raise Refused(str(error)) from error
    if not hasattr(estimator, "transform"):
        name = next(name for name, value in METHODS.items() if value == type(estimator).__name__)
        _stop(f"{path} is of the method {name}, which cannot mend new data: use another method", 1)
    return estimator


def _read_for_model(source: Path, options: dict[str, Any], estimator: Any) -> tuple[Dataset, list[int]]:
    """Return the data, and the places of the model's columns in it: found by name where both have names."""
    data, names = _read(source, options), getattr(estimator, "feature_names_in_", None)
    if names is not None and data.columns is None and options["columns"] is None:
        places = [re.fullmatch(r"column (\d+)", name) for name in names]
        if all(places):  # some columns of a table without names: in a shorter one they may not look like identifiers
            return _read(source, options | {"columns": tuple(p[1] for p in places if p), "keep": None}), [
                *range(len(names))
            ]
    if names is not None and data.columns is not None and options["columns"] is None and set(names) != {*data.columns}:
        data = _read(source, options | {"columns": tuple(names), "keep": None})  # the others are passed through
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


@contextmanager
def failing(estimator: Any) -> Iterator[None]:
    """Turn what an estimator refuses into one line: a parameter is bad usage, data that cannot be mended is not."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError, NotFittedError) as error:
        text = str(error)
        inner = getattr(estimator, "estimator", None) or estimator
        usage = any(text.startswith((f"{name} must", f"{name}=")) for name in inner.get_params())
        _stop(text, 2 if usage else 1)
    except MemoryError:
        _stop("not enough memory for so many rows: take fewer, or columns", 1)


def was_interrupted(estimator: Any) -> bool:
    """Return whether Ctrl-C cut the fit short: the estimator says so, or it was pressed and went by in filling in."""
    pressed = getattr(click.get_current_context().obj, "code", None) == 130
    return pressed or getattr(estimator, "stop_reason_", "") == "interrupted"


# --- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def writing() -> Iterator[None]:
    """Turn what cannot be written into one line."""
    try:
        yield
    except (FileError, ImportError) as error:
        _stop(str(error), 1)
    except OSError as error:
        _stop(f"cannot write {error.filename or 'the result'}: {error.strerror or error}", 1)


def _write_scores(path: Path, data: Dataset, found: sugar.Scored) -> None:
    labels = data.row_labels
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["row", *(["label"] if labels else []), "score", "flagged", "suspect"])
        for row, value in enumerate(found.scores.tolist()):
            label = [labels[row]] if labels else []
            number = row if data.rows is None else int(data.rows[row])
            out.writerow([number, *label, repr(value), int(found.flags[row]), int(found.suspects[row])])


# --- around it --------------------------------------------------------------------------------------------------------


@contextmanager
def session(options: dict[str, Any]) -> Iterator[float]:
    """Limit threads, decide on the progress bar, and show warnings as lines of their own."""
    from threadpoolctl import threadpool_limits

    started = time.perf_counter()
    if options["progress"] is None:
        options["progress"] = sys.stderr.isatty() and not options["quiet"]
    with threadpool_limits(options["threads"]), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield started
    if not options["quiet"]:
        messages = dict.fromkeys(str(note.message) for note in caught if issubclass(note.category, UserWarning))
        for message in messages:
            if not message.startswith(("interrupted", "X does not have valid feature names")):
                click.echo(f"kernmend: note: {plain(message)}", err=True)


def tell(options: dict[str, Any], facts: dict[str, Any], words: Any) -> None:
    """Print the facts, as JSON or in words."""
    if options["as_json"]:
        click.echo(json.dumps(facts, allow_nan=False))
    elif not options["quiet"]:
        words()


def _stop(message: str, code: int) -> NoReturn:
    raise (Refused if code == 2 else click.ClickException)(message)
