"""Rows: blocks of them, their order, how many threads products with them take, and squared distances between them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from threadpoolctl import ThreadpoolController

from kernmend._typing import Array

# Entries of a block of rows, 8 MB of float64: small beside the n×n arrays that the memory is counted in.
_BLOCK_ELEMENTS = 1 << 20
# Entries of a block that stays in the cache for several passes, half a megabyte of float64.
_CACHED_ELEMENTS = 1 << 16
# Columns that are looked at in one round to order rows. Few tell most of them apart, the others are looked at again.
_COLUMNS = 16
# Number of entries up to which a matrix is small: its product with one of `THIN` columns takes milliseconds.
_SMALL = 2_000_000
# Number of columns of a thin matrix.
THIN = 50
# Largest number of rows on which a typical distance is measured: a test asks for 5 % of what 3,000 rows have.
_SOME_ROWS = 500
# Number of columns from which on distances of all pairs by inner products are faster than one by one, and the median,
# as a share of the largest, from which on they give it to eleven digits.
_WIDE, _PLAIN = 64, 1e-4
# Distance from the centre, in caps, at which entries are clipped: the squares of larger ones would overflow in float32.
_FAR = 1e6


def row_blocks(n_rows: int, n_columns: int, *, elements: int | None = None) -> Iterator[slice]:
    """Return slices of rows whose blocks of an (n_rows, n_columns) array have `elements` entries (None: a million)."""
    size = max(1, (elements or _BLOCK_ELEMENTS) // max(1, n_columns))
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def cached_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows whose blocks of an (n_rows, n_columns) array stay in the cache for several passes."""
    return row_blocks(n_rows, n_columns, elements=_CACHED_ELEMENTS)


def few_threads(n_entries: int) -> AbstractContextManager[Any]:
    """Return a context with one BLAS thread for loops over small matrices, and one without effect for others.

    A second thread saves little there, and where other processes use the cores, the threads wait for each other at
    every call: on 2 busy cores a Robust PCA of 500×500 took 20 s with two threads and 0.2 s with one.
    """
    return _controller().limit(limits=1, user_api="blas") if n_entries <= _SMALL else nullcontext()


@cache
def _controller() -> Any:
    """Return the controller of the thread pools, made once, since finding the pools takes milliseconds."""
    return ThreadpoolController()


# --- their order: it is their own, and does not depend on that of the data --------------------------------------------


def lexicographic(rows: "np.ndarray[Any, Any]") -> NDArray[np.intp]:
    """Return the numbers of the rows in the order of their first column, then of the second, and so on; NaN comes last.

    Equal rows stay in the order they are in.

    >>> lexicographic(np.array([[0, 2, 1], [0, 1, 1], [0, 1, 0]])).tolist()
    [2, 1, 0]
    """
    if rows.shape[1] <= _COLUMNS:
        of_all: NDArray[np.intp] = np.lexsort(rows.T[::-1])
        return of_all
    place = np.zeros(len(rows), dtype=np.intp)  # in the order, of the first of the rows that are equal so far
    equal = np.arange(len(rows))
    for start in range(0, rows.shape[1], _COLUMNS):
        part = rows[equal, start : start + _COLUMNS]
        part = part[:, (part != part[:1]).any(axis=0)]
        if not part.shape[1]:
            continue
        order = np.lexsort((*part.T[::-1], place[equal]))
        equal, number = equal[order], np.arange(equal.size)
        group = _runs(np.diff(place[equal]) == 0)
        run = _runs((group[1:] == group[:-1]) & same_as_before(part[order]))
        place[equal] += run - group
        equal = equal[(run != number) | np.append(run[1:] == number[:-1], False)]
        if not equal.size:
            break
    out: NDArray[np.intp] = np.argsort(place, kind="stable")
    return out


