"""`repair="flagged"` from end to end: find the wrong rows, choose how to mend, mend them, leave the others alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend import completion, tuning
from kernmend._threads import few_threads
from kernmend._typing import Array
from kernmend.calibration import MANY_FEATURES, Calibration, calibrate
from kernmend.estimators import _flagged, _large
from kernmend.estimators._base import Recovery
from kernmend.estimators._parameters import check_parameters, resolve_bounds
from kernmend.estimators._units import Units
from kernmend.kernels import RBF, Kernel, Linear, Polynomial
from kernmend.mending import Mender, Settings
from kernmend.second_look import ChangeScorer
from kernmend.spectral import cutoff_from_rho, rho_from_cutoff

WIDE, NARROW = (0.01, 0.03, 0.1, 0.3, 1.0), (0.1, 0.3, 1.0, 3.0, 10.0)  # gamma times the median squared distance
LEAST_FEATURES = 4  # for a wrong entry to be told from a wrong row

NOT_CHOSEN = Settings(RBF(1.0), 1e-5, "rows", 0.5)


class FlaggedRecovery(Recovery):
    """The fit of `KernelRecovery` with `repair="flagged"`, and what both repairs share; its parameters are there."""

    kernel: Any
    gamma: Any
    degree: float
    coef0: float
    lam: Any
    rho: Any
    error: str
    contamination: Any
    bounds: Any
    landmarks: Any
    scale: Any
    max_iter: int
    tol: float

    outlier_scores_: Array
    outliers_: NDArray[np.bool_]
    entry_outliers_: NDArray[np.bool_]  # with error "entries" only
    _rows: _flagged.RowMender
    _units: Units
    _stopped: bool  # by Ctrl-C, while missing entries were filled in

    def _fit_flagged(self, X: Array, choose: Callable[..., Calibration] = calibrate) -> None:
        """Learn from all rows, or from landmarks, and mend."""
        landmarks = _large.draw_landmarks(X.shape[0], self.landmarks, self._seed())
        self._learn_from(X if landmarks is None else X[landmarks], choose)
        if landmarks is not None:
            self._mend_others(X, landmarks)

    def _learn_from(self, X: Array, choose: Callable[..., Calibration] = calibrate) -> None:
        """Learn from rows, and mend those that are wrong."""
        self._units = Units.of(self.scale, X)
        with few_threads(X.size):
            self._learn(self._units.enter(X), choose)
        self.recovered_ = self._units.leave(self.recovered_, X)

    def _mend_others(self, X: Array, landmarks: NDArray[np.intp]) -> None:
        """Put what was learned from the landmarks beside what it says of the other rows."""
        others = np.ones(X.shape[0], dtype=bool)
        others[landmarks] = False
        recovered, z, flags = X.copy(), np.zeros(X.shape[0]), np.zeros(X.shape[0], dtype=bool)
        recovered[landmarks] = self.recovered_
        z[landmarks], flags[landmarks] = self.outlier_scores_, self.outliers_
        entries = np.zeros(X.shape, dtype=bool) if self.error_ == "entries" else None
        if entries is not None:
            entries[landmarks] = self.entry_outliers_
        done = 0
        with self._counting("mending", int(others.sum())) as callback:
            try:
                for some in _large.blocks(X.shape[0]):
                    rows = some.start + np.flatnonzero(others[some])
                    block = self._units.enter(X[rows])
                    A, z[rows], flags[rows] = self._rows.mend_and_score(block, max_iter=self.max_iter, tol=self.tol)
                    recovered[rows] = self._units.leave(A, X[rows])
                    if entries is not None:
                        entries[rows] = self._changed_entries(block, A)
                    done += rows.size
                    if callback is not None:
                        callback(done, float(flags.mean()))
            except KeyboardInterrupt:
                self.stop_reason_ = "interrupted"
        self.recovered_, self.outlier_scores_, self.outliers_ = recovered, z, flags
        if entries is not None:
            self.entry_outliers_ = entries

    def _look(self, X: Any) -> tuple[Array, NDArray[np.bool_], float]:
        """Return the scores of the rows, which look wrong, and the threshold, without mending.

        It is a first look: where only entries are wrong, the fit looks again once it knows how to mend.
        """
        check_parameters(self)
        X = self._validate(X, reset=True, ensure_min_samples=2)
        landmarks = _large.draw_landmarks(X.shape[0], self.landmarks, self._seed())
        learned = X if landmarks is None else X[landmarks]
        self._units = Units.of(self.scale, learned)
        filled, flags = self._find(self._units.enter(learned))
        if landmarks is None:
            return flags.z, flags.outliers, flags.threshold
        mender = self._mender(filled, flags.outliers)
        rows = _flagged.RowMender(mender, NOT_CHOSEN, _flagged.RowJudge(flags, flags.scorer.against(mender.L)))
        parts = (np.ascontiguousarray(self._units.enter(X[some]), np.float64) for some in _large.blocks(X.shape[0]))
        z = np.concatenate([rows.judge_rows(rows.fill(part))[0] for part in parts])
        z[landmarks] = flags.z
        return z, z > flags.threshold, flags.threshold

    def _find(self, X: Array) -> tuple[Array, _flagged.Flags]:
        """Return the rows with missing entries filled in, and which are wrong."""
        filled = self._complete(X.astype(np.float64, copy=False))
        contamination = None if isinstance(self.contamination, str) else float(self.contamination)
        return filled, _flagged.find_flags(filled, contamination, seed=self._seed())

    def _learn(self, X: Array, choose: Callable[..., Calibration] = calibrate) -> None:
        """Find the wrong rows of `X`, choose how to mend, and mend them."""
        filled, flags = self._find(X)
        mender = self._mender(filled, flags.outliers)
        kernels, errors = self._kernels(mender.L), self._errors(X.shape[1])
        middle = Settings(kernels[len(kernels) // 2], 1e-5, errors[0], 0.5)
        found, again = Calibration(middle, 0.0, interrupted=self._stopped), None
        if flags.outliers.any() and not self._stopped and mender.L.shape[0] < X.shape[0]:
            evidence = _flagged.evidence(mender, filled[flags.outliers], flags)
            with self._counting("calibrating", 60) as callback:
                found = choose(evidence, kernels=kernels, errors=errors, seed=self._seed(), callback=callback)
            if isinstance(self.contamination, str) and not found.interrupted:
                again = _flagged.second_look(filled, flags, mender, found.settings, seed=self._seed())
        judge: _flagged.RowJudge | _flagged.SecondJudge = _flagged.RowJudge(flags, flags.scorer.against(mender.L))
        if again is not None:
            flags, places = again
            mender = self._mender(filled, flags.outliers)
            first = _flagged.RowJudge(judge.flags, flags.scorer.against(mender.L))
            judge = _flagged.SecondJudge(flags, first, ChangeScorer(mender, found.settings), places)
        bad = flags.outliers
        self.outlier_scores_, self.outliers_, self.threshold_ = flags.z, bad, flags.threshold
        self._usual_share = float(bad.mean())
        self.separation_, self.at_rounding_ = flags.line.gain, flags.line.at_rounding
        seen = {X[i].astype(np.float64).tobytes(): filled[i] for i in np.flatnonzero(np.isnan(X).any(axis=1) & ~bad)}
        self._mend_flagged(X, filled, _flagged.RowMender(mender, found.settings, judge, seen, filled[bad]), found)

    def _mender(self, X: Array, bad: NDArray[np.bool_]) -> Mender:
        """Return what mends rows against the good ones, or against all where those are too few."""
        good = X[~bad] if int((~bad).sum()) >= _flagged.MIN_GOOD_ROWS else X
        cutoff = None if isinstance(self.rho, str) else cutoff_from_rho(self.rho)
        bounds = resolve_bounds(self._units.bounds(self.bounds), good)
        return Mender(good, bounds, number(self.lam), cutoff)

    def _mend_flagged(self, X: Array, filled: Array, rows: _flagged.RowMender, found: Calibration) -> None:
        """Mend what was flagged, with the settings found, and store everything that follows from them."""
        bad, mender, settings = self.outliers_, rows.mender, found.settings
        mended, totals, converged = filled[bad], [0.0, 0.0], True  # one look, nothing to do
        if bad.any() and mender.L.shape[0] < X.shape[0]:
            observed = X[bad].astype(np.float64, copy=False)
            start = mender.start(rows.fill(observed), settings.error)  # as `transform` does
            mended, totals, converged = mender.mend_with_history(
                observed, settings, start=start, max_iter=self.max_iter, tol=self.tol
            )
        self._rows, self.calibration_error_ = rows, found.share
        self.recovered_ = np.where(np.isnan(X), filled, X).astype(X.dtype, copy=False)
        self.recovered_[bad] = mended
        self.objective_, self.n_iter_ = np.array(totals), len(totals) - 1
        self.stop_reason_ = "interrupted" if found.interrupted else "converged" if converged else "max_iter"
        self.kernel_, self.error_, self.rank_ = settings.kernel, settings.error, mender.reference(settings).rank
        self.gamma_, self.lam_ = getattr(self.kernel_, "gamma", None), mender.lam(settings)
        self.rho_: float | None = rho_from_cutoff(max(mender.cutoff(settings), 1e-100))
        mender.forget_reference()
        self._mark_entries(X, self.recovered_)

    def _errors(self, n_features: int) -> list[str]:
        """Return the error models to choose from."""
        if self.error != "auto":
            return [self.error]
        return ["rows", "entries"] if n_features >= LEAST_FEATURES else ["rows"]

    def _complete(self, X: Array) -> Array:
        """Return X with missing entries filled in, by the Schatten path over all rows."""
        self._stopped = False
        if not np.isnan(X).any():
            return X
        with self._progress("filling in", 500) as callback:
            result = completion.complete(X, callback=callback)
        self._stopped = result.stop_reason == "interrupted"
        return result.A

    def _kernels(self, good: Array) -> list[Kernel]:
        """Return the kernels to choose from, in order of width."""
        if self.kernel != "rbf" or not isinstance(self.gamma, str):
            return [self._one_kernel(good)]
        median = 1.0 / tuning.auto_gamma(good)
        return [RBF(width / median) for width in (WIDE if good.shape[1] >= MANY_FEATURES else NARROW)]

    def _one_kernel(self, X: Array, width: float = 1.0) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if self.kernel == "rbf":
            return RBF(width * tuning.auto_gamma(X) if isinstance(self.gamma, str) else float(self.gamma))
        kernel = Polynomial(self.degree, self.coef0) if self.kernel == "poly" else Linear()
        kernel.check(X)
        return kernel

    def _mark_entries(self, X: Array, recovered: Array) -> None:
        if hasattr(self, "entry_outliers_"):
            del self.entry_outliers_  # of an earlier fit
        if self.error_ == "entries":
            self._entry_tolerance = 0.05 * float(np.sqrt(1.0 / tuning.auto_gamma(recovered) / X.shape[1]))
            self.entry_outliers_ = self._changed_entries(X, recovered)

    def _changed_entries(self, X: Array, recovered: Array) -> NDArray[np.bool_]:
        """Return which entries were replaced: changed by more than a share of a typical difference."""
        return np.abs(np.nan_to_num(recovered - X)) > self._entry_tolerance


def number(value: Any) -> float | None:
    """Return a parameter as a float; None for "auto"."""
    return None if isinstance(value, str) else float(value)
