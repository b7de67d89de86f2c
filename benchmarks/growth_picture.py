"""The picture of `growth`: CPU seconds and peak memory against the number of rows, from the store alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.growth_page import find, sizes_of
from benchmarks.growth_work import DEFAULT, METHODS, UNTOUCHED
from kernmend.paper.figures import COLOURS
from kernmend.paper.store import Record
from kernmend.report.plotting import FLAGGED, INK, TRACE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {"CPU seconds of one fit, one thread": ("cpu_seconds", 1.0), "peak memory, GB": ("peak_mb", 1 / 1024)}


def figure(records: Sequence[Record]) -> "Figure":
    """Return two panels with logarithmic axes and one line per method, ours in red; lines end where methods do."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(9.0, 4.3), layout="constrained")
    axes: Any = picture.subplots(1, 2)
    sizes = sizes_of(records)
    for ax, (title, (field, unit)) in zip(axes, PANELS.items(), strict=True):
        for name, colour in colours().items():
            found = [find(records, name, n) for n in sizes]
            points = [(record["n"], unit * record[field]) for record in found if "metrics" in record]
            wide = {"linewidth": 2.2, "zorder": 3} if name == DEFAULT else {"linewidth": 1.4}
            if points:
                ax.loglog(*zip(*points, strict=True), "o-", color=colour, label=name, markersize=4, **wide)
        ax.set_title(title, fontsize=10, color=INK)
        ax.set_xlabel("rows", fontsize=9)
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.minorticks_off()
        _label_decades(ax)
        ax.tick_params(labelsize=8)
        ax.grid(color=TRACE, alpha=0.35, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return picture


def _label_decades(ax: "Axes") -> None:
    """Label powers of ten, and 2 and 5 times these where there are few; in plain numbers."""
    from matplotlib.ticker import LogLocator

    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100.0 * low else (1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def colours() -> dict[str, str]:
    """Return a colour for each method that takes time."""
    others = [name for name in METHODS if name not in (UNTOUCHED, DEFAULT)]
    rest = [colour for colour in COLOURS if colour != FLAGGED]
    return {DEFAULT: FLAGGED} | dict(zip(others, rest, strict=False))
