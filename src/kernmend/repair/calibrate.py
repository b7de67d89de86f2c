"""Parameters for mending rows against a reference, chosen without labels by re-corruption.

The flagged rows are mended once, roughly; what that took off them is planted on rows that are known to be good and
were held out of the reference. The parameters that bring those back best are the ones to mend with. Residuals of a
rough mending are themselves rough, so this is done twice.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.model.kernels import Kernel
from kernmend.repair.mender import MAX_REFERENCE, Mender, Settings

CUTOFFS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # share of the trace of the Gram matrix
FORCES = {
    "kernel": (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9),
    "rows": (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9),
    "entries": (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0),
}  # lam, as a share of the force that no pull exceeds (for entries, of that spread over all of them)
GROW = 2  # rounds: with more, the found part of a row spreads over what was right
REFITS = ((0.0, 0), *((share, grow) for grow in (0, GROW) for share in (0.3, 0.6, 1.0, 1.5)))  # `refit` and `grow`
ROUGH_ROWS = 1e-4, "rows", 0.1  # cut-off, error model and force of the first mending: it must move the rows
ROUGH_ENTRIES = 1e-6, "entries", 1.0, 0.3  # the same where that makes the rows look right, with the refit
ROUGH_FEW = 1e-6, "entries", 0.2, 0.3  # the same with few features, whose kernels are narrow
LOOKS_RIGHT = 0.3  # suspicion above that of good rows; wrong rows mended entry by entry have 0.5 to 1, wrong entries 0
FEW_ENTRIES = 1 / 3  # at most: with noise in all pixels, up to a half of them must change before a row looks right
FEW_OF_FEW = 0.4  # the same with few features: one of three, and a little
DOUBT = 1.05  # what the cost of the other error model counts: it must be clearly better
LEAST_FEATURES = 4  # for a wrong entry to be told from a wrong row
MANY_FEATURES = 16  # from here on the wide kernels, below the narrow ones
PASSES = 1, 3  # over the axes, at most, each time
RIVAL = 1.3  # times the best cost: error models above it are not tried a second time
HELD_OUT = 0.2  # of the good rows, at most
MAX_PLANTED = 40
SEARCH_ITERATIONS = 25

Suspicion: TypeAlias = Callable[[Array], Array]
"""How wrong each row looks, 1 at the flagging threshold."""


@dataclass(frozen=True)
class Evidence:
    """What calibration knows: the good rows, the flagged ones, and what the user gave.

    `suspicion`, made from good rows, says how wrong a row looks: what still looks wrong when mended counts against the
    settings, which decides where the original place of a row cannot be known. `lam` and `cutoff` are the numbers
    themselves, where they are given.
    """

    good: Array
    flagged: Array
    lam: float | None = None
    cutoff: float | None = None
    bounds: tuple[Array, Array] | None = None
    suspicion: Callable[[Array], Suspicion] | None = None

    def hold_out(self, seed: int) -> "Planting":
        """Return a random part of the good rows, ready to be corrupted, with the others as reference."""
        rng = np.random.default_rng(seed)
        good, flagged = in_order(self.good), in_order(self.flagged)
        n = good.shape[0]
        order = rng.permutation(n)
        held = order[: max(1, min(MAX_PLANTED, int(HELD_OUT * n)))]
        L = good[order[held.size : held.size + MAX_REFERENCE]]
        donors = flagged[rng.permutation(flagged.shape[0])[: held.size]]
        suspect = None if self.suspicion is None else self.suspicion(L)
        return Planting(Mender(L, self.bounds, self.lam, self.cutoff), good[held], donors, suspect)


@dataclass(frozen=True)
class Planting:
    """Good rows that were held out, and flagged rows whose errors are planted on them."""

    mender: Mender
    held: Array
    donors: Array
    suspect: Suspicion | None

    def cost(self, settings: Settings, *, whole: bool) -> "Cost":
        """Plant what these settings take off the flagged rows; return the cost of any settings.

        `whole` says that entries are wrong in groups: what is planted should be as much of each as can be had.
        """
        # What entries lose to being wrong is theirs alone: a refit leaves nothing planted on the others.
        if settings.error == "entries":
            settings = replace(settings, refit=settings.refit or 1.0, grow=GROW if whole else settings.grow)
        residuals = self.donors - self.mender.mend(self.donors, settings, max_iter=SEARCH_ITERATIONS)
        planted = self.held + residuals[np.arange(self.held.shape[0]) % self.donors.shape[0]]
        return Cost(self.mender, self.held, planted, self.suspect)

    def rough(self, kernel: Kernel, *, entries: bool) -> Settings:
        """Return how to mend for the first time: entry by entry where a few changed entries make rows look right."""
        many = self.held.shape[1] >= MANY_FEATURES
        by_rows, by_entries = Settings(kernel, *ROUGH_ROWS), Settings(kernel, *(ROUGH_ENTRIES if many else ROUGH_FEW))
        if not entries or self.suspect is None:
            return by_rows
        unbounded = replace(self.mender, bounds=None)  # bounds alone make noise on constant entries look right
        A = unbounded.mend(self.donors, by_entries, max_iter=SEARCH_ITERATIONS)
        few = float(np.mean(self.donors != A)) <= (FEW_ENTRIES if many else FEW_OF_FEW)
        looks_right = _level(self.suspect(A)) - _level(self.suspect(self.held)) < LOOKS_RIGHT
        return by_entries if few and looks_right else by_rows


class Calibration(NamedTuple):
    """The settings, the share of planted squared error that they leave, and whether Ctrl-C ended the search."""

    settings: Settings
    share: float
    interrupted: bool


def calibrate(
    evidence: Evidence,
    *,
    kernels: Sequence[Kernel],
    errors: Sequence[str] = ("rows", "entries"),
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
        {error: FORCES[error] if evidence.lam is None else (1.0,) for error in errors},
    )
    planting = evidence.hold_out(seed)
    settings = planting.rough(grid.middle().kernel, entries="entries" in grid.forces)
    favoured = settings.error
    tried = 0

    def told(settings: Settings) -> float:
        nonlocal tried
        tried += settings not in cost.known
        value = cost(settings)
        if callback is not None:
            callback(tried, value)
        return value if settings.error == favoured else DOUBT * value

    start, coarse = grid.middle(), set(grid.forces)
    for passes in PASSES:
        cost = planting.cost(settings, whole=favoured == "entries")
        try:
            settings = grid.climb(start, told, coarse=coarse, passes=passes)
        except KeyboardInterrupt:
            best = min(cost.known, key=cost, default=grid.middle())
            return Calibration(best, cost.share(best) if best in cost.known else 1.0, True)
        start, coarse = grid.nearest(settings), cost.rivals(settings)
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
    held, rest = np.split(order, [max(1, min(MAX_PLANTED, int(HELD_OUT * len(order))))])
    truth, against = good[held], mender.with_rows(good[rest[:MAX_REFERENCE]])
    hidden = entries[rng.permutation(len(entries))[: len(held)]]
    hidden = hidden[np.arange(len(held)) % len(hidden)]
    start = expected(truth, hidden)
    unknown = np.where(hidden, np.nan, truth)

    def cost(settings: Settings) -> float:
        A = against.mend_with_history(unknown, settings, start=start, free=hidden, max_iter=SEARCH_ITERATIONS)[0]
        return float(np.abs(A - truth)[hidden].sum())

    cutoffs = CUTOFFS if mender.fixed_cutoff is None else (CUTOFFS[1],)
    tried = {each: cost(each) for each in (Settings(kernel, cut, "rows", 0.5) for kernel in kernels for cut in cutoffs)}
    best = min(tried, key=lambda each: tried[each])
    return best if tried[best] < float(np.abs(start - truth)[hidden].sum()) else None


def in_order(rows: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return the rows in an order of their own, so that what is drawn from them does not depend on that of the data."""
    out: np.ndarray[Any, Any] = rows[np.lexsort(rows.T[::-1])]
    return out


