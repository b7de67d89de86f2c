"""A report on rows that a model has mended: what was found of them in place of what the fit found of its own."""

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

# What a fit says of single cells of its rows, which is not about others.
OF_CELLS = ("entry_scores_", "entry_outliers_", "half_widths_", "unsure_", "whole_rows_")


class Applied(NamedTuple):
    """Rows that were mended by a model, which of them do not fit it, and their scores."""

    recovered: Array
    flags: NDArray[np.bool_]
    scores: Array
    suspects: NDArray[np.bool_] | None = None


def telling_of(estimator: Any, X: Array, found: Applied, *, entries: bool = False) -> Any:
    """Return a copy of a fitted estimator whose report tells of the rows `X`.

    `entries` says that these are the rows of the fit, so that what it found of their entries stays.
    """
    out = copy.copy(estimator)
    if not entries:
        vars(out).pop("_row_names", None)
        for name in OF_CELLS:
            vars(out).pop(name, None)
        if hasattr(out, "suspects_"):
            out.suspects_ = np.zeros(len(X), dtype=bool)
    out.recovered_, out.outliers_, out.outlier_scores_ = found.recovered, found.flags, found.scores
    if found.suspects is not None and hasattr(out, "suspects_"):
        out.suspects_ = found.suspects
    reference = out._n_reference
    out._remember(X)
    out._n_reference = reference
    return out
