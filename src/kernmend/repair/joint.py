"""The joint model, eq. (relax): the data, its sizes, and the problem that a solver gets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_gram
from kernmend.linalg.coordinates import Span
from kernmend.linalg.distances import median_observed_squared_distance
from kernmend.linalg.eigen import TopEigenpairs, eigenpairs
from kernmend.model.errors import EntryError, RowSum, Sizes
from kernmend.model.kernels import Kernel
from kernmend.model.objective import Objective
from kernmend.model.penalties import GramTarget, NuclearPenalty, SchattenPenalty, cutoff_from_rho, similarity_target
from kernmend.repair.completion import ROUND_ITER, fill_missing
from kernmend.solvers import SOLVERS, SolverResult, solve_reduced
from kernmend.solvers.active import MANY_ROWS, solve_active
from kernmend.solvers.reduced import Stage

# Gamma for wrong entries, in units of 1 / (median squared distance), and p: penalties near the rank want wide kernels,
# and a smaller p would take the error for signal.
ENTRIES_WIDTH, ENTRIES_P = 0.2, 0.5
# Path of eps for these; smaller values would take the error for signal, too.
ENTRIES_EPS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
# Price of an entry that changes by its typical size; `entry_lam` has the unit.
ENTRY_PRICE = 0.8
# Eigenvalue cut-off, in units of the rounding of the Gram matrix in float32, from which on float32 is exact enough.
FLOAT32_MARGIN = 100.0


@dataclass(frozen=True)
class Problem:
    """The data, NaN where missing, a start without NaN, what is typical of both, and the error model."""

    X: Array
    filled: Array
    sizes: Sizes
    model: type[RowSum]

    @classmethod
    def of(cls, X: Array, kernel: Kernel, model: type[RowSum], filled: Array | None = None) -> "Problem":
        """Return the problem of data; missing entries start at the mean of their neighbours, or as in `filled`."""
        if filled is None:
            filled = fill_missing(X) if np.isnan(X).any() else X
        scale = float(np.sqrt(median_observed_squared_distance(X.astype(np.float64)))) or 1.0
        return cls(X, filled, Sizes(kernel, scale, 1.0), model).of_kernel(kernel, model)

    def of_kernel(self, kernel: Kernel, model: type[RowSum]) -> "Problem":
        """Return the problem of the same data with another kernel and error model."""
        length = float(np.sqrt(np.mean(kernel.diag(self.filled), dtype=np.float64))) or 1.0
        return Problem(self.X, self.filled, Sizes(kernel, self.sizes.scale, length), model)

    def held_at(self, X: Array) -> "Problem":
        """Return the problem of other rows in place of the observed ones."""
        X = X.astype(self.X.dtype, copy=False)
        return replace(self, X=np.where(np.isnan(self.X), self.X, X) if np.isnan(self.X).any() else X, filled=X)

    def error(self, model: type[RowSum] | None = None) -> RowSum:
        """Return the error model of the data; another one than the problem's, if asked for."""
        model = model or self.model
        return model.of(self.X, self.sizes, model.joint_smoothing)

    @cached_property
    def unit_of_lam(self) -> float:
        """The weight of the error model that holds a row as firmly as weight 1 of `KernelError` does."""
        return self.model.unit_of_lam(self.sizes.steepness(self.filled), self.X.shape[1])

    def span(self) -> Span | None:
        """Return the span of the rows, where nothing depends on single features and its coordinates are fewer."""
        if self.model.by_entry or not self.sizes.kernel.turns or np.isnan(self.X).any():
            return None
        return Span.of(self.X)

    def in_working_dtype(self, rho: float) -> "Problem":
        """Return the problem in float32 where there are many rows and the cut-off stands clear of its rounding.

        Else it is in float64. With few rows little time is gained by float32, and how near to the minimum it comes
        differs from one processor to the next. Rounding errors of the entries of a Gram matrix are independent, so its
        eigenvalues move by the root of n times one of them.
        """
        rounding = float(np.finfo(np.float32).eps) * self.sizes.length**2 * float(np.sqrt(self.X.shape[0]))
        accurate = self.X.shape[0] > MANY_ROWS and cutoff_from_rho(rho) >= FLOAT32_MARGIN * rounding
        dtype = np.float32 if self.X.dtype == np.float32 and accurate else np.float64
        return replace(self, X=self.X.astype(dtype, copy=False), filled=self.filled.astype(dtype, copy=False))


