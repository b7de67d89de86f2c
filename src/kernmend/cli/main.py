"""The command line. Heavy imports wait until a command runs, so that `kernmend --help` is quick.

Exit codes: 0 done, 1 nothing could be done, 2 bad usage or input, 130 interrupted (Ctrl-C), 143 terminated.
"""

import io
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernmend import __version__
from kernmend.cli.mend import CODES, apply, inspect, mend, patch, plain, revert
from kernmend.cli.paper import paper

if TYPE_CHECKING:
    from kernmend.cli.demo import Demo


class Ordered(click.Group):
    """Lists its commands as they were added, the one that most people want first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return list(self.commands)


@click.group(cls=Ordered, context_settings={"help_option_names": ["-h", "--help"]}, epilog=CODES)
@click.version_option(__version__, prog_name="kernmend")
def cli() -> None:
    """Find and mend grossly corrupted data that lies on a curved surface."""


for command in (mend, inspect, apply, patch, revert):
    cli.add_command(command)


@cli.command(short_help="Mend a circle: a table, a picture, a report.")
@click.option(
    "-o", "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"), show_default=True,
    help="Folder for the picture and the report.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the circle and outliers.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def demo(out: Path, seed: int, force: bool, quiet: bool) -> None:
    """Mend a circle of 100 points, 10 of them wrong; print a table, write a picture and a report."""
    picture, report = out / "circle.png", out / "report.html"
    for path in (picture, report):
        if path.exists() and not force:
            raise click.UsageError(f"{path} is there already; say --force to overwrite it, or -o for another folder")
    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        left_out = {"matplotlib": "a picture", "jinja2": "a report"}
        without = " and ".join(f"without {left_out[name]}" for name in missing)
        needed = f"{'that needs' if len(missing) == 1 else 'those need'} {' and '.join(missing)}"
        click.echo(f"kernmend: note: {without}, {needed}: pip install 'kernmend[report]'", err=True)
    from kernmend.cli.demo import run_demo, write_report

    result = run_demo(random_state=seed, verbose=0 if quiet else 1)
    _print_demo(result)
    if "matplotlib" not in missing:
        _write_picture(result, picture)
        click.echo(f"Picture: {picture}")
    if "jinja2" not in missing:
        report.parent.mkdir(parents=True, exist_ok=True)
        click.echo(f"Report: {write_report(result, report)}")
    if result.estimator.stop_reason_ == "interrupted":
        raise click.exceptions.Exit(130)


def _print_demo(result: "Demo") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="A circle of radius 1, 10 % of its points replaced by outliers")
    table.add_column("")
    table.add_column("outliers from\nthe circle", justify="right")
    table.add_column("good points\nmoved by", justify="right")
    for row in result.rows():
        table.add_row(row.method, f"{row.outlier_distance:.4f}", f"{row.good_shift:.4f}")
    console = Console(width=None if sys.stdout.isatty() else 80)
    console.print(table)
    estimator, bad = result.estimator, result.corrupted.rows
    found = int((estimator.outliers_ & bad).sum())
    console.print(
        f"{int(estimator.outliers_.sum())} points flagged, {found} of the {int(bad.sum())} outliers among them; "
        f"{estimator.stop_reason_} after {estimator.n_iter_} iterations.",
        highlight=False,
    )


def _write_picture(result: "Demo", path: Path) -> None:
    import numpy as np

    from kernmend.io import replacing
    from kernmend.report.plotting import figure_toydata

    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    truth = np.column_stack([np.cos(angle), np.sin(angle)])
    figure = figure_toydata(result.corrupted.X, result.results, result.corrupted.rows, truth)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from error


cli.add_command(paper)


def main() -> None:
    """Run the command line; an interruption or an unforeseen error ends in one line, not in a traceback."""
    stops = Stops()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows ? for it
    code = _run(stops)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: a late Ctrl-C shall not end in a traceback
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(code)


class Stops:
    """Remembers Ctrl-C and termination: a library that is just being imported turns them into errors of its own."""

    def __init__(self) -> None:
        self.code: int | None = None
        signal.signal(signal.SIGINT, self._interrupted)
        signal.signal(signal.SIGTERM, self._terminated)
        sys.unraisablehook = _quiet_hook

    def _interrupted(self, number: int, frame: Any) -> None:
        self.code = 128 + number
        raise KeyboardInterrupt

    def _terminated(self, number: int, frame: Any) -> None:
        """Leave by an exception, so that temporary files are removed."""
        self.code = 128 + number
        sys.exit(self.code)


def _quiet_hook(unraisable: Any) -> None:
    """Say nothing where Ctrl-C falls into a destructor or a callback."""
    if not issubclass(unraisable.exc_type, (KeyboardInterrupt, SystemExit)):
        sys.__unraisablehook__(unraisable)


def _run(stops: Stops) -> int:
    try:
        # Without standalone mode click gives the code of `Exit` back instead of leaving.
        code = cli.main(prog_name="kernmend", standalone_mode=False, obj=stops)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return _failed(error) if stops.code is None else _interrupted(stops.code)


def _interrupted(code: int = 130) -> int:
    if code == 130:
        click.echo("kernmend: interrupted, nothing more was written", err=True)
    return code


def _failed(error: Exception) -> int:
    """Say what is wrong in one line (and how the command is used, where that is wrong); return the exit code."""
    if isinstance(error, click.UsageError):
        error.show()
        return error.exit_code
    if isinstance(error, click.ClickException):
        click.echo(f"kernmend: {plain(error.format_message())}", err=True)
        return error.exit_code
    if os.environ.get("KERNMEND_DEBUG"):
        raise error
    said = (str(error).splitlines() or [""])[0]
    click.echo(f"kernmend: {type(error).__name__}: {plain(said)} (KERNMEND_DEBUG=1 shows where)", err=True)
    return 1
