"""The solver of the linear models: the alternating direction method of multipliers, one loop for all of them.

    minimise over Z:  g(Z) + sum_k f_k(Z * w_k)

where every function is a `kernmend.model.terms.Term` (it has a value and a prox) and w_k scales the columns, by 1 if it
is left out. Linear low-rank recovery, eq. (eq:rpca_l), is g = |.|_* and f = lam |X - Z| in the norm of the method: the
sum of the absolute values for robust PCA, the sum of the lengths of rows for outlier pursuit. One more penalty is one
more f_k.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernmend._typing import Array
from kernmend.linalg.distances import few_threads
from kernmend.model.terms import ErrorTerm, Parts, Term, row_lengths
from kernmend.solvers.result import Callback, History, SolverResult, StopReason

# Factor by which the penalty changes where one residual is more than `_RATIO` times the other.
_GROWTH = 1.5
# Ratio of the two residuals above which the penalty changes.
_RATIO = 2.0
# A growing penalty waits where the primal residual is below this share of the dual one and the dual one still falls.
_LAG = 0.01
# Number of iterations in which the dual residual has to halve to count as falling.
_MEMORY = 10
# Residual and step, as a share of the tolerance, below which a growing penalty has brought Z to a halt.
_FROZEN = 1e-3
# Change of Z, as a share of `size`, below which it is rounding.
_ROUNDING = 1e-14
# Number of changes of the penalty after which it waits `_MEMORY` iterations to see the effect of each.
_QUICK_CHANGES = 15
# Largest number of changes of the penalty: convergence is certain only where it is fixed at last.
_MAX_CHANGES = 60


@dataclass(frozen=True)
class Block:
    """One f_k(Z * scale): a term, and what the columns of Z are multiplied with (None is 1)."""

    term: Term
    scale: Array | None = None

    def of(self, Z: Array) -> Array:
        """Return Z * scale."""
        return Z if self.scale is None else Z * self.scale


def solve_admm(
    start: Array,
    blocks: Sequence[Block | Term],
    *,
    center: Term | None = None,
    penalty: float,
    size: float,
    growth: float | None = None,
    max_iter: int = 500,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise g(Z) + sum_k f_k(Z * w_k), with a copy A_k of Z * w_k for each k.

    Parameters
    ----------
    start
        Z at the start; left as it is.
    blocks
        The f_k: `Block(term, scale)`, or the term alone.
    center
        g, whose prox is taken at the mean of the copies. None is g = 0: then Z is the least-squares fit to the copies,
        and the blocks may have scales. (With g they may not: its prox would have no closed form.)
    penalty
        mu of the augmented Lagrangian at the start, in 1 / (units of Z) if the terms are 1-homogeneous: 1.25 / |X|_2
        is good for nuclear norms.
    size
        Length that the primal residual is counted in, |X|_F.
    growth
        None adapts the penalty so that the two residuals fall together, which is right for convex terms. A number
        multiplies it in each iteration, but for those in which only the dual residual is large and falls by itself:
        what non-convex terms need. It may freeze Z before the dual residual is small: then the stop reason is
        "stalled". 1.0 leaves the penalty as it is.
    tol
        Stop when both relative residuals are below it: primal |A - Z w| / size, dual mu |(Z - Z_before) w| / |Y|, with
        Y the multipliers. The record's `residual` is the larger one. With convex terms both 0 means: Z is the minimum.

    Returns
    -------
    SolverResult
        `A` is Z. The objective of each record is that of Z, with the terms of part "low_rank" taken at their own copy,
        whose singular values are known. It need not fall in every iteration.
    """
    loop = _Loop(start, [b if isinstance(b, Block) else Block(b) for b in blocks], center, penalty, size, growth)
    history = History(tol, callback)
    history.add(loop.parts(), 0.0)
    stop_reason: StopReason = "max_iter"
    try:
        with few_threads(start.size):
            for _ in range(max_iter):
                loop.iterate()
                history.add(loop.parts(), loop.step, loop.residual)
                if loop.residual <= tol and loop.proved(tol):
                    stop_reason = "converged"
                    break
                if loop.frozen(tol):
                    stop_reason = "stalled"
                    break
                loop.adapt()
    except KeyboardInterrupt:
        stop_reason = "interrupted"
    return SolverResult(loop.Z, history.records, stop_reason)


def solve_rows(
    term: ErrorTerm, center: Term, *, penalty: float, size: float, max_iter: int = 2000, tol: float = 1e-7
) -> tuple[Array, int]:
    """Return the rows that minimise g(Z) + f(Z), both sums over the rows, and how many did not converge.

    Every row is minimised by itself, so that the result does not depend on the others. The iteration is that of
    `solve_admm` with a fixed penalty. A row has converged when its two residuals are below `tol`, the primal one
    relative to `size`, the length of a typical row, the dual one relative to the multipliers of the row.
    """
    out = np.zeros_like(term.X)
    active = np.ones(len(out), dtype=bool)
    Z, Y = out, np.zeros_like(out)
    for _ in range(max_iter):
        A = term.prox(Z - Y, 1.0 / penalty)
        Y += A
        before, Z = Z, center.prox(Y.copy(), 1.0 / penalty)
        Y -= Z
        primal, dual = row_lengths(A - Z), row_lengths(Z - before)
        done = ((primal <= tol * size) & (dual <= tol * row_lengths(Y)))[:, 0]
        if not done.any():
            continue
        left = ~done
        out[active] = Z
        active[active] = left
        if not left.any():
            return out, 0
        term, Z, Y = term.rows(left), Z[left], Y[left]
    out[active] = Z
    return out, int(active.sum())


