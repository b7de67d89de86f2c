"""What all estimators share: the checks of their input, the calls that need only `fit`, the last word after a fit."""

import inspect
import logging
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import make_dataclass
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, OutlierMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kernmend._typing import Array
from kernmend._validation import (
    LARGEST,
    LARGEST_SINGLE,
    check_infinite,
    check_missing,
    check_no_missing,
    in_range,
    row_names,
    unmasked,
)
from kernmend.detect.flags import flag_share
from kernmend.estimators import _summary
from kernmend.estimators._outputs import Outputs
from kernmend.estimators._progress import counting_bar, progress_bar
from kernmend.large import dask as lazy
from kernmend.linalg.distances import largest_size
from kernmend.model.kernels import Kernel
from kernmend.solvers import Callback, SolverResult

logger = logging.getLogger("kernmend")

# Share of a row's length: a row that moved farther counts as an outlier, where all may move.
MOVED = 1e-2
# Threshold of `_flag_large` above the median, in spreads of the lower half of the scores (median - 15.87th percentile,
# a standard deviation if scores are normal).
LARGE = 5.0

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False)
def parameters(estimator: type[T]) -> type[T]:
    """Return the class with a constructor whose keyword-only parameters are its public fields, after those of its base.

    The constructor is that of a dataclass, which scikit-learn introspects as any other, but the class is none: of a
    dataclass Dask compares the fields only, and would take two fits with the same parameters for the same.
    """
    known: dict[str, tuple[str, Any, Any]] = {}
    for base in reversed(estimator.__mro__):
        for name, kind in inspect.get_annotations(base).items():
            if name in vars(base) and not name.startswith("_"):
                known[name] = (name, kind, vars(base)[name])
    made = make_dataclass(estimator.__name__, known.values(), kw_only=True)
    estimator.__init__ = made.__init__  # type: ignore[method-assign, misc]
    return estimator


