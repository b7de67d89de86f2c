"""The estimator that most users call."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernmend._typing import Array
from kernmend._validation import check_known
from kernmend.detect.flags import flag_share
from kernmend.estimators import _joint
from kernmend.estimators._base import MOVED
from kernmend.estimators._flagged_fit import PER_ROW, FlaggedRecovery, number
from kernmend.estimators._parameters import check_parameters, resolve_bounds
from kernmend.estimators._units import Units
from kernmend.large import batches as _stream
from kernmend.large import dask as _dask
from kernmend.large import landmarks as _large
from kernmend.model import tuning
from kernmend.model.errors import KernelError
from kernmend.model.kernels import Kernel
from kernmend.model.penalties import cutoff_from_rho
from kernmend.repair import completion
from kernmend.repair import row_mender as _flagged
from kernmend.repair.mender import Mender, Settings


class KernelRecovery(FlaggedRecovery):
    """Find the rows that are grossly wrong and mend them, for data that lies on a curved surface.

    By default (`repair="flagged"`) the rows are scored against each other, those that do not fit are flagged, and each
    flagged row x is replaced by the minimiser over a of

        dist(a) + lam E(a; x),

    the distance of a from the span of the good rows in the kernel space plus the error model; everything that is not
    given is chosen without labels. All other rows come back bit for bit, missing entries (NaN) filled in.

    `repair="all"` is the model of Xie, Wu, Liu and Wang (2019), in which every row may move: over the data A and B,

        F(A, B) = |B|_* + lam E(A; X) + rho/2 |B'B - K(A)|_F^2.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        The kernel, or an object of a subclass of `kernmend.model.kernels.Kernel`.
    gamma : float or "auto", default="auto"
        Of the Gaussian kernel exp(-gamma |a - b|^2). "auto" is calibrated for flagged rows, else
        1 / (median squared distance).
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
    error : {"auto", "kernel", "rows", "entries"}, default="auto"
        What is wrong: "rows" (whole rows, in input units), "entries" (some entries: occlusion, spikes), "kernel" (whole
        rows, in the kernel space: the paper's). "auto" chooses between rows and entries, from 4 features on; it is
        "kernel" if repair="all".
    repair : {"flagged", "all"}, default="flagged"
        What may move: the flagged rows, or all of them.
    contamination : float or "auto", default="auto"
        Share of the rows to flag. "auto" flags by chance: see `alpha`. 0 flags nothing and only fills in.
    alpha : float, default=0.05
        How many good rows of a clean data set may be flagged, on average.
    penalty : {"auto", "nuclear", "schatten"}, default="auto"
        With repair="all": the paper's, or Schatten-1/2 on a path, which is better where all rows move together. "auto"
        is "schatten" for error="entries" or missing entries (and rho="auto"), else "nuclear".
    bounds : None, (low, high) or "data", default=None
        Mended values stay within; "data" is the range of each feature over the good rows.
    solver : {"reduced", "alternating", "alternating-parallel"}, default="reduced"
        With repair="all": "reduced" eliminates B and is by far the fastest; "alternating" is the paper's Algorithm 1,
        row by row; "alternating-parallel" updates all rows at once.
    landmarks : int, "auto" or None, default="auto"
        With repair="flagged": how many rows, drawn at random, to learn from; the others are mended against those, in
        blocks. "auto" is all rows up to 5,000, then 2,000 of them. None is always all.
    scale : "auto", None, "columns", "rows" or array of shape (n_features,), default="auto"
        The units in which rows are compared. "columns": each column divided by its spread, for tables whose columns
        have different units. "rows": each row centred by its median and divided by its MAD, for spectra. "auto" takes
        "columns" where spreads are far apart and columns are no series, "rows" where rows are curves that differ mostly
        in offset and size, else None (pixels). With repair="all" it is None.
    init : {"data", "zeros"} or array of shape (n_samples, n_features), default="data"
        With repair="all": where A starts. "zeros" is the paper's, with B'B = K(X).
    max_iter : int, default=200
        Iterations of the solver; with the Schatten penalty five times as many in all, as it has five rounds.
    tol : float, default=1e-6
        Stop when ten iterations together lower the objective by less than this share of it.
    random_state : int, RandomState instance or None, default=None
        Of the rows held out for calibration and of the iterative eigen-solver. None means 0: always the same result.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        The mended data.
    outlier_scores_ : ndarray of shape (n_samples,)
        Higher is worse. With repair="flagged" -log10 of the chance of a good row being as far out: 6 is one in a
        million. With repair="all" how far a row was moved in the kernel space, as a share of a row's length there.
    outliers_ : ndarray of bool, shape (n_samples,)
        The rows that count as corrupted: `outlier_scores_ > threshold_`.
    threshold_ : float
        Always finite. At most -log10(alpha / (3 n)); lower where many rows are wrong and form a group of their own.
    suspects_ : ndarray of bool, shape (n_samples,)
        Rows that are unusual and were not changed.
    entry_scores_ : ndarray of shape (n_samples, n_features)
        With repair="flagged": -log10 of the chance of a good entry being as far out. Not where landmarks were drawn.
    entry_outliers_ : ndarray of bool, shape (n_samples, n_features)
        The entries of flagged rows that were found wrong, or replaced. With repair="all" only for error "entries".
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective after each iteration, the start included (for flagged rows, summed over them).
    n_iter_ : int
    stop_reason_ : {"converged", "max_iter", "stalled", "interrupted"}
    rank_ : int
        Rank of B, or of the span of the good rows.
    kernel_ : Kernel
        The kernel that was used.
    gamma_, lam_, rho_, error_ : float, float, float, str
        The values that were used; `gamma_` is None for kernels without it.
    n_samples_seen_ : int
        After `partial_fit`: rows of all calls.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend import KernelRecovery
    >>> angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X[7] = [0.4, 0.4]
    >>> est = KernelRecovery(repair="all", gamma=1.0, lam=0.3, rho=1e4)
    >>> A = est.fit_transform(X)
    >>> np.flatnonzero(est.outliers_)
    array([7])
    >>> bool(abs(np.linalg.norm(A[7]) - 1) < 0.05)
    True
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float | str = "auto",
        degree: float = 2,
        coef0: float = 1.0,
        lam: float | str = "auto",
        rho: float | str = "auto",
        error: str = "auto",
        repair: str = "flagged",
        contamination: float | str = "auto",
        alpha: float = 0.05,
        penalty: str = "auto",
        bounds: Any = None,
        solver: str = "reduced",
        landmarks: Any = "auto",
        scale: Any = "auto",
        init: Any = "data",
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.lam = lam
        self.rho = rho
        self.error = error
        self.repair = repair
        self.contamination = contamination
        self.alpha = alpha
        self.penalty = penalty
        self.bounds = bounds
        self.solver = solver
        self.landmarks = landmarks
        self.scale = scale
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, gram: Any = None, start_gram: Any = None, good: Any = None, wrong: Any = None
    ) -> "KernelRecovery":
        """Mend `X`; the result is in `recovered_`.

        Parameters
        ----------
        X : array-like or dask array or dataframe of shape (n_samples, n_features)
            The corrupted data; NaN means missing, inf is an error. Of dask data only the landmarks are computed here;
            `recovered_`, `outlier_scores_` and `outliers_` are lazy.
        y : ignored
        gram : array-like of shape (n_samples, n_samples), optional
            With repair="all", a similarity that the recovered data should have: B'B is held at it (section 4.2 of the
            paper).
        start_gram : array-like of shape (n_samples, n_samples), optional
            With repair="all", B'B at the start only.
        good, wrong : array-like of bool, shape (n_samples,), optional
            With repair="flagged", rows that you know: good ones are never flagged and always what others are held
            against; wrong ones are always flagged, and nothing is learned from them.
        """
        check_parameters(self)
        _dask.forget(self)
        for name in PER_ROW:  # of an earlier fit
            if name in vars(self):
                delattr(self, name)
        if _dask.is_lazy(X):
            if good is not None or wrong is not None:
                raise ValueError("good and wrong are masks of rows in memory: X must be too")
            _dask.fit(self, X)
            return self
        X = self._validate(X, reset=True, ensure_min_samples=2)
        good, wrong = check_known(good, wrong, X.shape[0])
        if self.repair == "all" and (good is not None or wrong is not None):
            raise ValueError("good and wrong belong to repair='flagged'")
        if self.repair == "all":
            self._units = Units.of(None if isinstance(self.scale, str) and self.scale == "auto" else self.scale, X)
            self._fit_all(self._units.enter(X), gram, start_gram)
            self.recovered_ = self._units.leave(self.recovered_, X)
        elif gram is None and start_gram is None:
            self._fit_flagged(X, good, wrong)
        else:
            raise ValueError("gram and start_gram belong to the joint model: say repair='all'")
        self._tell(X)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, recalibrate: bool = False) -> "KernelRecovery":
        """Mend a batch of rows against those found good so far, and let these follow slow drift.

        With repair="flagged". The first call is a fit, unless there was one. Each later one scores and mends the rows
        of `X` against the landmarks, good rows of which there are at most `landmarks` (2,000 if "auto"). Then rows of
        `X` that are not flagged and lack nothing become landmarks, drawn at random where they are more than a quarter
        of `landmarks`, and as many of the oldest are forgotten. How rows are scored and mended stays, but is chosen
        anew, from landmarks and batch together, while nothing was ever flagged, and when the share of flagged rows is
        over 0.2 from what it was.

        `recovered_`, `outlier_scores_`, `outliers_` are those of the rows of this call; `lam_`, `rho_`, `rank_` and
        `objective_` of the last choice.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next rows; NaN means missing, inf is an error.
        y : ignored
        recalibrate : bool, default=False
            Choose anew how to score and mend.
        """
        check_parameters(self)
        _stream.follow(self, X, recalibrate)
        return self

    def transform(self, X: Any) -> Any:
        """Mend rows, seen or new, against those that `fit` found good.

        With repair="flagged" a row that fits comes back as it is, missing entries filled in.
        """
        check_is_fitted(self)
        if _dask.is_lazy(X):
            return _dask.by_rows(self, "transform", X)
        X = self._validate(X, reset=False)
        out = np.empty_like(X)
        for rows in _large.blocks(X.shape[0]):
            A = self._rows.mend(self._units.enter(X[rows]), max_iter=self.max_iter, tol=self.tol)[0]
            out[rows] = self._units.leave(A, X[rows])
        return out

    def score_samples(self, X: Any) -> Any:
        """Return minus the outlier score of each row against the good ones: higher is more normal.

        With repair="flagged" that is log10 of the chance of a good row being as far out.
        """
        check_is_fitted(self)
        if _dask.is_lazy(X):
            return _dask.by_rows(self, "score_samples", X)
        X = np.ascontiguousarray(self._units.enter(self._validate(X, reset=False)), dtype=np.float64)
        if self._rows.detector is not None:
            parts = [self._rows.fill(X[rows]) for rows in _large.blocks(X.shape[0])]
            return -np.concatenate([self._rows.judge(part).scores for part in parts])
        moved = self._rows.mend(X, max_iter=self.max_iter, tol=self.tol)[0]
        length = float(np.sqrt(np.mean(self.kernel_.diag(self._rows.mender.L)))) or 1.0
        return -KernelError(self.kernel_, X, length).residuals(moved) / length

    def decision_function(self, X: Any) -> Any:
        """Return how far below the threshold the outlier score of each row is: negative for outliers."""
        return self.score_samples(X) + self.threshold_

    def predict(self, X: Any) -> Any:
        """Return -1 for the rows that do not fit the good ones, +1 for the others."""
        check_is_fitted(self)
        if _dask.is_lazy(X):
            return _dask.by_rows(self, "predict", X)
        return np.where(self.decision_function(X) < 0, -1, 1)

    # --- repair="all" -------------------------------------------------------------------------------------------------

    def _fit_all(self, X: Array, gram: Any, start_gram: Any) -> None:
        self.error_ = "kernel" if self.error == "auto" else self.error
        holes = bool(np.isnan(X).any())
        schatten = self.penalty == "schatten" or (
            self.penalty == "auto"
            and isinstance(self.rho, str)
            and self.solver == "reduced"
            and gram is None
            and (holes or self.error_ == "entries")
        )
        if gram is not None and schatten:
            raise ValueError("a given gram belongs to the nuclear penalty: leave penalty at 'auto'")
        filled = completion.fill_missing(X) if holes else X
        self.kernel_ = self._one_kernel(filled, width=completion.ENTRIES_WIDTH if schatten else 1.0)
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        self.kernel_.check(filled)
        problem = _joint.Problem.of(X, self.kernel_)
        bounds = resolve_bounds(self._units.bounds(self.bounds), X)
        common: dict[str, Any] = {"error": self.error_, "init": self.init, "bounds": bounds, "tol": self.tol}
        max_iter = self.max_iter * (len(completion.ENTRIES_EPS) if schatten else 1)
        with self._progress("mending", max_iter) as callback:
            common |= {"max_iter": max_iter, "callback": callback}
            if schatten:
                weights = {"entries": 1.0, "rows": np.sqrt(X.shape[1]), "kernel": 0.0}
                rule = completion.entry_lam(X) * weights[self.error_] or completion.ENTRY_PRICE
                lam, rho = rule if isinstance(self.lam, str) else float(self.lam), None
                result = _joint.solve_schatten(problem, lam=lam, **common)
            else:
                rho, lam = problem.rho_and_lam(number(self.rho), number(self.lam), self.error_)
                problem = problem.in_working_dtype(rho)
                grams = {"gram": gram, "start_gram": start_gram}
                result = _joint.solve_nuclear(
                    problem, rho=rho, lam=lam, solver=self.solver, seed=self._seed(), **grams, **common
                )
        self.lam_, self.rho_ = lam, rho
        self._keep(result, X.dtype)
        self.outlier_scores_ = problem.error("kernel").residuals(result.A) / problem.length
        self.outliers_, self.threshold_ = self.outlier_scores_ > MOVED, MOVED
        if not isinstance(self.contamination, str):
            self.outliers_, self.threshold_ = flag_share(self.outlier_scores_, float(self.contamination))
        self._rows = self._joint_rows(result.A.astype(np.float64, copy=False), bounds)
        self.suspects_ = np.zeros(X.shape[0], dtype=bool)
        if self.error_ == "entries":
            tolerance = 0.05 * float(np.sqrt(1.0 / tuning.auto_gamma(self.recovered_) / X.shape[1]))
            self.entry_outliers_ = np.abs(np.nan_to_num(self.recovered_ - X)) > tolerance

    def _joint_rows(self, A: Array, bounds: Any) -> _flagged.RowMender:
        """Return what mends new rows: the recovered ones are the reference, and every new row may move."""
        settings = Settings(self.kernel_, 1e-5, self.error_, 0.5)
        fixed = (None, None) if self.rho_ is None else (self.lam_, cutoff_from_rho(self.rho_))
        return _flagged.RowMender(Mender(A, bounds, *fixed), settings)
