"""Robust kernel PCA of Nguyen and De la Torre: each row goes as near to the kernel subspace as its error allows."""

from typing import Any, ClassVar

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_auto, check_choice
from kernmend.estimators._base import MOVED, parameters
from kernmend.estimators._subspace import SubspaceRecovery
from kernmend.estimators._summary import CHANCE
from kernmend.linalg.distances import median_observed_squared_distance
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.errors import BoundedEntryError, BoundedRowError, ErrorModel, SquaredError
from kernmend.repair.completion import fill_from, fill_missing
from kernmend.repair.units import resolve_bounds
from kernmend.solvers import SolverResult
from kernmend.solvers.reference import Reference
from kernmend.solvers.subspace import fit_subspace, move_rows, solve_fixed_subspace, solve_subspace

ERRORS = ("auto", "noise", "rows", "entries")
# Number of features from which on error="auto" is "entries".
MANY_FEATURES = 16
# Gamma times the median squared distance for "entries": a spike carries a row out of narrow kernels.
ENTRIES_WIDTH = 0.1
# Sigma, in typical differences of two rows (or entries), and what a typical row pays for its distance, of the most that
# E can be. With few features good rows lie close to a surface, and along it any pull is too much.
FEW = {"noise": (1.0, 0.01), "rows": (0.03, 0.5), "entries": (0.3, 0.1)}
MANY = {"noise": (1.0, 0.3), "rows": (1.0, 0.3), "entries": (0.6, 0.08)}
# Percentile of the distances of the rows that is typical: good rows at the rim of a cloud are not to be drawn in.
TYPICAL = 75
# Least typical squared distance, as a share of the mean k(x, x), so that C stays finite.
ROUNDING = 1e-9
# Distance, as a share of the typical one of two rows, up to which a row counts as not moved.
UNMOVED = 1e-3


