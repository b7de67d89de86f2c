"""What a fit of the joint model is to do: minimise with what was given, with what is chosen, or nothing at all."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector
from kernmend.detect.columns import Logarithms
from kernmend.detect.detector import COLUMNS_PER_ROW
from kernmend.model.errors import EntryError, KernelError, RowError, RowSum, error_model
from kernmend.model.kernels import Kernel, Polynomial, auto_gamma, make_kernel
from kernmend.model.terms import Parts
from kernmend.repair import completion
from kernmend.repair.joint import ENTRIES_EPS, ENTRIES_WIDTH, Problem, schatten_lam, solve_schatten
from kernmend.repair.joint_check import Copy, clearly_known, surely_gains, total_gain
from kernmend.repair.joint_choice import PREDICTED, Opening, choose, path_cost, polynomial_kernels, rbf_kernels
from kernmend.repair.joint_hidden import HIDDEN_ITERATIONS, cost_of_hidden
from kernmend.repair.learn import CHANGED
from kernmend.repair.units import Units
from kernmend.solvers import SolverResult, StopReason
from kernmend.solvers.result import History

TOLD = 0.6
"""`cost_of_hidden` above which the Schatten path is not taken: cubic surfaces of 100 × 20 with 10 to 50 % of their
entries wrong have 0.05 to 0.42 (seeds 73 to 80), two surfaces of 60 rows with a tenth wrong 0.45 at most, with a
tenth missing too 0.58; clean pictures 1.3 and more, tables, clean or with errors in a twentieth of their rows, 0.67."""
PATH_ROWS = 1000
"""Rows up to which the Schatten path is taken without being asked for: each of its hundreds of iterations decomposes
the Gram matrix of all rows, in 0.15 s at 1,000 and in 8 s at 3,600, where a fit did not end in 25 CPU minutes."""
GIVEN = "all that it needs was given"


@dataclass(frozen=True)
class Plan:
    """A problem and how to solve it; `lam` is None where it is best to change nothing.

    `rho` is None for the Schatten path. `cost` is what the setting leaves of injected errors, as a share of what doing
    nothing leaves; NaN where nothing was chosen. `start` is the data, or the data with wrong rows half mended, as
    `opening` says. `flags` are the rows that were found wrong, where anyone looked. `observed` are the rows with wrong
    entries filled in; then `lam` holds whole rows there. `seed` is of what is drawn at random. `asked` says that the
    user asked for the Schatten penalty, or gave `lam`.
    """

    problem: Problem
    rho: float | None
    lam: float | None
    reason: str = GIVEN
    cost: float = float("nan")
    start: Any = "data"
    flags: NDArray[np.bool_] | None = None
    schatten: bool = False
    stop_reason: StopReason = "converged"
    observed: Array | None = None
    opening: Opening = field(default_factory=Opening)
    seed: int = 0
    asked: bool = False

    @property
    def solved(self) -> Problem:
        """The problem that a solver gets."""
        if self.observed is None:
            return self.problem
        return self.problem.held_at(self.observed).of_kernel(self.problem.sizes.kernel, KernelError)

    @property
    def nothing(self) -> bool:
        """Whether nothing is to be changed."""
        return self.lam is None

    def without(self, reason: str) -> "Plan":
        """Return the plan to change nothing, with the reason."""
        return replace(self, rho=None, lam=None, reason=reason, schatten=False)

    def checked(self, A: Array, bounds: tuple[Array, Array] | None, solve: Callable[["Plan"], Array]) -> "Plan":
        """Return the plan as it is, or to change nothing where what was chosen would do more harm than good.

        `A` is what the model made of the rows, and `solve` returns what it makes of those of another plan. Where rows
        look wrong, the same is done to a copy with errors at known places; else some entries are hidden and predicted.
        """
        if self.lam is None or np.isnan(self.cost):
            return self
        if self.schatten:
            cost = self._cost_of_hidden(A, bounds)
            reason = "entries that would change are predicted hardly worse than the others"
            return self if cost <= TOLD else self.without(reason)
        if self.flags is None or self.asked:  # how far rows are to move was given
            return self
        X = self.problem.filled.astype(np.float64, copy=False)
        changed = replaced_entries(X, A) if self.problem.model.by_entry else None
        unit, placed, along = Units.of("auto", X, bounded=True).size(X), [], []
        for copy in Copy.several(X, A, self.flags, changed, self.seed):
            problem = Problem.of(copy.rows.astype(self.problem.X.dtype), self.problem.sizes.kernel, self.problem.model)
            flags = Detector.fit(copy.rows)[1].rows
            flags[copy.wrong] = True  # all errors were found in the data
            mended = solve(self.of_rows(problem, flags))
            placed.append(copy.gains(mended, unit, bounds))
            along.append(copy.gains(mended, unit, bounds, along=self.opening.along))
            if clearly_known(placed) and clearly_known(along):
                break
        if total_gain(placed) > 0 and surely_gains(along):
            return self
        return self.without("on rows with errors at known places it harms as much as it mends")

    def of_rows(self, problem: Problem, flags: NDArray[np.bool_]) -> "Plan":
        """Return the same plan for the rows of a problem, of which some look wrong."""
        X, dtype = problem.filled.astype(np.float64, copy=False), problem.X.dtype
        start = self.opening.start(X, flags).astype(dtype, copy=False)
        observed = None if self.opening.entries is None else start
        return replace(self, problem=problem, flags=flags, start=start, observed=observed)

    def _cost_of_hidden(self, A: Array, bounds: tuple[Array, Array] | None) -> float:
        """Return what the Schatten path costs, by hidden entries; those outside of bounds are taken for missing.

        Who asks for the path knows that entries are wrong: that they are few is no reason to doubt it then.
        """
        problem, X = self.problem, self.problem.X
        outside = np.zeros(X.shape, dtype=bool) if bounds is None else (bounds[0] > X) | (bounds[1] < X)
        if 2 * np.count_nonzero(outside) >= outside.size:
            return 0.0  # too little is left to judge by
        unknown, lam = outside | np.isnan(X), self.lam or 0.0
        hidden = outside & ~unknown.all(axis=1, keepdims=True) & ~unknown.all(axis=0)
        if hidden.any():  # and free of bounds: drawn into them they would change what is predicted of the others
            problem = Problem.of(np.where(hidden, np.nan, X), problem.sizes.kernel, problem.model)
            most = len(ENTRIES_EPS) * HIDDEN_ITERATIONS
            A = solve_schatten(problem, lam=lam, round_iter=HIDDEN_ITERATIONS, max_iter=most, tol=1e-5).A
        share = 0.5 if self.asked else None
        return cost_of_hidden(problem, A, replaced_entries(problem.X, A), lam, self.seed, share)

    def unchanged(self) -> SolverResult:
        """Return the rows as they are, missing entries filled in, as the result of one iteration that moved nothing."""
        history = History(0.0)
        for _ in range(2):
            history.add(Parts(0.0, 0.0, 0.0, 0), 0.0)
        return SolverResult(self.problem.filled.copy(), history.records, self.stop_reason)


@dataclass(frozen=True)
class Planner:
    """The parameters of `KernelLowRank`, explained there; `nuclear_only` if its solver has just that penalty."""

    kernel: str | Kernel
    gamma: float | str
    degree: float
    coef0: float | str
    lam: float | str
    rho: float | str
    error: Any
    penalty: str
    nuclear_only: bool
    seed: int
    callback: Callable[[int, float], None] | None = None

    def plan(self, X: Array) -> Plan:
        """Return what to do with rows."""
        rho, lam = (None if isinstance(value, str) else float(value) for value in (self.rho, self.lam))
        if rho is not None and lam is not None and self._kernel_given and self.penalty != "schatten":
            kernel = make_kernel(self.kernel, _filled(X), gamma=self.gamma, degree=self.degree, coef0=self._coef0(X))
            return Plan(Problem.of(X, kernel, self._errors(X)[0]), rho, lam)
        path = self.penalty == "schatten" or (
            self.penalty == "auto" and rho is None and not self.nuclear_only and not self._polynomial
        )
        if path and (self.penalty == "schatten" or any(error.by_entry for error in self._errors(X))):
            plan = self._path(X, lam)
            if not plan.nothing or self.penalty == "schatten":
                return plan
        return self._choice(X, rho, lam)

    @property
    def _kernel_given(self) -> bool:
        """Whether nothing is to be chosen of the kernel."""
        free = {"rbf": self.gamma, "poly": self.coef0}
        return not (isinstance(self.kernel, str) and isinstance(free.get(self.kernel), str))

    @property
    def _polynomial(self) -> bool:
        """Whether the kernel is polynomial: with it the Schatten path moves right entries as far as wrong ones."""
        return self.kernel == "poly" or isinstance(self.kernel, Polynomial)

    def _coef0(self, X: Array) -> float:
        """Return coef0 where it is given, else the mean squared length of the rows."""
        return float(np.nanmean(np.square(X)) * X.shape[1]) if isinstance(self.coef0, str) else self.coef0

    def _errors(self, X: Array) -> list[type[RowSum]]:
        """Return the error models to choose from; a given lam is the weight of the first."""
        if self.error != "auto":
            return [error_model(self.error)]
        return [KernelError] if not isinstance(self.lam, str) else [KernelError, RowError, EntryError]

    def _path(self, X: Array, lam: float | None) -> Plan:
        """Return the plan of the Schatten path, or to do nothing where it cannot tell wrong entries."""
        model = next((error for error in self._errors(X) if error.by_entry), self._errors(X)[0])
        filled, width, asked = _filled(X), ENTRIES_WIDTH, self.penalty == "schatten"
        kernel = make_kernel(
            self.kernel, filled, gamma=self.gamma, degree=self.degree, coef0=self._coef0(X), width=width
        )
        plan = Plan(Problem.of(X, kernel, model), None, lam, schatten=True, seed=self.seed, asked=asked)
        if lam is not None:
            return plan
        if not model.by_entry:
            return replace(plan, lam=schatten_lam(X, model))
        if self.penalty == "auto" and X.shape[1] > COLUMNS_PER_ROW * X.shape[0]:
            return plan.without("there are too many columns for so few rows to tell single wrong entries")
        if self.penalty == "auto" and X.shape[0] > PATH_ROWS:
            return plan.without("there are too many rows to look at single entries by penalty='schatten' unasked")
        if self.penalty == "auto" and Logarithms.of(filled.astype(np.float64, copy=False)).offset.any():
            # Rows with large amounts lie far apart, and most of their right entries would be drawn in.
            return plan.without("columns of amounts lie too far apart to tell single wrong entries")
        cost = path_cost(filled.astype(np.float64, copy=False), kernel, model, None, self.seed)
        plan = replace(plan, lam=schatten_lam(X, model), cost=cost, reason=_words(cost))
        return plan if cost <= PREDICTED else plan.without("entries cannot be told from the others of their rows")

    def _choice(self, X: Array, rho: float | None, lam: float | None) -> Plan:
        """Return the plan with what is best on injected errors."""
        wide = X.astype(np.float64, copy=False)
        filled = completion.complete(wide).A if np.isnan(wide).any() else wide
        kernels, errors = self._kernels(filled), self._errors(X)
        problem = Problem.of(X, kernels[0], errors[0], filled.astype(X.dtype, copy=False))
        budget: dict[str, Any] = {"rho": rho, "lam": lam, "seed": self.seed, "callback": self.callback}
        try:
            choice = choose(filled, kernels=kernels, errors=errors, **budget)
        except KeyboardInterrupt:
            return replace(Plan(problem, None, None, "it was interrupted"), stop_reason="interrupted")
        problem = problem.of_kernel(choice.kernel, choice.error)
        plan = Plan(problem, choice.rho, choice.lam, choice.reason, choice.cost, flags=choice.flags, seed=self.seed)
        if choice.flags is None:
            return plan
        return replace(plan, opening=choice.opening, asked=lam is not None).of_rows(problem, choice.flags)

    def _kernels(self, filled: Array) -> list[Kernel]:
        """Return the kernels to choose from."""
        if not self._kernel_given:
            return rbf_kernels(filled) if self.kernel == "rbf" else polynomial_kernels(filled, self.degree)
        return [make_kernel(self.kernel, filled, gamma=self.gamma, degree=self.degree, coef0=self._coef0(filled))]


def replaced_entries(X: Array, A: Array) -> NDArray[np.bool_]:
    """Return which observed entries of X differ from those of A by more than a small share of a typical difference.

    Columns whose spreads are far apart are judged each in its own unit: a difference that is small for the column of
    the largest values may be a large one for another.
    """
    units = Units.of("auto", X, bounded=True)
    X, A = units.enter(X), units.enter(A)
    tolerance = CHANGED * float(np.sqrt(1.0 / auto_gamma(A) / X.shape[1]))
    changed: NDArray[np.bool_] = np.abs(np.nan_to_num(A - X)) > tolerance
    return changed


def _words(cost: float) -> str:
    return f"of errors injected into single entries {100 * cost:.0f} % stay"


def _filled(X: Array) -> Array:
    """Return rows without missing entries."""
    return completion.fill_missing(X) if np.isnan(X).any() else X
