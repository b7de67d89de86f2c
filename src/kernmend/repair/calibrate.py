"""Parameters for mending rows against a reference, chosen without labels by re-corruption.

The flagged rows are mended once, with settings that are known before; what that took off them is injected into good
rows that were held out of the reference. The parameters that bring those back best are the ones to mend with. The
first residuals are no better than the first settings, so this is done twice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.model.errors import EntryError, RowError, RowSum
from kernmend.model.kernels import Kernel
from kernmend.repair.cost import DOUBT, Cost, Judge, excess
from kernmend.repair.mender import MAX_REFERENCE, Mender, Settings

CUTOFFS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Eigenvalue cut-offs to try, as shares of the trace of the Gram matrix."""
GROW = 2
"""Rounds in which what is found wrong of a row takes in similar features: more spread it over what was right."""
REFITS = ((0.0, 0), *((share, grow) for grow in (0, GROW) for share in (0.3, 0.6, 1.0, 1.5)))
"""Pairs of `Settings.refit` and `Settings.grow` to try."""
FIRST_ROWS = 1e-4, RowError, 0.1
"""Cut-off, error model and force of the first mending: it must move the rows."""
FIRST_ENTRIES = 1e-6, EntryError, 1.0, 0.3
"""Cut-off, error model, force and refit of the first mending where changing a few entries makes the rows look right."""
FIRST_FEW = 1e-6, EntryError, 0.2, 0.3
"""`FIRST_ENTRIES` for data with few features, whose kernels are narrow."""
LOOKS_RIGHT = 0.3
"""Excess over that of good rows below which rows look right: wrong rows mended by entries have 0.5 to 1, entries 0."""
FEW_ENTRIES = 1 / 3
"""Share of changed entries above which the row is wrong: with noise in all pixels half of them change."""
FEW_OF_FEW = 0.4
"""`FEW_ENTRIES` for data with few features: one of three, and a little."""
LEAST_FEATURES = 3
"""Features from which on a wrong entry can be told from a wrong row."""
MANY_FEATURES = 16
"""Features from which on kernels are wide: below, a surface bends within the distance of two rows."""
PASSES = 1, 3
"""Passes over the axes of the grid, at most, with the first and the second injected errors. With 0 and 2 wrong entries
are taken for wrong rows more often."""
WORTHWHILE = 0.99
"""Share of the cost that a pass must leave for another one to follow: a gain below 1 % is due to the rows drawn,
not of the settings."""
FILLING_PASSES = 2
"""Passes over kernels and cut-offs for wrong entries, at most."""
HELD_OUT = 0.2
"""Share of the good rows that is held out, at most."""
MAX_INJECTED = 40
"""Rows that are held out, at most: more do not change the choice."""
SEARCH_ITERATIONS = 25
"""Iterations of each trial: enough to order the settings. With 12 the error model of entries, which takes longer, loses
to that of rows where single entries are wrong."""


@dataclass(frozen=True)
class Evidence:
    """What calibration knows: the good rows, the flagged ones, and what the user gave.

    `judge` says how wrong a row looks: what still looks wrong when mended counts against the settings, which decides
    where the original place of a row cannot be known. `lam` and `cutoff` are the numbers themselves, where they are
    given.
    """

    good: Array
    flagged: Array
    lam: float | None = None
    cutoff: float | None = None
    bounds: tuple[Array, Array] | None = None
    judge: Judge | None = None

    def hold_out(self, seed: int) -> "Injection":
        """Return a random part of the good rows, ready to be corrupted, with the others as reference."""
        rng = np.random.default_rng(seed)
        good, flagged = in_order(self.good), in_order(self.flagged)
        n = good.shape[0]
        order = rng.permutation(n)
        held = order[: max(1, min(MAX_INJECTED, int(HELD_OUT * n)))]
        L = good[order[held.size : held.size + MAX_REFERENCE]]
        donors = flagged[rng.permutation(flagged.shape[0])[: held.size]]
        judge = None if self.judge is None else self.judge.rows_against(L)
        return Injection(Mender(L, self.bounds, self.lam, self.cutoff), good[held], donors, judge)


