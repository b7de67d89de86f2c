"""`kernmend mend`, `inspect`, `apply`, `patch` and `revert`: their options. What they do is in `work`."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kernmend._methods import METHODS

FILE = click.Path(dir_okay=False, path_type=Path)
ANY = click.Path(path_type=Path)
INPUT_HELP = (
    "INPUT is a csv or tsv table (.gz and .zip too), xlsx, JSON lines, parquet, Feather, npy, npz, mat, HDF5, NetCDF "
    "or zarr, a TIFF of several pages, or a folder or zip of images of one size. "
    "Rows are samples. Columns that are not numbers are passed through; empty cells are missing values."
)
CODES = "Exit codes: 0 done, 1 nothing could be done, 2 bad usage or input, 130 interrupted, 143 terminated."


Command = TypeVar("Command", bound=Callable[..., Any])


def plain(text: Any) -> str:
    """Return text from a file as one line, without what a terminal would take for a command."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


# --- values of options ------------------------------------------------------------------------------------------------


def _number(ctx: Any, param: Any, value: str | None, most: float = math.inf) -> float | str | None:
    """Return a number above 0, or "auto"."""
    if value is None or value == "auto":
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if 0 < number <= most and math.isfinite(number):
        return number
    within = "above 0" + (f" and up to {most:g}" if math.isfinite(most) else "")
    raise click.BadParameter(f"{value!r} is neither a number {within} nor auto")


def _share(ctx: Any, param: Any, value: str | None) -> float | str | None:
    """Return a share of the rows, which may be 0, or "auto"."""
    return 0.0 if value in ("0", "0.0") else _number(ctx, param, value, most=0.5)


def _bounds(ctx: Any, param: Any, value: str | None) -> tuple[float, float] | str | None:
    """Return two numbers, or "data"."""
    if value is None or value == "data":
        return value
    try:
        low, high = map(float, value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither two numbers, such as 0,255, nor data") from None
    if not low < high:
        raise click.BadParameter(f"{value!r}: the first number must be below the second")
    return low, high


def _memory(ctx: Any, param: Any, value: str | None) -> str | None:
    """Return a number of bytes with its unit."""
    if value is None or re.fullmatch(r"[1-9][0-9]*(\.[0-9]+)?\s*[kMGT]i?B", value):
        return value
    raise click.BadParameter(f"{value!r} is not an amount of memory such as 2GB")


def _image_shape(ctx: Any, param: Any, value: str | None) -> tuple[int, ...] | None:
    """Return the sizes of HEIGHTxWIDTH or HEIGHTxWIDTHx3."""
    if value is None:
        return None
    sizes = value.lower().split("x")
    if len(sizes) not in (2, 3) or not all(size.isdecimal() and int(size) for size in sizes):
        raise click.BadParameter(f"{value!r} is not a shape such as 28x28 or 32x32x3")
    return tuple(map(int, sizes))


def _columns(ctx: Any, param: Any, value: str | None) -> tuple[str, ...] | None:
    """Return the names between commas."""
    return None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())


def _character(ctx: Any, param: Any, value: str | None) -> str | None:
    """Return one character, tab and none by their names."""
    return {"tab": "\t", "\\t": "\t", "none": "", "blank": " ", "blanks": "  "}.get(value or "", value)


