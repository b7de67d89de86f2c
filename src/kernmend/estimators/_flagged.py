"""`repair="flagged"`: find the wrong rows, mend each against the others, leave the others alone."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.calibration import Evidence
from kernmend.completion import fill_missing
from kernmend.mending import Mender, Settings
from kernmend.scoring import ReferenceScorer, Scorer, choose_scorer
from kernmend.second_look import ChangeScorer, Places, look_again
from kernmend.separation import Line, flag_share

AS_CLEAR = 0.75  # of the first look's evidence: the second look ranks rows better, so it may have less
MIN_GOOD_ROWS = 5  # fewer say nothing about a surface


@dataclass(frozen=True)
class Flags:
    """Which rows are wrong: robust z of their scores, and the threshold above which a row is flagged."""

    z: Array
    outliers: NDArray[np.bool_]
    threshold: float
    line: Line
    scorer: Scorer

    def without_rows(self) -> "Flags":
        """Return what is known but of the rows themselves."""
        return replace(self, z=self.z[:0], outliers=self.outliers[:0])


def find_flags(X: Array, contamination: float | None, *, seed: int) -> Flags:
    """Score the rows against each other; flag the second group, or the given share of the highest scores."""
    scorer, line, scores = choose_scorer(X, seed=seed)
    z = line.standardise(scores)
    if contamination is None:
        return Flags(z, z > line.threshold, line.threshold, line, scorer)
    outliers, threshold = flag_share(z, contamination)
    return Flags(z, outliers, threshold, line, scorer)


def second_look(
    X: Array, flags: Flags, mender: Mender, settings: Settings, *, seed: int
) -> tuple[Flags, Places] | None:
    """Return the flags by how far mending moves the rows, where that tells the wrong ones as clearly; else None."""
    if settings.error != "entries" or settings.refit == 0.0:
        return None
    z, line, places = look_again(X, flags.z, flags.outliers, mender, settings, seed=seed)
    if line.gain < AS_CLEAR * flags.line.gain or not np.isfinite(line.threshold):
        return None
    return Flags(z, z > line.threshold, line.threshold, line, flags.scorer), places


@dataclass(frozen=True)
class RowJudge:
    """Scores rows, seen or new, against the good ones."""

    flags: Flags
    scorer: ReferenceScorer

    def standardised_scores(self, X: Array) -> Array:
        """Return robust z of each row against the good rows."""
        return self.flags.line.standardise(self.scorer.score(X))

    def moved_to(self, mender: Mender) -> "RowJudge":
        """Return one that scores against other good rows: what is typical is seen from these themselves."""
        scorer = self.flags.scorer.against(mender.L)
        line = self.flags.line.moved_to(scorer.leave_one_out())
        return RowJudge(replace(self.flags.without_rows(), line=line), scorer)


@dataclass(frozen=True)
class SecondJudge:
    """Scores rows a second time, by how far mending moves them, where the first score is not low."""

    flags: Flags
    first: RowJudge
    change: ChangeScorer
    places: Places

    def standardised_scores(self, X: Array) -> Array:
        """Return robust z of each row against the good rows."""
        first = self.first.standardised_scores(X)
        z, near = self.places.of(first), first >= self.places.limit
        if near.any():
            z[near] = self.flags.line.standardise(self.change.score(X[near]))
        return z

    def moved_to(self, mender: Mender) -> "SecondJudge":
        """Return one that scores against other good rows. A distance, in units of the data, needs no new line."""
        change = ChangeScorer(mender, self.change.settings)
        return SecondJudge(self.flags.without_rows(), self.first.moved_to(mender), change, self.places)


@dataclass(frozen=True)
class RowMender:
    """What is needed to mend rows, seen or new: the good rows, how to mend, and how to tell which rows need it."""

    mender: Mender
    settings: Settings
    judge: RowJudge | SecondJudge | None = None
    """None where every row may move."""
    filled: dict[bytes, Array] = field(default_factory=dict)
    """Good rows with missing entries that `fit` has seen, as it filled them in."""
    wrong: Array | None = None
    """The rows that `fit` flagged, without missing entries."""

    def fill(self, X: Array) -> Array:
        """Return the rows with missing entries taken from the nearest good rows, or as `fit` filled them in."""
        if not np.isnan(X).any():
            return X
        return np.vstack([self._fill_one(row) if np.isnan(row).any() else row for row in X])

    def _fill_one(self, row: Array) -> Array:
        seen = self.filled.get(row.tobytes())
        return fill_missing(np.vstack([self.mender.L, row]))[-1] if seen is None else seen

    def judge_rows(self, X: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the scores of rows without missing entries, and which do not fit; seen ones keep the fit's verdict.

        (Where a share was asked for, good rows may score above the lowest of the flagged ones, and scores against all
        good rows differ a little from those that `fit` compares.)
        """
        if self.judge is None:
            return np.zeros(X.shape[0]), np.ones(X.shape[0], dtype=bool)
        z = self.judge.standardised_scores(X)
        flags = z > self.judge.flags.threshold
        seen = {row.tobytes(): False for row in self.mender.L}
        if self.wrong is not None:
            seen |= {row.tobytes(): True for row in self.wrong}
        for i, row in enumerate(np.ascontiguousarray(X)):
            flags[i] = seen.get(row.tobytes(), flags[i])
        return z, flags

    def flag(self, X: Array) -> NDArray[np.bool_]:
        """Return which rows, without missing entries, do not fit."""
        return self.judge_rows(X)[1]

    def mend(self, X: Array, *, max_iter: int, tol: float) -> Array:
        """Return the rows with those that do not fit mended; the others come back as they are, only filled in."""
        return self.mend_and_score(X, max_iter=max_iter, tol=tol)[0]

    def mend_and_score(self, X: Array, *, max_iter: int, tol: float) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Do the same; return also the scores, and which rows did not fit."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        out = self.fill(X)
        if out is X:
            out = X.copy()
        missing = np.isnan(X)
        missing[[row.tobytes() in self.filled for row in X]] = False
        z, wrong = self.judge_rows(out)
        rows = wrong | missing.any(axis=1)
        if rows.any():
            if self.judge is not None and wrong.any():
                out[wrong] = self.mender.start(out[wrong], self.settings.error)
            out[rows] = self.mender.mend_with_history(
                X[rows],
                self.settings,
                start=out[rows],
                free=missing[rows] | wrong[rows, np.newaxis],
                max_iter=max_iter,
                tol=tol,
            )[0]
        return out, z, wrong


@dataclass(frozen=True)
class ScoreSuspicion:
    """How wrong rows look against good ones: 1 where their score is at the threshold. A class, so that it pickles."""

    scorer: ReferenceScorer
    line: Line

    def __call__(self, X: Array) -> Array:
        """Return the suspicion of each row."""
        return self.line.standardise(self.scorer.score(X)) / max(self.line.threshold, 1e-9)


@dataclass(frozen=True)
class Suspicious:
    """Makes a `ScoreSuspicion` from good rows, fewer than all perhaps: their own scores say what is typical."""

    flags: Flags

    def __call__(self, L: Array) -> ScoreSuspicion:
        """Return how wrong rows look against those of `L`."""
        scorer = self.flags.scorer.against(L)
        line = self.flags.line.moved_to(scorer.leave_one_out())
        return ScoreSuspicion(scorer, replace(line, threshold=self.flags.threshold))


def evidence(mender: Mender, flagged: Array, flags: Flags) -> Evidence:
    """Return what calibration works from."""
    suspicion = Suspicious(flags) if np.isfinite(flags.threshold) else None
    return Evidence(mender.L, flagged, mender.fixed_lam, mender.fixed_cutoff, mender.bounds, suspicion)
