"""`kernmend paper`: the paper's experiments on the command line."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernmend.cli.mend import together
from kernmend.paper import NAMES

if TYPE_CHECKING:
    from kernmend.paper.runner import Outcome
    from kernmend.paper.spec import Experiment


@click.group()
def paper() -> None:
    """Reproduce the paper's tables and figures."""


_options = together(
    click.option("--quick", is_flag=True, help="Small: shows that it works, not what it is worth."),
    click.option("--seeds", type=click.IntRange(min=1), help="Repetitions.  [default: 5 MNIST, 2 COIL-20]"),
    click.option("--rotations", type=click.IntRange(min=1), help="Of each view of COIL-20.  [default: 5]"),
    click.option("--no-tuned", "tuned", flag_value=False, default=True, help="No rows tuned on another seed."),
    click.option("--grid-rotations", type=click.IntRange(min=1), help="On that seed.  [default: --rotations]"),
    click.option("--columns", default="", metavar="TEXT", help="Only columns with this in their name."),
    click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("paper"),
                 show_default=True, help="Results and pages."),
)  # fmt: skip
_run_options = together(
    _options,
    click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes."),
    click.option("--data", type=click.Path(path_type=Path), help="COIL-20, or its folder.  [KERNMEND_DATA]"),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
)


@paper.command("list")
def list_() -> None:
    """Say which experiments there are and what the paper claims."""
    from kernmend.paper import experiments

    for name in NAMES:
        experiment = experiments.get(name)
        click.echo(f"{name:12} {experiment.title}. Claim: {experiment.claim}.")


@paper.command()
@click.argument("names", nargs=-1, required=True, type=click.Choice(NAMES), metavar="NAME...")
@_run_options
def run(names: tuple[str, ...], **options: Any) -> None:
    """Run experiments; what is finished already is not run again."""
    _run(names, **options)


@paper.command("all")
@_run_options
def all_(**options: Any) -> None:
    """Run every experiment."""
    _run(NAMES, **options)


@paper.command()
@click.argument("name", type=click.Choice(NAMES), metavar="NAME")
@_options
def show(name: str, seeds: int | None, out: Path, **selection: Any) -> None:
    """Print the tables of an experiment, from the stored results."""
    from kernmend.paper import experiments
    from kernmend.paper.store import Store
    from kernmend.paper.tables import lead, markdown, tables

    store = Store(out)
    if not store.path.exists():
        raise click.ClickException(f"there are no results in {out}: say kernmend paper run {name} --out {out}")
    try:
        experiment = experiments.get(name, **selection)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    records = store.read()
    click.echo(markdown(experiment.title, lead(experiment, records, seeds), tables(experiment, records, seeds)))
    _pages(experiment, store, seeds)


def _run(
    names: tuple[str, ...], seeds: int | None, out: Path, jobs: int, data: Path | None, quiet: bool, **selection: Any
) -> None:
    from kernmend.paper import experiments, runner
    from kernmend.paper.store import Store

    store, missing = Store(out), ""
    try:
        for name in names:
            experiment = experiments.get(name, **selection)
            outcome = runner.run(experiment, store, seeds=seeds, jobs=jobs, data=data, quiet=quiet)
            missing = outcome.missing or missing
            _tell(name, outcome)
            _pages(experiment, store, seeds)
    except (OSError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if missing:
        raise click.ClickException(missing)


def _tell(name: str, outcome: "Outcome") -> None:
    click.echo(f"{name}: {outcome.done} results new, {outcome.kept} were there" + (
        "; what needs COIL-20 was left out" if outcome.missing else ""))  # fmt: skip


def _pages(experiment: "Experiment", store: Any, seeds: int | None) -> None:
    try:
        from kernmend.paper.figures import write_pages

        written = write_pages(experiment, store, seeds)
    except ModuleNotFoundError as error:
        raise click.ClickException("pictures need matplotlib: pip install matplotlib") from error
    except OSError as error:
        raise click.ClickException(f"cannot write to {store.folder}: {error.strerror or error}") from error
    click.echo(f"Pages: {', '.join(str(path) for path in written if path.suffix in ('.md', '.html'))}", file=sys.stderr)
