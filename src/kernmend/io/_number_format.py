"""How a column writes its numbers: found from the shapes of its cells, used to read them and to write mended ones.

A shape is a text with each digit replaced by 0: `$1,469.49` has the shape `$0,000.00`. A column of a million numbers
has a few dozen shapes, so that its format is found from all cells at the cost of looking at a few.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array

# Separates cells that are looked at together; text with zero bytes is refused.
BREAK = "\0"
# Marks that may stand between groups of three digits, besides a comma or a point: blanks and apostrophes.
GROUPERS = (" ", "\u00a0", "\u202f", "\u2009", "'", "\u2019")
# Codes of currencies that stand before or after an amount.
CODES = (
    "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY|KRW|MXN|NOK|NZD|PLN|RON|RUB|SEK|SGD|THB|TRY|TWD|USD|ZAR"
)
SYMBOLS = "$\u00a2-\u00a5\u20a0-\u20c0"
# What may stand before a number: a currency, $ or US$ or EUR.
BEFORE = rf"(?:[A-Z]{{0,3}}[{SYMBOLS}]|{CODES})[ \u00a0]?"
# What may stand after one: a currency, %, a degree or a unit such as kg, m/s, °C or g/m2.
_UNIT = r"(?:\u00b0|[^\W\d_])[^\W_]{0,9}(?:[/\u00b7*.^-][^\W_]{1,9}){0,3}[\u00b2\u00b3]?"
AFTER = rf"[ \u00a0\u202f]?(?:[%\u2030\u00b0{SYMBOLS}]|{_UNIT})"
# Largest share of the cells of a column of numbers that may be words, such as ERR, which then count as missing.
WORDS = 0.1
# Largest number of shapes of a column of numbers: up to 20 digits before and after the point, with two signs, are 800.
MOST_SHAPES = 5000
# Number of decimals from which on they may be those of rounding in the last bits, ...
FULL_DECIMALS = 10
# ... which is at most this share of a value: a few times the 2e-16 of one operation.
NOISE = 1e-15
_TO_SHAPE = str.maketrans("123456789", "000000000")


def shape_of(text: str) -> str:
    """Return a text with each digit replaced by 0.

    >>> shape_of("-12.50 kg")
    '-00.00 kg'
    """
    return text.translate(_TO_SHAPE)


@cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """Return what a number with this decimal sign looks like; `thousands` None allows any mark between groups."""
    marks = [mark for mark in ((",", ".", *GROUPERS) if thousands is None else thousands) if mark != decimal]
    point, digits = re.escape(decimal), "[0-9]{3}"
    grouped = rf"[0-9]{{1,3}}(?P<mark>[{re.escape(''.join(marks))}]){digits}(?:(?P=mark){digits})*|" if marks else ""
    part = rf"(?:{point}(?P<part>[0-9]+|(?=$|[eE][+-]?[0-9])))?"
    number = rf"(?P<whole>{grouped}[0-9]+|(?={point}[0-9])){part}(?P<exponent>[eE][+-]?[0-9]+)?"
    around = rf"(?P<sign>[+-]?)(?P<before>{BEFORE})?(?P<sign2>[+-]?)", rf"(?P<after>{AFTER})?"
    return re.compile(rf"{around[0]}(?:{number}|inf(?:inity)?){around[1]}", re.IGNORECASE)


def is_number(text: str) -> bool:
    """Return whether a text is a number in some format, with its unit.

    >>> [is_number(text) for text in ("1.000,92", "70.6%", "$1,469.49", "12 kg", "2024-01-01", "A12", "1_000")]
    [True, True, True, True, False, False, False]
    """
    return any(_pattern(decimal, None).fullmatch(text) is not None for decimal in ".,")


@dataclass(frozen=True)
class NumberFormat:
    """One way to write numbers: `parse` reads a cell, `write` writes a value so that `parse` returns it rounded.

    Parameters
    ----------
    decimal : the decimal sign.
    thousands : the mark between groups of three digits, "" if there is none.
    before, after : what stands around the number, such as "$" or " kg".
    least, most : the fewest and the most decimals; `most` None: as many as the value needs.
    exponent : an exponent in the style of the column, such as "E+00", if all its numbers have one; else "".
    """

    decimal: str = "."
    thousands: str = ""
    before: str = ""
    after: str = ""
    least: int = 0
    most: int | None = None
    exponent: str = ""

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole ones."""
        return self.most == 0 and not self.exponent

    def parse(self, text: str) -> float | None:
        """Return the value of a cell; None if it is not a number in this format."""
        match = _pattern(self.decimal, self.thousands).fullmatch(text)
        if match is None or (match["before"] or "", match["after"] or "") != (self.before, self.after):
            return None
        if match["sign"] and match["sign2"]:
            return None
        end = len(text) - len(self.after)
        return self._value(
            text[: match.start("before")] + text[match.end("before") : end] if self.before else text[:end]
        )

    def parse_all(self, cells: Sequence[str], plain: Callable[[str], str]) -> list[float]:
        """Return the values of cells whose shapes were counted, NaN for those that are missing or words.

        It is fast because the shapes are known: what is no number in this format is none in any other.
        """
        if any(letter.isdigit() for letter in self.after):  # m2 and m3 have one shape
            values = [self.parse(plain(cell)) for cell in cells]
            return [np.nan if value is None else value for value in values]
        try:
            if self.decimal == "." and not (self.before or self.after or self.thousands):
                return list(map(float, cells))
        except ValueError:
            pass  # some are missing, or stand in quotes
        joined = BREAK.join(cells)
        for piece in ('"', self.before, self.after, self.thousands):
            if piece:
                joined = joined.replace(piece, "")
        return list(map(_float, joined.replace(self.decimal, ".").split(BREAK)))

    def _value(self, text: str) -> float | None:
        """Return the value of a text without what stands around it."""
        if self.thousands:
            text = text.replace(self.thousands, "")
        try:
            return float(text.replace(self.decimal, "."))
        except ValueError:
            return None

    def rounded(self, values: Array) -> Array:
        """Return values as they will be read back after they were written."""
        if self.exponent:
            written = [np.nan if np.isnan(v) else float(self._with_exponent(float(v))) for v in values.tolist()]
            return np.array(written, dtype=values.dtype)
        if self.most is None:
            return values
        size = 10.0 ** min(self.most, 300)
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.abs(values) < 2.0**52 / size  # larger ones have no more decimals
            out: Array = np.where(exact, np.rint(values * size) / size, values).astype(values.dtype, copy=False)
        return out

    def without_noise(self, values: Array) -> "NumberFormat":
        """Return the format with the decimals that values have but for their last bits.

        Excel stores 65.1 as 65.099999999999994.
        """
        if self.exponent or self.most is None or self.most < FULL_DECIMALS:
            return self
        known = values[np.isfinite(values)]
        for most in range(FULL_DECIMALS):
            rounded = replace(self, most=most).rounded(known)
            if (np.abs(rounded - known) <= NOISE * np.abs(known)).all():
                return replace(self, least=min(self.least, most), most=most)
        return self

    def write(self, value: np.floating) -> str:
        """Return a value as the column writes its numbers; nothing for a missing one.

        >>> NumberFormat(",", ".", "", " kg", 2, 2).write(np.float64(-1234567.891))
        '-1.234.567,89 kg'
        """
        if np.isnan(value):
            return ""
        if self.exponent:
            text = self._with_exponent(float(value))
        elif self.most is None:
            text = str(value)  # the shortest that reads back as the same number
        else:
            text = np.format_float_positional(self.rounded(np.atleast_1d(value))[0], trim="-")
            short = self.least - len(text.partition(".")[2])
            text += ("" if "." in text else ".") + "0" * short if short > 0 else ""
        sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
        if not digits.strip("0."):
            sign = ""  # -0.00
        if self.thousands:
            whole, point, part = digits.partition(".")
            digits = f"{int(whole):,}".replace(",", self.thousands) + (point and self.decimal + part)
        else:
            digits = digits.replace(".", self.decimal)
        return f"{sign}{self.before}{digits}{self.after}"

    def _with_exponent(self, value: float) -> str:
        """Return a value in the style 1.234E+05."""
        mantissa, _, power = f"{value:.{self.most or 0}e}".partition("e")
        letter, plus = self.exponent[0], "+" if "+" in self.exponent else ""
        places = self.exponent.count("0")
        sign = "-" if power.startswith("-") else plus
        return f"{mantissa}{letter}{sign}{power[1:].lstrip('0').rjust(places, '0')}"


