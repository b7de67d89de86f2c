"""What settings leave of errors that were injected into good rows, by as few trials as tell them apart.

In a race a trial mends some of the rows first. Settings that are clearly worse on those than the best so far, row by
row, are not tried on the others: their cost is then an estimate, which is above that of the best. Nor are rows judged
where their errors alone cost more than the best settings do.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from kernmend._typing import Array
from kernmend.model.errors import RowSum
from kernmend.repair.mender import Mender, Settings

DOUBT = 1.05
"""Factor on the cost of the error model that the first mending did not favour: it must be clearly better."""
RIVAL = 1.3
"""Times the best cost: error models above it are not tried a second time."""
FIRST, FEWEST = 0.25, 8
"""Share of the rows that is tried first, and the least number of those for which it is worth it."""
WORTH = 10_000
"""Entries of the reference from which on few rows take clearly less time than all: below, calls take most of it."""
SURE = 2.0
"""Standard errors of the mean difference of rows by which settings are clearly worse."""


class Judge(Protocol):
    """What tells wrong rows, such as a `Detector`: their scores against good rows, and the threshold."""

    @property
    def threshold(self) -> float:
        """The score beyond which a row is wrong."""

    def row_scores(self, X: Array) -> Array:
        """Return the score of each row as a whole."""

    def rows_against(self, L: Array) -> "Judge":
        """Return one that holds rows against other good rows."""


def excess(judge: Judge, X: Array) -> float:
    """Return the mean score of rows as a share of the threshold; one beyond it counts as 1."""
    return float(excesses(judge, X).mean())


def excesses(judge: Judge, X: Array) -> Array:
    """Return the score of each row as a share of the threshold, at most 1.

    Rows are judged as wholes. By their most extreme entry mended pictures of many rows look wrong, since some pixels
    hardly ever differ: 3,600 digits with noise came back at 8.5 in place of 10.0 dB.
    """
    shares: Array = np.clip(judge.row_scores(X) / max(judge.threshold, 1e-9), 0.0, 1.0)
    return shares


@dataclass(frozen=True)
class Left:
    """What is left of some rows: the squared error of each, in units of the mean that was injected, and its excess."""

    errors: Array
    excesses: Array

    def and_of(self, other: "Left") -> "Left":
        """Return what is left of these rows and the others."""
        return Left(np.append(self.errors, other.errors), np.append(self.excesses, other.excesses))


def is_slow(mender: Mender) -> bool:
    """Return whether the rows that are mended make up most of the time of a trial."""
    return mender.L.size >= WORTH


@dataclass
class Cost:
    """What is left of the errors that were injected, once mended; each settings once.

    Settings that differ in the cut-off only, and keep the same eigenvectors, are one.
    """

    mender: Mender
    truth: Array
    injected: Array
    judge: Judge | None
    max_iter: int
    racing: bool = False
    """Whether settings that are clearly worse on the first rows than others that were tried are not tried on all."""
    known: dict[Settings, tuple[float, float]] = field(default_factory=dict)
    _best: tuple[float, type[RowSum], Left] | None = field(default=None, repr=False)
    _same: dict[Settings, tuple[float, float]] = field(default_factory=dict, repr=False)
    _ready: dict[Settings, tuple[Array, Callable[[], Array]]] = field(default_factory=dict, repr=False)
    _starts: dict[type[RowSum], Array] = field(default_factory=dict, repr=False)
    _plain: dict[tuple[Settings, int], Array] = field(default_factory=dict, repr=False)

    def __call__(self, settings: Settings) -> float:
        """Return the share of the injected error that stays, plus the share of the threshold that scores reach."""
        return sum(self.parts(settings))

    def rivals(self, best: Settings) -> list[Settings]:
        """Return the best settings of each other error model, of those that came near the best settings."""
        others = {other.error: other for other in sorted(self.known, key=self, reverse=True)}
        return [other for other in others.values() if other.error != best.error and self(other) <= RIVAL * self(best)]

    def share(self, settings: Settings) -> float:
        """Return the share of the injected squared error that stays."""
        return self.parts(settings)[0]

    def parts(self, settings: Settings) -> tuple[float, float]:
        """Return both parts of the cost."""
        if settings not in self.known:
            same = self._same_as(settings)
            if same not in self._same:
                self._same[same] = self._try(settings)
            self.known[settings] = self._same[same]
        return self.known[settings]

    def prepare(self, several: Iterable[Settings]) -> None:
        """Mend rows under several settings that will be asked for, and judge all of them at once.

        On small data, mending takes little time, and judging many rows hardly longer than some: settings that are not
        asked for in the end cost less than the calls. Otherwise this does nothing.
        """
        n = len(self.truth)
        if self.judge is None or not self.racing or is_slow(self.mender):
            return
        waiting: dict[Settings, tuple[Array, Array]] = {}
        for settings in several:
            same = self._same_as(settings)
            if same in self._same or same in self._ready:
                continue
            A = self._mended(settings, slice(0, n))
            errors = self._errors(A, slice(0, n))
            self._ready[same] = errors, partial(self._excesses, A)
            if self._unjudged(settings, errors) is None:
                waiting[same] = errors, A
        if waiting:
            judged = self._excesses(np.vstack([A for _, A in waiting.values()])).reshape(len(waiting), n)
            for (same, (errors, _)), excesses_of in zip(waiting.items(), judged, strict=True):
                self._ready[same] = errors, partial(np.asarray, excesses_of)

    def _same_as(self, settings: Settings) -> Settings:
        """Return the same for settings that keep the same eigenvectors and are equal in all else."""
        return replace(settings, cutoff=float(self.mender.rank(settings)))

    @property
    def _count(self) -> int:
        """The number of rows that are tried first."""
        n = len(self.truth)
        return int(FIRST * n) if self.racing and FIRST * n >= FEWEST and is_slow(self.mender) else n

    def _try(self, settings: Settings) -> tuple[float, float]:
        """Return both parts of the cost, estimated from the first rows where these are clearly worse than the best."""
        n, count = len(self.truth), self._count
        ready = self._ready.pop(self._same_as(settings), None)
        errors, judged = ready or self._tried(settings, slice(0, count))
        # By the errors alone, as if nothing looked wrong: where that tells, no row need be judged.
        unjudged = self._unjudged(settings, errors)
        if unjudged is not None:
            return unjudged, 0.0
        first = left = Left(errors, judged())
        if count < n:
            least = self._least(settings, first)
            if least is not None:
                share, above = self._parts(first)
                return max(share, least - above), above
            errors, judged = self._tried(settings, slice(count, n))
            left = first.and_of(Left(errors, judged()))
        parts = self._parts(left)
        if self._best is None or sum(parts) < self._best[0]:
            self._best = sum(parts), settings.error, first
        return parts

    def _parts(self, left: Left) -> tuple[float, float]:
        """Return both parts of the cost by what is left of the first so many rows."""
        natural = self._natural[: len(left.errors)]
        return float(left.errors.mean()), max(float((left.excesses - natural).mean()), 0.0)

    def _unjudged(self, settings: Settings, errors: Array) -> float | None:
        """Return what settings cost at least, by the errors of the first rows, or of all; None if that does not tell.

        It tells where the best settings cost no more than the errors alone; those of another error model are no rival
        then, either.
        """
        if not self.racing or self._best is None:
            return None
        if len(errors) < len(self.truth):
            least = self._least(settings, Left(errors, self._natural[: len(errors)]))
            return None if least is None else max(float(errors.mean()), least)
        cost, error, _ = self._best
        share = float(errors.mean())
        return share if share >= cost * (1.0 if settings.error == error else RIVAL) else None

    def _least(self, settings: Settings, first: Left) -> float | None:
        """Return a cost that settings exceed, by what is left of the first rows; None where the others must be tried.

        The best settings are better where the errors of these rows are more than theirs of all rows, or where the
        difference, row by row, is above 0 by `SURE` standard errors. Another error model must be no rival either.
        """
        if self._best is None:
            return None
        cost, error, best = self._best
        least = cost * (DOUBT if settings.error == error else RIVAL)
        natural = self._natural[: len(first.errors)]
        difference = first.errors - best.errors
        difference += np.maximum(first.excesses, natural) - np.maximum(best.excesses, natural)
        sure = SURE * float(difference.std(ddof=1)) / np.sqrt(len(difference))
        of_all = float(first.errors.sum()) / len(self.truth)
        return least if of_all > least or float(difference.mean()) - sure > least - cost else None

    def _tried(self, settings: Settings, rows: slice) -> tuple[Array, Callable[[], Array]]:
        """Return the errors of some of the rows, mended, and what gives their excesses."""
        A = self._mended(settings, rows)
        return self._errors(A, rows), partial(self._excesses, A)

    def _errors(self, A: Array, rows: slice) -> Array:
        """Return the squared errors of some of the rows, which were mended to `A`."""
        errors: Array = np.square(A - self.truth[rows]).sum(axis=1) / self._injected
        return errors

    def _excesses(self, A: Array) -> Array:
        return np.zeros(len(A)) if self.judge is None else excesses(self.judge, A)

    def _mended(self, settings: Settings, rows: slice) -> Array:
        """Return some of the injected rows, mended. Settings that differ in the refit share what goes before it."""
        if settings.error not in self._starts:
            self._starts[settings.error] = self.mender.start(self.injected, settings.error)
        X, start = self.injected[rows], self._starts[settings.error][rows]
        plain = replace(settings, refit=0.0, grow=0)
        key = plain, rows.start
        if key not in self._plain:
            self._plain[key] = self.mender.mend(X, plain, start=start, max_iter=self.max_iter)
        return self.mender.refit(self._plain[key], X, settings, start=start, max_iter=self.max_iter)

    @cached_property
    def _injected(self) -> float:
        """The mean squared error that was injected into a row, at most as far as any other good row is."""
        injected = float(np.square(self.injected - self.truth).sum()) / len(self.truth)
        return max(min(injected, self.mender.scale**2), 1e-300)

    @cached_property
    def _natural(self) -> Array:
        """The excess of the good rows themselves."""
        return np.zeros(len(self.truth)) if self.judge is None else excesses(self.judge, self.truth)
