"""Learning from rows: find the wrong ones, choose how to mend, mend them, leave the others alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector, Found
from kernmend.linalg.distances import few_threads
from kernmend.model.errors import EntryError, RowError, RowSum, error_model
from kernmend.model.kernels import RBF, Kernel, make_kernel
from kernmend.model.penalties import cutoff_from_rho
from kernmend.repair.calibrate import (
    LEAST_FEATURES,
    MANY_FEATURES,
    Calibration,
    Evidence,
    calibrate,
    choose_filling,
)
from kernmend.repair.completion import Filled, Showing, fill_table, no_progress
from kernmend.repair.conformal import Fitted, calibrate_intervals
from kernmend.repair.mender import Mender, Settings
from kernmend.repair.row_mender import Mask, RowMender, leave_units
from kernmend.repair.units import Units, resolve_bounds
from kernmend.solvers.result import StopReason

# Kernels to choose from, as gamma times the median squared distance: for many features, and for few.
WIDE, NARROW = (0.01, 0.03, 0.1, 0.3, 1.0), (0.1, 0.3, 1.0, 3.0, 10.0)
# Least number of good rows: fewer say nothing about a surface, and rows are mended against all of them.
MIN_GOOD_ROWS = 5
# Change of an entry, as a share of a typical difference of entries, that counts as replaced.
CHANGED = 0.05
# Number of settings that calibration tries, about, for the progress bar: 15 to 40 on pictures, tables and surfaces.
TRIALS = 40


@dataclass(frozen=True)
class Learner:
    """How to learn from rows: the parameters of `KernelRecovery`, where they are explained."""

    kernel: str | Kernel
    gamma: float | str
    degree: float
    coef0: float
    lam: float | str
    rho: float | str
    error: Any
    contamination: float | str
    alpha: float
    bounds: Any
    scale: Any
    max_iter: int
    tol: float
    seed: int
    interval: float | None = None
    unsure: str = "mend"
    choose: Callable[..., Calibration] = calibrate
    """What chooses the settings of mending; a search may take its place."""
    solving: Showing = no_progress
    counting: Showing = no_progress
    """Contexts that give a callback: for a solver, and for work that counts its steps."""

    def learn(self, X: Array, good: Mask = None, wrong: Mask = None) -> "Learned":
        """Return what was learned from rows, and those rows mended. `good` and `wrong` are masks of known rows."""
        units = self.units(X)
        with few_threads(X.size):
            learned = self.learn_inside(units.enter(X), units, good, wrong)
        return learned.leaving(X)

    def units(self, X: Array) -> Units:
        """Return the units in which these rows are compared."""
        return Units.of(self.scale, X, bounded=self.bounds is not None)

    def learn_inside(self, X: Array, units: Units, good: Mask = None, wrong: Mask = None) -> "Learned":
        """Return what was learned from rows that are in `units` already; so are the mended ones."""
        filled, interrupted = self.complete(X)
        with self.counting("finding", 0, ""):
            detector, found = self.find(filled, good, wrong)
        mender = self.mender(units, filled, found.rows)
        kernels, errors = self._kernels(mender), self._errors(X.shape[1])
        chosen = Calibration(Settings(kernels[len(kernels) // 2], 1e-5, errors[0], 0.5), 0.0, interrupted)
        by_entries = any(error.by_entry for error in errors)
        # An error model that the user gave is used, also where wrong entries could be filled in without one.
        partly = found.rows & ~found.whole & by_entries & (self.error == "auto" or errors[0] is EntryError)
        whole, filling = found.rows & ~partly, None
        enough = mender.L.shape[0] < X.shape[0] and not interrupted
        evidence = Evidence(mender, filled[whole], detector)
        if whole.any() and enough:
            with self.counting("calibrating", TRIALS) as callback:
                chosen = self.choose(evidence, kernels=kernels, errors=errors, seed=self.seed, callback=callback)
        if partly.any() and enough:
            try:
                with self.counting("calibrating", 0, ""):
                    entries = found.entries[partly]
                    filling = choose_filling(evidence, entries, detector.expected, kernels, seed=self.seed)
            except KeyboardInterrupt:  # by what the other entries of a row say, then
                chosen = chosen._replace(interrupted=True)
        del evidence  # as large as its eigendecompositions
        settings = filling if filling is not None and not whole.any() else chosen.settings
        tolerance = CHANGED * float(np.sqrt(mender.median / X.shape[1]))
        budget: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
        rows = RowMender(
            units, mender, settings, detector, filling, by_entries, tolerance, **budget, unsure=self.unsure
        )
        return self._mended(rows, X, filled, found, chosen)

    def find(self, filled: Array, good: Mask = None, wrong: Mask = None) -> tuple[Detector, Found]:
        """Return what tells wrong rows, and what it found of these, which lack nothing."""
        detector, found = Detector.fit(filled, alpha=self.alpha, good=good, wrong=wrong)
        if not isinstance(self.contamination, str):  # by the scores that `predict` gives, so that both agree
            detector, found = detector.at_share(detector.find(filled), float(self.contamination))
        return detector, found.with_known(good, wrong)

    def find_only(self, X: Array) -> tuple[RowMender, Found]:
        """Return what judges rows as a fit would, and what it found of these; nothing is chosen for mending."""
        units = self.units(X)
        filled = self.complete(units.enter(X)).A
        with self.counting("finding", 0, ""):
            detector, found = self.find(filled)
        middle = Settings(RBF(1.0), 1e-5, RowError, 0.5)
        mender = self.mender(units, filled, found.rows)
        return RowMender(units, mender, middle, detector, None, False, np.inf, self.max_iter, self.tol), found

    def complete(self, X: Array) -> Filled:
        """Return rows with missing entries filled in."""
        X = X.astype(np.float64, copy=False)
        if not np.isnan(X).any():
            return Filled(X, False)
        return fill_table(X, solving=self.solving, counting=self.counting)

    def mender(self, units: Units, X: Array, bad: NDArray[np.bool_]) -> Mender:
        """Return what mends rows against the good ones, or against all where those are too few."""
        good = X[~bad] if int((~bad).sum()) >= MIN_GOOD_ROWS else X
        lam = None if isinstance(self.lam, str) else float(self.lam)
        cutoff = None if isinstance(self.rho, str) else cutoff_from_rho(self.rho)
        return Mender(good, resolve_bounds(units.bounds(self.bounds), good), lam, cutoff)

    def _mended(self, rows: RowMender, X: Array, filled: Array, found: Found, chosen: Calibration) -> "Learned":
        """Return what was learned, with the flagged rows mended by the settings found, and how sure that is."""
        found = rows.within_bounds(filled, found)
        mended, totals, converged = filled, [0.0, 0.0], True
        if rows.mender.L.shape[0] < len(X):
            # Missing entries of rows that were not flagged are filled in already.
            known = np.where(found.rows[:, np.newaxis], X.astype(np.float64), filled)
            with self.counting("mending", 0, ""):
                mended, totals, converged = rows.mend_found(known, filled, found)
        per_row = rows.per_row(X, mended, found)
        if self.interval is not None:
            with self.counting("trying intervals", 0, ""):
                intervals = calibrate_intervals(rows, Fitted(X, filled, mended, found), self.interval, self.seed)
            rows = replace(rows, intervals=intervals)
        recovered = np.where(np.isnan(X) | found.rows[:, np.newaxis], mended, X)
        recovered, sure = rows.trust(X, recovered, found)
        mostly_entries = 2 * int(rows.partly_wrong(found).sum()) > int(found.rows.sum())
        rank = rows.mender.reference(rows.settings).rank
        rows.mender.forget_reference()
        return Learned(
            rows,
            recovered.astype(X.dtype, copy=False),
            per_row | sure,
            np.array(totals),
            "interrupted" if chosen.interrupted else "converged" if converged else "max_iter",
            self._reported_error(rows, mostly_entries),
            rank,
            chosen.share,
        )

    def _reported_error(self, rows: RowMender, mostly_entries: bool) -> type[RowSum]:
        """Return the error model that was given, or else the one that most of what was mended stands for."""
        if self.error != "auto":
            return error_model(self.error)
        return EntryError if mostly_entries and not rows.settings.error.by_entry else rows.settings.error

    def _errors(self, n_features: int) -> list[type[RowSum]]:
        """Return the error models to choose from."""
        if self.error != "auto":
            return [error_model(self.error)]
        return [RowError, EntryError] if n_features >= LEAST_FEATURES else [RowError]

    def _kernels(self, mender: Mender) -> list[Kernel]:
        """Return the kernels to choose from, in order of width."""
        if self.kernel != "rbf" or not isinstance(self.gamma, str):
            return [make_kernel(self.kernel, mender.L, gamma=self.gamma, degree=self.degree, coef0=self.coef0)]
        return [RBF(width / mender.median) for width in widths(mender.L.shape[1])]


def widths(n_features: int) -> tuple[float, ...]:
    """Return the widths of kernels to choose from, as gamma times the median squared distance, ascending."""
    return WIDE if n_features >= MANY_FEATURES else NARROW


@dataclass(frozen=True)
class Learned:
    """What was learned from rows, and these rows mended."""

    rows: RowMender
    recovered: Array
    per_row: dict[str, Any]
    objective: Array
    """Of the rows mended as a whole, summed, at each iteration of the minimisation; a refit comes after it."""
    stop_reason: StopReason
    error: type[RowSum]
    rank: int
    calibration_error: float
    """The share of injected squared error that the chosen settings leave."""

    def leaving(self, X: Array) -> "Learned":
        """Return the same with the rows in the units of the data `X`."""
        units = self.rows.units
        return replace(self, recovered=units.leave(self.recovered, X), per_row=leave_units(self.per_row, units, X))
