"""The estimator that most users call."""

import logging
import numbers
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from kernmend import tuning
from kernmend._progress import progress_bar
from kernmend._typing import Array
from kernmend.errors import KernelError
from kernmend.estimators._validation import check_choice, check_finite, check_gram, check_positive
from kernmend.kernels import RBF, Kernel, Linear, Polynomial, median_squared_distance
from kernmend.objective import Objective
from kernmend.solvers import SolverResult, solve_alternating, solve_parallel, solve_reduced
from kernmend.spectral import NuclearPenalty, TopEigenpairs, cutoff_from_rho, eigenpairs, similarity_target

logger = logging.getLogger("kernmend")

SOLVERS = {"reduced": solve_reduced, "alternating": solve_alternating, "alternating-parallel": solve_parallel}
KERNELS = ("rbf", "poly", "linear")
SMOOTHING = 1e-3  # mu of the error term, as a share of the length of a sample in the kernel space
MOVED = 1e-2  # of the same length: a sample that moved farther counts as an outlier
FLOAT32_MARGIN = 100.0  # eigenvalue cut-off over float32's rounding of the Gram matrix


class KernelRecovery(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Mend grossly corrupted samples of data that has low rank in a kernel space.

    Minimises, over the recovered data A and a matrix B,

        F(A, B) = |B|_* + lam sum_i |phi(a_i) - phi(x_i)| + rho/2 |B'B - K(A)|_F^2,

    where phi is the feature map of the kernel and K(A) its Gram matrix (Xie, Wu, Liu and Wang, 2019). A sample that
    fits the others stays where it is; one that does not is moved to where it would.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        The kernel, or an object of a subclass of `kernmend.kernels.Kernel`.
    gamma : float or "auto", default="auto"
        Of the Gaussian kernel exp(-gamma |a - b|^2). "auto" is 1 / (median squared distance).
    degree : float, default=2
        Of the polynomial kernel (a'b + coef0)^degree, any real number >= 1. A fractional one needs a'b + coef0 >= 0.
    coef0 : float, default=1.0
        Of the polynomial kernel, >= 0.
    lam : float or "auto", default="auto"
        The force that holds a sample in place: one that the others pull with less than `lam` stays where it is.
        Useful values lie between 0.1 and 1. "auto" puts the threshold above the bulk of the pulls.
    rho : float or "auto", default="auto"
        Think of it as a cut-off: eigenvalues of the Gram matrix up to 1.5 rho^(-2/3) count as noise. "auto" keeps at
        most an eighth of them.
    error : {"kernel"}, default="kernel"
        What is wrong: "kernel" is the paper's model, whole samples, their distance measured in the kernel space.
    repair : {"all"}, default="all"
        What may move: "all" is the plain minimiser, in which every sample may.
    contamination : float or "auto", default="auto"
        Share of the samples to flag in `outliers_`, those that moved farthest. "auto" flags the ones that moved by
        over 1 % of a sample's length in the kernel space.
    solver : {"reduced", "alternating", "alternating-parallel"}, default="reduced"
        "reduced" eliminates B and is by far the fastest; "alternating" is the paper's Algorithm 1, row by row;
        "alternating-parallel" updates all rows at once.
    init : {"data", "zeros"} or array of shape (n_samples, n_features), default="data"
        Where A starts. "zeros" is the paper's, with B'B = K(X).
    max_iter : int, default=200
        Iterations of the solver.
    tol : float, default=1e-6
        Stop when ten iterations together lower F by less than this share of it.
    random_state : int, RandomState instance or None, default=None
        Of the iterative eigen-solver for more than 600 samples. None means 0: the same result every time.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        The mended data.
    outlier_scores_ : ndarray of shape (n_samples,)
        How far each sample was moved in the kernel space, as a share of the root mean square length of a sample
        there; higher is worse. Between 0 and 1.42 for the Gaussian kernel.
    outliers_ : ndarray of bool, shape (n_samples,)
        The samples that count as corrupted.
    objective_ : ndarray of shape (n_iter_ + 1,)
        F after each iteration, the start included; it never rises.
    history_ : list of IterationRecord
        The same with its three parts, the rank, the step and the seconds.
    n_iter_ : int
    stop_reason_ : {"converged", "max_iter", "stalled", "interrupted"}
    rank_ : int
        Rank of B.
    kernel_ : Kernel
        The kernel that was used.
    gamma_, lam_, rho_ : float
        The values that were used; `gamma_` is None for kernels without it.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend import KernelRecovery
    >>> angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X[7] = [0.4, 0.4]
    >>> est = KernelRecovery(gamma=1.0, lam=0.3, rho=1e4)
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
        error: str = "kernel",
        repair: str = "all",
        contamination: float | str = "auto",
        solver: str = "reduced",
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
        self.solver = solver
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, gram: Any = None, start_gram: Any = None) -> "KernelRecovery":
        """Mend `X`; the result is in `recovered_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted data, finite.
        y : ignored
        gram : array-like of shape (n_samples, n_samples), optional
            A similarity that the recovered data should have: B'B is held at it (section 4.2 of the paper).
        start_gram : array-like of shape (n_samples, n_samples), optional
            B'B at the start only.
        """
        self._check_parameters()
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, ensure_min_samples=2)
        check_finite(X, getattr(self, "feature_names_in_", None))
        self._fit(X, gram, start_gram)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Mend `X` and return the result. Parameters as in `fit`."""
        return self.fit(X, y, **fit_params).recovered_

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Mend `X` and return -1 for the samples that count as corrupted, +1 for the others."""
        return np.where(self.fit(X, y, **fit_params).outliers_, -1, 1)

    def _fit(self, X: Array, gram: Any, start_gram: Any) -> None:
        self.kernel_ = self._make_kernel(X)
        self.kernel_.check(X)
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        length = float(np.sqrt(np.mean(self.kernel_.diag(X), dtype=np.float64))) or 1.0
        self.rho_, self.lam_ = self._choose_rho_and_lam(X)
        work = X.astype(self._working_dtype(X, length), copy=False)

        objective = Objective(
            kernel=self.kernel_,
            penalty=NuclearPenalty(self.rho_),
            error=KernelError(self.kernel_, work, SMOOTHING * length),
            lam=self.lam_,
            eigen=TopEigenpairs(seed=self._seed()),
        )
        result = self._solve(objective, work, gram, start_gram)

        self.recovered_ = result.A.astype(X.dtype, copy=False)
        self.history_ = result.history
        self.objective_ = result.objective
        self.n_iter_ = result.n_iter
        self.stop_reason_ = result.stop_reason
        self.rank_ = result.rank
        self.outlier_scores_ = objective.error.residuals(result.A) / length
        self.outliers_ = self._flag(self.outlier_scores_)
        self._tell()

    def _solve(self, objective: Objective, X: Array, gram: Any, start_gram: Any) -> SolverResult:
        n = X.shape[0]
        start = None
        if gram is not None:
            target = similarity_target("gram", check_gram("gram", gram, n, X.dtype), self.rho_)
            objective = Objective(objective.kernel, target, objective.error, objective.lam, objective.eigen)
        if start_gram is not None:
            start = similarity_target("start_gram", check_gram("start_gram", start_gram, n, X.dtype), self.rho_)
        elif gram is None and isinstance(self.init, str) and self.init == "zeros":
            start = similarity_target("K(X)", objective.kernel.gram(X), self.rho_)
        bar = progress_bar("mending", self.max_iter) if self.verbose else nullcontext()
        with bar as callback:
            return SOLVERS[self.solver](
                objective,
                self._start(X),
                start=start,
                scale=float(np.sqrt(median_squared_distance(X))) or 1.0,
                max_iter=self.max_iter,
                tol=self.tol,
                callback=callback,
            )

    def _make_kernel(self, X: Array) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if self.kernel == "rbf":
            return RBF(tuning.auto_gamma(X) if isinstance(self.gamma, str) else check_positive("gamma", self.gamma))
        if self.kernel == "poly":
            return Polynomial(self.degree, self.coef0)
        return Linear()

    def _choose_rho_and_lam(self, X: Array) -> tuple[float, float]:
        """Return (rho, lam); one eigendecomposition serves both rules, none where both are given."""
        if not isinstance(self.rho, str) and not isinstance(self.lam, str):
            return float(self.rho), float(self.lam)
        s, U = eigenpairs(self.kernel_.gram(X.astype(np.float64, copy=False)))
        rho = tuning.auto_rho(s) if isinstance(self.rho, str) else float(self.rho)
        lam = tuning.auto_lam(tuning.pulls(s, U, rho)) if isinstance(self.lam, str) else float(self.lam)
        return rho, lam

    def _working_dtype(self, X: Array, length: float) -> Any:
        """float32 where the eigenvalue cut-off stands clear of its rounding, else float64."""
        rounding = float(np.finfo(np.float32).eps) * length**2 * X.shape[0]
        accurate = cutoff_from_rho(self.rho_) >= FLOAT32_MARGIN * rounding
        return np.float32 if X.dtype == np.float32 and accurate else np.float64

    def _start(self, X: Array) -> Array:
        if isinstance(self.init, str):
            return X if self.init == "data" else np.zeros_like(X)
        start: Array = np.asarray(self.init, dtype=X.dtype)
        if start.shape != X.shape or not np.isfinite(start).all():
            raise ValueError(f"an init array must be finite and of the shape of X, {X.shape}, got {start.shape}")
        return start

    def _flag(self, scores: Array) -> Any:
        if isinstance(self.contamination, str):
            return scores > MOVED
        flags = np.zeros(scores.size, dtype=bool)
        flags[np.argsort(-scores, kind="stable")[: round(self.contamination * scores.size)]] = True
        return flags

    def _seed(self) -> int:
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _tell(self) -> None:
        logger.info(
            "%d of %d rows flagged; %s, lam %.4g, rho %.4g (eigenvalue cut-off %.4g), rank %d; %s after %d iterations",
            *(int(self.outliers_.sum()), self.outliers_.size, self.kernel_, self.lam_, self.rho_),
            *(cutoff_from_rho(self.rho_), self.rank_, self.stop_reason_, self.n_iter_),
        )
        if self.stop_reason_ == "max_iter":
            warnings.warn(
                f"the objective was still falling after max_iter={self.max_iter} iterations: raise max_iter, or tol "
                f"(now {self.tol:g}) if the result is good enough",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif self.stop_reason_ == "interrupted":
            warnings.warn(
                f"interrupted: the result is what {self.n_iter_} of {self.max_iter} iterations gave", stacklevel=4
            )

    def _check_parameters(self) -> None:
        if not isinstance(self.kernel, Kernel):
            if not isinstance(self.kernel, str):
                raise TypeError(
                    f"kernel must be one of {', '.join(map(repr, KERNELS))} or an object of a subclass of "
                    f"kernmend.kernels.Kernel, got {self.kernel!r}"
                )
            check_choice("kernel", self.kernel, KERNELS)
        for name in ("gamma", "lam", "rho"):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == "auto"):
                check_positive(name, value)
        if self.kernel == "poly":
            Polynomial(self.degree, self.coef0)
        check_choice("error", self.error, ("kernel",))
        check_choice("repair", self.repair, ("all",))
        check_choice("solver", self.solver, tuple(SOLVERS))
        if isinstance(self.init, str):
            check_choice("init", self.init, ("data", "zeros"))
        if not (isinstance(self.max_iter, numbers.Integral) and self.max_iter >= 1):
            raise ValueError(f"max_iter must be an integer >= 1, got {self.max_iter!r}")
        if not (isinstance(self.tol, numbers.Real) and np.isfinite(self.tol) and self.tol >= 0):
            raise ValueError(f"tol must be a number >= 0, got {self.tol!r}")
        contamination = self.contamination
        if isinstance(contamination, str):
            check_choice("contamination", contamination, ("auto",))
        elif not (isinstance(contamination, numbers.Real) and 0 <= contamination <= 0.5):
            raise ValueError(f"contamination must be 'auto' or a share between 0 and 0.5, got {contamination!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "recovered_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
