"""Flags of a given share of the rows."""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array


def flag_share(scores: Array, share: float) -> tuple[NDArray[np.bool_], float]:
    """Return the flags of the given share of the rows, those with the highest scores, and the threshold.

    Flagged are the rows whose score is above the threshold. It is the mean of the lowest score to be flagged and the
    highest other one; where these are equal it is that score, so that fewer rows are flagged than asked for: rows with
    the same score are all flagged or none is. Where nothing is to be flagged it is the highest score. It is always
    finite.
    """
    count, descending = round(share * scores.size), np.append(np.sort(scores)[::-1], -np.inf)
    if not count:
        return np.zeros(scores.size, dtype=bool), float(descending[0])
    lowest, other = float(descending[count - 1]), float(descending[count])
    threshold = 0.5 * (lowest + other)
    if threshold >= lowest:  # equal scores, or a mean that was rounded up
        threshold = other
    threshold = max(threshold, float(np.nextafter(descending[-2], -np.inf)))  # finite where all rows are flagged
    return scores > threshold, threshold
