"""Rows, seen or new, judged and mended against the good ones."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector, Found
from kernmend.repair.calibrate import Evidence
from kernmend.repair.completion import fill_missing
from kernmend.repair.mender import Mender, Settings

MIN_GOOD_ROWS = 5  # fewer say nothing about a surface


@dataclass(frozen=True)
class RowMender:
    """What is needed to mend rows, seen or new: the good rows, how to mend, and how to tell which rows need it."""

    mender: Mender
    settings: Settings
    detector: Detector | None = None
    """None where every row may move."""
    filling: Settings | None = None
    """How wrong entries are filled in; None is by what the other entries of their row say."""
    by_entries: bool = False
    """Whether only the entries found wrong are changed, where there are such."""

    def fill(self, X: Array) -> Array:
        """Return the rows with missing entries filled in: from the nearest good rows, then by what these span."""
        missing = np.isnan(X)
        rows = missing.any(axis=1)
        if not rows.any():
            return X
        out = X.copy()
        out[rows] = [self._fill_one(row) for row in X[rows]]
        if self.detector is not None:  # else every entry moves later
            how = replace(self.filling or self.settings, refit=0.0, grow=0)
            out[rows] = self.mender.mend_with_history(X[rows], how, start=out[rows], free=missing[rows])[0]
        return out

    def _fill_one(self, row: Array) -> Array:
        filled: Array = fill_missing(np.vstack([self.mender.L, row]))[-1]
        return filled

    def judge(self, X: Array) -> Found:
        """Return what is found of rows without missing entries; where every row may move, all are wrong."""
        if self.detector is not None:
            return self.detector.find(X)
        n, every, nothing = len(X), np.ones(len(X), dtype=bool), np.zeros(X.shape, dtype=bool)
        return Found(np.zeros(n), every, ~every, every, np.zeros(X.shape), nothing, X)

    def mend(self, X: Array, *, max_iter: int, tol: float) -> tuple[Array, Found]:
        """Return the rows mended, and what was found; those that fit come back as they are, only filled in."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        filled = self.fill(X)
        found = self.judge(filled)
        return self.mend_found(X, filled, found, max_iter=max_iter, tol=tol)[0], found

    def mend_found(
        self, X: Array, filled: Array, found: Found, *, max_iter: int, tol: float
    ) -> tuple[Array, list[float], bool]:
        """Return the rows mended, the objective of those mended as a whole, and whether that converged.

        Where single entries are wrong, these and the missing ones are filled in and nothing else is changed; rows
        that are wrong as a whole move as the settings say.
        """
        out, missing = filled.copy(), np.isnan(X)
        budget: dict[str, Any] = {"max_iter": max_iter, "tol": tol}
        partly = self.partly_wrong(found)
        whole = found.rows & ~partly
        holes = (found.entries & partly[:, np.newaxis]) | missing
        holes[whole] = False
        some = partly & (holes & ~missing).any(axis=1)
        out[some] = np.where(found.entries[some], found.filled[some], out[some])
        by_kernel = some & (missing.any(axis=1) | (self.filling is not None))
        if by_kernel.any():
            how = replace(self.filling or self.settings, refit=0.0, grow=0)
            unknown = np.where(holes[by_kernel], np.nan, X[by_kernel])
            out[by_kernel] = self.mender.mend_with_history(
                unknown, how, start=out[by_kernel], free=holes[by_kernel], **budget
            )[0]
        if not whole.any():
            return out, [0.0, 0.0], True  # one look, nothing to do
        start = out[whole] if self.detector is None else self.mender.start(out[whole], self.settings.error)
        mended, totals, converged = self.mender.mend_with_history(X[whole], self.settings, start=start, **budget)
        out[whole] = mended
        return out, totals, converged

    def partly_wrong(self, found: Found) -> NDArray[np.bool_]:
        """Return which rows are wrong in single entries only: without these they look as good rows do."""
        return found.rows & ~found.whole if self.by_entries else np.zeros(len(found.rows), dtype=bool)

    def moved_to(self, mender: Mender) -> "RowMender":
        """Return one that judges and mends against other good rows."""
        detector = None if self.detector is None else self.detector.against(mender.L)
        return replace(self, mender=mender, detector=detector)


@dataclass(frozen=True)
class Suspicion:
    """How wrong rows look against good ones: 1 where their score is at the threshold. A class, so that it pickles."""

    detector: Detector

    def __call__(self, X: Array) -> Array:
        """Return the suspicion of each row."""
        return self.detector.scores(X) / max(self.detector.threshold, 1e-9)


@dataclass(frozen=True)
class Suspicious:
    """Makes a `Suspicion` from good rows, fewer than all perhaps."""

    detector: Detector

    def __call__(self, L: Array) -> Suspicion:
        """Return how wrong rows look against those of `L`."""
        return Suspicion(self.detector.against(L))


def evidence(mender: Mender, flagged: Array, detector: Detector) -> Evidence:
    """Return what calibration works from."""
    return Evidence(mender.L, flagged, mender.fixed_lam, mender.fixed_cutoff, mender.bounds, Suspicious(detector))
