"""A second look at rows near the line, where only entries are wrong: how far mending moves them.

What covers a part of a row may change the row's first score little. Once it is known how to mend, the distance |a - x|
that mending moves a row, against a reference without it, is the better score: most of it is what was wrong.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.mending import MAX_REFERENCE, Mender, Settings
from kernmend.separation import Line, draw_line

FOLDS = 5
LEAST_NEAR = 20  # unflagged rows to look at, the highest scores; as many as are flagged if that is more
SAMPLE = 100  # of the other rows
ITERATIONS = 25


@dataclass(frozen=True)
class ChangeScorer:
    """Scores rows by how far mending moves them; as an exponential, since lines are drawn in logarithms."""

    mender: Mender
    settings: Settings

    def score(self, X: Array) -> Array:
        """Return the score of each row."""
        moved = np.linalg.norm(self.mender.mend(X, self.settings, max_iter=ITERATIONS) - X, axis=1)
        out: Array = np.exp(moved / self.mender.scale)
        return out


@dataclass(frozen=True)
class Places:
    """Where rows that are not looked at again stand: by their first score among those that were, below the line."""

    first: Array  # ascending, of a sample
    second: Array  # ascending, of the same rows, perhaps in another order
    limit: float  # first scores from here on are worth a second look
    threshold: float

    def of(self, first: Array) -> Array:
        """Return new standardised scores for first ones."""
        if not self.first.size:
            return np.minimum(first, self.threshold)
        return np.minimum(np.interp(first, self.first, self.second), self.threshold)


def look_again(
    X: Array, z: Array, flags: NDArray[np.bool_], mender: Mender, settings: Settings, *, seed: int
) -> tuple[Array, Line, Places]:
    """Return new standardised scores of all rows, the line between them, and what it is for rows not looked at.

    Mended are the flagged rows, as many of the others with the highest scores, and a sample of the rest, which stands
    for it in drawing the line; rows of the rest that are not mended keep their place in its order.
    """
    rng = np.random.default_rng(seed)
    others = np.flatnonzero(~flags)
    others = others[np.argsort(-z[others], kind="stable")]
    count = max(LEAST_NEAR, int(flags.sum()))
    near, rest = np.concatenate([np.flatnonzero(flags), others[:count]]), others[count:]
    sample = rest[np.sort(rng.permutation(rest.size)[:SAMPLE])]  # by falling score
    judged = np.concatenate([near, sample])
    scores = _scores_without_themselves(X, judged, ~flags, mender, settings, rng)
    times = rest.size // max(sample.size, 1)
    line = draw_line(np.concatenate([scores, *[scores[near.size :]] * max(times - 1, 0)]))
    out = np.empty_like(z)
    out[judged] = line.standardise(scores)
    places = Places(z[sample][::-1], np.sort(out[sample]), float(z[near].min()), line.threshold)
    left = np.setdiff1d(rest, sample)
    out[left] = places.of(z[left])
    return out, line, places


def _scores_without_themselves(
    X: Array,
    rows: NDArray[np.intp],
    good: NDArray[np.bool_],
    mender: Mender,
    settings: Settings,
    rng: np.random.Generator,
) -> Array:
    """Return the scores of some rows, each mended against good rows that it is not among."""
    fold = rng.permutation(rows.size) % FOLDS
    scores = np.empty(rows.size)
    for part in range(min(FOLDS, rows.size)):
        reference = good.copy()
        reference[rows[fold == part]] = False
        L = X[rng.permutation(np.flatnonzero(reference))[:MAX_REFERENCE]]
        scores[fold == part] = ChangeScorer(mender.with_rows(L), settings).score(X[rows[fold == part]])
    return scores
