"""Wrong rows: how far each is from what the other rows span in a kernel space, or from what they say of it.

With P = (K + eps I)^-1, K the Gram matrix of the rows, three scores, all leave-one-out and in logarithms:
- "span": log(-log(1 - r)), r = 1 / P_ii - eps the squared distance of phi(x_i) from the span of the others; this is
  log r for small r and does not end at r = 1;
- "all", "worst": e_i = (P X)_i / P_ii is the error of the row's expectation from the others, each column in units of
  its own errors; the mean square of all entries, or of the largest twentieth.
Which score, kernel width and ridge: those under which injected rows (some entries taken from other rows) rank highest.
Where these scores find nothing, each is held against those of the row's neighbours.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect.around import NEAREST, Around, nearest_rows
from kernmend.detect.tails import EVIDENCE, TwoGroups
from kernmend.linalg.distances import median_squared_distance, squared_distances
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.kernels import RBF

Kind = Literal["span", "all", "worst"]

KINDS: tuple[Kind, ...] = ("span", "all", "worst")
WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # gamma times the median squared distance
RIDGES = (1e-6, 1e-4, 1e-2)  # eps
WORST = 0.05  # of the entries
MANY_COLUMNS = 16  # for scores of errors, which end where the data does ("new rows", swiss roll: none found)
STRANGERS = 0.5  # median r above which most rows are strangers to all others: such a kernel is too narrow
INJECTED = 300  # rows; the standard error of their mean rank is 0.01
MOST = 0.8  # share of the rows that they are to exceed: the others may be wrong themselves
TELLS = 0.55  # mean of those ranks: 0.48 is chance, its standard error 0.016; below, no group can be told by a score
BETTER = 2.0  # standard errors by which another score must find them better than "span", which has no blind spot
LOWER = 0.02  # of the rows; wrong ones that a better look puts above injected ones cost these less than that
SURE, LIKELY = 0.9, 0.5  # probability of being wrong: of flagged rows, of suspects
LEAST_SPREAD = 0.8  # of sqrt(2 / d), the spread of log squared lengths of random rows: less is that of a regular grid
GROUP = 0.8  # share of wrong rows among the nearest of a wrong row: they are a group of a wider spread
LANDMARKS = 800  # rows of the reference
ROUNDING = 1e-14  # of r


@dataclass(frozen=True)
class Span:
    """The scores of rows against the rows L, from one eigendecomposition of their Gram matrix."""

    L: Array
    kernel: RBF
    s: Array
    U: Array
    centre: Array
    UL: Array

    @classmethod
    def of(cls, L: Array, kernel: RBF) -> "Span":
        """Decompose the Gram matrix of the rows."""
        s, U = eigenpairs(kernel.gram(L))
        centre = L.mean(axis=0)
        return cls(L, kernel, np.maximum(s, 0.0), U, centre, U.T @ (L - centre))

    def own(self, eps: float) -> tuple[Array, Array]:
        """Return r and the errors of the rows of L, each against the others."""
        weight = 1.0 / (self.s + eps)
        inside = np.square(self.U) @ weight
        return 1.0 / inside - eps, (self.U * weight) @ self.UL / inside[:, np.newaxis]

    def project(self, Y: Array) -> Array:
        """Return k(Y, L) U."""
        out: Array = self.kernel.gram(Y, self.L) @ self.U
        return out

    def new(self, Y: Array, projected: Array, eps: float, place: NDArray[np.intp] | None = None) -> tuple[Array, Array]:
        """Return r and the errors of new rows; with `place`, of rows that stand in the place of these rows of L."""
        weight = 1.0 / (self.s + eps)
        r = 1.0 - np.square(projected) @ weight
        errors = Y - self.centre - (projected * weight) @ self.UL
        if place is not None:
            U = self.U[place]
            both = (projected * U) @ weight
            share = both / (np.square(U) @ weight)
            r += share * both
            errors += share[:, np.newaxis] * ((U * weight) @ self.UL)
        return r, errors


def error_units(errors: Array) -> Array:
    """Return the size of usual errors of each column: its own, and that of all columns together."""
    own = 1.4826 * np.median(np.abs(errors), axis=0)
    together = float(np.mean(np.median(np.square(errors), axis=0)))
    out: Array = np.sqrt(np.square(own) + together + np.finfo(np.float64).tiny)
    return out


def log_score(kind: Kind, r: Array, errors: Array, units: Array) -> Array:
    """Return the score of each row."""
    if kind == "span":
        span: Array = np.log(-np.log1p(-np.clip(r, ROUNDING, 1.0 - ROUNDING)))
        return span
    squares = np.square(errors / units)
    if kind == "worst":
        count = max(1, round(WORST * errors.shape[1]))
        squares = np.partition(squares, -count, axis=1)[:, -count:]
    out: Array = np.log(np.maximum(squares.mean(axis=1), 1e-30))
    return out


class Choice(NamedTuple):
    """A score, how well it finds injected rows (each one's rank, capped), and what it says of them."""

    kind: Kind
    span: Span
    eps: float
    power: float
    ranks: Array
    injected: Array


def inject(L: Array, count: int = INJECTED) -> tuple[Array, NDArray[np.intp]]:
    """Return rows of L some of whose entries are taken from other rows, and in whose place each stands."""
    rng, (n, d) = np.random.default_rng(0), L.shape
    place = rng.integers(0, n, count)
    mixed = L[rng.integers(0, n, (count, d)), np.arange(d)]
    out = np.where(rng.uniform(size=(count, d)) < rng.uniform(size=(count, 1)), mixed, L[place])
    return np.where((out == L[place]).all(axis=1, keepdims=True), mixed, out), place


def choose_score(L: Array) -> Choice:
    """Return the score that finds injected rows best; "span" unless another is clearly better."""
    median = median_squared_distance(L) or 1.0
    injected, place = inject(L)
    best: dict[Kind, Choice] = {}
    for width in WIDTHS:
        span = Span.of(L, RBF(width / median))
        projected = span.project(injected)
        for eps in RIDGES:
            r, errors = span.own(eps)
            units = error_units(errors)
            new_r, new_errors = span.new(injected, projected, eps, place)
            narrow = float(np.median(r)) > STRANGERS
            for kind in KINDS if L.shape[1] >= MANY_COLUMNS else KINDS[:1]:
                own = log_score(kind, r, errors, units)
                got = log_score(kind, new_r, new_errors, units)
                rank = ranks(own, got)
                capped = np.minimum(rank, MOST)
                power = float(capped.mean() + 0.01 * rank.mean())
                if kind not in best or (power > best[kind].power and not (kind == "span" and narrow)):
                    best[kind] = Choice(kind, span, eps, power, capped, got)
    first = max(best.values(), key=lambda choice: choice.power)
    return first if clearly(first.ranks - best["span"].ranks) else best["span"]


def clearly(more: Array) -> bool:
    """Whether the mean of paired differences is above 0 by more than chance."""
    return float(more.mean()) > BETTER * float(more.std() / np.sqrt(more.size))


def ranks(scores: Array, injected: Array) -> Array:
    """Return the share of the scores that each injected one exceeds."""
    out: Array = np.searchsorted(np.sort(scores), injected) / scores.size
    return out


@dataclass(frozen=True)
class Look:
    """Scores of rows and of injected ones, as they are or held against those of neighbours, and their two groups."""

    around: Around | None
    scores: Array
    injected: Array
    groups: TwoGroups

    def finds(self, cap: float) -> bool:
        """Whether a row is wrong: it belongs to the second group, or its u is beyond the largest line."""
        return bool(((self.scores > self.groups.threshold(SURE)) | (self.groups.u(self.scores) > cap)).any())

    def sees_more(self, other: "Look", line: float) -> bool:
        """Whether more injected rows are beyond a line in u than by another look."""
        here, there = (look.groups.u(look.injected) > line for look in (self, other))
        return clearly(here.astype(np.float64) - there)

    def ranks_lower(self, other: "Look") -> bool:
        """Whether injected rows rank lower than by another look."""
        here, there = (float(ranks(look.scores, look.injected).mean()) for look in (self, other))
        return there - here > LOWER


@dataclass(frozen=True)
class RowDetector:
    """Scores rows against good ones; `line` and `suspect_line` are the u beyond which a row is wrong or a suspect.

    `plain` is the distribution of the scores as they are, `groups` that of the look that was taken.
    """

    kind: Kind
    eps: float
    span: Span
    units: Array
    plain: TwoGroups
    around: Around | None
    groups: TwoGroups
    cap: float
    line: float
    suspect_line: float

    @classmethod
    def fit(
        cls, Y: Array, cap: float, good: NDArray[np.bool_], evidence: float = EVIDENCE
    ) -> tuple["RowDetector", Array]:
        """Return the detector and u of each row.

        `cap` is the largest line, `evidence` what a group of wrong rows must add to the log-likelihood; rows known to
        be good stay in any case.
        """
        every = landmarks(Y, np.arange(len(Y)))
        choice = choose_score(Y[every])
        span, (r, errors) = choice.span, choice.span.own(choice.eps)
        units = error_units(errors)
        scores = np.empty(len(Y))
        if every.size < len(Y):
            scores[:] = log_score(choice.kind, *span.new(Y, span.project(Y), choice.eps), units)
        scores[every] = log_score(choice.kind, r, errors, units)
        plain, look = best_look(Y, every, scores, choice, cap, evidence)
        groups = look.groups
        line, suspect = (min(float(groups.u(np.array([groups.threshold(p)]))[0]), cap) for p in (SURE, LIKELY))
        suspect = min(line, suspect, float(np.log(len(Y))))
        u = _joined(plain.groups.u(plain.scores), groups.u(look.scores), line, cap)
        reference = landmarks(Y, np.flatnonzero((u <= line) | good))
        if not np.array_equal(reference, every):
            span = Span.of(Y[reference], span.kernel)
        around = look.around and look.around.against(span.L, log_score(choice.kind, *span.own(choice.eps), units))
        return cls(choice.kind, choice.eps, span, units, plain.groups, around, groups, cap, line, suspect), u

    def against(self, Y: Array) -> "RowDetector":
        """Return one that holds rows against other good rows: what is typical is seen from these, the line stays."""
        span = Span.of(Y[landmarks(Y, np.arange(len(Y)))], self.span.kernel)
        r, errors = span.own(self.eps)
        units = error_units(errors)
        scores = log_score(self.kind, r, errors, units)
        plain = groups = _moved(self.plain if self.around else self.groups, scores, least_spread(Y))
        around = self.around and self.around.against(span.L, scores)
        if around is not None:
            left = scores - around.expected(span.L, np.arange(len(scores)))
            groups = _moved(self.groups, left, least_spread(Y))
        return replace(self, span=span, units=units, plain=plain, around=around, groups=groups)

    def u(self, Y: Array) -> Array:
        """Return u of new rows."""
        scores = log_score(self.kind, *self.span.new(Y, self.span.project(Y), self.eps), self.units)
        if self.around is None:
            return self.groups.u(scores)
        return _joined(self.plain.u(scores), self.groups.u(scores - self.around.expected(Y)), self.line, self.cap)


def _joined(plain: Array, near: Array, line: float, cap: float) -> Array:
    """Return u of rows: by the look at neighbours of those that are wrong by it, as they are of all others.

    Rare kinds of rows have neighbours like themselves and are unusual all the same; beyond `cap` they are wrong.
    """
    by_itself = np.where(plain > cap, plain, np.minimum(plain, line))
    return np.where(near > line, np.maximum(near, by_itself), by_itself)


def _moved(groups: TwoGroups, scores: Array, least: float) -> TwoGroups:
    """Return the same distribution with the middle and the spread of other scores."""
    middle, low = np.percentile(scores, [50.0, 15.87])
    return replace(groups, middle=float(middle), unit=max(float(middle - low), least))


def best_look(
    Y: Array, every: NDArray[np.intp], scores: Array, choice: Choice, cap: float, evidence: float
) -> tuple[Look, Look]:
    """Return the scores as they are, and these or, where they find nothing, those held against neighbours.

    Neighbours must show wrong rows by log(n) more evidence, since rows at the edge of a cloud exceed theirs as well;
    where neither finds wrong rows, the look is taken beyond whose line more injected rows are. Where injected rows rank
    lower, neighbours mislead (patches of a photograph, at the edge of the sky).
    """
    L, least, blind = Y[every], least_spread(Y), choice.power < TELLS

    def look(around: Around | None, scores: Array, injected: Array) -> Look:
        needed = evidence + (float(np.log(len(Y))) if around else 0.0)
        groups = TwoGroups.of(scores, injected, least=least, evidence=needed, only_one=blind)
        if _is_group(L, scores[every] > groups.threshold(SURE)):
            groups = TwoGroups.of(scores, least=least, only_one=True)
        return Look(around, scores, injected, groups)

    plain = look(None, scores, choice.injected)
    if plain.finds(cap):
        return plain, plain
    around, (mixed, place) = Around.of(L, scores[every]), inject(L)
    expected = around.expected(Y) if every.size < len(Y) else np.empty(len(Y))
    expected[every] = around.expected(L, np.arange(every.size))
    near = look(around, scores - expected, choice.injected - around.expected(mixed, place))
    better = not near.ranks_lower(plain) and (near.finds(cap) or near.sees_more(plain, cap))
    return plain, near if better else plain


def least_spread(Y: Array) -> float:
    """Return the least spread of scores of rows that are not a regular grid."""
    return LEAST_SPREAD * float(np.sqrt(2.0 / Y.shape[1]))


def _is_group(L: Array, wrong: NDArray[np.bool_]) -> bool:
    """Whether the rows above the line are each other's neighbours: a group of a wider spread, not errors."""
    rows = np.flatnonzero(wrong)
    if rows.size < NEAREST:
        return False
    return float(wrong[nearest_rows(squared_distances(L[rows], L), rows)].mean()) > GROUP


def landmarks(Y: Array, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return at most `LANDMARKS` of the rows, chosen in an order that does not depend on that of the data."""
    rows = rows[np.lexsort(Y[rows].T[::-1])]
    if rows.size <= LANDMARKS:
        return rows
    out: NDArray[np.intp] = rows[np.linspace(0, rows.size - 1, LANDMARKS).astype(np.intp)]
    return out
