"""Whether the joint model, as it was chosen, mends more than it harms: tried on a copy in which the truth is known.

The copy has the rows that look right. What the fit took off the wrong rows is injected into some of them, and all that
was done to the data is done to the copy: the detection, the start, the fit. Rows that look right may be mended too: a
table with natural rows far out has further ones, which the detection flags in its turn, and what is done to these is
harm.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.repair.calibrate import HELD_OUT, in_order
from kernmend.repair.joint_trial import inject

FEWEST_INJECTED = 10
"""Rows that get an error, at least, if these are a fifth of all at most: of fewer, one decides."""
SURE = 2.0
"""Standard errors by which the mean gain of a row must exceed 0."""


def copy_with_errors(
    X: Array, A: Array, flags: NDArray[np.bool_], changed: NDArray[np.bool_] | None, seed: int
) -> tuple[Array, Array]:
    """Return good rows with the errors of wrong ones in some of them, and the good rows as they are.

    Parameters
    ----------
    X, A
        The rows, none with missing entries, and what the model made of them.
    flags
        Which rows look wrong.
    changed
        Which entries the model replaced, if single entries are wrong: these are injected as they are.
    seed
        Of the rows that get an error.
    """
    rng = np.random.default_rng(seed)
    truth, wrong = in_order(X[~flags]), X[flags]
    mended = A[flags] if changed is None else np.where(changed[flags], A[flags], wrong)
    count = min(max(len(wrong), FEWEST_INJECTED), max(1, int(HELD_OUT * len(truth))))
    rows, each = rng.permutation(len(truth))[:count], np.arange(count) % len(wrong)
    copy = truth.copy()
    copy[rows] = inject(truth[rows], wrong[each], mended[each], by_entry=changed is not None)
    return copy, truth


def gains(copy: Array, truth: Array, A: Array, unit: Any, bounds: tuple[Array, Array] | None) -> Array:
    """Return by how much each row of a copy is nearer to the truth than it was, in squared distance.

    Entries whose truth is outside of the bounds are moved into them by all that is done: they do not count.
    """
    nearer = np.square((copy - truth) / unit) - np.square((A - truth) / unit)
    if bounds is not None:
        nearer = np.where((truth < bounds[0]) | (truth > bounds[1]), 0.0, nearer)
    return np.asarray(nearer.sum(axis=1))


def surely_gains(gain: Array) -> bool:
    """Return whether the mean gain of a row exceeds 0 by `SURE` standard errors."""
    return bool(gain.mean() > SURE * gain.std() / np.sqrt(len(gain)))
