"""Figures of the experiments, from the store alone, and the pages that show them."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernmend.io import replacing
from kernmend.paper.spec import Case, Experiment, Task
from kernmend.paper.store import Record, Store
from kernmend.paper.tables import Rows, costs, exponent, lead, markdown, page, select, tables
from kernmend.report.plotting import INK, TRACE, figure_toydata

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of the curves, one for each solver.
COLOURS = ("#30343b", "#d1495b", "#2a7f9e", "#c98a1b", "#5f8a4d", "#7d5ba6")
# Number of images in a row of a gallery.
SHOWN = 6
# The metric of the bars.
CORRUPTED = "snr_corrupted"


def write_pages(experiment: Experiment, store: Store, seeds: int | None = None) -> list[Path]:
    """Write the tables and figures of an experiment beside the store; return the files."""
    records = store.read()
    begin, found = lead(experiment, records, seeds), tables(experiment, records, seeds)
    written, names = [], []
    store.folder.mkdir(parents=True, exist_ok=True)
    for name, words, below, figure in figures(experiment, store, records, seeds):
        for suffix in (".png", ".svg"):
            path = store.folder / f"{experiment.name}-{name}{suffix}"
            with replacing(path) as temporary:
                figure.savefig(temporary, dpi=150)
            figure.set_layout_engine("none")  # the second format has the layout of the first
            written.append(path)
        names.append((f"{experiment.name}-{name}.png", words, below))
    for suffix, text in ((".md", markdown), (".html", page)):
        path = store.folder / f"{experiment.name}{suffix}"
        with replacing(path) as temporary:
            temporary.write_text(text(experiment.title, begin, found, names), encoding="utf-8")
        written.append(path)
    return written


def figures(
    experiment: Experiment, store: Store, records: dict[str, Record], seeds: int | None
) -> Iterator[tuple[str, str, str, "Figure"]]:
    """Yield the figures of an experiment as far as it has been run: name, words, title of its table, and figure."""
    chosen = [(case, select(experiment, case, records, seeds)) for case in experiment.cases]
    if experiment.name == "convergence" and any(any(rows.values()) for _, rows in chosen):
        yield "objective", "F over the iterations and over time, by solver", "", convergence(chosen)
    elif experiment.name == "complexity" and any(any(rows.values()) for _, rows in chosen):
        yield "cost", "Seconds of an iteration against the number of rows, by solver", "", complexity(chosen)
    what = "CPU seconds of one fit" if experiment.name == "time" else "SNR of the corrupted images"
    for index, (case, rows) in enumerate(chosen):
        if experiment.name in ("denoise", "similarity", "released", "time") and any(rows.values()):
            bar = bars(case, rows, experiment.name == "time")
            yield f"bars-{index + 1}", f"{what} by method: {case.label}", case.label, bar
        if experiment.gallery:
            panels = _kept(experiment, case, store)
            if panels:
                draw = circle if case.data.name == "circle" else gallery
                words = f"What each method makes of it: {case.label}"
                yield f"gallery-{index + 1}", words, case.label, draw(case, panels)


def _kept(experiment: Experiment, case: Case, store: Store) -> dict[str, dict[str, Any]]:
    """Return the arrays that the store has for the pictures of a case, by method."""
    out = {}
    for method in case.methods:
        task = Task(experiment.name, case.data, case.corruption, method, 0, case.label)
        arrays = store.load_arrays(task.key)
        if arrays is not None:
            out[method.name] = arrays
    return out


def circle(case: Case, panels: dict[str, dict[str, Any]]) -> "Figure":
    """Return the paper's figure (toydata): a panel for each method."""
    first = next(iter(panels.values()))
    results = {name: arrays["A"] for name, arrays in panels.items()}
    return figure_toydata(first["X"], results, first["rows"].astype(bool))