def _float(text: str) -> float:
    """Return a number, NaN for a word."""
    try:
        return float(text)
    except ValueError:
        return np.nan


@dataclass(slots=True)
class Shapes:
    """What a column is made of: the shapes of its cells, how many there are of each, and the first cell of each."""

    counts: Counter[str]
    example: dict[str, tuple[int, str]]
    zeros: bool = False
    """Whether a whole number begins with a 0 that means nothing for its value, as in a zip code."""

    @property
    def present(self) -> int:
        """The number of cells that are not missing."""
        return self.counts.total()

    def brief(self) -> "Brief":
        """Return what is still of interest when the format of the column is known."""
        numbers = (text for _, text in self.example.values() if is_number(text))
        return Brief(self.present, self.zeros, next(numbers, ""))

    @property
    def wild(self) -> bool:
        """Whether there are more shapes than numbers have."""
        return len(self.counts) > MOST_SHAPES


@dataclass(frozen=True, slots=True)
class Brief:
    """A column in brief: how many cells are not missing, if one begins with a 0 as codes do, one of its numbers."""

    present: int
    zeros: bool
    example: str


_LEADING_ZERO = re.compile(rf"(?:^|{BREAK})[\s\"]*0[0-9]+[\s\"]*(?={BREAK}|$)")


