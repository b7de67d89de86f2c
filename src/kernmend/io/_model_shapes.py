"""Which arrays of a saved model belong together: a file whose arrays do not is refused when it is read.

A shape is written with one letter per axis: d is the number of columns of the data, the same in all of a model; other
letters stand for one number within one object. Arrays that are not listed are checked for NaN only.
"""

from typing import Any

import numpy as np

from kernmend.io._encoding import EncodingError, known_classes, schema

OF_ESTIMATORS = {
    "recovered_": "nd",
    "outlier_scores_": "n",
    "outliers_": "n",
    "suspects_": "n",
    "entry_scores_": "nd",
    "entry_outliers_": "nd",
    "whole_rows_": "n",
    "unsure_": "nd",
    "half_widths_": "nd",
    "_changed_rows": "c",
    "_originals": "cd",
    "feature_names_in_": "d",
    "components_": "rd",
    "singular_values_": "r",
    "coefficients_": "nn",
    "affinity_": "nn",
    "_L": "ld",
}
OTHERS = {
    "Mender": {"L": "md"},
    "Reference": {"L": "mq", "V": "mk"},  # q: the columns, or coordinates in what the rows span
    "Detector": {"centre": "d", "scale": "d"},
    "Logarithms": {"offset": "d", "factor": "d"},
    "KernelSpan": {"L": "md", "U": "mk", "s": "k", "centre": "d"},
    "Units": {"sizes": "d", "shape": "d"},
    "Intervals": {
        "quantiles": "k",
        "wrong": "k",
        "factors": "d",
        "lowest": "d",
        "highest": "d",
        "spreads": "d",
        "L": "md",
    },
}
MAY_LACK = frozenset(["_originals"])
"""Arrays in which NaN means a missing value."""


def check_arrays(model: Any) -> None:
    """Raise EncodingError if arrays of a model do not belong together, or hold NaN where none can be."""
    _check(model, type(model).__name__, {"d": int(model.n_features_in_)})
    changed = model._changed_rows
    if changed.size and not (changed.min() >= 0 and changed.max() < len(model.recovered_)):
        raise EncodingError("it tells of changed rows that are not there")


def _check(value: Any, where: str, sizes: dict[str, int]) -> None:
    """Check one object and what it is made of."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and np.isnan(value).any():
            raise EncodingError(f"{where} has NaN")
    elif isinstance(value, dict):
        for part in value.values():
            _check(part, where, sizes)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _check(part, where, sizes)
    elif known_classes().get(type(value).__name__) is type(value):
        named = OF_ESTIMATORS if hasattr(value, "recovered_") else OTHERS.get(type(value).__name__, {})
        own = dict(sizes)
        cls: Any = type(value)
        for name in schema(cls):
            part = vars(value).get(name)
            if name in named and isinstance(part, np.ndarray):
                _check_shape(part, named[name], f"{where}.{name}", own)
            if name not in MAY_LACK and not (name == "recovered_" and _leaves_blanks(value)):
                _check(part, f"{where}.{name}", sizes)


def _leaves_blanks(est: Any) -> bool:
    """Return whether mended rows of an estimator may have NaN: values that are not known."""
    return getattr(est._inner, "unsure", "mend") != "mend"


def _check_shape(array: "np.ndarray[Any, Any]", letters: str, where: str, sizes: dict[str, int]) -> None:
    """Check the shape of an array; the first that has a letter says what it stands for."""
    fits = array.ndim == len(letters) and all(
        sizes.setdefault(letter, length) == length for letter, length in zip(letters, array.shape, strict=True)
    )
    if not fits:
        raise EncodingError(f"{where} is {array.shape}, which does not belong to the other arrays")