# --- options ----------------------------------------------------------------------------------------------------------


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command several options, which its help shows in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_of_data = together(
    click.option("--columns", metavar="A,B,C", callback=_columns, help="Columns to look at.  [default: all numbers]"),
    click.option("--keep", metavar="A,B..D", callback=_columns, help="Columns to leave as they are, B to D too."),
    click.option("--missing", multiple=True, metavar="TEXT", help="Means a missing value, such as -999; repeatable."),
    click.option("--image-shape", callback=_image_shape, metavar="HxW", help="If rows are flattened images: 28x28."),
)
_of_layout = together(
    click.option("--header/--no-header", default=None, help="The first line names the columns.  [default: found out]"),
    click.option(
        "--delimiter",
        metavar="CHAR",
        callback=_character,
        help="Between columns; tab, blank, or blanks for aligned columns.",
    ),
    click.option("--decimal", metavar="CHAR", help="The decimal sign: a point or a comma."),
    click.option("--thousands", metavar="CHAR", callback=_character, help="Between groups of digits; none for none."),
    click.option("--encoding", metavar="NAME", help="Of the letters of a text table, such as cp1252."),
)
_of_method = together(
    click.option("--method", type=click.Choice(list(METHODS)), default="kernel", show_default=True, metavar="NAME",
                 help=f"One of {', '.join(METHODS)}."),
    click.option("--contamination", callback=_share, metavar="SHARE",
                 help="Share of the rows to flag, such as 0.1; 0 only fills in.  [default: by --alpha]"),
    click.option("--alpha", type=float, metavar="NUMBER",
                 help="Good rows that may be flagged in clean data, on average.  [default: 0.05]"),
    click.option("--error", metavar="WHAT",  # the table of error models is checked by the estimator
                 help="What is wrong: rows, entries, kernel or noise.  [default: auto]"),
    click.option("--kernel", metavar="NAME", help="Of the kernel methods: rbf, poly or linear.  [default: rbf]"),
    click.option("--gamma", callback=_number, metavar="NUMBER", help="Of the kernel rbf.  [default: auto]"),
    click.option("--scale", type=click.Choice(["auto", "columns", "rows", "none"]), default="auto", show_default=True,
                 help="Compare columns in units of their own spread; auto: where those of a table are far apart."),
    click.option("--bounds", callback=_bounds, metavar="LOW,HIGH",
                 help="Mended values stay within; data: the range of good rows.  [default: that of images]"),
    click.option("--interval", type=float, metavar="LEVEL",
                 help="Share of the intervals of mended values that hold the truth.  [default: 0.9]"),
    click.option("--unsure", type=click.Choice(["mend", "blank", "keep"]),
                 help="What to do where an interval is wider than its column.  [default: mend]"),
    click.option("--landmarks", type=click.IntRange(min=1), metavar="N",
                 help="Rows to learn from, drawn at random.  [default: 2000, where there are more]"),
    click.option("--max-iter", type=click.IntRange(min=1), metavar="N", help="Iterations at most."),
    click.option("--seed", type=click.IntRange(0, 2**32 - 1), metavar="N",
                 help="Of what is drawn at random.  [default: 0]"),
)  # fmt: skip
_of_run = together(
    click.option(
        "--threads", type=click.IntRange(min=1), metavar="N", help="Of the linear algebra.  [default: all cores]"
    ),
    click.option("--force", is_flag=True, help="Overwrite files that are there."),
    click.option("--json", "as_json", is_flag=True, help="Print facts for a script, one line of JSON."),
    click.option("--progress/--no-progress", default=None, help="Progress bar.  [default: on a terminal]"),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
)  # fmt: skip


