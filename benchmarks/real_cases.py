"""The data of `benchmarks real`: real tables, labelled sets, spectra, pictures and curves, each with a known truth.

Sets are split once, here: `CHOOSE` are those on which choices may be made, all others are only reported. The seed of a
case depends on the set, the kind of error and the repetition, never on the method, so that all methods see the same.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from benchmarks import clean
from benchmarks.real_curves import CURVES, curve_cases
from benchmarks.real_errors import TABLE_KINDS, corrupt_table
from benchmarks.real_pictures import PICTURES, picture_cases
from benchmarks.real_sample import Sample, robust_sd

REPEATS = 2  # seeds of each table and kind
CHOOSE = {
    *("penguins", "cars", "elnino", "faithful", "macrodata", "iris", "breast cancer"),
    *("42_WBC", "45_wine", "18_Ionosphere", "7_Cardiotocography", "29_Pima"),
    *("20_letter", "15_Hepatitis", "27_PageBlocks", "26_optdigits", "12_fault"),
    *("valve1_0", "spectra made", "cartilage"),  # cartilage: constants were once chosen with a look at it
    *("digits", "MNIST 2/3", "COIL one object", "patches"),  # patches: since half of the clean ones were flagged
    *("circle", "sphere", "swiss roll", "parabola"),
    *(f"clean {number}" for number in (0, 2, 4, 6, 8, 10, 11, 14)),  # 11 is iris, 12 wine, 14 breast cancer: as above
}


@dataclass(frozen=True)
class Case:
    """One data set with one kind of error: `make` returns it."""

    group: str
    name: str
    kind: str
    seed: int
    make: Callable[[np.random.Generator], Sample]

    @property
    def key(self) -> str:
        return f"{self.group}, {self.name}, {self.kind}, {self.seed}"

    @property
    def reported(self) -> bool:
        """Whether no choice was made on this set."""
        return self.name.partition(":")[0] not in CHOOSE

    def sample(self) -> Sample:
        return self.make(np.random.default_rng([zlib.crc32(f"{self.name}, {self.kind}".encode()), self.seed]))


def cases() -> Iterator[Case]:
    """Yield all cases that the data at hand allows."""
    for name, table in tables().items():
        for kind in TABLE_KINDS:
            for seed in range(REPEATS):
                yield Case("tables", name, kind, seed, lambda rng, t=table, k=kind: corrupt_table(t, k, rng))
    yield from _labelled()
    yield from _spectra()
    for name, kind, make in picture_cases():
        yield Case("pictures", name, kind, 0, make)
    for name, kind, seed, make in curve_cases():
        yield Case("curves", name, kind, seed, make)
    for number, (_, make) in enumerate(clean.CASES):
        for seed in range(3):
            yield Case("clean", f"clean {number}", "clean", seed, lambda rng, m=make: Sample.clean(m(rng)))
    yield from _new_rows()


# --- tables ---------------------------------------------------------------------------------------------------------


def folder() -> Path | None:
    """Return the folder of the data that does not come with a package, if there is one."""
    name = os.environ.get("KERNMEND_DATA")
    return Path(name) if name else None


@cache
def load(name: str) -> dict[str, np.ndarray]:
    """Return the arrays of numbers of one file of that folder; none where it is not there."""
    here = folder()
    if here is None or not (here / name).exists():
        return {}
    with np.load(here / name, allow_pickle=False) as data:
        return {key: data[key] for key in data.files if not key.endswith("columns")}


@cache
def tables() -> dict[str, np.ndarray]:
    """Return the real tables by name."""
    loaders = {"iris": load_iris, "wine": load_wine, "diabetes": load_diabetes, "breast cancer": load_breast_cancer}
    out = {name: loader(return_X_y=True)[0].astype(float) for name, loader in loaders.items()}
    return out | {name: X.astype(float) for name, X in load("tables_dev.npz").items()}


# --- labelled sets and spectra --------------------------------------------------------------------------------------


def _labelled() -> Iterator[Case]:
    for file in ("adbench_dev.npz", "skab_dev.npz"):
        data = load(file)
        for key in data:
            name = key.removesuffix("__X")
            if not key.endswith("__X") or name.startswith("anomaly-free"):
                continue
            X, bad = data[key].astype(float), data[f"{name}__y"].astype(bool)
            train = data["anomaly-free_anomaly-free__X"].astype(float) if file.startswith("skab") else None
            group = "labelled" if train is None else "sensors"
            yield Case(group, name, "labels", 0, lambda rng, X=X, bad=bad, train=train: Sample(X, bad, train=train))


def _spectra() -> Iterator[Case]:
    for seed in range(3):
        yield Case("spectra", "spectra made", "spikes", seed, _made_spectra)
    data = load("spectra_dev.npz")
    if data:
        X = data["cartilage"].astype(float)
        yield Case("spectra", "cartilage", "cosmic spikes", 0, lambda rng: Sample(X, sharp_spikes(X).any(axis=1)))
        octane, bad = data["octane"].astype(float), data["octane__y"].astype(bool)
        yield Case("spectra", "octane", "alcohol added", 0, lambda rng: Sample(octane, bad))


def sharp_spikes(X: np.ndarray, limit: float = 20.0, reach: int = 2) -> np.ndarray:
    """Return which channels are cosmic spikes, by hand: this is the truth that flags of cartilage are held against.

    A channel is a spike where it exceeds both channels `reach` away by more than `limit` times the noise of its
    spectrum, 1.4826 times the median of the absolute second differences over sqrt(6). Any limit from 15 to 40 gives the
    same 47 spectra, 45 of them in the first half.
    """
    noise = 1.4826 * np.median(np.abs(np.diff(X, 2, axis=1)), axis=1, keepdims=True) / np.sqrt(6.0)
    above = np.zeros(X.shape, dtype=bool)
    middle = X[:, reach:-reach]
    higher = np.maximum(X[:, : -2 * reach], X[:, 2 * reach :])
    above[:, reach:-reach] = middle - higher > limit * noise
    return above


def _made_spectra(rng: np.random.Generator) -> Sample:
    """Return smooth spectra that differ in offset and size, with sharp spikes in a fifth of them."""
    n, channels = 80, np.arange(600.0)
    centres, widths = rng.uniform(50, 550, 12), rng.uniform(8, 40, 12)
    bands = np.exp(-(((channels - centres[:, np.newaxis]) / widths[:, np.newaxis]) ** 2))
    parts = np.abs(rng.normal(1.0, 0.15, (n, 12))) @ bands
    truth = rng.lognormal(0, 0.6, (n, 1)) * (parts + rng.uniform(0, 3, (n, 1))) + rng.uniform(0, 5, (n, 1))
    truth += 0.01 * rng.standard_normal(truth.shape)
    bad = np.zeros(n, dtype=bool)
    bad[rng.permutation(n)[: n // 5]] = True
    X = truth.copy()
    for row in np.flatnonzero(bad):
        for place in rng.integers(5, 595, rng.integers(1, 4)):
            X[row, place : place + 2] += rng.uniform(0.3, 2.0) * np.ptp(truth[row])
    return Sample(X, bad, truth)


# --- new rows after a fit to clean ones -----------------------------------------------------------------------------


def _new_rows() -> Iterator[Case]:
    for name, table in tables().items():
        for kind in ("spike 10", "shift 4"):
            yield Case("new rows", name, kind, 0, lambda rng, t=table, k=kind: _later_table(t, k, rng))
    for name in PICTURES:
        for kind in ("noise", "occlusion"):
            yield Case("new rows", name, kind, 0, lambda rng, n=name, k=kind: PICTURES[n].new_rows(k, rng))
    for name in CURVES:
        yield Case("new rows", name, "outliers", 0, lambda rng, n=name: CURVES[n].new_rows(rng))


def _later_table(X: np.ndarray, kind: str, rng: np.random.Generator) -> Sample:
    order = rng.permutation(len(X))
    train, later = X[order[: len(X) // 2]], X[order[len(X) // 2 :]]
    sample = corrupt_table(later, kind, rng, share=0.2, units=robust_sd(train))
    return Sample(sample.X, sample.bad, sample.truth, sample.entries, train)
