"""What an estimator found, in words."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

# What the scores of estimators that judge rows by chance are.
CHANCE = "-log10 of the chance of a good row being as far out: 6 is one in a million"
# Number of rows below which the summary warns that they say little.
FEW_ROWS = 50
# Share of flagged rows above which the summary doubts them.
MANY_FLAGGED = 0.4
# Largest number of rows that are listed with their scores, of flagged ones and of others.
MOST_LISTED = 5
UNITS = {
    "columns": "Columns were compared in units of their own.",
    "rows": "Rows were compared in units of their own: an offset and a size that bring each near to the common shape.",
}


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
        words.append(kernel_words(est.kernel_))
    if hasattr(est, "error_"):
        words.append(f"error {est.error_!r}")
    names = ("lam", "rho", "C", "sigma") + (() if hasattr(est, "kernel_") else ("gamma", "feature_gamma"))
    for name in names:
        if hasattr(est, f"{name}_"):
            value = getattr(est, f"{name}_")
            words.append(f"{name} none" if value is None else f"{name} {value:.4g}")
    return ", ".join([*words, f"rank {est.rank_}"])


def kernel_words(kernel: Any) -> str:
    """Return a kernel with its numbers in a few digits; as Python writes it where its fields are not known.

    >>> from kernmend.model.kernels import RBF
    >>> kernel_words(RBF(0.12345678))
    'RBF(gamma=0.1235)'
    """
    if not is_dataclass(kernel):
        return repr(kernel)
    values = {part.name: getattr(kernel, part.name) for part in fields(kernel)}
    words = [f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()]
    return f"{type(kernel).__name__}({', '.join(words)})"


def summary(est: Any, name: Callable[[int], str] = str, *, cells: bool = True) -> str:
    """Return the result in plain words: how many rows, how clear, how far to trust it, what was chosen.

    `name` says what a row is called. Without `cells`, single cells that were replaced are not counted: whoever has
    rounded and written them counts them better.
    """
    n, flagged = est.outliers_.size, int(est.outliers_.sum())
    lines = [f"{flagged} of {n} rows flagged, {100 * flagged / n:.1f} %{_how(est)}."]
    if by_chance(est):
        lines += _unusual(est, flagged, name)
    lines += _replaced(est, cells=cells)
    if hasattr(est, "_units") and est._units.name in UNITS:
        lines.append(UNITS[est._units.name])
    known = getattr(est, "_n_reference", 0)
    if known:
        lines.append(f"{known} more rows, known to be good, were learned from.")
    lines += _warnings(est, n + known, flagged / n)
    lines += _joint(est)
    lines.append(f"Chosen: {chosen(est)}.")
    return "\n".join(lines)


def _replaced(est: Any, *, cells: bool) -> list[str]:
    """Return in words what was replaced: whole rows, and single cells of others.

    An error model of entries leaves most cells of a row that is wrong as a whole where they are: there cells count.
    """
    if not hasattr(est, "entry_outliers_"):
        return []
    marked = est.entry_outliers_
    given = getattr(est._inner, "error", None)
    by_entry = getattr(est, "error_", "entries") == "entries" or getattr(given, "by_entry", False)
    whole = np.zeros(len(marked), dtype=bool) if by_entry else getattr(est, "whole_rows_", marked.all(axis=1))
    rows, single = int(whole.sum()), int(marked[~whole].sum()) if cells else 0
    if not rows:
        return [f"{single} of {marked.size} cells replaced."] if single else []
    others = f", and {single} cell{'s' * (single != 1)} of other rows" if single else ""
    return [f"{rows} row{'s' * (rows != 1)} replaced as a whole{others}."]


def by_chance(est: Any) -> bool:
    """Return whether scores are -log10 of a chance, as those of rows that were judged before any was moved are."""
    inner = est._inner
    return hasattr(inner, "_groups") or hasattr(inner, "alpha")


def one_in(score: float) -> str:
    """Return a score in words.

    >>> one_in(6.0), one_in(0.5), one_in(40.0)
    ('one in 1,000,000', 'one in 3', 'one in 10^40')
    """
    return f"one in {max(round(10**score), 1):,}" if score <= 6 else f"one in 10^{score:.0f}"


def _how(est: Any) -> str:
    if not by_chance(est):
        return ", by how far they moved" if hasattr(est, "init") else ", by how far they are off"
    contamination = getattr(est._inner, "contamination", "auto")
    if not isinstance(contamination, str):
        return ", the share that was asked for"
    return f": good rows are as far out in less than {one_in(est.threshold_)} cases"


def _unusual(est: Any, flagged: int, name: Callable[[int], str]) -> list[str]:
    """Return the most unusual rows in words: the flagged ones, then those that were not changed."""
    scores = est.outlier_scores_

    def listed(rows: Any) -> str:
        return ", ".join(f"{name(int(row))} ({one_in(float(scores[row]))})" for row in rows)

    order = np.argsort(-scores, kind="stable")
    worst = [row for row in order if est.outliers_[row]][:MOST_LISTED]
    others = [row for row in order if not est.outliers_[row]][:MOST_LISTED]
    suspects = int(est.suspects_.sum()) if hasattr(est, "suspects_") else 0
    out = [f"Worst rows, and the chance of a good row being as far out: {listed(worst)}."] if flagged else []
    if suspects:
        known = [row for row in order if est.suspects_[row]][:MOST_LISTED]
        are, were = ("row is", "was") if suspects == 1 else ("rows are", "were")
        out.append(f"{suspects} more {are} unusual and {were} not changed: {listed(known)}.")
    elif not flagged:
        out.append(f"The most unusual rows, which were not changed: {listed(others)}.")
    return out


def _joint(est: Any) -> list[str]:
    """Return in words how the paper's model came by its parameters, or why it changed nothing."""
    if not hasattr(est, "reason_"):
        return []
    if est.lam_ is None:
        return [f"Nothing was mended: {est.reason_}."]
    if np.isnan(est.choice_cost_):
        return []
    left = f"it leaves {100 * est.choice_cost_:.0f} % of what doing nothing leaves, good rows that move included"
    return [f"How it was chosen: {est.reason_}; {left}."]


def _warnings(est: Any, n: int, share: float) -> list[str]:
    out = []
    if n < FEW_ROWS:
        out.append(f"Caution: {n} rows are too few to tell a rare row from a wrong one.")
    if share > MANY_FLAGGED:
        out.append("Caution: over 40 % of the rows are flagged; what is normal here is in doubt.")
    error = getattr(est, "calibration_error_", 0.0)
    if error > 0.5:
        back = f"took {100 * (1 - error):.0f} % of it back" if error < 1.0 else "took none of it back"
        out.append(
            f"Caution: where errors like those of whole rows were put into good rows on trial, mending {back} (squared "
            "error): mended rows look right, but what they were cannot be known."
        )
    return out
