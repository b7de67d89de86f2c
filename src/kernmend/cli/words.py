"""What the commands say: facts for scripts, and words and tables for people.

A terminal breaks words at its width; in a pipe or a file a sentence is one line. Tables are cut at 80 columns there.
"""

import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernmend._typing import Array
from kernmend.cli.mend import plain
from kernmend.estimators._summary import one_in, summary
from kernmend.io import Dataset
from kernmend.io._text import counted
from kernmend.io.changes import words_on_kept
from kernmend.io.frames import row_name
from kernmend.large.dask import gathered

# Number of characters of a line where nothing says how wide the terminal is.
WIDTH = 80
# Numbers of rows that `inspect` shows: where some are flagged, and where none is.
MANY_ROWS, FEW_ROWS = 10, 5
# Largest number of values of a row that `inspect` shows: more than fit a line.
MOST_VALUES = 20
# Number of columns up to which the values of a row fit a line, and are shown in their order.
FEW_COLUMNS = 3
# Number of rows from which `inspect` takes the middle of a column: enough for a median, and quick in long tables.
SAMPLE = 5000
CHOSEN = ("error", "gamma", "lam", "rho", "C", "sigma", "rank")


def facts(
    command: str, data: Dataset, flags: NDArray[np.bool_], scores: Array, estimator: Any = None
) -> dict[str, Any]:
    """Return what every command knows of its input and of the rows, and what an estimator chose."""
    out: dict[str, Any] = {
        "command": command,
        "input": str(data.source),
        "format": data.format,
        "rows": len(data.X),
        "columns": data.X.shape[1],
        "passed": list(data.passed),
        "missing": int(np.isnan(data.X).sum()),
        "flagged": int(flags.sum()),
        "flagged_rows": numbered(data, ranked(scores, flags)),
        "notes": list(data.notes),
    }
    if estimator is not None:
        out["kernel"] = str(estimator.kernel_) if hasattr(estimator, "kernel_") else None
        out |= {name: _number(getattr(estimator, f"{name}_", None)) for name in CHOSEN}
        out |= {"stop_reason": estimator.stop_reason_, "iterations": int(estimator.n_iter_)}
    return out


def ranked(scores: Array, among: NDArray[np.bool_]) -> list[int]:
    """Return the numbers of some rows, the worst first."""
    worst_first = np.argsort(-scores, kind="stable")
    out: list[int] = worst_first[among[worst_first]].tolist()
    return out


def numbered(data: Dataset, rows: list[int]) -> list[int]:
    """Return the numbers of rows in the file, where some of its rows have no number."""
    return rows if data.rows is None else [int(data.rows[row]) for row in rows]


def changes(changed: NDArray[np.bool_], X: Array) -> dict[str, int]:
    """Return how many values are new, and how many of them were missing."""
    return {"changed": int(changed.sum()), "filled": int((changed & np.isnan(X)).sum())}


def of_mend(facts: dict[str, Any], data: Dataset, estimator: Any, kept: Sequence[int] = ()) -> None:
    """Say what was found, done and written; `kept` are flagged rows in which nothing was changed."""
    _say_input(facts, data)
    say(summary(gathered(estimator), partial(row_name, data), cells=False))
    _say_changes(facts)
    for words in words_on_kept(data, kept):
        say(words)
    _say_files(facts)
    if "model" in facts:
        click.echo(f"Model: {plain(facts['model'])}")


def of_apply(facts: dict[str, Any], data: Dataset) -> None:
    """Say what was done with one file."""
    _say_input(facts, data)
    fit = "does not fit" if facts["flagged"] == 1 else "do not fit"
    say(f"{facts['flagged']} of {counted(facts['rows'], 'row')} {fit} the model.")
    _say_changes(facts)
    _say_files(facts)


def of_patch(facts: dict[str, Any]) -> None:
    """Say how many changes were made, or taken back."""
    done = "taken back" if facts["command"] == "revert" else "made"
    left = f", {facts['left']} not accepted and left alone" if facts["left"] else ""
    say(f"{counted(facts['changed'], 'change')} {done}{left}.")
    click.echo(f"Written: {plain(facts['output'])}")


