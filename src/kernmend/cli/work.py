"""What `kernmend mend`, `inspect` and `apply` do: options -> estimator -> data set, and words about it."""

import csv
import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np
from sklearn.exceptions import NotFittedError

from kernmend import _mend as sugar
from kernmend.cli import words as cli_words
from kernmend.cli.mend import plain
from kernmend.cli.targets import Refused, check_free, find_targets, input_file
from kernmend.io import Dataset, FileError, read, replacing, without_empty

LAYOUT = ("header", "delimiter", "decimal", "thousands", "encoding")  # options on how a table is read
NOTHING = ("holds no ", "no column of numbers")  # words of the readers: the file is sound, but there is nothing to do


# --- the commands -----------------------------------------------------------------------------------------------------


def run_mend(
    source: Path,
    *,
    output: Path | None,
    report: Path | None,
    changes: Path | None,
    save_model: Path | None,
    good: Path | None,
    labels: str | None,
    method: str,
    **options: Any,
) -> None:
    """Read, mend, write; after Ctrl-C what there is, if an output was named."""
    with session(options) as started:
        target = find_targets([source], output)[0]
        check_free([target, report, changes, save_model], options["force"], inputs=[input_file(source), good])
        check_report(report)
        data = read_data(source, options)
        estimator = make_estimator(method, data, options)
        with refusing():
            reference = None if good is None else sugar.good_rows(good, data, method, **of_reading(options))
            known = None if labels is None else sugar.known(None, data, labels, method)
        with failing(estimator):
            mended = sugar.fit(estimator, data, reference, known)
        interrupted = was_interrupted(estimator)
        if interrupted and output is None:
            raise KeyboardInterrupt
        facts = cli_words.facts("mend", data, mended.flags, mended.scores, estimator) | {"method": method}
        facts |= cli_words.changes(mended.changed, data.X) | {"interrupted": interrupted}
        facts["suspects"] = cli_words.numbered(data, cli_words.ranked(mended.scores, mended.suspects))
        if reference is not None:
            facts |= {"good": str(good), "good_rows": len(reference)}
        if known is not None:
            facts |= {"known_good": int(known.good.sum()), "known_wrong": int(known.wrong.sum())}
        with writing():
            facts["output"] = str(mended.write(target, force=options["force"]))
            if report is not None:
                facts["report"] = str(mended.report(report, force=options["force"]))
            if changes is not None:
                facts["changes"] = str(mended.write_changes(changes, force=options["force"]))
            if save_model is not None:
                facts["model"] = str(estimator.save(save_model, force=options["force"]))
        facts["seconds"] = round(time.perf_counter() - started, 3)
        tell(options, facts, lambda: cli_words.of_mend(facts, data, estimator, mended._kept))
        if interrupted:
            click.echo(f"kernmend: interrupted: the best result so far is in {target}", err=True)
            raise click.exceptions.Exit(130)


def run_inspect(source: Path, *, rows: int | None, scores: Path | None, method: str, **options: Any) -> None:
    """Read and score; write the scores if asked."""
    with session(options) as started:
        check_free([scores], options["force"], inputs=[input_file(source)])
        data = read_data(source, options)
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


# --- reading and fitting ----------------------------------------------------------------------------------------------


def read_data(source: Path, options: dict[str, Any]) -> Dataset:
    """Return the data set of a file, without rows and columns that hold nothing; one line if it cannot be read."""
    with reading():
        data = without_empty(read(source, **of_reading(options)))
    with refusing(f"{source}: "):
        sugar.check_source(data)
    return data


def of_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `read`."""
    names = ("columns", "image_shape", "missing", *LAYOUT)
    return {name: options[name] for name in names} | {"keep": options["keep"] or ()}


@contextmanager
def refusing(where: str = "") -> Iterator[None]:
    """Turn what was asked for and cannot be into one line, with `where` in front."""
    try:
        yield
    except ValueError as error:  # a FileError too
        raise Refused(f"{where}{error}") from error


@contextmanager
def reading() -> Iterator[None]:
    """Turn what a file cannot give into one line."""
    try:
        yield
    except FileError as error:
        stop(str(error), 1 if any(words in str(error) for words in NOTHING) else 2)


def check_report(path: Path | None) -> None:
    """End before any work is done if a report is asked for and what writes it is not installed."""
    if path is not None:
        from kernmend.report.page import need_templates

        try:
            need_templates()
        except ImportError as error:
            stop(str(error), 1)


def make_estimator(method: str, data: Dataset, options: dict[str, Any]) -> Any:
    """Return the estimator that the options ask for."""
    if len(data.X) < 2:
        stop(f"{data.source} has one row: too few to tell what is normal", 1)
    names = ("contamination", "error", "kernel", "gamma", "bounds", "landmarks", "max_iter", "interval", "unsure")
    params = {name: options[name] for name in names if options[name] is not None}
    params["verbose"] = int(options["progress"])
    if options["seed"] is not None and sugar.draws(method):  # the others give the same result with any seed
        params["random_state"] = options["seed"]
    if options["scale"] != "auto":
        params["scale"] = None if options["scale"] == "none" else options["scale"]
    if options["alpha"] is not None:
        if method not in ("kernel", "search"):  # kernel-pca has another alpha
            raise Refused(f"--alpha is for the methods kernel and search, not for {method}")
        params["alpha"] = options["alpha"]
    with refusing():
        return sugar.make_estimator(method, params, data.bounds)


@contextmanager
def failing(estimator: Any) -> Iterator[None]:
    """Turn what an estimator refuses into one line: a parameter is bad usage, data that cannot be mended is not."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError, NotFittedError) as error:
        text = str(error)
        inner = getattr(estimator, "estimator", None) or estimator
        usage = any(text.startswith((f"{name} must", f"{name}=")) for name in inner.get_params())
        stop(text, 2 if usage else 1)
    except MemoryError:
        stop("not enough memory for so many rows: take fewer, or columns", 1)


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
        stop(str(error), 1)
    except OSError as error:
        stop(f"cannot write {error.filename or 'the result'}: {error.strerror or error}", 1)


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


def stop(message: str, code: int) -> NoReturn:
    """End in one line, as bad usage or input if the code is 2."""
    raise (Refused if code == 2 else click.ClickException)(message)
