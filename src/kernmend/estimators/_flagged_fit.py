"""`repair="flagged"` from end to end: find the wrong rows, choose how to mend, mend them, leave the others alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector, Found
from kernmend.estimators._base import Recovery
from kernmend.estimators._parameters import check_parameters, resolve_bounds
from kernmend.estimators._units import Units
from kernmend.large import landmarks as _large
from kernmend.linalg.threads import few_threads
from kernmend.model import tuning
from kernmend.model.kernels import RBF, Kernel, Linear, Polynomial
from kernmend.model.penalties import cutoff_from_rho, rho_from_cutoff
from kernmend.repair import completion
from kernmend.repair import row_mender as _flagged
from kernmend.repair.calibrate import LEAST_FEATURES, MANY_FEATURES, Calibration, calibrate, choose_filling
from kernmend.repair.mender import Mender, Settings

WIDE, NARROW = (0.01, 0.03, 0.1, 0.3, 1.0), (0.1, 0.3, 1.0, 3.0, 10.0)  # gamma times the median squared distance

PER_ROW = ("outlier_scores_", "outliers_", "suspects_", "entry_scores_", "entry_outliers_")


Mask = NDArray[np.bool_] | None


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
    alpha: float
    bounds: Any
    landmarks: Any
    scale: Any
    max_iter: int
    tol: float

    outlier_scores_: Array
    outliers_: NDArray[np.bool_]
    suspects_: NDArray[np.bool_]
    entry_scores_: Array
    entry_outliers_: NDArray[np.bool_]
    _rows: _flagged.RowMender
    _units: Units
    _stopped: bool  # by Ctrl-C, while missing entries were filled in

    def _fit_flagged(
        self, X: Array, good: Mask = None, wrong: Mask = None, *, choose: Callable[..., Calibration] = calibrate
    ) -> None:
        """Learn from all rows, or from landmarks, and mend."""
        landmarks = _large.draw_landmarks(X.shape[0], self.landmarks, self._seed())
        if landmarks is None:
            self._learn_from(X, good, wrong, choose=choose)
            return
        known = (None if mask is None else mask[landmarks] for mask in (good, wrong))
        self._learn_from(X[landmarks], *known, choose=choose)
        self._mend_others(X, landmarks, good, wrong)

    def _learn_from(
        self, X: Array, good: Mask = None, wrong: Mask = None, *, choose: Callable[..., Calibration] = calibrate
    ) -> None:
        """Learn from rows, and mend those that are wrong."""
        self._units = Units.of(self.scale, X, bounded=self.bounds is not None)
        with few_threads(X.size):
            self._learn(self._units.enter(X), good, wrong, choose=choose)
        self.recovered_ = self._units.leave(self.recovered_, X)

    def _mend_others(self, X: Array, landmarks: NDArray[np.intp], good: Mask, wrong: Mask) -> None:
        """Put what was learned from the landmarks beside what it says of the other rows."""
        others = np.ones(X.shape[0], dtype=bool)
        others[landmarks] = False
        recovered = X.copy()
        recovered[landmarks] = self.recovered_
        parts: dict[str, Any] = {}
        del self.entry_scores_  # as large as the data, and larger than float32: of rows that are all compared only
        for name in PER_ROW:
            if name not in vars(self):
                continue
            of_landmarks = getattr(self, name)
            parts[name] = np.zeros((X.shape[0], *of_landmarks.shape[1:]), dtype=of_landmarks.dtype)
            parts[name][landmarks] = of_landmarks
        done = 0
        with self._counting("mending", int(others.sum())) as callback:
            try:
                for some in _large.blocks(X.shape[0]):
                    rows = some.start + np.flatnonzero(others[some])
                    known = [None if mask is None else mask[rows] for mask in (good, wrong)]
                    recovered[rows], found = self._mend_rows(X[rows], *known)
                    for name, values in parts.items():
                        values[rows] = found[name]
                    done += rows.size
                    if callback is not None:
                        callback(done, float(parts["outliers_"].mean()))
            except KeyboardInterrupt:
                self.stop_reason_ = "interrupted"
        self.recovered_ = recovered
        for name, values in parts.items():
            setattr(self, name, values)

    def _mend_rows(self, X: Array, good: Mask = None, wrong: Mask = None) -> tuple[Array, dict[str, Any]]:
        """Return rows mended against the good ones, and what was found of them, by the names of the attributes."""
        inside = np.ascontiguousarray(self._units.enter(X), dtype=np.float64)
        filled = self._rows.fill(inside)
        found = self._rows.judge(filled).with_known(good, wrong)
        A = self._rows.mend_found(inside, filled, found, max_iter=self.max_iter, tol=self.tol)[0]
        return self._units.leave(A, X), self._per_row(inside, A, found)

    def _per_row(self, X: Array, A: Array, found: Found) -> dict[str, Any]:
        """Return what was found of rows, by the names of the attributes. X and A are in the units of the fit."""
        changed = np.abs(np.nan_to_num(A - X)) > self._entry_tolerance
        partly = self._rows.partly_wrong(found)[:, np.newaxis]
        entries = np.where(partly, found.entries, changed & found.rows[:, np.newaxis])
        return dict(zip(PER_ROW, (found.scores, found.rows, found.suspects, found.entry_scores, entries), strict=True))

    def _look(self, X: Any) -> Any:
        """Return what a fit would score and flag, without mending: scores, flags, threshold, suspects."""
        check_parameters(self)
        X = self._validate(X, reset=True, ensure_min_samples=2)
        landmarks = _large.draw_landmarks(X.shape[0], self.landmarks, self._seed())
        learned = X if landmarks is None else X[landmarks]
        self._units = Units.of(self.scale, learned, bounded=self.bounds is not None)
        filled, detector, found = self._find(self._units.enter(learned))
        if landmarks is None:
            return found.scores, found.rows, detector.threshold, found.suspects
        middle = Settings(RBF(1.0), 1e-5, "rows", 0.5)  # of mending, which is not done
        rows = _flagged.RowMender(self._mender(filled, found.rows), middle, detector)
        parts = (np.ascontiguousarray(self._units.enter(X[some]), np.float64) for some in _large.blocks(X.shape[0]))
        judged = [rows.judge(rows.fill(part)) for part in parts]
        scores, flags, suspects = (
            np.concatenate([getattr(part, name) for part in judged]) for name in ("scores", "rows", "suspects")
        )
        scores[landmarks], flags[landmarks], suspects[landmarks] = found.scores, found.rows, found.suspects
        return scores, flags, detector.threshold, suspects

    def _find(self, X: Array, good: Mask = None, wrong: Mask = None) -> tuple[Array, Detector, Found]:
        """Return the rows with missing entries filled in, what tells wrong rows, and what it found of these."""
        filled = self._complete(X.astype(np.float64, copy=False))
        detector, found = Detector.fit(filled, alpha=self.alpha, good=good, wrong=wrong)
        if not isinstance(self.contamination, str):
            detector, found = detector.at_share(found, float(self.contamination))
        return filled, detector, found.with_known(good, wrong)

    def _learn(
        self, X: Array, good: Mask = None, wrong: Mask = None, *, choose: Callable[..., Calibration] = calibrate
    ) -> None:
        """Find the wrong rows of `X`, choose how to mend, and mend them."""
        filled, detector, found = self._find(X, good, wrong)
        mender = self._mender(filled, found.rows)
        kernels, errors = self._kernels(mender.L), self._errors(X.shape[1])
        chosen = Calibration(Settings(kernels[len(kernels) // 2], 1e-5, errors[0], 0.5), 0.0, interrupted=self._stopped)
        by_entries = "entries" in errors
        rows = _flagged.RowMender(mender, chosen.settings, detector, by_entries=by_entries)
        enough, filling = mender.L.shape[0] < X.shape[0] and not self._stopped, None
        partly = rows.partly_wrong(found)
        whole = found.rows & ~partly
        if whole.any() and enough:
            evidence = _flagged.evidence(mender, filled[whole], detector)
            with self._counting("calibrating", 60) as callback:
                chosen = choose(evidence, kernels=kernels, errors=errors, seed=self._seed(), callback=callback)
        if partly.any() and enough:
            entries = found.entries[partly]
            filling = choose_filling(mender, entries, detector.expected, kernels, seed=self._seed())
        settings = filling if filling is not None and not whole.any() else chosen.settings
        rows = _flagged.RowMender(mender, settings, detector, filling, by_entries)
        self._mend_flagged(X, filled, found, rows, chosen)

    def _mender(self, X: Array, bad: NDArray[np.bool_]) -> Mender:
        """Return what mends rows against the good ones, or against all where those are too few."""
        good = X[~bad] if int((~bad).sum()) >= _flagged.MIN_GOOD_ROWS else X
        cutoff = None if isinstance(self.rho, str) else cutoff_from_rho(self.rho)
        bounds = resolve_bounds(self._units.bounds(self.bounds), good)
        return Mender(good, bounds, number(self.lam), cutoff)

    def _mend_flagged(
        self, X: Array, filled: Array, found: Found, rows: _flagged.RowMender, chosen: Calibration
    ) -> None:
        """Mend what was flagged, with the settings found, and store everything that follows from them."""
        mender, settings = rows.mender, rows.settings
        mended, totals, converged = filled, [0.0, 0.0], True
        if mender.L.shape[0] < len(X):
            known = np.where(
                found.rows[:, np.newaxis], X.astype(np.float64), filled
            )  # the others are filled in already
            mended, totals, converged = rows.mend_found(known, filled, found, max_iter=self.max_iter, tol=self.tol)
        self._rows, self.calibration_error_ = rows, chosen.share
        self._entry_tolerance = 0.05 * float(np.sqrt(1.0 / tuning.auto_gamma(mender.L) / X.shape[1]))
        self.recovered_ = np.where(np.isnan(X) | found.rows[:, np.newaxis], mended, X).astype(X.dtype, copy=False)
        for name, values in self._per_row(X, mended, found).items():
            setattr(self, name, values)
        assert rows.detector is not None
        self.threshold_ = rows.detector.threshold
        self._usual_share = float(found.rows.mean())
        self.objective_, self.n_iter_ = np.array(totals), len(totals) - 1
        self.stop_reason_ = "interrupted" if chosen.interrupted else "converged" if converged else "max_iter"
        self.kernel_, self.error_, self.rank_ = settings.kernel, settings.error, mender.reference(settings).rank
        if found.rows.any() and rows.partly_wrong(found)[found.rows].all():
            self.error_ = "entries"
        self.gamma_, self.lam_ = getattr(self.kernel_, "gamma", None), mender.lam(settings)
        self.rho_: float | None = rho_from_cutoff(max(mender.cutoff(settings), 1e-100))
        mender.forget_reference()

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


def number(value: Any) -> float | None:
    """Return a parameter as a float; None for "auto"."""
    return None if isinstance(value, str) else float(value)
