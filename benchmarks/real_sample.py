"""What every case of `benchmarks real` is: data, and the truth about it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sample:
    """Data with wrong rows, and what is known of them; `train` are clean rows to fit to before."""

    X: np.ndarray
    bad: np.ndarray
    truth: np.ndarray | None = None
    entries: np.ndarray | None = None
    train: np.ndarray | None = None

    @classmethod
    def clean(cls, X: np.ndarray) -> "Sample":
        """Return data in which nothing is wrong."""
        return cls(X, np.zeros(len(X), dtype=bool), X, np.zeros(X.shape, dtype=bool))

    @classmethod
    def of(cls, truth: np.ndarray, X: np.ndarray) -> "Sample":
        """Return corrupted data whose truth is known: wrong is what differs."""
        return cls(X, (truth != X).any(axis=1), truth, truth != X)


def robust_sd(X: np.ndarray) -> np.ndarray:
    """Return 1.4826 MAD of each column; where that is 0 the interquartile range / 1.349, then the sd, then 1."""
    spread = 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
    for other in (np.subtract(*np.percentile(X, [75, 25], axis=0)) / 1.349, X.std(axis=0), np.ones(X.shape[1])):
        spread = np.where(spread > 0, spread, other)
    return spread


def some_rows(n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return the numbers of a share of n rows, one at least, drawn at random."""
    return rng.permutation(n)[: max(1, round(share * n))]
