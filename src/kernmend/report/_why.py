"""What was chosen and why, what the scores mean, and the Python lines that do the same again."""

import inspect
import platform
from typing import Any

import numpy as np

import kernmend
from kernmend._methods import METHODS
from kernmend.estimators._summary import by_chance, kernel_words
from kernmend.estimators._trust import Explained
from kernmend.model.kernels import Kernel
from kernmend.repair.calibrate import LEAST_FEATURES

CALIBRATED = (
    "calibrated: what mending takes off the flagged rows was injected into good rows that were held out, and this "
    "brought them back best"
)
UNUSED = "nothing was flagged, so nothing was calibrated: the start value"
SEARCHED = "searched: the best of the settings tried on good rows with injected errors"


def parameter_facts(est: Any) -> list[dict[str, str]]:
    """Return each parameter that matters: its name, what was given, what was used, and why."""
    inner = getattr(est, "estimator", None) or (kernmend.KernelRecovery() if _is_search(est) else est)
    given = inner.get_params(deep=False)
    facts = [
        _fact(name, given[name], getattr(est, f"{name}_"), _reason(est, name, given[name]))
        for name in ("kernel", "gamma", "coef0", "lam", "rho", "error", "C", "sigma", "feature_gamma")
        if hasattr(est, f"{name}_") and name in given and not _of_another_kernel(est, name)
    ]
    facts.append(_fact("rank", None, est.rank_, "dimensions that the mended data has, above the cut-off"))
    facts.append(_fact("threshold", None, est.threshold_, _threshold_reason(est, given)))
    named = {fact["name"] for fact in facts}
    facts += [
        _fact(name, value, value, "given")
        for name, value in given.items()
        if name not in named and _changed(inner, name)
    ]
    return facts


def _of_another_kernel(est: Any, name: str) -> bool:
    """Return whether it is a parameter of kernels which the one that was used does not have."""
    return name in ("gamma", "coef0") and getattr(est, f"{name}_") is None


def _is_search(est: Any) -> bool:
    return hasattr(est, "best_estimator_")


def _calibrates(est: Any) -> bool:
    """Return whether parameters are chosen by injected errors."""
    return isinstance(est, Explained)


def _fact(name: str, given: Any, used: Any, why: str) -> dict[str, str]:
    return {"name": name, "given": "" if given is None else _text(given), "used": _text(used), "why": why}


def _reason(est: Any, name: str, given: Any) -> str:
    if not isinstance(given, str) or given != "auto":
        return "given, or the default" if isinstance(given, str) else "given"
    if hasattr(est, "reason_"):
        return _joint_reason(est)
    if not _calibrates(est):
        return str(est._rules.get(name, "by rule"))
    if name == "error" and est.n_features_in_ < LEAST_FEATURES:
        return f"whole rows: below {LEAST_FEATURES} columns too little of a row is left to find its wrong cells"
    if not est.outliers_.any():
        return UNUSED
    return SEARCHED if _is_search(est) else CALIBRATED


def _joint_reason(est: Any) -> str:
    """Return why the paper's model has its parameters."""
    if est.lam_ is None:
        return f"nothing was mended: {est.reason_}"
    if np.isnan(est.choice_cost_):
        return "by rule"
    return f"{est.reason_}: it leaves {100 * est.choice_cost_:.0f} % of what doing nothing leaves"


def _threshold_reason(est: Any, given: dict[str, Any]) -> str:
    share = given.get("contamination", "auto")
    if not isinstance(share, str):
        return f"the share that was given: {100 * float(share):g} % of the rows"
    if by_chance(est):
        chance = "from alpha" if _calibrates(est) else "one good row in 20 clean data sets is as far out"
        return f"{chance}; lower where the scores show a group of wrong rows"
    if hasattr(est, "reason_"):
        return "a row that moved by more than 1 % of a row's length counts as corrupted"
    return "far above the scores of the better half of the rows, and at least 1 % of a typical row"


def _text(value: Any) -> str:
    """Return a value as a person writes it; arrays by their shape only."""
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    if isinstance(value, Kernel):
        return kernel_words(value)
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    text = str(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 120 else text[:119] + "…"


def _changed(est: Any, name: str) -> bool:
    """Return whether a parameter is not at its default."""
    default = inspect.signature(type(est).__init__).parameters[name].default
    value = getattr(est, name)
    return bool(type(value) is not type(default) or isinstance(value, np.ndarray) or value != default)


def python_lines(est: Any, image_shape: Any) -> str:
    """Return a program that does the same to an array X."""
    name, imports, inner = type(est).__name__, {"kernmend": {type(est).__name__}}, ""
    chosen = _arguments(est, imports)
    if getattr(est, "_n_reference", 0):
        return _lines_with_good_rows(est, chosen, imports, image_shape)
    if _is_search(est) and est.estimator is not None:
        imports["kernmend"].add("KernelRecovery")
        inner = f"estimator=KernelRecovery({', '.join(_arguments(est.estimator, imports))})"
        chosen = [inner, *[text for text in chosen if not text.startswith("estimator=")]]
    lines = [f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(imports.items())]
    shape = f", image_shape={tuple(image_shape)}" if image_shape is not None else ""
    return "\n".join(
        [
            *lines,
            "",
            f"est = {name}({', '.join(chosen)})",
            "A = est.fit_transform(X)  # mended",
            "est.outliers_  # flagged rows",
            "est.outlier_scores_",
            f'est.report("report.html"{shape})',
        ]
    )


def _lines_with_good_rows(est: Any, chosen: list[str], imports: dict[str, set[str]], image_shape: Any) -> str:
    """Return the same for a fit with rows known to be good: those of an array `good`."""
    method = next(method for method, name in METHODS.items() if name == type(est).__name__)
    if _is_search(est):
        chosen = [text for text in chosen if not text.startswith("estimator=")] + _arguments(est.estimator, imports)
    shape = [f"image_shape={tuple(image_shape)}"] if image_shape is not None else []
    lines = [f"from {home} import {', '.join(sorted(names))}" for home, names in imports.items() if home != "kernmend"]
    return "\n".join(
        [
            "import kernmend",
            *sorted(lines),
            "",
            f"mended = kernmend.mend({', '.join(['X', 'good=good', f'method={method!r}', *shape, *chosen])})",
            "A = mended.data",
            "mended.flags  # flagged rows",
            "mended.scores",
            'mended.report("report.html")',
        ]
    )


def _arguments(est: Any, imports: dict[str, set[str]]) -> list[str]:
    """Return the parameters that are not at their defaults as Python; what has no short form by its name."""
    out = []
    for name, value in est.get_params(deep=False).items():
        if name == "verbose" or not _changed(est, name):
            continue
        if isinstance(value, Kernel):
            home = type(value).__module__
            imports.setdefault(home, set()).add(type(value).__name__)
        simple = (
            isinstance(value, Kernel | str | int | float | bool | tuple | list | type(None)) and len(repr(value)) < 80
        )
        out.append(f"{name}={value!r}" if simple else f"{name}={name}")
    return out


def version_facts() -> dict[str, str]:
    """Return what was running."""
    import scipy
    import sklearn

    return {
        "kernmend": kernmend.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
