"""Many small minimisations at once: one per row, each with its own quasi-Newton memory and step."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

_MEMORY = 8
_ARMIJO = 1e-4
_MAX_HALVINGS = 25
_NO_GRADIENT = 1e-150  # its square is still above 0

RowFunction = Callable[[Array, NDArray[np.intp]], tuple[Array, Array]]
"""From some rows and their numbers to the value of each and the gradient."""


def minimise_rows(
    function: RowFunction,
    A: Array,
    *,
    scale: float = 1.0,
    bounds: tuple[Array, Array] | None = None,
    free: NDArray[np.bool_] | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
) -> tuple[Array, list[float], bool]:
    """Minimise function(a_i) over each row by L-BFGS; give rows, sums, convergence.

    Returned are the rows, the sum of their values at the start and after each iteration, and whether all converged.

    SciPy's L-BFGS would share one step length between all rows, so that the result of a row would depend on which
    others are in the batch. Here the rows share nothing but the matrix products. No row's value ever rises. `bounds`
    are (low, high) per feature, `free` marks the entries that may move, `scale` is the length of the first step.
    """
    A = A.astype(np.float64)
    if bounds is not None:
        moved = np.clip(A, *bounds)
        A = moved if free is None else np.where(free, moved, A)
    n = A.shape[0]
    values, gradient = function(A, np.arange(n))
    gradient = _masked(gradient, A, bounds, free)
    memory = _Memory(A.shape)
    active = np.flatnonzero(np.abs(gradient).max(axis=1, initial=0.0) > _NO_GRADIENT)
    totals = [float(values.sum())]
    for _ in range(max_iter):
        if active.size == 0:
            break
        a, f, g = A[active], values[active], gradient[active]
        direction = -memory.apply(g, active, scale)
        direction[g == 0.0] = 0.0  # held entries, and those that a bound stops
        uphill = np.einsum("ij,ij->i", direction, g) >= 0
        if uphill.any():
            direction[uphill] = -g[uphill] * (scale / np.linalg.norm(g[uphill], axis=1, keepdims=True))
            memory.forget(active[uphill])
        held = None if free is None else ~free[active]
        new_a, new_f, new_g, accepted = _backtrack(function, a, f, g, direction, active, bounds, held)
        failed = np.flatnonzero(~accepted & ~uphill)
        if failed.size:  # once more, straight down
            memory.forget(active[failed])
            down = -g[failed] * (scale / np.linalg.norm(g[failed], axis=1, keepdims=True))
            new_a[failed], new_f[failed], new_g[failed], accepted[failed] = _backtrack(
                function,
                a[failed],
                f[failed],
                g[failed],
                down,
                active[failed],
                bounds,
                None if held is None else held[failed],
            )
        new_g = _masked(new_g, new_a, bounds, None if free is None else free[active])
        memory.store(active, new_a - a, new_g - g)
        A[active], values[active], gradient[active] = new_a, new_f, new_g
        still = accepted & (f - new_f > tol * np.maximum(np.abs(new_f), 1e-300))
        still &= np.abs(new_g).max(axis=1) > _NO_GRADIENT
        active = active[still]
        totals.append(float(values.sum()))
    return A, totals, active.size == 0


def _masked(g: Array, a: Array, bounds: tuple[Array, Array] | None, free: NDArray[np.bool_] | None) -> Array:
    """Return the gradient without the parts that may not be followed: fixed entries, and outwards at a bound."""
    if free is not None:
        g = np.where(free, g, 0.0)
    if bounds is not None:
        g = np.where(((a <= bounds[0]) & (g > 0)) | ((a >= bounds[1]) & (g < 0)), 0.0, g)
    return g


def _backtrack(
    function: RowFunction,
    a: Array,
    f: Array,
    g: Array,
    direction: Array,
    rows: NDArray[np.intp],
    bounds: tuple[Array, Array] | None,
    held: NDArray[np.bool_] | None = None,
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """Halve each row's step until its value has fallen enough; a row where it never does stays where it is."""
    step = np.ones(len(a))
    new_a, new_f, new_g = a.copy(), f.copy(), g.copy()
    todo = np.arange(len(a))
    for _ in range(_MAX_HALVINGS):
        trial = a[todo] + step[todo, np.newaxis] * direction[todo]
        if bounds is not None:
            inside = np.clip(trial, *bounds)
            trial = inside if held is None else np.where(held[todo], trial, inside)
        value, gradient = function(trial, rows[todo])
        expected = np.einsum("ij,ij->i", g[todo], trial - a[todo])
        good = np.isfinite(value) & (value <= f[todo] + _ARMIJO * np.minimum(expected, 0.0)) & (value < f[todo])
        done = todo[good]
        new_a[done], new_f[done], new_g[done] = trial[good], value[good], gradient[good]
        todo = todo[~good]
        if todo.size == 0:
            break
        step[todo] *= 0.5
    accepted = np.ones(len(a), dtype=bool)
    accepted[todo] = False
    return new_a, new_f, new_g, accepted


class _Memory:
    """The last few (step, change of gradient) pairs of every row, with their inner products s'y and y'y."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.pairs: list[tuple[Array, Array, Array, Array]] = []
        self.shape = shape

    def store(self, rows: NDArray[np.intp], s: Array, y: Array) -> None:
        """Keep a pair; for rows without positive curvature zeros, which `apply` passes over."""
        full = len(self.pairs) == _MEMORY
        n = self.shape[0]
        pair = self.pairs.pop(0) if full else (np.zeros(self.shape), np.zeros(self.shape), np.zeros(n), np.zeros(n))
        sy, yy = np.einsum("ij,ij->i", s, y), np.einsum("ij,ij->i", y, y)
        curved = sy > 1e-12 * np.linalg.norm(s, axis=1) * np.sqrt(yy)
        for kept, new in zip(pair, (s, y, np.where(curved, sy, 0.0), yy), strict=True):
            kept[rows] = new
        self.pairs.append(pair)

    def forget(self, rows: NDArray[np.intp]) -> None:
        """Throw away what is known of some rows."""
        for _, _, sy, _ in self.pairs:
            sy[rows] = 0.0

    def apply(self, g: Array, rows: NDArray[np.intp], scale: float) -> Array:
        """Return the inverse Hessian times `g` (the two-loop recursion), or `g` scaled to length `scale` at first."""
        q = g.copy()
        every = rows.size == self.shape[0]
        pairs = self.pairs if every else [tuple(kept[rows] for kept in pair) for pair in self.pairs]
        alphas: list[Array] = []
        for s, y, sy, _ in reversed(pairs):
            alpha = np.divide(np.einsum("ij,ij->i", s, q), sy, out=np.zeros_like(sy), where=sy > 0)
            q -= alpha[:, np.newaxis] * y
            alphas.append(alpha)
        length = scale / np.maximum(np.linalg.norm(g, axis=1), 1e-300)
        for _, _, sy, yy in pairs:  # the newest pair with curvature sets the length
            length = np.where(sy > 0, np.divide(sy, yy, out=np.ones_like(sy), where=yy > 0), length)
        q *= length[:, np.newaxis]
        for (s, y, sy, _), alpha in zip(pairs, reversed(alphas), strict=True):
            beta = np.divide(np.einsum("ij,ij->i", y, q), sy, out=np.zeros_like(sy), where=sy > 0)
            q += (alpha - beta)[:, np.newaxis] * s
        return q