def _runs(same: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return for each element the number of the first one of its run; `same` says which are like the one before."""
    number = np.arange(same.size + 1)
    number[1:][same] = 0
    out: NDArray[np.intp] = np.maximum.accumulate(number)
    return out


def same_as_before(rows: "np.ndarray[Any, Any]") -> NDArray[np.bool_]:
    """Return which of the rows, but for the first, are equal to the one before; NaN is equal to NaN."""
    after, before = rows[1:], rows[:-1]
    same: NDArray[np.bool_] = ((after == before) | ((after != after) & (before != before))).all(axis=1)
    return same


# --- squared distances: plain, capped, and of rows with missing entries -----------------------------------------------


def squared_distances(X: Array, Y: Array | None = None) -> Array:
    """Return |x_i - y_j|^2, in one (n, m) array and exactly 0 on the diagonal where `Y` is None."""
    centre = centre_of(X)
    Xc = X - centre
    x2 = np.einsum("ij,ij->i", Xc, Xc)
    if Y is not None:
        Yc = Y - centre
        return squared_distances_by_norms(Xc, x2, Yc, np.einsum("ij,ij->i", Yc, Yc))
    t = squared_distances_by_norms(Xc, x2, Xc, x2)
    np.fill_diagonal(t, 0.0)
    return t


def capped_squared_distances(X: Array, Y: Array, cap: float) -> Array:
    """Return sum_k min(|x_ik - y_jk| / cap, 1)^2 in float32: no entry counts for more than `cap`, which counts as 1.

    There is no matrix product in it: blocks that stay in the cache, without temporaries, make it fast.
    """
    centre = centre_of(Y)
    Xc, Yc = (np.clip((rows - centre) / cap, -_FAR, _FAR).astype(np.float32) for rows in (X, Y))
    t = np.empty((X.shape[0], Y.shape[0]), dtype=np.float32)
    for rows in cached_blocks(*Y.shape):
        block = Yc[rows]
        difference = np.empty_like(block)
        for x, out in zip(Xc, t[:, rows], strict=True):
            np.subtract(block, x, out=difference)
            np.clip(difference, -1.0, 1.0, out=difference)
            np.einsum("ij,ij->i", difference, difference, out=out)
    return t


def centre_of(X: Array) -> Array:
    """Return a point among the rows: the median of at most 64 of them, evenly spaced.

    Rows are centred there before distances are computed. Distances do not depend on it, but their rounding grows with
    the norms. The median of some rows is as good as the mean of all, and one far outlier does not move it.
    """
    if not len(X):
        return np.zeros(X.shape[1:], X.dtype)
    ordered = np.sort(X[:: X.shape[0] // 64 + 1], axis=0)  # `np.median` takes twice as long
    centre: Array = 0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2])
    return centre


def squared_distances_by_norms(X: Array, x2: Array, Y: Array, y2: Array) -> Array:
    """Return |x_i - y_j|^2 of rows near the origin, from their squared norms."""
    t: Array = X @ Y.T
    for rows in cached_blocks(*t.shape):
        part = t[rows]
        part *= -2.0
        part += x2[rows, np.newaxis]
        part += y2
        np.maximum(part, 0.0, out=part)
    return t


def median_squared_distance(X: Array, *, max_rows: int = _SOME_ROWS, seed: int = 0) -> float:
    """Return the median of |x_i - x_j|^2 over pairs of different rows, on at most `max_rows` of them.

    Where over half of the pairs coincide it is the mean of the others, and 0.0 only if all rows are equal.
    """
    some = _some_rows(X, max_rows, seed)
    if some.shape[0] > 1 and some.shape[1] >= _WIDE:
        pairs = squared_distances(some)[np.triu_indices(some.shape[0], 1)]
        median = float(np.median(pairs))
        if median > _PLAIN * float(pairs.max()):
            return median
    return _typical(pdist(some, "sqeuclidean"))  # exactly 0 for equal rows


def observed_squared_distances(X: Array, Y: Array | None = None) -> Array:
    """Return d / |common| sum_{k common} (x_ik - y_jk)^2 over the features that both rows have; inf where none is.

    `Y=None` means `X`, with a diagonal of 0. The factor makes distances over few and over many features comparable.
    """
    centre = column_medians(X if Y is None else Y)  # Far from the origin the differences would be rounding only.
    Xc = X - centre
    Yc = Xc if Y is None else Y - centre
    x_seen, y_seen = (~np.isnan(Z) for Z in (Xc, Yc))
    Xc, Yc = (np.where(seen, Z, 0.0) for seen, Z in ((x_seen, Xc), (y_seen, Yc)))
    x_seen, y_seen = x_seen.astype(Xc.dtype), y_seen.astype(Xc.dtype)
    common = x_seen @ y_seen.T
    t: Array = Xc @ Yc.T
    t *= -2.0
    t += (Xc * Xc) @ y_seen.T
    t += x_seen @ (Yc * Yc).T
    np.maximum(t, 0.0, out=t)
    with np.errstate(divide="ignore", invalid="ignore"):
        t *= X.shape[1] / common
    t[common == 0] = np.inf
    if Y is None:
        np.fill_diagonal(t, 0.0)
    return t


def largest_size(X: Array) -> float:
    """Return the largest |x|, without NaN and without a second array; 0.0 of nothing.

    >>> largest_size(np.array([[1.0, -3.0], [np.nan, 2.0]]))
    3.0
    """
    high, low = (reduce.reduce(X, axis=None, initial=0.0) for reduce in (np.fmax, np.fmin))
    return max(float(high), -float(low))


def column_medians(X: Array) -> Array:
    """Return the median of each column without its NaN; 0 for a column of nothing else.

    All columns are sorted at once: `np.nanmedian` looks at one after the other.
    """
    seen = ~np.isnan(X)
    values = np.sort(X if seen.all() else np.where(seen, X, np.inf), axis=0)
    count, columns = seen.sum(axis=0), np.arange(X.shape[1])
    low, high = (values[np.maximum(place, 0), columns] for place in ((count - 1) // 2, count // 2))
    return np.where(count > 0, 0.5 * low + 0.5 * high, 0.0).astype(X.dtype, copy=False)


def median_observed_squared_distance(X: Array) -> float:
    """Return the median of `observed_squared_distances` over pairs of different rows, on at most 500 of them.

    Where over half of the pairs coincide it is the mean of the others, and 0.0 only if no two rows differ. The gamma of
    a kernel is given in units of its inverse.
    """
    X = _some_rows(X, _SOME_ROWS, 0)
    pairs = observed_squared_distances(X)[np.triu_indices(X.shape[0], 1)]
    return _typical(pairs[np.isfinite(pairs)])


def _some_rows(X: Array, most: int, seed: int) -> Array:
    """Return at most `most` of the rows, drawn at random if there are more."""
    return X if X.shape[0] <= most else X[np.random.default_rng(seed).choice(X.shape[0], most, replace=False)]


def _typical(pairs: Array) -> float:
    """Return the median of squared distances; where that is 0 the mean of those above 0, and 0 if there is none."""
    median = float(np.median(pairs)) if pairs.size else 0.0
    apart = pairs[pairs > 0]
    return median if median > 0 or apart.size == 0 else float(apart.mean())
