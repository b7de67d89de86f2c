"""`kernmend demo`: the main job as a user has it, nothing set by hand, on data that come with the package.

A dirty table is mended from csv to csv, digits lose their noise and their cover, a circle gets its points back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA

from kernmend._mend import Mended, mend
from kernmend._typing import Array
from kernmend.datasets import Surface, make_circle, make_weather_station
from kernmend.datasets.corruption import Corrupted, gaussian_noise, occlusion, uniform_outliers, wrong_cells
from kernmend.datasets.metrics import mean_shift
from kernmend.estimators import KernelRecovery

INPUT, KPCA, OURS = "input", "kernel PCA, tuned on the truth", "kernmend"
Error: TypeAlias = Callable[[Array, NDArray[np.bool_]], float]
"""From rows, and the mask of those that were made wrong, to how far these are from the truth."""
# Pixels along the edge of a digit of scikit-learn.
SIDE = 8


@dataclass(frozen=True)
class Part:
    """One data set of the demo: its truth, what was made wrong, and what came back."""

    name: str
    truth: Array
    X: Array
    wrong: NDArray[np.bool_]
    recovered: Array
    flags: NDArray[np.bool_]
    error: Error
    interrupted: bool = False

    @property
    def found(self) -> int:
        """How many of the wrong rows are flagged."""
        return int((self.flags & self.wrong).sum())

    @property
    def mistaken(self) -> int:
        """How many good rows are flagged."""
        return int((self.flags & ~self.wrong).sum())

    @property
    def left(self) -> float:
        """The share of the error of the wrong rows that is left after mending, those not found included."""
        return self.error(self.recovered, self.wrong) / self.error(self.X, self.wrong)


def mend_others(*, random_state: int = 0, verbose: int = 0) -> Iterator[Part]:
    """Yield noisy digits, covered digits and the circle, mended; the last one yielded may have been interrupted."""
    for make in (partial(mend_digits, "noise"), partial(mend_digits, "cover"), mend_circle):
        part = make(random_state=random_state, verbose=verbose)
        yield part
        if part.interrupted:
            return


# --- a table ----------------------------------------------------------------------------------------------------------


def write_station(path: Path, *, random_state: int = 0) -> tuple[Array, NDArray[np.bool_]]:
    """Write ten days of a weather station, of which some readings are wrong and some are missing.

    Return the true readings and which rows have a wrong one.
    """
    columns, truth = make_weather_station(240, random_state=random_state)
    X, cells = wrong_cells(truth, 0.05, random_state=random_state)
    rng = np.random.default_rng(random_state)
    rows = rng.choice(np.flatnonzero(~cells.any(axis=1)), 8, replace=False)
    X[rows, rng.integers(0, X.shape[1], rows.size)] = np.nan
    lines = [",".join(["time", *columns])]
    for hour, row in enumerate(X):
        numbers = ("" if np.isnan(value) else f"{value:.2f}" for value in row)
        lines.append(",".join([f"2026-07-{1 + hour // 24:02d} {hour % 24:02d}:00", *numbers]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    wrong: NDArray[np.bool_] = np.any(cells, axis=1)
    return truth, wrong


def mend_station(folder: Path, *, random_state: int = 0, verbose: int = 0) -> tuple[Part, Mended]:
    """Write the dirty table `station.csv`, mend it, and write `station.mended.csv` and its change log beside it.

    Return what was mended, as a part of the demo and as `mend` gives it.
    """
    path = folder / "station.csv"
    truth, wrong = write_station(path, random_state=random_state)
    mended = mend(path, verbose=verbose)
    mended.write(folder / "station.mended.csv", force=True)
    mended.write_changes(folder / "station.changes.csv", force=True)
    spread = np.maximum(truth.std(axis=0), 1e-3)  # the error is in standard deviations of the columns

    def error(A: Array, rows: NDArray[np.bool_]) -> float:
        return float(np.linalg.norm(((A - truth) / spread)[rows]))

    return _part("weather station", truth, Corrupted(mended._source.X, wrong), mended.estimator, error), mended


def _part(name: str, truth: Array, given: Corrupted, est: Any, error: Error) -> Part:
    """Return a data set that was mended by a fit."""
    return Part(name, truth, *given, est.recovered_, est.outliers_, error, est.stop_reason_ == "interrupted")


# --- digits -----------------------------------------------------------------------------------------------------------


def mend_digits(kind: str, *, random_state: int = 0, verbose: int = 0) -> Part:
    """Mend 300 handwritten digits, of which every tenth is noisy (`kind` "noise") or partly covered ("cover").

    Return them as a part of the demo.
    """
    truth = load_digits().data[:300] / 16.0
    if kind == "noise":
        given = gaussian_noise(truth, 0.1, random_state=random_state + 1)
    else:
        given = occlusion(truth, (SIDE, SIDE), 0.1, n_blocks=2, size=3, random_state=random_state + 1)
    est = KernelRecovery(bounds=(0.0, 1.0), verbose=verbose).fit(given.X)

    def error(A: Array, rows: NDArray[np.bool_]) -> float:
        return float(np.linalg.norm((A - truth)[rows]))

    return _part(f"digits, {kind}", truth, given, est, error)


# --- the circle -------------------------------------------------------------------------------------------------------


def mend_circle(*, random_state: int = 0, verbose: int = 0) -> Part:
    """Mend a circle of which every tenth point was replaced, and return it; the error is the distance from it."""
    surface = make_circle(100, random_state=random_state)
    given = uniform_outliers(surface.X, 0.1, random_state=random_state + 1)
    est = KernelRecovery(verbose=verbose).fit(given.X)

    def error(A: Array, rows: NDArray[np.bool_]) -> float:
        return float(surface.distance(A[rows]).mean())

    return _part("circle", surface.X, given, est, error)


def circle_panels(part: Part) -> dict[str, Array]:
    """Return the panels of the picture: the points as they came, by kernel PCA at its best, and by kernmend."""
    surface = Surface(part.truth, lambda points: np.abs(np.linalg.norm(points, axis=1) - 1.0))
    best = tuned_kernel_pca(surface, Corrupted(part.X, part.wrong))
    return {INPUT: part.X, KPCA: best, OURS: part.recovered}


def tuned_kernel_pca(surface: Surface, corrupted: Corrupted) -> Array:
    """Return kernel PCA's reconstruction at its best: its three parameters chosen by the truth, which no user has."""
    X, bad = corrupted

    def cost(A: Array) -> float:
        return float(surface.distance(A[bad]).mean()) + mean_shift(X[~bad], A[~bad])

    def reconstruct(gamma: float, n_components: int, alpha: float) -> Array:
        kpca = KernelPCA(n_components, kernel="rbf", gamma=gamma, fit_inverse_transform=True, alpha=alpha)
        return np.asarray(kpca.inverse_transform(kpca.fit_transform(X)))

    grid = ((g, n, alpha) for g in (0.3, 1.0, 3.0) for n in (2, 4, 6, 8, 12) for alpha in (1e-3, 1e-2, 1e-1, 1.0))
    return min((reconstruct(*point) for point in grid), key=cost)
