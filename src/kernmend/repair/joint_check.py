"""Whether the joint model, as it was chosen, mends more than it harms: tried on a copy in which the truth is known.

The copy has the rows that look right. What the model took off the wrong rows is injected into as many of them, and all
that was done to the data is done to the copy: the detection, the start, the fit. A table with natural rows far out has
further ones, which the detection flags in its turn, and what is done to these is harm. A gain that is due to one row,
as it is where one natural row was far out, is not sure.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.distances import squared_distances
from kernmend.repair.calibrate import in_order
from kernmend.repair.joint_trial import inject

SURE = 1.645
"""Standard errors by which the mean gain of a row must exceed 0: no gain at all looks so in one of twenty cases."""


class Copy(NamedTuple):
    """Good rows with errors in some of them, and the good rows as they are."""

    rows: Array
    truth: Array

    @classmethod
    def of(cls, X: Array, A: Array, flags: NDArray[np.bool_], changed: NDArray[np.bool_] | None, seed: int) -> "Copy":
        """Return the copy of rows, of which none lacks an entry.

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
        truth = in_order(X[~flags])
        rows = np.random.default_rng(seed).permutation(len(truth))[: min(int(flags.sum()), len(truth) // 2)]
        wrong, mended = (B[flags][: len(rows)] for B in (X, A if changed is None else np.where(changed, A, X)))
        copy = truth.copy()
        copy[rows] = inject(truth[rows], wrong, mended, by_entry=changed is not None)
        return cls(copy, truth)

    def gains(self, A: Array, unit: Any, bounds: tuple[Array, Array] | None, *, along: bool = False) -> Array:
        """Return by how much each row is nearer to the truth than it was, in squared distance.

        With `along`, a row with an error may return to any place on the surface: nearer to the nearest good row.
        Entries whose truth is outside of the bounds do not count: all that is done moves them inside. Nor do as many
        rows without an error as there are with one, those that move most: as many again may be wrong, and nobody knows.
        """
        truth, copy = self.truth, self.rows
        wrong = (copy != truth).any(axis=1)
        if bounds is not None:
            outside = (truth < bounds[0]) | (truth > bounds[1])
            copy, A = (np.where(outside, truth, B) for B in (copy, A))
        before, after = (np.square((B - truth) / unit).sum(axis=1) for B in (copy, A))
        if along:
            good = truth[~wrong] / unit
            before[wrong], after[wrong] = (squared_distances(B[wrong] / unit, good).min(axis=1) for B in (copy, A))
        gain: Array = before - after
        lost = np.flatnonzero(~wrong & (gain < 0))
        gain[lost[np.argsort(gain[lost])[: int(wrong.sum())]]] = 0.0
        return gain


def surely_gains(gain: Array) -> bool:
    """Return whether the mean gain of a row exceeds 0 by `SURE` standard errors."""
    return bool(gain.mean() > SURE * gain.std() / np.sqrt(len(gain)))
