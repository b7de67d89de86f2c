"""Checks that name what is wrong, where, and what to do; done once, in the estimators."""

import numbers
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.linalg.distances import largest_size
from kernmend.model.errors import ERROR_MODELS, RowSum
from kernmend.model.kernels import KERNELS, Kernel, Polynomial
from kernmend.model.penalties import PENALTIES
from kernmend.solvers import SOLVERS

# Largest size of a value, and 1 / the least size of the largest one: squares, with room for sums, are floats above 0.
LARGEST = 1e150
# What the largest size is in single precision.
LARGEST_SINGLE = 1e18
Names: TypeAlias = "np.ndarray[Any, Any] | tuple[str, ...] | None"


def check_infinite(X: Array, names: Names) -> None:
    """Raise ValueError that names the first infinite entry and counts the rest; NaN is allowed, it means missing."""
    _refuse(
        "inf",
        np.isinf(X),
        names,
        "Put NaN where a value is missing, a number elsewhere; of a file you may say --missing inf",
    )


def unmasked(X: Any) -> Array:
    """Return a masked array as floats, with NaN where it is masked.

    >>> unmasked(np.ma.masked_equal([[1, -999]], -999)).tolist()
    [[1.0, nan]]
    """
    out: Array = X.astype(X.dtype if X.dtype.kind == "f" else np.float64).filled(np.nan)
    return out


def in_range(X: Array, names: Names, *, tiny: bool) -> Array:
    """Return rows whose squares floats hold: those of float32 in float64 where it does not hold them.

    ValueError that names the first value whose square is infinite; unless `tiny`, also if no square is above 0.

    >>> [in_range(np.array([[1.0, size]], dtype=np.float32), None, tiny=False).dtype.itemsize for size in (2.0, 1e20)]
    [4, 8]
    """
    largest = largest_size(X)
    if X.dtype == np.float32:
        fits = largest == 0.0 or 1.0 / LARGEST_SINGLE <= largest <= LARGEST_SINGLE
        return X if fits else X.astype(np.float64)
    if largest > LARGEST:
        advice = f"Divide X by a number, or put NaN where it is wrong: squares of more than {LARGEST:.0e} are infinite"
        _refuse("values that are too large", np.abs(X) > LARGEST, names, advice)
    if not tiny and 0.0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"X contains values that are too small: the largest is {largest:.0e}. Multiply X by a number: squares of "
            f"less than {1.0 / LARGEST:.0e} are 0"
        )
    return X


def check_no_missing(X: Array, names: Names) -> None:
    """Raise ValueError that names the first missing entry and counts the rest."""
    _refuse("NaN", np.isnan(X), names, "Fill in what is missing first: KernelRecovery().fit_transform(X) does it")


def check_missing(X: Array, names: Names = None) -> NDArray[np.bool_]:
    """Return which entries of X are NaN; ValueError where a whole row or column is, with its name.

    >>> check_missing(np.array([[1.0, np.nan], [2.0, 3.0]]))
    array([[False,  True],
           [False, False]])
    """
    missing = np.isnan(X)
    rows, columns = (np.flatnonzero(missing.all(axis=axis)).tolist() for axis in (1, 0))
    if columns:
        said = [str(j) if names is None else repr(str(names[j])) for j in columns]
        raise ValueError(f"nothing is observed in {_list('column', said)}")
    if rows:
        raise ValueError(f"nothing is observed in {_list('row', [*map(str, rows)])}")
    return missing


def _list(what: str, names: list[str]) -> str:
    """Return which rows or columns these are, and what to do with them."""
    if len(names) == 1:
        return f"{what} {names[0]}: drop it, or give it at least one value"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{what}s {', '.join(names[:5])}{more}: drop them, or give each at least one value"


def _refuse(what: str, bad: NDArray[np.bool_], names: Names, advice: str) -> None:
    if not bad.any():
        return
    row, column = (int(index) for index in np.argwhere(bad)[0])
    where = f"column {column}" if names is None else f"column {names[column]!r}"
    others = int(bad.sum()) - 1
    more = f", and {others} more such entries" if others else ""
    raise ValueError(f"X contains {what}: row {row} has it in {where}{more}. {advice}")


def real(value: object) -> float:
    """Return a real number as a float, and NaN, which lies between no limits, for anything else.

    >>> real(2), real(True), real("auto")
    (2.0, nan, nan)
    """
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else np.nan


def check_positive(name: str, value: object) -> float:
    """Return a positive finite number as a float; ValueError otherwise."""
    if 0 < real(value) < np.inf:
        return real(value)
    raise ValueError(f"{name} must be a positive number or 'auto', got {value!r}")


def check_auto(name: str, value: object) -> float | None:
    """Return a positive finite number as a float, None for "auto"; ValueError otherwise."""
    return None if isinstance(value, str) and value == "auto" else check_positive(name, value)


def check_noise(value: object) -> float:
    """Return a standard deviation as a float; ValueError otherwise."""
    if 0 <= real(value) < np.inf:
        return real(value)
    raise ValueError(f"noise must be a number >= 0, got {value!r}")


