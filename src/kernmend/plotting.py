"""Pictures. matplotlib is imported here and nowhere else, and only when a picture is made."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FLAGGED, TRACE = "#30343b", "#d1495b", "#b8bcc4"


def plot_recovery(ax: "Axes", title: str, X: Array, A: Array, corrupted: NDArray[np.bool_]) -> None:
    """Draw rows of `A` in the plane, the corrupted ones in colour, with a line from where they were in `X`."""
    ax.plot(*np.stack([X, A])[:, corrupted].transpose(2, 0, 1), color=TRACE, linewidth=1, zorder=1)
    ax.scatter(A[~corrupted, 0], A[~corrupted, 1], s=12, color=INK, linewidths=0, zorder=2, label="good")
    ax.scatter(A[corrupted, 0], A[corrupted, 1], s=26, color=FLAGGED, linewidths=0, zorder=3, label="corrupted")
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
