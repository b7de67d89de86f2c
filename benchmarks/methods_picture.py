"""The picture of docs/which_method.md: every method, with its defaults, on the circle and on digits."""

import warnings
from pathlib import Path

import numpy as np

from benchmarks.methods import METHODS, SEEDS, corrupted_circle, corrupted_digits
from kernmend.datasets.corruption import Corrupted
from kernmend.datasets.metrics import snr
from kernmend.io import replacing
from kernmend.report.plotting import MethodRow, figure_methods

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "methods.png"
KINDS = {"noise": "noise", "occlusion": "covered"}  # the corruption, and what the picture calls it
SHOWN = 10  # digits of each kind: the first ten corrupted ones, the next ten
COLORS = 64  # of the file: a few hundred KB less
SEED = SEEDS[0]

Digits = tuple[np.ndarray, Corrupted]


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