def add_cells(
    shapes: Shapes, cells: Sequence[str], start: int, plain: Callable[[str], str], missing: frozenset[str]
) -> None:
    """Count the shapes of more cells of a column, the first of which is in row `start`; `plain` strips a cell."""
    if shapes.wild:
        return
    joined = BREAK.join(cells)
    found = shape_of(joined).split(BREAK)
    counts = Counter(found)
    for shape, count in counts.items():
        text = sys.intern(plain(shape))  # columns of one kind share it
        if text in missing:
            continue
        shapes.counts[text] += count
        if text not in shapes.example:
            row = found.index(shape)
            shapes.example[text] = start + row, plain(cells[row])
    if not shapes.zeros and any(len(text) > 1 and text.isdigit() for text in shapes.counts):
        shapes.zeros = _LEADING_ZERO.search(joined) is not None


@dataclass(frozen=True)
class Reading:
    """A column read with one decimal sign: its format if it is one of numbers, and what speaks against it."""

    format: NumberFormat | None
    words: int
    """Number of cells that are no numbers."""
    others: int
    """Number of cells that are numbers with another unit than most."""
    grouped: bool
    """Whether marks between thousands are needed."""
    word: tuple[int, str] | None
    """The row and the text of the first cell that is none."""

    @property
    def bad(self) -> int:
        """The number of cells that this format does not explain."""
        return self.words + self.others


