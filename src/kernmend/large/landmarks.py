"""Many rows: everything is found on some of them, the landmarks, and the others are mended against those in blocks.

Landmarks are drawn at random, so that as few of them are wrong as of all rows; the wrong ones among them are flagged
and left out of the reference as always. Memory is that of m landmarks, m×m, and of one block, never n×n.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.detect import Found
from kernmend.repair.row_mender import Mask, RowMender
from kernmend.repair.row_mender import blocks as blocks

# Added to the seed of the draw. Data made with the same seed, np.random.default_rng(0), would be drawn by the very
# numbers it is made of: the landmarks of a circle would be one half of it.
DRAW = 0x6C6D
AUTO_LANDMARKS = 2000  # Landmarks that "auto" takes, where there are more rows: 5,000 take six times as long.


def draw_landmarks(n: int, landmarks: Any, seed: int) -> NDArray[np.intp] | None:
    """Return the numbers of the rows to learn from, in order; None if that is all of them.

    They are those with the highest of n random numbers, so that one row more changes at most one of them.
    """
    if landmarks is None:
        return None
    count = AUTO_LANDMARKS if isinstance(landmarks, str) else int(landmarks)
    if count >= n:
        return None
    return np.sort(np.argpartition(np.random.default_rng([DRAW, seed]).random(n), n - count)[n - count :])


def mend_in_blocks(rows: RowMender, X: Array) -> tuple[Array, dict[str, Any]]:
    """Return rows mended, a block at a time, and what was found of them."""
    parts = [rows.mend(X[some], entry_scores=True) for some in blocks(len(X))]
    found = {name: np.concatenate([part[1][name] for part in parts]) for name in parts[0][1]}
    return np.concatenate([part[0] for part in parts]), found


def judge_others(rows: RowMender, X: Array, landmarks: NDArray[np.intp], found: Found) -> tuple[Array, Array, Array]:
    """Return scores, flags and suspects of all rows: those found of the landmarks, and what these say of the others."""
    judged = [rows.judge(X[some]) for some in blocks(len(X))]
    out = []
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
    good: Mask,
    wrong: Mask,
    callback: Callable[[int, float], None] | None,
) -> tuple[Array, dict[str, Any], bool]:
    """Return all rows mended and what was found of them: of the landmarks as given, of the others by these.

    Scores of entries are left out: they are as large as the data, and larger than float32. The last value says whether
    Ctrl-C ended it; rows that were not reached are as they came.
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
        for some in blocks(X.shape[0]):
            numbers = some.start + np.flatnonzero(others[some])
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
