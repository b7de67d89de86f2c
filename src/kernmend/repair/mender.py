"""Mending rows against good ones: how (`Settings`), and what does it (`Mender`)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.coordinates import Span, Within
from kernmend.linalg.distances import capped_squared_distances, median_squared_distance, squared_distances
from kernmend.linalg.eigen import eigenpairs_above
from kernmend.model.errors import RowSum, Sizes
from kernmend.model.graphs import similar_features
from kernmend.model.kernels import Kernel
from kernmend.model.penalties import rho_from_cutoff
from kernmend.repair.completion import Filler
from kernmend.solvers.reference import Reference, mend_rows

# Number of good rows that are enough for a trial: with twice as many the settings are as good, in three times the time.
MAX_REFERENCE = 600
# Largest change of an entry at a start, in typical differences of an entry.
START_BOUND = 3.0
# Number of good rows up to which two references are kept: 64 MB more, at most.
BOTH = 2000
# First step of a row, as a share of the typical distance of two rows in the entries that may change.
FIRST_STEP = 0.1


@dataclass(frozen=True)
class Settings:
    """How to mend a row: kernel, eigenvalue cut-off as a share of the trace, error model, force lam as a share.

    With an error model of entries and `refit` > 0, entries that changed by more than this share of a typical difference
    are then taken for wrong and filled in anew, as if they were missing, and all others return to what they were.
    Before that, `grow` times, the features most like theirs are filled in with them: what covers a part of a row covers
    features that go together, and left in, they vouch for each other.
    """

    kernel: Kernel
    cutoff: float
    error: type[RowSum]
    force: float
    refit: float = 0.0
    grow: int = 0


@dataclass
class Mender:
    """Mends rows against the good rows `L`.

    Keeps one eigendecomposition for each kernel it has met, the references it made last, and the rows it mended last in
    coordinates of the good ones: trials mend the same rows again. Of many rows the decomposition has the eigenpairs
    above a cut-off only, which stands beside it. Of up to `BOTH` rows two references are kept: one for wrong rows and
    one for wrong entries take turns in each block.
    """

    L: Array
    bounds: tuple[Array, Array] | None = None
    fixed_lam: float | None = None
    fixed_cutoff: float | None = None
    _spectra: dict[Kernel, tuple[Array, Array, float]] = field(default_factory=dict, repr=False)
    _references: dict[tuple[Kernel, float, bool], Reference] = field(default_factory=dict, init=False, repr=False)
    _entered: tuple[Array, Array, Within | None] | None = field(default=None, init=False, repr=False)

    @cached_property
    def median(self) -> float:
        """The typical squared distance of two good rows."""
        return median_squared_distance(self.L) or 1.0

    @cached_property
    def scale(self) -> float:
        """The typical distance of two good rows."""
        return float(np.sqrt(self.median))

    def with_rows(self, L: Array) -> "Mender":
        """Return one that mends against other good rows."""
        return Mender(L, self.bounds, self.fixed_lam, self.fixed_cutoff)

    def reference(self, settings: Settings, *, within: bool = False) -> Reference:
        """Return what the good rows span in the kernel space under these settings; `within`, in their coordinates."""
        key = settings.kernel, self.cutoff(settings), within
        if key not in self._references:
            while len(self._references) > (len(self.L) <= BOTH):  # before the next one is made
                del self._references[next(iter(self._references))]
            L = self._coordinates if within else self.L
            s, U = self._spectrum(settings.kernel, key[1])
            self._references[key] = Reference.from_largest(settings.kernel, L, s, U, self.rank(settings))
        return self._references[key]

    def rank(self, settings: Settings) -> int:
        """Return how many eigenvectors are kept: settings in which this alone is the same are the same."""
        cutoff = self.cutoff(settings)
        s = self._spectrum(settings.kernel, cutoff)[0]
        return max(1, s.size - int(np.searchsorted(s, cutoff, side="right")))

    def cutoff(self, settings: Settings) -> float:
        """Return the eigenvalue cut-off itself: a share of the trace of the Gram matrix, unless it was given."""
        if self.fixed_cutoff is not None:
            return self.fixed_cutoff
        return settings.cutoff * float(settings.kernel.diag(self.L).sum())

    def rho(self, settings: Settings) -> float:
        """Return the rho of eq. (relax) that the cut-off stands for, finite where there is none."""
        return rho_from_cutoff(max(self.cutoff(settings), 1e-100))

    def forget_reference(self) -> None:
        """Keep the eigendecompositions only: the reference is as large, and soon made of them."""
        self._references.clear()
        self._entered = None
        self.__dict__.pop("_coordinates", None)

    def lam(self, settings: Settings) -> float:
        """Return the weight of the error term that the force stands for."""
        if self.fixed_lam is not None:
            return self.fixed_lam
        steepness = self._sizes(settings).steepness(self.L[:: self.L.shape[0] // 64 + 1])
        return settings.force * settings.error.unit_of_lam(steepness, self.L.shape[1])

    def error(self, settings: Settings, X: Array) -> RowSum:
        """Return the error model of rows to mend."""
        return settings.error.of(X, self._sizes(settings), settings.error.smoothing)

    def _sizes(self, settings: Settings) -> Sizes:
        return Sizes(settings.kernel, self.scale, float(np.sqrt(np.mean(settings.kernel.diag(self.L)))))

    def start(self, X: Array, error: type[RowSum]) -> Array:
        """Return where the mending of rows without missing entries begins: near good rows, for none pulls from afar.

        That is the nearest good row. Where only entries are wrong it is the row itself, each entry within a bound of
        the nearest good row; differences count up to this bound only.
        """
        if not error.by_entry:
            nearest: Array = self.L[squared_distances(X, self.L).argmin(axis=1)]
            return nearest
        bound = START_BOUND * self.scale / np.sqrt(X.shape[1])
        nearest = self.L[capped_squared_distances(X, self.L, bound).argmin(axis=1)]
        return np.clip(X, nearest - bound, nearest + bound)

    def mend(
        self, X: Array, settings: Settings, *, start: Array | None = None, max_iter: int = 100, tol: float = 1e-5
    ) -> Array:
        """Return the rows of `X`, mended one by one."""
        return self.mend_with_history(X, settings, start=start, max_iter=max_iter, tol=tol)[0]

    def mend_by_forces(
        self, X: Array, several: Sequence[Settings], start: Array, *, max_iter: int = 100, tol: float = 1e-5
    ) -> list[Array]:
        """Return the rows of `X` mended by each of several settings, which differ in the force only, without a refit.

        All are mended at once, which takes less time than one after the other: rows are minimised each by itself.
        """
        copies, starts = (np.tile(rows, (len(several), 1)) for rows in (X, start))
        lam = np.repeat([self.lam(settings) for settings in several], len(X))
        return np.split(self._minimise(copies, several[0], starts, None, max_iter, tol, lam)[0], len(several))

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
        """Return rows mended from a start, the sums of their objectives, and whether these converged.

        `free` says which entries may change. The objectives are those of the minimisation before the refit, if any.
        """
        start = self.start(X, settings.error) if start is None else start
        A, totals, converged = self._minimise(X, settings, start, free, max_iter, tol)
        return self.refit(A, X, settings, start=start, free=free, max_iter=max_iter, tol=tol), totals, converged

    def refit(
        self,
        A: Array,
        X: Array,
        settings: Settings,
        *,
        start: Array,
        free: NDArray[np.bool_] | None = None,
        max_iter: int = 100,
        tol: float = 1e-5,
    ) -> Array:
        """Return rows that were mended to `A` with the entries found wrong filled in anew, the others as they were."""
        if not settings.error.by_entry or settings.refit == 0:
            return A
        for grow in (*[True] * settings.grow, False):
            wrong = self.found_wrong(A, X, settings)
            if grow:
                wrong |= wrong @ self._alike > 0
            if free is not None:
                wrong &= free
            unknown, begin = np.where(wrong, np.nan, X), np.where(wrong, A, start)
            A = self._minimise(unknown, settings, begin, wrong, max_iter // 2 if grow else max_iter, tol)[0]
        return A

    def found_wrong(self, A: Array, X: Array, settings: Settings) -> NDArray[np.bool_]:
        """Return which entries of rows `X` that were mended to `A` are taken for wrong, missing ones among them."""
        tolerance = settings.refit * self.scale / np.sqrt(X.shape[1])
        out: NDArray[np.bool_] = np.isnan(X) | (np.abs(A - X) > tolerance)
        return out

    def _minimise(
        self,
        X: Array,
        settings: Settings,
        start: Array,
        free: NDArray[np.bool_] | None,
        max_iter: int,
        tol: float,
        lam: Array | None = None,
    ) -> tuple[Array, list[float], bool]:
        """Return what `mend_rows` does; `lam` has the weight of the error of each row, None is that of the settings."""
        lam = np.asarray(self.lam(settings)) if lam is None else lam
        # The first step, a tenth of the typical distance of two rows in the entries that may change.
        share = 1.0 if free is None else free.mean(axis=1)
        step = FIRST_STEP * self.scale * np.sqrt(share)
        budget: dict[str, Any] = {"scale": step, "bounds": self.bounds, "max_iter": max_iter, "tol": tol}
        within = self._within(X, settings, start, free)
        if within is None:
            return mend_rows(self.reference(settings), start, self.error(settings, X), lam, free=free, **budget)
        reference = self.reference(settings, within=True)
        A, totals, converged = mend_rows(reference, within.start, self.error(settings, within.X), lam, **budget)
        return within.leave(A), totals, converged

    def _within(self, X: Array, settings: Settings, start: Array, free: NDArray[np.bool_] | None) -> Within | None:
        """Return the rows in coordinates of the good ones, where nothing depends on single features."""
        if settings.error.by_entry or not settings.kernel.turns or self.bounds is not None:
            return None
        if self.L.shape[0] >= self.L.shape[1]:  # coordinates would be no fewer than the features
            return None
        if self._span is None or not (free is None or free.all()) or np.isnan(X).any():
            return None
        if self._entered is None or self._entered[0] is not X or self._entered[1] is not start:
            self._entered = X, start, self._span.enter(X, start)
        return self._entered[2]

    @cached_property
    def _span(self) -> Span | None:
        return Span.of(self.L)

    @cached_property
    def _coordinates(self) -> Array:
        """The good rows in coordinates of their span."""
        return self.L if self._span is None else self._span.coordinates(self.L)

    @cached_property
    def filler(self) -> Filler:
        """What fills in missing entries."""
        return Filler.against(self.L)

    @cached_property
    def _alike(self) -> Any:
        """Which features go with which, as a sparse matrix."""
        return similar_features(self.L)

    def _spectrum(self, kernel: Kernel, cutoff: float) -> tuple[Array, Array]:
        """Return eigenpairs of the Gram matrix, those above the cut-off among them."""
        known = self._spectra.get(kernel)
        if known is None or known[2:] > (cutoff,):  # models of before have all pairs, and no third entry
            s, U = eigenpairs_above(kernel.gram(self.L), cutoff)
            self._spectra[kernel] = known = s, U, cutoff if s.size < len(self.L) else 0.0
        return known[:2]
