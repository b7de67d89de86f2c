"""Flags where no chance is known: a share of the rows that was asked for, or rows that moved far more than others."""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

LARGE = 5.0  # spreads of the lower half: an error above is larger than those of the other rows


def flag_share(scores: Array, share: float) -> tuple[NDArray[np.bool_], float]:
    """Return the flags of that share of the highest scores, and a finite threshold between them and the others."""
    count = round(share * scores.size)
    descending = np.argsort(-scores, kind="stable")
    flags = np.zeros(scores.size, dtype=bool)
    flags[descending[:count]] = True
    if not count:
        return flags, float(scores.max())
    return flags, float(scores[descending[[count - 1, min(count, scores.size - 1)]]].mean())


def flag_large(scores: Array, least: float) -> tuple[NDArray[np.bool_], float]:
    """Return the flags of scores far above the others, and the threshold: never below `least`.

    The threshold is median + `LARGE` * (median - 15.87th percentile), as many times the spread of the lower half, which
    outliers do not touch: where half the scores are 0 it is `least`, where every row has some error it is above that.
    """
    low, median = np.percentile(scores, [15.87, 50.0])
    threshold = max(float(least), float(median + LARGE * (median - low)))
    return scores > threshold, threshold
