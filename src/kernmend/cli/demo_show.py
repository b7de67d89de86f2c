"""What `kernmend demo` prints and draws."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernmend.cli.demo import SIDE, Part, circle_panels
from kernmend.io import replacing

# How many digits of each kind the picture shows.
SHOWN = 14
HEADS = ("data", "wrong rows", "found", "good rows flagged", "error left")


def cells(part: Part) -> tuple[str, ...]:
    """Return the line of one data set in the table: its name, counts of rows, the share of the error that is left."""
    good = int((~part.wrong).sum())
    return (
        part.name,
        f"{int(part.wrong.sum())} of {part.wrong.size}",
        str(part.found),
        f"{part.mistaken} of {good}",
        f"{100.0 * part.left:.0f} %",
    )


def print_table(parts: Sequence[Part]) -> None:
    """Print how many wrong rows of each data set were found, and how much of their error is left."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Mended by kernmend, nothing set by hand")
    for number, head in enumerate(HEADS):
        table.add_column(head, justify="right" if number else "left")
    for part in parts:
        table.add_row(*cells(part))
    Console(width=None if sys.stdout.isatty() else 80).print(table)


def draw_circle(part: Part, path: Path) -> None:
    """Draw the circle as it came, after kernel PCA at its best, and after kernmend."""
    from kernmend.report.plotting import figure_toydata

    _save(figure_toydata(part.X, circle_panels(part), part.wrong), path)


def draw_digits(parts: Sequence[Part], path: Path) -> None:
    """Draw the first wrong digits of each kind: as they should be, as they came, as they were mended."""
    from matplotlib.figure import Figure

    from kernmend.report.plotting import mosaic

    figure = Figure(figsize=(9.0, 2.1 * len(parts)), layout="constrained")
    axes: Any = figure.subplots(len(parts), 1, squeeze=False)[:, 0]
    for ax, part in zip(axes, parts, strict=True):
        rows = np.flatnonzero(part.wrong)[:SHOWN]
        images = np.stack([A[rows].reshape(-1, SIDE, SIDE) for A in (part.truth, part.X, part.recovered)])
        ax.imshow(mosaic(1.0 - np.clip(images, 0.0, 1.0), white=0.85, gap=1), cmap="gray", vmin=0.0, vmax=1.0)
        ax.set_xticks([])
        ax.set_yticks([4.0 + (SIDE + 1) * line for line in range(3)], ["truth", "as it came", "mended"])
        ax.tick_params(length=0)
        ax.set_title(part.name, loc="left", fontsize=10)
        for side in ax.spines.values():
            side.set_visible(False)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)
