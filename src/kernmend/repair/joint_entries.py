"""Which entries of wrong rows are wrong, for the joint model: those that a mending row by row changes.

An error model of entries in the joint model itself lets entries of every row move: on images it harms more than it
mends. So wrong rows are mended one by one, by entries, and the joint model is solved with all rows held as wholes, the
mended ones where they are then: without their wrong entries they are right. What counts as changed is chosen on
injected errors like all else.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.repair.calibrate import GROW, SEARCH_ITERATIONS, SEARCH_TOL
from kernmend.repair.mender import Mender, Settings

PAIRS = ((0.3, 0), (1.0, 0), (0.6, GROW), (1.0, GROW), (1.5, GROW))
"""Pairs of `Settings.refit` and `Settings.grow` to try: what of a row counts as changed."""


def fill_entries(X: Array, wrong: NDArray[np.bool_], settings: Settings) -> Array:
    """Return rows with wrong entries of the wrong rows filled in and all others as they are."""
    out = X.copy()
    out[wrong] = Mender(X[~wrong]).mend(X[wrong], settings, max_iter=SEARCH_ITERATIONS, tol=SEARCH_TOL)
    return out


def find_entries(
    mender: Mender, rows: Array, first: Settings, left: Callable[[Array], float]
) -> tuple[Settings, Array]:
    """Return the settings that find the wrong entries of wrong rows best, and the rows with those filled in.

    `mender` has the good rows, all that there are: against fewer ones mending changes more of a right entry, and what
    counts as changed would be chosen too high. `left` says how far rows are from what they should be. What all pairs
    have in common is done once.
    """
    found: list[tuple[Settings, Array]] = []
    budget: dict[str, Any] = {"max_iter": SEARCH_ITERATIONS, "tol": SEARCH_TOL}
    start = mender.start(rows, first.error)
    changed = mender.mend(rows, replace(first, refit=0.0, grow=0), start=start, **budget)
    for refit, grow in PAIRS:
        settings = replace(first, refit=refit, grow=grow)
        found.append((settings, mender.refit(changed, rows, settings, start=start, **budget)))
    return min(found, key=lambda each: left(each[1]))
