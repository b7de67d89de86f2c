"""The command line. Heavy imports wait until a command runs, so that `kernmend --help` is quick.

Exit codes: 0 done, 1 nothing could be done, 2 bad usage or input, 130 interrupted.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kernmend import __version__
from kernmend.cli_paper import paper

if TYPE_CHECKING:
    from kernmend.demo import Demo


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kernmend")
def cli() -> None:
    """Find and mend grossly corrupted data that lies on a curved surface."""


cli.add_command(paper)


@cli.command()
@click.option(
    "-o", "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"), show_default=True,
    help="Folder for the picture.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the circle and outliers.")
@click.option("--force", is_flag=True, help="Overwrite a picture that is there.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def demo(out: Path, seed: int, force: bool, quiet: bool) -> None:
    """Mend a circle of 100 points, 10 of them wrong; print a table, write a picture."""
    picture = out / "circle.png"
    if picture.exists() and not force:
        raise click.UsageError(f"{picture} is there already; say --force to overwrite it, or -o for another folder")
    from kernmend.demo import run_demo

    result = run_demo(random_state=seed, verbose=0 if quiet else 1)
    _print_demo(result)
    _write_picture(result, picture)
    click.echo(f"Picture: {picture}")
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
    try:
        from kernmend.plotting import figure_toydata
    except ImportError as error:
        raise click.ClickException("pictures need matplotlib: pip install 'kernmend[report]'") from error
    import numpy as np

    from kernmend.io import replacing

    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    truth = np.column_stack([np.cos(angle), np.sin(angle)])
    figure = figure_toydata(result.corrupted.X, result.results, result.corrupted.rows, truth)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from error


def main() -> None:
    """Run the command line; an interruption or an unforeseen error ends in one line, not in a traceback."""
    try:
        cli.main(prog_name="kernmend", standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("kernmend: interrupted", err=True)
        sys.exit(130)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        click.echo(f"kernmend: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
