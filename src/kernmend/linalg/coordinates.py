"""Rows in coordinates of the span of some others: fewer numbers than features where those are few.

Squared distances and inner products are all that a kernel knows of rows, and a row that is pulled towards others never
leaves what they and itself span. So it may be mended in coordinates of this span: an orthonormal basis of the others,
and one direction for what of the row is outside, its own for every row.
"""

from dataclasses import dataclass

import numpy as np

from kernmend._typing import Array

# Largest number of coordinates, as a share of the features, at which changing to them and back saves time.
WORTH = 0.7
# Largest difference, as a share of the largest entry, between a start and what its coordinates give back. A start that
# differs by more has parts outside of the coordinates.
ROUNDING = 1e-9
# Length of the part of a row outside of the span, as a share of that of the row, below which it is rounding.
NOTHING = 1e-13


@dataclass(frozen=True)
class Span:
    """An orthonormal basis of the span of some rows, one vector a row."""

    basis: Array

    @classmethod
    def of(cls, L: Array) -> "Span | None":
        """Return the span of the rows of `L`; None if its coordinates are not clearly fewer than the features."""
        if L.shape[0] + 1 > WORTH * L.shape[1]:
            return None
        return cls(np.ascontiguousarray(np.linalg.qr(L.T)[0].T))

    def coordinates(self, L: Array) -> Array:
        """Return the coordinates of rows within the span; the last one, that of the part outside, is 0."""
        return np.hstack([L @ self.basis.T, np.zeros((L.shape[0], 1), L.dtype)])

    def enter_within(self, X: Array) -> Array | None:
        """Return the coordinates of rows that lie within the span, without the last one; None if one does not."""
        inside: Array = X @ self.basis.T
        lost = np.abs(inside @ self.basis - X).max(initial=0.0)
        rounding = max(ROUNDING, 100.0 * float(np.finfo(X.dtype).eps))
        return inside if lost <= rounding * np.abs(X).max(initial=0.0) else None

    def enter(self, X: Array, start: Array) -> "Within | None":
        """Return the rows `X` and their starts in coordinates; None if coordinates cannot express a start."""
        inside, outside = np.zeros((X.shape[0], self.basis.shape[0])), X.copy()
        for _ in range(2):  # The second pass removes what rounding left in the span after the first.
            rest = outside @ self.basis.T
            inside += rest
            outside -= rest @ self.basis
        length = np.linalg.norm(outside, axis=1, keepdims=True)
        length[length <= NOTHING * np.linalg.norm(X, axis=1, keepdims=True)] = 0.0
        outside = np.divide(outside, length, out=np.zeros_like(outside), where=length > 0)
        begin = np.hstack([start @ self.basis.T, np.einsum("ij,ij->i", start, outside)[:, np.newaxis]])
        within = Within(self, np.hstack([inside, length]), begin, outside)
        lost = np.abs(within.leave(begin) - start).max(initial=0.0)
        return within if lost <= ROUNDING * np.abs(start).max(initial=0.0) else None


@dataclass(frozen=True)
class Within:
    """Rows `X` and their starts in coordinates of a span, and the direction of the last coordinate of each row."""

    span: Span
    X: Array
    start: Array
    outside: Array

    def leave(self, A: Array) -> Array:
        """Return the rows whose coordinates are `A`."""
        rows: Array = A[:, :-1] @ self.span.basis + A[:, -1:] * self.outside
        return rows
