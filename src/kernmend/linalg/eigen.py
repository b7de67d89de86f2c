"""Eigenvalues of Gram matrices: all of them, or those above a cut-off, warm-started."""

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.lapack import spotrf

from kernmend._typing import Array

_DENSE_BELOW = 600  # rows: under this a dense solver is about as fast
_DENSE_SHARE = 0.35  # of n: a search space wider than this costs as much as a dense solver
_EXPANSIONS = 3  # of the search space before it is compressed to its best vectors
_MAX_PASSES = 16


def eigenpairs(K: Array) -> tuple[Array, Array]:
    """Return all eigenvalues of K, ascending, and their vectors as columns."""
    s, U = np.linalg.eigh(K)
    return s, U


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
    where it would be too wide a dense solver takes over. K and two more n×n arrays live at once.

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
            Q = _orthonormal(rng.standard_normal((n, 2 * _guards(0))).astype(K.dtype))
        KQ = K @ Q
        expansions = 0
        for _ in range(_MAX_PASSES):
            self.n_passes += 1
            s, V = np.linalg.eigh(Q.T @ KQ)
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
                missing = width  # an eigenvector that the block does not contain: look for it with random ones
            new = [residuals[:, norms > bound]]
            if missing > 0:
                new.append(rng.standard_normal((n, max(missing, s.size))).astype(K.dtype))
            if expansions == _EXPANSIONS or missing > 0:
                Q, KQ, expansions = U, KU, 0
            W = _orthonormal(np.hstack(new), against=Q)
            if Q.shape[1] + W.shape[1] > _DENSE_SHARE * n:
                break
            Q, KQ = np.hstack([Q, W]), np.hstack([KQ, K @ W])
            expansions += 1
        return self._dense(K, cut)

    def _dense(self, K: Array, cut: float) -> tuple[Array, Array]:
        self.n_dense += 1
        s, U = np.linalg.eigh(K)
        first = int(np.searchsorted(s, cut, side="right"))
        if K.shape[0] > self.dense_below:
            self._block = np.ascontiguousarray(U[:, max(0, first - _guards(s.size - first)) :])
        return s[first:][::-1].copy(), np.ascontiguousarray(U[:, first:][:, ::-1])


def _guards(kept: int) -> int:
    """Extra vectors in the block: the ratio of eigenvalues across the guards is the speed of the iteration."""
    return 10 + kept // 5


def _orthonormal(W: Array, against: Array | None = None) -> Array:
    """Return an orthonormal basis of the columns of W, orthogonal to those of `against`."""
    if against is None:
        return np.linalg.qr(W)[0]
    W = W / np.maximum(np.linalg.norm(W, axis=0), np.finfo(W.dtype).tiny)
    W = np.linalg.qr(W - against @ (against.T @ W))[0]
    back = against.T @ W  # not zero where a column of W lay in the span: then once more
    return W if float(np.abs(back).max()) < 1e-8 else np.linalg.qr(W - against @ back)[0]


def _nothing_above(K: Array, cut: float, s: Array, U: Array) -> bool:
    """Whether every eigenvalue of K - U diag(s) U' is below `cut`, by a Cholesky factorisation of the difference.

    In float32, for speed: what is left of K after the subtraction is of the order of the cut-off, so that its rounding
    is far below the margin of 0.1 % that is allowed for it. (At the cut-off itself, g = 0 and the root cost the same.)
    """
    difference: Array = (U * s) @ U.T
    difference -= K
    difference.flat[:: K.shape[0] + 1] += 1.001 * cut
    # SciPy's, because NumPy's copies twice and takes four times as long in float32; the transpose is Fortran's order.
    info: int = spotrf(difference.astype(np.float32, copy=False).T, overwrite_a=True, clean=False)[1]
    return info == 0
