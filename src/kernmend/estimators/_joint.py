"""`repair="all"`: the plain minimiser, in which every sample may move."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_gram
from kernmend.linalg.distances import median_observed_squared_distance
from kernmend.linalg.eigen import TopEigenpairs, eigenpairs
from kernmend.model import tuning
from kernmend.model.errors import EntryError, ErrorModel, KernelError, RowError
from kernmend.model.kernels import Kernel
from kernmend.model.objective import Objective
from kernmend.model.penalties import GramTarget, NuclearPenalty, SchattenPenalty, cutoff_from_rho, similarity_target
from kernmend.repair import completion
from kernmend.solvers import SolverResult, solve_alternating, solve_parallel, solve_reduced

SOLVERS: dict[str, Callable[..., SolverResult]] = {
    "reduced": solve_reduced,
    "alternating": solve_alternating,
    "alternating-parallel": solve_parallel,
}
SMOOTHING = {"kernel": 1e-3, "rows": 1e-3, "entries": completion.ENTRIES_SMOOTHING}  # mu, of a typical difference
FLOAT32_MARGIN = 100.0  # eigenvalue cut-off over float32's rounding of the Gram matrix


@dataclass(frozen=True)
class Problem:
    """The data, NaN where missing, a start without NaN, and typical lengths in the input and the kernel space."""

    X: Array
    filled: Array
    kernel: Kernel
    scale: float
    length: float

    @classmethod
    def of(cls, X: Array, kernel: Kernel) -> "Problem":
        """Measure the data; missing entries start at the mean of their neighbours."""
        filled = completion.fill_missing(X) if np.isnan(X).any() else X
        scale = float(np.sqrt(median_observed_squared_distance(X.astype(np.float64)))) or 1.0
        length = float(np.sqrt(np.mean(kernel.diag(filled), dtype=np.float64))) or 1.0
        return cls(X, filled, kernel, scale, length)

    def error(self, name: str) -> ErrorModel:
        """Return the error model of that name."""
        mu = SMOOTHING[name]
        if name == "kernel":
            return KernelError(self.kernel, self.X, mu * self.length)
        if name == "rows":
            return RowError(self.X, mu * self.scale)
        return EntryError(self.X, mu * self.scale / np.sqrt(self.X.shape[1]))

    def force(self, name: str) -> float:
        """Return what weight of this error term holds a row as firmly as weight 1 of the kernel's own does."""
        if name == "kernel":
            return 1.0
        shift = 1e-3 * self.scale / np.sqrt(self.X.shape[1])
        h = self.kernel.distances(self.filled + shift, self.filled)[0]
        per_row = float(np.sqrt(np.median(h))) / (1e-3 * self.scale)
        return per_row if name == "rows" else per_row / float(np.sqrt(self.X.shape[1]))

    def rho_and_lam(self, rho: float | None, lam: float | None, error: str) -> tuple[float, float]:
        """Return both, by the rules of `tuning` where not given: one eigendecomposition serves both."""
        if rho is not None and lam is not None:
            return rho, lam
        s, U = eigenpairs(self.kernel.gram(self.filled.astype(np.float64, copy=False)))
        rho = tuning.auto_rho(s) if rho is None else rho
        return rho, tuning.auto_lam(tuning.pulls(s, U, rho)) * self.force(error) if lam is None else lam

    def in_working_dtype(self, rho: float) -> "Problem":
        """Return the problem in float32 where the cut-off stands clear of its rounding, else in float64."""
        rounding = float(np.finfo(np.float32).eps) * self.length**2 * self.X.shape[0]
        accurate = cutoff_from_rho(rho) >= FLOAT32_MARGIN * rounding
        dtype = np.float32 if self.X.dtype == np.float32 and accurate else np.float64
        return replace(self, X=self.X.astype(dtype, copy=False), filled=self.filled.astype(dtype, copy=False))


def solve_nuclear(
    problem: Problem,
    *,
    rho: float,
    lam: float,
    error: str,
    solver: str,
    init: Any,
    gram: Any,
    start_gram: Any,
    bounds: tuple[Array, Array] | None,
    seed: int,
    **budget: Any,
) -> SolverResult:
    """Minimise F of eq. (relax), with B'B held at `gram` where it is given."""
    n, dtype = problem.X.shape[0], problem.X.dtype
    penalty: NuclearPenalty | GramTarget = NuclearPenalty(rho)
    if gram is not None:
        penalty = similarity_target("gram", check_gram("gram", gram, n, dtype), rho)
    start = None
    if start_gram is not None:
        start = similarity_target("start_gram", check_gram("start_gram", start_gram, n, dtype), rho)
    elif gram is None and isinstance(init, str) and init == "zeros":
        s, U = eigenpairs(problem.kernel.gram(problem.filled))
        K = (U * np.maximum(s, 0.0)) @ U.T  # a polynomial of fractional degree need not be positive semidefinite
        start = similarity_target("K(X)", K, rho)
    objective = Objective(problem.kernel, penalty, problem.error(error), lam, TopEigenpairs(seed=seed))
    options = {} if bounds is None else {"bounds": bounds}
    return SOLVERS[solver](
        objective, _start(init, problem.filled), start=start, scale=problem.scale, **options, **budget
    )


def solve_schatten(
    problem: Problem, *, lam: float, error: str, init: Any, bounds: tuple[Array, Array] | None, **budget: Any
) -> SolverResult:
    """Minimise the Schatten penalty plus lam E along a path of falling eps."""
    objective = Objective(problem.kernel, SchattenPenalty(completion.ENTRIES_P), problem.error(error), lam)
    last, stages = completion.schatten_stages(objective, completion.ENTRIES_EPS, unit=problem.length**2)
    return solve_reduced(
        last, _start(init, problem.filled), stages=stages, bounds=bounds, scale=problem.scale, **budget
    )


def _start(init: Any, filled: Array) -> Array:
    if isinstance(init, str):
        return filled if init == "data" else np.zeros_like(filled)
    start: Array = np.asarray(init, dtype=filled.dtype)
    if start.shape != filled.shape or not np.isfinite(start).all():
        raise ValueError(f"an init array must be finite and of the shape of X, {filled.shape}, got {start.shape}")
    return start
