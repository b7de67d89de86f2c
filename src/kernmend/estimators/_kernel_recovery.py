"""The estimator that most users call: find and mend."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_known, check_recovery
from kernmend.estimators._base import KernelModel, is_lazy, parameters
from kernmend.estimators._trust import Explained
from kernmend.large import batches
from kernmend.large import dask as lazy
from kernmend.large import landmarks as large
from kernmend.repair.calibrate import Calibration, calibrate
from kernmend.repair.learn import Learned, Learner
from kernmend.repair.row_mender import Mask
from kernmend.repair.units import Units, resolve_bounds


@parameters
class KernelRecovery(Explained, KernelModel):
    """Find the rows that are grossly wrong and mend them, for data that lies on a curved surface.

    Rows are scored against each other, those that do not fit are flagged, and each flagged row x is replaced by the
    minimiser over a of

        dist(a) + lam E(a; x),

    the distance of a from the span of the good rows in the kernel space plus the error model; everything that is not
    given is chosen without labels. All other rows come back bit for bit, missing entries (NaN) filled in. The model of
    the paper, in which every row may move, is `KernelLowRank`.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear"} or Kernel, default="rbf"
        The kernel of mending, or an object of a subclass of `kernmend.model.kernels.Kernel`. Rows are flagged by a
        Gaussian kernel in any case, whose width is chosen by injected errors: which rows are wrong should not depend
        on how they are mended.
    gamma : float or "auto", default="auto"
        Of the Gaussian kernel exp(-gamma |a - b|^2) of mending. "auto" is calibrated.
    degree : float, default=2
        Of the polynomial kernel (a'b + coef0)^degree, any real number >= 1. A fractional one needs a'b + coef0 >= 0.
    coef0 : float, default=1.0
        Of the polynomial kernel, >= 0.
    lam : float or "auto", default="auto"
        The force that holds a row in place: one that the others pull with less than `lam` stays where it is. Useful
        values lie between 0.1 and 1 for `error="kernel"`.
    rho : float or "auto", default="auto"
        Think of it as a cut-off: eigenvalues of the Gram matrix of the good rows up to 1.5 rho^(-2/3) count as noise.
    error : {"auto", "rows", "entries", "kernel"} or class, default="auto"
        What is wrong with a flagged row: "rows" (all of it, in input units), "entries" (some entries: occlusion,
        spikes), "kernel" (all of it, in the kernel space: the paper's), or a subclass of
        `kernmend.model.errors.RowSum`. "auto" chooses between rows and entries, from 3 features on.
    contamination : float or "auto", default="auto"
        Share of the rows to flag. "auto" flags by chance: see `alpha`. 0 flags none of the rows of the fit and only
        fills in.
    alpha : float, default=0.05
        How many good rows of a clean data set may be flagged, on average.
    bounds : None, (low, high) or "data", default=None
        Mended values stay within; "data" is the range of each feature over the good rows.
    scale : "auto", None, "columns", "rows" or array of shape (n_features,), default="auto"
        The units in which rows are compared. "columns": each column divided by its spread, for tables whose columns
        have different units. "rows": each row with the offset and the size under which it is nearest to the shape that
        most have in common, for spectra. "auto" takes "columns" where spreads are far apart and columns are no series,
        "rows" where rows are curves that differ mostly in offset and size, else None (pixels).
    landmarks : int, "auto" or None, default="auto"
        How many rows, drawn at random, to learn from; the others are mended against those, in blocks. "auto" is
        all of 2,000 rows, and of more as many as span what the others do, 1,000 to 2,000. None is always all.
    interval : float or None, default=0.9
        The level of the intervals of mended and filled in values: this share of them holds the true value, if the
        errors of the data are like those that were tried on good rows. None makes no intervals.
    unsure : {"mend", "blank", "keep"}, default="mend"
        What to do where the interval is wider than the column itself, the central share `interval` of its good values:
        mend all the same (and mark it in `unsure_`), put NaN, or leave the old value, which for a missing one is NaN.
    max_iter : int, default=200
        Iterations of mending a row.
    tol : float, default=1e-6
        A row is mended when each of two iterations lowers its objective by at most this share of it.
    random_state : int, RandomState instance or None, default=None
        Of landmarks and of the rows held out for calibration. None means 0: always the same result.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        The mended data.
    outlier_scores_ : ndarray of shape (n_samples,)
        -log10 of the chance of a good row being as far out: 6 is one in a million. Higher is worse.
    outliers_ : ndarray of bool, shape (n_samples,)
        The rows that count as wrong: `outlier_scores_ > threshold_`.
    threshold_ : float
        Always finite. At most -log10(alpha / (3 n)); lower where many rows are wrong and form a group of their own.
    suspects_ : ndarray of bool, shape (n_samples,)
        Rows that are unusual and were not changed.
    entry_scores_ : ndarray of shape (n_samples, n_features)
        -log10 of the chance of a good entry being as far out. Not where landmarks were drawn.
    entry_outliers_ : ndarray of bool, shape (n_samples, n_features)
        The entries of flagged rows that were found wrong, or replaced.
    whole_rows_ : ndarray of bool, shape (n_samples,)
        The flagged rows that are wrong as a whole; in the other flagged ones single entries are.
    half_widths_ : ndarray of float32, shape (n_samples, n_features)
        Half of the width of the interval around each mended or filled in value; 0 for values that did not change. Not
        with `interval=None`.
    unsure_ : ndarray of bool, shape (n_samples, n_features)
        The values whose interval would be wider than their column. That of the column takes its place in `changes_`.
    changes_ : Changes
        Every value that was changed or filled in: row, label, column, old, new, low, high, kind, score, reason and
        accepted. With `unsure="keep"` also what would have been changed, not accepted. `changes_.records` is a
        structured array, `changes_.to_frame()` a DataFrame. Not after a fit to a dask array.
    explanations_ : Explanations
        What `explain` says of each flagged row, made when it is asked for.
    confidence_ : ndarray of shape (n_samples,)
        The probability of each flagged row being wrong, NaN for the others: 1 - n p / k. k of the n rows are as far
        out, and n p good ones would be (docs/intervals.md).
    entry_confidence_ : ndarray of shape (n_samples, n_features)
        The probability of each entry of `entry_outliers_` having been wrong, NaN for the others: the confidence of the
        row, times the share of the entries changed in the same way that were wrong when errors were tried.
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective of the rows that were mended as a whole, summed, at the start and after each iteration. Entries
        found wrong may be filled in anew after it.
    n_iter_ : int
        Iterations of that minimisation.
    stop_reason_ : {"converged", "max_iter", "interrupted"}
        How it ended.
    rank_ : int
        Dimensions of the span of the good rows, after the cut-off.
    kernel_ : Kernel
        The kernel of mending.
    gamma_, lam_, rho_, error_ : float, float, float, str
        The values that were used; `gamma_` is None for kernels without it.
    calibration_error_ : float
        The share of injected squared error that mending with these values leaves; 0 where nothing was calibrated.
    n_samples_seen_ : int
        After `partial_fit`: rows of all calls.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from kernmend import KernelRecovery
    >>> from kernmend.datasets import make_circle
    >>> X = make_circle(60, random_state=0).X
    >>> X[7] = [0.4, 0.4]
    >>> est = KernelRecovery()
    >>> A = est.fit_transform(X)
    >>> est.outliers_.nonzero()[0].tolist()
    [7]
    >>> bool(abs(A[7] @ A[7] - 1) < 0.1)
    True
    """

    error: Any = "auto"
    contamination: float | str = "auto"
    alpha: float = 0.05
    scale: Any = "auto"
    landmarks: Any = "auto"
    interval: float | None = 0.9
    unsure: str = "mend"

    _allow_far = True
    _takes_dask = True
    _saved: ClassVar[tuple[str, ...]] = (
        *KernelModel._saved,
        *("kernel_", "gamma_", "lam_", "rho_", "error_", "calibration_error_"),
        *("suspects_", "entry_scores_", "entry_outliers_", "n_samples_seen_", "n_missing_"),
        *("whole_rows_", "unsure_", "half_widths_"),
        *("_rows", "_share", "_landmark_rows"),
    )

    def fit(self, X: Any, y: Any = None, *, good: Any = None, wrong: Any = None) -> "KernelRecovery":
        """Mend `X`; the result is in `recovered_`.

        Parameters
        ----------
        X : array-like or dask array or dataframe of shape (n_samples, n_features)
            The data; NaN means missing, inf is an error. Of dask data only the landmarks are computed here;
            `recovered_`, `outlier_scores_` and `outliers_` are lazy.
        y : None
            Ignored; there for the pipelines of scikit-learn.
        good, wrong : array-like of bool, shape (n_samples,), optional
            Rows that you know: good ones are never flagged and always what others are held against; wrong ones are
            always flagged, and nothing is learned from them.

        Returns
        -------
        KernelRecovery
            The estimator itself, fitted.
        """
        check_recovery(self)
        if is_lazy(X):
            if good is not None or wrong is not None:
                raise ValueError("good and wrong are masks of rows in memory: X must be too")
            self._forget()
            lazy.fit(self, X)
            return self
        X = self._checked(X)
        good, wrong = check_known(good, wrong, X.shape[0])
        with self._far_values(X):
            self._learn_from(X, good, wrong)
        self._tell(X)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, recalibrate: bool = False) -> "KernelRecovery":
        """Mend a batch of rows against those found good so far, and let these follow slow drift.

        The first call is a fit, unless there was one. Each later one scores and mends the rows of `X` against the
        landmarks, good rows of which there are at most `landmarks` (2,000 if "auto"). Then rows of `X` that are not
        flagged and lack nothing (filled in, where every row lacks something) become landmarks, drawn at random where
        they are more than a quarter of `landmarks`, and as many of the oldest are forgotten. How rows are scored and
        mended stays, but is chosen anew, from landmarks and batch together, while nothing was ever flagged, and when
        the share of flagged rows is over 0.2 from what it was.

        `recovered_`, `outlier_scores_`, `outliers_` are those of the rows of this call; `lam_`, `rho_`, `rank_` and
        `objective_` of the last choice.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next rows; NaN means missing, inf is an error.
        y : None
            Ignored; there for the pipelines of scikit-learn.
        recalibrate : bool, default=False
            Choose anew how to score and mend.

        Returns
        -------
        KernelRecovery
            The estimator itself, fitted.
        """
        check_recovery(self)
        if self.landmarks is None:
            raise ValueError("partial_fit needs a number of landmarks, or 'auto'")
        if is_lazy(X):
            raise ValueError("partial_fit takes rows in memory: call it with X.compute() of one block after the other")
        learner, seen = self._learner(), vars(self).get("n_samples_seen_", 0)
        rng = np.random.default_rng([learner.seed, seen])
        begun = "_rows" in vars(self)
        X = self._follow(X, learner, rng, recalibrate) if begun else self._begin(X, learner, rng)
        self.n_samples_seen_ = seen + len(X)
        return self

    def _interrupted(self) -> str:
        return "what was being chosen is the best so far, and rows that were not reached are as they came"

    @property
    def _units(self) -> Units:
        return self._rows.units

    def _checked(self, X: Any) -> Array:
        """Return the rows of a fit, and forget an earlier one."""
        self._forget()
        checked = self._validate(X, reset=True, ensure_min_samples=2)
        resolve_bounds(self.bounds, checked)  # refused before the work
        return checked

    def _learner(self, choose: Callable[..., Calibration] = calibrate) -> Learner:
        """Return what learns from rows with the parameters of this estimator."""
        names = {field.name for field in fields(Learner)} & self.get_params(deep=False).keys()
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        return Learner(**given, seed=self._seed(), choose=choose, solving=self._progress, counting=self._counting)

    @property
    def _most_landmarks(self) -> Any:
        """How many landmarks there are at most; infinite if all rows are."""
        return {None: np.inf, "auto": large.AUTO_LANDMARKS}.get(self.landmarks, self.landmarks)

    def _pick_landmarks(self, X: Array, learner: Learner) -> Any:
        """Return the numbers of the rows to learn from; None is all of them."""
        if len(X) <= self._most_landmarks:
            return None
        return large.pick_landmarks(X, self._most_landmarks, learner, fewer=self.landmarks == "auto")

    def _learn_from(self, X: Array, good: Mask, wrong: Mask, *, choose: Callable[..., Calibration] = calibrate) -> None:
        """Learn from all rows, or from landmarks, mend, and store what follows."""
        learner = self._learner(choose)
        landmarks = self._pick_landmarks(X, learner)
        if landmarks is None:
            self._store(learner.learn(X, good, wrong))
            return
        known = (None if mask is None else mask[landmarks] for mask in (good, wrong))
        learned = learner.learn(X[landmarks], *known)
        self._store(learned)
        good = self._certainly_good(len(X), good, wrong)
        with self._counting("mending", X.shape[0] - landmarks.size, "flagged") as callback:
            self.recovered_, per_row, interrupted = large.mend_others(
                learned.rows, X, landmarks, learned.recovered, learned.per_row, good, wrong, callback
            )
        del self.entry_scores_
        self.__dict__.update(per_row)
        if self.contamination == 0:  # no row is above the threshold, as where all rows are compared with each other
            highest = float(self.outlier_scores_[~self.outliers_].max(initial=0.0))
            detector = replace(learned.rows.detector, threshold=max(highest, self.threshold_))
            self._rows, self.threshold_ = replace(learned.rows, detector=detector), detector.threshold
        if interrupted:
            self.stop_reason_ = "interrupted"

    def _certainly_good(self, n: int, good: Mask = None, wrong: Mask = None) -> Mask:
        """Return which of n rows of a fit are not flagged whatever their score: all unknown ones if none is to be."""
        if self.contamination != 0:
            return good
        return np.ones(n, dtype=bool) if wrong is None else ~wrong

    def _store(self, learned: Learned) -> None:
        """Set everything that follows from what was learned."""
        rows = learned.rows
        mender, settings = rows.mender, rows.settings
        self._rows = rows
        self._share = float(learned.per_row["outliers_"].mean())
        self.recovered_, self.threshold_ = learned.recovered, rows.detector.threshold
        self.__dict__.update(learned.per_row)
        self.objective_, self.n_iter_ = np.asarray(learned.objective, dtype=np.float64), len(learned.objective) - 1
        self.stop_reason_, self.calibration_error_ = learned.stop_reason, learned.calibration_error
        self.kernel_, self.error_, self.rank_ = settings.kernel, learned.error.name, learned.rank
        self.gamma_, self.lam_ = getattr(self.kernel_, "gamma", None), mender.lam(settings)
        self.rho_ = mender.rho(settings) if isinstance(self.rho, str) else float(self.rho)

    def _begin(self, X: Any, learner: Learner, rng: np.random.Generator) -> Array:
        """Fit the first batch and keep no more good rows than there may be landmarks; return the batch, checked."""
        first = self._checked(X)
        with self._far_values(first):
            self._learn_from(first, None, None)
        L = batches.draw(self._rows.mender.L, self._most_landmarks, rng)
        self._rows = batches.settle(learner, self._rows, L)
        self._tell(first)
        return first

    def _follow(self, X: Any, learner: Learner, rng: np.random.Generator, recalibrate: bool) -> Array:
        """Mend a later batch against the landmarks, which then follow it; return the batch, checked."""
        lazy.forget(self)
        self._name_rows(X)
        later, most = self._validate(X, reset=False), self._most_landmarks
        with self._far_values(later):
            batch = batches.follow(
                learner, self._rows, later, most=most, share=self._share, recalibrate=recalibrate, rng=rng
            )
        if batch.learned is not None:
            self._store(batch.learned)
        self._rows, self.recovered_ = batch.rows, batch.recovered
        self.__dict__.update(batch.per_row)
        self._remember(later)
        return later

    def _find_only(self, X: Any) -> tuple[Any, Any, float, Any]:
        """Return what a fit would score and flag, without mending: scores, flags, threshold, suspects."""
        check_recovery(self)
        X, learner = self._checked(X), self._learner()
        with self._far_values(X):
            landmarks = self._pick_landmarks(X, learner)
            rows, found = learner.find_only(X if landmarks is None else X[landmarks])
            if landmarks is None:
                return found.scores, found.rows, rows.detector.threshold, found.suspects
            with self._counting("judging", len(X), "flagged") as callback:
                scores, flags, suspects = large.judge_others(rows, X, landmarks, found, callback)
        threshold = rows.detector.threshold
        if self.contamination == 0:
            flags, threshold = np.zeros_like(flags), max(threshold, float(scores.max()))
        return scores, flags, threshold, suspects