def of_inspect(facts: dict[str, Any], data: Dataset, found: Any, rows: int | None, *, asked: bool) -> None:
    """Show the flagged rows, then those that are unusual; where there are few, the next ones too.

    `asked` says that the share of the flagged ones was told.
    """
    _say_input(facts, data)
    flagged, suspects = ranked(found.scores, found.flags), ranked(found.scores, found.suspects)
    line = facts["threshold"]
    how = "" if line is None else f": those that score above {line:.4g}"
    if asked:
        how = ", the share that was asked for"
    elif found.by_chance and line is not None:
        how = f": good rows are as far out in less than {one_in(line)} cases"
    say(f"{len(flagged)} of {facts['rows']} rows flagged, {100 * len(flagged) / facts['rows']:.1f} %{how}.")
    if suspects:
        say(f"{counted(len(suspects), 'more row')} {'is' if len(suspects) == 1 else 'are'} unusual, not flagged.")
    count = (MANY_ROWS if flagged else FEW_ROWS) if rows is None else rows
    if count:
        order = "" if data.image_shape or data.X.shape[1] <= FEW_COLUMNS else ", their most unusual values first"
        meaning = ", and how often good rows are as far out" if found.by_chance else ""
        say(f"The most unusual rows (from 0){order}{meaning}:")
        others = ranked(found.scores, ~(found.flags | found.suspects))
        shown = [flagged[:count], suspects[:count]]
        console().print(_worst(data, found, [*shown, others[: max(count - sum(map(len, shown)), 0)]]))
    if "scores" in facts:
        click.echo(f"Scores: {plain(facts['scores'])}")


def _worst(data: Dataset, found: Any, groups: list[list[int]]) -> Table:
    pictures = data.image_shape is not None
    table = Table(expand=not pictures)
    table.add_column("row", justify="right", no_wrap=True)
    if data.row_labels is not None:
        table.add_column("label", max_width=24, no_wrap=True, overflow="ellipsis")
    table.add_column("chance" if found.by_chance else "score", justify="right", no_wrap=True)
    table.add_column("found", no_wrap=True)
    if not pictures:
        table.add_column("values", ratio=1, no_wrap=True, overflow="ellipsis")  # what the others leave
    typical = _typical(data.X)
    for word, rows in zip(("flagged", "unusual", ""), groups, strict=True):
        for row in rows:
            label = [] if data.row_labels is None else [Text(plain(data.row_labels[row]))]
            values = [] if pictures else [Text(_values(data, row, *typical))]
            score = float(found.scores[row])
            table.add_row(
                str(numbered(data, [row])[0]),
                *label,
                one_in(score) if found.by_chance else f"{score:.2f}",
                word,
                *values,
            )
        table.add_section()
    return table


def _typical(X: Array) -> tuple[Array, Array]:
    """Return the median of each column and the median distance from it, of rows from all over the table."""
    some = X[:: -(-len(X) // SAMPLE)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column that is empty in these rows; overflow
        centre = np.nanmedian(some, axis=0)
        return centre, np.nanmedian(np.abs(some - centre), axis=0)


def _values(data: Dataset, row: int, centre: Array, spread: Array) -> str:
    """Return values of a row, with names if there are any: of many, those far from the median of their column first.

    What does not fit is cut off by the table.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a column that is constant but for one value
        far = np.nan_to_num(np.abs(data.X[row] - centre) / spread, nan=0.0)
    far[np.isnan(data.X[row])] = -1.0  # missing: last
    order = np.argsort(-far, kind="stable")[:MOST_VALUES] if far.size > FEW_COLUMNS else np.arange(far.size)
    values = ["?" if np.isnan(value) else f"{value:.6g}" for value in data.X[row, order]]
    if data.columns is None:
        return "  ".join(values)
    return "  ".join(f"{plain(data.columns[j])} {value}" for j, value in zip(order, values, strict=True))


def _say_input(facts: dict[str, Any], data: Dataset) -> None:
    missing = f", {counted(facts['missing'], 'value')} missing" if facts["missing"] else ""
    what = f"{counted(facts['rows'], 'row')}, {counted(facts['columns'], 'column')} of numbers"
    if data.image_shape is not None:
        what = f"{counted(facts['rows'], 'image')} of {'x'.join(map(str, data.image_shape))}"
    say(f"{Path(facts['input']).name}: {what}{missing}.")
    if data.passed:
        shown = ", ".join(data.passed[:8]) + (f" and {len(data.passed) - 8} more" if len(data.passed) > 8 else "")
        say(f"Passed through untouched: {shown}.")
    for note in data.notes:
        say(note)


def _say_changes(facts: dict[str, Any]) -> None:
    filled = f", {facts['filled']} of them filled in" if facts["filled"] else ""
    say(f"{facts['changed']} of {counted(facts['rows'] * facts['columns'], 'value')} changed{filled}.")


def _say_files(facts: dict[str, Any]) -> None:
    for name, word in (("output", "Mended data"), ("report", "Report"), ("changes", "Change log")):
        if name in facts:
            click.echo(f"{word}: {plain(facts[name])}")


def say(text: str) -> None:
    """Print words: broken at the width of a terminal, not at all elsewhere."""
    for line in text.splitlines():
        if on_terminal():
            console().print(Text(plain(line)), highlight=False)
        else:
            sys.stdout.write(f"{plain(line)}\n")


def on_terminal() -> bool:
    """Return whether someone reads along."""
    return sys.stdout.isatty()


def console() -> Console:
    """Return where words go."""
    return Console(width=None if on_terminal() else WIDTH)


def _number(value: Any) -> Any:
    """Return a value as JSON can say it."""
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    return None if not np.isfinite(number) else int(number) if number == int(number) else number
