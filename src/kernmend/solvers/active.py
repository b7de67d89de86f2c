"""The default solver for many rows: only those that are pulled hard enough to move are variables.

A row stays where it was observed as long as the others pull it with less than lam, and most do. So the rows are moved
in rounds. A round evaluates the whole objective once, takes the rows that have moved or would, and minimises over
those, with the others fixed:

    K = [K_ff  K_fa]      M = W M_W W',   W = [V  0]
        [K_af  K_aa]                          [0  I]

V is an orthonormal basis of what the eigenvectors of K at the start of the round have on the fixed rows f. B'B = M is
held within the span of W, of r + m dimensions for r eigenvectors and m moving rows, so that an evaluation costs m n d
in place of n^2 d, and eigenpairs of a matrix of r + m rows. At the start of the round nothing is lost by that, and at
any other place the value is F(A, B) for a B that is not quite the best one. So F never rises, in a round or from one to
the next, and a round that begins where the last one ended, with no other row to move, has found a minimum.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.errors import ErrorModel
from kernmend.model.kernels import FixedRows, Kernel
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty, cutoff_from_rho, shrink_eigenvalues
from kernmend.model.terms import Parts
from kernmend.solvers.reduced import Bounds, solve_reduced
from kernmend.solvers.result import Callback, History, IterationRecord, SolverResult

MANY_ROWS = 600
"""Rows from which on it is worth it: below, one evaluation of all of them takes milliseconds."""
LITTLE = 0.01
"""Distance, as a share of a typical one, that a row must be about to move by to be moved."""
MOST = 0.5
"""Share of moving rows above which all of them are moved together."""
NEARLY = 0.5
"""Eigenvectors down to this share of the cut-off are in the basis: as rows move, some of them rise above it. With those
above the cut-off alone F falls in small steps, from one round to the next."""
ROUND = 40
"""Iterations of a round, at most: then the basis is found anew."""


def solve_active(
    objective: Objective,
    A: Array,
    penalty: NuclearPenalty,
    *,
    bounds: Bounds | None = None,
    scale: float = 1.0,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise Phi, with the nuclear penalty, over the rows that move; the parameters are those of `solve_reduced`.

    Return what was found. A round ends where ten of its iterations together lower F by less than `tol` of it, the whole
    where a round begins with no more to gain. Where most rows move, `solve_reduced` takes over.
    """
    A = A.copy() if bounds is None else np.clip(A, *bounds).astype(A.dtype, copy=False)
    log = _Log(callback)
    moving: NDArray[np.bool_] = np.any(A != objective.error.X, axis=1)  # Those with missing entries, NaN, among them.
    begin, settled = _Round.at(objective, penalty, A), False
    log.add(begin.parts)
    try:
        while True:
            new = begin.would_move(LITTLE * scale) & ~moving
            moving |= new
            gained = log.records[-1].objective - begin.parts.total
            if not moving.any() or (settled and not new.any() and gained <= tol * abs(begin.parts.total)):
                return SolverResult(A, log.records, "converged")
            left = max_iter - log.iterations
            if left <= 0:
                return SolverResult(A, log.records, "max_iter")
            whole = bool(moving.mean() > MOST)
            some = np.ones_like(moving) if whole else moving
            box = None if bounds is None else (_rows(bounds[0], A, some), _rows(bounds[1], A, some))
            result = solve_reduced(
                objective if whole else begin.over(some),
                A[some],
                bounds=box,
                scale=scale,
                max_iter=left if whole else min(left, ROUND),
                tol=tol,
                callback=log.follow,
            )
            A[some] = result.A
            if whole or result.stop_reason == "interrupted":
                return SolverResult(A, log.records, result.stop_reason)
            settled = result.stop_reason != "max_iter"
            begin = _Round.at(objective, penalty, A)
    except KeyboardInterrupt:
        return SolverResult(A, log.records, "interrupted")


def _rows(bound: Any, A: Array, some: NDArray[np.bool_]) -> Array:
    """Return a bound of some of the rows of `A`."""
    out: Array = np.broadcast_to(np.asarray(bound, dtype=A.dtype), A.shape)[some]
    return out


class _Log:
    """The records of all rounds as those of one run."""

    def __init__(self, callback: Callback | None) -> None:
        self.records: list[IterationRecord] = []
        self.callback = callback
        self.start = time.perf_counter()

    @property
    def iterations(self) -> int:
        """Number of iterations done."""
        return len(self.records) - 1

    def add(self, parts: Parts) -> None:
        """Store the start."""
        history = History(0.0, self.callback)
        history.add(parts, 0.0)
        self.records += history.records

    def follow(self, record: IterationRecord) -> None:
        """Store an iteration of a round; the start of a round is the end of the one before."""
        if record.iteration > 0:
            seconds = time.perf_counter() - self.start
            self.records.append(replace(record, iteration=len(self.records), seconds=seconds))
            if self.callback is not None:
                self.callback(self.records[-1])


