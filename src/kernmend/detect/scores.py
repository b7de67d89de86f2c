"""Scores of rows: how far each is from the span of the others in a kernel space, or from what they predict of it.

With K the Gram matrix of the rows L and P = (K + eps I)^-1, there are three kinds of score. All are logarithms, all are
leave-one-out (the row itself has no part in what it is compared with), and all come from one eigendecomposition of K,
class `KernelSpan`:

- "span": log(-log(1 - r)), where r = 1 / P_ii - eps is the squared distance of phi(x_i) from the span of the others.
  For small r this is log r, and it has no upper limit at r = 1.
- "all": the logarithm of the mean square of the error e_i = (P X)_i / P_ii, that of predicting the row from the others,
  with each entry in units of the errors of its column, in all rows and in the nearest ones (`Measure`): some rows are
  harder to predict than others, and their neighbours show it.
- "worst": the same error, but the mean square of its largest twentieth of the entries only.

Nobody knows which rows are wrong, so rows with known errors are injected: copies of rows with some entries taken from
other rows. `choose_score` keeps the kind, kernel width and ridge eps under which these rank highest.

The docstring of the package says what the constants were chosen on.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kernmend._typing import Array
from kernmend.detect.columns import CLIP
from kernmend.linalg.distances import lexicographic, median_squared_distance, squared_distances
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.kernels import RBF

Kind = Literal["span", "all", "worst"]

KINDS: tuple[Kind, ...] = ("span", "all", "worst")
# Kernel widths to choose from: gamma times the median squared distance of two rows.
WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Ridges eps to choose from, in units of k(x, x) = 1.
RIDGES = (1e-6, 1e-4, 1e-2)
# Share of the entries of a row that the score "worst" is the mean of.
WORST = 0.05
# Number of nearest rows. The standard error of the median of 12 scores is a third of their spread.
NEAREST = 12
# Least number of columns for the scores "all" and "worst". With fewer, errors cannot be larger than the range of the
# data ("new rows", swiss roll: none was found).
MANY_COLUMNS = 16
# Largest number of rows that others are compared with, for the time of the eigendecompositions.
LANDMARKS = 800
# Number of injected rows. The standard error of their mean rank is 0.01.
INJECTED = 300
# Largest rank of an injected row that counts, as a share of the rows: the rows above may be wrong themselves.
RANK_CAP = 0.8
# Difference of the mean ranks of injected rows up to which two scores rank them equally well: a fifth of the standard
# error.
TIE = 0.002
# Least effect of a wrong row, in distances between the rows around it: others cannot tell smaller errors from their own
# spacing. With 0.15 three times as many good rows at the edge of a cloud of exact rank are flagged
# (test_the_edge_of_a_flat_cloud), and 5 % in place of 2 % of clean rows with heavy tails ("clean" 6).
EFFECT = 0.6
# Distance from all good rows, in the same unit, from which on a row has the effect of a wrong one in any case: under a
# wide kernel effects are much smaller than distances (test_new_rows_inside_and_outside_a_circle).
FAR = 10.0
# Standard errors by which another score must rank injected rows higher than "span", which sees every kind of error.
STANDARD_ERRORS = 2.0
# Distance of r from 0 and 1 that rounding does not reach.
ROUNDING = 1e-14


@dataclass(frozen=True)
class KernelSpan:
    """The span of the rows L in the kernel space, from one eigendecomposition of their Gram matrix.

    `s` and `U` are its eigenvalues and eigenvectors, `centre` is the mean of the rows, and `UL` is U' (L - centre).
    """

    L: Array
    kernel: RBF
    s: Array
    U: Array
    centre: Array
    UL: Array

    @classmethod
    def of(cls, L: Array, kernel: RBF) -> "KernelSpan":
        """Return the span of the rows `L`."""
        return cls.from_gram(L, kernel, kernel.gram(L))

    @classmethod
    def from_gram(cls, L: Array, kernel: RBF, K: Array) -> "KernelSpan":
        """Return the span of the rows `L`, whose Gram matrix is `K`."""
        s, U = eigenpairs(K)
        centre = L.mean(axis=0)
        return cls(L, kernel, np.maximum(s, 0.0), U, centre, U.T @ (L - centre))

    def against(self, L: Array) -> "KernelSpan":
        """Return the span of other rows under the same kernel."""
        return KernelSpan.of(L, self.kernel)

    def leave_one_out(self, eps: float) -> tuple[Array, Array]:
        """Return r of each row of L and its errors of prediction, one row each, against the other rows of L."""
        weight = 1.0 / (self.s + eps)
        inside = np.square(self.U) @ weight
        return 1.0 / inside - eps, self._times(self.U * (weight / inside[:, np.newaxis]))

    def project(self, Y: Array) -> Array:
        """Return k(Y, L) U, which `new_rows` needs for every eps."""
        out: Array = self.kernel.gram(Y, self.L) @ self.U
        return out

    def new_rows(
        self, Y: Array, projected: Array, eps: float, left_out: NDArray[np.intp] | None = None
    ) -> tuple[Array, Array]:
        """Return r of each row of Y and its errors of prediction, against the rows of L.

        `projected` is `project(Y)`. `left_out` has for each row of Y the number of a row of L that is left out.
        """
        weight = 1.0 / (self.s + eps)
        r = 1.0 - np.square(projected) @ weight
        if left_out is not None:
            U = self.U[left_out]
            both = (projected * U) @ weight
            share = both / (np.square(U) @ weight)
            r += share * both
            projected = projected - share[:, np.newaxis] * U
        errors = Y - self.centre
        errors -= self._times(projected * weight)
        return r, errors

    def _times(self, A: Array) -> Array:
        """Return A UL, in the precision of UL."""
        out: Array = A.astype(self.UL.dtype, copy=False) @ self.UL
        return out


def error_units(errors: Array) -> Array:
    """Return the unit of the errors of each column: the robust size of its own, and that of all columns, combined."""
    ordered = np.sort(np.abs(errors), axis=0)
    own = 0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2])
    together = float(np.mean(np.square(own)))
    out: Array = np.sqrt(np.square(1.4826 * own) + together + np.finfo(np.float64).tiny)
    return out


def log_score(kind: Kind, r: Array, errors: Array, units: Array) -> Array:
    """Return the score of each row, of the given kind, from its r or from its errors.

    `units` are those of the columns, or of every entry.
    """
    if kind == "span":
        span: Array = np.log(-np.log1p(-np.clip(r, ROUNDING, 1.0 - ROUNDING)))
        return span
    return log_mean(kind, np.square(errors / units))


def log_mean(kind: Kind, squares: Array) -> Array:
    """Return the logarithm of the mean of the squares of each row that count in a score of this kind.

    For "worst" the order of the `squares` within a row is changed.
    """
    if kind == "worst":
        count = max(1, round(WORST * squares.shape[1]))
        squares.partition(squares.shape[1] - count, axis=1)
        squares = squares[:, -count:]
    out: Array = np.log(np.maximum(squares.mean(axis=1), 1e-30))
    return out


def effects(r: Array, errors: Array, gamma: float) -> Array:
    """Return how far each row is from what the others know of it, in units of the data.

    It is the root of |e|^2 + r / gamma: the error of prediction, and the distance from the span, since
    k(x, y) = 1 - gamma |x - y|^2 under a wide kernel. Errors alone would not do: a row at the centre has none, being
    predicted by rows that know nothing of it.
    """
    out: Array = np.sqrt(np.square(errors).sum(axis=1) + np.maximum(r, 0.0) / gamma)
    return out


def nearest_rows(distances: Array, left_out: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """Return the numbers of the `NEAREST` smallest columns of each row of distances, without the one left out.

    `distances` is overwritten.
    """
    if left_out is not None:
        distances[np.arange(len(distances)), left_out] = np.inf
    out: NDArray[np.intp] = np.argpartition(distances, NEAREST - 1, axis=1)[:, :NEAREST]
    return out


def nearest_distances(L: Array) -> Array:
    """Return the distance of each row from the nearest other one; 0 for a single row."""
    if len(L) < 2:
        return np.zeros(len(L))
    distances = squared_distances(L, L)
    np.fill_diagonal(distances, np.inf)
    out: Array = np.sqrt(distances.min(axis=1))
    return out


def landmarks(Y: Array, rows: NDArray[np.intp], most: int = LANDMARKS) -> NDArray[np.intp]:
    """Return at most `most` of the row numbers `rows`; the choice does not depend on the order of the data."""
    rows = rows[lexicographic(Y[rows])]
    if rows.size <= most:
        return rows
    out: NDArray[np.intp] = rows[np.linspace(0, rows.size - 1, most).astype(np.intp)]
    return out


@dataclass(frozen=True)
class Measure:
    """The score and the effect of rows against the rows of a span.

    `kind`, `eps` and `units`, those of the errors of each column, make the score. The unit of the error of an entry is
    the root of the squared unit of its column plus the mean square of the errors of the `NEAREST` rows there, each
    clipped at `CLIP` units. `spacing` has the distance of each row of the span from the nearest other one. A wrong
    row has an effect (`effects`) of at least `EFFECT` times the median spacing of the `NEAREST` rows.
    """

    kind: Kind
    eps: float
    span: KernelSpan
    units: Array
    spacing: Array

    @classmethod
    def of(cls, kind: Kind, eps: float, span: KernelSpan) -> "Measure":
        """Return the measure with the units of the rows of `span`."""
        own = span.leave_one_out(eps)
        out = cls(kind, eps, span, error_units(own[1]), nearest_distances(span.L))
        out.__dict__["_own"] = own
        return out

    def against(self, L: Array) -> "Measure":
        """Return the measure against other rows, in the same units."""
        return replace(self, span=self.span.against(L), spacing=nearest_distances(L))

    def scores_of_span(self) -> Array:
        """Return the score of each row of the span, leave-one-out."""
        own, units = self._own, self._entry_units(self.span.L, np.arange(len(self.span.L)))
        self.__dict__.pop("_own")  # as large as the rows, and no longer needed
        return log_score(self.kind, *own, units)

    def scores(self, Y: Array, projected: Array, left_out: NDArray[np.intp] | None = None) -> Array:
        """Return the score of each row of Y; `projected` and `left_out` are those of `KernelSpan.new_rows`."""
        found = self.span.new_rows(Y, projected, self.eps, left_out)
        return log_score(self.kind, *found, self._entry_units(Y, left_out))

    def _entry_units(self, Y: Array, left_out: NDArray[np.intp] | None) -> Array:
        """Return the unit of the error of each entry of Y; those of the columns where these are not needed."""
        L = self.span.L
        if self.kind == "span" or len(L) <= NEAREST:
            return self.units
        nearest = nearest_rows(squared_distances(Y, L), left_out)
        starts = np.arange(0, nearest.size + 1, NEAREST)
        mean = csr_array((np.full(nearest.size, 1.0 / NEAREST), nearest.ravel(), starts), shape=(len(Y), len(L)))
        out: Array = np.sqrt(np.square(self.units) + mean @ self._near_squares)
        return out

    @cached_property
    def _own(self) -> tuple[Array, Array]:
        """What `KernelSpan.leave_one_out` returns of the rows of the span."""
        return self.span.leave_one_out(self.eps)

    @cached_property
    def _near_squares(self) -> Array:
        """The squared errors of the rows of the span, clipped, which are the units of the rows near them."""
        errors = self._own[1]
        out: Array = np.square(np.clip(errors / self.units, -CLIP, CLIP) * self.units)
        return out

    def visible(self, Y: Array, projected: Array) -> NDArray[np.bool_]:
        """Return which rows of Y have the effect of a wrong row; `projected` is that of `KernelSpan.new_rows`.

        Effects are those under the least ridge, since r is never far below eps.
        """
        L, effect = self.span.L, effects(*self.span.new_rows(Y, projected, RIDGES[0]), self.span.kernel.gamma)
        if not len(Y) or len(L) <= NEAREST:
            return np.asarray(effect >= EFFECT * np.median(self.spacing))
        distances = squared_distances(Y, L)
        distance = np.sqrt(distances.min(axis=1))
        spacing = np.median(self.spacing[nearest_rows(distances, None)], axis=1)
        return np.asarray((effect >= EFFECT * spacing) | (distance >= FAR * spacing))


class Choice(NamedTuple):
    """A kind of score with its kernel and ridge, and how it did on injected rows.

    `ranks` are the capped ranks of the injected rows, `power` is their mean, and `separation` the median score of the
    injected rows above that of the rows, in spreads of the lower half of these (which wrong rows do not reach).
    """

    kind: Kind
    kernel: RBF
    eps: float
    ranks: Array
    power: float
    separation: float


def inject(L: Array, count: int = INJECTED) -> tuple[Array, NDArray[np.intp]]:
    """Return injected rows, and the number of the row of L that each was made from.

    Some entries of each, a random share of them, are taken from other rows. The random numbers are always the same.
    """
    rng, (n, d) = np.random.default_rng(0), L.shape
    source = rng.integers(0, n, count)
    mixed = L[rng.integers(0, n, (count, d)), np.arange(d)]
    out = np.where(rng.uniform(size=(count, d)) < rng.uniform(size=(count, 1)), mixed, L[source])
    return np.where((out == L[source]).all(axis=1, keepdims=True), mixed, out), source


def choose_score(L: Array) -> Choice:
    """Return the score that ranks injected rows highest; "span" unless another kind is clearly better.

    Of the widths and ridges that do as well as the best one of its kind, the one with the largest separation is chosen:
    where all injected rows rank above all others, ranks say nothing more.
    """
    median = median_squared_distance(L) or 1.0
    injected, source = inject(L)
    distances, to_injected = squared_distances(L), squared_distances(injected, L)
    L, injected = L / np.sqrt(median), injected / np.sqrt(median)  # of a size that single precision holds
    tried: dict[Kind, list[Choice]] = {kind: [] for kind in (KINDS if L.shape[1] >= MANY_COLUMNS else KINDS[:1])}
    for width in WIDTHS:
        kernel = RBF(width / median)
        span = KernelSpan.from_gram(L, kernel, kernel.profile(distances.copy()))
        span = replace(span, UL=span.UL.astype(np.float32))  # ranks need no more
        projected = kernel.profile(to_injected.copy()) @ span.U
        for eps in RIDGES:
            r, errors = span.leave_one_out(eps)
            units = error_units(errors)
            new_r, new_errors = span.new_rows(injected, projected, eps, source)
            if len(tried) > 1:
                errors, new_errors = np.square(errors / units), np.square(new_errors / units)
            for kind, choices in tried.items():  # "worst" is the last one: it changes the order of the squares
                if kind == "span":
                    scores, of_injected = log_score(kind, r, errors, units), log_score(kind, new_r, new_errors, units)
                else:
                    scores, of_injected = log_mean(kind, errors), log_mean(kind, new_errors)
                scores.sort()
                rank = np.minimum(ranks(scores, of_injected), RANK_CAP)
                low, middle = (sorted_quantile(scores, at) for at in (0.1587, 0.5))
                separation = (float(np.median(of_injected)) - middle) / max(middle - low, ROUNDING)
                choices.append(Choice(kind, span.kernel, eps, rank, float(rank.mean()), separation))
    highest = {kind: max(choices, key=lambda choice: choice.power) for kind, choices in tried.items()}
    best = max(highest.values(), key=lambda choice: choice.power)
    best = best if clearly_positive(best.ranks - highest["span"].ranks) else highest["span"]
    equal = [choice for choice in tried[best.kind] if choice.power >= best.power - TIE]
    return max(equal, key=lambda choice: choice.separation)


def clearly_positive(differences: Array) -> bool:
    """Return whether the mean of paired differences is above 0 by more than `STANDARD_ERRORS`."""
    return float(differences.mean()) > STANDARD_ERRORS * float(differences.std() / np.sqrt(differences.size))


def ranks(scores: Array, injected: Array) -> Array:
    """Return for each score of an injected row the share of the other scores, which are sorted, that it exceeds."""
    out: Array = np.searchsorted(scores, injected) / scores.size
    return out


def sorted_quantile(values: Array, at: float) -> float:
    """Return the quantile `at` of sorted values as `np.quantile` defines it, which is slow for few values.

    >>> sorted_quantile(np.array([1.0, 2.0, 4.0]), 0.75)
    3.0
    """
    position = at * (values.size - 1)
    below = int(position)
    return float(values[below] + (position - below) * (values[min(below + 1, values.size - 1)] - values[below]))
