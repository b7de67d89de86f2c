"""The picture of docs/which_method.md: every method, with its defaults, on the circle and on digits."""

import warnings
from pathlib import Path

import numpy as np

from benchmarks.methods import METHODS, SEEDS, corrupted_circle, corrupted_digits
from kernmend.io import replacing
from kernmend.metrics import snr
from kernmend.plotting import MethodRow, figure_methods

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "methods.png"
KINDS = ("noise", "occlusion")
SHOWN = 10  # digits of each kind: the first corrupted ones
SEED = SEEDS[0]


def run() -> None:
    warnings.simplefilter("ignore")
    surface, (X, bad) = corrupted_circle(SEED)
    sets = [corrupted_digits(kind, SEED) for kind in KINDS]

    def shown(results: list[np.ndarray]) -> np.ndarray:
        first = [A[np.flatnonzero(rows)[:SHOWN]] for A, (_, (_, rows)) in zip(results, sets, strict=True)]
        return np.reshape(first, (len(KINDS), SHOWN, 28, 28))

    rows = [
        MethodRow("clean", "what was there\nbefore corruption", surface.X, shown([truth for truth, _ in sets])),
        MethodRow("corrupted", _note([Y for _, (Y, _) in sets], sets), X, shown([Y for _, (Y, _) in sets])),
    ]
    for name, make in METHODS.items():
        results = [make().fit(Y).recovered_ for _, (Y, _) in sets]
        label = name.removesuffix("()").replace("(", "\n(")
        rows.append(MethodRow(label, _note(results, sets), make().fit(X).recovered_, shown(results)))
    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    headings = ("circle", "20 of 400 MNIST digits: 10 with noise, 10 partly covered")
    figure = figure_methods(X, bad, np.column_stack([np.cos(angle), np.sin(angle)]), rows, headings)
    with replacing(PICTURE) as temporary:
        figure.savefig(temporary, dpi=160)
    print(f"{PICTURE}, {PICTURE.stat().st_size / 1000:.0f} KB")


def _note(results: list[np.ndarray], sets: list) -> str:
    """Return how good the corrupted rows are, and what happened to the clean ones."""
    lines = []
    for label, which in (("corrupted digits", True), ("clean digits", False)):
        ratios = [snr(truth[bad == which], A[bad == which]) for A, (truth, (_, bad)) in zip(results, sets, strict=True)]
        lines.append(f"{label} " + " / ".join("unchanged" if np.isinf(r) else f"{r:.1f}" for r in ratios) + " dB")
    return "\n".join(lines)
