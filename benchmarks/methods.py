"""Every method with its defaults, on the circle and on digits: the tables of docs/which_method.md."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kernmend import (
    GraphRobustPCA,
    KernelPCADenoiser,
    KernelRecovery,
    LowRankRepresentation,
    OutlierPursuit,
    RobustKernelPCA,
    RobustPCA,
)
from kernmend.datasets import Surface, load_mnist, make_circle
from kernmend.datasets.corruption import Corrupted, gaussian_noise, occlusion, uniform_outliers
from kernmend.datasets.metrics import f1_score, mean_shift, snr

SEEDS = range(30, 33)  # not those that the defaults were chosen on
METHODS: dict[str, Callable[[], Any]] = {
    "KernelRecovery()": KernelRecovery,
    "RobustPCA()": RobustPCA,
    "OutlierPursuit()": OutlierPursuit,
    "LowRankRepresentation()": LowRankRepresentation,
    "KernelPCADenoiser()": KernelPCADenoiser,
    "RobustKernelPCA()": RobustKernelPCA,
    "GraphRobustPCA()": GraphRobustPCA,
    'GraphRobustPCA(penalty="graphs")': lambda: GraphRobustPCA(penalty="graphs"),
}
VARIANTS: dict[str, Callable[[], Any]] = {
    'KernelPCADenoiser(preimage="ridge")': lambda: KernelPCADenoiser(preimage="ridge"),
    'RobustKernelPCA(error="noise")': lambda: RobustKernelPCA(error="noise"),
}

Row = list[float]


def run() -> None:
    warnings.simplefilter("ignore")
    over = f"medians over seeds {min(SEEDS)}-{max(SEEDS)}"
    print(f"Circle of radius 1, 100 points, 10 % of them uniform in [-1.5, 1.5]^2; distances are means, {over}.\n")
    _table(
        [
            "outliers from the circle",
            "good points from the circle",
            "good points moved by",
            "F1 of flags",
            "CPU seconds",
        ],
        [".3f", ".4f", ".4f", ".2f", ".1f"],
        [_on_circle(seed) for seed in SEEDS],
    )
    for kind in ("noise", "occlusion"):
        print(f"\nMNIST, 400 rotated digits, 10 % with {kind}; signal-to-noise ratio in dB, {over}.\n")
        _table(
            ["corrupted rows", "clean rows", "all rows", "F1 of flags", "CPU seconds"],
            [".1f", ".1f", ".1f", ".2f", ".1f"],
            [_on_digits(kind, seed) for seed in SEEDS],
        )


def corrupted_circle(seed: int) -> tuple[Surface, Corrupted]:
    """Return the circle and what is left of it."""
    surface = make_circle(100, random_state=seed)
    return surface, uniform_outliers(surface.X, 0.1, random_state=seed + 100)


def corrupted_digits(kind: str, seed: int) -> tuple[np.ndarray, Corrupted]:
    """Return the clean digits, and with a tenth of them noisy or partly covered."""
    truth = load_mnist(400, random_state=seed)
    if kind == "noise":
        return truth, gaussian_noise(truth, random_state=seed + 100)
    return truth, occlusion(truth, (28, 28), random_state=seed + 100)


def _on_circle(seed: int) -> dict[str, Row]:
    surface, (X, bad) = corrupted_circle(seed)

    def measure(A: np.ndarray) -> Row:
        return [float(surface.distance(A[which]).mean()) for which in (bad, ~bad)] + [mean_shift(X[~bad], A[~bad])]

    return dict(_measured(X, bad, measure))


def _on_digits(kind: str, seed: int) -> dict[str, Row]:
    truth, (X, bad) = corrupted_digits(kind, seed)
    return dict(_measured(X, bad, lambda A: [snr(truth[which], A[which]) for which in (bad, ~bad, slice(None))]))


def _measured(X: np.ndarray, bad: np.ndarray, measure: Callable[[np.ndarray], Row]) -> Iterator[tuple[str, Row]]:
    """Yield the untouched row, then one per method.

    It has what is measured of the result, F1 of the flags, seconds, and 1 if the solver did not converge.
    """
    yield "untouched", [*measure(X), f1_score(bad, np.zeros_like(bad)), 0.0, 0.0]
    for name, make in (METHODS | VARIANTS).items():
        start = time.process_time()
        est = make().fit(X)
        seconds = time.process_time() - start
        yield (
            name,
            [*measure(est.recovered_), f1_score(bad, est.outliers_), seconds, float(est.stop_reason_ != "converged")],
        )


def _table(columns: Sequence[str], formats: Sequence[str], runs: Sequence[dict[str, Row]]) -> None:
    """Print the medians over the runs, in Markdown, and what did not converge."""
    print(f"| | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    unfinished = {}
    for name in runs[0]:
        table = np.array([rows[name] for rows in runs])
        cells = [_cell(value, spec) for value, spec in zip(np.median(table[:, :-1], axis=0), formats, strict=True)]
        label = name if name == "untouched" else f"`{name}`"
        print(f"| {label} | {' | '.join(cells)} |", flush=True)
        unfinished[name] = int(table[:, -1].sum())
    for name, count in unfinished.items():
        if count:
            print(f"\n`{name}` had not converged after its `max_iter` iterations on {count} of {len(runs)} seeds.")


def _cell(value: float, spec: str) -> str:
    return "unchanged" if np.isinf(value) else format(value, spec)
