"""The map: rows before and after in the plane, by kernel PCA of the mended data."""

from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend.estimators._summary import kernel_words
from kernmend.linalg.distances import column_medians
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.kernels import RBF, Kernel, Linear, auto_gamma
from kernmend.repair.units import Units
from kernmend.report._given import Given, Rows, rounded

# Largest number of rows that the plane is found from.
BASIS = 500
# Largest number of rows on the map.
POINTS = 2000
# Share of the variance in the plane below which a kernel is too narrow to draw a map with.
FEW_SHARE = 0.1


def map_facts(est: Any, given: Given, first: Rows) -> dict[str, Any]:
    """Return where rows are, before and after: `first`, which are always there, and a sample of the others.

    A value that was left blank has no place, and is drawn at the median of its column.
    """
    n_rows = given.shape[0]
    rng = np.random.default_rng(0)
    first = first[:POINTS]
    others = np.setdiff1d(np.arange(n_rows), first)
    if others.size > POINTS - first.size:
        others = np.sort(rng.choice(others, POINTS - first.size, replace=False))
    rows = np.concatenate([first, others])
    typical = column_medians(given.recovered)

    def whole(some: Rows) -> Array:
        values = given.after(some)
        return np.where(np.isnan(values), typical, values)

    after = whole(rows)
    before = np.where(np.isnan(given.before(rows)), after, given.before(rows))
    if given.shape[1] == 2:  # the plane itself says more than any plane made of it
        where, words, axes = (before, after), "the two columns as they are", given.columns or ("column 0", "column 1")
    else:
        good = np.flatnonzero(~est.outliers_)
        pool = good if good.size >= 5 else np.arange(n_rows)
        basis = np.sort(rng.choice(pool, min(BASIS, pool.size), replace=False))
        enter = getattr(est._inner, "_units", Units()).enter
        plane, words = _plane(getattr(est, "kernel_", Linear()), enter(whole(basis)))
        where, axes = (plane.project(enter(before)), plane.project(enter(after))), ("component 1", "component 2")
    return {
        "rows": rows.tolist(),
        "before": rounded(where[0], 5),
        "after": rounded(where[1], 5),
        "words": words,
        "axes": list(axes),
    }


def _plane(kernel: Kernel, basis: Array) -> tuple["Plane", str]:
    plane = Plane(kernel, basis)
    words = f"kernel PCA with {kernel_words(kernel)}" if not isinstance(kernel, Linear) else "PCA"
    if plane.share >= FEW_SHARE or not isinstance(kernel, RBF):
        return plane, words
    kernel = RBF(auto_gamma(basis))
    words = f"kernel PCA with {kernel_words(kernel)}: the kernel of the fit is too narrow for a map"
    return Plane(kernel, basis), words


class Plane:
    """The first two kernel principal components of some rows; `share` is what they have of the variance."""

    def __init__(self, kernel: Kernel, basis: Array) -> None:
        self._kernel, self._basis = kernel, basis
        K = kernel.gram(basis)
        self._means, self._mean = K.mean(axis=0), float(K.mean())
        s, U = eigenpairs(K - self._means - self._means[:, np.newaxis] + self._mean)
        top, U = np.maximum(s[::-1][:2], 0.0), U[:, ::-1][:, :2]
        U = U * np.where(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])] < 0, -1.0, 1.0)  # the same map every time
        total = float(np.maximum(s, 0.0).sum())
        self.share = float(top.sum()) / total if total > 0 else 1.0
        real = top > 1e-12 * max(total, np.finfo(np.float64).tiny)
        self._weights = np.where(real, U / np.sqrt(np.where(real, top, 1.0)), 0.0)

    def project(self, X: Array) -> Array:
        """Return the two coordinates of rows."""
        K = self._kernel.gram(X, self._basis)
        out: Array = (K - K.mean(axis=1, keepdims=True) - self._means + self._mean) @ self._weights
        return out if out.shape[1] == 2 else np.hstack([out, np.zeros((len(X), 2 - out.shape[1]))])
