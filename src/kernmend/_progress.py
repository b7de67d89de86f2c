"""A progress bar for the terminal, fed by the records of a solver."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernmend.solvers import IterationRecord


@contextmanager
def progress_bar(description: str, total: int) -> Iterator[Callable[[IterationRecord], None]]:
    """Show a bar on standard error until the block ends; call the yielded object with each `IterationRecord`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("F = {task.fields[objective]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(description, total=total, objective="...")

        def update(record: IterationRecord) -> None:
            progress.update(task, completed=record.iteration, objective=f"{record.objective:.6g}")

        yield update
        progress.update(task, total=progress.tasks[0].completed)  # stopping early is not stopping short
