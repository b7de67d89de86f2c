"""Columns of whole numbers that name or count their rows: they are not measured, so nothing in them is to be mended."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

# Last words of names, in lower case, of columns that hold codes.
CODES = frozenset(
    [
        *("barcode", "code", "ean", "gtin", "id", "ids", "isbn", "isin", "key", "nr", "phone", "plz"),
        *("postcode", "postleitzahl", "ref", "serial", "sku", "ssn", "tel", "telephone", "uid", "uuid", "zip"),
        "zipcode",
    ]
)
# Fewest rows of a column that counts: fewer numbers may follow each other by chance.
ROWS = 10
WORDS = {"codes": "codes", "counts": "counts its rows", "begins with zeros": "begins with zeros, as codes do"}
"""Why a column is no measurement, in words."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


def why_identifier(name: str | None, values: Array, *, whole: bool, zeros: bool) -> str | None:
    """Return why a column is no measurement: "codes", "counts" or "begins with zeros"; None if it may be one.

    `whole` says that it holds whole numbers, `zeros` that some begin with a 0, as zip codes do.

    >>> why_identifier("year", np.arange(1990.0, 2020.0), whole=True, zeros=False)
    'counts'
    >>> why_identifier("customerID", np.array([523.0, 17.0]), whole=True, zeros=False)
    'codes'
    """
    if not whole:
        return None
    if zeros:
        return "begins with zeros"
    if name is not None and _last_word(name) in CODES:
        return "codes"
    return "counts" if _counts(values) else None


def _last_word(name: str) -> str:
    """Return the last word of a name such as customer_id, customerId or zip code."""
    words = _WORDS.findall(name)
    return str(words[-1]).lower() if words else ""


def _counts(values: Array) -> bool:
    """Return whether whole numbers go up or down from row to row, most of them by one."""
    if len(values) < ROWS or np.isnan(values).any():
        return False
    steps = np.diff(values)
    one_way = bool((steps > 0).all() or (steps < 0).all())
    return one_way and float(np.median(np.abs(steps))) == 1.0


def measured(
    names: Sequence[str] | None, X: Array, whole: NDArray[np.bool_], zeros: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.bool_], list[tuple[int, str]]]:
    """Return which columns may be measurements, all if none may, and the others with the reason for each."""
    found = []
    for j in np.flatnonzero(whole).tolist():
        reason = why_identifier(
            None if names is None else names[j], X[:, j], whole=True, zeros=zeros is not None and bool(zeros[j])
        )
        if reason is not None:
            found.append((j, reason))
    keep = np.ones(X.shape[1], dtype=bool)
    keep[[j for j, _ in found]] = False
    return (keep, found) if keep.any() else (np.ones_like(keep), [])


def note(found: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return a note that names columns, given with their reasons; none if there are none."""
    if not found:
        return ()
    some = ", ".join(f"{name} ({WORDS[reason]})" for name, reason in found[:6])
    more = f" and {len(found) - 6} more" if len(found) > 6 else ""
    return (f"Not measured, kept as it is: {some}{more}; --columns decides which are mended.",)
