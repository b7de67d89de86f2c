"""The data of a fitted estimator, before and after, and what its rows and columns are called."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

# Number of characters of a name from which on it is shortened.
LABEL_LENGTH = 80
Rows = NDArray[np.intp]


class Given:
    """Rows as they were and as they are now, without a second copy of those that did not change."""

    def __init__(self, est: Any, columns: Any, row_labels: Any) -> None:
        self.recovered: Array = est.recovered_
        self.changed: Rows = est._changed_rows
        self._originals: Array = est._originals
        names = getattr(est, "feature_names_in_", None) if columns is None else columns
        self.columns = _names("columns", names, self.recovered.shape[1], "columns")
        self.row_labels = _names("row_labels", row_labels, self.recovered.shape[0], "rows")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.recovered.shape[0], self.recovered.shape[1]

    @property
    def n_changed(self) -> int:
        """How many rows are not bit for bit what they were."""
        return self.changed.size

    @property
    def n_missing(self) -> int:
        """How many entries were missing."""
        return int(np.isnan(self._originals).sum())

    def before(self, rows: Rows) -> Array:
        """Return rows as they were, NaN where missing."""
        out: Array = self.recovered[rows].astype(np.float64)
        place = np.searchsorted(self.changed, rows)
        place[place == self.changed.size] = 0
        known = self.changed[place] == rows if self.changed.size else np.zeros(rows.size, dtype=bool)
        out[known] = self._originals[place[known]]
        return out

    def after(self, rows: Rows) -> Array:
        """Return rows as they are now."""
        return self.recovered[rows].astype(np.float64)

    def label(self, row: int) -> str:
        """Return the name of a row."""
        return f"row {row}" if self.row_labels is None else self.row_labels[row]


def _names(parameter: str, given: Any, count: int, what: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = tuple(_shortened(str(name)) for name in given)
    if len(names) != count:
        raise ValueError(f"{parameter} must have one name for each of the {count} {what}, got {len(names)}")
    return names


def _shortened(name: str) -> str:
    return name if len(name) <= LABEL_LENGTH else name[: LABEL_LENGTH - 1] + "…"


def rounded(values: Any, digits: int = 6) -> list[Any]:
    """Return numbers as a list with so many significant digits; None for what is not finite.

    >>> rounded([1.23456789, 1234567890.0, float("nan"), 0.0], 3)
    [1.23, 1230000000.0, None, 0.0]
    """
    array = np.asarray(values, dtype=np.float64)
    flat = [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in array.ravel().tolist()]
    if array.ndim < 2:
        return flat
    width = array.shape[1]
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def finite(value: float) -> float | None:
    """Return a number, None where JSON has no word for it."""
    return float(value) if np.isfinite(value) else None


def worst_first(scores: Array, among: Sequence[int] | Rows | None = None) -> Rows:
    """Return row numbers, the highest score first; ties in the order of the rows."""
    rows = np.arange(scores.size) if among is None else np.asarray(among, dtype=np.intp)
    return rows[np.argsort(-scores[rows], kind="stable")]
