"""Outlier pursuit."""

from typing import ClassVar

import numpy as np

from kernmend._typing import Array
from kernmend.estimators._linear import LinearRecovery
from kernmend.model.terms import RowTerm

# Share of wrong rows that the default lam is made for.
OUTLIER_SHARE = 0.15


def pursuit_lam(n_rows: int, n_observed: float) -> float:
    """Return 1 / (1 + sqrt(0.15 n / d)): the default of `OutlierPursuit`, see there."""
    return 1.0 / (1.0 + float(np.sqrt(OUTLIER_SHARE * n_rows / n_observed)))


class OutlierPursuit(LinearRecovery):
    """Split the data into a low-rank part and a few wrong rows.

        minimise |L|_* + lam sum_i |S_i|   subject to  L + S = X on the observed entries

    (Xu, Caramanis, Sanghavi 2012). |L|_* is the sum of the singular values, |S_i| the length of a row. For data in or
    near a linear subspace of few dimensions, with some rows off it; nothing is centred. `transform` mends each row by
    itself in the row space of L, as that of `RobustPCA` does.

    Parameters
    ----------
    lam : float or "auto", default="auto"
        Price of an error, between 0 and 1 and free of the units of the data: the pull on a row that belongs to the
        others is the length of its row of left singular vectors, at most 1, and a row that is pulled by less than `lam`
        stays. "auto" is 1 / (1 + sqrt(0.15 n_samples / n_features)): with k rows of random direction the largest
        singular value of these directions is about 1 + sqrt(k / n_features), and just below its inverse k such rows are
        still all error. So it is the largest value that keeps 15 % of the rows from being taken for signal, and the
        largest does the least harm to the others. With missing entries, the observed ones per row are counted. Where
        the good rows are not of low rank either (images), values nearer to 1 move them less; where they are noisy,
        these leave more of the noise. (The authors' 3 / (7 sqrt(k)) is for outliers that all lie on one line, and
        often gives L = 0.)
    noise : float, default=0.0
        Standard deviation of small errors in all entries. The error X - L is S plus a dense N that costs
        |N|_F^2 / (2 c), c = noise (sqrt(n_samples) + sqrt(n_features)), the largest singular value of such noise.
    contamination : float or "auto", default="auto"
        Share of the rows to flag, fewer where equal scores would be divided: rows without error are not flagged.
        "auto" flags rows whose error is far larger than that of the others.
    max_iter : int, default=1000
        Iterations of the solver.
    tol : float, default=1e-6
        The relative residuals at which it stops (see `RobustPCA`).
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        L: the mended data, missing entries filled in.
    outlier_scores_ : ndarray of shape (n_samples,)
        Length of the row's error, as a share of a typical row's length; 0 up to ten times `tol`.
    outliers_ : ndarray of bool, shape (n_samples,)
        The rows that count as wrong: `outlier_scores_ > threshold_`.
    threshold_ : float
        median + 5 (median - 15.87th percentile) of the scores, at least 0.01; or what gives the share asked for.
    components_, singular_values_ : ndarray of shape (rank_, n_features), ndarray of shape (rank_,)
        Orthonormal basis of the row space of L, and the singular values of L.
    lam_ : float
        The value that was used.
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective of L after each iteration, and at the start, L = 0. It need not fall in every one.
    history_ : list of IterationRecord
        One record per iteration; `residual` is the larger of the two optimality residuals.
    n_iter_, rank_ : int
    stop_reason_ : {"converged", "max_iter", "interrupted"}
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend import OutlierPursuit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    >>> X[7] = rng.standard_normal(40)
    >>> est = OutlierPursuit().fit(X)
    >>> est.rank_, np.flatnonzero(est.outliers_).tolist()
    (2, [7])
    """

    _error_type = RowTerm
    _rules: ClassVar[dict[str, str]] = {
        "lam": "the largest value that keeps 15 % random rows from being taken for signal"
    }

    def _auto_lam(self, X: Array) -> float:
        return pursuit_lam(X.shape[0], float(np.isfinite(X).sum(axis=1).mean()))
