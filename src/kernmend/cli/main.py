"""The command line. Heavy imports wait until a command runs, so that `kernmend --help` is quick.

Exit codes: 0 done, 1 nothing could be done, 2 bad usage or input, 130 interrupted (Ctrl-C), 143 terminated.
"""

import io
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from kernmend import __version__
from kernmend.cli.mend import CODES, apply, inspect, mend, patch, plain, revert
from kernmend.cli.paper import paper


class Ordered(click.Group):
    """Lists its commands as they were added, the one that most people want first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return list(self.commands)


@click.group(cls=Ordered, context_settings={"help_option_names": ["-h", "--help"]}, epilog=CODES)
@click.version_option(__version__, prog_name="kernmend")
def cli() -> None:
    """Find the grossly wrong rows and cells of a file, and mend them."""


for command in (mend, inspect, apply, patch, revert):
    cli.add_command(command)


@cli.command(short_help="Mend a table, digits and a circle that come with it.")
@click.option(
    "-o", "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"), show_default=True,
    help="Folder for what is written.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the data and their errors.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def demo(out: Path, seed: int, force: bool, quiet: bool) -> None:
    """Show the main job on data that come with kernmend, nothing set by hand.

    A dirty table is mended from csv to csv, with its change log and a report to open; digits lose their noise and
    their cover; the points of a circle are put back. Prints what was found and how much of the error is left.
    """
    for name in DEMO_FILES:
        if (out / name).exists() and not force:
            raise click.UsageError(
                f"{out / name} is there already; say --force to overwrite it, or -o for another folder"
            )
    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        left_out = {"matplotlib": "pictures", "jinja2": "a report"}
        without = " and ".join(f"without {left_out[name]}" for name in missing)
        needed = f"{'that needs' if len(missing) == 1 else 'those need'} {' and '.join(missing)}"
        click.echo(f"kernmend: note: {without}, {needed}: pip install {' '.join(missing)}", err=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
        interrupted = _run_demo(out, seed, 0 if quiet else 1, missing)
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or out}: {error.strerror or error}") from error
    if interrupted:
        raise click.exceptions.Exit(130)


# What the demo writes, in the order in which it says so.
DEMO_FILES = {
    "station.csv": "The dirty table",
    "station.mended.csv": "Mended",
    "station.changes.csv": "What was changed, from what to what, and why",
    "digits.png": "Digits",
    "circle.png": "Circle",
    "report.html": "Open this report on the table in a browser",
}


def _run_demo(out: Path, seed: int, verbose: int, missing: list[str]) -> bool:
    """Run the demo, write its files and say which; return whether it was interrupted."""
    from kernmend.cli import demo, demo_show

    station, mended = demo.mend_station(out, random_state=seed, verbose=verbose)
    parts = [station]
    if not station.interrupted:
        parts += demo.mend_others(random_state=seed, verbose=verbose)
    demo_show.print_table(parts)
    if parts[-1].interrupted:
        return True
    if "matplotlib" not in missing:
        demo_show.draw_digits(parts[1:3], out / "digits.png")
        demo_show.draw_circle(parts[3], out / "circle.png")
    if "jinja2" not in missing:
        mended.report(out / "report.html", title="A weather station", force=True)
    for name, what in DEMO_FILES.items():
        if (out / name).exists():
            click.echo(f"{what}: {out / name}")
    return False


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
