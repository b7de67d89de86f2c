"""The list of changes: every value that mending replaced or filled in, with its interval and the reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

CHANGE = np.dtype(
    [
        *[("row", np.intp), ("label", object), ("column", np.intp)],
        *[("old", "f8"), ("new", "f8"), ("low", "f8"), ("high", "f8")],
        *[("kind", "U7"), ("score", "f8"), ("reason", object), ("accepted", bool)],
    ]
)
"""One change: where, with the name of the row or else its number, the value before and after, the bounds of the true
value, "wrong" or "missing", -log10 of the chance of a good value (or row) being as far out, why, and whether it is
accepted."""
# Numbers from here on are written with an exponent.
LARGEST_WRITTEN = 1e9
# Difference of the two sides of an interval, as a share of its width, from which on they are told apart: less is not
# seen in two digits.
UNEVEN = 0.01
FIELDS = CHANGE.names or ()
"""The columns of a list of changes as a table."""


@dataclass(frozen=True)
class Reasons:
    """What the reasons of changes are made of: `whole`, `known`, `unsure` have one element for each change.

    `whole` are changes in rows that are wrong as a whole, `known` those in rows that the user called wrong, `unsure`
    those whose interval is wider than their column. `lowest` and `highest` are the range of each column over the good
    rows, as it is for the change; both are NaN where no range is known.
    """

    whole: NDArray[np.bool_]
    known: NDArray[np.bool_]
    unsure: NDArray[np.bool_]
    lowest: Array
    highest: Array

    def __getitem__(self, which: Any) -> "Reasons":
        """Return those of some of the changes."""
        return Reasons(*(part[which] for part in vars(self).values()))

    def texts(self, records: Any) -> list[str]:
        """Return one sentence for each change."""
        missing = records["kind"] == "missing"
        columns = (*(records[name] for name in ("old", "new", "low", "high", "score", "accepted")), missing)
        columns += tuple(vars(self).values())
        return [_text(*change) for change in zip(*(column.tolist() for column in columns), strict=True)]


def in_words(value: float, digits: int = 4) -> str:
    """Return a number as people write it: in so many digits, without an exponent where it is not needed.

    >>> in_words(37226.4), in_words(459.63, 2), in_words(0.05678, 2), in_words(1.5e12)
    ('37226', '460', '0.057', '1.5e+12')
    """
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < LARGEST_WRITTEN else text


def with_interval(value: float, low: float, high: float) -> str:
    """Return a value with its interval in words: ± half of its width, or its ends where a bound has cut it off.

    What is behind ± is always that. NaN as `low` says that there is no interval.

    >>> with_interval(18.3, 17.2, 19.4), with_interval(0.2, 0.0, 1.5), with_interval(3.0, float("nan"), float("nan"))
    ('18.3 ± 1.1', '0.2 (0 to 1.5)', '3')
    """
    if low != low:
        return in_words(value)
    below, above = value - low, high - value
    if abs(above - below) <= UNEVEN * (high - low):
        return f"{in_words(value)} ± {in_words((high - low) / 2.0, 2)}"
    return f"{in_words(value)} ({in_words(low)} to {in_words(high)})"


def _text(
    old: float, new: float, low: float, high: float, score: float, accepted: bool, missing: bool, whole: bool,
    known: bool, unsure: bool, lowest: float, highest: float,
) -> str:  # fmt: skip
    """Return the reason of one change."""
    within = in_words(new) if unsure else with_interval(new, low, high)
    doubt = f"; unsure: the column as a whole says {in_words(low)} to {in_words(high)}" if unsure else ""
    if not accepted:
        doubt += ", and so it was left as it is"
    if missing:
        return f"missing: {within} by similar rows{doubt}"
    outside = ""
    if old > highest:
        outside = f", and no good row is above {in_words(highest)}"
    elif old < lowest:
        outside = f", and no good row is below {in_words(lowest)}"
    was = f"it is {in_words(old)}"  # not the number first: one with a minus sign looks like a formula to a spreadsheet
    if new != new:  # left blank
        return f"{was}, which does not fit{outside}; left blank, since no value is known to better than the column"
    if known or whole:
        row = "the row was given as wrong" if known else f"the row as a whole does not fit (score {score:.3g})"
        return f"{row}; {was} where similar rows say {within}{outside}{doubt}"
    return f"{was} where the other columns of this row say {within}{outside}{doubt}"


class Changes(Sequence[Any]):
    """The values that were changed or filled in, one record (`CHANGE`) each, in order of row and column.

    An element is one record, a slice is another list of changes.

    Parameters
    ----------
    records : array of dtype `CHANGE`
        The changes, in order of row and column.
    reasons : Reasons, optional
        What the reasons are made of, which are written when they are first asked for. Without it those of the records
        stay as they are.
    names, labels : sequence of str, optional
        The names of all columns of the data, and of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend.repair.changes import CHANGE, Changes
    >>> records = np.zeros(1, CHANGE)
    >>> records["row"], records["old"], records["new"], records["kind"] = 3, 41.2, 18.3, "wrong"
    >>> changes = Changes(records)
    >>> changes
    <Changes: 1 value in 1 row, 1 wrong, 0 missing>
    >>> changes[0]["new"].item()
    18.3
    """

    def __init__(self, records: Any, reasons: Reasons | None = None, names: Any = None, labels: Any = None) -> None:
        self._records = np.asarray(records, dtype=CHANGE)
        self._reasons, self._names, self._labels = reasons, names, labels

    @cached_property
    def records(self) -> Any:
        """The changes as a structured array of dtype `CHANGE`."""
        if self._reasons is not None and self._records.size:
            self._records["reason"] = self._reasons.texts(self._records)
        self._records["label"] = self._named(self._labels)
        return self._records

    def _named(self, labels: Any) -> Any:
        """Return the name of the row of each change, its number where rows have none."""
        rows = self._records["row"]
        return rows if labels is None else np.asarray(labels, dtype=object)[rows]

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, (int, np.integer)):
            return self.records[which]
        reasons = None if self._reasons is None else self._reasons[which]
        return Changes(self._records[which].copy(), reasons, self._names, self._labels)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)

    def __repr__(self) -> str:
        n, rows = len(self), np.unique(self._records["row"]).size
        missing = int((self._records["kind"] == "missing").sum())
        values = "1 value" if n == 1 else f"{n:,} values"
        return (
            f"<Changes: {values} in {rows:,} row{'' if rows == 1 else 's'}, {n - missing:,} wrong, {missing:,} missing>"
        )

    def to_frame(self, labels: Any = None, columns: Any = None) -> Any:
        """Return the changes as a pandas DataFrame with the columns row, label, column, old, new, low, high and so on.

        Parameters
        ----------
        labels : sequence, optional
            The names of all rows of the data; by default those of the index of the DataFrame, or their numbers.
        columns : sequence of str, optional
            The names of all columns of the data; by default those of the DataFrame that was fitted, or their numbers.

        Returns
        -------
        pandas.DataFrame
            One line for each change.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("a list of changes as a DataFrame needs pandas: pip install pandas") from None
        records = self.records
        parts = {name: records[name] for name in FIELDS}
        parts["label"] = self._named(self._labels if labels is None else labels)
        columns = self._names if columns is None else columns
        if columns is not None:
            parts["column"] = np.asarray(columns, dtype=object)[records["column"]]
        return pandas.DataFrame(parts)


def changed_entries(old: Array, new: Array) -> NDArray[np.bool_]:
    """Return which entries differ; NaN that stays NaN does not.

    >>> changed_entries(np.array([1.0, np.nan, np.nan, 2.0]), np.array([1.0, np.nan, 3.0, 4.0]))
    array([False, False,  True,  True])
    """
    out: NDArray[np.bool_] = (old != new) & ~(np.isnan(old) & np.isnan(new))
    return out