class _Loop:
    """The state: Z, the copies A_k, the scaled multipliers Y_k / mu of A_k = Z w_k, and the penalty mu."""

    def __init__(
        self, Z: Array, blocks: list[Block], center: Term | None, mu: float, size: float, growth: float | None
    ) -> None:
        if center is not None and any(block.scale is not None for block in blocks):
            raise ValueError("scales of the columns need center=None")
        self.Z, self.blocks, self.center = Z, blocks, center
        self.copies = [block.of(Z) for block in blocks]
        self.scaled = [np.zeros_like(A) for A in self.copies]
        self.mu, self.size = mu, size or 1.0
        self.step = self.primal = self.dual = self.multiplier = 0.0
        self.iteration = self.changes = self.may_change = 0
        self.growth = growth
        self.duals: deque[float] = deque(maxlen=_MEMORY)

    def iterate(self) -> None:
        """Do one iteration: the copies, then Z, then the multipliers; nothing is stored before all is computed."""
        copies = [
            block.term.prox(block.of(self.Z) - Y, 1.0 / self.mu)
            for block, Y in zip(self.blocks, self.scaled, strict=True)
        ]
        Z = self._centre(copies)
        scaled: list[Array] = []
        gap = length = moved = 0.0
        change = Z - self.Z
        for block, A, Y in zip(self.blocks, copies, self.scaled, strict=True):
            Y_new: Array = A - block.of(Z)
            gap += _square(Y_new)
            Y_new += Y
            length += _square(Y_new)
            moved += _square(block.of(change))
            scaled.append(Y_new)
        self.Z, self.copies, self.scaled = Z, copies, scaled
        self.iteration += 1
        self.step = float(np.sqrt(_square(change)))
        self.primal = float(np.sqrt(gap)) / self.size
        still = moved <= (_ROUNDING * self.size) ** 2  # Then the multipliers may be rounding as well.
        self.dual = 0.0 if still else float(np.sqrt(moved / length)) if length else np.inf  # mu |change| / |Y|
        self.multiplier = float(np.sqrt(length))

    def _centre(self, copies: list[Array]) -> Array:
        """Return argmin over Z of g(Z) + mu/2 sum_k |A_k + Y_k / mu - Z w_k|^2."""
        terms = [block.of(A + Y) for block, A, Y in zip(self.blocks, copies, self.scaled, strict=True)]
        Z = terms[0]
        for other in terms[1:]:
            Z += other
        if self.center is not None:
            if len(terms) > 1:
                Z /= len(terms)
            return self.center.prox(Z, 1.0 / (self.mu * len(terms)))
        Z /= sum(1.0 if block.scale is None else block.scale**2 for block in self.blocks)
        return Z

    @property
    def residual(self) -> float:
        """The larger of the two relative residuals."""
        return max(self.primal, self.dual)

    def proved(self, tol: float) -> bool:
        """Return whether the proxes of this iteration were exact to `tol`, in units of the multipliers."""
        terms = [block.term for block in self.blocks] + ([] if self.center is None else [self.center])
        return all(term.proved(tol * self.multiplier) for term in terms)

    def frozen(self, tol: float) -> bool:
        """Return whether a growing penalty has brought everything to a halt before a stationary point."""
        grows = self.growth is not None and self.growth > 1.0
        return grows and max(self.primal, self.step / self.size) <= _FROZEN * tol

    def adapt(self) -> None:
        """Raise or lower mu where one residual lags behind the other, or as `growth` says."""
        factor = 1.0
        if self.growth is not None:
            self.duals.append(self.dual)
            waits = self.primal <= _LAG * self.dual and self.dual <= 0.5 * self.duals[0]
            factor = 1.0 if waits else self.growth
        elif self.iteration >= self.may_change and self.changes < _MAX_CHANGES:
            if self.primal > _RATIO * self.dual:
                factor = _GROWTH
            elif self.dual > _RATIO * self.primal:
                factor = 1.0 / _GROWTH
        if factor != 1.0:
            self.changes += 1
            if self.changes > _QUICK_CHANGES:
                self.may_change = self.iteration + _MEMORY
            self.mu *= factor
            for Y in self.scaled:
                Y /= factor

    def parts(self) -> Parts:
        """Return the objective of Z in its parts."""
        values = {"low_rank": 0.0, "error": 0.0, "gram": 0.0}
        pairs = [
            (block.term, A if block.term.part == "low_rank" else block.of(self.Z))
            for block, A in zip(self.blocks, self.copies, strict=True)
        ]
        if self.center is not None:
            pairs.append((self.center, self.Z))
        for term, A in pairs:
            values[term.part] += term.value(A)
        return Parts(rank=max(term.rank for term, _ in pairs), **values)


def _square(X: Array) -> float:
    """Return |X|_F^2."""
    return float(np.vdot(X, X))
