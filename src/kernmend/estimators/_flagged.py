"""`repair="flagged"`: find the wrong rows, mend each against the others, leave the others alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.calibration import Mender, Settings, calibrate
from kernmend.completion import fill_missing
from kernmend.kernels import Kernel
from kernmend.scoring import ReferenceScorer, Scorer, choose_scorer
from kernmend.separation import Line, flag_share

MIN_GOOD_ROWS = 5  # fewer say nothing about a surface


@dataclass(frozen=True)
class Flags:
    """Which rows are wrong: robust z of their scores, and the threshold above which a row is flagged."""

    z: Array
    outliers: NDArray[np.bool_]
    threshold: float
    line: Line
    scorer: Scorer


def find_flags(X: Array, contamination: float | None, *, seed: int) -> Flags:
    """Score the rows against each other; flag the second group, or the given share of the highest scores."""
    scorer, line, scores = choose_scorer(X, seed=seed)
    z = line.standardise(scores)
    if contamination is None:
        return Flags(z, z > line.threshold, line.threshold, line, scorer)
    outliers, threshold = flag_share(z, contamination)
    return Flags(z, outliers, threshold, line, scorer)


@dataclass(frozen=True)
class RowJudge:
    """Scores rows, seen or new, against the good ones."""

    flags: Flags
    scorer: ReferenceScorer

    def standardised_scores(self, X: Array) -> Array:
        """Return robust z of each row against the good rows."""
        return self.flags.line.standardise(self.scorer.score(X))


@dataclass(frozen=True)
class RowMender:
    """What is needed to mend rows, seen or new: the good rows, how to mend, and how to tell which rows need it."""

    mender: Mender
    settings: Settings
    judge: RowJudge | None = None
    """None where every row may move."""

    def fill(self, X: Array) -> Array:
        """Return the rows with missing entries taken from the nearest good rows."""
        if not np.isnan(X).any():
            return X
        one_by_one = (fill_missing(np.vstack([self.mender.L, row]))[-1] if np.isnan(row).any() else row for row in X)
        return np.vstack(list(one_by_one))

    def flag(self, X: Array) -> NDArray[np.bool_]:
        """Return which rows, without missing entries, do not fit. Rows that `fit` found good do, whatever the score.

        (Where a share was asked for, good rows may score above the lowest of the flagged ones.)
        """
        if self.judge is None:
            return np.ones(X.shape[0], dtype=bool)
        known = {row.tobytes() for row in self.mender.L}
        new = np.array([row.tobytes() not in known for row in np.ascontiguousarray(X)], dtype=bool)
        return new & (self.judge.standardised_scores(X) > self.judge.flags.threshold)

    def mend(self, X: Array, *, max_iter: int, tol: float) -> Array:
        """Return the rows with those that do not fit mended; the others come back as they are, only filled in."""
        out = self.fill(X.astype(np.float64))
        missing = np.isnan(X)
        wrong = self.flag(out)
        rows = wrong | missing.any(axis=1)
        if rows.any():
            if self.judge is not None and wrong.any():
                out[wrong] = self.mender.start(out[wrong], self.settings.error)
            out[rows] = self.mender.mend_with_history(
                X[rows].astype(np.float64),
                self.settings,
                start=out[rows],
                free=missing[rows] | wrong[rows, np.newaxis],
                max_iter=max_iter,
                tol=tol,
            )[0]
        return out


def choose_settings(
    good: Array,
    flagged: Array,
    flags: Flags,
    *,
    kernels: Sequence[Kernel],
    errors: Sequence[str],
    lam: float | None,
    cutoff: float | None,
    bounds: tuple[Array, Array] | None,
    seed: int,
) -> tuple[Settings, float]:
    """Calibrate what was not given; the second value is the share of planted corruption that stays after mending."""

    def suspicion(L: Array) -> Callable[[Array], Array]:
        scorer = flags.scorer.against(L)
        return lambda A: flags.line.standardise(scorer.score(A)) / max(flags.threshold, 1e-9)

    return calibrate(
        good,
        flagged,
        kernels=kernels,
        errors=errors,
        lam=lam,
        cutoff=cutoff,
        bounds=bounds,
        suspicion=suspicion if np.isfinite(flags.threshold) else None,
        seed=seed,
    )