def reading(shapes: Shapes, decimal: str, thousands: str | None = None) -> Reading:
    """Return how a column reads with this decimal sign; `thousands` None allows any mark between groups."""
    pattern = _pattern(decimal, thousands)
    found: dict[tuple[str, str], list[tuple[re.Match[str], int]]] = {}
    words: list[str] = []
    for shape, count in shapes.counts.items():
        text = shapes.example[shape][1]
        match = pattern.fullmatch(text)
        if match is None or (match["sign"] and match["sign2"]):
            words.append(shape)
        else:
            found.setdefault((match["before"] or "", match["after"] or ""), []).append((match, count))
    n_words = sum(shapes.counts[word] for word in words)
    first = min((shapes.example[word] for word in words), default=None)
    if not found or shapes.wild:
        return Reading(None, shapes.present if shapes.wild else n_words, 0, False, first)
    unit = max(found, key=lambda pair: sum(count for _, count in found[pair]))
    matches = found[unit]
    others = sum(count for pair, some in found.items() if pair != unit for _, count in some)
    if others and first is None:
        first = min(shapes.example[shape_of(some[0][0].string)] for pair, some in found.items() if pair != unit)
    marks = Counter(match["mark"] for match, _ in matches if match.groupdict().get("mark"))
    if len(marks) > 1:
        return Reading(None, shapes.present, 0, True, first)
    format = _format(decimal, next(iter(marks), ""), unit, [match for match, _ in matches])
    numeric = not others and (not words or _few_words(shapes, words))
    return Reading(format if numeric else None, n_words, others, bool(marks), first)


def _few_words(shapes: Shapes, words: Iterable[str]) -> bool:
    """Return whether cells that are no numbers are few, and words: ERR or #DIV/0! but not <0.5 or 2024-01-01."""
    number = sum(shapes.counts[word] for word in words)
    return number <= WORDS * shapes.present and all(word.startswith("#") or "0" not in word for word in words)


def _format(decimal: str, thousands: str, unit: tuple[str, str], matches: Sequence[re.Match[str]]) -> NumberFormat:
    """Return the format that numbers have in common."""
    finite = [match for match in matches if match["whole"] is not None]
    parts = [len(match["part"] or "") for match in finite] or [0]
    powers = [match["exponent"] for match in finite]
    exponent, most = "", max(parts)
    if any(powers):
        if all(powers) and not thousands:
            exponent = shape_of(max(powers, key=len)).replace("-", "+")
            exponent = exponent if any("+" in p or "-" in p for p in powers) else exponent.replace("+", "")
        else:
            return NumberFormat(decimal, thousands, *unit)
    return NumberFormat(decimal, thousands, *unit, min(parts), most, exponent)


def best_readings(
    columns: Sequence[Shapes], decimals: Sequence[str], thousands: str | None, *, prefer_plain: bool
) -> tuple[str, list[Reading]]:
    """Return the decimal sign of a table, and how each of its columns reads.

    The sign is the one that leaves the fewest cells unexplained, then the one that needs no marks between thousands
    (`prefer_plain`), then the first of `decimals`. A column that another sign explains better is read with that.
    """
    shared: dict[Reading, Reading] = {}  # most columns of a wide table read the same
    tried = {
        decimal: [shared.setdefault(one, one) for one in (reading(shapes, decimal, thousands) for shapes in columns)]
        for decimal in decimals
    }

    def cost(decimal: str) -> tuple[int, int]:
        some = tried[decimal]
        return sum(one.bad for one in some), sum(one.grouped for one in some) if prefer_plain else 0

    best = min(decimals, key=cost)
    chosen = [
        min((tried[decimal][j] for decimal in sorted(decimals, key=lambda d: d != best)), key=lambda one: one.bad)
        for j in range(len(columns))
    ]
    return best, chosen


def round_as_written(A: Array, formats: Sequence[NumberFormat] | None, where: NDArray[np.bool_]) -> None:
    """Round the entries of a mask, in place, as each column writes them."""
    if formats is None:
        return
    for j in np.flatnonzero(where.any(axis=0)).tolist():
        rows = where[:, j]
        A[rows, j] = formats[j].rounded(A[rows, j])


def describe(whole: bool, format: NumberFormat | None) -> str:
    """Return in a few words what the numbers of a column are.

    >>> describe(False, NumberFormat(after=" kg", least=2, most=2))
    'numbers, 2 decimals, kg'
    """
    if format is None or format.most is None or format.exponent or whole:
        words = "whole numbers" if whole else "numbers"
    else:
        words = f"numbers, {format.most} decimal{'' if format.most == 1 else 's'}"
    unit = "" if format is None else (format.before + format.after).strip()
    return f"{words}, {unit}" if unit else words