def solve_nuclear(
    problem: Problem,
    *,
    rho: float,
    lam: float,
    solver: str = "reduced",
    init: Any = "data",
    gram: Any = None,
    start_gram: Any = None,
    bounds: tuple[Array, Array] | None = None,
    seed: int = 0,
    **budget: Any,
) -> SolverResult:
    """Minimise F of eq. (relax), with B'B held at `gram` where it is given; return what the solver found."""
    n, dtype = problem.X.shape[0], problem.X.dtype
    penalty: NuclearPenalty | GramTarget = NuclearPenalty(rho)
    if gram is not None:
        penalty = similarity_target("gram", check_gram("gram", gram, n, dtype), rho)
    start = None
    if start_gram is not None:
        start = similarity_target("start_gram", check_gram("start_gram", start_gram, n, dtype), rho)
    elif gram is None and isinstance(init, str) and init == "zeros":
        s, U = eigenpairs(problem.sizes.kernel.gram(problem.filled))
        K = (U * np.maximum(s, 0.0)) @ U.T  # a polynomial of fractional degree need not be positive semidefinite
        start = similarity_target("K(X)", K, rho)
    A = starting_values(init, problem.filled)
    span = problem.span() if solver == "reduced" and bounds is None else None
    within = None if span is None else (span.enter_within(problem.X), span.enter_within(A))
    if span is not None and within is not None and within[0] is not None and within[1] is not None:
        problem, A = replace(problem, X=within[0], filled=within[0]), within[1]
    else:
        span = None
    objective = Objective(problem.sizes.kernel, penalty, problem.error(), lam, TopEigenpairs(seed=seed))
    options: dict[str, Any] = {} if bounds is None else {"bounds": bounds}
    if solver == "reduced" and isinstance(penalty, NuclearPenalty) and start is None and n > MANY_ROWS:
        result = solve_active(objective, A, penalty, scale=problem.sizes.scale, **options, **budget)
    else:
        result = SOLVERS[solver](objective, A, start=start, scale=problem.sizes.scale, **options, **budget)
    return result if span is None else replace(result, A=result.A @ span.basis)


def entry_lam(X: Array) -> float:
    """Return 0.8 min(1, sqrt(6 d / n)) / sqrt(d m), m the median squared distance: the price of changing an entry.

    For the Schatten path over all entries, with its own gamma, p and eps. What a wrong row adds to the penalty does not
    depend on d, and so must be what it costs to mend it: a share of the d entries, each changed by about sqrt(m / d).
    Where n is far above d the penalty feels a single row less. Both were checked on n from 40 to 500, d from 10 to 40
    and 10-50 % of wrong entries. NaN is allowed; 1.0 where no two rows differ.
    """
    n, d = X.shape
    median = median_observed_squared_distance(X)
    return ENTRY_PRICE * min(1.0, float(np.sqrt(6.0 * d / n))) / float(np.sqrt(d * median)) if median > 0 else 1.0


def schatten_lam(X: Array, model: type[RowSum]) -> float:
    """Return the weight of an error model on the Schatten path: what `entry_lam` is for entries, in its own unit."""
    if not model.measured_in_input:
        return ENTRY_PRICE
    d = X.shape[1]
    return entry_lam(X) * model.unit_of_lam(1.0, d) / EntryError.unit_of_lam(1.0, d)


def schatten_stages(
    objective: Objective, eps: Sequence[float], *, unit: float = 1.0, round_iter: int = ROUND_ITER
) -> tuple[Objective, list[Stage]]:
    """Return the last objective of a path of falling `eps`, and the stages before it, for `solve_reduced`.

    `objective` has a `SchattenPenalty`, whose p is kept. `unit` is the length^2 of a sample in the kernel space, which
    `eps` is counted in; each round but the last takes at most `round_iter` iterations.
    """
    if not isinstance(objective.penalty, SchattenPenalty):
        raise TypeError(f"a path of eps needs a SchattenPenalty, not {type(objective.penalty).__name__}")
    *before, last = (replace(objective, penalty=replace(objective.penalty, eps=unit * value)) for value in eps)
    return last, [Stage(each, round_iter) for each in before]


def solve_schatten(
    problem: Problem,
    *,
    lam: float,
    init: Any = "data",
    bounds: tuple[Array, Array] | None = None,
    eps: Sequence[float] = ENTRIES_EPS,
    round_iter: int = ROUND_ITER,
    **budget: Any,
) -> SolverResult:
    """Minimise the Schatten penalty plus lam E along a path of falling `eps`; return what the solver found."""
    objective = Objective(problem.sizes.kernel, SchattenPenalty(ENTRIES_P), problem.error(), lam)
    unit = problem.sizes.length**2
    last, stages = schatten_stages(objective, eps, unit=unit, round_iter=round_iter)
    return solve_reduced(
        last, starting_values(init, problem.filled), stages=stages, bounds=bounds, scale=problem.sizes.scale, **budget
    )


def starting_values(init: Any, filled: Array) -> Array:
    """Return where A starts: at the data `filled`, at zeros, or at an array; ValueError if that has another shape."""
    if isinstance(init, str):
        return np.zeros_like(filled) if init == "zeros" else filled
    start: Array = np.asarray(init, dtype=filled.dtype)
    if start.shape != filled.shape or not np.isfinite(start).all():
        raise ValueError(f"an init array must be finite and of the shape of X, {filled.shape}, got {start.shape}")
    return start
