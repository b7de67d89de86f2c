"""The paper's own model."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernmend._typing import Array
from kernmend._validation import check_low_rank
from kernmend.estimators._base import MOVED, KernelModel, parameters
from kernmend.large.landmarks import blocks
from kernmend.model.errors import KernelError, error_model
from kernmend.model.kernels import auto_gamma, make_kernel
from kernmend.model.penalties import cutoff_from_rho
from kernmend.repair import completion
from kernmend.repair.joint import Problem, solve_nuclear, solve_schatten
from kernmend.repair.learn import CHANGED
from kernmend.repair.mender import Mender, Settings
from kernmend.repair.units import Units, resolve_bounds


@parameters
class KernelLowRank(KernelModel):
    """Recover data that has low rank in a kernel space: the model of Xie, Wu, Liu and Wang (2019).

    Every row may move. Over the data A and B, eq. (relax),

        F(A, B) = |B|_* + lam E(A; X) + rho/2 |B'B - K(A)|_F^2.

    To find wrong rows and leave the others alone, take `KernelRecovery`.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        The kernel, or an object of a subclass of `kernmend.model.kernels.Kernel`.
    gamma : float or "auto", default="auto"
        Of the Gaussian kernel exp(-gamma |a - b|^2). "auto" is 1 / (median squared distance).
    degree : float, default=2
        Of the polynomial kernel (a'b + coef0)^degree, any real number >= 1. A fractional one needs a'b + coef0 >= 0.
    coef0 : float, default=1.0
        Of the polynomial kernel, >= 0.
    lam : float or "auto", default="auto"
        The force that holds a row in place: one that the others pull with less than `lam` stays where it is. Useful
        values lie between 0.1 and 1 for `error="kernel"`.
    rho : float or "auto", default="auto"
        Think of it as a cut-off: eigenvalues of the Gram matrix up to 1.5 rho^(-2/3) count as noise. A number means the
        nuclear penalty.
    error : {"kernel", "rows", "entries"} or class, default="kernel"
        What is wrong: "rows" (whole rows, in input units), "entries" (some entries: occlusion, spikes), "kernel" (whole
        rows, in the kernel space: the paper's), or a subclass of `kernmend.model.errors.RowSum`.
    penalty : {"auto", "nuclear", "schatten"}, default="auto"
        The paper's, or Schatten-1/2 on a path, which is better where all rows move together. "auto" is "schatten" for
        errors of entries or missing entries (and rho="auto"), else "nuclear".
    solver : {"reduced", "alternating", "alternating-parallel"}, default="reduced"
        "reduced" eliminates B and is by far the fastest; "alternating" is the paper's Algorithm 1, row by row;
        "alternating-parallel" updates all rows at once.
    init : {"data", "zeros"} or array of shape (n_samples, n_features), default="data"
        Where A starts. "zeros" is the paper's, with B'B = K(X).
    bounds : None, (low, high) or "data", default=None
        Recovered values stay within; "data" is the range of each feature.
    scale : None, "auto", "columns", "rows" or array of shape (n_features,), default=None
        The units in which rows are compared, as in `KernelRecovery`.
    max_iter : int, default=200
        Iterations of the solver; with the Schatten penalty five times as many in all, as it has five rounds.
    tol : float, default=1e-6
        Stop when ten iterations together lower the objective by at most this share of it.
    random_state : int, RandomState instance or None, default=None
        Of the iterative eigen-solver. None means 0: always the same result.
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
    gamma_, lam_, rho_, error_ : float, float, float, str
        The values that were used; `gamma_` is None for kernels without it, `rho_` for the Schatten penalty.
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

    error: Any = "kernel"
    penalty: str = "auto"
    solver: str = "reduced"
    init: Any = "data"
    scale: Any = None

    _saved: ClassVar[tuple[str, ...]] = (
        *KernelModel._saved,
        *("kernel_", "gamma_", "lam_", "rho_", "error_", "entry_outliers_", "_mender", "_settings", "_units"),
    )

    def fit(self, X: Any, y: Any = None, *, gram: Any = None, start_gram: Any = None) -> "KernelLowRank":
        """Recover `X`; the result is in `recovered_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted data; NaN means missing, inf is an error.
        y : ignored
        gram : array-like of shape (n_samples, n_samples), optional
            A similarity that the recovered data should have: B'B is held at it (section 4.2 of the paper).
        start_gram : array-like of shape (n_samples, n_samples), optional
            B'B at the start only.
        """
        check_low_rank(self)
        schatten = self.penalty == "schatten"
        if gram is not None and schatten:
            raise ValueError("a given gram belongs to the nuclear penalty: leave penalty at 'auto'")
        self._forget()
        X = self._validate(X, reset=True, ensure_min_samples=2)
        resolve_bounds(self.bounds, X)  # refused before the work
        self._units = Units.of(self.scale, X, bounded=self.bounds is not None)
        inside = self._units.enter(X)
        if self.penalty == "auto":
            nuclear = not isinstance(self.rho, str) or self.solver != "reduced" or gram is not None
            schatten = not nuclear and (bool(np.isnan(X).any()) or error_model(self.error).by_entry)
        self._recover(inside, schatten, gram, start_gram)
        self.recovered_ = self._units.leave(self.recovered_, X)
        self._tell(X)
        return self

    def transform(self, X: Any) -> Any:
        """Recover rows, seen or new, against the recovered ones; every row may move."""
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        out = np.empty_like(X)
        for rows in blocks(X.shape[0]):
            out[rows] = self._units.leave(self._move(self._enter(X[rows])), X[rows])
        return out

    def score_samples(self, X: Any) -> Any:
        """Return minus how far each row moves in the kernel space, as a share of a row's length there."""
        check_is_fitted(self)
        X = self._enter(self._validate(X, reset=False))
        length = float(np.sqrt(np.mean(self.kernel_.diag(self._mender.L)))) or 1.0
        return -KernelError(self.kernel_, X, length).residuals(self._move(X)) / length

    def _recover(self, X: Array, schatten: bool, gram: Any, start_gram: Any) -> None:
        """Minimise, in the units of the fit, and store what follows."""
        model = error_model(self.error)
        filled = completion.fill_missing(X) if np.isnan(X).any() else X
        width = completion.ENTRIES_WIDTH if schatten else 1.0
        self.kernel_ = make_kernel(
            self.kernel, filled, gamma=self.gamma, degree=self.degree, coef0=self.coef0, width=width
        )
        self.gamma_, self.error_ = getattr(self.kernel_, "gamma", None), model.name
        problem = Problem.of(X, self.kernel_, model)
        bounds = resolve_bounds(self._units.bounds(self.bounds), X)
        common: dict[str, Any] = {"init": self.init, "bounds": bounds, "tol": self.tol}
        max_iter = self.max_iter * (len(completion.ENTRIES_EPS) if schatten else 1)
        self.lam_: float
        self.rho_: float | None
        with self._progress("mending", max_iter) as callback:
            common |= {"max_iter": max_iter, "callback": callback}
            lam = None if isinstance(self.lam, str) else float(self.lam)
            if schatten:
                self.lam_, self.rho_ = completion.schatten_lam(X, model) if lam is None else lam, None
                result = solve_schatten(problem, lam=self.lam_, **common)
            else:
                rho, lam = problem.rho_and_lam(None if isinstance(self.rho, str) else float(self.rho), lam)
                self.lam_, self.rho_, problem = lam, rho, problem.in_working_dtype(rho)
                grams = {"gram": gram, "start_gram": start_gram}
                result = solve_nuclear(
                    problem, rho=rho, lam=lam, solver=self.solver, seed=self._seed(), **grams, **common
                )
        self._keep(result, X.dtype)
        self.outlier_scores_ = problem.error(KernelError).residuals(result.A) / problem.sizes.length
        self.outliers_, self.threshold_ = self.outlier_scores_ > MOVED, MOVED
        if model.by_entry:
            tolerance = CHANGED * float(np.sqrt(1.0 / auto_gamma(self.recovered_) / X.shape[1]))
            self.entry_outliers_ = np.abs(np.nan_to_num(self.recovered_ - X)) > tolerance
        fixed = (None, None) if self.rho_ is None else (self.lam_, cutoff_from_rho(self.rho_))
        self._mender = Mender(result.A.astype(np.float64, copy=False), bounds, *fixed)
        self._settings = Settings(self.kernel_, 1e-5, model, 0.5)

    def _enter(self, X: Array) -> Array:
        return np.ascontiguousarray(self._units.enter(X), dtype=np.float64)

    def _move(self, X: Array) -> Array:
        """Return rows, in the units of the fit, moved against the recovered ones."""
        start = completion.fill_from(self._mender.L, X)
        return self._mender.mend_with_history(X, self._settings, start=start, max_iter=self.max_iter, tol=self.tol)[0]
