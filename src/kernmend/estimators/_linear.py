"""What the models "low rank plus gross errors" share: the fit, the scores, and new rows."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernmend._typing import Array
from kernmend._validation import check_auto, check_common, check_noise
from kernmend.estimators._base import MOVED, NewRowsRecovery, Recovery, parameters
from kernmend.linalg.distances import few_threads
from kernmend.linalg.singular import spectral_norm
from kernmend.model.terms import EntryTerm, ErrorTerm, NuclearTerm, RankTerm, SubspaceTerm, Term, row_lengths
from kernmend.solvers import SolverResult, solve_admm, solve_rows

# Factor by which the penalty grows in each iteration, where the rank is given.
RANK_GROWTH = 1.2
# Tolerance of new rows, in units of `tol`: the row space is only known to `tol`, and a row comes nearer very slowly.
NEW_ROWS_TOL = 10.0
# Largest number of iterations of new rows.
NEW_ROWS_ITER = 5000
# Singular value, as a share of the largest one, above which it is no rounding, where the rank is given.
REAL = 1e-6


@parameters
class LinearRecovery(NewRowsRecovery):
    """Base of the models |L|_* + E(X - L): a subclass has `_error_type` and `_auto_lam`."""

    lam: float | str = "auto"
    noise: float = 0.0
    contamination: float | str = "auto"
    max_iter: int = 1000
    tol: float = 1e-6
    verbose: int = 0

    _error_type: ClassVar[type[ErrorTerm]]
    _saved: ClassVar[tuple[str, ...]] = (
        *Recovery._saved,
        *("lam_", "components_", "singular_values_", "_slack", "_length", "_penalty", "_weights"),
    )

    def _check_parameters(self) -> None:
        check_auto("lam", self.lam)
        check_noise(self.noise)
        self._rank()
        check_common(self)

    def _mend_rows(self, X: Array) -> Array:
        return self._mend(X.astype(np.float64, copy=False)).astype(X.dtype, copy=False)

    def _score_rows(self, X: Array) -> Array:
        X = X.astype(np.float64, copy=False)
        return self._scores(X, self._mend(X))

    def _auto_lam(self, X: Array) -> float:
        raise NotImplementedError

    def _rank(self) -> int | None:
        """Return the rank that L is held to, None for the nuclear norm."""
        return None

    def _fit(self, X: Array) -> None:
        rank, data = self._rank(), X.astype(np.float64, copy=False)
        observed = ~np.isnan(data)
        self.lam_ = self._auto_lam(data) if isinstance(self.lam, str) else float(self.lam)
        # Noise alone has singular values up to (sqrt n + sqrt d) noise: the slack is what takes them away.
        share = float(np.sqrt(observed.mean()))
        self._slack = float(self.noise) * share * (np.sqrt(X.shape[0]) + np.sqrt(X.shape[1]))
        self._length = typical(row_lengths(np.where(observed, data, 0.0)) / np.sqrt(observed.mean(axis=1))[:, None])
        term = self._error_type.of(data, self.lam_, self._slack)
        with self._progress("mending", self.max_iter) as callback, few_threads(X.size):
            options = {"max_iter": self.max_iter, "tol": self.tol, "callback": callback}
            result, center = (
                solve_nuclear(term.X, [term], options) if rank is None else _solve_ranked(term, rank, options)
            )
        self.components_: Array = np.zeros((0, X.shape[1])) if center.Vt is None else center.Vt
        self.singular_values_: Array = np.zeros(0) if center.singular_values is None else center.singular_values
        self._penalty = self.lam_ * (np.sqrt(X.shape[1]) if self._error_type is EntryTerm else 1.0) / self._length
        self._weights = self.singular_values_ if rank is None else None
        if rank is not None:  # directions beyond the true rank are of the size of the last step, and mean nothing
            real = self.singular_values_ > REAL * self.singular_values_.max(initial=0.0)
            self.components_, self.singular_values_ = self.components_[real], self.singular_values_[real]
            if result.stop_reason == "stalled":
                result = _with_last(result, self._mend(data), term)
        self._keep(result, X.dtype)
        self.rank_ = len(self.components_)
        self.outlier_scores_ = self._scores(data, result.A)
        self._flag_large()
        if self._error_type is EntryTerm:
            self.entry_outliers_ = np.abs(term.gross(result.A)) > MOVED * self._length / np.sqrt(X.shape[1])

    def _mend(self, X: Array) -> Array:
        """Return the rows of X mended by the same error model against the row space of the fit.

        Each row l minimises E(x - l) + l M^-1 l' / 2, M = (L'L)^(1/2) of the mended data L, which the rows of L
        themselves do: seen rows come back as in `fit_transform`, to about ten times `tol`.
        """
        if not len(self.components_):
            return np.zeros_like(X)
        term = self._error_type.of(X, self.lam_, self._slack)
        center = SubspaceTerm(self.components_, self._weights)
        tol = NEW_ROWS_TOL * self.tol
        with few_threads(X.size):
            mended, unfinished = solve_rows(
                term, center, penalty=self._penalty, size=self._length, max_iter=NEW_ROWS_ITER, tol=tol
            )
        if unfinished:
            warnings.warn(
                f"{unfinished} of {len(X)} rows not converged after {NEW_ROWS_ITER} iterations: raise tol (now "
                f"{self.tol:g}) if the result is good enough",
                ConvergenceWarning,
                stacklevel=5,
            )
        return mended

    def _scores(self, X: Array, L: Array) -> Array:
        """Return the length of each row's gross error, as a share of a typical row's length.

        What the solver leaves of a row without error, up to ten times `tol`, is 0: it differs between fitted and new
        rows, and says nothing of either.
        """
        term = self._error_type.of(X, self.lam_, self._slack)
        out: Array = row_lengths(term.gross(L))[:, 0] / self._length
        return np.where(out <= NEW_ROWS_TOL * self.tol, 0.0, out)


def solve_nuclear(X: Array, terms: Sequence[Term], options: dict[str, Any]) -> tuple[SolverResult, NuclearTerm]:
    """Minimise |L|_* plus some terms from L = 0; return what the solver found, and the term of L.

    The sizes of the data X are those of its steps and residuals.
    """
    center, size = NuclearTerm(), float(np.linalg.norm(X))
    penalty = 1.25 / (spectral_norm(X) or 1.0)
    return solve_admm(np.zeros_like(X), terms, center=center, penalty=penalty, size=size, **options), center


def _solve_ranked(term: ErrorTerm, rank: int, options: dict[str, Any]) -> tuple[SolverResult, NuclearTerm]:
    """Minimise E(X - L) over the matrices of that rank, from L = 0, with a growing penalty.

    Return what the solver found, and the term of L. The first step moves an entry by a typical size of one: smaller
    ones, or faster growth, settle on wrong row spaces where many entries are far off.
    """
    center, X = RankTerm(limit=rank), term.X
    penalty = term.lam / typical(np.abs(X[X != 0]))
    size = float(np.linalg.norm(X))
    start = np.zeros_like(X)
    return solve_admm(start, [term], center=center, penalty=penalty, size=size, growth=RANK_GROWTH, **options), center


def _with_last(result: SolverResult, A: Array, term: ErrorTerm) -> SolverResult:
    """Return the result with the rows mended once more, each for itself, in the row space that was found."""
    error = term.value(A)
    last = replace(result.history[-1], iteration=result.n_iter + 1, objective=error, error=error)
    return SolverResult(A, [*result.history, last], result.stop_reason)


def typical(sizes: Array) -> float:
    """Return the median of some sizes; the mean where that is 0, 1.0 where all are."""
    if not sizes.size:
        return 1.0
    return float(np.median(sizes)) or float(np.mean(sizes)) or 1.0
