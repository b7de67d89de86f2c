"""Principal component pursuit."""

from typing import ClassVar

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_count
from kernmend.estimators._base import parameters
from kernmend.estimators._linear import LinearRecovery
from kernmend.model.terms import EntryTerm


@parameters
class RobustPCA(LinearRecovery):
    """Split the data into a low-rank part and a few wrong entries: principal component pursuit.

        minimise |L|_* + lam |S|_1   subject to  L + S = X on the observed entries

    (Candès, Li, Ma, Wright 2011). |L|_* is the sum of the singular values, |S|_1 that of the sizes of the entries. For
    data in or near a linear subspace of few dimensions, entries of any row being wrong; nothing is centred.

    `transform` mends each row by itself: it minimises |x - l|_1 times lam plus l M^-1 l' / 2, M = (L'L)^(1/2) of the
    mended data L, which the rows of L themselves do. Seen rows come back as in `fit_transform`, to ten times `tol`.

    Parameters
    ----------
    lam : float or "auto", default="auto"
        Price of an error. "auto" is 1 / sqrt(max(n_samples, n_features)), the authors' choice, which does not depend
        on the units of the data.
    noise : float, default=0.0
        Standard deviation of small errors in all entries, the stable form (Zhou et al. 2010). The error X - L is S plus
        a dense N that costs |N|_F^2 / (2 c), c = noise (sqrt(n_samples) + sqrt(n_features)): the largest singular value
        that such noise has by itself, so that L shrinks by as much and no noise is left in it.
    rank : int or None, default=None
        If given, L has at most this rank and |L|_* costs nothing: minimise |X - L|_1. Without shrinkage, and right for
        far more wrong entries, but not convex, so without a proof that the minimum is the global one. With a rank that
        is too high some wrong entries pass for signal.
    contamination : float or "auto", default="auto"
        Share of the rows to flag, fewer where equal scores would be divided: rows without error are not flagged.
        "auto" flags rows whose error is far larger than that of the others.
    max_iter : int, default=1000
        Iterations of the solver.
    tol : float, default=1e-6
        Stop when both optimality residuals are below it: the primal one as a share of the length of the data, the dual
        one of that of the multipliers. A row that is mended by itself, in `transform`, stops at ten times `tol`.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        L: the mended data, missing entries filled in.
    entry_outliers_ : ndarray of bool, shape (n_samples, n_features)
        The wrong entries: those of S above 1 % of a typical entry.
    outlier_scores_ : ndarray of shape (n_samples,)
        Length of the row's part of S, as a share of a typical row's length; 0 up to ten times `tol`.
    outliers_ : ndarray of bool, shape (n_samples,)
        `outlier_scores_ > threshold_`. Where every row has some wrong entries, rows with far more than the others.
    threshold_ : float
        median + 5 (median - 15.87th percentile) of the scores, at least 0.01; or what gives the share asked for.
    components_ : ndarray of shape (rank_, n_features)
        Orthonormal basis of the row space of L.
    singular_values_ : ndarray of shape (rank_,)
        Those of L.
    lam_ : float
        The value that was used.
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective of L after each iteration, and at the start, L = 0. It need not fall in every one. Where the
        solver stalled, one more iteration mends each row by itself in the row space that was found.
    history_ : list of IterationRecord
        One record per iteration; `residual` is the larger of the two optimality residuals.
    n_iter_, rank_ : int
    stop_reason_ : {"converged", "max_iter", "stalled", "interrupted"}
        "stalled" only with `rank`: the iterates came to rest before the dual residual was below `tol`, which is what a
        rank that is too high, or noise without `noise`, does.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    >>> X = truth.copy()
    >>> X[3, 5] += 10.0
    >>> X[7, 0] = np.nan
    >>> est = RobustPCA().fit(X)
    >>> est.rank_, np.argwhere(est.entry_outliers_).tolist()
    (2, [[3, 5]])
    >>> bool(np.abs(est.recovered_ - truth).max() < 1e-4)
    True
    """

    rank: int | None = None

    _error_type = EntryTerm
    _rules: ClassVar[dict[str, str]] = {"lam": "1 / sqrt(max(rows, columns)), the choice of Candès, Li, Ma and Wright"}
    _saved: ClassVar[tuple[str, ...]] = (*LinearRecovery._saved, "entry_outliers_")

    def _auto_lam(self, X: Array) -> float:
        return 1.0 / float(np.sqrt(max(X.shape)))

    def _rank(self) -> int | None:
        return None if self.rank is None else check_count("rank", self.rank, "None or ")
