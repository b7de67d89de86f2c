"""Many rows: everything is found on some of them, the landmarks, and the others are mended against those in blocks.

Landmarks are drawn at random, so that as few of them are wrong as of all rows; the wrong ones among them are flagged
and left out of the reference as always. Memory is that of m landmarks, m×m, and of one block, never n×n.
"""

from collections.abc import Iterator
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


def blocks(n: int, size: int = BLOCK) -> Iterator[slice]:
    """Yield slices of n rows, a block at a time."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
