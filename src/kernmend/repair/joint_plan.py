"""What a fit of the joint model is to do: minimise with what was given, with what is chosen, or nothing at all."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector
from kernmend.detect.detector import COLUMNS_PER_ROW
from kernmend.model.errors import EntryError, KernelError, RowError, RowSum, error_model
from kernmend.model.kernels import Kernel, Polynomial, auto_gamma, make_kernel
from kernmend.model.terms import Parts
from kernmend.repair import completion
from kernmend.repair.joint import ENTRIES_EPS, ENTRIES_WIDTH, Problem, schatten_lam, solve_schatten
from kernmend.repair.joint_choice import PREDICTED, choose, path_cost, polynomial_kernels, rbf_kernels
from kernmend.repair.joint_hidden import HIDDEN_ITERATIONS, column_units, predict_hidden
from kernmend.repair.learn import CHANGED
from kernmend.repair.mender import Settings
from kernmend.repair.units import Units
from kernmend.solvers import SolverResult, StopReason
from kernmend.solvers.result import History

FEWEST_CHANGED = 0.01
"""Share of the entries that the Schatten path must change to be taken: of clean cubic surfaces it changes up to 0.7 %
(`python -m benchmarks joint`, the cubic surface without wrong entries)."""
FEWEST_UNSEEN = 0.1
"""Share of the entries that it must change to be taken where no row was found wrong. Of 40 clean cubic surfaces of 40
to 200 rows and 5 to 20 columns it changes 1 to 9.6 %, and few wrong entries are found by the detection as well; more of
them, in all rows, are not (half of the entries of the cubic surface in `python -m benchmarks joint`)."""
TOLD = 0.27
"""`Predicted.kept` above which entries that the Schatten path changes are not told from the others. Cubic surfaces of
100 × 20 with half of their entries wrong have 0.11 to 0.22, with fewer wrong less (seeds 0 to 9). Tables of breast
cancer and macrodata with a twentieth of their rows wrong have 0.30 and 0.33, iris 0.44. Chosen on these, midway."""
TOLD_SHARE = 0.5
"""The same, over the share of entries that change: what is predicted of the others is spoilt by wrong entries, the less
the fewer they are. Cubic surfaces with 10 to 50 % of their entries wrong, of 100 × 20 and 80 × 10, have 0.04 to 0.52
(seeds 0 and 1). Tables near a plane, whose ends the path draws inwards, have 1.1 to 1.3, those real tables 0.56 to
2.1, cars 0.66. Not for a path that the user asks for."""
LINEAR = 0.85
"""`Predicted.linear` above which a linear model predicts about as well: then the curved one is not what the data has.
Those cubic surfaces have 0.02 to 0.69, breast cancer with a twentieth of its rows wrong 0.95, the other tables above,
which the other ratios tell, 0.27 to 0.68. Midway. Not for a path that the user asks for."""
PATH_ROWS = 1000
"""Rows up to which the Schatten path is taken without being asked for: each of its hundreds of iterations decomposes
the Gram matrix of all rows, in 0.15 s at 1,000 and in 8 s at 3,600, where a fit did not end in 25 CPU minutes."""
GIVEN = "all that it needs was given"


@dataclass(frozen=True)
class Plan:
    """A problem and how to solve it; `lam` is None where it is best to change nothing.

    `rho` is None for the Schatten path. `cost` is what the setting leaves of injected errors, as a share of what doing
    nothing leaves; NaN where nothing was chosen. `start` is the data, or the data with wrong rows half mended. `flags`
    are the rows that were found wrong, where anyone looked. `observed` are the rows with wrong entries filled in as
    `entries` say; then `lam` holds whole rows there. `seed` is of what is drawn at random. `asked` says that
    the user asked for the Schatten penalty.
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
    entries: Settings | None = None
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

    def after(self, A: Array, bounds: tuple[Array, Array] | None) -> "Plan":
        """Return the plan as it is, or to change nothing where what was chosen moves good rows or no entry at all.

        Entries outside of bounds are moved anyway, so what becomes of them says nothing of the others.
        """
        if self.lam is None or np.isnan(self.cost):
            return self
        X = self.problem.X
        outside = np.zeros(X.shape, dtype=bool) if bounds is None else (bounds[0] > X) | (bounds[1] < X)
        if self.schatten:
            replaced = replaced_entries(X, A)
            changed = float(replaced.mean())
            if changed < FEWEST_CHANGED or (changed < FEWEST_UNSEEN and not _any_row_wrong(self.problem.filled)):
                return self.without("no entry was found wrong")
            if self._predicted_hardly_worse(A, replaced, outside):
                return self.without("entries that would change are predicted hardly worse than the others")
        if self.flags is not None:
            good = ~self.flags
            by_entry = self.problem.model.by_entry  # else the unit of rows, unless columns are far apart
            unit = column_units(X) if by_entry else Units.of("auto", X, bounded=True).size(X)
            squares = np.square((A - X) / unit, dtype=np.float64)
            moved = np.nansum(np.where(outside & good[:, np.newaxis], 0.0, squares), axis=1)
            most = max(int(good.sum() - self.flags.sum()), int(good.sum()) // 2)  # as many again may be wrong, and move
            if np.sort(moved[good])[:most].sum() > moved[self.flags].sum():
                return self.without("the rows that look right would have moved more than those that look wrong")
        return self

    def _predicted_hardly_worse(self, A: Array, replaced: NDArray[np.bool_], outside: NDArray[np.bool_]) -> bool:
        """Return whether entries that the Schatten path replaces are not told from those that it leaves.

        Entries outside of bounds are taken for missing, and the path is then free of bounds: drawn into them they would
        change what is predicted of the others. With half of all entries outside too little is left to judge by.
        """
        if 2 * np.count_nonzero(outside) >= outside.size:
            return False
        problem, X = self.problem, self.problem.X
        unknown = outside | np.isnan(X)
        hidden = outside & ~unknown.all(axis=1, keepdims=True) & ~unknown.all(axis=0)
        lam = self.lam or 0.0
        if hidden.any():
            problem = Problem.of(np.where(hidden, np.nan, X), problem.sizes.kernel, problem.model)
            most = len(ENTRIES_EPS) * HIDDEN_ITERATIONS
            A = solve_schatten(problem, lam=lam, round_iter=HIDDEN_ITERATIONS, max_iter=most, tol=1e-5).A
            replaced = replaced_entries(problem.X, A)
        predicted = predict_hidden(problem, A, replaced, lam, self.seed)
        if self.asked:
            return predicted.kept > TOLD
        share = float(replaced[~np.isnan(problem.X)].mean())
        return predicted.kept > min(TOLD, TOLD_SHARE * share) or predicted.linear > LINEAR

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
        start = "data" if choice.start is None else choice.start.astype(X.dtype, copy=False)
        problem = problem.of_kernel(choice.kernel, choice.error)
        plan = Plan(problem, choice.rho, choice.lam, choice.reason, choice.cost, start, choice.flags)
        return replace(plan, observed=choice.observed, entries=choice.entries)

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


def _any_row_wrong(X: Array) -> bool:
    """Return whether the detection finds a wrong row."""
    return bool(Detector.fit(X.astype(np.float64, copy=False))[1].rows.any())


def _words(cost: float) -> str:
    return f"of errors injected into single entries {100 * cost:.0f} % stay"


def _filled(X: Array) -> Array:
    """Return rows without missing entries."""
    return completion.fill_missing(X) if np.isnan(X).any() else X
