"""Checks of parameters, before any work: they name the parameter, what it must be and what it is."""

import numbers
from typing import Any

import numpy as np

from kernmend._validation import check_choice, check_count, check_positive
from kernmend.model.errors import ERROR_MODELS, RowSum
from kernmend.model.kernels import KERNELS, Kernel, Polynomial
from kernmend.model.penalties import PENALTIES
from kernmend.solvers import SOLVERS


def check_recovery(est: Any) -> None:
    """Check the parameters of `KernelRecovery`."""
    check_model(est)
    alpha = est.alpha
    if isinstance(alpha, bool) or not (isinstance(alpha, numbers.Real) and 0 < float(alpha) <= 1):
        raise ValueError(f"alpha must be a number above 0 and at most 1, got {alpha!r}")
    _check_error(est.error, ("auto", *ERROR_MODELS))
    if isinstance(est.landmarks, str):
        check_choice("landmarks", est.landmarks, ("auto",))
    elif est.landmarks is not None:
        check_count("landmarks", est.landmarks)
    check_common(est)


def check_low_rank(est: Any) -> None:
    """Check the parameters of `KernelLowRank`."""
    check_model(est)
    _check_error(est.error, tuple(ERROR_MODELS))
    check_choice("penalty", est.penalty, ("auto", *PENALTIES))
    check_choice("solver", est.solver, tuple(SOLVERS))
    if isinstance(est.init, str):
        check_choice("init", est.init, ("data", "zeros"))
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
        check_choice("kernel", est.kernel, KERNELS)
        if est.kernel == "poly":
            Polynomial(est.degree, est.coef0)


def check_common(est: Any) -> None:
    """Check what most estimators have: `max_iter`, `tol`, `contamination`."""
    check_budget(est)
    if isinstance(est.contamination, str):
        check_choice("contamination", est.contamination, ("auto",))
    elif not (isinstance(est.contamination, numbers.Real) and 0 <= float(est.contamination) <= 0.5):
        raise ValueError(f"contamination must be 'auto' or a share between 0 and 0.5, got {est.contamination!r}")


def check_budget(est: Any) -> None:
    """Check `max_iter` and `tol`."""
    check_count("max_iter", est.max_iter)
    if not (isinstance(est.tol, numbers.Real) and 0 <= float(est.tol) < np.inf):
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