@dataclass(frozen=True)
class Injection:
    """Good rows that were held out, and flagged rows whose errors are injected into them."""

    mender: Mender
    held: Array
    donors: Array
    judge: Judge | None

    def cost(self, settings: Settings, *, whole: bool, racing: bool = False) -> "Cost":
        """Inject what these settings take off the flagged rows; return the cost of any settings.

        `whole` says that entries are wrong in groups: what is injected should be as much of each as can be had.
        `racing` says that only the best settings are asked for: the cost of others may be an estimate.
        """
        # What entries lose to being wrong is theirs alone: a refit leaves nothing injected into the others.
        if settings.error.by_entry:
            settings = replace(settings, refit=settings.refit or 1.0, grow=GROW if whole else settings.grow)
        residuals = self.donors - self.mender.mend(self.donors, settings, max_iter=SEARCH_ITERATIONS)
        injected = self.held + residuals[np.arange(self.held.shape[0]) % self.donors.shape[0]]
        return Cost(self.mender, self.held, injected, self.judge, SEARCH_ITERATIONS, racing)

    def first_settings(self, kernel: Kernel, *, entries: bool) -> Settings:
        """Return how to mend for the first time: entry by entry where a few changed entries make rows look right."""
        many = self.held.shape[1] >= MANY_FEATURES
        by_rows, by_entries = Settings(kernel, *FIRST_ROWS), Settings(kernel, *(FIRST_ENTRIES if many else FIRST_FEW))
        if not entries or self.judge is None:
            return by_rows
        # Bounds alone make noise on constant entries look right.
        unbounded = self.mender if self.mender.bounds is None else replace(self.mender, bounds=None)
        A = unbounded.mend(self.donors, by_entries, max_iter=SEARCH_ITERATIONS)
        few = float(np.mean(self.donors != A)) <= (FEW_ENTRIES if many else FEW_OF_FEW)
        looks_right = excess(self.judge, A) - excess(self.judge, self.held) < LOOKS_RIGHT
        return by_entries if few and looks_right else by_rows


class Calibration(NamedTuple):
    """The settings, the share of injected squared error that they leave, and whether Ctrl-C ended the search."""

    settings: Settings
    share: float
    interrupted: bool


def calibrate(
    evidence: Evidence,
    *,
    kernels: Sequence[Kernel],
    errors: Sequence[type[RowSum]] = (RowError, EntryError),
    seed: int = 0,
    callback: Callable[[int, float], None] | None = None,
) -> Calibration:
    """Return the settings that bring re-corrupted good rows back best.

    `kernels` are in order of width: the search climbs from the middle one to its neighbours. One choice is no search.
    `callback` gets the number of settings tried so far and what the latest leaves. Ctrl-C ends the search, not the fit.
    """
    grid = Grid(
        tuple(kernels),
        CUTOFFS if evidence.cutoff is None else (CUTOFFS[1],),
        {error: error.forces if evidence.lam is None else (1.0,) for error in errors},
    )
    injection = evidence.hold_out(seed)
    settings = injection.first_settings(grid.middle().kernel, entries=any(error.by_entry for error in grid.forces))
    favoured = settings.error
    tried = 0

    def told(settings: Settings) -> float:
        nonlocal tried
        tried += settings not in cost.known
        value = cost(settings)
        if callback is not None:
            callback(tried, value)
        return value if settings.error == favoured else DOUBT * value

    start, others = grid.middle(), grid.coarse()
    for passes in PASSES:
        cost = injection.cost(settings, whole=favoured.by_entry, racing=True)
        try:
            settings = grid.climb(start, told, others=others, passes=passes, prepare=cost.prepare)
        except KeyboardInterrupt:
            best = min(cost.known, key=cost, default=grid.middle())
            return Calibration(best, cost.share(best) if best in cost.known else 1.0, True)
        start, others = grid.nearest(settings), cost.rivals(settings)
    return Calibration(settings, cost.share(settings), False)


