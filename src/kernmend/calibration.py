"""Parameters for mending rows against a reference, chosen without labels by re-corruption.

The flagged rows are mended once, roughly; what that took off them is planted on rows that are known to be good and
were held out of the reference. The parameters that bring those back best are the ones to mend with. Residuals of a
rough mending are themselves rough, so this is done twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.errors import EntryError, ErrorModel, KernelError, RowError
from kernmend.kernels import Kernel, median_squared_distance, squared_distances
from kernmend.solvers.reference import Reference, mend_rows
from kernmend.spectral import eigenpairs

CUTOFFS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # share of the trace of the Gram matrix
FORCES = {
    "kernel": (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9),
    "rows": (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9),
    "entries": (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0),
}  # lam, as a share of the force that no pull exceeds (for entries, of that spread over all of them)
REFITS = (0.0, 0.3, 0.6, 1.0)
ROUGH_ROWS = 1e-4, "rows", 0.1  # cut-off, error model and force of the first mending: it must move the rows
ROUGH_ENTRIES = 1e-6, "entries", 1.0, 0.3  # the same where that makes the rows look right, with the refit
LOOKS_RIGHT = 0.3  # suspicion above that of good rows; wrong rows mended entry by entry have 0.5 to 1, wrong entries 0
HELD_OUT = 0.2  # of the good rows, at most
MAX_PLANTED = 40
MAX_REFERENCE = 1200  # good rows that calibration works with
SEARCH_ITERATIONS = 25
START_BOUND = 3.0  # typical differences of an entry
SMOOTHING = {"kernel": 1e-3, "rows": 1e-3, "entries": 1e-2}  # mu, as a share of a typical difference


@dataclass(frozen=True)
class Settings:
    """How to mend a row: kernel, eigenvalue cut-off as a share of the trace, error model, force lam as a share.

    With the error model "entries" and `refit` > 0, entries that changed by more than this share of a typical difference
    are then taken for wrong and filled in anew, as if they were missing, and all others return to what they were.
    """

    kernel: Kernel
    cutoff: float
    error: str
    force: float
    refit: float = 0.0


@dataclass
class Mender:
    """Mends rows against the good rows `L`; keeps one eigendecomposition for each kernel it has met."""

    L: Array
    bounds: tuple[Array, Array] | None = None
    fixed_lam: float | None = None
    fixed_cutoff: float | None = None
    _spectra: dict[Kernel, tuple[Array, Array]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.scale = float(np.sqrt(median_squared_distance(self.L))) or 1.0

    def reference(self, settings: Settings) -> Reference:
        """Return the span that the good rows keep under these settings."""
        s, U = self._spectrum(settings.kernel)
        return Reference.from_eigenpairs(settings.kernel, self.L, s, U, self.cutoff(settings))

    def cutoff(self, settings: Settings) -> float:
        """Return the eigenvalue cut-off itself."""
        if self.fixed_cutoff is not None:
            return self.fixed_cutoff
        return settings.cutoff * float(self._spectrum(settings.kernel)[0].sum())

    def lam(self, settings: Settings) -> float:
        """Return the weight of the error term that the force stands for."""
        if self.fixed_lam is not None:
            return self.fixed_lam
        if settings.error == "kernel":
            return settings.force
        shift = np.full_like(self.L[:1], 1e-3 * self.scale / np.sqrt(self.L.shape[1]))
        rows = self.L[:: self.L.shape[0] // 64 + 1]
        length = float(np.sqrt(np.median(settings.kernel.distances(rows + shift, rows)[0]))) / (1e-3 * self.scale)
        return settings.force * length / (np.sqrt(self.L.shape[1]) if settings.error == "entries" else 1.0)

    def error(self, settings: Settings, X: Array) -> ErrorModel:
        """Return the error model of rows to mend."""
        mu = SMOOTHING[settings.error]
        if settings.error == "kernel":
            return KernelError(settings.kernel, X, mu * float(np.sqrt(np.mean(settings.kernel.diag(self.L)))))
        if settings.error == "rows":
            return RowError(X, mu * self.scale)
        return EntryError(X, mu * self.scale / np.sqrt(X.shape[1]))

    def start(self, X: Array, error: str) -> Array:
        """Return where the mending of rows without missing entries begins: near good rows, for none pulls from afar.

        That is the nearest good row. Where only entries are wrong it is the row itself, each entry within a bound of
        the nearest good row; differences count up to this bound only.
        """
        if error != "entries":
            nearest: Array = self.L[squared_distances(X, self.L).argmin(axis=1)]
            return nearest
        bound = START_BOUND * self.scale / np.sqrt(X.shape[1])
        distance = np.stack([np.square(np.minimum(np.abs(self.L - x), bound)).sum(axis=1) for x in X])
        nearest = self.L[distance.argmin(axis=1)]
        return np.clip(X, nearest - bound, nearest + bound)

    def mend(self, X: Array, settings: Settings, *, max_iter: int = 100) -> Array:
        """Return the rows of `X`, mended one by one."""
        return self.mend_with_history(X, settings, max_iter=max_iter)[0]

    def mend_with_history(
        self,
        X: Array,
        settings: Settings,
        *,
        start: Array | None = None,
        free: NDArray[np.bool_] | None = None,
        max_iter: int = 100,
        tol: float = 1e-5,
    ) -> tuple[Array, list[float], bool]:
        """Do the same from another start, with some entries held; give also the objective and if it converged."""
        reference, lam = self.reference(settings), self.lam(settings)
        budget: dict[str, Any] = {"scale": 0.1 * self.scale, "bounds": self.bounds, "max_iter": max_iter, "tol": tol}
        start = self.start(X, settings.error) if start is None else start
        A, totals, converged = mend_rows(reference, start, self.error(settings, X), lam, free=free, **budget)
        if settings.error == "entries" and settings.refit > 0:
            missing = np.isnan(X)
            wrong = missing | (np.abs(A - X) > settings.refit * self.scale / np.sqrt(X.shape[1]))
            if free is not None:
                wrong &= free
            unknown = np.where(wrong, np.nan, X)
            begin = np.where(wrong, A, start)
            A = mend_rows(reference, begin, self.error(settings, unknown), lam, free=wrong, **budget)[0]
        return A, totals, converged

    def _spectrum(self, kernel: Kernel) -> tuple[Array, Array]:
        if kernel not in self._spectra:
            self._spectra[kernel] = eigenpairs(kernel.gram(self.L))
        return self._spectra[kernel]


def calibrate(
    good: Array,
    flagged: Array,
    *,
    kernels: Sequence[Kernel],
    errors: Sequence[str] = ("rows", "entries"),
    lam: float | None = None,
    cutoff: float | None = None,
    bounds: tuple[Array, Array] | None = None,
    suspicion: Callable[[Array], Callable[[Array], Array]] | None = None,
    seed: int = 0,
) -> tuple[Settings, float]:
    """Return the settings that bring re-corrupted good rows back best, and their squared error over the planted one.

    `kernels` are in order of width: the search climbs from the middle one to its neighbours. One choice is no search.
    `suspicion`, made from the good rows, says how wrong a row looks, 1 at the flagging threshold: what still looks
    wrong when mended counts against the settings, which decides where the original place of a row cannot be known.
    `lam` and `cutoff` are the numbers themselves, where they are given.
    """
    rng = np.random.default_rng(seed)
    n = good.shape[0]
    order = rng.permutation(n)
    held = order[: max(1, min(MAX_PLANTED, int(HELD_OUT * n)))]
    mender = Mender(good[order[held.size : held.size + MAX_REFERENCE]], bounds, lam, cutoff)
    grid = _Grid(
        tuple(kernels),
        CUTOFFS if cutoff is None else (CUTOFFS[1],),
        {error: FORCES[error] if lam is None else (1.0,) for error in errors},
    )
    donors = flagged[rng.permutation(flagged.shape[0])[: held.size]]
    suspect = None if suspicion is None else suspicion(mender.L)
    settings = _rough(mender, donors, good[held], grid, suspect)
    share = 1.0
    for first in (True, False):
        # What entries lose to being wrong is theirs alone: a refit leaves nothing planted on the others.
        if settings.error == "entries":
            settings = replace(settings, refit=settings.refit or REFITS[-1])
        residuals = donors - mender.mend(donors, settings, max_iter=SEARCH_ITERATIONS)
        planted = good[held] + residuals[np.arange(held.size) % donors.shape[0]]
        cost = _Cost(mender, good[held], planted, suspect)
        start = grid.middle() if first else grid.nearest(settings)
        settings = grid.climb(start, cost)
        share = cost.share(settings)
    return settings, share


def _rough(
    mender: Mender, donors: Array, good: Array, grid: "_Grid", suspect: Callable[[Array], Array] | None
) -> Settings:
    """Return how to mend for the first time: entry by entry where a few changed entries make the rows look right."""
    kernel = grid.middle().kernel
    rows, entries = Settings(kernel, *ROUGH_ROWS), Settings(kernel, *ROUGH_ENTRIES)
    if "entries" not in grid.forces or suspect is None:
        return rows
    A = mender.mend(donors, entries, max_iter=SEARCH_ITERATIONS)
    return entries if _level(suspect(A)) - _level(suspect(good)) < LOOKS_RIGHT else rows


def _level(suspicion: Array) -> float:
    return float(np.clip(suspicion, 0.0, 1.0).mean())


@dataclass
class _Cost:
    """What is left of the corruption that was planted, once mended; each settings once."""

    mender: Mender
    truth: Array
    planted: Array
    suspect: Callable[[Array], Array] | None
    known: dict[Settings, tuple[float, float]] = field(default_factory=dict)

    def __call__(self, settings: Settings) -> float:
        return sum(self._parts(settings))

    def share(self, settings: Settings) -> float:
        return self._parts(settings)[0]

    def _parts(self, settings: Settings) -> tuple[float, float]:
        if settings not in self.known:
            A = self.mender.mend(self.planted, settings, max_iter=SEARCH_ITERATIONS)
            planted = float(np.sum(np.square(self.planted - self.truth)))
            planted = min(planted, self.truth.shape[0] * self.mender.scale**2)  # as far as any other good row
            share = float(np.sum(np.square(A - self.truth))) / max(planted, 1e-300)
            self.known[settings] = share, max(self._suspicion(A) - self._natural, 0.0)
        return self.known[settings]

    @cached_property
    def _natural(self) -> float:
        """How suspicious the good rows themselves look."""
        return self._suspicion(self.truth)

    def _suspicion(self, A: Array) -> float:
        return 0.0 if self.suspect is None else _level(self.suspect(A))


@dataclass(frozen=True)
class _Grid:
    """The settings to choose from, each a place on three ordered axes for each error model."""

    kernels: tuple[Kernel, ...]
    cutoffs: tuple[float, ...]
    forces: dict[str, tuple[float, ...]]

    def middle(self) -> Settings:
        error, forces = next(iter(self.forces.items()))
        return Settings(
            self.kernels[len(self.kernels) // 2], self.cutoffs[len(self.cutoffs) // 2], error, forces[len(forces) // 2]
        )

    def nearest(self, settings: Settings) -> Settings:
        return settings if settings.error in self.forces else replace(self.middle(), kernel=settings.kernel)

    def climb(self, start: Settings, cost: Callable[[Settings], float]) -> Settings:
        """Return the best settings found from `start`: first over error models and forces, then axis by axis."""
        coarse = [replace(start, error=e, force=f) for e, forces in self.forces.items() for f in forces[1::3]]
        best = min([start, *coarse], key=cost)
        for _ in range(3):
            before = best
            for axis in ("force", "kernel", "cutoff"):
                best = self._walk(best, axis, cost)
            if best.error == "entries":  # all of them: a small one is worse than none, a larger one may be better
                best = min((replace(best, refit=refit) for refit in REFITS), key=cost)
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
