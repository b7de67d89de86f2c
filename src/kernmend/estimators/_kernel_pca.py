"""Kernel PCA with pre-images: the classical way to denoise curved data."""

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.decomposition import KernelPCA

from kernmend._typing import Array
from kernmend._validation import check_choice, check_positive
from kernmend.estimators._base import parameters
from kernmend.estimators._subspace import SubspaceRecovery
from kernmend.estimators._summary import CHANCE
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.kernels import RBF
from kernmend.model.terms import Parts
from kernmend.solvers.preimage import solve_preimage
from kernmend.solvers.result import Callback, History, SolverResult

# Squared distance from the subspace, as a share of the mean squared length of a row, below which it is rounding.
ROUNDING = 1e-12

# The kernels that scikit-learn's `KernelPCA` knows by the same names.
SHARED = ("rbf", "poly", "linear")


@parameters
class KernelPCADenoiser(SubspaceRecovery):
    """Replace each row by the pre-image of its projection on the first kernel principal components.

    With P the projection on the (centred) principal subspace of the kernel space, a row x becomes

        argmin over z of |phi(z) - P phi(x)|^2,

    found by the fixed point of Mika et al. (1999), or what scikit-learn's `KernelPCA.inverse_transform` gives, a kernel
    ridge regression from the components to the data. Every row moves, good ones too: it is made for data with a
    little noise everywhere. Rows that are grossly wrong shape the components themselves.

    Parameters
    ----------
    preimage : {"fixed-point", "ridge"}, default="fixed-point"
        How to get back to the data. "fixed-point" is for the Gaussian kernel only.
    kernel : {"rbf", "poly", "linear"}, default="rbf"
    gamma : float or "auto", default="auto"
        Of the Gaussian kernel exp(-gamma |a - b|^2). "auto" is 1 / (median squared distance).
    degree, coef0 : float, default=2, 1.0
        Of the polynomial kernel (a'b + coef0)^degree.
    n_components : int, float or "auto", default="auto"
        Number of components, or the share of the variance in the kernel space that they keep. "auto" is a share of
        0.9, but at most an eighth of the number of rows.
    alpha : float, default=0.01
        The ridge of `preimage="ridge"`. scikit-learn's default of 1 draws everything towards 0.
    contamination : float or "auto", default="auto"
        Share of the rows to flag, fewer where equal scores would be divided. "auto" flags those that form a group of
        their own, or are farther off than one good row in 20 data sets of this size is.
    max_iter : int, default=200
        Iterations of the fixed point.
    tol : float, default=1e-6
        A row rests when its next step would be shorter than this, in units of the typical distance of two rows, or
        no part of that step brings it nearer; the fixed point has converged when all do. "ridge" does not use it.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        The denoised data.
    outlier_scores_ : ndarray of shape (n_samples,)
        Higher is worse: -log10 of the chance of a good row being as far from the subspace of the kernel space, by the
        distribution of the logarithms of the squared distances.
    outliers_ : ndarray of bool, shape (n_samples,)
        The rows that count as wrong: `outlier_scores_ > threshold_`.
    threshold_ : float
        Where a group of rows stands apart, the score above which a row surely belongs to it; at most
        log10(20 n_samples). Or what gives the share asked for.
    objective_ : ndarray of shape (n_iter_ + 1,)
        sum_i |phi(z_i) - P phi(x_i)|^2 at the start and after each iteration; it never rises. A row starts at itself,
        or, where that is too far from all rows, at the row nearest to its projection. "ridge" is one step, and does not
        minimise it.
    history_ : list of IterationRecord
        Its `residual` is the longest step still to be made, in units of the typical distance; nan for "ridge".
    n_iter_ : int
    stop_reason_ : {"converged", "max_iter", "interrupted"}
    rank_ : int
        Number of components.
    kernel_, gamma_ : Kernel, float
        What was used; `gamma_` is None for kernels without it.
    kernel_pca_ : KernelPCA
        scikit-learn's fitted estimator.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend import KernelPCADenoiser
    >>> angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X = circle + 0.1 * np.random.default_rng(0).standard_normal(circle.shape)
    >>> Z = KernelPCADenoiser().fit_transform(X)
    >>> off = [np.abs(np.linalg.norm(A, axis=1) - 1).mean() for A in (X, Z)]
    >>> bool(off[1] < 0.7 * off[0])
    True
    """

    preimage: str = "fixed-point"
    alpha: float = 0.01

    _allow_nan = False
    _share = 0.9
    _score_meaning = f"the distance from the components, as {CHANCE}"
    _rules: ClassVar[dict[str, str]] = {"gamma": "1 / (median squared distance of two rows)"}
    _saved: ClassVar[tuple[str, ...]] = (*SubspaceRecovery._saved, "kernel_pca_", "_L", "_mean_square")

    def _fit(self, X: Array) -> None:
        self._L = X.astype(np.float64)  # a copy: what is done to X later is not done to the model
        self.kernel_ = self._make_kernel(self._L)
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        self.kernel_pca_ = self._fit_components()
        self._mean_square = float(self.kernel_.gram(self._L).mean())  # squared length of the mean of phi
        with self._progress("pre-images", self.max_iter) as callback:
            self._keep(self._denoise(self._L, callback), X.dtype)
        self._flag(self._distances(self._L))

    def _mend_rows(self, X: Array) -> Array:
        """Return the pre-images of the projections of rows."""
        return self._denoise(X.astype(np.float64, copy=False)).A.astype(X.dtype, copy=False)

    def _check_parameters(self) -> None:
        check_choice("preimage", self.preimage, ("fixed-point", "ridge"))
        if not isinstance(self.kernel, str):
            raise TypeError(f"kernel must be the name of a kernel that scikit-learn has too, got {self.kernel!r}")
        super()._check_parameters()
        check_choice("kernel", self.kernel, SHARED)
        if self.preimage == "fixed-point" and self.kernel != "rbf":
            raise ValueError(f"kernel={self.kernel!r} has no fixed point: use preimage='ridge'")
        check_positive("alpha", self.alpha)

    def _fit_components(self) -> KernelPCA:
        settings = {
            "kernel": self.kernel,
            "gamma": 1.0 if self.gamma_ is None else self.gamma_,
            "degree": self.degree,
            "coef0": self.coef0,
            "random_state": 0,  # of ARPACK's first vector
        }
        variances = np.zeros(len(self._L))
        if not isinstance(self.n_components, numbers.Integral):
            found = KernelPCA(**settings).fit(self._L).eigenvalues_  # without those that are 0
            variances[: found.size] = found
        count = self._count_components(variances)
        ridge = {"fit_inverse_transform": self.preimage == "ridge", "alpha": self.alpha}
        return KernelPCA(n_components=count, **settings, **ridge).fit(self._L)

    def _denoise(self, X: Array, callback: Callback | None = None) -> SolverResult:
        components = self.kernel_pca_.transform(X)
        coefficients = self._coefficients(components)
        rank = int(components.shape[1])
        if self.preimage == "fixed-point":
            assert isinstance(self.kernel_, RBF)
            scale = float(np.sqrt(median_squared_distance(self._L))) or 1.0
            options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "callback": callback}
            return solve_preimage(self.kernel_, self._L, coefficients, X, scale=scale, rank=rank, **options)
        Z = self.kernel_pca_.inverse_transform(components)
        history = History(self.tol, callback)
        for A, step in ((X, 0.0), (Z, float(np.linalg.norm(Z - X)))):
            history.add(Parts(self._error(A, coefficients), 0.0, 0.0, rank), step)
        return SolverResult(Z, history.records, "converged")

    def _coefficients(self, components: Array) -> Array:
        """Return c with P phi(x_i) = sum_j c_ij phi(l_j): the components around the mean of all phi(l_j)."""
        s, U = self.kernel_pca_.eigenvalues_, self.kernel_pca_.eigenvectors_
        weights = np.divide(U, np.sqrt(s), out=np.zeros_like(U), where=s > 0)
        c = components @ weights.T
        out: Array = c - c.mean(axis=1, keepdims=True) + 1.0 / c.shape[1]
        return out

    def _error(self, A: Array, coefficients: Array) -> float:
        """Return sum_i |phi(a_i) - sum_j c_ij phi(l_j)|^2."""
        cross = np.einsum("ij,ij->", coefficients, self.kernel_.gram(A, self._L))
        square = np.einsum("ij,ij->", coefficients @ self.kernel_.gram(self._L), coefficients)
        return float(self.kernel_.diag(A).sum() - 2.0 * cross + square)

    def _distances(self, X: Array) -> Array:
        centred = self.kernel_.diag(X) - 2.0 * self.kernel_.gram(X, self._L).mean(axis=1) + self._mean_square
        out: Array = centred - np.square(self.kernel_pca_.transform(X)).sum(axis=1)
        return np.maximum(out, ROUNDING * (float(np.mean(self.kernel_.diag(self._L))) or 1.0))
