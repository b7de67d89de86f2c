"""Many rows: everything is found on some of them, the landmarks, and the others are mended against those in blocks.

Landmarks are drawn at random, so that as few of them are wrong as of all rows; the wrong ones among them are flagged
and left out of the reference as always. Memory is that of m landmarks, m×m, and of one block, never n×n.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

MANY_ROWS = 5000  # from here on "auto" takes landmarks
AUTO_LANDMARKS = 2000
BLOCK = 2000  # rows


def draw_landmarks(n: int, landmarks: Any, seed: int) -> NDArray[np.intp] | None:
    """Return the numbers of the rows to learn from, in order; None if that is all of them."""
    if landmarks is None:
        return None
    count = (AUTO_LANDMARKS if n > MANY_ROWS else n) if isinstance(landmarks, str) else int(landmarks)
    if count >= n:
        return None
    return np.sort(np.random.default_rng(seed).choice(n, count, replace=False))


def blocks(n: int, size: int = BLOCK, *, first: int = 0) -> Iterator[slice]:
    """Yield slices of n rows, a block at a time.

    If these are not all rows, `first` is the number of the first one: cuts are where those of all rows would be, so
    that products have the same sizes and round in the same way.
    """
    cuts = [0, *range(size - first % size, n, size), n]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield slice(start, stop)
