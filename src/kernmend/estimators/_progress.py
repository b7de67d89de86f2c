"""Progress bars for the terminal, on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from kernmend.solvers import IterationRecord


def seconds_left(elapsed: float, done: float, total: float) -> float:
    """Return how long the rest takes if each step of it takes as long as those up to now did on average.

    The last steps alone say less: settings are tried several at a time and told one by one, blocks differ in size.

    >>> seconds_left(10.0, 200, 1000)
    40.0
    """
    return elapsed * max(total - done, 0.0) / done


def _clock(task: Any) -> str:
    """Return the time that is left, or what it took; nothing is known before the first step."""
    took, known = task.elapsed or 0.0, task.total is not None
    if known and not task.finished:
        if not task.completed:
            return "-:--:--"
        took = seconds_left(took, task.completed, task.total)
    return str(timedelta(seconds=int(took)))


@contextmanager
def counting_bar(description: str, total: int, label: str = "") -> Iterator[Callable[[int, float], None]]:
    """Show a bar until the block ends; call the yielded object with the number of steps done and the latest value.

    The value is shown behind the `label`, if there is one. With a `total` of 0 it is not known how many steps there
    are: the bar says that work goes on, and for how long, and is gone when that ends.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class Clock(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Any) -> Text:
            return Text(_clock(task), style="progress.remaining")

    columns: list[ProgressColumn | str] = [TextColumn("{task.description}"), BarColumn(bar_width=24)]
    if total:
        columns.append(MofNCompleteColumn())
    if label:
        columns.append(TextColumn(f"{label} = {{task.fields[value]}}"))
    with Progress(*columns, Clock(), console=Console(stderr=True), transient=not total) as progress:
        task = progress.add_task(description, total=total or None, value="...")

        def update(done: int, value: float) -> None:
            progress.update(task, completed=done, value=f"{value:.6g}", total=max(total, done))

        yield update
        done = progress.tasks[0].completed
        progress.update(task, total=done or total or None)  # stopping early is not stopping short


@contextmanager
def progress_bar(description: str, total: int) -> Iterator[Callable[[IterationRecord], None]]:
    """Show a bar until the block ends; call the yielded object with each `IterationRecord`."""
    with counting_bar(description, total, label="F") as update:
        yield lambda record: update(record.iteration, record.objective)