@parameters
class RobustKernelPCA(SubspaceRecovery):
    """Move each row towards the principal subspace of the kernel space, as far as its error model lets it go.

    A row x becomes the minimiser over z of

        E(z; x) + C dist2(z),

    with dist2(z) the squared distance of phi(z) from the subspace, and E the squared error for noise, or bounded
    functions of Geman and McClure, with rho(t) = t^2 / (t^2 + sigma^2), for gross errors. With `joint=True` the
    subspace is found from the mended rows, not the given ones: over all rows together this minimises

        sum_i E(z_i; x_i) + C sum_{j > n_components} s_j(K(Z)),

    the eigenvalues of the Gram matrix that the subspace leaves over. Missing entries (NaN) cost nothing and are filled
    in. The method is that of Nguyen and De la Torre (2008), "KPCA" in the tables of Xie et al.; the minimiser here is a
    quasi-Newton method in place of their fixed point, so any differentiable kernel will do. float32 data is worked on
    in float32.

    Parameters
    ----------
    error : {"auto", "rows", "entries", "noise"}, default="auto"
        What is wrong: "rows" (whole rows, E = rho(|z - x|)), "entries" (some entries: occlusion, spikes,
        E = sum_j rho(z_j - x_j)), "noise" (all entries a little, E = |z - x|^2 / sigma^2). "auto" is "entries" from 16
        features on, else "rows".
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        The kernel, or an object of a subclass of `kernmend.model.kernels.Kernel`.
    gamma : float or "auto", default="auto"
        Of the Gaussian kernel exp(-gamma |a - b|^2). "auto" is 1 / (median squared distance), a tenth of that for
        error "entries".
    degree, coef0 : float, default=2, 1.0
        Of the polynomial kernel (a'b + coef0)^degree.
    n_components : int, float or "auto", default="auto"
        Dimensions of the subspace, which is not centred: the first one is about the mean of all rows. Or the share of
        the variance that the others keep. "auto" is a share of 0.95, but at most an eighth of the number of rows.
    C : float or "auto", default="auto"
        The weight of the distance from the subspace. "auto" makes a typical row pay a fixed share of what E costs at
        most.
    sigma : float or "auto", default="auto"
        The error, in units of the data, at which half of the most is paid. "auto" is a share of the typical
        difference of two rows (or entries).
    joint : bool, default=True
        Whether the subspace is that of the mended rows, and follows them. False keeps that of the given rows.
    contamination : float or "auto", default="auto"
        Share of the rows to flag, fewer where equal scores would be divided. "auto" flags those that form a group of
        their own, or are farther off than one good row in 20 data sets of this size is.
    bounds : None, (low, high) or "data", default=None
        Mended values stay within; "data" is the range of each feature.
    max_iter : int, default=500
        Iterations, of all rows together; with `joint=False`, and in `transform`, of each row.
    tol : float, default=1e-4
        Stop when ten iterations together lower the objective by at most this share of it. With `joint=False`, and in
        `transform`, a row rests when one iteration lowers its own part by less than this share of that.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        The mended data.
    outlier_scores_ : ndarray of shape (n_samples,)
        Higher is worse: -log10 of the chance of a good row being moved as far, by the distribution of the logarithms
        of the squared distances.
    outliers_ : ndarray of bool, shape (n_samples,)
        The rows that count as wrong: `outlier_scores_ > threshold_`. Unless a share was asked for, all were moved
        by more than 1 % of the typical distance of two rows.
    threshold_ : float
        Where a group of rows stands apart, the score above which a row surely belongs to it; at most
        log10(20 n_samples), and at least the score of a row moved by 1 %. Or what gives the share asked for.
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective after each iteration (each 20 with `joint=False`), and at the start, the given rows, missing
        entries filled in; it never rises.
    history_ : list of IterationRecord
        The `residual` of the first and the last is the length of the gradient, as a share of the objective over a
        typical distance.
    n_iter_ : int
    stop_reason_ : {"converged", "max_iter", "interrupted"}
    rank_ : int
        Dimensions of the subspace.
    kernel_, gamma_, error_, C_, sigma_ : Kernel, float, str, float, float
        What was used; `gamma_` is None for kernels without it.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend import RobustKernelPCA
    >>> angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X[7] = [0.4, 0.4]
    >>> Z = RobustKernelPCA().fit_transform(X)
    >>> bool(abs(np.linalg.norm(Z[7]) - 1) < 0.1)
    True
    """

    error: str = "auto"
    C: float | str = "auto"
    sigma: float | str = "auto"
    joint: bool = True
    bounds: Any = None
    max_iter: int = 500
    tol: float = 1e-4

    _share = 0.95
    _score_meaning = f"how far the row was moved, as {CHANCE}"
    _rules: ClassVar[dict[str, str]] = {
        "gamma": "by the median squared distance of two rows, wider where cells are wrong",
        "error": "single cells from 16 columns on, whole rows below",
        "C": "a typical row pays a fixed share of what an error costs at most",
        "sigma": "a share of the typical difference of two rows",
    }
    _saved: ClassVar[tuple[str, ...]] = (
        *SubspaceRecovery._saved,
        *("error_", "C_", "sigma_", "_L", "_scale", "_bounds", "_subspace", "_seen", "_mended"),
    )

    def _fit(self, X: Array) -> None:
        observed = X.astype(np.float64)  # a copy: what is done to X later is not done to the model
        start = fill_missing(observed) if np.isnan(observed).any() else observed
        self._L = start
        self._scale = float(np.sqrt(median_observed_squared_distance(observed))) or 1.0
        self._bounds = resolve_bounds(self.bounds, observed)
        automatic = "entries" if X.shape[1] >= MANY_FEATURES else "rows"
        self.error_ = automatic if self.error == "auto" else self.error
        self.kernel_ = self._make_kernel(start, ENTRIES_WIDTH if self.error_ == "entries" else 1.0)
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        rank = self._choose(start)
        result = self._minimise(start.astype(X.dtype, copy=False), observed.astype(X.dtype, copy=False), rank)
        self._keep(result, X.dtype)
        self._L = self._subspace.L
        self._seen = {row.tobytes(): index for index, row in enumerate(np.ascontiguousarray(observed))}
        self._mended = result.A.astype(np.float64, copy=False)
        self._flag(self._moved(observed, self._mended), MOVED**2)

    def _mend_rows(self, X: Array) -> Array:
        """Return rows mended against the subspace of the fit."""
        return self._mend(X.astype(np.float64, copy=False)).astype(X.dtype, copy=False)

    def _check_parameters(self) -> None:
        check_choice("error", self.error, ERRORS)
        check_auto("C", self.C)
        check_auto("sigma", self.sigma)
        super()._check_parameters()

    def _choose(self, X: Array) -> int:
        """Set sigma and C; return the dimensions of the subspace."""
        s, U = eigenpairs(self.kernel_.gram(X))
        rank = self._count_components(s[::-1])
        if isinstance(self.n_components, (str, float)):
            rank = min(1 + self._count_components(s[:-1]), s.size)  # the mean, then the share of what varies
        entries = X.shape[1] if self.error_ == "entries" else 1
        share, price = (MANY if X.shape[1] >= MANY_FEATURES else FEW)[self.error_]
        rule = share * self._scale / float(np.sqrt(entries))
        self.sigma_ = rule if isinstance(self.sigma, str) else float(self.sigma)
        distances = Reference.from_largest(self.kernel_, X, s, U, rank).squared_rows(X)[0]
        typical = max(float(np.percentile(distances, TYPICAL)), ROUNDING * float(np.mean(self.kernel_.diag(X))), 1e-300)
        self.C_ = price * entries / typical if isinstance(self.C, str) else float(self.C)
        return rank

    def _minimise(self, start: Array, X: Array, rank: int) -> SolverResult:
        """Return the rows moved from `start`, and set the subspace."""
        common: dict[str, Any] = {"scale": self._scale, "bounds": self._bounds, "tol": self.tol}
        with self._progress("mending", self.max_iter) as callback:
            common |= {"max_iter": self.max_iter, "callback": callback}
            error = self._error_model(X)
            if self.joint:
                result, self._subspace = solve_subspace(self.kernel_, start, error, self.C_, rank, **common)
            else:
                self._subspace = fit_subspace(self.kernel_, self._L, rank)
                result = solve_fixed_subspace(self._subspace, start, error, self.C_, **common)
        return result

    def _error_model(self, X: Array) -> ErrorModel:
        if self.error_ == "noise":
            return SquaredError(X, self.sigma_)
        return BoundedRowError(X, self.sigma_) if self.error_ == "rows" else BoundedEntryError(X, self.sigma_)

    def _mend(self, X: Array) -> Array:
        """Return the rows mended. One that `fit` saw comes back as it did there: the way there passed other minima."""
        known = np.array([self._seen.get(row.tobytes(), -1) for row in np.ascontiguousarray(X)], dtype=np.intp)
        new = known < 0
        out = self._mended[np.maximum(known, 0)]
        if new.any():
            options: dict[str, Any] = {"scale": self._scale, "bounds": self._bounds, "tol": self.tol}
            error = self._error_model(X[new])
            start = self._fill(X[new])
            out[new] = move_rows(self._subspace, start, error, self.C_, max_iter=self.max_iter, **options)[0]
        return out

    def _fill(self, X: Array) -> Array:
        """Return the rows with missing entries taken from the nearest mended rows."""
        return fill_from(self._L, X) if np.isnan(X).any() else X

    def _distances(self, X: Array) -> Array:
        return self._moved(X, self._mend(X))

    def _moved(self, X: Array, Z: Array) -> Array:
        """Return how far each row was moved, squared, in units of the typical distance; missing entries left out."""
        out: Array = np.nansum(np.square((X - Z) / self._scale), axis=1)
        return np.maximum(out, UNMOVED**2)
