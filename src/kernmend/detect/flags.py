"""Flags of a given share of the rows."""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array


def flag_share(scores: Array, share: float) -> tuple[NDArray[np.bool_], float]:
    """Return the flags of the given share of the rows, those with the highest scores, and the threshold.

    The threshold is the mean of the lowest flagged score and the highest other one; where nothing is flagged, the
    highest score. It is always finite.
    """
    count = round(share * scores.size)
    descending = np.argsort(-scores, kind="stable")
    flags = np.zeros(scores.size, dtype=bool)
    flags[descending[:count]] = True
    if not count:
        return flags, float(scores.max())
    return flags, float(scores[descending[[count - 1, min(count, scores.size - 1)]]].mean())
