"""The default solver for many rows: only those that are pulled hard enough to move are variables.

A row stays where it was observed as long as the others pull it with less than lam, and most do. So the rows are moved
in rounds. A round evaluates the whole objective once, takes the rows that have moved or would, and minimises over
those, with the others fixed:

    K = [K_ff  K_fa]      M = N M_N N',   N = [V  0]
        [K_af  K_aa]                          [ W  ]

B'B = M is held within the span of N, an orthonormal basis: what the eigenvectors of K at the start of the round have on
the rows, and for each row that moves far a vector of its own. So an evaluation costs m n d for m moving rows in place
of n^2 d, and eigenpairs of a matrix with as many rows as N has columns. At the start of the round nothing is lost by
that, and at any other place the value is F(A, B) for a B that is not quite the best one. So F never rises, in a round
or from one to the next, and a round that begins where the last one ended, with no other row to move, has found a
minimum. Rows that do not start where they were observed move alone in the first round. These, or without such a start
all rows of the first round, have vectors of their own; those that follow move little, and have if the basis is small.
"""

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.eigen import eigenpairs, eigenpairs_near
from kernmend.model.errors import ErrorModel
from kernmend.model.kernels import FixedRows, Kernel
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty, cutoff_from_rho, shrink_eigenvalues
from kernmend.model.terms import Parts
from kernmend.solvers.reduced import Bounds, solve_reduced
from kernmend.solvers.result import Callback, History, IterationRecord, SolverResult