def gallery(case: Case, panels: dict[str, dict[str, Any]]) -> "Figure":
    """Return rows of images: the truth, what was given, and what each method made of it."""
    from matplotlib.figure import Figure

    first = next(iter(panels.values()))
    rows = {"truth": first["truth"], "given": first["X"]}
    rows |= {name: arrays["A"] for name, arrays in panels.items() if name != "untouched"}
    columns = min(SHOWN, len(first["truth"]))
    figure = Figure(figsize=(2.6 + 0.75 * columns, 0.8 * len(rows) + 0.4), layout="constrained")
    axes: Any = figure.subplots(len(rows), columns, squeeze=False)
    top = float(first["truth"].max())
    for panels_of, (name, images) in zip(axes, rows.items(), strict=True):
        for ax, image in zip(panels_of, images, strict=False):
            ax.imshow(image.reshape(case.data.side, case.data.side), cmap="gray", vmin=0.0, vmax=top)
            ax.set_xticks([])
            ax.set_yticks([])
        panels_of[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    figure.suptitle(case.label, fontsize=10)
    return figure


def bars(case: Case, rows: Rows, seconds: bool) -> "Figure":
    """Return one bar per method with the spread over the seeds: dB on the corrupted images, or CPU seconds."""
    from matplotlib.figure import Figure

    values: dict[str, list[float]] = {}
    for name, found in rows.items():
        raw = [r.get("cpu_seconds") if seconds else r["metrics"].get(CORRUPTED) for r in found]
        usable = [float(value) for value in raw if value is not None and math.isfinite(float(value))]
        if usable:
            values[name] = usable
    figure = Figure(figsize=(7.0, 0.36 * len(values) + 1.1), layout="constrained")
    ax = figure.subplots()
    heights = np.arange(len(values))[::-1]
    colours = ["#d1495b" if name.startswith("our") else TRACE if name in ("untouched", "oracle") else "#2a7f9e"
               for name in values]  # fmt: skip
    ax.barh(heights, [float(np.mean(v)) for v in values.values()], color=colours, height=0.66)
    for height, dots in zip(heights, values.values(), strict=True):
        ax.plot(dots, [height] * len(dots), "o", color=INK, markersize=2.5)
    ax.set_yticks(heights, list(values), fontsize=8)
    what = "CPU seconds of one fit" if seconds else "SNR of the corrupted images, dB"
    ax.set_xlabel(f"{what} (dots: seeds)", fontsize=9)
    if seconds:
        ax.set_xscale("log")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(case.label, fontsize=10)
    return figure


def convergence(chosen: list[tuple[Case, Rows]]) -> "Figure":
    """Return F over the iterations and over time, above the lowest value that any solver reached."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.2 * len(chosen)), layout="constrained")
    axes: Any = figure.subplots(len(chosen), 2, squeeze=False)
    for (left, right), (case, rows) in zip(axes, chosen, strict=True):
        first = {name: found[0] for name, found in rows.items() if found}
        lowest = min((min(record["objective"]) for record in first.values()), default=0.0)
        for colour, (name, record) in zip(COLOURS, first.items(), strict=False):
            above = np.maximum(np.array(record["objective"]) - lowest, 1e-4)
            # that of all rows at once lies almost on it
            style: dict[str, Any] = {"linestyle": (0, (3, 3)), "zorder": 3} if name == "row by row" else {}
            left.semilogy(above, color=colour, label=name, **style)
            right.loglog(np.maximum(record["clock"], 1e-3), above, color=colour, **style)
        left.set(title=case.label, xlabel="iteration", ylabel="F above the lowest found")
        right.set(xlabel="seconds")
        left.legend(frameon=False, fontsize=8)
        for ax in (left, right):
            ax.spines[["top", "right"]].set_visible(False)
    return figure


def complexity(chosen: list[tuple[Case, Rows]]) -> "Figure":
    """Return the seconds of an iteration against n, both logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    ax = figure.subplots()
    sizes = [case.data.n for case, _ in chosen]
    for colour, (name, seconds) in zip(COLOURS, costs(chosen).items(), strict=False):
        ax.loglog(sizes, seconds, "o-", color=colour, label=f"{name}: exponent {exponent(sizes, seconds):.2f}")
    ax.set_xlabel("n")
    ax.set_ylabel("seconds of an iteration")
    ax.set_xticks(sizes, list(map(str, sizes)))
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    return figure
