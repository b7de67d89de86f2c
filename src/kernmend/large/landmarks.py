"""Many rows: everything is found on some of them, the landmarks, and the others are mended against those in blocks.

Landmarks are drawn at random, so that as few of them are wrong as of all rows; the wrong ones among them are flagged
and left out of the reference as always. Memory is that of m landmarks, m×m, and of one block, never n×n.

How many there are follows from the data (`enough`): one more is of use while it adds to what the others span. All rows
are, up to `AUTO_LANDMARKS`: those that are compared with each other are told a little better than others. For each row
beyond that there is one landmark fewer, down to what is enough, so that one row more changes little.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from kernmend._typing import Array
from kernmend.detect import Found
from kernmend.detect.scores import LANDMARKS
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.kernels import RBF
from kernmend.repair.learn import Learner, widths
from kernmend.repair.row_mender import Mask, RowMender, blocks

Index = NDArray[np.intp]

# Added to the seed of the draw. Data made with the same seed, np.random.default_rng(0), would be drawn by the very
# numbers it is made of: the landmarks of a circle would be one half of it.
DRAW = 0x6C6D
# Landmarks that "auto" takes at most, and rows up to which all are, for memory and time: an array of the landmarks by
# each other then has 32 MB, and a fit of 5,000 × 5 stays below 250 MB (`benchmarks missing`); with 4,000 such an array
# has 128 MB, a factorisation takes eight times as long, and nothing is found better.
AUTO_LANDMARKS = 2000
# Rows whose distance from the span of the landmarks is looked at, and the share of them that counts, the nearest: the
# others may be wrong. The standard error of that share is 3 %.
PROBES, NEAREST_SHARE = 200, 0.8
# Landmarks that "auto" takes at least: as many good rows are then among them as detection holds rows against. With 500
# the F1 on a swiss roll and on a torus is 0.1 lower (`benchmarks landmarks`).
LEAST_LANDMARKS = int(LANDMARKS / NEAREST_SHARE)
# Squared distance from the span, as a share of k(x, x), up to which a row adds nothing: a hundredth of its length. A
# swiss roll and a torus are at 1e-3 with 500 landmarks, which are too few, and at 1e-5 with 1,000, which are enough.
IN_SPAN = 1e-4
# Ridge of the Gram matrix, as a share of k(x, x), which is far below that.
RIDGE = 1e-6


def draw_landmarks(n: int, count: int, seed: int) -> Index:
    """Return the numbers of rows to learn from, `count` of n, in the order in which they are drawn.

    They are those with the highest of n random numbers, so that one row more changes at most one of them. Of "auto"
    these are the ones to choose from: the first ones of them, as many as are `enough`.
    """
    numbers = np.random.default_rng([DRAW, seed]).random(n)
    drawn = np.argpartition(numbers, n - count)[n - count :]
    return drawn[np.argsort(-numbers[drawn])]


def pick_landmarks(X: Array, count: int, learner: Learner, *, fewer: bool) -> Index:
    """Return the numbers of the rows of `X` to learn from, in their order: `count`, or if `fewer` as many as needed."""
    drawn = draw_landmarks(len(X), count, learner.seed)
    return np.sort(drawn[: count_landmarks(len(X), X[drawn], learner)] if fewer else drawn)


def count_landmarks(n: int, drawn: Array, learner: Learner) -> int:
    """Return how many landmarks n rows have, of those that were `drawn`, in that order."""
    return min(len(drawn), max(2 * len(drawn) - n, enough(drawn, learner)))


def enough(X: Array, learner: Learner) -> int:
    """Return how many of the first rows of `X` span what all of them do, `LEAST_LANDMARKS` at least.

    That is where most of the rows are within `IN_SPAN` of the span of those before, in the space of the narrowest
    kernel that is tried for mending. Missing entries say nothing of that, so only rows that lack nothing are looked at;
    all rows of `X` are needed where these do not show that fewer are enough.
    """
    inside = learner.units(X).enter(X).astype(np.float64, copy=False)
    complete = inside[~np.isnan(inside).any(axis=1)]
    L, probes = complete[:-PROBES], complete[-PROBES:]
    if len(X) <= LEAST_LANDMARKS or len(L) < PROBES:
        return len(X)
    kernel = RBF(widths(X.shape[1])[-1] / (median_squared_distance(L) or 1.0))
    for first in (L[:LEAST_LANDMARKS], L):  # mostly the least number is enough, and takes a sixth of the time of all
        within = np.flatnonzero(distances_left(kernel, first, probes) <= IN_SPAN)
        if within.size:
            return max(LEAST_LANDMARKS, int(within[0]) + 1)
    return len(X)


def distances_left(kernel: RBF, L: Array, probes: Array) -> Array:
    """Return for each of the rows `L` how far most probes are from the span of it and those before it, squared.

    Most are `NEAREST_SHARE` of them: the result is the largest distance among these.
    """
    K = kernel.gram(L)
    K.flat[:: len(L) + 1] += RIDGE
    root = cholesky(K.T, lower=True, overwrite_a=True, check_finite=False)  # in place: the transpose is Fortran's order
    # Row i is the part of the probes that row i of L adds to the span of those before it.
    added = solve_triangular(root, kernel.gram(L, probes), lower=True, check_finite=False)
    left = 1.0 - np.cumsum(np.square(added), axis=0)
    most = int(NEAREST_SHARE * len(probes)) - 1
    out: Array = np.partition(left, most, axis=1)[:, most]
    return out


def mend_in_blocks(rows: RowMender, X: Array) -> tuple[Array, dict[str, Any]]:
    """Return rows mended, a block at a time, and what was found of them."""
    parts = [rows.mend(X[some], entry_scores=True) for some in blocks(len(X))]
    found = {name: np.concatenate([part[1][name] for part in parts]) for name in parts[0][1]}
    return np.concatenate([part[0] for part in parts]), found


def judge_others(
    rows: RowMender,
    X: Array,
    landmarks: NDArray[np.intp],
    found: Found,
    callback: Callable[[int, float], None] | None = None,
) -> tuple[Array, Array, Array]:
    """Return scores, flags and suspects of all rows: those found of the landmarks, and what these say of the others."""
    judged, out, flagged = [], [], 0
    for some in blocks(len(X)):
        judged.append(rows.judge(X[some]))
        flagged += int(judged[-1].rows.sum())
        if callback is not None:
            callback(some.stop, flagged / some.stop)
    for name in ("scores", "rows", "suspects"):
        values = np.concatenate([getattr(part, name) for part in judged])
        values[landmarks] = getattr(found, name)
        out.append(values)
    return out[0], out[1], out[2]


def mend_others(
    rows: RowMender,
    X: Array,
    landmarks: NDArray[np.intp],
    recovered: Array,
    per_row: dict[str, Any],
    good: Mask = None,
    wrong: Mask = None,
    callback: Callable[[int, float], None] | None = None,
    *,
    first: int = 0,
) -> tuple[Array, dict[str, Any], bool]:
    """Return all rows mended and what was found of them: of the landmarks as given, of the others by these.

    Scores of entries are left out: they are as large as the data, and larger than float32. `first` is the number of the
    first row in the whole data, which blocks go by. The last value says whether Ctrl-C ended it; rows that were not
    reached are as they came.
    """
    others = np.ones(X.shape[0], dtype=bool)
    others[landmarks] = False
    out, parts = X.copy(), {}
    out[landmarks] = recovered
    for name, of_landmarks in per_row.items():
        if name != "entry_scores_":
            parts[name] = np.zeros((X.shape[0], *of_landmarks.shape[1:]), dtype=of_landmarks.dtype)
            parts[name][landmarks] = of_landmarks
    done = 0
    try:
        for some in blocks(X.shape[0], first=first):
            numbers = some.start + np.flatnonzero(others[some])
            if not numbers.size:
                continue
            known = [None if mask is None else mask[numbers] for mask in (good, wrong)]
            out[numbers], found = rows.mend(X[numbers], *known)
            for name, values in parts.items():
                values[numbers] = found[name]
            done += numbers.size
            if callback is not None:
                callback(done, float(parts["outliers_"].mean()))
    except KeyboardInterrupt:
        return out, parts, True
    return out, parts, False
