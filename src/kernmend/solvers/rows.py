"""Many small minimisations at once: one per row, each with its own quasi-Newton memory and step."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

# Number of pairs that are kept for each row.
PAIRS = 8
# Least decrease of the value, as a share of what the gradient promises, for which a step is taken (Armijo's rule).
_ARMIJO = 1e-4
# Number of times that a step is halved before the row goes straight down the gradient, or gives up if it did already.
_MAX_HALVINGS = 25
# Number of iterations in a row that must fall by less than the tolerance for the row to be done: one short step, on a
# plateau or after a halving, does not show that it has arrived, and where it occurs is a matter of rounding.
_PATIENCE = 2
# Fall that the next step promises, in tolerances, below which a row is done without it. The objective is then above its
# minimum by a hundredth of the tolerance; filling in missing entries takes a fifth fewer evaluations (`missing`).
_PROMISE = 0.1
# How old the pair in each place is, by the place of the newest; which pairs there are, by that and their number; and
# which pairs of them come not before each.
_AGES = (np.arange(PAIRS)[:, np.newaxis] - np.arange(PAIRS)) % PAIRS
_THERE = (_AGES[:, np.newaxis] < np.arange(PAIRS + 1)[:, np.newaxis]).astype(np.float64)
_AFTER = (
    _THERE[..., np.newaxis]
    * _THERE[..., np.newaxis, :]
    * (_AGES[:, :, np.newaxis] >= _AGES[:, np.newaxis])[:, np.newaxis]
)
# Number of features up to which the pairs of many rows are copied and multiplied at once: a loop over rows costs more.
_SMALL = 64
# Squared length of a gradient up to which it counts as 0.
_NO_GRADIENT = 1e-300

Index: TypeAlias = NDArray[np.intp]
Some: TypeAlias = NDArray[np.bool_] | slice
"""Which rows of a batch."""

RowFunction: TypeAlias = Callable[[Array, Index], tuple[Array, Callable[[Some], Array]]]
"""From some rows and their numbers to the value of each, and a function for the gradient of some of these."""


def minimise_rows(
    function: RowFunction,
    A: Array,
    *,
    scale: float | Array = 1.0,
    bounds: tuple[Array, Array] | None = None,
    free: NDArray[np.bool_] | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
) -> tuple[Array, list[float], bool]:
    """Minimise function(a_i) over each row by L-BFGS, from the rows of `A`.

    Return the rows, the sum of their values at the start and after each iteration, and whether all converged.

    SciPy's L-BFGS would share one step length between all rows, so that the result of a row would depend on which
    others are in the batch. Here the rows share nothing but the matrix products: each time all that are not done try a
    step, some their next one, others a shorter one than the last. Gradients are asked for only where a step is taken.
    No row's value ever rises. `bounds` are (low, high) per feature, `free` marks the entries that may move, `scale` is
    the length of the first step, one number or one for each row.
    """
    A = A.astype(np.float64)
    box = _Box(bounds, free)
    A = box.enter(A, np.arange(A.shape[0]))
    rows = _Rows(A, function, box, np.broadcast_to(np.reshape(scale, (-1, 1)), (A.shape[0], 1)))
    active = np.flatnonzero(rows.slopes(np.arange(A.shape[0])))
    trace: list[Array] = [rows.f.copy()]
    begun = active
    while max_iter:
        rows.begin(begun, tol)
        active = active[~rows.arrived[active]]
        if not active.size:
            break
        before = rows.f[active]
        taken = rows.try_step(active)
        ended = taken | rows.given_up(active, tol)
        rows.count[active[ended]] += 1
        _note(trace, rows, active[ended])
        fallen = before - rows.f[active] > tol * np.maximum(np.abs(rows.f[active]), 1e-300)
        rows.short[active] = np.where(fallen, 0, rows.short[active] + taken)
        goes_on = taken & (rows.short[active] < _PATIENCE) & rows.slopes(active)
        stopped = goes_on & (rows.count[active] >= max_iter)
        rows.out_of_budget |= bool(stopped.any())
        begun, active = active[goes_on & ~stopped], active[~ended | (goes_on & ~stopped)]
    return rows.a, _sums(trace), not (rows.out_of_budget or active.size)


@dataclass(frozen=True)
class _Box:
    """Where rows may go: within bounds, and only in free entries."""

    bounds: tuple[Array, Array] | None
    free: NDArray[np.bool_] | None

    @property
    def stops(self) -> bool:
        """Whether there are entries that may not move: fixed ones, or those at a bound."""
        return self.bounds is not None or self.free is not None

    def enter(self, a: Array, rows: Index) -> Array:
        """Return the rows with free entries moved within the bounds."""
        if self.bounds is None:
            return a
        inside: Array = np.clip(a, *self.bounds)
        return inside if self.free is None else np.where(self.free[rows], inside, a)

    def mask(self, g: Array, a: Array, rows: Index) -> Array:
        """Return the gradient without the parts that may not be followed: fixed entries, and outwards at a bound."""
        if self.free is not None:
            g = np.where(self.free[rows], g, 0.0)
        if self.bounds is not None:
            g = np.where(((a <= self.bounds[0]) & (g > 0)) | ((a >= self.bounds[1]) & (g < 0)), 0.0, g)
        return g


class _Rows:
    """All rows: point `a`, value `f`, gradient `g`, direction and share `step` of it, halvings, iterations done.

    `promised` is what the step tried last would fall by if the value were linear. `straight` marks the rows whose
    direction is that of the gradient, `arrived` those that are done, `short` has the number of iterations, up to now,
    that fell by less than the tolerance.
    """

    def __init__(self, A: Array, function: RowFunction, box: _Box, scale: Array) -> None:
        n = A.shape[0]
        f, gradient = function(A, np.arange(n))
        self.function, self.box, self.scale, self.memory = function, box, scale, Memory(A.shape)
        self.a, self.f = A, f.astype(np.float64)
        self.g = box.mask(gradient(slice(None)).astype(np.float64, copy=False), A, np.arange(n))
        self.direction, self.step, self.promised = np.zeros_like(A), np.ones(n), np.zeros(n)
        self.halvings, self.count, self.short = (np.zeros(n, dtype=np.intp) for _ in range(3))
        self.straight, self.arrived = (np.zeros(n, dtype=bool) for _ in range(2))
        self.out_of_budget = False

    def begin(self, rows: Index, tol: float) -> None:
        """Set the direction of the next step of some rows. Those have arrived whose next step promises no fall.

        Along d = -H g, with H near the inverse Hessian, the value falls by about -g'd / 2.
        """
        at = _where(rows, len(self.a))
        g = self.g[at]
        direction = self.memory.apply(g, rows, self.scale[at])
        np.negative(direction, out=direction)
        if self.box.stops:
            direction[g == 0.0] = 0.0
        self.direction[at], self.step[at], self.halvings[at], self.straight[at] = direction, 1.0, 0, False
        slope = np.einsum("ij,ij->i", direction, g)
        uphill = slope >= 0
        if uphill.any():
            self._go_straight(rows[uphill])
        self.arrived[at] = (slope > -2.0 * _PROMISE * tol * np.abs(self.f[at])) & (self.memory.kept[at] > 0)

    def slopes(self, rows: Index) -> NDArray[np.bool_]:
        """Return which rows have a gradient."""
        g = self.g[_where(rows, len(self.a))]
        out: NDArray[np.bool_] = np.einsum("ij,ij->i", g, g) > _NO_GRADIENT
        return out

    def _go_straight(self, rows: Index) -> None:
        """Discard the memory of some rows and set their direction to the negative gradient."""
        g = self.g[rows]
        self.direction[rows] = -g * (self.scale[rows] / np.linalg.norm(g, axis=1, keepdims=True))
        self.step[rows], self.halvings[rows], self.straight[rows] = 1.0, 0, True
        self.memory.forget(rows)

    def try_step(self, rows: Index) -> NDArray[np.bool_]:
        """Try a step; return which rows took it because their value falls enough. The others' steps are halved."""
        at = _where(rows, len(self.a))
        a, f, g = self.a[at], self.f[at], self.g[at]
        moved = self.step[at][:, np.newaxis] * self.direction[at]
        trial = self.box.enter(a + moved, rows)
        if self.box.bounds is not None:
            moved = trial - a
        value, gradient = self.function(trial, rows)
        expected = np.einsum("ij,ij->i", g, moved)
        good: NDArray[np.bool_] = np.isfinite(value) & (value <= f + _ARMIJO * np.minimum(expected, 0.0)) & (value < f)
        if good.any():
            some: Some = slice(None) if good.all() else good  # without copies where all take it
            done = rows[some]
            new_g = self.box.mask(gradient(some), trial[some], done)
            self.memory.store(done, moved[some], new_g - g[some], new_g)
            at = _where(done, len(self.a))
            self.a[at], self.f[at], self.g[at] = trial[some], value[some], new_g
        bad = rows[~good]
        self.step[bad] *= 0.5
        self.halvings[bad] += 1
        self.promised[bad] = -expected[~good]
        return good

    def given_up(self, rows: Index, tol: float) -> NDArray[np.bool_]:
        """Return which rows have halved their step too often, even straight down; send the others straight down.

        Too often is also where a shorter step promises less than the tolerance: at the bottom of a valley no step
        falls, and to halve it further would not show more.
        """
        halvings = self.halvings[rows]
        small = (halvings > 0) & (self.promised[rows] < tol * np.abs(self.f[rows]))
        short = small | (halvings >= _MAX_HALVINGS)
        ended: NDArray[np.bool_] = short & self.straight[rows]
        if np.any(short & ~ended):
            self._go_straight(rows[short & ~ended])
        return ended