def is_lazy(X: Any) -> bool:
    """Return whether `X` belongs to dask, without importing it."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")  # the latter in dask 2024


def is_far(X: Array) -> bool:
    """Return whether a value is so large that its square is infinite, which is what such a value counts as."""
    return largest_size(X) > (LARGEST_SINGLE if X.dtype == np.float32 else LARGEST)


class Recovery(Outputs, OutlierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of the estimators. A subclass has `_check_parameters`, and `_fit`, which sets what it found of the rows.

    That is `recovered_`, `outlier_scores_`, `outliers_`, and what `_keep` sets. One that takes more than the data has a
    `fit` of its own: it checks the parameters, calls `_forget`, looks at the data, and ends with `_tell`. It has the
    parameters `max_iter`, `tol`, `verbose`, and `random_state` if it needs `_seed`.
    """

    _allow_nan = True
    _allow_far = False  # values whose squares are infinite
    _saved: ClassVar[tuple[str, ...]] = (
        *("n_features_in_", "feature_names_in_", "recovered_", "outlier_scores_", "outliers_", "threshold_"),
        *("history_", "objective_", "n_iter_", "stop_reason_", "rank_"),
        *("_changed_rows", "_originals", "_n_reference", "_row_names"),
    )
    """What a model file holds besides the parameters. A subclass adds what its `fit` sets."""
    _score_meaning: ClassVar[str] = "the length of the row's error, as a share of a typical row's length"
    """What a score is, in words."""
    _rules: ClassVar[dict[str, str]] = {}
    """How parameters that are "auto" are chosen, in words, by name."""
    _caches: ClassVar[tuple[str, ...]] = ("_of_landmarks", "_gathered")
    """What a fit may leave besides, and no file holds."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Mend `X`; the result is in `recovered_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted data; NaN means missing, where the estimator can fill it in, inf is an error.
        y : None
            Ignored; there for the pipelines of scikit-learn.

        Returns
        -------
        Recovery
            The estimator itself, fitted.
        """
        self._check_parameters()
        self._forget()
        X = self._validate(X, reset=True, ensure_min_samples=2)
        self._fit(X)
        self._tell(X)
        return self

    def _check_parameters(self) -> None:
        """Raise ValueError or TypeError that names the parameter, what it must be and what it is."""
        raise NotImplementedError

    def _fit(self, X: Array) -> None:
        """Mend checked rows, and set everything that follows."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Mend `X` and return the result, a copy of `recovered_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data, as in `fit`.
        y : None
            Ignored; there for the pipelines of scikit-learn.
        **fit_params
            Further parameters of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The mended rows, of the dtype of `X`.
        """
        recovered = self.fit(X, y, **fit_params).recovered_
        return recovered.copy(order="K") if isinstance(recovered, np.ndarray) else recovered  # those of dask are fixed

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Mend `X` and return -1 for the rows that count as wrong, +1 for the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data, as in `fit`.
        y, **fit_params : optional
            As in `fit_transform`.

        Returns
        -------
        ndarray of int, shape (n_samples,)
            -1 or +1 for each row.
        """
        return np.where(self.fit(X, y, **fit_params).outliers_, -1, 1)

    @property
    def offset_(self) -> float:
        """What `decision_function` takes off `score_samples`, by scikit-learn's name: -`threshold_`."""
        return -float(self.threshold_)

    def _forget(self) -> None:
        """Remove all that an earlier fit left: what has a name as fitted attributes have, or is listed here.

        Other private attributes are not ours: scikit-learn keeps there what `set_output` and `set_fit_request` were
        told, and, while a pipeline is fitted, its callbacks.
        """
        fitted = {name for name in vars(self) if name.endswith("_") and not name.startswith("_")}
        for name in (fitted | {*self._saved, *self._caches}) & vars(self).keys():
            delattr(self, name)

    def _validate(self, X: Any, *, reset: bool, **options: Any) -> Array:
        """Return X as a float array; ValueError that says where it has what it may not have."""
        options = {"dtype": [np.float64, np.float32], **options}
        if isinstance(X, np.ma.MaskedArray):
            X = unmasked(X)
        if reset:
            self._name_rows(X)
        X = validate_data(self, X, ensure_all_finite=False, reset=reset, **options)
        names = getattr(self, "feature_names_in_", None)
        if not np.isfinite(X).all():
            check_infinite(X, names)
            if not self._allow_nan:
                check_no_missing(X, names)
            check_missing(X if reset else np.vstack([X, np.zeros_like(X[:1])]), names)
        if not self._allow_far:
            X = in_range(X, names, tiny=not reset)
        return np.asarray(X)

    def _name_rows(self, X: Any) -> None:
        """Keep the names of the rows that are fitted, where they have some."""
        names = row_names(X)
        if names is not None:
            self._row_names = names
        else:
            self.__dict__.pop("_row_names", None)

    @staticmethod
    def _far_values(X: Array) -> AbstractContextManager[Any]:
        """Return a context in which values whose squares are infinite are no cause for warnings."""
        return np.errstate(over="ignore", invalid="ignore") if is_far(X) else nullcontext()

    def _progress(self, description: str, total: int) -> AbstractContextManager[Callback | None]:
        """Return a context that gives a callback for the solver: a progress bar if `verbose`, else None."""
        return progress_bar(description, total) if self.verbose else nullcontext()

    def _counting(
        self, description: str, total: int, label: str = "left"
    ) -> AbstractContextManager[Callable[[int, float], None] | None]:
        """Return a context that gives a callback for work that counts its steps.

        `label` says what the number is that the callback gets with the count. A `total` of 0 is not known.
        """
        return counting_bar(description, total, label) if self.verbose else nullcontext()

    def _keep(self, result: SolverResult, dtype: Any) -> None:
        """Store what a solver found."""
        self.recovered_ = result.A.astype(dtype, copy=False)
        self.history_ = result.history
        self.objective_, self.n_iter_ = result.objective, result.n_iter
        self.stop_reason_, self.rank_ = result.stop_reason, result.rank

    def _set_flags(self, threshold: float) -> None:
        """Store the threshold of the scores, that given or the one of the share asked for, and the rows above it."""
        scores = self.outlier_scores_
        if not isinstance(self.contamination, str):
            threshold = flag_share(scores, float(self.contamination))[1]
        self.threshold_ = threshold
        self.outliers_ = scores > threshold

    def _flag_large(self) -> None:
        """Flag the rows whose score is far above the others: above median + `LARGE` (median - 15.87th percentile).

        Outliers do not change the spread of the lower half. Where half of the scores are 0 the threshold is `MOVED`;
        where every row has some error it is higher.
        """
        low, median = np.percentile(self.outlier_scores_, [15.87, 50.0])
        self._set_flags(max(MOVED, float(median + LARGE * (median - low))))

    def _seed(self) -> int:
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _remember(self, X: Array) -> None:
        """Keep what the changed rows were, and only those, for a report. A missing entry counts as changed."""
        self._changed_rows = np.flatnonzero((self.recovered_ != X).any(axis=1))
        self._originals = X[self._changed_rows]
        self._n_reference = 0

    def _tell(self, X: Array) -> None:
        """Remember what was changed; log the result in one line; warn where the solver did not finish."""
        self._remember(X)
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s", _summary.one_line(self))
        if self.stop_reason_ == "max_iter":
            warnings.warn(
                f"not converged after max_iter={self.max_iter} iterations: raise max_iter, or tol "
                f"(now {self.tol:g}) if the result is good enough",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif self.stop_reason_ == "interrupted":
            warnings.warn(f"interrupted: {self._interrupted()}", stacklevel=3)

    def _interrupted(self) -> str:
        """Return in words what the result is after Ctrl-C."""
        return f"the result is what {self.n_iter_} of {self.max_iter} iterations gave"

    @property
    def _inner(self) -> Any:
        """The estimator that was fitted to the rows: this one, or the best one of a search."""
        return getattr(self, "best_estimator_", self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "recovered_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self._allow_nan
        return tags


class NewRowsRecovery(Recovery):
    """Base of the estimators that also mend and judge new rows: a subclass has `_mend_rows` and `_score_rows`."""

    _takes_dask = False  # a result of dask data is lazy

    def transform(self, X: Any) -> Any:
        """Mend rows, seen or new, against what `fit` found; missing entries are filled in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the columns of the fit; NaN means missing, where `fit` takes it, inf is an error. Dask data, where
            `fit` takes them, give a lazy result.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The mended rows, of the dtype of `X`.
        """
        return self._by_rows("transform", self._mend_rows, X)

    def score_samples(self, X: Any) -> Any:
        """Return minus the outlier score of each row: higher is more normal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as `transform` takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            Minus the score of each row, as `outlier_scores_` has it for those of the fit.
        """
        return self._by_rows("score_samples", lambda rows: -self._score_rows(rows), X)

    def _by_rows(self, name: str, call: Callable[[Array], Array], X: Any) -> Any:
        """Return what a call says of rows of numbers; of dask data, lazily, what the method of that name does."""
        check_is_fitted(self)
        if self._takes_dask and is_lazy(X):
            return lazy.by_rows(self, name, X)
        X = self._validate(X, reset=False)
        with self._far_values(X):
            return call(X)

    def _mend_rows(self, X: Array) -> Array:
        """Return checked rows mended, of their dtype."""
        raise NotImplementedError

    def _score_rows(self, X: Array) -> Array:
        """Return the outlier scores of checked rows."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> Any:
        """Return how far below the threshold the outlier score of each row is: negative for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as `score_samples` takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            `threshold_` minus the score of each row.
        """
        return self.score_samples(X) + self.threshold_

    def predict(self, X: Any) -> Any:
        """Return -1 for the rows that count as wrong, +1 for the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as `score_samples` takes them.

        Returns
        -------
        ndarray of int, shape (n_samples,)
            -1 or +1 for each row.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)


@parameters
class KernelModel(NewRowsRecovery):
    """The parameters that both kernel models have."""

    _score_meaning = "how far the row was moved in the kernel space, as a share of a row's length there"

    kernel: str | Kernel = "rbf"
    gamma: float | str = "auto"
    degree: float = 2
    coef0: Any = 1.0
    lam: float | str = "auto"
    rho: float | str = "auto"
    bounds: Any = None
    max_iter: int = 200
    tol: float = 1e-6
    random_state: Any = None
    verbose: int = 0