MANY_ROWS = 600
"""Rows from which on it is worth it: below, one evaluation of all of them takes milliseconds."""
LITTLE = 0.03
"""Distance, as a share of a typical one, that a row must be about to move by to be moved: eight times what the
smoothing of the error lets a row move that is held, for kernels as wide as those of images."""
MOST = 0.5
"""Share of rows with vectors of their own above which all rows are moved together, without a basis."""
NEARLY = 0.5
"""Eigenvectors down to this share of the cut-off are in the basis: as rows move, some of them rise above it. With those
above the cut-off alone F falls in small steps, from one round to the next."""
ROUND = 25
"""Iterations of a round, at most: then the basis is found anew. On 3,600 images that lowers F by more than 15 further
iterations would, in the time of 8 (`python -m benchmarks joint`, part `large`)."""
GAINED = 1e3
"""What was gained since the start counts so many times as much as F itself for what `tol` is a share of. Most of F is
that of rows that stay, however many there are: of the fall of F on 3,600 images, 99.5 % is there after 60 iterations,
and 140 more, each lowering F by some 1e-6 of it, bring the rest."""


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

    Return what was found. A round ends where ten of its iterations together lower F by less than `tol` of it, or by
    less than `GAINED` times `tol` of what was gained since the start. The whole ends where a round gained no more than
    that, or the next one would begin with no more to gain. Where most rows would have vectors of their own,
    `solve_reduced` takes over.
    """
    A = A.copy() if bounds is None else np.clip(A, *bounds).astype(A.dtype, copy=False)
    log = _Log(callback)
    moving: NDArray[np.bool_] = np.any(A != objective.error.X, axis=1)  # Those with missing entries, NaN, among them.
    begin, settled, own = _Round.at(objective, penalty, A), False, moving.copy()
    log.add(begin.parts)
    try:
        while True:
            now, new = begin.parts.total, begin.would_move(LITTLE * scale) & ~moving
            # Rows that start elsewhere find their place before others follow.
            alone = log.iterations == 0 and own.any()
            if not alone:
                new = begin.still_pulled(new, moving, own, LITTLE * scale)
                moving |= new
                own = begin.with_vectors(moving, own)
            little = tol * max(abs(now), GAINED * (log.records[0].objective - now))
            more_to_gain = new.any() or log.records[-1].objective - now > little
            if not moving.any() or (settled and not more_to_gain):
                return SolverResult(A, log.records, "converged")
            left = max_iter - log.iterations
            if left <= 0:
                return SolverResult(A, log.records, "max_iter")
            over = begin.over(moving, own) if own.mean() <= MOST else None
            some = np.ones_like(moving) if over is None else moving
            result = solve_reduced(
                over or objective,
                A[some],
                bounds=None if bounds is None else (_rows(bounds[0], A, some), _rows(bounds[1], A, some)),
                scale=scale,
                max_iter=left if over is None else min(left, ROUND),
                tol=little / max(abs(now), float(np.finfo(np.float64).tiny)),
                callback=log.follow,
            )
            A[some] = result.A
            if over is None or result.stop_reason == "interrupted":
                return SolverResult(A, log.records, result.stop_reason)
            settled = result.stop_reason != "max_iter"
            if settled and not alone and now - result.history[-1].objective <= little:
                return SolverResult(A, log.records, "converged")
            begin = _Round.at(objective, penalty, A, over.vectors(result.A, some))
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
    def at(cls, objective: Objective, penalty: NuclearPenalty, A: Array, near: Array | None = None) -> "_Round":
        """Return the objective at `A`, with eigenvectors a little beyond the cut-off; `near` nearly spans these."""
        K, rho = objective.kernel.gram(A), penalty.rho
        cut = NEARLY * cutoff_from_rho(rho)
        if near is None or 2 * near.shape[1] > len(K):  # else there is no room for K near beside it
            s, U = objective.eigen(K, cut)
        else:
            s, U = eigenpairs_near(K, near, cut)
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

    @cached_property
    def towards(self) -> Array:
        """The direction, of length 1, in which each row is pulled."""
        strength = np.linalg.norm(self.pull, axis=1, keepdims=True)
        out: Array = -self.pull / np.maximum(strength, np.finfo(self.pull.dtype).tiny)
        return out

    def would_move(self, distance: float) -> NDArray[np.bool_]:
        """Return which rows are pulled harder than they would be held where they have moved by a distance."""
        _, held = self.objective.error.evaluate_rows(self.A + distance * self.towards)
        out: NDArray[np.bool_] = np.einsum("ij,ij->i", self.pull + self.objective.lam * held, self.towards) < 0.0
        return out

    def still_pulled(
        self, new: NDArray[np.bool_], moving: NDArray[np.bool_], own: NDArray[np.bool_], distance: float
    ) -> NDArray[np.bool_]:
        """Return those of the new rows that F pulls on even where all of them have moved by a distance.

        The pull on a row may end long before: of 3,600 images two thirds were pulled harder than they would have been
        held, and moved by 0.0005 of a typical distance at most.
        """
        some, wide = moving | new, self.with_vectors(moving | new, own)
        if not new.any() or wide.mean() > MOST:
            return new
        moved = self.A + distance * np.where(new[:, np.newaxis], self.towards, 0.0)
        slope = np.einsum("ij,ij->i", self.over(some, wide).evaluate(moved[some])[1], self.towards[some])
        out = new.copy()
        out[some] &= slope < 0.0
        return out

    def with_vectors(self, moving: NDArray[np.bool_], own: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which rows have vectors of their own: all that move if none has, or if the basis stays small."""
        few = not own.any() or moving.sum() + self.U.shape[1] <= MANY_ROWS
        return moving.copy() if few else own

    def over(self, moving: NDArray[np.bool_], own: NDArray[np.bool_]) -> "_Moving":
        """Return the objective of the moving rows, of which some have vectors of their own in the basis."""
        span = np.linalg.qr(self.U[~own])[0]  # as many columns as U, or as it has rows where these are fewer
        V = np.zeros((len(own), span.shape[1]), dtype=span.dtype)
        V[~own] = span
        fixed = np.flatnonzero(~moving)
        Q, T = np.linalg.qr(V[fixed])
        K_ff = self.K[np.ix_(fixed, fixed)]
        inner = Q.T @ K_ff @ Q
        outside = np.subtract(K_ff, (Q @ inner) @ Q.T, out=K_ff)
        tail = float(np.vdot(outside, outside))
        objective, r, mine = self.objective, V.shape[1], np.flatnonzero(own[moving])
        W = np.zeros((int(moving.sum()), r + mine.size), dtype=V.dtype)
        W[~own[moving], :r] = V[moving & ~own]
        W[mine, r + np.arange(mine.size)] = 1.0
        core = T.T @ inner @ T
        others = objective.error.rows(fixed).evaluate(self.A[fixed])[0]
        kernel, error = objective.kernel, objective.error.rows(moving)
        against = kernel.against(self.A[fixed])
        return _Moving(kernel, against, error, objective.lam, self.rho, V[fixed], W, T, inner, core, tail, others)


