"""The quasi-Newton memory of many rows, each with its own pairs: L-BFGS with few passes over the pairs.

The two-loop recursion is carried out on coefficients: every vector in it is a combination of the pairs and of the
gradient, so that all it takes are their inner products, and each loop is a triangular system in them.
"""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

# Number of pairs that are kept for each row.
PAIRS = 8


class Memory:
    """The last few pairs (s, y), step and change of gradient, of every row, and their inner products."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        n, d = shape
        self.pairs = np.zeros((n, 2 * PAIRS, d))  # Of each row first the s, then the y; the oldest is overwritten.
        self.views = list(self.pairs)
        self.sy, self.yy = np.zeros((n, PAIRS, PAIRS)), np.zeros((n, PAIRS, PAIRS))  # s_i'y_j and y_i'y_j
        self.with_g = np.zeros((n, 2 * PAIRS))
        self.kept = np.zeros(n, dtype=np.intp)
        self.newest = np.full(n, -1, dtype=np.intp)

    def store(self, rows: NDArray[np.intp], s: Array, y: Array, g: Array) -> None:
        """Keep a pair, unless it has no positive curvature, and the products of all pairs with the gradient `g`."""
        sy, yy = np.einsum("ij,ij->i", s, y), np.einsum("ij,ij->i", y, y)
        curved = sy > 1e-12 * np.sqrt(np.einsum("ij,ij->i", s, s)) * np.sqrt(yy)
        new, place = rows[curved], (self.newest[rows[curved]] + 1) % PAIRS
        self.newest[new], self.kept[new] = place, np.minimum(self.kept[new] + 1, PAIRS)
        self.pairs[new, place], self.pairs[new, PAIRS + place] = s[curved], y[curved]
        before, after, with_s = self.with_g[new], np.empty((rows.size, 2 * PAIRS)), np.empty((rows.size, PAIRS))
        for i, row in enumerate(rows.tolist()):  # One by one, so that the pairs are not copied.
            pairs = self.views[row]
            pairs.dot(g[i], after[i])
            pairs[PAIRS:].dot(s[i], with_s[i])
        self.with_g[rows] = after
        with_y = after[curved] - before  # Since y is the change of g; not valid for the new pair itself.
        self.sy[new, :, place], self.sy[new, place, :] = with_y[:, :PAIRS], with_s[curved]
        self.yy[new, :, place] = self.yy[new, place, :] = with_y[:, PAIRS:]
        self.yy[new, place, place] = yy[curved]

    def forget(self, rows: NDArray[np.intp]) -> None:
        """Throw away what is known of some rows."""
        self.kept[rows] = 0

    def apply(self, g: Array, rows: NDArray[np.intp], scale: float) -> Array:
        """Return the inverse Hessian times `g`, the gradient last stored; without pairs, `g` of the length `scale`."""
        out: Array = g * (scale / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1e-300))
        known = np.flatnonzero(self.kept[rows] > 0)
        if known.size:
            length, weights = self._coefficients(rows[known])
            for i, row, factor, weight in zip(known.tolist(), rows[known].tolist(), length, weights, strict=True):
                np.multiply(g[i], factor, out=out[i])
                out[i] += weight.dot(self.views[row])
        return out

    def _coefficients(self, rows: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the two-loop recursion's result as a multiple of the gradient plus a combination of the pairs."""
        ages = np.arange(int(self.kept[rows].max()))
        place, there = (self.newest[rows, np.newaxis] - ages) % PAIRS, ages < self.kept[rows, np.newaxis]
        at, pairs = rows[:, np.newaxis], there[:, :, np.newaxis] & there[:, np.newaxis, :]
        both = rows[:, np.newaxis, np.newaxis], place[:, :, np.newaxis], place[:, np.newaxis, :]
        T = np.tril(self.sy[both]) * pairs  # s_i'y_j for j not older than i
        diagonal = T[:, ages, ages]
        T[:, ages, ages] = np.where(there, diagonal, 1.0)
        yy = self.yy[both] * pairs
        sg, yg = self.with_g[at, place] * there, self.with_g[at, PAIRS + place] * there
        length = diagonal[:, :1] / yy[:, 0, :1]
        alpha = _solve(T, sg)  # q = g - sum alpha_j y_j
        change = _solve(T.transpose(0, 2, 1), diagonal * alpha - length * (yg - np.einsum("ijk,ik->ij", yy, alpha)))
        weights = np.zeros((rows.size, 2 * PAIRS))  # of length q + sum change_j s_j
        np.put_along_axis(weights, place, change, axis=1)
        np.put_along_axis(weights, PAIRS + place, -length * alpha, axis=1)
        return length, weights


def _solve(T: Array, b: Array) -> Array:
    """Return x of T x = b for each row."""
    x: Array = np.linalg.solve(T, b[:, :, np.newaxis])[:, :, 0]
    return x
