"""Rows that come in batches: a bounded set of landmarks that follows slow drift."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.large.landmarks import mend_in_blocks
from kernmend.repair.learn import Learned, Learner
from kernmend.repair.row_mender import RowMender

FRESH = 0.25  # Share of the landmarks that one batch replaces at most, so that no batch alone says what is normal.
MUCH = 0.2  # Difference of the share of flagged rows from what it was that makes everything be chosen anew.
FEW = 20  # Rows whose share of flagged ones says little.


@dataclass(frozen=True)
class Batch:
    """What a batch became, what mends the next one, and what was learned anew, if it was."""

    rows: RowMender
    recovered: Array
    per_row: dict[str, Any]
    learned: Learned | None


def follow(
    learner: Learner, rows: RowMender, X: Array, *, most: int, share: float, recalibrate: bool, rng: np.random.Generator
) -> Batch:
    """Score and mend a batch against the landmarks, then let some of its good rows take the place of the oldest.

    Return the batch mended, with what mends the next one. `most` is the number of landmarks, `share` that of the rows
    that were flagged when settings were chosen last.
    """
    inside, L, learned = rows.enter(X), draw(rows.mender.L, most, rng), None
    recovered, found = mend_in_blocks(rows, X)
    now = float(found["outliers_"].mean())
    first = share == 0 and now > 0  # nothing to choose by until now
    if recalibrate or first or (len(X) >= FEW and abs(now - share) > MUCH):
        learned = learner.learn_inside(np.vstack([L, draw(inside, most, rng)]), rows.units)
        L, rows = L[~learned.per_row["outliers_"][: len(L)]], learned.rows
        recovered, found = mend_in_blocks(rows, X)
    fresh = draw(_usable(rows, inside, recovered, ~found["outliers_"]), max(1, int(FRESH * most)), rng)
    return Batch(settle(learner, rows, np.vstack([L, fresh])[-most:]), recovered.astype(X.dtype), found, learned)


def _usable(rows: RowMender, inside: Array, recovered: Array, good: NDArray[np.bool_]) -> Array:
    """Return the rows of a batch that may become landmarks: good ones that lack nothing, filled in ones if none does.

    What is filled in lies where the landmarks already are, and so follows less than what was observed.
    """
    whole = good & ~np.isnan(inside).any(axis=1)
    if whole.any():
        return inside[whole]
    filled = np.where(np.isnan(inside), rows.enter(recovered), inside)[good]
    out: Array = filled[~np.isnan(filled).any(axis=1)]  # unsure values may have been left blank
    return out


def draw(rows: Array, most: int, rng: np.random.Generator) -> Array:
    """Return at most so many of the rows, drawn at random, in their order."""
    return rows if len(rows) <= most else rows[np.sort(rng.choice(len(rows), most, replace=False))]


def settle(learner: Learner, rows: RowMender, L: Array) -> RowMender:
    """Return what mends rows with `L` as the good ones.

    Settings and threshold stay; what scores are typical is seen from `L` itself.
    """
    if len(L) == len(rows.mender.L) and (L == rows.mender.L).all():
        return rows
    mender = learner.mender(rows.units, L, np.zeros(len(L), dtype=bool))
    return replace(rows, mender=mender, detector=rows.detector.against(L))