def check_count(name: str, value: object, other: str = "") -> int:
    """Return an integer >= 1; ValueError otherwise, which also names what `other` values there are."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1:
        return int(value)
    raise ValueError(f"{name} must be {other}an integer >= 1, got {value!r}")


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


# --- the parameters of the estimators ---------------------------------------------------------------------------------


def check_recovery(est: Any) -> None:
    """Check the parameters of `KernelRecovery`."""
    check_model(est)
    if not 0 < real(est.alpha) <= 1:
        raise ValueError(f"alpha must be a number above 0 and at most 1, got {est.alpha!r}")
    _check_error(est.error, ("auto", *ERROR_MODELS))
    if isinstance(est.landmarks, str):
        check_choice("landmarks", est.landmarks, ("auto",))
    elif est.landmarks is not None:
        check_count("landmarks", est.landmarks)
    check_interval(est.interval, est.unsure)
    check_common(est)


def check_interval(interval: object, unsure: object) -> None:
    """Check the level of intervals, and what to do where they are too wide."""
    if interval is not None and not 0 < real(interval) < 1:
        raise ValueError(f"interval must be None or a level between 0 and 1, such as 0.9, got {interval!r}")
    check_choice("unsure", unsure, ("mend", "blank", "keep"))
    if interval is None and unsure != "mend":
        raise ValueError(f"unsure={unsure!r} needs intervals: give a level, such as interval=0.9")


def check_low_rank(est: Any) -> None:
    """Check the parameters of `KernelLowRank`."""
    check_model(est)
    _check_error(est.error, ("auto", *ERROR_MODELS))
    check_choice("penalty", est.penalty, ("auto", *PENALTIES))
    check_choice("solver", est.solver, tuple(SOLVERS))
    if isinstance(est.init, str):
        check_choice("init", est.init, ("auto", "data", "zeros"))
    check_budget(est)
    if est.penalty == "schatten" and not (isinstance(est.rho, str) and est.rho == "auto"):
        raise ValueError("rho belongs to the nuclear penalty: leave it at 'auto' with penalty='schatten'")
    if est.solver != "reduced" and (est.bounds is not None or est.penalty == "schatten"):
        raise ValueError(f"solver={est.solver!r} knows neither bounds nor penalty='schatten': use solver='reduced'")


def check_model(est: Any) -> None:
    """Check what both kernel models have: the kernel and its parameters, `lam` and `rho`."""
    check_kernel(est)
    for name in ("gamma", "lam", "rho"):
        value = getattr(est, name)
        if not (isinstance(value, str) and value == "auto"):
            check_positive(name, value)


def check_kernel(est: Any) -> None:
    """Check `kernel`, and `degree` and `coef0` if they are those of the polynomial one."""
    if not isinstance(est.kernel, Kernel):
        if not isinstance(est.kernel, str):
            raise TypeError(
                f"kernel must be one of {', '.join(map(repr, KERNELS))} or an object of a subclass of "
                f"kernmend.model.kernels.Kernel, got {est.kernel!r}"
            )
        check_choice("kernel", est.kernel, tuple(KERNELS))
        if est.kernel == "poly":
            Polynomial(est.degree, 1.0 if isinstance(est.coef0, str) and est.coef0 == "auto" else est.coef0)


def check_common(est: Any) -> None:
    """Check what most estimators have: `max_iter`, `tol`, `contamination`."""
    check_budget(est)
    if isinstance(est.contamination, str):
        check_choice("contamination", est.contamination, ("auto",))
    elif not 0 <= real(est.contamination) <= 0.5:
        raise ValueError(f"contamination must be 'auto' or a share between 0 and 0.5, got {est.contamination!r}")


def check_budget(est: Any) -> None:
    """Check `max_iter` and `tol`."""
    check_count("max_iter", est.max_iter)
    if not 0 <= real(est.tol) < np.inf:
        raise ValueError(f"tol must be a number >= 0, got {est.tol!r}")


def _check_error(error: Any, names: tuple[str, ...]) -> None:
    if isinstance(error, type) and issubclass(error, RowSum):
        return
    if not isinstance(error, str):
        raise TypeError(
            f"error must be one of {', '.join(map(repr, names))} or a subclass of kernmend.model.errors.RowSum, "
            f"got {error!r}"
        )
    check_choice("error", error, names)


def row_names(X: Any) -> NDArray[Any] | None:
    """Return the names of the rows of a pandas DataFrame as texts; None where they only are numbered, or have none.

    >>> import pandas as pd
    >>> row_names(pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"])).tolist(), row_names(pd.DataFrame({"x": [1.0]}))
    (['a', 'b'], None)
    """
    if type(X).__module__.partition(".")[0] != "pandas" or not hasattr(X, "iloc"):
        return None
    index = X.index
    return None if type(index).__name__ == "RangeIndex" else np.array([*map(str, index)], dtype=object)
