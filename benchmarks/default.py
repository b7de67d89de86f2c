"""`KernelRecovery()` without a single parameter, on data that it was not tuned on: the table of the README."""

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernmend import KernelRecovery
from kernmend.datasets import SURFACES, load_mnist, make_surface, rotate_images
from kernmend.datasets.corruption import Corrupted, gaussian_noise, occlusion, uniform_outliers
from kernmend.datasets.metrics import f1_score, mean_shift, snr
from kernmend.paper.matrices import Matrix, inpaint, wiener

SEEDS = range(60, 65)  # not those that the rules were chosen on


def run() -> None:
    warnings.simplefilter("ignore")
    images()
    surfaces()


# --- images: signal-to-noise ratio of the corrupted rows, dB --------------------------------------------------------


@dataclass(frozen=True)
class Case:
    name: str
    load: Callable[[int], np.ndarray]
    side: int


def images() -> None:
    print(
        f"Images, 10 % of the rows corrupted; dB on the corrupted rows, medians over seeds {min(SEEDS)}-{max(SEEDS)}\n"
    )
    print("| data | corruption | untouched | default | bounds='data' | oracle | F1 | clean data flagged | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in image_cases():
        clean = [float(KernelRecovery().fit(case.load(seed)).outliers_.mean()) for seed in SEEDS]
        for kind in ("noise", "occlusion"):
            table = np.array([_one_image_set(case, kind, seed) for seed in SEEDS])
            untouched, default, bounded, oracle, f1, seconds = np.median(table, axis=0)
            print(
                f"| {case.name} | {kind} | {untouched:.1f} | {default:.2f} | {bounded:.2f} | {oracle:.1f} | {f1:.2f} | "
                f"{100 * np.median(clean):.1f} % | {seconds:.1f} |",
                flush=True,
            )


def image_cases() -> Iterator[Case]:
    yield Case("MNIST, 400 digits", lambda seed: load_mnist(400, random_state=seed), 28)
    folder = os.environ.get("KERNMEND_DATA")
    if folder is None or not Path(folder, "coil20_32.npz").exists():
        print("(COIL-20 left out: set KERNMEND_DATA to the folder with coil20_32.npz)")
        return
    with np.load(Path(folder, "coil20_32.npz"), allow_pickle=False) as data:
        pixels, labels = data["images_f32"].reshape(-1, 1024) / 255.0, data["labels"]

    def turned(X: np.ndarray, seed: int) -> np.ndarray:
        angles = np.random.default_rng(seed).uniform(-90, 90, len(X))
        return rotate_images(X.astype(np.float64), (32, 32), angles)

    yield Case(
        "COIL-20, object 1, 5 rotations", lambda seed: turned(np.repeat(pixels[labels == 1], 5, axis=0), seed), 32
    )
    yield Case("COIL-20, objects 1-5, as they are", lambda seed: pixels[labels <= 5].astype(np.float64), 32)


def corrupt(case: Case, kind: str, seed: int) -> tuple[np.ndarray, Corrupted]:
    """Return the clean images, and with a tenth of them corrupted."""
    truth = case.load(seed)
    if kind == "noise":
        return truth, gaussian_noise(truth, random_state=seed + 100)
    return truth, occlusion(truth, (case.side, case.side), random_state=seed + 100)


def _one_image_set(case: Case, kind: str, seed: int) -> list[float]:
    truth, (X, bad) = corrupt(case, kind, seed)
    start = time.process_time()
    est = KernelRecovery().fit(X)
    seconds = time.process_time() - start
    bounded = KernelRecovery(bounds="data").fit(X).recovered_
    oracle = (wiener if kind == "noise" else inpaint)(Matrix(truth, X, bad))
    results = [snr(truth[bad], A[bad]) for A in (X, est.recovered_, bounded, oracle)]
    return [*results, f1_score(bad, est.outliers_), seconds]


# --- surfaces: distance of the outliers from the surface ------------------------------------------------------------


def surfaces() -> None:
    print(f"\nSurfaces, 300 points, 10 % uniform in 1.5 times the box; medians over seeds {min(SEEDS)}-{max(SEEDS)}.")
    print("Outliers lie farther from the surface than 5 % of its extent; F1 also with nearer replaced rows left out.\n")
    print("| surface | untouched | default | share | F1 | F1, near rows left out | clean data flagged | moved by |")
    print("|---|---|---|---|---|---|---|---|")
    for name in SURFACES:
        table = np.array([_one_surface(name, seed) for seed in SEEDS])
        untouched, default, f1, lenient, clean, moved = np.median(table, axis=0)
        print(
            f"| {name} | {untouched:.3f} | {default:.4f} | {default / untouched:.3f} | {f1:.2f} | {lenient:.2f} | "
            f"{100 * clean:.1f} % | {moved:.4f} |",
            flush=True,
        )


def _one_surface(name: str, seed: int) -> list[float]:
    surface = make_surface(name, random_state=seed)
    corrupted, extent = box_outliers(surface.X, seed + 100)
    X, replaced = corrupted
    bad = surface.distance(X) > 0.05 * extent
    est = KernelRecovery().fit(X)
    far = ~replaced | bad
    clean = KernelRecovery().fit(surface.X)
    return [
        float(surface.distance(X[bad]).mean()),
        float(surface.distance(est.recovered_[bad]).mean()),
        f1_score(bad, est.outliers_),
        f1_score(bad[far], est.outliers_[far]),
        float(clean.outliers_.mean()),
        mean_shift(surface.X, clean.recovered_),
    ]


def box_outliers(X: np.ndarray, seed: int) -> tuple[Corrupted, float]:
    """Return the data with a tenth of the rows uniform in 1.5 times its bounding box, and its largest extent."""
    low, high = X.min(axis=0), X.max(axis=0)
    centre, half = (low + high) / 2, 0.75 * (high - low)
    return uniform_outliers(X, 0.1, low=centre - half, high=centre + half, random_state=seed), float((high - low).max())
