"""Eigenvalues of symmetric matrices: all of them, or those above a cut-off, warm-started.

This is the only module that calls a symmetric eigen-solver; all others call it.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import spotrf

from kernmend._typing import Array

# Number of rows up to which a dense solver is used: it is about as fast there.
_DENSE_BELOW = 600
# Width of the search space, as a share of n, above which the iteration costs as much as a dense solver.
_DENSE_SHARE = 0.35
# Rows, evenly spaced, whose eigenvalues tell how many of all are above a cut-off, and how many of those, as a share of
# all n, make a dense solver faster: on 1,000 and 2,000 rows of curves and tables both take the same time there.
_SAMPLE, _FEW = 300, 1 / 12
# Share of these eigenvalues above a cut-off that says no more than "at least as many": then the first vectors of up to
# `_SAMPLE / _FEW` rows come from a dense solver. Of 3,600 rows, 587 above, random ones took twice as long.
_MANY = 0.9
# Number of times that the search space is widened before it is compressed to its best vectors.
_EXPANSIONS = 3
# Number of passes after which a dense solver takes over.
_MAX_PASSES = 16
# Number of those that may filter a block which is too wide to be widened.
_MAX_FILTERED = 4
# Degree of the Chebyshev polynomial that filters a wide block: each costs one product with K and gains a factor of 2.
_DEGREE = 4
# Number of passes in which `LeadingSubspace` improves its block, at most.
_MAX_POWERS = 6


def eigenpairs(K: Array) -> tuple[Array, Array]:
    """Return all eigenvalues of K, ascending, and their vectors as columns."""
    s, U = np.linalg.eigh(K)
    return s, U


def eigenpairs_above(K: Array, cut: float) -> tuple[Array, Array]:
    """Return the eigenvalues of K above `cut`, ascending, and their vectors as columns.

    All of them where there are few rows, where most are above the cut-off, and where none is: then a dense solver for
    all is faster, or what is wanted is the largest one.
    """
    n = K.shape[0]
    if n <= _DENSE_BELOW:
        return eigenpairs(K)
    above = _number_above(K, cut)
    if above < _FEW * n:
        s, U = TopEigenpairs(tol=1e-4)(K, cut)
        s, U = s[::-1], U[:, ::-1]
    elif above < _SAMPLE // 2:
        s, U = eigh(K, subset_by_value=(cut, np.inf), driver="evr", check_finite=False)
    else:
        return eigenpairs(K)
    return (s.copy(), np.ascontiguousarray(U)) if s.size else eigenpairs(K)


def _number_above(K: Array, cut: float) -> int:
    """Return about how many eigenvalues are above `cut`, by those of `_SAMPLE` rows: no more than these can be told."""
    n = K.shape[0]
    some = np.linspace(0, n - 1, _SAMPLE).astype(np.intp)
    return int(np.sum(eigenvalues(K[np.ix_(some, some)]) > cut * _SAMPLE / n))


def eigenvalues(K: Array) -> Array:
    """Return all eigenvalues of K, ascending."""
    s: Array = np.linalg.eigvalsh(K)
    return s


@dataclass
class TopEigenpairs:
    """Eigenpairs of a slowly changing symmetric matrix above a cut-off.

    Keeps a block of vectors between calls: the pairs above the cut-off and some guards below it. Each call improves
    them by a block Davidson iteration: the eigenproblem is solved in the span of the block, which is then widened by
    the residuals K u - s u of the pairs that have not converged. Then it *proves* that nothing is missing: with the r
    pairs (s, U) above the cut-off, lambda_{r+1}(K) <= lambda_1(K - U S U') (Weyl), so a Cholesky factorisation of
    cut*I - K + U S U' that succeeds shows that no other eigenvalue reaches the cut-off. Otherwise the block grows, and
    where it would be too wide it is filtered by a Chebyshev polynomial of K instead. If that does not help either, a
    dense solver takes over. K and two more n×n arrays live at once.

    `tol` bounds the residuals |K u - s u|, as a share of the cut-off; the relative error that this leaves in the
    objective is about its square.
    """

    seed: int = 0
    tol: float = 1e-3
    dense_below: int = _DENSE_BELOW
    n_passes: int = field(default=0, init=False)
    n_dense: int = field(default=0, init=False)
    _block: Array | None = field(default=None, init=False, repr=False)

    def __call__(self, K: Array, cut: float) -> tuple[Array, Array]:
        """Return (s, U): the eigenvalues of K above `cut`, descending, and their vectors as columns."""
        n = K.shape[0]
        if n <= self.dense_below:
            return self._dense(K, cut)
        rng = np.random.default_rng(self.seed)
        Q = self._block
        if Q is None or Q.shape[0] != n:
            if n <= _SAMPLE / _FEW and _number_above(K, cut) >= _MANY * _SAMPLE:
                return self._dense(K, cut)
            Q = _orthonormal(rng.standard_normal((n, 2 * _guards(0))).astype(K.dtype))
        KQ = K @ Q
        expansions = filtered = 0
        for _ in range(_MAX_PASSES):
            self.n_passes += 1
            s, V = eigenpairs(Q.T @ KQ)
            s, V = s[::-1], V[:, ::-1]
            kept = int(np.count_nonzero(s > cut))
            width = kept + _guards(kept)
            missing = width - s.size
            U, KU, s = Q @ V[:, :width], KQ @ V[:, :width], s[:width]
            residuals = KU - U * s
            norms = np.linalg.norm(residuals, axis=0)
            bound = max(self.tol * cut, 16.0 * float(np.finfo(K.dtype).eps) * abs(float(s[0])))
            if missing <= 0 and np.all(norms[:kept] <= bound):
                self._block = U
                if _nothing_above(K, cut, s[:kept], U[:, :kept]):
                    return s[:kept].copy(), np.ascontiguousarray(U[:, :kept])
                missing = width  # The block lacks an eigenvector above the cut-off: search for it with random ones.
            new = [residuals[:, norms > bound]]
            if missing > 0:
                new.append(rng.standard_normal((n, max(missing, s.size))).astype(K.dtype))
            if expansions == _EXPANSIONS or missing > 0:
                Q, KQ, expansions = U, KU, 0
            W = _orthonormal(np.hstack(new), against=Q)
            if Q.shape[1] + W.shape[1] <= _DENSE_SHARE * n:
                Q, KQ = np.hstack([Q, W]), np.hstack([KQ, K @ W])
                expansions += 1
            elif missing <= 0 and width <= _DENSE_SHARE * n and filtered < _MAX_FILTERED:
                Q = np.linalg.qr(_filtered(K, U, KU, float(s[-1])))[0]
                KQ, expansions, filtered = K @ Q, 0, filtered + 1
            else:
                break
        return self._dense(K, cut)

    def _dense(self, K: Array, cut: float) -> tuple[Array, Array]:
        """Return the eigenpairs above `cut` from all of them, and keep a block for the next call."""
        self.n_dense += 1
        s, U = eigenpairs(K)
        first = int(np.searchsorted(s, cut, side="right"))
        if K.shape[0] > self.dense_below:
            self._block = np.ascontiguousarray(U[:, max(0, first - _guards(s.size - first)) :])
        return s[first:][::-1].copy(), np.ascontiguousarray(U[:, first:][:, ::-1])


def eigenpairs_near(K: Array, Q: Array, cut: float) -> tuple[Array, Array]:
    """Return the eigenpairs of K above `cut`, descending, within the span of `Q`, orthonormal, and of K Q.

    For a Q that nearly has them: one step, in a third of the time of all eigenpairs where Q has a sixth of the columns.
    """
    KQ = K @ Q
    W = _orthonormal(KQ - Q @ (Q.T @ KQ), against=Q)
    basis = np.hstack([Q, W])
    s, V = eigenpairs(basis.T @ np.hstack([KQ, K @ W]))
    first = int(np.searchsorted(s, cut, side="right"))
    return s[first:][::-1].copy(), np.ascontiguousarray(basis @ V[:, first:][:, ::-1])


@dataclass
class LeadingSubspace:
    """The span of the eigenvectors of the `count` largest eigenvalues of a slowly changing matrix.

    Up to `dense_below` rows, and at the first call, it comes from all eigenpairs. After that a block of vectors, the
    last ones and some guards, is improved by powers of K until what K leaves outside of the span, tr K - tr U'KU, falls
    by less than `tol` of itself: for any orthonormal U that is what this span leaves, so its value is honest however
    far the iteration has come.
    """

    count: int
    tol: float = 1e-3
    dense_below: int = _DENSE_BELOW
    n_dense: int = field(default=0, init=False)
    _block: Array | None = field(default=None, init=False, repr=False)

    def __call__(self, K: Array) -> tuple[float, Array, Array]:
        """Return tr K - tr U'KU, what is left of K, the eigenvalues, ascending, and U, their vectors as columns."""
        n = K.shape[0]
        trace = float(np.trace(K, dtype=np.float64))
        Q = self._block
        if n <= self.dense_below or Q is None or Q.shape[0] != n:
            return self._dense(K)
        Z, before = K @ Q, np.inf
        for _ in range(_MAX_POWERS):
            W = np.linalg.qr(Z)[0]
            KW = K @ W
            s, V = eigenpairs(W.T @ KW)
            Q, Z = W @ V, KW @ V
            left = trace - float(s[-self.count :].sum(dtype=np.float64))
            if before - left <= self.tol * left:
                self._block = Q
                return left, s[-self.count :], np.ascontiguousarray(Q[:, -self.count :])
            before = left
        return self._dense(K)

    def _dense(self, K: Array) -> tuple[float, Array, Array]:
        """Return what is left and the pairs, from all eigenpairs, and keep a block for the next call."""
        self.n_dense += 1
        s, U = eigenpairs(K)
        width = self.count + _guards(self.count)
        self._block = np.ascontiguousarray(U[:, -width:]) if width <= _DENSE_SHARE * K.shape[0] else None
        left = float(s[: -self.count].sum(dtype=np.float64))
        return left, s[-self.count :], np.ascontiguousarray(U[:, -self.count :])


def _filtered(K: Array, U: Array, KU: Array, edge: float) -> Array:
    """Return T(K) U, T the Chebyshev polynomial that is below 1 on [0, edge] and grows above: it keeps what is above.

    The columns of `U` may have any length; `KU` is K U.
    """
    half = 0.5 * max(edge, float(np.finfo(K.dtype).tiny))
    before, now = U, KU / half - U
    for _ in range(_DEGREE - 1):
        before, now = now, (2.0 / half) * (K @ now) - 2.0 * now - before
    out: Array = now / np.linalg.norm(now, axis=0)
    return out


def _guards(kept: int) -> int:
    """Return the number of extra vectors in the block for `kept` pairs above the cut-off.

    The ratio of eigenvalues across these guards is the speed of the iteration.
    """
    return 10 + kept // 5


def _orthonormal(W: Array, against: Array | None = None) -> Array:
    """Return an orthonormal basis of the columns of W, orthogonal to those of `against`."""
    if against is None:
        return np.linalg.qr(W)[0]
    W = W / np.maximum(np.linalg.norm(W, axis=0), np.finfo(W.dtype).tiny)
    W = np.linalg.qr(W - against @ (against.T @ W))[0]
    back = against.T @ W  # Not zero where a column of W was in the span: then it is subtracted a second time.
    return W if float(np.abs(back).max()) < 1e-8 else np.linalg.qr(W - against @ back)[0]


def _nothing_above(K: Array, cut: float, s: Array, U: Array) -> bool:
    """Return whether every eigenvalue of K - U diag(s) U' is below `cut`, which a Cholesky factorisation shows.

    In float32, for speed: what is left of K after the subtraction is of the order of the cut-off, so that its rounding
    is far below the margin of 0.1 % that is allowed for it. At the cut-off itself, dropping an eigenvalue and keeping
    it give the same objective.
    """
    difference: Array = (U * s) @ U.T
    difference -= K
    difference.flat[:: K.shape[0] + 1] += 1.001 * cut
    # SciPy's, because NumPy's copies twice and takes four times as long in float32; the transpose is Fortran's order.
    info: int = spotrf(difference.astype(np.float32, copy=False).T, overwrite_a=True, clean=False)[1]
    return info == 0
