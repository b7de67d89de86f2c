"""Pictures. matplotlib is imported here and nowhere else, and only when a picture is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FLAGGED, TRACE = "#30343b", "#d1495b", "#b8bcc4"


def plot_recovery(
    ax: "Axes", title: str, X: Array, A: Array, corrupted: NDArray[np.bool_], *, size: float = 1.0
) -> None:
    """Draw rows of `A` in the plane, the corrupted ones in colour, with a line from where they were in `X`."""
    ax.plot(*np.stack([X, A])[:, corrupted].transpose(2, 0, 1), color=TRACE, linewidth=size, zorder=1)
    for which, area, color, label in ((~corrupted, 12, INK, "good"), (corrupted, 26, FLAGGED, "corrupted")):
        ax.scatter(A[which, 0], A[which, 1], s=size**2 * area, color=color, linewidths=0, zorder=2, label=label)
    ax.set_title(title, fontsize=11)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_color(TRACE)


def figure_toydata(X: Array, panels: Mapping[str, Array], corrupted: NDArray[np.bool_], surface: Array) -> "Figure":
    """Return the paper's figure `toydata`: one panel per result, over the true `surface` (points along a curve)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(panels), 3.7), layout="constrained")
    limit = 1.1 * float(np.abs(X).max())
    axes: Any = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, A) in zip(axes, panels.items(), strict=True):
        ax.plot(*surface.T, color=TRACE, linewidth=1, linestyle=(0, (4, 3)), zorder=0, label="truth")
        plot_recovery(ax, title, X, A, corrupted)
        ax.set_xlim(-limit, limit)
        ax.set_ylim(-limit, limit)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


@dataclass(frozen=True)
class MethodRow:
    """What one method made of two sets of data: points in the plane, and images.

    `note` goes below the name. `images` is a grid of them, (rows, columns, height, width), with values from 0 to 1.
    `before` is where the points were: the corrupted ones are drawn in grey, with a line to where they are now.
    """

    name: str
    note: str
    points: Array
    images: Array
    before: Array | None = None


def figure_methods(
    rows: Sequence[MethodRow], corrupted: NDArray[np.bool_], surface: Array, headings: tuple[str, str]
) -> "Figure":
    """Return one line per method: its name and note, its points over the true `surface`, its images as a mosaic.

    `corrupted` says which points are; `headings` are those of the two columns of pictures.
    """
    from matplotlib.figure import Figure

    tall, wide = _mosaic(rows[0].images).shape
    line, top, gap = 1.2, 0.3, 0.08  # inches
    widths = [2.3, line, line * wide / tall]
    size = (sum(widths) + 4 * gap, top + len(rows) * (line + gap))
    figure = Figure(figsize=size)
    grid = figure.add_gridspec(
        len(rows), 3, width_ratios=widths, wspace=6 * gap / sum(widths), hspace=gap / line,
        left=gap / size[0], right=1 - gap / size[0], bottom=gap / size[1], top=1 - top / size[1],
    )  # fmt: skip
    axes: Any = grid.subplots(squeeze=False)
    limit = 1.1 * max(float(np.abs(points).max()) for points in (surface, *(row.points for row in rows)))
    for (text, plane, mosaic), row in zip(axes, rows, strict=True):
        text.axis("off")
        text.text(0, 0.98, row.name, fontsize=11, fontweight="bold", va="top", color=INK)
        text.text(0, 0.74, row.note, fontsize=10, va="top", color=INK, linespacing=1.5)
        plane.plot(*surface.T, color=TRACE, linewidth=0.7, zorder=0)
        wrong = corrupted if row.before is not None else np.zeros_like(corrupted)
        before = row.points if row.before is None else row.before
        plane.scatter(*before[wrong].T, s=8, color=TRACE, linewidths=0, zorder=1)
        plot_recovery(plane, "", before, row.points, wrong, size=0.65)
        plane.set_xlim(-limit, limit)
        plane.set_ylim(-limit, limit)
        mosaic.imshow(_mosaic(row.images), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        mosaic.axis("off")
    for ax, heading in zip(axes[0, 1:], headings, strict=True):
        ax.set_title(heading, fontsize=10, color=INK, pad=4)
    return figure


def _mosaic(images: Array, gap: int = 2) -> Array:
    """Return a grid of images as one, with white between them.

    >>> _mosaic(np.ones((1, 2, 1, 1)), gap=1)
    array([[1., 0., 1.]])
    """
    padded = np.pad(np.clip(images, 0.0, 1.0), ((0, 0), (0, 0), (0, gap), (0, gap)))
    down, across, height, width = padded.shape
    out: Array = padded.transpose(0, 2, 1, 3).reshape(down * height, across * width)[:-gap, :-gap]
    return out
