"""What an estimator found, in words."""

from typing import Any

import numpy as np

from kernmend.separation import needed_gain

FEW_ROWS = 50
MANY_FLAGGED = 0.4


def one_line(est: Any) -> str:
    """Return the result and the choices in one line, for the log."""
    return (
        f"{int(est.outliers_.sum())} of {est.outliers_.size} rows flagged; {chosen(est)}; "
        f"{est.stop_reason_} after {est.n_iter_} iterations"
    )


def chosen(est: Any) -> str:
    """Return the parameters that were used, those that the estimator has."""
    words = []
    if hasattr(est, "kernel_"):
        words.append(str(est.kernel_))
    if hasattr(est, "error_"):
        words.append(f"error {est.error_!r}")
    names = ("lam", "rho", "C", "sigma") + (() if hasattr(est, "kernel_") else ("gamma", "feature_gamma"))
    for name in names:
        if hasattr(est, f"{name}_"):
            value = getattr(est, f"{name}_")
            words.append(f"{name} none" if value is None else f"{name} {value:.4g}")
    return ", ".join([*words, f"rank {est.rank_}"])


def summary(est: Any) -> str:
    """Return the result in plain words: how many rows, how clear, how far to trust it, what was chosen."""
    n, flagged = est.outliers_.size, int(est.outliers_.sum())
    lines = [f"{flagged} of {n} rows flagged, {100 * flagged / n:.1f} %{_separation(est)}."]
    if flagged and _scored(est):
        worst = np.argsort(-est.outlier_scores_)[: min(5, flagged)]
        lines.append("Worst rows: " + ", ".join(f"{row} (z = {est.outlier_scores_[row]:.1f})" for row in worst) + ".")
    if hasattr(est, "entry_outliers_"):
        lines.append(f"{int(est.entry_outliers_.sum())} of {est.entry_outliers_.size} entries replaced.")
    if getattr(est, "scale", None) is not None:
        lines.append("Columns were compared in units of their own.")
    lines += _warnings(est, n, flagged)
    lines.append(f"Chosen: {chosen(est)}.")
    return "\n".join(lines)


def _scored(est: Any) -> bool:
    """Whether rows were scored before any was moved, so that a separation is known."""
    return hasattr(est, "separation_") and getattr(est, "repair", "flagged") == "flagged"


def _separation(est: Any) -> str:
    if not _scored(est):
        return ", by how far they moved"
    needed = needed_gain(est.outliers_.size)
    if est.separation_ >= 2 * needed:
        return ", clear separation"
    if est.separation_ >= needed:
        return ", weak separation"
    return ", no group of rows stands apart from the others"


def _warnings(est: Any, n: int, flagged: int) -> list[str]:
    out = []
    if getattr(est, "at_rounding_", False):
        out.append("Typical rows score all but the same: the order among them says nothing.")
    if n < FEW_ROWS:
        out.append(f"Caution: {n} rows are too few to tell a rare row from a wrong one.")
    if flagged > MANY_FLAGGED * n:
        out.append("Caution: over 40 % of the rows are flagged; what is normal here is in doubt.")
    if flagged and _scored(est) and est.separation_ < needed_gain(n):
        out.append("Caution: the flagged rows do not stand apart; they are the share that was asked for.")
    error = getattr(est, "calibration_error_", 0.0)
    if error > 0.5:
        out.append(
            f"Caution: of corruption like this, planted on good rows, {100 * error:.0f} % of the squared error stays: "
            "mended rows look right, but their original place cannot be known."
        )
    return out
