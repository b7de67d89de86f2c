"""Progress bars for the terminal, on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernmend.solvers import IterationRecord


@contextmanager
def counting_bar(description: str, total: int, label: str = "left") -> Iterator[Callable[[int, float], None]]:
    """Show a bar until the block ends; call the yielded object with the number of steps done and the latest value."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(f"{label} = {{task.fields[value]}}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(description, total=total, value="...")

        def update(done: int, value: float) -> None:
            progress.update(task, completed=done, value=f"{value:.6g}", total=max(total, done))

        yield update
        progress.update(task, total=progress.tasks[0].completed)  # stopping early is not stopping short


@contextmanager
def progress_bar(description: str, total: int) -> Iterator[Callable[[IterationRecord], None]]:
    """Show a bar until the block ends; call the yielded object with each `IterationRecord`."""
    with counting_bar(description, total, label="F") as update:
        yield lambda record: update(record.iteration, record.objective)
