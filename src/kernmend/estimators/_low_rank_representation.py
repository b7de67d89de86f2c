"""Low-rank representation."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from kernmend._typing import Array
from kernmend._validation import check_auto, check_common
from kernmend.estimators._base import Recovery, parameters
from kernmend.estimators._linear import typical
from kernmend.estimators._outlier_pursuit import pursuit_lam
from kernmend.linalg.singular import compact_svd
from kernmend.model.terms import NuclearTerm, RowTerm, row_lengths
from kernmend.solvers import Block, solve_admm

# The default lam, as a share of that of `OutlierPursuit`, for rows that are nearer to the others than random ones are.
_SHARE_OF_PURSUIT = 0.5


@parameters
class LowRankRepresentation(Recovery):
    """Write every row as a mixture of other rows, the matrix of mixtures being of low rank, up to a few wrong rows.

        minimise |Z|_* + lam sum_i |E_i|   subject to  X = Z D + E

    (Liu, Lin, Yan, Sun, Yu, Ma 2013; the dictionary D is X itself if none is given). For data in a union of linear
    subspaces: Z is then large only between rows of the same subspace, so that it also tells the subspaces apart.

    With D = P S V' (SVD) and Z = W P', |Z|_* = |W|_* and only the n × rank matrix W is searched for.

    There is no `transform`: what a new row is depends on all others through Z. No value may be missing.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        D; None is the data.
    lam : float or "auto", default="auto"
        Price of an error, per length: it scales with 1 / (units of the data). A row that represents only itself costs
        1 in |Z|_*, so that lam times the row's length must be below 1 for it to count as an error. "auto" is half the
        default of `OutlierPursuit`, divided by the median length of the rows: the same argument, and half for the
        sake of rows that are nearer to the others than random ones.
    contamination : float or "auto", default="auto"
        Share of the rows to flag, fewer where equal scores would be divided: rows without error are not flagged.
        "auto" flags rows whose error is far larger than that of the others.
    max_iter : int, default=2000
        Iterations of the solver; each one is cheap.
    tol : float, default=1e-6
        Stop when both optimality residuals are below it: the primal one as a share of the length of the data, the dual
        one of that of the multipliers.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        Z D, the mended data.
    coefficients_ : ndarray of shape (n_samples, n_atoms)
        Z.
    affinity_ : ndarray of shape (n_samples, n_samples)
        How much two rows belong to the same subspace, from 0 to 1, for spectral clustering: with Z = U S V', squared
        cosines between the rows of U S^(1/2), as the authors recommend.
    outlier_scores_ : ndarray of shape (n_samples,)
        Length of the row's error, as a share of a typical row's length.
    outliers_ : ndarray of bool, shape (n_samples,)
        The rows that count as wrong: `outlier_scores_ > threshold_`.
    threshold_ : float
        median + 5 (median - 15.87th percentile) of the scores, at least 0.01; or what gives the share asked for.
    lam_ : float
        The value that was used.
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective after each iteration, and at the start, Z = 0. It need not fall in every one. Its |Z|_* is that of
        the solver's copy of Z, which is the same at the end, to `tol`.
    history_ : list of IterationRecord
        One record per iteration; `residual` is the larger of the two optimality residuals.
    n_iter_, rank_ : int
        `rank_` is that of Z.
    stop_reason_ : {"converged", "max_iter", "interrupted"}
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    Two lines through the origin, told apart:

    >>> import numpy as np
    >>> from sklearn.cluster import SpectralClustering
    >>> from kernmend import LowRankRepresentation
    >>> place = np.linspace(1.0, 3.0, 20)[:, np.newaxis]
    >>> X = np.vstack([place * [1.0, 0.0, 1.0], place * [0.0, 1.0, 1.0]])
    >>> est = LowRankRepresentation().fit(X)
    >>> clusters = SpectralClustering(2, affinity="precomputed", random_state=0).fit_predict(est.affinity_)
    >>> len(set(clusters[:20])), len(set(clusters[20:])), bool(clusters[0] != clusters[20])
    (1, 1, True)
    """

    dictionary: Any = None
    lam: float | str = "auto"
    contamination: float | str = "auto"
    max_iter: int = 2000
    tol: float = 1e-6
    verbose: int = 0

    _allow_nan = False
    _rules: ClassVar[dict[str, str]] = {
        "lam": "half the rule of OutlierPursuit, divided by the median length of the rows"
    }
    _saved: ClassVar[tuple[str, ...]] = (*Recovery._saved, "lam_", "coefficients_", "affinity_")

    def _check_parameters(self) -> None:
        check_auto("lam", self.lam)
        check_common(self)

    def _fit(self, X: Array) -> None:
        data = X.astype(np.float64, copy=False)
        length = typical(row_lengths(data))
        self.lam_ = _SHARE_OF_PURSUIT * pursuit_lam(*X.shape) / length if isinstance(self.lam, str) else float(self.lam)
        P, s, Vt = compact_svd(data if self.dictionary is None else self._check_dictionary(X.shape[1]))
        top = float(s[0]) or 1.0
        inside = data @ Vt.T
        outside = row_lengths(data - inside @ Vt)  # of no use for Z, but part of a row's error: one column more
        target, scale = np.hstack([inside, outside]) / top, np.append(s, 0.0) / top
        nuclear = NuclearTerm()
        with self._progress("mending", self.max_iter) as callback:
            result = solve_admm(
                np.zeros_like(target),
                [Block(nuclear), Block(RowTerm(target, self.lam_ * top), scale)],
                penalty=1.25,  # Z is near a projection: its largest singular value is about 1
                size=float(np.linalg.norm(target)),
                max_iter=self.max_iter,
                tol=self.tol,
                callback=callback,
            )
        W = result.A[:, :-1]
        self._keep(result, X.dtype)
        L: Array = (W * s) @ Vt
        self.recovered_ = L.astype(X.dtype, copy=False)
        self.coefficients_ = (W @ P.T).astype(X.dtype, copy=False)
        self.affinity_ = _affinity(nuclear, len(X)).astype(X.dtype, copy=False)
        self.outlier_scores_ = row_lengths(data - L)[:, 0] / length
        self._flag_large()

    def _check_dictionary(self, n_features: int) -> Array:
        D: Array = check_array(self.dictionary, dtype=np.float64, input_name="dictionary")
        if D.shape[1] != n_features:
            raise ValueError(f"dictionary must have the {n_features} features of X, got {D.shape[1]}")
        return D


def _affinity(nuclear: NuclearTerm, n_samples: int) -> Array:
    """Return the squared cosines between the rows of U S^(1/2); 0 for rows without any part in Z."""
    if nuclear.U is None or nuclear.singular_values is None:
        return np.zeros((n_samples, n_samples))
    U = nuclear.U * np.sqrt(nuclear.singular_values)
    U /= np.maximum(row_lengths(U), np.finfo(np.float64).tiny)
    out: Array = np.square(U @ U.T)
    return out
