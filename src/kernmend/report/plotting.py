"""Pictures. matplotlib is imported here and nowhere else, and only when a picture is made.

`plot_scores`, `plot_map`, `plot_gallery` and `plot_convergence` draw what a report shows, of a fitted estimator or of
the facts that its `report_data` gave: `facts = est.report_data()` once, then as many pictures as you like.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FLAGGED, TRACE, MENDED = "#30343b", "#d1495b", "#b8bcc4", "#1f7a9c"


def plot_recovery(
    ax: "Axes", title: str, X: Array, A: Array, corrupted: NDArray[np.bool_], *, size: float = 1.0
) -> None:
    """Draw rows of `A` in the plane, the corrupted ones in colour, with a line from where they were in `X`."""
    ax.plot(*np.stack([X, A])[:, corrupted].transpose(2, 0, 1), color=TRACE, linewidth=size, zorder=1)
    for which, area, color, label in ((~corrupted, 12, INK, "good"), (corrupted, 26, FLAGGED, "wrong")):
        ax.scatter(A[which, 0], A[which, 1], s=size**2 * area, color=color, linewidths=0, zorder=2, label=label)
    ax.set_title(title, fontsize=11)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_color(TRACE)


def figure_toydata(X: Array, panels: Mapping[str, Array], corrupted: NDArray[np.bool_]) -> "Figure":
    """Return the paper's figure `toydata`: one panel per result, over the true circle of radius 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.7 * len(panels), 3.5), layout="constrained")  # small, so that words are large in it
    limit, angle = 1.1 * float(np.abs(X).max()), np.linspace(0.0, 2.0 * np.pi, 400)
    axes: Any = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, A) in zip(axes, panels.items(), strict=True):
        ax.plot(np.cos(angle), np.sin(angle), color=TRACE, linewidth=1, linestyle=(0, (4, 3)), zorder=0, label="truth")
        plot_recovery(ax, title, X, A, corrupted)
        ax.set_xlim(-limit, limit)
        ax.set_ylim(-limit, limit)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=11)
    return figure


def mosaic(images: Array, white: float, gap: int = 2) -> Array:
    """Return a grid of images, grey (rows, columns, height, width) or in colour, as one, with white between them.

    >>> mosaic(np.ones((1, 2, 1, 1)), white=0.0, gap=1)
    array([[1., 0., 1.]])
    """
    depth = images.shape[4:]
    padded = np.pad(images, ((0, 0), (0, 0), (0, gap), (0, gap), *[(0, 0)] * len(depth)), constant_values=white)
    down, across, height, width = padded.shape[:4]
    out: Array = padded.swapaxes(1, 2).reshape(down * height, across * width, *depth)[:-gap, :-gap]
    return out


