"""The checks of `KernelRecovery`'s parameters, before any work."""

import numbers
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_choice, check_count, check_positive
from kernmend.estimators._joint import SOLVERS
from kernmend.model.kernels import Kernel, Polynomial

KERNELS = ("rbf", "poly", "linear")
ERRORS = ("auto", "kernel", "rows", "entries")


def check_parameters(est: Any) -> None:
    """Raise ValueError or TypeError that names the parameter, what it must be and what it is."""
    if not isinstance(est.kernel, Kernel):
        if not isinstance(est.kernel, str):
            raise TypeError(
                f"kernel must be one of {', '.join(map(repr, KERNELS))} or an object of a subclass of "
                f"kernmend.model.kernels.Kernel, got {est.kernel!r}"
            )
        check_choice("kernel", est.kernel, KERNELS)
    for name in ("gamma", "lam", "rho"):
        value = getattr(est, name)
        if not (isinstance(value, str) and value == "auto"):
            check_positive(name, value)
    if isinstance(est.kernel, str) and est.kernel == "poly":
        Polynomial(est.degree, est.coef0)
    alpha = est.alpha
    if isinstance(alpha, bool) or not (isinstance(alpha, numbers.Real) and 0 < float(alpha) <= 1):
        raise ValueError(f"alpha must be a number above 0 and at most 1, got {alpha!r}")
    check_choice("error", est.error, ERRORS)
    check_choice("repair", est.repair, ("flagged", "all"))
    check_choice("penalty", est.penalty, ("auto", "nuclear", "schatten"))
    check_choice("solver", est.solver, tuple(SOLVERS))
    if isinstance(est.landmarks, str):
        check_choice("landmarks", est.landmarks, ("auto",))
    elif est.landmarks is not None:
        check_count("landmarks", est.landmarks)
    if isinstance(est.init, str):
        check_choice("init", est.init, ("data", "zeros"))
    check_common(est)
    _check_combinations(est)


def check_common(est: Any) -> None:
    """Check what every estimator has: `max_iter`, `tol`, `contamination`."""
    check_count("max_iter", est.max_iter)
    if not (isinstance(est.tol, numbers.Real) and 0 <= float(est.tol) < np.inf):
        raise ValueError(f"tol must be a number >= 0, got {est.tol!r}")
    if isinstance(est.contamination, str):
        check_choice("contamination", est.contamination, ("auto",))
    elif not (isinstance(est.contamination, numbers.Real) and 0 <= float(est.contamination) <= 0.5):
        raise ValueError(f"contamination must be 'auto' or a share between 0 and 0.5, got {est.contamination!r}")


def _check_combinations(est: Any) -> None:
    if est.penalty == "schatten" and not (isinstance(est.rho, str) and est.rho == "auto"):
        raise ValueError("rho belongs to the nuclear penalty: leave it at 'auto' with penalty='schatten'")
    if est.solver != "reduced" and (est.bounds is not None or est.penalty == "schatten"):
        raise ValueError(f"solver={est.solver!r} knows neither bounds nor penalty='schatten': use solver='reduced'")


def resolve_bounds(bounds: Any, good: Array) -> tuple[Array, Array] | None:
    """Return (low, high) per feature: given, or the range of the good rows for "data"; None for none."""
    if bounds is None:
        return None
    if isinstance(bounds, str):
        check_choice("bounds", bounds, ("data",))
        return np.nanmin(good, axis=0), np.nanmax(good, axis=0)
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), good.shape[1:]) for side in bounds)
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be None, 'data' or a pair (low, high) of numbers or of {good.shape[1]} values each, "
            f"got {bounds!r}"
        ) from None
    if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
        raise ValueError(f"bounds must have low <= high, got {bounds!r}")
    return low, high
