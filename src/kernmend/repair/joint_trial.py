"""Trials of the joint model: rows with known or injected errors, and how far a recovery is from what they should be."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Detector
from kernmend.linalg.coordinates import Span
from kernmend.linalg.distances import squared_distances
from kernmend.model.kernels import RBF, auto_gamma
from kernmend.repair.calibrate import MANY_FEATURES, SEARCH_ITERATIONS, SEARCH_TOL, Evidence, Injection, in_order
from kernmend.repair.mender import Mender, Settings
from kernmend.repair.units import Units
from kernmend.solvers.active import MANY_ROWS


@dataclass(frozen=True)
class Axes:
    """What is tried: widths of Gaussian kernels, offsets of polynomial ones, cut-offs; iterations, passes, rows; start.

    A width is gamma times the median squared distance. An offset is coef0 over the mean squared length of a row. A
    cut-off is an eigenvalue as a share of the trace of the centred Gram matrix: so counted it hardly depends on gamma.
    A trial has at most so many rows and iterations. `start` is the share of the way to where a wrong row is mended once
    at which the model starts.
    """

    widths: tuple[float, ...]
    offsets: tuple[float, ...]
    cuts: tuple[float, ...]
    iterations: int
    passes: int
    rows: int
    start: float


START = 2.0 / 3.0
"""Share of the way at which the model starts on data with many features. The place where a wrong row is mended once is
far enough to see what is wrong, so it is too far there: from it rows with noise end in a minimum that is lower and
farther from the truth. On digits with noise a total error of 0.227 is left in place of 0.237, on views of an object
0.075 in place of 0.076; half way leaves the same in twice the time. A trial, which has few iterations, starts at that
place itself, and so does a fit of many rows, where only rows that are pulled move: 3,600 images keep 0.138 of their
error else, in place of 0.121. With few features, where that place is on the surface, a fit from before it goes back: on
two circles outliers keep 7 and 30 % of their distance in place of 1.4 and 0.5 % (`benchmarks joint`, surfaces)."""
MANY = Axes((0.003, 0.03, 0.3), (300.0, 30.0, 3.0), (1e-3, 3e-4, 1e-4), iterations=15, passes=1, rows=200, start=START)
"""For data with many features: there the surface is nearly flat within the distance of two rows."""
FEW = Axes(
    (0.03, 0.1, 0.3, 1.0, 3.0),
    (100.0, 10.0, 1.0, 0.1),
    (1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
    iterations=40,
    passes=2,
    rows=300,
    start=1.0,
)
"""For data with few features, whose surfaces bend within the distance of two rows: with fewer rows they have gaps."""


def axes(X: Array) -> Axes:
    """Return what is tried on data with so many features."""
    return MANY if X.shape[1] >= MANY_FEATURES else FEW


@dataclass(frozen=True)
class Trial:
    """Rows with wrong ones among them, what they should be, and how far a recovery is from that.

    `start` are the rows with the wrong ones mended once. `near` are good rows where a wrong one may return to any place
    on their surface; else `truth` is its place. `mender` has all good rows that there are for mending them one by one,
    of which `rows` are a part: how a row is mended depends on how many there are. `injected` are all wrong rows and
    `held` what they should be; `rows` have as many of them as the data has wrong ones among so many rows. `unit` is
    what errors are counted in: 1, or that of each column where their spreads are far apart.
    """

    rows: Array
    truth: Array
    start: Array
    wrong: NDArray[np.bool_]
    near: Array | None
    first: Settings
    mender: Mender
    injected: Array
    held: Array
    unit: float | Array = 1.0

    @classmethod
    def of(cls, X: Array, flags: NDArray[np.bool_], detector: Detector, seed: int, *, entries: bool = True) -> "Trial":
        """Return errors like those of the flagged rows on good ones; the flagged rows themselves if these say no more.

        That is so where features are few and rows are wrong as a whole, or would be mended so: no error model of
        `entries` is asked for. With three features one changed entry brings most rows back to a surface.
        """
        good, flagged = in_order(X[~flags]), in_order(X[flags])
        injection = Evidence(Mender(good), flagged, detector).hold_out(seed)
        first, most = first_settings(injection, entries=entries), axes(X).rows
        if X.shape[1] < MANY_FEATURES and not first.error.by_entry:
            rng = np.random.default_rng(seed)
            keep = min(1.0, most / len(X))
            L, wrong = (part[rng.permutation(len(part))[: math.ceil(keep * len(part))]] for part in (good, flagged))
            return cls._of(L, wrong, wrong, Mender(L), first, good)
        L = injection.mender.L
        share = len(flagged) / len(X)
        held, donors = injection.held, injection.donors
        count = min(len(held), max(2, round(share * min(most, len(good)))))
        mended, each = mend_first(injection.mender, donors, first), np.arange(len(held)) % len(donors)
        wrong = inject(held, donors[each], mended[each], by_entry=first.error.by_entry)
        return cls._of(L[: most - count], wrong, held, injection.mender, first, None, count)

    @classmethod
    def _of(
        cls,
        good: Array,
        injected: Array,
        held: Array,
        mender: Mender,
        first: Settings,
        near: Array | None,
        count: int | None = None,
    ) -> "Trial":
        """Return the trial of some good rows and so many of the wrong ones, which are mended once."""
        wrong = injected[:count]
        mended = mend_first(mender, wrong, first)
        rows, truth, start = (np.vstack([good, part]) for part in (wrong, held[:count], mended))
        bad = np.arange(len(rows)) >= len(good)
        unit = Units.of("auto", good, bounded=True).size(good)
        return cls(rows, truth, onto_span(start, rows), bad, near, first, mender, injected, held, unit)

    def left(self, A: Array) -> float:
        """Return the squared error of a recovery: what is left on the wrong rows, and how far the others moved."""
        moved = float(np.sum(np.square((A[~self.wrong] - self.truth[~self.wrong]) / self.unit)))
        return moved + self.off(A[self.wrong], self.truth[self.wrong])

    def off(self, A: Array, truth: Array) -> float:
        """Return the squared error that is left on wrong rows which should be `truth`."""
        if self.near is None:
            return float(np.sum(np.square((A - truth) / self.unit)))
        return float(squared_distances(A / self.unit, self.near / self.unit).min(axis=1).sum())

    @cached_property
    def untouched(self) -> float:
        """The squared error of doing nothing."""
        return self.left(self.rows)


def first_settings(injection: Injection, *, entries: bool) -> Settings:
    """Return how the flagged rows are mended before anything is known: far enough to see what is wrong with them."""
    many = injection.held.shape[1] >= MANY_FEATURES
    kernel = RBF((0.1 if many else 1.0) * auto_gamma(injection.mender.L))
    return injection.first_settings(kernel, entries=entries or many)


def inject(held: Array, donors: Array, mended: Array, *, by_entry: bool) -> Array:
    """Return good rows with the errors of wrong ones: what mending took off these, or the entries that it changed.

    A wrong entry is injected as it is, since its value need not depend on what it should be: on what covers a part of
    an image nothing of the image adds up, and such a sum would be easier to find than the cover is.
    """
    return np.where(mended != donors, donors, held) if by_entry else held + (donors - mended)


def onto_span(start: Array, rows: Array) -> Array:
    """Return a start within what the rows span, where every minimum of the model is, if that saves time."""
    span = Span.of(rows)
    return start if span is None else start @ span.basis.T @ span.basis


def mend_first(mender: Mender, wrong: Array, settings: Settings) -> Array:
    """Return wrong rows mended against good ones, one by one, in few iterations."""
    return mender.mend(wrong, settings, max_iter=SEARCH_ITERATIONS, tol=SEARCH_TOL)


def start_of(mender: Mender, wrong: Array, settings: Settings) -> Array:
    """Return where wrong rows start: so far on the way to where they are mended once, or there if rows are many."""
    share = 1.0 if len(mender.L) + len(wrong) > MANY_ROWS else axes(wrong).start
    return (1.0 - share) * wrong + share * mend_first(mender, wrong, settings)
