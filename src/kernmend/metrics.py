"""How good a recovery is. Say of which rows: corrupted and clean ones apart."""

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array


def snr(truth: Array, recovered: Array) -> float:
    """Return 10 log10(|truth|_F^2 / |truth - recovered|_F^2) in dB; infinite where nothing differs.

    >>> snr(np.ones(10), np.full(10, 1.1)).__round__(6)
    20.0
    """
    signal, noise = float(np.sum(np.square(truth))), float(np.sum(np.square(truth - recovered)))
    return float("inf") if noise == 0 else float(10.0 * np.log10(signal / noise))


def mean_shift(before: Array, after: Array) -> float:
    """Return the mean distance by which rows moved.

    >>> mean_shift(np.zeros((2, 2)), np.array([[3.0, 4.0], [0.0, 0.0]]))
    2.5
    """
    return float(np.linalg.norm(after - before, axis=1).mean()) if len(before) else 0.0


def f1_score(truth: NDArray[np.bool_], flags: NDArray[np.bool_]) -> float:
    """Return the F1 of flags; 1.0 where there is nothing to find and nothing was flagged.

    >>> f1_score(np.array([True, True, False]), np.array([True, False, False])).__round__(3)
    0.667
    """
    found, total = int((truth & flags).sum()), int(truth.sum() + flags.sum())
    return 2.0 * found / total if total else 1.0
