"""Whether the joint model, as it was chosen, mends more than it harms: tried on a copy in which the truth is known.

The copy has the rows that look right. What the model took off the wrong rows is injected into as many of them, and all
that was done to the data is done to the copy: the detection, the start, the fit. A table with natural rows far out has
further ones, which the detection flags in its turn, and what is done to these is harm. A gain that is due to one row,
as it is where one natural row was far out, is not sure.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.distances import squared_distances
from kernmend.repair.calibrate import in_order
from kernmend.repair.joint_trial import inject
from kernmend.solvers.active import MANY_ROWS

SURE = 1.645
"""Standard errors over the injected errors by which the gain must exceed 0, as no gain at all does in 5 % of cases: one
that one error makes alone has 1, one that two of eleven make 1.5. With 2 five outliers of a circle of 60 stay."""
ERRORS = 16
"""Errors to try, at least, on several copies if need be: how well one is mended depends on the row that it is in."""
CLEAR = 2.0 * SURE
"""Standard errors by which a gain or a loss must differ from 0 for no further copy to be tried: twice what is asked."""

UNSEEN = 0.5
"""Rows that may be wrong though they look right, as a share of those that look wrong: nobody flags half of covered
digits; with as many again breast cancer, halves of whose rows were drawn from others, comes back with 1.06."""


class Copy(NamedTuple):
    """Good rows with errors in some of them, the good rows as they are, and which rows have the errors, in order."""

    rows: Array
    truth: Array
    wrong: NDArray[np.intp]

    @classmethod
    def several(
        cls, X: Array, A: Array, flags: NDArray[np.bool_], changed: NDArray[np.bool_] | None, seed: int
    ) -> "Iterator[Copy]":
        """Yield one copy, or so many that `ERRORS` errors are tried, in all. Of many rows it has a part.

        Parameters
        ----------
        X, A
            The rows, and what the model made of them.
        flags
            Which rows look wrong. There is each error once: two rows with the same one would vouch for each other.
        changed
            Which entries the model replaced, if single entries are wrong: these are injected as they are.
        seed
            Of the rows that get an error.
        """
        rng, truth = np.random.default_rng(seed), in_order(X[~flags])
        part = truth[np.sort(rng.permutation(len(truth))[:MANY_ROWS])]
        count, truth = min(-(-int(flags.sum()) * len(part) // len(truth)), max(1, len(part) // 2)), part
        wrong, mended = (B[flags][:count] for B in (X, A if changed is None else np.where(changed, A, X)))
        for _ in range(math.ceil(ERRORS / count)):
            copy, rows = truth.copy(), rng.permutation(len(truth))[:count]
            copy[rows] = inject(truth[rows], wrong, mended, by_entry=changed is not None)
            yield cls(copy, truth, rows)

    def gains(
        self, A: Array, unit: Any, bounds: tuple[Array, Array] | None, *, along: bool = False
    ) -> tuple[Array, float]:
        """Return by how much rows with errors are nearer to the truth than they were, in squared distance, and others.

        The first is for each error, the second a sum. With `along`, a row with an error may return to any place on the
        surface: nearer to the nearest good row. Entries whose truth is outside of the bounds do not count: all that is
        done moves them inside. Nor do a few rows without an error, those that move most: they may be wrong too.
        """
        truth, copy, wrong = self.truth, self.rows, self.wrong
        if bounds is not None:
            outside = (truth < bounds[0]) | (truth > bounds[1])
            copy, A = (np.where(outside, truth, B) for B in (copy, A))
        before, after = (np.square((B - truth) / unit).sum(axis=1) for B in (copy, A))
        good = np.delete(np.arange(len(truth)), wrong)
        harm = np.sort((after - before)[good])[: max(len(good) - round(UNSEEN * len(wrong)), 0)]
        if along:
            before[wrong], after[wrong] = (
                squared_distances(B[wrong] / unit, truth[good] / unit).min(axis=1) for B in (copy, A)
            )
        return (before - after)[wrong], -float(harm.sum())


def surely_gains(copies: Sequence[tuple[Array, float]]) -> bool:
    """Return whether what several copies gain, on the mean, exceeds 0 by `SURE` standard errors over the errors."""
    each = np.mean([gain for gain, _ in copies], axis=0)
    return total_gain(copies) > (SURE * _standard_error(each, len(each)) if len(each) > 1 else 0.0)


def clearly_known(copies: Sequence[tuple[Array, float]]) -> bool:
    """Return whether the copies so far gain or lose so much that others, with the errors in other rows, are not needed.

    What is taken for the standard error of the sum over the errors does not fall with the number of copies: they have
    the same errors.
    """
    gains = np.array([gain for gain, _ in copies])
    return gains.size > 1 and abs(total_gain(copies)) > CLEAR * _standard_error(gains, gains.shape[1])


def total_gain(copies: Sequence[tuple[Array, float]]) -> float:
    """Return what copies gain on their errors and the other rows together, on the mean."""
    return float(np.mean([gain.sum() + others for gain, others in copies]))


def _standard_error(gains: Array, count: int) -> float:
    """Return the standard error of the sum of so many gains."""
    return float(np.std(gains, ddof=1) * np.sqrt(count))
