"""Pre-images under a Gaussian kernel, by the fixed point of Mika et al. (1999), made safe.

    minimise over z:  |phi(z) - sum_j c_j phi(l_j)|^2,    k(a, b) = exp(-gamma |a - b|^2)

Where the gradient vanishes, z is the mean of the rows l_j with the weights c_j k(z, l_j). Going to that mean again and
again is the fixed-point iteration. Coefficients c_j below 0 break it: the sum of the weights may pass through 0, and
the objective may rise. But that sum is g(z) = sum_j c_j k(z, l_j), and the objective is 1 - 2 g(z) + a constant. So a
start with g > 0, and steps that are halved until g does not fall, keep the denominator above its first value.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.model.kernels import RBF
from kernmend.model.terms import Parts
from kernmend.solvers.result import Callback, History, SolverResult, StopReason

# Value of g at a start, as a share of the largest g at a row of L, below which the start is replaced by that row.
DEGENERATE = 1e-3
# Number of times that a step is halved before a row stays where it is.
_MAX_HALVINGS = 30


class _State(NamedTuple):
    """Rows, g at each, and the weighted mean that the fixed-point iteration would go to."""

    Z: Array
    g: Array
    target: Array


def solve_preimage(
    kernel: RBF,
    L: Array,
    coefficients: Array,
    start: Array,
    *,
    scale: float = 1.0,
    rank: int = 0,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SolverResult:
    """Return for each row of `coefficients` a z whose image is nearest to sum_j c_j phi(l_j), among those around it.

    `start` has one row for each. One that is far from all rows of `L` has no weights to go by; it is replaced by the
    row of `L` whose image is nearest to the target. A target that has no row of `L` on its side (all g <= 0) has no
    pre-image to go to, and such a row stays at its start. The residual of the history is the largest step that the
    plain fixed point would still make, in units of `scale`: the solver has converged when it is below `tol`. `rank` is
    only noted in the history.
    """
    L, C = L.astype(np.float64, copy=False), coefficients.astype(np.float64, copy=False)
    K = kernel.gram(L)
    constant = C.shape[0] + float(np.einsum("ij,ij->", C @ K, C))
    Z, g, target = _start(kernel, L, C, start.astype(np.float64), C @ K)
    history = History(tol, callback)
    active = np.flatnonzero(g > 0)
    todo = np.linalg.norm(target[active] - Z[active], axis=1) / scale
    history.add(Parts(constant - 2.0 * float(g.sum()), 0.0, 0.0, rank), 0.0, float(todo.max(initial=0.0)))
    stop: StopReason = "max_iter"
    try:
        for _ in range(max_iter):
            active = active[todo > tol]
            if active.size == 0:
                break
            before = Z[active]
            new, stuck = _ascend(kernel, L, C[active], _State(before, g[active], target[active]))
            Z[active], g[active], target[active] = new
            step = float(np.linalg.norm(new.Z - before))
            todo = np.where(stuck, 0.0, np.linalg.norm(new.target - new.Z, axis=1) / scale)
            history.add(Parts(constant - 2.0 * float(g.sum()), 0.0, 0.0, rank), step, float(todo.max()))
        if not (todo > tol).any():
            stop = "converged"
    except KeyboardInterrupt:
        stop = "interrupted"
    return SolverResult(Z, history.records, stop)


def _state(kernel: RBF, L: Array, C: Array, Z: Array) -> _State:
    """Return rows, g and the weighted mean at each; where the weights sum to 0 or less, the row for the mean."""
    W = kernel.gram(Z, L)
    W *= C
    g = W.sum(axis=1)
    usable = g > np.finfo(np.float64).tiny
    centre = L.mean(axis=0)  # The weights sum to 1, so this changes the rounding only.
    mean = centre + (W @ (L - centre)) / np.where(usable, g, 1.0)[:, np.newaxis]
    return _State(Z, g, np.where(usable[:, np.newaxis], mean, Z))


def _start(kernel: RBF, L: Array, C: Array, Z: Array, at_rows: Array) -> _State:
    """Return the state at the start, with degenerate rows moved to the best row of L; `at_rows` is g there."""
    state = _state(kernel, L, C, Z)
    best = at_rows.argmax(axis=1)
    top = at_rows[np.arange(len(best)), best]
    lost = (top > 0) & (state.g < DEGENERATE * top)
    if lost.any():
        for old, new in zip(state, _state(kernel, L, C[lost], L[best[lost]]), strict=True):
            old[lost] = new
    return state


def _ascend(kernel: RBF, L: Array, C: Array, state: _State) -> tuple[_State, NDArray[np.bool_]]:
    """Return the state after a step, and which rows took none because g fell at every length.

    The step goes to the weighted mean, or half of the way, or a quarter, until g does not fall.

    The way there is uphill for g > 0, so that a short enough step never falls but by rounding.
    """
    new = _State(*(part.copy() for part in state))
    todo = np.arange(len(C))
    share = 1.0
    for _ in range(_MAX_HALVINGS):
        trial = _state(kernel, L, C[todo], state.Z[todo] + share * (state.target[todo] - state.Z[todo]))
        good = trial.g >= state.g[todo]
        for old, part in zip(new, trial, strict=True):
            old[todo[good]] = part[good]
        todo = todo[~good]
        if todo.size == 0:
            break
        share *= 0.5
    stuck = np.zeros(len(C), dtype=bool)
    stuck[todo] = True
    return new, stuck