def plot_scores(found: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the histogram of the scores with the threshold, flagged rows in colour.

    Parameters
    ----------
    found : fitted estimator, or the dict of its `report_data`
    ax : matplotlib Axes, optional
        Where to draw; a new one if None. It is returned.
    """
    scores, ax = _facts(found)["scores"], _axes(ax)
    edges, counts = np.array(scores["histogram"]["edges"]), np.array(scores["histogram"]["counts"])
    if scores["axis"]["scale"] == "asinh":
        centre, unit = scores["axis"]["centre"], scores["axis"]["unit"]
        ax.set_xscale(
            "function",
            functions=(lambda s: np.arcsinh((s - centre) / unit), lambda p: centre + unit * np.sinh(p)),
        )
        ends = [centre, scores["values"][0], *([scores["threshold"]] if scores["threshold"] is not None else [])]
        ax.set_xticks(ends, [f"{end:.3g}" for end in ends])
    limit = np.inf if scores["threshold"] is None else scores["threshold"]
    for which, color in ((edges[1:] <= limit, TRACE), (edges[1:] > limit, FLAGGED)):
        ax.bar(edges[:-1][which], counts[which], np.diff(edges)[which], align="edge", color=color)
    if np.isfinite(limit):
        ax.axvline(limit, color=INK, linestyle=(0, (4, 3)), linewidth=1)
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set(xlabel="score", ylabel="rows", xlim=(edges[0], edges[-1]))
    return ax


def plot_map(found: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the map of the data after mending, with lines from where the flagged rows were.

    Parameters
    ----------
    found : fitted estimator, or the dict of its `report_data`
    ax : matplotlib Axes, optional
        Where to draw; a new one if None. It is returned.
    """
    facts, ax = _facts(found), _axes(ax)
    before, after = np.array(facts["map"]["before"]), np.array(facts["map"]["after"])
    flagged = np.isin(facts["map"]["rows"], facts["scores"]["flagged"])
    plot_recovery(ax, "", before, after, flagged)
    ax.set_aspect("equal" if facts["n_columns"] == 2 else "auto")
    ax.set(xlabel=facts["map"]["axes"][0], ylabel=facts["map"]["axes"][1])
    return ax


def plot_gallery(found: Any, image_shape: Any = None, ax: "Axes | None" = None, *, n_rows: int = 8) -> "Axes":
    """Draw the worst of the flagged rows as pictures: before, after, and the difference (red taken away, blue added).

    Parameters
    ----------
    found : fitted estimator, or the dict of its `report_data(image_shape=...)`
    image_shape : (height, width) or (height, width, 3)
        Of the images; not needed with a dict.
    ax : matplotlib Axes, optional
        Where to draw; a new one if None. It is returned.
    n_rows : int, default=8
        How many rows to draw at most.
    """
    facts = _facts(found, image_shape=image_shape)
    rows, ax = facts["rows"], _axes(ax)
    if rows["view"] != "pictures":
        raise ValueError("a gallery needs images: give image_shape, to report_data if you call it yourself")
    flagged = set(facts["scores"]["flagged"])
    shown = [row for row in rows["shown"] if row["row"] in flagged][:n_rows]
    if not shown:
        ax.text(0.5, 0.5, "no row is flagged", ha="center", va="center", color=INK, transform=ax.transAxes)
        ax.axis("off")
        return ax
    low, high = rows["range"]
    shape = (*rows["image_shape"], 1)[:3]
    pictures = []
    for row in shown:
        then, now = (np.array(row[name], dtype=np.float64).reshape(shape) for name in ("before", "after"))
        change = np.nan_to_num((now - then).mean(axis=2, keepdims=True) / (high - low)).clip(-1.0, 1.0)
        color = np.where(change < 0, *(np.array(_rgb(name)) for name in (FLAGGED, MENDED)))
        grey = [np.repeat(_unit(image, low, high), 3 // image.shape[2], axis=2) for image in (then, now)]
        pictures.append([*grey, 1.0 - np.abs(change) * (1.0 - color)])
    height, width = shape[0] + 2, shape[1] + 2
    ax.imshow(mosaic(np.array(pictures), white=1.0), interpolation="nearest")
    ax.set_xticks([width * (k + 0.5) - 1.5 for k in range(3)], ["before", "after", "difference"])
    names = dict(zip(facts["scores"]["rows"], facts["scores"]["labels"] or [], strict=False))
    labels = [names.get(row["row"], f"row {row['row']}") for row in shown]
    ax.set_yticks([height * (k + 0.5) - 1.5 for k in range(len(shown))], labels)
    ax.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def plot_convergence(found: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the objective after each iteration.

    Parameters
    ----------
    found : fitted estimator, or the dict of its `report_data`
    ax : matplotlib Axes, optional
        Where to draw; a new one if None. It is returned.
    """
    facts, ax = _facts(found), _axes(ax)
    ax.plot(facts["objective"]["iterations"], facts["objective"]["values"], color=MENDED)
    ax.set(xlabel="iteration", ylabel="objective", title=facts["stop"]["words"].partition(":")[0])
    return ax


def _facts(found: Any, **options: Any) -> dict[str, Any]:
    out: dict[str, Any] = found if isinstance(found, dict) else found.report_data(**options)
    return out


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    from matplotlib import pyplot

    new: Axes = pyplot.subplots(layout="constrained")[1]
    return new


def _rgb(name: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(name)


def _unit(image: Array, low: float, high: float) -> Array:
    out: Array = np.nan_to_num((image - low) / (high - low)).clip(0.0, 1.0)
    return out
