"""How a column writes its numbers: used to read them and to write mended ones."""

import re
from collections.abc import Callable, Sequence
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
# Number of decimals from which on they may be those of rounding in the last bits, ...
FULL_DECIMALS = 10
# ... which is at most this share of a value: a few times the 2e-16 of one operation.
NOISE = 1e-15
# Signs of negative numbers: of keyboards, of printed text, and the dash that word processors make of the first.
SIGNS = "-\u2212\u2013"
# A sign behind a number, as SAP writes it.
TRAILING = re.compile(rf"([^{BREAK}]+)-(?={BREAK}|$)")


@dataclass(frozen=True)
class Sign:
    """How a number is marked as negative or positive: what stands before and after it, next to the digits or outside.

    `-$5` has Sign("-"), `5` has Sign(), `(5)` and `($5)` have Sign("(", ")"), `$(5)` has Sign("(", ")", inner=True).
    """

    before: str = ""
    after: str = ""
    inner: bool = False

    @property
    def negative(self) -> bool:
        """Whether it means a negative number."""
        return self != Sign() and self.before != "+"


@cache
def pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """Return what a number with this decimal sign looks like; `thousands` None allows any mark between groups."""
    marks = [mark for mark in ((",", ".", *GROUPERS) if thousands is None else thousands) if mark != decimal]
    point, three = re.escape(decimal), "[0-9]{3}"
    grouped = rf"[0-9]{{1,3}}(?P<mark>[{re.escape(''.join(marks))}]){three}(?:(?P=mark){three})*|" if marks else ""
    part = rf"(?:{point}(?P<part>[0-9]+|(?=$|[eEdD][+-]?[0-9])))?"
    digits = rf"(?P<whole>{grouped}[0-9]+|(?={point}[0-9])){part}(?P<exponent>[eEdD][+-]?[0-9]+)?"
    number = rf"(?P<number>{digits}|inf(?:inity)?)"
    left = rf"(?P<outer>\()?(?P<sign>[{SIGNS}+])?(?P<before>{BEFORE})?(?P<inner>\()?(?P<sign2>[{SIGNS}+])?"
    right = rf"(?(inner)\))(?P<trail>[{SIGNS}])?(?P<after>{AFTER})?(?(outer)\))"
    return re.compile(left + number + right, re.IGNORECASE)


def sign_of(match: re.Match[str]) -> Sign | None:
    """Return how a number is marked; None if it has two marks, or one in a wrong place.

    A minus sign behind it is one only behind decimals: `2-` may be a mark of a school.
    """
    marks = [(name, match[name]) for name in ("outer", "sign", "inner", "sign2", "trail") if match[name]]
    if not marks:
        return Sign()
    (name, mark), after = marks[0], match["after"] or ""
    if len(marks) > 1 or (name == "trail" and not (match["part"] and after[:1] in ("", " ", "\u00a0"))):
        return None
    inner = name not in ("outer", "sign") and bool(match["before"] or after)
    if name == "trail":
        return Sign("", mark, inner)
    return Sign(mark, ")" if mark == "(" else "", inner)


def is_number(text: str) -> bool:
    """Return whether a text is a number in some format, with its unit.

    >>> [is_number(text) for text in ("1.000,92", "70.6%", "$1,469.49", "12 kg", "2024-01-01", "A12", "1_000")]
    [True, True, True, True, False, False, False]
    >>> [is_number(text) for text in ("(13.46)", "\u221213.46", "$(1.50)", "13.46-", "(5", "(-5)", "2-", "(+5)")]
    [True, True, True, True, False, False, False, False]
    """
    matches = (pattern(decimal, None).fullmatch(text) for decimal in ".,")
    return any(match is not None and sign_of(match) is not None for match in matches)


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
    minus, plus : how most negative and positive numbers are marked; `parse` knows the other ways, too.
    """

    decimal: str = "."
    thousands: str = ""
    before: str = ""
    after: str = ""
    least: int = 0
    most: int | None = None
    exponent: str = ""
    minus: Sign = Sign("-")
    plus: Sign = Sign()

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole ones."""
        return self.most == 0 and not self.exponent

    def parse(self, text: str) -> float | None:
        """Return the value of a cell; None if it is not a number in this format."""
        match = pattern(self.decimal, self.thousands).fullmatch(text)
        if match is None or (match["before"] or "", match["after"] or "") != (self.before, self.after):
            return None
        sign = sign_of(match)
        if sign is None:
            return None
        value = _float(match["number"].replace(self.thousands, "").replace(self.decimal, "."))
        return -value if sign.negative else value

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
        for piece in ('"', "'", self.before, self.after, self.thousands, ")"):
            if piece:
                joined = joined.replace(piece, "")
        for sign in (*SIGNS[1:], "("):
            joined = joined.replace(sign, "-")
        if f"-{BREAK}" in joined or joined.endswith("-"):
            joined = TRAILING.sub(r"-\1", joined)
        return list(map(_float, joined.replace(self.decimal, ".").split(BREAK)))

    def rounded(self, values: Array) -> Array:
        """Return values as they will be read back after they were written."""
        if self.exponent:
            written = [np.nan if np.isnan(v) else _float(self._with_exponent(float(v))) for v in values.tolist()]
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
        >>> NumberFormat(before="$", least=2, most=2, minus=Sign("(", ")")).write(np.float64(-13.456))
        '($13.46)'
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
        sign, digits = (self.minus, text[1:]) if text.startswith("-") else (self.plus, text)
        if not _float(text):
            sign = Sign()  # -0.00
        if self.thousands:
            whole, point, part = digits.partition(".")
            digits = f"{int(whole):,}".replace(",", self.thousands) + (point and self.decimal + part)
        else:
            digits = digits.replace(".", self.decimal)
        if sign.inner:
            return f"{self.before}{sign.before}{digits}{sign.after}{self.after}"
        return f"{sign.before}{self.before}{digits}{self.after}{sign.after}"

    def _with_exponent(self, value: float) -> str:
        """Return a value in the style 1.234E+05."""
        mantissa, _, power = f"{value:.{self.most or 0}e}".partition("e")
        letter, plus = self.exponent[0], "+" if "+" in self.exponent else ""
        places = self.exponent.count("0")
        sign = "-" if power.startswith("-") else plus
        return f"{mantissa}{letter}{sign}{power[1:].lstrip('0').rjust(places, '0')}"


def _float(text: str) -> float:
    """Return a number, also one with the exponent of Fortran, as in 1.5D+03; NaN for a word."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(text.upper().replace("D", "E"))
    except ValueError:
        return np.nan


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
