"""Which record of a table names its columns, and which holds their units. When in doubt it is a header."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernmend._typing import Array
from kernmend.io._number_format import is_number
from kernmend.io._shapes import WORDS

# Number of records below the first one that are looked at, ...
SAMPLE = 50
# ... and the fewest if they are long: such rows do not look like a header by chance.
LEAST_SAMPLE = 10
# Fewest numbers that are a header because they go one way: five of them do so by chance in 1 of 60 rows.
MONOTONE = 5
# Fewest numbers that are a header because they are evenly spaced.
EVEN = 3
# Most lines of units: loggers write one more that says how each column was averaged.
MOST_UNITS = 3
# Fewest records below a header that has others with numbers above it.
BELOW = 3
# Largest share of the rows below that may look as regular as the header does.
REGULAR = 0.05


@dataclass(frozen=True)
class Header:
    """What stands above the data: whether there are names, the number of lines of units, if the names are numbers."""

    names: bool
    units: int = 0
    doubt: bool = False


def find_header(top: Sequence[Sequence[str]], missing: frozenset[str], told: bool | None = None) -> Header:
    """Return the header of a table whose first records are `top`; `told` whether there is one, None if nobody did."""
    if told is False or not top:
        return Header(False)
    first, rows = top[0], [row for row in top[1 : SAMPLE + 1] if len(row) >= len(top[0])]
    by_words = _named_by_words(first, rows, missing)
    by_numbers = not by_words and _named_by_numbers(first, rows, missing)
    names = by_words or by_numbers or told is True
    units = 0
    while names and units < MOST_UNITS and len(top) > units + 2:
        line, *below = top[units + 1 :]
        if not _has_units(line, [row for row in below if len(row) == len(line)], missing):
            break
        units += 1
    return Header(names, units, by_numbers and told is None)


def lines_above(top: Sequence[Sequence[str]], missing: frozenset[str]) -> int:
    """Return the number of records above the one that names the columns, such as the settings of an instrument.

    It is the lowest record of words above columns of numbers; above it these columns hold few numbers. Where the
    records right above are words too, it is the one of them that names the columns best.
    """
    width = Counter(map(len, top)).most_common(1)[0][0]
    for k in range(len(top) - BELOW - 1, 0, -1):
        below = [row for row in top[k + 1 :] if len(row) == width]
        if not _is_of_words(top[k], width) or len(below) < BELOW:
            continue
        numeric = [j for j in range(width) if _of_numbers([row[j] for row in below], missing)]
        higher = [row[j] for row in top[:k] for j in numeric if j < len(row)]
        if not any(top[k][j] not in missing for j in numeric) or 2 * sum(map(is_number, higher)) >= len(higher) > 0:
            continue
        first = k
        while first and (_is_of_words(top[first - 1], width) or _is_of_words(top[first - 1], width - 1)):
            first -= 1
        return first + _most_names(top[first : k + 1], missing)
    return 0


def _most_names(rows: Sequence[Sequence[str]], missing: frozenset[str]) -> int:
    """Return which of some records of words names the columns best: the first of those with the most cells and names.

    All that have different names for all columns but the first are as good as each other.
    """

    def quality(row: Sequence[str]) -> tuple[bool, int, int, int]:
        names = [text for text in row if text not in missing]
        if len(set(names)) == len(names) and missing.isdisjoint(row[1:]):
            return True, len(row), 0, 0
        return False, len(row), len(names), len(set(names))

    return max(range(len(rows)), key=lambda i: quality(rows[i]))


def _is_of_words(row: Sequence[str], width: int) -> bool:
    """Return whether a record has so many cells and no number."""
    return len(row) == width and not any(map(is_number, row))


def has_groups(top: Sequence[Sequence[str]], missing: frozenset[str], told: bool | None = None) -> bool:
    """Return whether the first record names groups of columns, as merged cells do, above one that names the columns.

    Both are words, and the second has more of them than the first, which leaves cells empty, not only the first.
    """
    if told is False or len(top) < 3 or not any(text in missing for text in top[0][1:]):
        return False
    found = find_header(top, missing, told)
    groups, names = ([text for text in row if text not in missing] for row in top[:2])
    return found.units > 0 and len(groups) < len(names) == len(set(names)) and find_header(top[1:], missing, told).names


def _named_by_words(first: Sequence[str], rows: Sequence[Sequence[str]], missing: frozenset[str]) -> bool:
    """Return whether the first record names the columns because of its words.

    It does if it has no number; if a word stands above numbers, or numbers with a unit above such without; if only its
    first cell is empty, above an index; or if it counts 0, 1, 2, ...: the names that pandas gives.
    """
    if not rows or all(text in missing for text in first):
        return False
    if len(first) < len(rows[0]):  # R leaves out the name of the index
        return True
    words = [j for j, text in enumerate(first) if not is_number(text) and text not in missing]
    if len(words) == sum(text not in missing for text in first):
        return True
    if any(_of_numbers([row[j] for row in rows], missing) for j in words):
        return True
    units = [j for j, text in enumerate(first) if _has_letters(text) and is_number(text)]  # 400 nm above 0.125
    if len(units) >= EVEN and not any(_has_letters(row[j]) for row in rows for j in units):
        return True
    count = [str(j) for j in range(len(first))]
    if first[0] == "":
        return all(row[0] not in missing for row in rows) and len(set(first)) == len(first)
    return len(first) > 2 and list(first) == count and not all(list(row) == count for row in rows)


def _is_unit(text: str) -> bool:
    """Return whether a text is a unit: a word or sign that does not begin with a digit, or the 1 of what has none."""
    return text == "1" or (_has_letters(text) and not text[0].isdigit()) or text in ("%", "-", "\u00b0", "\u2030")


def _has_letters(text: str) -> bool:
    """Return whether a text has letters besides the e of an exponent."""
    return any(letter.isalpha() and letter not in "eE" for letter in text)


def _of_numbers(cells: Sequence[str], missing: frozenset[str]) -> bool:
    """Return whether cells are numbers, but for some that are missing and a few words."""
    present = [text for text in cells if text not in missing]
    return bool(present) and sum(map(is_number, present)) >= (1 - WORDS) * len(present)


def _named_by_numbers(first: Sequence[str], rows: Sequence[Sequence[str]], missing: frozenset[str]) -> bool:
    """Return whether the first record is a series of numbers, wavelengths or years, that the rows below are not.

    It goes one way, or is evenly spaced; hardly any row below does so as well; and none of its numbers stands again in
    its column.
    """
    columns = [j for j, text in enumerate(first) if is_number(text)]
    if len(columns) < EVEN or not rows or any(text in missing for text in first):
        return False
    if any(row[j] == first[j] for row in rows for j in columns):
        return False
    numbers = _numbers([first, *rows], columns)
    steps = np.diff(numbers, axis=1)
    with np.errstate(invalid="ignore"):
        sign = np.sign(steps[0, 0])
        one_way = (sign * steps > 0).all(axis=1)
        even = one_way & (np.abs(steps - steps[:, :1]) < 1e-9 * np.abs(numbers).max(axis=1, keepdims=True)).all(axis=1)
    for regular, fewest in ((one_way, MONOTONE), (even, EVEN)):
        if len(columns) >= fewest and regular[0] and regular[1:].mean() <= REGULAR:
            return True
    return False


def _numbers(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> Array:
    """Return some columns of cells as numbers, a comma taken for a point, NaN where there are none."""
    out = np.full((len(rows), len(columns)), np.nan)
    for i, row in enumerate(rows):
        for k, j in enumerate(columns):
            try:
                out[i, k] = float(row[j].replace(",", "."))
            except (ValueError, IndexError):
                continue
    return out


def _has_units(line: Sequence[str], rows: Sequence[Sequence[str]], missing: frozenset[str]) -> bool:
    """Return whether a record below the names holds units: words above numbers, none of which stands again below.

    A 1 among words of letters is the unit of what has none.
    """
    numbers = {text for text in line if is_number(text)}
    if not rows or numbers - {"1"} or (numbers and not all(_is_unit(text) for text in line if text not in missing)):
        return False
    numeric = [j for j in range(len(line)) if _of_numbers([row[j] for row in rows], missing)]
    words = [j for j in numeric if line[j] not in missing and line[j] != "1"]
    return bool(words) and not any(row[j] == line[j] for row in rows for j in words)


def units_note(what: str, first: int, number: int) -> str:
    """Return a note on the lines or rows that are taken for units.

    >>> units_note("line", 2, 1), units_note("row", 3, 2)
    ('Line 2 is taken for units and kept.', 'Rows 3 to 4 are taken for units and kept.')
    """
    if number == 1:
        return f"{what.capitalize()} {first} is taken for units and kept."
    return f"{what.capitalize()}s {first} to {first + number - 1} are taken for units and kept."