def _level(suspicion: Array) -> float:
    return float(np.clip(suspicion, 0.0, 1.0).mean())


@dataclass
class Cost:
    """What is left of the corruption that was planted, once mended; each settings once."""

    mender: Mender
    truth: Array
    planted: Array
    suspect: Callable[[Array], Array] | None
    known: dict[Settings, tuple[float, float]] = field(default_factory=dict)
    _starts: dict[str, Array] = field(default_factory=dict, repr=False)
    _plain: dict[Settings, Array] = field(default_factory=dict, repr=False)

    def __call__(self, settings: Settings) -> float:
        """Return the share of the planted error that stays, plus how suspicious the rows still look."""
        return sum(self.parts(settings))

    def rivals(self, best: Settings) -> set[str]:
        """Return the error models that came near the best settings, if there are others than theirs; with theirs."""
        others = {other.error for other in self.known if self(other) <= RIVAL * self(best)}
        return others if len(others) > 1 else set()

    def share(self, settings: Settings) -> float:
        """Return the share of the planted squared error that stays."""
        return self.parts(settings)[0]

    def parts(self, settings: Settings) -> tuple[float, float]:
        """Return both parts of the cost."""
        if settings not in self.known:
            A = self._mended(settings)
            planted = float(np.sum(np.square(self.planted - self.truth)))
            planted = min(planted, self.truth.shape[0] * self.mender.scale**2)  # as far as any other good row
            share = float(np.sum(np.square(A - self.truth))) / max(planted, 1e-300)
            self.known[settings] = share, max(self._suspicion(A) - self._natural, 0.0)
        return self.known[settings]

    def _mended(self, settings: Settings) -> Array:
        """Return the planted rows, mended. Settings that differ in the refit share what goes before it."""
        if settings.error not in self._starts:
            self._starts[settings.error] = self.mender.start(self.planted, settings.error)
        start, plain = self._starts[settings.error], replace(settings, refit=0.0, grow=0)
        if plain not in self._plain:
            self._plain[plain] = self.mender.mend(self.planted, plain, start=start, max_iter=SEARCH_ITERATIONS)
        A = self._plain[plain]
        return self.mender.refit(A, self.planted, settings, start=start, max_iter=SEARCH_ITERATIONS)

    @cached_property
    def _natural(self) -> float:
        """How suspicious the good rows themselves look."""
        return self._suspicion(self.truth)

    def _suspicion(self, A: Array) -> float:
        return 0.0 if self.suspect is None else _level(self.suspect(A))