def choose_filling(
    mender: Mender,
    entries: NDArray[np.bool_],
    expected: Callable[[Array, NDArray[np.bool_]], Array],
    kernels: Sequence[Kernel],
    *,
    seed: int,
) -> Settings | None:
    """Return how to fill in wrong entries; None where what the other entries of their row say of them is as good.

    Entries of good rows that were held out are hidden where those of flagged rows are wrong (`entries`), and filled in
    against the others, from what `expected` says.
    """
    rng = np.random.default_rng(seed)
    good, entries = in_order(mender.L), in_order(entries)
    order = rng.permutation(len(good))
    held, rest = np.split(order, [max(1, min(MAX_INJECTED, int(HELD_OUT * len(order))))])
    truth, against = good[held], mender.with_rows(good[rest[:MAX_REFERENCE]])
    hidden = entries[rng.permutation(len(entries))[: len(held)]]
    hidden = hidden[np.arange(len(held)) % len(hidden)]
    start = expected(truth, hidden)
    unknown = np.where(hidden, np.nan, truth)

    @cache
    def cost(settings: Settings) -> float:
        A = against.mend_with_history(unknown, settings, start=start, free=hidden, max_iter=SEARCH_ITERATIONS)[0]
        return float(np.abs(A - truth)[hidden].sum())

    cutoffs = CUTOFFS if mender.fixed_cutoff is None else (CUTOFFS[1],)
    grid = Grid(tuple(kernels), cutoffs, {RowError: (0.5,)})
    best = grid.climb(grid.middle(), cost, others=(), passes=FILLING_PASSES)
    return best if cost(best) < float(np.abs(start - truth)[hidden].sum()) else None


def in_order(rows: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return the rows in an order of their own, so that what is drawn from them does not depend on that of the data."""
    out: np.ndarray[Any, Any] = rows[np.lexsort(rows.T[::-1])]
    return out


@dataclass(frozen=True)
class Grid:
    """The settings to choose from, each a place on three ordered axes for each error model."""

    kernels: tuple[Kernel, ...]
    cutoffs: tuple[float, ...]
    forces: dict[type[RowSum], tuple[float, ...]]

    def middle(self) -> Settings:
        """Return the settings in the middle of each axis, with the first error model."""
        error, forces = next(iter(self.forces.items()))
        return Settings(
            self.kernels[len(self.kernels) // 2], self.cutoffs[len(self.cutoffs) // 2], error, forces[len(forces) // 2]
        )

    def nearest(self, settings: Settings) -> Settings:
        """Return the settings themselves if their error model is one to choose from, else the middle."""
        return settings if settings.error in self.forces else replace(self.middle(), kernel=settings.kernel)

    def coarse(self) -> list[Settings]:
        """Return the settings in the middle with every third force of each error model."""
        middle = self.middle()
        return [
            replace(middle, error=error, force=force) for error in self.forces for force in self.forces[error][1::3]
        ]

    def climb(
        self,
        start: Settings,
        cost: Callable[[Settings], float],
        *,
        others: Iterable[Settings],
        passes: int,
        prepare: Callable[[Iterable[Settings]], None] = lambda several: None,
    ) -> Settings:
        """Return the best settings found from the best of `start` and some others, axis by axis.

        `prepare` is told of settings whose costs will be asked for one after the other.
        """
        several = [start, *others]
        prepare(several)
        best = min(several, key=cost)
        for _ in range(passes):
            before = best
            for axis in ("force", "kernel", "cutoff"):
                best = self._walk(best, axis, cost, prepare)
            if best.error.by_entry:  # all of them: a small one is worse than none, a larger one may be better
                several = [replace(best, refit=refit, grow=grow) for refit, grow in REFITS]
                prepare(several)
                best = min(several, key=cost)
            if cost(best) > WORTHWHILE * cost(before):
                break
        return best

    def _walk(
        self,
        best: Settings,
        axis: str,
        cost: Callable[[Settings], float],
        prepare: Callable[[Iterable[Settings]], None],
    ) -> Settings:
        """Return the best settings along one axis, walking in either direction for as long as it helps."""
        axes: dict[str, tuple[Any, ...]] = {
            "force": self.forces[best.error],
            "kernel": self.kernels,
            "cutoff": self.cutoffs,
        }
        places = axes[axis]
        here = places.index(getattr(best, axis))
        beside: list[dict[str, Any]] = [{axis: places[k]} for k in (here + 1, here - 1) if 0 <= k < len(places)]
        prepare([replace(best, **each) for each in beside])
        for direction in (1, -1):
            place = here + direction
            moved = False
            while 0 <= place < len(places):
                changed: dict[str, Any] = {axis: places[place]}
                candidate = replace(best, **changed)
                if cost(candidate) >= cost(best):
                    break
                best, moved, place = candidate, True, place + direction
            if moved:
                break
        return best