@dataclass(frozen=True)
class _Round:
    """The whole objective at the rows `A`: its Gram matrix, eigenvectors, value, and the pull on every row."""

    objective: Objective
    rho: float
    A: Array
    K: Array
    U: Array
    parts: Parts
    pull: Array

    @classmethod
    def at(cls, objective: Objective, penalty: NuclearPenalty, A: Array) -> "_Round":
        """Return the objective at `A`, with eigenvectors a little beyond the cut-off."""
        K, rho = objective.kernel.gram(A), penalty.rho
        s, U = objective.eigen(K, NEARLY * cutoff_from_rho(rho))
        g = shrink_eigenvalues(s, rho)
        kept = g > 0
        G: Array = (U[:, kept] * -np.square(g[kept])) @ U[:, kept].T
        G += K
        gram = 0.5 * rho * float(np.vdot(G, G))
        G *= rho
        error = objective.lam * objective.error.evaluate(A)[0]
        pull = objective.kernel.gradient(A, K, G)
        parts = Parts(float(g.sum(dtype=np.float64)), error, gram, int(kept.sum()))
        return cls(objective, rho, A, K, U, parts, pull)

    def would_move(self, distance: float) -> NDArray[np.bool_]:
        """Return which rows are pulled on even where they have moved by a distance, along the pull."""
        strength = np.linalg.norm(self.pull, axis=1)
        towards = -self.pull / np.maximum(strength, np.finfo(self.pull.dtype).tiny)[:, np.newaxis]
        _, held = self.objective.error.evaluate_rows(self.A + distance * towards)
        out: NDArray[np.bool_] = strength > self.objective.lam * np.einsum("ij,ij->i", held, towards)
        return out

    def over(self, moving: NDArray[np.bool_]) -> "_Moving":
        """Return the objective of the moving rows."""
        fixed = np.flatnonzero(~moving)
        V = np.linalg.qr(self.U[fixed])[0]
        K_ff = self.K[np.ix_(fixed, fixed)]
        KV = K_ff @ V
        inner = V.T @ KV
        outside = np.subtract(K_ff, (V @ inner) @ V.T, out=K_ff)
        tail = float(np.vdot(outside, outside))
        objective, others = self.objective, self.objective.error.rows(fixed).evaluate(self.A[fixed])[0]
        kernel = objective.kernel
        error = objective.error.rows(moving)
        return _Moving(kernel, kernel.against(self.A[fixed]), error, objective.lam, self.rho, V, inner, tail, others)


@dataclass(frozen=True)
class _Moving:
    """F over the moving rows with the best B of a subspace; what `solve_reduced` needs of an objective.

    `V` is the basis on the fixed rows, `inner` = V' K_ff V, `tail` = |K_ff - V inner V'|_F^2, `others` the error of the
    fixed rows.
    """

    kernel: Kernel
    fixed: FixedRows
    error: ErrorModel
    lam: float
    rho: float
    V: Array
    inner: Array
    tail: float
    others: float

    def evaluate(self, A: Array) -> tuple[Parts, Array]:
        """Return F and its gradient in the moving rows, by the envelope theorem: at the best B."""
        r, K_aa, K_af = self.V.shape[1], self.kernel.gram(A), self.fixed.gram(A)
        C = K_af @ self.V
        K_W = np.block([[self.inner, C.T], [C, K_aa]])
        s, Q = eigenpairs(K_W)
        g = shrink_eigenvalues(s, self.rho)
        kept = g > 0
        M_W = (Q[:, kept] * np.square(g[kept])) @ Q[:, kept].T
        G_af: Array = K_af - M_W[r:, :r] @ self.V.T
        K_W -= M_W
        inside, own = K_W[:r, :r], K_W[r:, r:]
        squares = self.tail + 2.0 * _square(G_af) + _square(inside) + _square(own)
        error, gradient = self.error.evaluate(A)
        gradient = self.lam * gradient
        G_af *= 2.0 * self.rho
        gradient += self.fixed.pullback(A, K_af, G_af)
        gradient += self.kernel.gradient(A, K_aa, self.rho * own)
        low_rank, rank = float(g.sum(dtype=np.float64)), int(kept.sum())
        return Parts(low_rank, self.lam * (error + self.others), 0.5 * self.rho * squares, rank), gradient

    def parts(self, A: Array) -> Parts:
        """Return F in its parts."""
        return self.evaluate(A)[0]


def _square(X: Array) -> float:
    """Return |X|_F^2."""
    return float(np.einsum("ij,ij->", X, X))
