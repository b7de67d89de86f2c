"""Checks that name what is wrong, where, and what to do; done once, in the estimators."""

import numbers
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

Names: TypeAlias = "np.ndarray[Any, Any] | tuple[str, ...] | None"


def check_infinite(X: Array, names: Names) -> None:
    """Raise ValueError that names the first infinite entry and counts the rest; NaN is allowed, it means missing."""
    _refuse("inf", np.isinf(X), names, "Put NaN where a value is missing, a number elsewhere")


def check_no_missing(X: Array, names: Names) -> None:
    """Raise ValueError that names the first missing entry and counts the rest."""
    _refuse("NaN", np.isnan(X), names, "Fill in what is missing first: KernelRecovery().fit_transform(X) does it")


def _refuse(what: str, bad: NDArray[np.bool_], names: Names, advice: str) -> None:
    if not bad.any():
        return
    row, column = (int(index) for index in np.argwhere(bad)[0])
    where = f"column {column}" if names is None else f"column {names[column]!r}"
    others = int(bad.sum()) - 1
    more = f", and {others} more such entries" if others else ""
    raise ValueError(f"X contains {what}: row {row} has it in {where}{more}. {advice}")


def check_positive(name: str, value: object) -> float:
    """Return a positive finite number as a float; ValueError otherwise."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 < float(value) < np.inf:
        return float(value)
    raise ValueError(f"{name} must be a positive number or 'auto', got {value!r}")


def check_auto(name: str, value: object) -> float | None:
    """Return a positive finite number as a float, None for "auto"; ValueError otherwise."""
    return None if isinstance(value, str) and value == "auto" else check_positive(name, value)


def check_noise(value: object) -> float:
    """Return a standard deviation as a float; ValueError otherwise."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 <= float(value) < np.inf:
        return float(value)
    raise ValueError(f"noise must be a number >= 0, got {value!r}")


def check_count(name: str, value: object) -> int:
    """Return an integer >= 1; ValueError otherwise."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1:
        return int(value)
    raise ValueError(f"{name} must be an integer >= 1, got {value!r}")


def check_known(good: Any, wrong: Any, n_samples: int) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
    """Return masks of known rows as bool arrays; ValueError where they do not fit the rows or each other."""
    masks = []
    for name, mask in (("good", good), ("wrong", wrong)):
        values = None if mask is None else np.asarray(mask)
        if values is not None and (values.dtype != bool or values.shape != (n_samples,)):
            raise ValueError(
                f"{name} must be {n_samples} bools, one for each row, got {values.dtype} of shape {values.shape}"
            )
        masks.append(values)
    if masks[0] is not None and masks[1] is not None and (masks[0] & masks[1]).any():
        raise ValueError(f"row {int(np.flatnonzero(masks[0] & masks[1])[0])} is both in good and in wrong")
    if masks[1] is not None and n_samples - int(masks[1].sum()) < 2:
        raise ValueError("wrong leaves fewer than 2 rows to learn from")
    return masks[0], masks[1]


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_gram(name: str, gram: object, n_samples: int, dtype: Any) -> Array:
    """Return a symmetric (n_samples, n_samples) array; ValueError otherwise. Whether it is PSD is seen later."""
    K: Array = np.asarray(gram, dtype=dtype)
    if K.shape != (n_samples, n_samples):
        raise ValueError(f"{name} must have one row and one column per sample, {(n_samples, n_samples)}, got {K.shape}")
    if not np.isfinite(K).all():
        row, column = np.argwhere(~np.isfinite(K))[0]
        raise ValueError(f"{name} has {K[row, column]} at row {row}, column {column}")
    skew = np.abs(K - K.T)
    if float(skew.max()) > 1e-6 * float(np.abs(K).max()):
        row, column = np.unravel_index(int(skew.argmax()), skew.shape)
        raise ValueError(
            f"{name} must be symmetric, but entries ({row}, {column}) and ({column}, {row}) are "
            f"{K[row, column]:.6g} and {K[column, row]:.6g}: pass (gram + gram.T) / 2 if that is meant"
        )
    return K
