"""The units in which rows are compared: as they are, each column in its own, or each row in its own."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_choice
from kernmend.linalg.distances import column_medians, row_blocks

# Ratio of the spreads of columns from which on they do not have one unit; random mixtures in one unit reach 17.
APART = 20.0
# Number of columns from which on they may be an ordered series: pixels, channels.
MANY_COLUMNS = 16
# Difference of neighbouring columns, as a share of that of distant ones, below which they are a series in one unit.
ORDERED = 0.5
# Share of the spread of the columns that rows in units of their own leave, below which they are curves of one shape.
ALIKE = 0.25
# Largest spread of a column, and 1 / smallest: squares and products are still far from the ends of floats.
LARGEST = 1e100
# Largest number of rows on which the units are decided, and whose median is the shape of rows in units of their own.
SOME_ROWS = 300
# Rounds of weighted least squares for the units of a row, each weight 1 / |error|: further ones change them by 1 %.
ROUNDS = 10
# Error below which a weight no longer grows, as a share of the row's spread: exact values do not get all the weight.
LEAST_ERROR = 0.01
# Size of the shape in a row, as a share of the row's spread, below which the row is not of it: its spread is the size.
LEAST_SHAPE = 0.1
CHOICES = ("auto", "columns", "rows")


@dataclass(frozen=True)
class Units:
    """What rows are compared in. `sizes` divide the columns; `by_rows` centres and divides each row by its own.

    A row x in units of its own is (x - a) / b, where x = a + b shape + errors, with the least sum of absolute errors.
    Errors change a and b little: noise does not make a row larger, as it does where b is the spread of the row. Without
    a shape, a and b are the median and the spread.
    """

    sizes: Array | None = None
    by_rows: bool = False
    shape: Array | None = None

    @classmethod
    def of(cls, scale: Any, X: Array, *, bounded: bool = False) -> "Units":
        """Return those asked for: None, "auto", "columns", "rows", or what to divide each column by.

        `bounded` says that mended values have bounds, which rows in units of their own do not know.
        """
        if scale is None:
            largest = float(np.max(spreads(X.astype(np.float64, copy=False))))
            if largest > LARGEST:
                raise ValueError(
                    f"scale=None compares values of about {largest:.0e}, whose squares are too large: say 'auto'"
                )
            return cls()
        if isinstance(scale, str):
            check_choice("scale", scale, CHOICES)
            kind = _suited(X, bounded) if scale == "auto" else scale
            if kind == "rows" and bounded:
                raise ValueError("bounds are in the units of the columns: leave them out, or scale='rows'")
            if kind == "rows":
                return cls(by_rows=True, shape=common_shape(X))
            return cls(spreads(X) if kind == "columns" else None)
        try:
            sizes = np.broadcast_to(np.asarray(scale, dtype=np.float64), X.shape[1:]).copy()
        except (TypeError, ValueError):
            sizes = np.zeros(1)
        if isinstance(scale, bool) or not (np.isfinite(sizes).all() and (sizes > 0).all()):
            raise ValueError(
                f"scale must be None, 'auto', 'columns', 'rows' or {X.shape[1]} numbers > 0, got {scale!r}"
            )
        return cls(sizes)

    @property
    def name(self) -> str:
        """How rows are compared, in a word."""
        return "rows" if self.by_rows else "common" if self.sizes is None else "columns"

    def enter(self, X: Array, A: Array | None = None) -> Array:
        """Return the rows `X` in these units; or other values of these rows, `A`, in the units that `X` has."""
        A = X if A is None else A
        if self.by_rows:
            middle, size = self.of_rows(X)
            return ((A - middle) / size).astype(X.dtype, copy=False)
        return A if self.sizes is None else (A / self.sizes).astype(X.dtype, copy=False)

    def again(self, X: Array, truth: Array) -> tuple[Array, Array]:
        """Return rows in these units that were changed since they entered, and what they were, as if they entered now.

        Rows in units of their own have other units with an error in them than without it.
        """
        if not self.by_rows:
            return X, truth
        middle, size = self.of_rows(X)
        return (X - middle) / size, (truth - middle) / size

    def leave(self, A: Array, X: Array) -> Array:
        """Return mended rows `A` in the units of `X`, from which they come; what did not change, bit for bit."""
        if self.by_rows:
            middle, size = self.of_rows(X)
            return np.where(self.enter(X) == A, X, A * size + middle).astype(X.dtype, copy=False)
        if self.sizes is None:
            return A
        return np.where(self.enter(X) == A, X, A * self.sizes).astype(X.dtype, copy=False)

    def size(self, X: Array) -> float | Array:
        """Return what a difference of 1 in these units is in those of the data `X`: a number, or one for each entry."""
        return self.of_rows(X)[1] if self.by_rows else 1.0 if self.sizes is None else self.sizes

    def back(self, A: Array, X: Array) -> Array:
        """Return values `A` in these units in the units of rows `X` of the data."""
        if self.by_rows:
            middle, size = self.of_rows(X)
            return np.asarray(A * size + middle)
        return np.asarray(A * self.size(X))

    def of_rows(self, X: Array) -> tuple[Array, Array]:
        """Return the offset and the size of each row, as columns."""
        return row_units(X) if self.shape is None else aligned_units(X, self.shape)

    def bounds(self, bounds: Any) -> Any:
        """Return the limits of mended values in these units; "data" says the same in all."""
        if self.sizes is None or bounds is None or isinstance(bounds, str):
            return bounds
        try:
            low, high = bounds
            return np.asarray(low, dtype=np.float64) / self.sizes, np.asarray(high, dtype=np.float64) / self.sizes
        except (TypeError, ValueError):
            return bounds  # refused where bounds are checked


def resolve_bounds(bounds: Any, good: Array) -> tuple[Array, Array] | None:
    """Return (low, high) per feature: given, or the range of the good rows for "data"; None for none."""
    if bounds is None:
        return None
    if isinstance(bounds, str) and bounds == "data":
        return np.nanmin(good, axis=0), np.nanmax(good, axis=0)
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), good.shape[1:]) for side in bounds)
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be None, 'data' or a pair (low, high) of numbers or of {good.shape[1]} values each, "
            f"got {bounds!r}"
        ) from None
    if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
        raise ValueError(f"bounds must have low <= high, two numbers, got {bounds!r}")
    return low, high


def common_shape(X: Array) -> Array:
    """Return the median of rows, each in units of its own median and spread; 0 in columns that lack all of them."""
    middle, size = row_units(X[_some(len(X))].astype(np.float64))
    scaled = (X[_some(len(X))] - middle) / size
    known = ~np.isnan(scaled).all(axis=0)
    out = np.zeros(X.shape[1])
    out[known] = np.nanmedian(scaled[:, known], axis=0)
    return out


def _some(n: int) -> "np.ndarray[Any, np.dtype[np.intp]]":
    """Return the numbers of the rows on which units are decided, evenly spaced."""
    return np.linspace(0, n - 1, min(n, SOME_ROWS)).astype(np.intp)


def _suited(X: Array, bounded: bool) -> str | None:
    """Return "columns" where columns have units of their own, "rows" where rows are curves of one shape, else None.

    Columns of a series (pixels, channels) share a unit, whatever their spreads are: neighbours differ little, or most
    columns have the same lowest values. What is missing counts as the median of its column.
    """
    some = X[_some(len(X))].astype(np.float64)
    if some.shape[1] >= MANY_COLUMNS:
        if np.isnan(some).any():
            some = np.where(np.isnan(some), np.nanmedian(X, axis=0), some)
        if _ordered(some):
            return "rows" if not bounded and _one_shape(some) else None
        lowest = np.quantile(some, 0.1, axis=0)
        if np.unique(lowest, return_counts=True)[1].max() > some.shape[1] / 2:
            return None
    sizes = spreads(X.astype(np.float64, copy=False))
    far = sizes.max() > LARGEST or sizes.min() < 1 / LARGEST
    return "columns" if far or sizes.max() > APART * sizes.min() else None


def _ordered(X: Array) -> bool:
    d = X.shape[1]
    near = np.abs(np.diff(X, axis=1)).mean(axis=1)
    far = sum(np.abs(X - np.roll(X, d // part, axis=1)).mean(axis=1) for part in (2, 3)) / 2
    return float(np.median(near)) < ORDERED * float(np.median(far))


def _one_shape(X: Array) -> bool:
    middle, size = row_units(X)
    within = np.abs(X - middle)
    if (np.median(within, axis=1) == 0).any():
        return False
    raw = float(np.median(spreads(X))) / (1.4826 * float(np.median(within)))
    return float(np.median(spreads((X - middle) / size))) < ALIKE * raw


def row_units(X: Array) -> tuple[Array, Array]:
    """Return the median and 1.4826 MAD of each row, as columns; 1 where that is 0.

    >>> [part.ravel().round(3).tolist() for part in row_units(np.array([[1.0, 2.0, 9.0], [5.0, 5.0, 5.0]]))]
    [[2.0, 5.0], [1.483, 1.0]]
    """
    middle = column_medians(X.T)[:, np.newaxis]
    size = 1.4826 * column_medians(np.abs(X - middle).T)[:, np.newaxis]
    return middle, np.where(size > 0, size, 1.0)


def aligned_units(X: Array, shape: Array) -> tuple[Array, Array]:
    """Return a and b of x = a + b shape + errors for each row x, as columns, with about the least sum of |errors|.

    b is the spread of the row where that is more than 1 / `LEAST_SHAPE` times as large: such a row is not of this
    shape. Missing entries have no weight.

    >>> X = np.array([[1.0, 3.0, 5.0, 7.0, 9.0], [0.0, 1.0, 2.0, 90.0, 4.0]])
    >>> [part.ravel().round(2).tolist() for part in aligned_units(X, np.arange(5.0))]
    [[1.0, 0.0], [2.0, 1.0]]
    """
    out = np.empty((2, len(X), 1))
    for rows in row_blocks(len(X), X.shape[1]):
        known = ~np.isnan(X[rows])
        Z = np.where(known, X[rows], 0.0).astype(np.float64, copy=False)
        middle, spread = row_units(X[rows].astype(np.float64, copy=False))
        offset, size = middle, spread
        for _ in range(ROUNDS):
            weights = known / np.maximum(np.abs(Z - offset - size * shape), LEAST_ERROR * spread)
            weights /= weights.sum(axis=1, keepdims=True)
            centred = shape - (weights * shape).sum(axis=1, keepdims=True)
            variance = (weights * np.square(centred)).sum(axis=1, keepdims=True)
            slope = (weights * centred * Z).sum(axis=1, keepdims=True) / np.where(variance > 0, variance, 1.0)
            size = np.where(slope > LEAST_SHAPE * spread, slope, spread)
            offset = (weights * (Z - size * shape)).sum(axis=1, keepdims=True)
        out[:, rows] = offset, size
    return out[0], out[1]


def spreads(X: Array) -> Array:
    """Return the spread of each column, which outliers do not touch: half of what two thirds of its values span.

    The standard deviation where most of the values are equal, 1 where all are.

    >>> spreads(np.array([[0.0, 5.0, 0.0], [10.0, 5.0, 0.0], [20.0, 5.0, 0.0], [30.0, 5.0, 2.0]])).round(3)
    array([10.239,  1.   ,  0.524])
    """
    # The same numbers: `np.nanpercentile` looks at one column after the other and takes up to three times as long.
    percentile = np.nanpercentile if np.isnan(X).any() else np.percentile
    low, high = percentile(X, [15.87, 84.13], axis=0)
    half = high / 2.0 - low / 2.0
    with np.errstate(over="ignore", invalid="ignore"):  # of values whose squares no float holds
        deviation = np.nanstd(X.astype(np.float64, copy=False), axis=0)
    out: Array = np.where(half > 0, half, np.where(deviation > 0, deviation, 1.0))
    return out