def _where(rows: Index, n: int) -> Index | slice:
    """Return what selects these of n rows, ascending: without a copy if they are all."""
    return slice(None) if rows.size == n else rows


def _note(trace: list[Array], rows: _Rows, ended: Index) -> None:
    """Append to the trace the values of rows that have ended an iteration; rows may be ahead of others."""
    if not ended.size:
        return
    counts = rows.count[ended]
    first, last = int(counts.min()), int(counts.max())
    while len(trace) <= last:
        trace.append(np.full_like(rows.f, np.nan))
    for number in range(first, last + 1):
        some = ended if first == last else ended[counts == number]
        trace[number][some] = rows.f[some]


def _sums(trace: list[Array]) -> list[float]:
    """Return the sums of the values; a row that has no more iterations keeps its last one."""
    for before, after in pairwise(trace):
        np.copyto(after, before, where=np.isnan(after))
    return [float(values.sum()) for values in trace]


# --- the quasi-Newton memory ------------------------------------------------------------------------------------------


class Memory:
    """The last few pairs (s, y), step and change of gradient, of every row, and their inner products.

    The two-loop recursion is carried out on coefficients: every vector in it is a combination of the pairs and of the
    gradient, so that all it takes are their inner products, and each loop is a triangular system in them.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        n, d = shape
        self.pairs = np.zeros((n, 2 * PAIRS, d))  # Of each row first the s, then the y; the oldest is overwritten.
        self.views = list(self.pairs)
        self.is_small = d <= _SMALL
        # s_i'y_j, of pairs i that are not newer than j, and y_i'y_j
        self.sy, self.yy = np.zeros((n, PAIRS, PAIRS)), np.zeros((n, PAIRS, PAIRS))
        self.with_g = np.zeros((n, 2 * PAIRS))
        self.length = np.ones((n, 1))  # s'y / y'y of the newest pair
        self.kept = np.zeros(n, dtype=np.intp)
        self.newest = np.full(n, -1, dtype=np.intp)

    def store(self, rows: NDArray[np.intp], s: Array, y: Array, g: Array) -> None:
        """Keep a pair, unless it has no positive curvature, and the products of all pairs with the gradient `g`."""
        sy, yy = np.einsum("ij,ij->i", s, y), np.einsum("ij,ij->i", y, y)
        curved = sy > 1e-12 * np.sqrt(np.einsum("ij,ij->i", s, s)) * np.sqrt(yy)
        some: Some = slice(None) if curved.all() else curved  # without copies where all are kept
        new, sy, yy = rows[some], sy[some], yy[some]
        place = (self.newest[new] + 1) % PAIRS
        self.newest[new], self.kept[new] = place, np.minimum(self.kept[new] + 1, PAIRS)
        self.pairs[new, place], self.pairs[new, PAIRS + place] = s[some], y[some]
        self.length[new, 0] = sy / yy
        before, after = self.with_g[new], np.empty((rows.size, 2 * PAIRS))
        if self._at_once(rows):
            np.matmul(self._of(rows), g[:, :, np.newaxis], out=after[:, :, np.newaxis])
        else:
            for i, row in enumerate(rows.tolist()):  # One by one, so that the pairs are not copied.
                self.views[row].dot(g[i], after[i])
        self.with_g[rows] = after
        with_y = after[some] - before  # Since y is the change of g; not valid for the new pair itself.
        self.sy[new, :, place] = with_y[:, :PAIRS]
        self.yy[new, :, place] = self.yy[new, place, :] = with_y[:, PAIRS:]
        self.sy[new, place, place], self.yy[new, place, place] = sy, yy

    def _at_once(self, rows: NDArray[np.intp]) -> bool:
        """Return whether products with the pairs of some rows are one call: those are all, or small enough to copy."""
        return self.is_small or rows.size == len(self.pairs)

    def _of(self, rows: NDArray[np.intp]) -> Array:
        """Return the pairs of some rows; without a copy if that is all of them."""
        return self.pairs if rows.size == len(self.pairs) else self.pairs[rows]

    def forget(self, rows: NDArray[np.intp]) -> None:
        """Throw away what is known of some rows."""
        self.kept[rows] = 0

    def apply(self, g: Array, rows: NDArray[np.intp], scale: Array) -> Array:
        """Return the inverse Hessian times `g`, the gradient last stored; without pairs, `g` of the length `scale`."""
        length, weights = np.zeros((rows.size, 1)), np.zeros((rows.size, 2 * PAIRS))
        known = self.kept[rows] > 0
        if known.any():
            length[known], weights[known] = self._coefficients(rows[known])
        if not known.all():
            norm = np.sqrt(np.einsum("ij,ij->i", g[~known], g[~known]))[:, np.newaxis]
            length[~known] = scale[~known] / np.maximum(norm, 1e-300)
        out: Array = g * length
        if self._at_once(rows):
            out += np.matmul(weights[:, np.newaxis], self._of(rows))[:, 0]
            return out
        for direction, row, weight in zip(out, rows.tolist(), weights, strict=True):
            direction += weight.dot(self.views[row])
        return out

    def _coefficients(self, rows: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the two-loop recursion's result as a multiple of the gradient plus a combination of the pairs."""
        there, after = (table[self.newest[rows], self.kept[rows]] for table in (_THERE, _AFTER))
        T = self.sy[rows] * after  # s_i'y_j for j not older than i
        diagonals = T.reshape(rows.size, -1)[:, :: PAIRS + 1]
        diagonal = diagonals.copy()
        diagonals += 1.0 - there
        with_g, length = self.with_g[rows], self.length[rows]
        inverse = np.linalg.inv(T)
        alpha = _times(inverse, with_g[:, :PAIRS] * there)  # q = g - sum alpha_j y_j
        left = diagonal * alpha - length * (with_g[:, PAIRS:] - _times(self.yy[rows], alpha)) * there
        change = _times(inverse.transpose(0, 2, 1), left)
        return length, np.hstack([change, -length * alpha])  # of length q + sum change_j s_j


def _times(T: Array, b: Array) -> Array:
    """Return T b for each row."""
    out: Array = np.matmul(T, b[:, :, np.newaxis])[:, :, 0]
    return out
