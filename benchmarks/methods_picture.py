"""The picture of docs/which_method.md: every method, with its defaults, on the circle and on digits."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.methods import METHODS, SEEDS, corrupted_circle, corrupted_digits
from kernmend.datasets.corruption import Corrupted
from kernmend.datasets.metrics import snr
from kernmend.io import replacing
from kernmend.report.plotting import INK, TRACE, mosaic, plot_recovery

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "methods.png"
KINDS = {"noise": "noise", "occlusion": "covered"}  # the corruption, and what the picture calls it
SHOWN = 10  # digits of each kind: the first ten corrupted ones, the next ten
COLORS = 64  # of the file: a few hundred KB less
SEED = SEEDS[0]

Digits = tuple[np.ndarray, Corrupted]


@dataclass(frozen=True)
class MethodRow:
    """What one method made of two sets of data: points in the plane, and images.

    `note` goes below the name. `images` is a grid of them, (rows, columns, height, width), with values from 0 to 1.
    `before` is where the points were: the corrupted ones are drawn in grey, with a line to where they are now.
    """

    name: str
    note: str
    points: np.ndarray
    images: np.ndarray
    before: np.ndarray | None = None


def figure_methods(rows: list[MethodRow], corrupted: np.ndarray, surface: np.ndarray, headings: tuple[str, str]):
    """Return one line per method: its name and note, its points over the true `surface`, its images as a mosaic.

    `corrupted` says which points are; `headings` are those of the two columns of pictures.
    """
    from matplotlib.figure import Figure

    pictures = [mosaic(np.clip(row.images, 0.0, 1.0), white=0.0) for row in rows]
    tall, wide = pictures[0].shape
    line, top, gap = 1.2, 0.3, 0.08  # inches
    widths = [2.3, line, line * wide / tall]
    size = (sum(widths) + 4 * gap, top + len(rows) * (line + gap))
    figure = Figure(figsize=size)
    grid = figure.add_gridspec(
        len(rows), 3, width_ratios=widths, wspace=6 * gap / sum(widths), hspace=gap / line,
        left=gap / size[0], right=1 - gap / size[0], bottom=gap / size[1], top=1 - top / size[1],
    )  # fmt: skip
    axes = grid.subplots(squeeze=False)
    limit = 1.1 * max(float(np.abs(points).max()) for points in (surface, *(row.points for row in rows)))
    for (text, plane, images), row, picture in zip(axes, rows, pictures, strict=True):
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
        images.imshow(picture, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        images.axis("off")
    for ax, heading in zip(axes[0, 1:], headings, strict=True):
        ax.set_title(heading, fontsize=10, color=INK, pad=4)
    return figure


def run() -> None:
    warnings.simplefilter("ignore")
    surface, (X, bad) = corrupted_circle(SEED)
    sets = [corrupted_digits(kind, SEED) for kind in KINDS]
    clean, given = [truth for truth, _ in sets], [Y for _, (Y, _) in sets]
    rows = [
        MethodRow("clean", "the truth", surface.X, _shown(clean, sets)),
        MethodRow("corrupted", _note(given, sets), X, _shown(given, sets), before=X),
    ]
    for name, make in METHODS.items():
        results = [make().fit(Y).recovered_ for Y in given]
        label = name.removesuffix("()").replace('(penalty="graphs")', ", graphs")
        rows.append(MethodRow(label, _note(results, sets), make().fit(X).recovered_, _shown(results, sets), before=X))
    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    headings = ("circle", f"{len(KINDS) * SHOWN} of 400 MNIST digits, {SHOWN} with noise and {SHOWN} partly covered")
    _write(figure_methods(rows, bad, np.column_stack([np.cos(angle), np.sin(angle)]), headings))
    print(f"{PICTURE}, {PICTURE.stat().st_size / 1000:.0f} KB")


def _shown(results: list[np.ndarray], sets: list[Digits]) -> np.ndarray:
    """Return the images that are drawn."""
    lines = []
    for line, (A, (_, (_, bad))) in enumerate(zip(results, sets, strict=True)):
        lines.append(A[np.flatnonzero(bad)[SHOWN * line :][:SHOWN]])
    return np.reshape(lines, (len(sets), SHOWN, 28, 28))


def _note(results: list[np.ndarray], sets: list[Digits]) -> str:
    """Return how good all corrupted digits are, and what happened to the clean ones."""
    lines = []
    for label, A, (truth, (_, bad)) in zip(KINDS.values(), results, sets, strict=True):
        clean = snr(truth[~bad], A[~bad])
        words = "clean ones kept" if np.isinf(clean) else f"clean {clean:.1f} dB"
        lines.append(f"{label} {snr(truth[bad], A[bad]):.1f} dB, {words}")
    return "\n".join(lines)


def _write(figure) -> None:
    from PIL import Image  # comes with matplotlib

    with replacing(PICTURE) as temporary:
        figure.savefig(temporary, dpi=130)
        with Image.open(temporary) as image:
            small = image.convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        small.save(temporary, optimize=True)
