"""Accelerated proximal gradient, monotone (Beck and Teboulle, 2009): a smooth function plus a term with a prox.

    minimise over Z:  f(Z) + g(Z),   |f'(A) - f'(B)| <= L |A - B|

The momentum is discarded where a step with it would raise the objective, so that this rises by rounding at most.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from kernmend._typing import Array
from kernmend.model.terms import Parts, Term
from kernmend.solvers.result import Callback, History, SolverResult, StopReason

Smooth: TypeAlias = Callable[[Array], tuple[float, Array]]
"""From Z to f(Z) and its gradient."""

# Rise of the objective, as a share of it, that counts as rounding: near the minimum there are such.
_ROUNDING = 1e-13


def solve_fista(
    smooth: Smooth,
    term: Term,
    start: Array,
    lipschitz: float,
    *,
    size: float,
    max_iter: int = 1000,
    tol: float = 1e-5,
    callback: Callback | None = None,
) -> SolverResult:
    """Return the result of minimising smooth(Z) + term(Z) from `start`; its `A` is Z.

    `lipschitz` is the Lipschitz constant of the gradient of `smooth`. The residual of the history is the generalised
    gradient L |Y - prox(Y - f'(Y) / L)| at the point Y of the step, in units of `size`, a typical length of a
    subgradient of `term`; the solver has converged when it is below `tol`, and 0 is a minimum. In the records `smooth`
    counts as "gram", and the term as its `part`.
    """
    Z = start.copy()
    step = 1.0 / lipschitz
    history = History(tol, callback)
    history.add(_parts(smooth(Z)[0], term, Z), 0.0)
    Y, t = Z, 1.0
    stop: StopReason = "max_iter"
    try:
        for _ in range(max_iter):
            trial = term.prox(Y - step * smooth(Y)[1], step)
            parts = _parts(smooth(trial)[0], term, trial)
            limit = history.records[-1].objective * (1.0 + _ROUNDING)
            if parts.total > limit and Y is not Z:  # Too much momentum: take the step without it.
                Y, t = Z, 1.0
                trial = term.prox(Y - step * smooth(Y)[1], step)
                parts = _parts(smooth(trial)[0], term, trial)
            residual = lipschitz * float(np.linalg.norm(trial - Y)) / size
            if parts.total > limit:
                stop = "stalled"
                break
            t_next = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * t * t)))
            change = trial - Z
            Y, Z, t = trial + ((t - 1.0) / t_next) * change, trial, t_next
            history.add(parts, float(np.linalg.norm(change)), residual)
            if residual <= tol:
                stop = "converged"
                break
    except KeyboardInterrupt:
        stop = "interrupted"
    return SolverResult(Z, history.records, stop)


def _parts(value: float, term: Term, Z: Array) -> Parts:
    """Return the objective in its parts, with `value` that of the smooth function."""
    values = {"low_rank": 0.0, "error": 0.0, "gram": value}
    values[term.part] += term.value(Z)
    return Parts(rank=term.rank, **values)