@dataclass(frozen=True)
class _Moving:
    """F over the moving rows with the best B of a subspace; what `solve_reduced` needs of an objective.

    The basis of the subspace is `V` on the fixed rows, then zeros, and `W` on the moving ones. V = Q T, Q orthonormal;
    `inner` = Q' K_ff Q, `core` = V' K_ff V, `tail` = |K_ff - Q inner Q'|_F^2, `others` is the error of the fixed rows.
    """

    kernel: Kernel
    fixed: FixedRows
    error: ErrorModel
    lam: float
    rho: float
    V: Array
    W: Array
    T: Array
    inner: Array
    core: Array
    tail: float
    others: float

    def evaluate(self, A: Array) -> tuple[Parts, Array]:
        """Return F and its gradient in the moving rows, by the envelope theorem: at the best B."""
        r, K_aa, K_af = self.V.shape[1], self.kernel.gram(A), self.fixed.gram(A)
        s, Q = eigenpairs(self._inside(K_aa, K_af))
        g = shrink_eigenvalues(s, self.rho)
        kept = g > 0
        root = Q[:, kept] * g[kept]  # M = root root' in the basis
        on_fixed, on_moving = root[:r], self.W @ root
        G_af: Array = K_af - (on_moving @ on_fixed.T) @ self.V.T
        G_aa = K_aa - on_moving @ on_moving.T
        at_fixed = self.T @ on_fixed
        squares = self.tail + 2.0 * _square(G_af) + _square(self.inner - at_fixed @ at_fixed.T) + _square(G_aa)
        error, gradient = self.error.evaluate(A)
        gradient = self.lam * gradient
        G_af *= 2.0 * self.rho
        gradient += self.fixed.pullback(A, K_af, G_af)
        gradient += self.kernel.gradient(A, K_aa, self.rho * G_aa)
        low_rank, rank = float(g.sum(dtype=np.float64)), int(kept.sum())
        return Parts(low_rank, self.lam * (error + self.others), 0.5 * self.rho * squares, rank), gradient

    def _inside(self, K_aa: Array, K_af: Array) -> Array:
        """Return K in the basis."""
        r = self.V.shape[1]
        out: Array = self.W.T @ K_aa @ self.W
        across = (K_af @ self.V).T @ self.W
        out[:r] += across
        out[:, :r] += across.T
        out[:r, :r] += self.core
        return out

    def parts(self, A: Array) -> Parts:
        """Return F in its parts."""
        return self.evaluate(A)[0]

    def vectors(self, A: Array, moving: NDArray[np.bool_]) -> Array:
        """Return the eigenvectors of K in the basis, of all rows: nearly those of K, which are soon found from them."""
        s, Q = eigenpairs(self._inside(self.kernel.gram(A), self.fixed.gram(A)))
        Q = Q[:, s > NEARLY * cutoff_from_rho(self.rho)]
        out = np.empty((moving.size, Q.shape[1]), dtype=Q.dtype)
        out[~moving], out[moving] = self.V @ Q[: self.V.shape[1]], self.W @ Q
        return out


def _square(X: Array) -> float:
    """Return |X|_F^2."""
    return float(np.einsum("ij,ij->", X, X))
