"""Columns in units of their own: a temperature and a pressure side by side."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend.estimators._validation import check_choice


@dataclass(frozen=True)
class Units:
    """What each column is divided by before rows are compared; None for nothing."""

    sizes: Array | None = None

    @classmethod
    def of(cls, scale: Any, X: Array) -> "Units":
        """Return those asked for: None, "columns" for the spread of each, or numbers."""
        if scale is None:
            return cls()
        if isinstance(scale, str):
            check_choice("scale", scale, ("columns",))
            return cls(spreads(X))
        try:
            sizes = np.broadcast_to(np.asarray(scale, dtype=np.float64), X.shape[1:]).copy()
        except (TypeError, ValueError):
            sizes = np.zeros(1)
        if not (np.isfinite(sizes).all() and (sizes > 0).all()):
            raise ValueError(f"scale must be None, 'columns' or {X.shape[1]} numbers > 0, got {scale!r}")
        return cls(sizes)

    def enter(self, X: Array) -> Array:
        """Return the rows in these units."""
        return X if self.sizes is None else (X / self.sizes).astype(X.dtype, copy=False)

    def leave(self, A: Array, X: Array) -> Array:
        """Return mended rows `A` in the units of `X`, from which they come; what did not change, bit for bit."""
        if self.sizes is None:
            return A
        return np.where(self.enter(X) == A, X, A * self.sizes).astype(X.dtype, copy=False)

    def bounds(self, bounds: Any) -> Any:
        """Return the limits of mended values in these units; "data" says the same in all."""
        if self.sizes is None or bounds is None or isinstance(bounds, str):
            return bounds
        try:
            low, high = bounds
            return np.asarray(low, dtype=np.float64) / self.sizes, np.asarray(high, dtype=np.float64) / self.sizes
        except (TypeError, ValueError):
            return bounds  # refused where bounds are checked


def spreads(X: Array) -> Array:
    """Return the spread of each column, which outliers do not touch: half of what two thirds of its values span.

    The standard deviation where most of the values are equal, 1 where all are.

    >>> spreads(np.array([[0.0, 5.0, 0.0], [10.0, 5.0, 0.0], [20.0, 5.0, 0.0], [30.0, 5.0, 2.0]])).round(3)
    array([10.239,  1.   ,  0.524])
    """
    low, high = np.nanpercentile(X, [15.87, 84.13], axis=0)
    half = (high - low) / 2.0
    deviation = np.nanstd(X.astype(np.float64, copy=False), axis=0)
    out: Array = np.where(half > 0, half, np.where(deviation > 0, deviation, 1.0))
    return out
