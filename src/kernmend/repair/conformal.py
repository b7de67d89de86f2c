"""Intervals of mended values by split conformal prediction: what is known of errors is tried on good rows.

Good rows are held out of the reference and corrupted: with what mending took off the flagged rows, and by hiding
entries where other rows have wrong or missing ones. They are then mended as the fit mends, and since their truth is
known, so are the residuals |truth - mended| / scale. If an error of the data is exchangeable with those tried, its
residual exceeds their quantile of rank ceil((m + 1) level) with a chance of 1 - level at most. This is the only
assumption: nothing is supposed about the shape of errors or of the data.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Found
from kernmend.detect.entries import Conditional
from kernmend.repair.filling import Filler
from kernmend.repair.intervals import ENTRIES, KINDS, MISSING, WHOLE, Intervals, conformal_quantile, scales, some_rows
from kernmend.repair.mender import Mender
from kernmend.repair.row_mender import RowMender

TRIED = 100
"""Rows that are tried for each kind, at most: the coverage of a 90 % interval then has a standard error of 3 %."""
FOLDS = 5
"""Parts into which few good rows are divided, each held out once."""
FEWEST = 5
"""Good rows below which nothing is known of an interval."""


def calibrate_intervals(rows: RowMender, X: Array, mended: Array, found: Found, level: float, seed: int) -> Intervals:
    """Return the intervals of what `rows` mends, from rows `X` with missing entries that were mended to `mended`."""
    L = rows.mender.L
    residuals: list[list[Array]] = [[] for _ in KINDS]
    if FEWEST <= len(L) < len(X) or not found.rows.any():
        observed = ~np.isnan(X[~found.rows])
        for trial in _trials(rows, observed, seed):
            for kind, each in trial.residuals(X, mended, found):
                residuals[kind].append(each)
    quantiles = [conformal_quantile(np.concatenate([np.zeros(0), *each]), level) for each in residuals]
    return Intervals.against(L, level, np.array(quantiles))


def _trials(rows: RowMender, observed: NDArray[np.bool_], seed: int) -> "list[Trial]":
    """Return good rows that are held out, and what mends against the others: several times where rows are few."""
    n = len(rows.mender.L)
    rng = np.random.default_rng([seed, n])
    order = rng.permutation(n)
    count = max(1, min(TRIED, n // FOLDS))
    folds = min(FOLDS, max(1, TRIED // count))
    parts = [order[start * count : (start + 1) * count] for start in range(folds)]
    return [Trial(rows, observed, held, rng) for held in parts]


@dataclass(frozen=True)
class Trial:
    """Good rows (numbers `held`) that are corrupted and mended against the other good rows."""

    rows: RowMender
    observed: NDArray[np.bool_]
    held: NDArray[np.intp]
    rng: np.random.Generator

    @cached_property
    def truth(self) -> Array:
        """The rows that are held out."""
        return self.rows.mender.L[self.held]

    @cached_property
    def mender(self) -> Mender:
        """What mends against the others."""
        return self.rows.mender.with_rows(np.delete(self.rows.mender.L, self.held, axis=0))

    def residuals(self, X: Array, mended: Array, found: Found) -> "list[tuple[int, Array]]":
        """Return kinds of changes and the residuals of those that were tried."""
        partly = self.rows.partly_wrong(found)
        whole = found.rows & ~partly
        out = [(MISSING, self._missing(np.isnan(X[~found.rows])))]
        if self.rows.by_entries and self.rows.detector.entries_decide:
            out.append((ENTRIES, self._entries(found.entries[partly])))
        if whole.any():
            out.append((WHOLE, self._whole(X[whole] - mended[whole])))
        return out

    def _missing(self, patterns: NDArray[np.bool_]) -> Array:
        """Hide entries as other rows lack them, fill them in, return the residuals."""
        hidden = self._patterns(patterns)
        A = Filler.against(self.mender.L).fill(np.where(hidden, np.nan, self.truth))
        return self._scaled(A, hidden)

    def _entries(self, patterns: NDArray[np.bool_]) -> Array:
        """Hide entries as flagged rows have wrong ones, fill them in, return the residuals."""
        rows, hidden = self.rows, self._patterns(patterns)
        detector = rows.detector
        others = Conditional.of((self.mender.L - detector.centre) / detector.scale)
        entries = replace(detector.entries, others=others)
        A = replace(detector, entries=entries).expected(self.truth, hidden)
        if rows.filling is not None:
            unknown = np.where(hidden, np.nan, self.truth)
            how = replace(rows.filling, refit=0.0, grow=0)
            A = self.mender.mend_with_history(unknown, how, start=A, free=hidden, max_iter=rows.max_iter, tol=rows.tol)[
                0
            ]
        return self._scaled(A, hidden)

    def _whole(self, errors: Array) -> Array:
        """Inject errors (NaN where a flagged row lacks an entry), mend, return the residuals of changed entries."""
        rows = self.rows
        injected = self.truth + errors[self.rng.integers(0, len(errors), len(self.truth))]
        filled = Filler.against(self.mender.L).fill(injected) if np.isnan(injected).any() else injected
        start = self.mender.start(filled, rows.settings.error)
        A = self.mender.mend_with_history(injected, rows.settings, start=start, max_iter=rows.max_iter, tol=rows.tol)[0]
        return self._scaled(A, injected != A)

    def _patterns(self, patterns: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which entries to hide: as in rows drawn from `patterns` that have some, else one of each row."""
        patterns = patterns[patterns.any(axis=1)]
        n, d = self.truth.shape
        one: NDArray[np.bool_] = np.arange(d) == self.rng.integers(0, d, (n, 1))
        return np.asarray(patterns[self.rng.integers(0, len(patterns), n)]) if len(patterns) else one

    def _scaled(self, A: Array, which: NDArray[np.bool_]) -> Array:
        """Return |truth - A| in units of its scale, of the given entries whose truth is known."""
        L = self.mender.L
        scale = scales(A, some_rows(L), L.std(axis=0))
        which = which & self.observed[self.held]
        out: Array = np.abs(A - self.truth)[which] / np.maximum(scale[which], np.finfo(np.float64).tiny)
        return out
