"""Singular values above a cut-off of a slowly changing matrix: what the prox of the nuclear norm needs."""

from dataclasses import dataclass, field

import numpy as np

from kernmend._typing import Array
from kernmend.linalg.eigen import eigenpairs

# Number of rows or columns up to which a dense solver is used: it is as fast there.
_DENSE_BELOW = 80
# Width of the block, as a share of min(n, d), above which the iteration costs as much as a dense solver.
_DENSE_SHARE = 0.35
# Number of passes after which a dense solver takes over.
_MAX_PASSES = 8
# Singular value, as a share of the largest one, below which it is rounding.
_ROUNDING = 1e-10
# Cut-off, as a share of |X|_2, above which the eigenvalues of X'X give the singular values to 1e-8.
_GRAM_SAFE = 1e-4


@dataclass
class TopSingular:
    """Singular triplets of a slowly changing matrix above a cut-off.

    Keeps a block of right singular vectors between calls: those above the cut-off and some guards below it. One pass of
    subspace iteration (X Q, QR, SVD of a thin matrix) improves them, and is all that is done where the guards show that
    the block is wide enough; the error shrinks as the matrix settles. `proved` tells, after the fact, whether the last
    answer was right, and where it was not, all further calls are dense.
    """

    seed: int = 0
    dense: bool = False
    n_dense: int = field(default=0, init=False)
    n_passes: int = field(default=0, init=False)
    _block: Array | None = field(default=None, init=False, repr=False)
    _wide: bool = field(default=False, init=False)

    def __call__(self, X: Array, cut: float, limit: int | None = None) -> tuple[Array, Array, Array]:
        """Return (U, s, Vt): the singular values of X above `cut`, at most `limit` of them, descending."""
        width = min(X.shape)
        most = width if limit is None else min(limit, width)
        if self.dense or self._wide or width <= _DENSE_BELOW:
            return self._dense(X, cut, most)
        rng = np.random.default_rng(self.seed)
        Q = self._block
        if Q is None or Q.shape[0] != X.shape[1]:
            Q = rng.standard_normal((X.shape[1], most + _guards(most) if limit is not None else 2 * _guards(0)))
            Q = Q.astype(X.dtype)
            Q = X.T @ (X @ Q)
        for _ in range(_MAX_PASSES):
            if Q.shape[1] > _DENSE_SHARE * width:
                break
            self.n_passes += 1
            P = np.linalg.qr(X @ Q)[0]
            u, s, Vt = np.linalg.svd(P.T @ X, full_matrices=False)
            kept = min(int(np.count_nonzero(s > cut)), most)
            missing = min(kept + _guards(kept), most + _guards(most)) - s.size
            if missing <= _guards(kept) // 2:  # Half of the guards are enough for one call.
                self._block = _with_fresh(Vt[: kept + _guards(kept)].T, missing, rng)
                return P @ u[:, :kept], s[:kept], Vt[:kept]
            Q = _with_fresh(Vt.T, max(missing, s.size), rng)
        return self._dense(X, cut, most)

    def proved(self, X: Array, cut: float, triplets: tuple[Array, Array, Array], tol: float) -> bool:
        """Return whether (U, s, Vt) are singular triplets of X to `tol` (absolute) and no other value is above `cut`.

        With R = X - U S V', lambda_max(R R') < cut^2 is shown by a Cholesky factorisation of cut^2 I - R R'. Where
        either fails, all further calls are dense.
        """
        if self.dense or min(X.shape) <= _DENSE_BELOW:
            return True
        U, s, Vt = triplets
        R = X - (U * s) @ Vt
        good = float(np.linalg.norm(R @ Vt.T)) <= tol
        if good:
            gram = R @ R.T if R.shape[0] <= R.shape[1] else R.T @ R
            np.negative(gram, out=gram)
            gram.flat[:: gram.shape[0] + 1] += (1.0 + 1e-4) * cut * cut + tol * tol
            try:
                np.linalg.cholesky(gram)
            except np.linalg.LinAlgError:
                good = False
        self.dense = not good
        return good

    def _dense(self, X: Array, cut: float, most: int) -> tuple[Array, Array, Array]:
        """Return the triplets above `cut`, at most `most`, by a dense solver, and keep a block for the next call."""
        self.n_dense += 1
        tall = X.shape[0] > X.shape[1]
        s2, W = eigenpairs(X.T @ X if tall else X @ X.T)
        if s2[-1] > 0 and cut > _GRAM_SAFE * np.sqrt(s2[-1]):
            kept = min(int(np.count_nonzero(s2 > cut * cut)), most)
            s, W = np.sqrt(s2[::-1][:kept]), W[:, ::-1][:, :kept]
            U, Vt = (X @ W / s, W.T) if tall else (W, (X.T @ W / s).T)
        else:
            U, s, Vt = np.linalg.svd(X, full_matrices=False)
            kept = min(int(np.count_nonzero(s > cut)), most)
            U, s, Vt = U[:, :kept], s[:kept], Vt[:kept]
        self._wide = kept + _guards(kept) > _DENSE_SHARE * min(X.shape)
        if not self._wide:
            self._block = _with_fresh(Vt.T, _guards(kept), np.random.default_rng(self.seed))
        return U, s, Vt


def compact_svd(X: Array) -> tuple[Array, Array, Array]:
    """Return the SVD of X without the singular values that are 0 but for rounding; at least one is kept."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    rank = max(1, int(np.count_nonzero(s > _ROUNDING * s[0])))
    return U[:, :rank], s[:rank], Vt[:rank]


def spectral_norm(X: Array) -> float:
    """Return a lower bound of |X|_2 that is exact to a few per cent."""
    if min(X.shape) <= _DENSE_BELOW:
        return float(np.linalg.norm(X, 2))
    _, s, _ = TopSingular()(X, 0.0, limit=1)
    return float(s[0]) if s.size else 0.0


def _guards(kept: int) -> int:
    """Return the number of extra vectors in the block for `kept` values above the cut-off.

    The ratio of singular values across these guards is the speed of the iteration.
    """
    return 6 + kept // 10


def _with_fresh(Q: Array, count: int, rng: np.random.Generator) -> Array:
    """Return Q with `count` further columns, which are random."""
    if count <= 0:
        return Q
    fresh = rng.standard_normal((Q.shape[0], count)) / np.sqrt(Q.shape[0])
    return np.hstack([Q, fresh.astype(Q.dtype)])
