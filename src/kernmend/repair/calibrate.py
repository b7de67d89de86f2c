"""Parameters for mending rows against a reference, chosen without labels by re-corruption.

The flagged rows are mended once, with settings that are known before; what that took off them is injected into good
rows that were held out of the reference. The parameters that bring those back best are the ones to mend with. The
first residuals are no better than the first settings, so this is done twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector
from kernmend.linalg.distances import lexicographic
from kernmend.model.errors import EntryError, RowError, RowSum
from kernmend.model.kernels import Kernel
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
PASSES = 3
"""Passes over the axes of the grid, at most, with the second injected errors; with the first, the force is enough."""
WORTHWHILE = 0.99
"""Share of the cost that a pass must leave for another one to follow: a gain below 1 % is due to the rows drawn,
not of the settings."""
FILLING_PASSES = 2
"""Passes over kernels and cut-offs for wrong entries, at most."""
HELD_OUT = 0.2
"""Share of the good rows that is held out, at most."""
MAX_INJECTED = 40
"""Rows that are held out, at most, where nothing else is said."""
FEWEST_INJECTED, ENOUGH_ENTRIES = 30, 2_500
"""Rows that are held out for the search, at most, if they have so many entries together: of wide rows fewer tell as
much as 40. With 20 one of 8 sets of digits with noise is mended 0.9 dB worse, and tables are (breast cancer)."""
SEARCH_ITERATIONS = 25
"""Iterations of each trial: enough to order the settings. With 12 the error model of entries, which takes longer, loses
to that of rows where single entries are wrong."""
SEARCH_TOL = 1e-4
"""Fall of a row's objective, as a share, below which it is done in a trial. With 1e-3 occluded digits are mended 1.7 dB
worse, with 1e-5 nothing better, in a fifth more time."""
DOUBT = 1.05
"""Factor on the cost of the error model that the first mending did not favour: it must be clearly better."""
RIVAL = 1.1
"""Times the best cost: settings above it are neither chosen nor tried a second time. With 1.3 the same are chosen on
all of 35 sets of tables, surfaces, spectra and pictures, in a tenth more time."""


def excess(judge: Detector, X: Array) -> float:
    """Return the mean score of rows as a share of the threshold; one beyond it counts as 1.

    Rows are judged as wholes. By their most extreme entry mended pictures of many rows look wrong, since some pixels
    hardly ever differ: 3,600 digits with noise came back at 8.5 in place of 10.0 dB.
    """
    return float(np.clip(judge.row_scores(X) / max(judge.threshold, 1e-9), 0.0, 1.0).mean())


@dataclass
class Evidence:
    """What calibration knows: what mends rows against the good ones, with what the user gave, and the flagged rows.

    `judge` says how wrong a row looks: what still looks wrong when mended counts against the settings, which decides
    where the original place of a row cannot be known.
    """

    mender: Mender
    flagged: Array
    judge: Detector | None = None
    _menders: dict[tuple[int, int], Mender] = field(default_factory=dict, init=False, repr=False, compare=False)

    def hold_out(self, seed: int, most: int = MAX_INJECTED) -> "Injection":
        """Return a random part of the good rows, ready to be corrupted, with the others as reference."""
        held, mender, rng = self.part(seed, most)
        flagged = in_order(self.flagged)
        donors = flagged[rng.permutation(len(flagged))[: len(held)]]
        judge = None if self.judge is None else self.judge.rows_against(mender.L)
        return Injection(mender, held, donors, judge)

    def part(self, seed: int, most: int = MAX_INJECTED) -> tuple[Array, Mender, np.random.Generator]:
        """Return a random part of the good rows, what mends rows against the others, and what draws further numbers.

        The same part is mended by the same mender, whose eigendecompositions are then made once.
        """
        rng, good = np.random.default_rng(seed), in_order(self.mender.L)
        order = rng.permutation(len(good))
        count = max(1, min(most, int(HELD_OUT * len(good))))
        if (seed, count) not in self._menders:
            self._menders[seed, count] = self.mender.with_rows(good[order[count : count + MAX_REFERENCE]])
        return good[order[:count]], self._menders[seed, count], rng


@dataclass
class Mendings:
    """The rows `X` mended by the settings that are tried, in few iterations; what several have in common is done once.

    That is where the mending begins, one for each error model, and what goes before a refit.
    """

    mender: Mender
    X: Array
    _starts: dict[type[RowSum], Array] = field(default_factory=dict, init=False, repr=False)
    _plain: dict[Settings, Array] = field(default_factory=dict, init=False, repr=False)

    def by(self, settings: Settings) -> Array:
        """Return the rows mended by these settings."""
        A, start = self.before_refit(settings), self._start(settings.error)
        return self.mender.refit(A, self.X, settings, start=start, **_budget())

    def before_refit(self, settings: Settings) -> Array:
        """Return the rows mended by these settings without the refit."""
        plain = replace(settings, refit=0.0, grow=0)
        if plain not in self._plain:
            self._plain[plain] = self.mender.mend(self.X, plain, start=self._start(plain.error), **_budget())
        return self._plain[plain]

    def prepare(self, several: Sequence[Settings]) -> None:
        """Mend the rows by several settings, which are all asked for later: those of one error model at once.

        These differ in the force only, and have no refit.
        """
        for error in dict.fromkeys(settings.error for settings in several):
            group = [settings for settings in dict.fromkeys(several) if settings.error == error]
            found = self.mender.mend_by_forces(self.X, group, self._start(error), **_budget())
            self._plain.update(zip(group, found, strict=True))

    def _start(self, error: type[RowSum]) -> Array:
        """Return where the mending begins under an error model."""
        if error not in self._starts:
            self._starts[error] = self.mender.start(self.X, error)
        return self._starts[error]


def _budget() -> dict[str, Any]:
    """Return how long a trial goes on."""
    return {"max_iter": SEARCH_ITERATIONS, "tol": SEARCH_TOL}


@dataclass(frozen=True)
class Injection:
    """Good rows that were held out, and flagged rows, `donors`, whose errors are injected into them."""

    mender: Mender
    held: Array
    donors: Array
    judge: Detector | None

    @cached_property
    def mended(self) -> Mendings:
        """The flagged rows mended."""
        return Mendings(self.mender, self.donors)

    def cost(self, settings: Settings, *, whole: bool, racing: bool = False) -> "Cost":
        """Inject what these settings take off the flagged rows; return the cost of any settings.

        `whole` says that entries are wrong in groups: what is injected should be as much of each as can be had.
        `racing` says that only the best settings are asked for: the cost of others may be too low, not below it.
        """
        # What entries lose to being wrong is theirs alone: a refit leaves nothing injected into the others.
        if settings.error.by_entry:
            settings = replace(settings, refit=settings.refit or 1.0, grow=GROW if whole else settings.grow)
        residuals = self.donors - self.mended.by(settings)
        injected = self.held + residuals[np.arange(self.held.shape[0]) % self.donors.shape[0]]
        return Cost(Mendings(self.mender, injected), self.held, self.judge, racing)

    def first_settings(self, kernel: Kernel, *, entries: bool) -> Settings:
        """Return how to mend for the first time: entry by entry where a few changed entries make rows look right."""
        many = self.held.shape[1] >= MANY_FEATURES
        by_rows, by_entries = Settings(kernel, *FIRST_ROWS), Settings(kernel, *(FIRST_ENTRIES if many else FIRST_FEW))
        if not entries or self.judge is None:
            return by_rows
        # Bounds alone make noise on constant entries look right.
        bounds = self.mender.bounds
        mended = self.mended if bounds is None else Mendings(replace(self.mender, bounds=None), self.donors)
        wrong = self.mender.found_wrong(mended.before_refit(by_entries), self.donors, by_entries)
        if np.mean(wrong) > (FEW_ENTRIES if many else FEW_OF_FEW):
            return by_rows
        looks_right = excess(self.judge, mended.by(by_entries)) - excess(self.judge, self.held) < LOOKS_RIGHT
        return by_entries if looks_right else by_rows


@dataclass
class Cost:
    """What is left of the errors that were injected, once mended; each settings once."""

    injected: Mendings
    truth: Array
    judge: Detector | None
    racing: bool = False
    """Whether rows are not judged whose errors alone cost more than `RIVAL` times the best settings so far."""
    known: dict[Settings, tuple[float, float]] = field(default_factory=dict)

    def __call__(self, settings: Settings) -> float:
        """Return the share of the injected error that stays, plus the share of the threshold that scores reach."""
        return sum(self.parts(settings))

    def share(self, settings: Settings) -> float:
        """Return the share of the injected squared error that stays."""
        return self.parts(settings)[0]

    def rivals(self, best: Settings) -> list[Settings]:
        """Return the best settings of each other error model, of those that came near the best settings."""
        others = {other.error: other for other in sorted(self.known, key=self, reverse=True)}
        return [other for other in others.values() if other.error != best.error and self(other) <= RIVAL * self(best)]

    def parts(self, settings: Settings) -> tuple[float, float]:
        """Return both parts of the cost. Settings that differ in the cut-off, and keep the same eigenvectors, are one.

        If only the best settings are asked for, what looks wrong counts as 0 where the errors alone cost more.
        """
        if settings not in self.known:
            rank = self.injected.mender.rank
            equal = (other for other in self.known if replace(other, cutoff=settings.cutoff) == settings)
            same = next((other for other in equal if rank(other) == rank(settings)), None)
            self.known[settings] = self._try(settings) if same is None else self.known[same]
        return self.known[settings]

    def _try(self, settings: Settings) -> tuple[float, float]:
        A = self.injected.by(settings)
        share = float(np.square(A - self.truth).sum()) / self._error
        best = min(map(sum, self.known.values()), default=np.inf)
        if self.judge is None or (self.racing and share >= RIVAL * best):
            return share, 0.0
        return share, max(excess(self.judge, A) - self._natural, 0.0)

    @cached_property
    def _error(self) -> float:
        """The squared error that was injected, at most as far as any other good row is from each."""
        error = float(np.square(self.injected.X - self.truth).sum())
        return max(min(error, len(self.truth) * self.injected.mender.median), 1e-300)

    @cached_property
    def _natural(self) -> float:
        """The excess of the good rows themselves."""
        return 0.0 if self.judge is None else excess(self.judge, self.truth)


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
        CUTOFFS if evidence.mender.fixed_cutoff is None else (CUTOFFS[1],),
        {error: error.forces if evidence.mender.fixed_lam is None else (1.0,) for error in errors},
    )
    few = max(FEWEST_INJECTED, ENOUGH_ENTRIES // evidence.flagged.shape[1])
    costs: list[Cost] = []
    favoured, tried = grid.middle().error, 0

    def told(settings: Settings) -> float:
        nonlocal tried
        tried += settings not in costs[-1].known
        value = costs[-1](settings)
        if callback is not None:
            callback(tried, value)
        return value if settings.error == favoured else DOUBT * value

    try:
        injection = evidence.hold_out(seed, min(few, MAX_INJECTED))
        settings = injection.first_settings(grid.middle().kernel, entries=any(error.by_entry for error in grid.forces))
        favoured = settings.error
        costs.append(injection.cost(settings, whole=favoured.by_entry, racing=True))
        costs[-1].injected.prepare(grid.coarse())
        settings = grid.best_force([min(grid.coarse(), key=told)], told)
        starts = [settings, *costs[-1].rivals(settings)]
        costs.append(injection.cost(settings, whole=favoured.by_entry, racing=True))
        settings = grid.climb(grid.best_force(starts, told), told, passes=PASSES)
    except KeyboardInterrupt:
        tried_by = [cost for cost in costs if cost.known]
        if not tried_by:
            return Calibration(grid.middle(), 1.0, True)
        best = min(tried_by[-1].known, key=tried_by[-1])
        return Calibration(best, tried_by[-1].share(best), True)
    return Calibration(settings, costs[-1].share(settings), False)


def choose_filling(
    evidence: Evidence,
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
    (truth, against, rng), entries = evidence.part(seed), in_order(entries)
    hidden = entries[rng.permutation(len(entries))[: len(truth)]]
    hidden = hidden[np.arange(len(truth)) % len(hidden)]
    start = expected(truth, hidden)
    unknown = np.where(hidden, np.nan, truth)

    @cache
    def cost(settings: Settings) -> float:
        A = against.mend_with_history(unknown, settings, start=start, free=hidden, **_budget())[0]
        return float(np.abs(A - truth)[hidden].sum())

    cutoffs = CUTOFFS if evidence.mender.fixed_cutoff is None else (CUTOFFS[1],)
    grid = Grid(tuple(kernels), cutoffs, {RowError: (0.5,)})
    best = grid.climb(grid.middle(), cost, passes=FILLING_PASSES)
    return best if cost(best) < float(np.abs(start - truth)[hidden].sum()) else None


def in_order(rows: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return the rows in an order of their own, so that what is drawn from them does not depend on that of the data."""
    out: np.ndarray[Any, Any] = rows[lexicographic(rows)]
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

    def coarse(self) -> list[Settings]:
        """Return the settings in the middle, and those with every third force of each error model."""
        middle = self.middle()
        forces = [(error, force) for error in self.forces for force in self.forces[error][1::3]]
        return [middle, *(replace(middle, error=error, force=force) for error, force in forces)]

    def best_force(self, starts: Sequence[Settings], cost: Callable[[Settings], float]) -> Settings:
        """Return the best settings found from each of some, which may differ in the error model, by the force alone."""
        return min((_walk(start, "force", self.forces[start.error], cost) for start in starts), key=cost)

    def climb(self, best: Settings, cost: Callable[[Settings], float], *, passes: int) -> Settings:
        """Return the best settings found from some, axis by axis."""
        for _ in range(passes):
            before = best
            axes = {"force": self.forces[best.error], "kernel": self.kernels, "cutoff": self.cutoffs}
            for axis, places in axes.items():
                best = _walk(best, axis, places, cost)
            if best.error.by_entry:  # all of them: a small one is worse than none, a larger one may be better
                best = min((replace(best, refit=refit, grow=grow) for refit, grow in REFITS), key=cost)
            if cost(best) > WORTHWHILE * cost(before):
                break
        return best


def _walk(best: Settings, axis: str, places: Sequence[Any], cost: Callable[[Settings], float]) -> Settings:
    """Return the best settings along one axis, walking in either direction for as long as it helps."""
    here = places.index(getattr(best, axis))
    for beyond in (places[here + 1 :], places[:here][::-1]):
        before = best
        for place in beyond:
            changed: dict[str, Any] = {axis: place}
            candidate = replace(best, **changed)
            if cost(candidate) >= cost(best):
                break
            best = candidate
        if best != before:
            break
    return best
