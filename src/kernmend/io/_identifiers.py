"""Columns of whole numbers that name or count their rows: they are not measured, so nothing in them is to be mended."""

import re
from collections.abc import Iterable, Mapping, Sequence

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
# Seconds since 1970 of the years 2000 and 2100, within which rising whole numbers are times; milliseconds too.
TIMES = (946_684_800, 4_102_444_800)
# Most characters of the name of a row that does not stand first: longer texts are remarks.
LONGEST_NAME = 40
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


def why_identifier(name: str, values: Array, *, zeros: bool = False) -> str | None:
    """Return in words why a column of whole numbers is no measurement; None if it may be one.

    `zeros` says that some begin with a 0, as zip codes do.

    >>> why_identifier("year", np.arange(1990.0, 2020.0))
    'counts its rows'
    >>> why_identifier("customerID", np.array([523.0, 17.0]))
    'codes'
    >>> why_identifier("day", np.array([20231231.0, 20240101.0, 20231230.0]))
    'dates'
    """
    if zeros:
        return "begins with zeros, as codes do"
    if _last_word(name) in CODES:
        return "codes"
    if _counts(values):
        return "counts its rows"
    if _dates(values):
        return "dates"
    return "seconds or milliseconds since 1970" if _times(values) else None


def distinct(texts: Iterable[str]) -> tuple[str, ...] | None:
    """Return texts that may name rows: none is empty and no two agree; else None.

    >>> distinct(["a", "b"]), distinct(["a", "a"]), distinct(["a", ""])
    (('a', 'b'), None, None)
    """
    seen: dict[str, None] = {}
    for text in texts:
        if not text or text in seen:
            return None
        seen[text] = None
    return tuple(seen)


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


def _dates(values: Array) -> bool:
    """Return whether whole numbers are days written as 20240131, of the years 1900 to 2099, several of them."""
    known = values[~np.isnan(values)]
    year, rest = np.divmod(known, 10_000)
    month, day = np.divmod(rest, 100)
    right = (year >= 1900) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return len(known) > 1 and bool(right.all()) and float(known.min()) < float(known.max())


def _times(values: Array) -> bool:
    """Return whether whole numbers are seconds or milliseconds since 1970 that never go back."""
    if len(values) < ROWS or np.isnan(values).any() or (np.diff(values) < 0).any():
        return False
    return any(TIMES[0] <= values[0] / unit and values[-1] / unit < TIMES[1] for unit in (1, 1000))


def measured(
    names: Sequence[str], X: Array, whole: NDArray[np.bool_], zeros: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.bool_], dict[str, str]]:
    """Return which columns may be measurements, all if none may, and why the others are none, by their names."""
    keep, why = np.ones(X.shape[1], dtype=bool), {}
    for j in np.flatnonzero(whole).tolist():
        reason = why_identifier(names[j], X[:, j], zeros=zeros is not None and bool(zeros[j]))
        if reason is not None:
            keep[j], why[names[j]] = False, reason
    return (keep, why) if keep.any() else (np.ones_like(keep), {})


def note(why: Mapping[str, str]) -> tuple[str, ...]:
    """Return a note that names columns which are no measurements, and says why; none if there are none."""
    if not why:
        return ()
    some = ", ".join(f"{name} ({reason})" for name, reason in list(why.items())[:6])
    more = f" and {len(why) - 6} more" if len(why) > 6 else ""
    return (f"Not measured, kept as it is: {some}{more}; --columns decides which are mended.",)
