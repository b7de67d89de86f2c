"""`kernmend demo`: the paper's circle, mended, as plain facts, a picture and a report."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.decomposition import KernelPCA

from kernmend._typing import Array
from kernmend.datasets import Surface, make_circle
from kernmend.datasets.corruption import Corrupted, uniform_outliers
from kernmend.datasets.metrics import mean_shift
from kernmend.estimators import KernelLowRank

GAMMA, LAM, RHO = 1.0, 0.3, 1e4
INPUT, KPCA, OURS = "input", "kernel PCA, tuned on the truth", "kernmend"


@dataclass(frozen=True)
class DemoRow:
    """What one method made of the circle: distances are means, the radius is 1."""

    method: str
    outlier_distance: float
    good_shift: float


@dataclass(frozen=True)
class Demo:
    """The circle, its corruption, and what each method recovered."""

    surface: Surface
    corrupted: Corrupted
    results: dict[str, Array]
    estimator: KernelLowRank

    def rows(self) -> list[DemoRow]:
        """Return the table: the untouched input first."""
        X, bad = self.corrupted
        return [
            DemoRow(name, float(self.surface.distance(A[bad]).mean()), mean_shift(X[~bad], A[~bad]))
            for name, A in self.results.items()
        ]


def run_demo(*, n_samples: int = 100, fraction: float = 0.1, random_state: int = 0, verbose: int = 0) -> Demo:
    """Corrupt a circle and mend it by kernel PCA and by `KernelLowRank`, both with the same gamma."""
    surface = make_circle(n_samples, random_state=random_state)
    corrupted = uniform_outliers(surface.X, fraction, random_state=random_state + 1)
    estimator = KernelLowRank(gamma=GAMMA, lam=LAM, rho=RHO, verbose=verbose)
    results = {INPUT: corrupted.X, KPCA: tuned_kernel_pca(surface, corrupted)}
    results[OURS] = estimator.fit_transform(corrupted.X)
    return Demo(surface, corrupted, results, estimator)


def write_report(demo: Demo, path: Path) -> Path:
    """Write the report of our result as one HTML page, over one that is there."""
    outliers = int(demo.corrupted.rows.sum())
    title = f"A circle, {outliers} of its {len(demo.corrupted.rows)} points replaced"
    return demo.estimator.report(path, columns=("x", "y"), title=title, force=True)


def tuned_kernel_pca(surface: Surface, corrupted: Corrupted) -> Array:
    """Return kernel PCA's reconstruction at its best: its two parameters chosen by the truth, which no user has."""
    X, bad = corrupted

    def cost(A: Array) -> float:
        return float(surface.distance(A[bad]).mean()) + mean_shift(X[~bad], A[~bad])

    def reconstruct(n_components: int, alpha: float) -> Array:
        kpca = KernelPCA(n_components, kernel="rbf", gamma=GAMMA, fit_inverse_transform=True, alpha=alpha)
        return np.asarray(kpca.inverse_transform(kpca.fit_transform(X)))

    return min((reconstruct(n, alpha) for n in (2, 4, 6, 8, 12) for alpha in (1e-3, 1e-2, 1e-1, 1.0)), key=cost)
