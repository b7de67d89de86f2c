"""Runs what is not finished yet, in parallel, and stores each result as soon as it exists."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from kernmend._typing import Array
from kernmend.datasets import MissingDataError, find_coil20
from kernmend.paper.spec import Experiment, Method, Task, grid_points, tasks, tuning_tasks
from kernmend.paper.store import Record, Store
from kernmend.paper.work import execute

# The metric that the best point of a grid is chosen by.
TUNED_BY = "snr_corrupted"


@dataclass(frozen=True)
class Outcome:
    """What a run did: new results, those that were there already, and what could not be run, with the reason."""

    done: int
    kept: int
    missing: str = ""


def run(
    experiment: Experiment,
    store: Store,
    *,
    seeds: int | None = None,
    jobs: int = 1,
    data: Path | None = None,
    quiet: bool = False,
) -> Outcome:
    """Run what the store does not have of an experiment, grids first, and return what was done."""
    wanted = tasks(experiment, seeds)
    missing = missing_data(wanted, data)
    if missing:
        wanted = [task for task in wanted if task.data.name != "coil"]
    search = [task for task in tuning_tasks(experiment) if not missing or task.data.name != "coil"]
    known = store.read()
    todo = [task for task in search if task.key not in known], [task for task in wanted if task.key not in known]
    with _progress(experiment.name, len(todo[0]) + len(todo[1]), quiet) as advance:
        for part in todo:
            found = store.read()
            ready = [(task, resolve(task, found)) for task in part]
            for record, arrays in _work(ready, 1 if experiment.serial else jobs, data):
                if arrays is not None:
                    store.save_arrays(record["key"], arrays)
                store.append(record)
                advance(f"{record['case']}, {record['method']}")
    total = len(todo[0]) + len(todo[1])
    return Outcome(total, len(search) + len(wanted) - total, missing)


def resolve(task: Task, records: dict[str, Record]) -> Task:
    """Return the task with the best point of its grid as its parameters; a task without a grid as it is."""
    if not task.method.grid:
        return task
    points = [point for point in grid_points(task) if point.key in records]
    best = max(points, key=lambda point: float(records[point.key]["metrics"].get(TUNED_BY) or -1e9))
    return replace(task, method=replace(best.method, grid=()))


def missing_data(wanted: Iterable[Task], data: Path | None) -> str:
    """Return the sentence about a data set that is needed and not there; empty where all is there."""
    if not any(task.data.name == "coil" for task in wanted):
        return ""
    try:
        find_coil20(data)
    except MissingDataError as error:
        return str(error)
    return ""


def _work(
    ready: Sequence[tuple[Task, Task]], jobs: int, data: Path | None
) -> Iterator[tuple[Record, dict[str, Array] | None]]:
    """Yield results in the order in which they come."""
    if jobs == 1:
        for task, resolved in ready:
            yield _one(task.key, task.method, resolved, data)
        return
    parallel: Any = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch=jobs)
    yield from parallel(delayed(_one)(task.key, task.method, resolved, data) for task, resolved in ready)


def _one(key: str, method: Method, task: Task, data: Path | None) -> tuple[Record, dict[str, Array] | None]:
    """Return the result of a task with its parameters found, under the key of the task as it was described."""
    record, arrays = execute(task, data)
    return record | {"key": key, "method": method.name, "rule": method.rule}, arrays


@contextmanager
def _progress(name: str, total: int, quiet: bool) -> Iterator[Any]:
    """Give a function that shows progress on standard error, by a progress bar if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if quiet or not total:
        yield lambda text: None
        return
    if not sys.stderr.isatty():
        counter = iter(range(1, total + 1))
        console = Console(stderr=True, width=200, highlight=False)
        yield lambda text: console.print(f"{name} {next(counter)}/{total}: {text}", markup=False)
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[last]}"))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        shown = progress.add_task(name, total=total, last="")
        yield lambda text: progress.update(shown, advance=1, last=text)
