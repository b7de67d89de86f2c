"""Flags by scores that are no chances: a given share of the rows, or rows that moved far more than the others."""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

# Threshold of `flag_large` above the median, in spreads of the lower half of the scores (median - 15.87th percentile,
# a standard deviation if scores are normal).
LARGE = 5.0


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


def flag_large(scores: Array, least: float) -> tuple[NDArray[np.bool_], float]:
    """Return the flags of the rows whose score is far above the others, and the threshold, which is `least` or more.

    The threshold is median + `LARGE` * (median - 15.87th percentile). Outliers do not change the spread of the lower
    half. Where half of the scores are 0 the threshold is `least`; where every row has some error it is higher.
    """
    low, median = np.percentile(scores, [15.87, 50.0])
    threshold = max(float(least), float(median + LARGE * (median - low)))
    return scores > threshold, threshold