_of_patch = together(
    click.option("--force", is_flag=True, help="Overwrite files that are there."),
    click.option("--json", "as_json", is_flag=True, help="Print facts for a script, one line of JSON."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
)
_of_cluster = together(
    click.option("--workers", type=click.IntRange(min=1), metavar="N",
                 help="Mend zarr or parquet larger than memory by N processes."),
    click.option("--memory", callback=_memory, metavar="2GB",
                 help="Of each of these, at most.  [default: its share of the machine]"),
    click.option("--cluster", metavar="tcp://HOST:PORT", help="... by a Dask cluster that sees the same files."),
)  # fmt: skip


# --- commands ---------------------------------------------------------------------------------------------------------


@click.command(epilog=CODES, short_help="Find what is wrong in a file, mend it, write it.")
@click.argument("source", metavar="INPUT", type=ANY)
@click.option("-o", "--output", type=ANY, help="The mended data.  [default: beside INPUT, as NAME.mended.csv]")
@click.option("--report", type=FILE, help="An HTML page that shows what was found and done.")
@click.option("--changes", type=FILE, help="A csv of all changes, to edit and apply with kernmend patch.")
@click.option("--save-model", type=FILE, help="The model, for kernmend apply.")
@click.option("--good", type=ANY, metavar="FILE", help="Rows known to be good, of the same columns, to learn from.")
@click.option("--labels", metavar="COLUMN", help="Says good or wrong of the rows that you know, nothing of others.")
@_of_data
@_of_layout
@_of_method
@_of_cluster
@_of_run
def mend(
    source: Path,
    workers: int | None,
    memory: str | None,
    cluster: str | None,
    good: Path | None,
    labels: str | None,
    **options: Any,
) -> None:
    """Find what is wrong in INPUT, mend it, write it in the same format."""
    if workers is not None and cluster is not None:
        raise click.UsageError("--workers starts a cluster, --cluster uses another: say one of them")
    if memory is not None and workers is None:
        raise click.UsageError("--memory is that of each of --workers")
    if workers is None and cluster is None:
        from kernmend.cli.work import run_mend

        run_mend(source, good=good, labels=labels, **options)
    else:
        for name, value in (("--good", good), ("--labels", labels)):
            if value is not None:
                raise click.UsageError(f"{name} is for data in memory: leave out --workers and --cluster")
        from kernmend.cli.cluster import run_mend_by_blocks

        where = {"workers": workers, "memory": memory, "cluster": cluster}
        run_mend_by_blocks(source, where, **options)


@click.command(epilog=CODES, short_help="Score the rows of a file, show the worst.")
@click.argument("source", metavar="INPUT", type=ANY)
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    metavar="N",
    help="Rows to show, of the flagged and of the unusual ones N each.  [default: 10; 5 if none is flagged]",
)
@click.option("--scores", type=FILE, help="A csv file of the score of every row.")
@_of_data
@_of_layout
@_of_method
@_of_run
def inspect(source: Path, **options: Any) -> None:
    """Score the rows of INPUT and show the worst; change nothing."""
    from kernmend.cli.work import run_inspect

    run_inspect(source, **options)


@click.command(epilog=CODES, short_help="Mend new files with a saved model.")
@click.argument("model", type=FILE)
@click.argument("sources", metavar="INPUT...", nargs=-1, required=True, type=ANY)
@click.option("-o", "--output", type=ANY, help="The mended data; with several inputs a folder for them.")
@click.option("--report", type=ANY, help="An HTML page of what was found; with several inputs a folder for them.")
@click.option("--changes", type=ANY, help="A csv of all changes; with several inputs a folder for them.")
@click.option("--follow", is_flag=True, help="Let the model follow slow drift from file to file; MODEL stays as it is.")
@_of_data
@_of_layout
@_of_run
def apply(model: Path, sources: tuple[Path, ...], **options: Any) -> None:
    """Mend each INPUT with MODEL, a file that mend --save-model wrote."""
    from kernmend.cli.applying import run_apply

    run_apply(model, sources, **options)


@click.command(epilog=CODES, short_help="Make the accepted changes of a change log in a file.")
@click.argument("source", metavar="INPUT", type=ANY)
@click.argument("log", metavar="CHANGES", type=FILE)
@click.option("-o", "--output", type=ANY, required=True, help="Where to write INPUT with the changes made.")
@_of_layout
@_of_patch
def patch(**options: Any) -> None:
    """Make the accepted changes of CHANGES, a csv that mend --changes wrote, in INPUT, the file as it was.

    Lines in which accepted is no are left alone; a value typed by hand in the column new is taken. A log that does not
    fit its file is refused, and the first difference named.
    """
    from kernmend.cli.applying import run_patch

    run_patch("patch", **options)


@click.command(epilog=CODES, short_help="Take the changes of a change log back.")
@click.argument("source", metavar="INPUT", type=ANY)
@click.argument("log", metavar="CHANGES", type=FILE)
@click.option("-o", "--output", type=ANY, required=True, help="Where to write INPUT as it was before.")
@_of_layout
@_of_patch
def revert(**options: Any) -> None:
    """Take back the accepted changes of CHANGES in INPUT, which mend or patch wrote: the inverse of patch.

    Text tables come back byte for byte, other files value for value.
    """
    from kernmend.cli.applying import run_patch

    run_patch("revert", **options)


for command in (mend, inspect):
    command.help = f"{command.help}\n\n{INPUT_HELP}"