@dataclass(frozen=True)
class Grid:
    """The settings to choose from, each a place on three ordered axes for each error model."""

    kernels: tuple[Kernel, ...]
    cutoffs: tuple[float, ...]
    forces: dict[str, tuple[float, ...]]

    def middle(self) -> Settings:
        """Return the settings in the middle of each axis, with the first error model."""
        error, forces = next(iter(self.forces.items()))
        return Settings(
            self.kernels[len(self.kernels) // 2], self.cutoffs[len(self.cutoffs) // 2], error, forces[len(forces) // 2]
        )

    def nearest(self, settings: Settings) -> Settings:
        """Return the settings themselves if their error model is one to choose from, else the middle."""
        return settings if settings.error in self.forces else replace(self.middle(), kernel=settings.kernel)

    def climb(
        self, start: Settings, cost: Callable[[Settings], float], *, coarse: Collection[str], passes: int
    ) -> Settings:
        """Return the best settings found from `start`: first over some error models' forces, then axis by axis."""
        forces = [replace(start, error=e, force=f) for e in self.forces if e in coarse for f in self.forces[e][1::3]]
        best = min([start, *forces], key=cost)
        for _ in range(passes):
            before = best
            for axis in ("force", "kernel", "cutoff"):
                best = self._walk(best, axis, cost)
            if best.error == "entries":  # all of them: a small one is worse than none, a larger one may be better
                best = min((replace(best, refit=refit, grow=grow) for refit, grow in REFITS), key=cost)
            if best == before:
                break
        return best

    def _walk(self, best: Settings, axis: str, cost: Callable[[Settings], float]) -> Settings:
        """Move along one axis, in either direction, for as long as it helps."""
        axes: dict[str, tuple[Any, ...]] = {
            "force": self.forces[best.error],
            "kernel": self.kernels,
            "cutoff": self.cutoffs,
        }
        places = axes[axis]
        here = places.index(getattr(best, axis))
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
