"""The paper's own model."""

import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_gram, check_low_rank
from kernmend.estimators._base import MOVED, KernelModel, parameters
from kernmend.model.errors import KernelError
from kernmend.model.penalties import cutoff_from_rho
from kernmend.repair.completion import fill_from
from kernmend.repair.joint import ENTRIES_EPS, solve_nuclear, solve_schatten, starting_values
from kernmend.repair.joint_plan import Plan, Planner, replaced_entries
from kernmend.repair.mender import Mender, Settings
from kernmend.repair.row_mender import blocks
from kernmend.repair.units import Units, resolve_bounds
from kernmend.solvers import SolverResult


class NothingMendedWarning(UserWarning):
    """`KernelLowRank` left the data as it is: nothing was found wrong, or no setting mends more than it harms.

    Examples
    --------
    >>> import warnings
    >>> from kernmend import NothingMendedWarning
    >>> warnings.filterwarnings("ignore", category=NothingMendedWarning)  # where you expect clean data
    """


@parameters
class KernelLowRank(KernelModel):
    """Recover data that has low rank in a kernel space: the model of Xie, Wu, Liu and Wang (2019).

    Every row may move. Over the data A and B, eq. (relax),

        F(A, B) = |B|_* + lam E(A; X) + rho/2 |B'B - K(A)|_F^2.

    To find wrong rows and leave the others alone, take `KernelRecovery`.

    A fit moves all rows together, while `transform` and `predict` move each row by itself, against the recovered rows:
    they minimise its distance from what these span plus lam E. So what `outliers_` says of a row of the fit, `predict`
    may not say of the same row. One that the fit flagged counts as good if the recovered rows span where it was, wrong
    ones that stayed among them, or if it is so far from them that nothing pulls it.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        The kernel, or an object of a subclass of `kernmend.model.kernels.Kernel`.
    gamma : float or "auto", default="auto"
        Of the Gaussian kernel exp(-gamma |a - b|^2). What is "auto" among gamma or coef0, lam, rho and error is chosen
        together: the rows that look wrong are mended once, what that took off them is injected into good rows, and the
        setting is kept that brings those back best and moves the others least. Where none does more good than harm, or
        no row looks wrong, nothing is changed, and a `NothingMendedWarning` says so.
    degree : float, default=2
        Of the polynomial kernel (a'b + coef0)^degree, any real number >= 1. A fractional one needs a'b + coef0 >= 0.
    coef0 : float or "auto", default="auto"
        Of the polynomial kernel, >= 0; "auto" as for gamma.
    lam : float or "auto", default="auto"
        The force that holds a row in place: one that the others pull with less than `lam` stays where it is. Useful
        values lie between 0.1 and 1 for `error="kernel"`.
    rho : float or "auto", default="auto"
        Think of it as a cut-off: eigenvalues of the Gram matrix up to 1.5 rho^(-2/3) count as noise. A number means the
        nuclear penalty.
    error : {"kernel", "rows", "entries", "auto"} or class, default="kernel"
        What is wrong: "rows" (whole rows, in input units), "entries" (some entries: occlusion, spikes), "kernel" (whole
        rows, in the kernel space: the paper's), or a subclass of `kernmend.model.errors.RowSum`. "auto" is whichever of
        the three leaves least of injected errors; "kernel" where `lam` is given, whose unit differs among them. Where
        lam is chosen and a few changed entries make the rows that look wrong look right, "entries" fills those in, row
        by row, and holds whole rows from then on; lam is that of "kernel" then.
    penalty : {"auto", "nuclear", "schatten"}, default="auto"
        The paper's, or Schatten-1/2 on a path, which is better where every row has wrong entries. "auto" is "schatten"
        for errors of entries in data with at least twice as many rows as columns (rho="auto", no polynomial kernel) if
        it brings injected entries back, else "nuclear".
    solver : {"reduced", "alternating", "alternating-parallel"}, default="reduced"
        "reduced" eliminates B and is by far the fastest; "alternating" is the paper's Algorithm 1, row by row;
        "alternating-parallel" updates all rows at once.
    init : {"auto", "data", "zeros"} or array of shape (n_samples, n_features), default="auto"
        Where A starts; an array is in the units of the data. "auto" is the data, with the rows that look wrong mended
        one by one where anything is chosen: a far row feels no pull. "zeros" is the paper's, with B'B = K(X).
    bounds : None, (low, high) or "data", default=None
        Recovered values stay within; "data" is the range of each feature.
    scale : None, "auto", "columns", "rows" or array of shape (n_features,), default=None
        The units in which rows are compared, as in `KernelRecovery`.
    max_iter : int, default=200
        Iterations of the solver; with the Schatten penalty five times as many in all, as it has five rounds.
    tol : float, default=1e-6
        Stop when ten iterations together lower the objective by at most this share of it; above 600 rows, most of
        which stay where they are, also by at most a thousand times this share of what it fell since the start.
    random_state : int, RandomState instance or None, default=None
        Of the good rows that errors are injected into where anything is chosen, and of the iterative eigen-solver. None
        means 0: always the same result.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        The recovered data A.
    outlier_scores_ : ndarray of shape (n_samples,)
        How far a row was moved in the kernel space, as a share of a row's length there. Higher is worse.
    outliers_ : ndarray of bool, shape (n_samples,)
        The rows that moved by more than `threshold_`, 1 % of that length.
    threshold_ : float
    entry_outliers_ : ndarray of bool, shape (n_samples, n_features)
        The entries that changed, with an error model of entries only.
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective after each iteration, the start included.
    n_iter_ : int
    stop_reason_ : {"converged", "max_iter", "stalled", "interrupted"}
    history_ : list of IterationRecord
        The parts of the objective, and the time, of each iteration.
    rank_ : int
        Rank of B.
    kernel_ : Kernel
        The kernel that was used.
    gamma_, coef0_, lam_, rho_, error_ : float, float, float, float, str
        The values that were used; `gamma_` and `coef0_` are None for kernels without them, `rho_` for the Schatten
        penalty, `rho_` and `lam_` where nothing was changed.
    choice_cost_ : float
        The squared error that the setting leaves of injected errors, with how far it moves good rows, as a share of
        what doing nothing leaves: below 1 it helps. NaN where everything was given.
    reason_ : str
        Why this setting was taken, or why nothing was changed.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend import KernelLowRank
    >>> angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X[7] = [0.4, 0.4]
    >>> low = KernelLowRank(gamma=1.0, lam=0.3, rho=1e4)
    >>> A = low.fit_transform(X)
    >>> np.flatnonzero(low.outliers_)
    array([7])
    >>> bool(abs(np.linalg.norm(A[7]) - 1) < 0.05)
    True
    """

    coef0: Any = "auto"
    error: Any = "kernel"
    penalty: str = "auto"
    solver: str = "reduced"
    init: Any = "auto"
    scale: Any = None

    _saved: ClassVar[tuple[str, ...]] = (
        *KernelModel._saved,
        *("kernel_", "gamma_", "coef0_", "lam_", "rho_", "error_", "choice_cost_", "reason_"),
        *("entry_outliers_", "_mender", "_settings", "_units"),
    )

    def fit(self, X: Any, y: Any = None, *, gram: Any = None, start_gram: Any = None) -> "KernelLowRank":
        """Recover `X`; the result is in `recovered_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted data; NaN means missing, inf is an error.
        y : None
            Ignored; there for the pipelines of scikit-learn.
        gram : array-like of shape (n_samples, n_samples), optional
            A similarity that the recovered data should have: B'B is held at it (section 4.2 of the paper).
        start_gram : array-like of shape (n_samples, n_samples), optional
            B'B at the start only.

        Returns
        -------
        KernelLowRank
            The estimator itself, fitted.
        """
        check_low_rank(self)
        self._check_gram(gram, start_gram)
        self._forget()
        X = self._validate(X, reset=True, ensure_min_samples=2)
        bounds, start = resolve_bounds(self.bounds, X), starting_values(self.init, X)  # refused before the work
        if start_gram is not None:
            check_gram("start_gram", start_gram, X.shape[0], X.dtype)
        self._units = Units.of(self.scale, X, bounded=self.bounds is not None)
        init = self.init if isinstance(self.init, str) else self._units.enter(X, start)
        self._recover(self._units.enter(X), init, gram, start_gram)
        self.recovered_ = self._units.leave(self.recovered_, X)
        if self.lam_ is None:
            self.recovered_ = np.where(np.isnan(X), self.recovered_, X)  # bit for bit, whatever the units did
            if bounds is not None:
                self.recovered_ = np.clip(self.recovered_, *bounds).astype(X.dtype, copy=False)
        self._tell(X)
        if self.lam_ is None:
            warnings.warn(f"nothing was mended: {self.reason_}", NothingMendedWarning, stacklevel=2)
        return self

    def _mend_rows(self, X: Array) -> Array:
        """Return rows recovered against the recovered ones; every row may move."""
        out = np.empty_like(X)
        for rows in blocks(X.shape[0]):
            out[rows] = self._units.leave(self._move(self._enter(X[rows])), X[rows])
        return out

    def _score_rows(self, X: Array) -> Array:
        """Return how far each row moves in the kernel space, as a share of a row's length there."""
        inside = self._enter(X)
        length = float(np.sqrt(np.mean(self.kernel_.diag(self._mender.L)))) or 1.0
        return KernelError(self.kernel_, inside, length).residuals(self._move(inside)) / length

    def _check_gram(self, gram: Any, start_gram: Any) -> None:
        """Raise ValueError where a given gram goes with something that it cannot."""
        if self.penalty == "schatten" and not (gram is None and start_gram is None):
            raise ValueError("a given gram belongs to the nuclear penalty: leave penalty at 'auto'")
        if gram is None:
            return
        missing = [name for name in ("lam", "rho", *self._kernel_parameter()) if isinstance(getattr(self, name), str)]
        if missing:
            raise ValueError(f"a given gram needs a number for {' and '.join(missing)}: nothing says what to choose by")

    def _kernel_parameter(self) -> tuple[str, ...]:
        """Return the name of what can be chosen of the kernel."""
        names = {"rbf": ("gamma",), "poly": ("coef0",)}
        return names.get(self.kernel, ()) if isinstance(self.kernel, str) else ()

    def _recover(self, X: Array, init: Any, gram: Any, start_gram: Any) -> None:
        """Choose what was not given, minimise, in the units of the fit, and store what follows."""
        bounds = resolve_bounds(self._units.bounds(self.bounds), X)
        model = self.kernel, self.gamma, self.degree, self.coef0, self.lam, self.rho, self.error, self.penalty
        with self._counting("choosing", 12) as callback:
            planner = Planner(*model, self.solver != "reduced", self._seed(), callback)
            plan = planner.plan(X)
        path = plan.schatten and self.penalty == "auto"
        nuclear = {"solver": self.solver, "seed": planner.seed, "gram": gram, "start_gram": start_gram}
        given = init, bounds, nuclear
        plan, result = self._carry_out(plan, *given)
        if path and plan.nothing:  # rows may be wrong where the path finds no entry that is
            plan, result = self._carry_out(replace(planner, nuclear_only=True).plan(X), *given)
        self._store(plan, result, bounds)

    def _carry_out(
        self, plan: Plan, init: Any, bounds: tuple[Array, Array] | None, nuclear: dict[str, Any]
    ) -> tuple[Plan, SolverResult]:
        """Minimise as planned; return the plan, changed to doing nothing where that is better, and what was found.

        `nuclear` are further arguments of `solve_nuclear`.
        """
        if plan.lam is None:
            return plan, plan.unchanged()
        starts = isinstance(init, str) and init == "auto"

        def solve(plan: Plan, init: Any, given: dict[str, Any], description: str) -> SolverResult:
            max_iter = self.max_iter * (len(ENTRIES_EPS) if plan.schatten else 1)
            with self._progress(description, max_iter) as progress:
                common: dict[str, Any] = {"init": init, "bounds": bounds, "tol": self.tol, "max_iter": max_iter}
                common |= {"lam": plan.lam, "callback": progress}
                if plan.rho is None:
                    return solve_schatten(plan.problem, **common)
                return solve_nuclear(plan.solved.in_working_dtype(plan.rho), rho=plan.rho, **common, **given)

        def of_copy(plan: Plan) -> Array:
            """Return what the fit makes of a copy, which no Gram matrix was given for."""
            given = {key: value for key, value in nuclear.items() if key in ("solver", "seed")}
            return solve(plan, plan.start if starts or not isinstance(init, str) else init, given, "trying it").A

        result = solve(plan, plan.start if starts else init, nuclear, "mending")
        plan = plan.checked(result.A, bounds, of_copy)
        return plan, plan.unchanged() if plan.nothing else result

    def _store(self, plan: Plan, result: SolverResult, bounds: tuple[Array, Array] | None) -> None:
        """Store what was chosen and what came of it."""
        problem = plan.problem
        self.kernel_, self.lam_, self.rho_ = problem.sizes.kernel, plan.lam, plan.rho
        self.gamma_, self.coef0_ = (getattr(self.kernel_, name, None) for name in ("gamma", "coef0"))
        self.error_, self.reason_, self.choice_cost_ = problem.model.name, plan.reason, plan.cost
        self._keep(result, problem.X.dtype)
        self.outlier_scores_ = problem.error(KernelError).residuals(result.A) / problem.sizes.length
        self.outliers_, self.threshold_ = self.outlier_scores_ > MOVED, MOVED
        if problem.model.by_entry:
            self.entry_outliers_ = replaced_entries(problem.X, self.recovered_)
        given = self.rho_ is not None and plan.opening.entries is None
        fixed = (self.lam_, cutoff_from_rho(self.rho_)) if given and self.rho_ is not None else (None, None)
        self._mender = Mender(result.A.astype(np.float64, copy=False), bounds, *fixed)
        self._settings = plan.opening.entries or Settings(self.kernel_, 1e-5, problem.model, 0.5)

    def _enter(self, X: Array) -> Array:
        return np.ascontiguousarray(self._units.enter(X), dtype=np.float64)

    def _move(self, X: Array) -> Array:
        """Return rows, in the units of the fit, moved against the recovered ones."""
        start = fill_from(self._mender.L, X)
        if self.lam_ is None:
            return start
        return self._mender.mend_with_history(X, self._settings, start=start, max_iter=self.max_iter, tol=self.tol)[0]
