"""The solver of the linear models: the alternating direction method of multipliers, one loop for all of them.

    minimise over Z:  g(Z) + sum_k f_k(Z * w_k)

where every function is a `kernmend.prox.Term` (it has a value and a prox) and w_k scales the columns, by 1 if it is
left out. Robust PCA is g = |.|_*, f = lam sum |x_ij - z_ij|; one more penalty is one more f_k.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernmend._typing import Array
from kernmend.objective import Parts
from kernmend.prox import Term
from kernmend.solvers._result import Callback, History, SolverResult, StopReason

_GROWTH = 1.5  # of the penalty, where one residual is more than `_RATIO` times the other
_RATIO = 2.0
_MAX_CHANGES = 60  # of the penalty: convergence is certain only where it is fixed at last


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
        is good for nuclear norms. It is then adapted so that the two residuals fall together.
    size
        Length that the primal residual is counted in, |X|_F.
    tol
        Stop when both relative residuals are below it: primal |A - Z w| / size, dual mu |(Z - Z_before) w| / |Y|, with
        Y the multipliers. The record's `residual` is the larger one. With convex terms both 0 means: Z is the minimum.

    Returns
    -------
    SolverResult
        `A` is Z. The objective of each record is that of Z, with the terms of part "low_rank" taken at their own copy,
        whose singular values are known. It need not fall in every iteration.
    """
    loop = _Loop(start, [b if isinstance(b, Block) else Block(b) for b in blocks], center, penalty, size)
    history = History(tol, callback)
    history.add(loop.parts(), 0.0)
    stop_reason: StopReason = "max_iter"
    try:
        for _ in range(max_iter):
            loop.iterate()
            history.add(loop.parts(), loop.step, loop.residual)
            if loop.residual <= tol and loop.proved(tol):
                stop_reason = "converged"
                break
            loop.adapt()
    except KeyboardInterrupt:
        stop_reason = "interrupted"
    return SolverResult(loop.Z, history.records, stop_reason)


class _Loop:
    """The state: Z, the copies A_k, the multipliers Y_k (of A_k = Z w_k) and the penalty mu."""

    def __init__(self, Z: Array, blocks: list[Block], center: Term | None, mu: float, size: float) -> None:
        if center is not None and any(block.scale is not None for block in blocks):
            raise ValueError("scales of the columns need center=None")
        self.Z, self.blocks, self.center = Z, blocks, center
        self.copies = [block.of(Z) for block in blocks]
        self.Y = [np.zeros_like(A) for A in self.copies]
        self.mu, self.size = mu, size or 1.0
        self.step = self.primal = self.dual = self.multiplier = 0.0
        self.changes = 0

    def iterate(self) -> None:
        """One step of each copy, then of Z, then of the multipliers; nothing is stored before all is computed."""
        mu, Z = self.mu, self.Z
        copies = []
        for block, Y in zip(self.blocks, self.Y, strict=True):
            V = Y / -mu
            V += block.of(Z)
            copies.append(block.term.prox(V, 1.0 / mu))
        Z = self._centre(copies)
        multipliers: list[Array] = []
        gap = length = 0.0
        for block, A, Y in zip(self.blocks, copies, self.Y, strict=True):
            difference: Array = A - block.of(Z)
            gap += _square(difference)
            difference *= mu
            difference += Y
            length += _square(difference)
            multipliers.append(difference)
        change = Z - self.Z
        moved = sum(_square(block.of(change)) for block in self.blocks)
        self.Z, self.copies, self.Y = Z, copies, multipliers
        self.step = float(np.sqrt(_square(change)))
        self.primal = float(np.sqrt(gap)) / self.size
        self.multiplier = float(np.sqrt(length))
        self.dual = mu * float(np.sqrt(moved)) / self.multiplier if self.multiplier else 0.0

    def _centre(self, copies: list[Array]) -> Array:
        """Return argmin over Z of g(Z) + mu/2 sum_k |A_k + Y_k / mu - Z w_k|^2."""
        total = np.zeros_like(self.Z)
        weight: Array = np.zeros(self.Z.shape[1], dtype=self.Z.dtype)
        for block, A, Y in zip(self.blocks, copies, self.Y, strict=True):
            V = Y / self.mu
            V += A
            total += block.of(V)
            weight += 1.0 if block.scale is None else block.scale**2
        total /= weight
        return total if self.center is None else self.center.prox(total, 1.0 / (self.mu * len(self.blocks)))

    @property
    def residual(self) -> float:
        """The larger of the two relative residuals."""
        return max(self.primal, self.dual)

    def proved(self, tol: float) -> bool:
        """Whether the proxes of this iteration were exact, in units of the multipliers."""
        terms = [block.term for block in self.blocks] + ([] if self.center is None else [self.center])
        return all(term.proved(tol * self.multiplier / self.mu) for term in terms)

    def adapt(self) -> None:
        """Raise or lower mu where one residual lags behind the other."""
        if self.changes >= _MAX_CHANGES:
            return
        if self.primal > _RATIO * self.dual:
            self.mu *= _GROWTH
        elif self.dual > _RATIO * self.primal:
            self.mu /= _GROWTH
        else:
            return
        self.changes += 1

    def parts(self) -> Parts:
        """Return the objective of Z."""
        values = {"low_rank": 0.0, "error": 0.0, "gram": 0.0}
        pairs = [
            (b.term, A if b.term.part == "low_rank" else b.of(self.Z))
            for b, A in zip(self.blocks, self.copies, strict=True)
        ]
        if self.center is not None:
            pairs.append((self.center, self.Z))
        for term, A in pairs:
            values[term.part] += term.value(A)
        return Parts(rank=max(term.rank for term, _ in pairs), **values)


def _square(X: Array) -> float:
    return float(np.vdot(X, X))
