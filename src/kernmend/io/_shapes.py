"""What the columns of a table of texts are made of, found from the shapes of their cells.

A shape is a text with each digit replaced by 0: `$1,469.49` has the shape `$0,000.00`. A column of a million numbers
has a few dozen shapes, so that its format is found from all cells at the cost of looking at a few.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from kernmend.io._number_format import BREAK, NumberFormat, Sign, is_number, pattern, sign_of

# Largest share of the cells of a column of numbers that may be words, such as ERR, which then count as missing.
WORDS = 0.1
# Largest number of shapes of a column of numbers: up to 20 digits before and after the point, with two signs, are 800.
MOST_SHAPES = 5000
# Letters of texts that say that there is nothing: dashes of all lengths, and the points of statistical programs.
NOTHING = "-\u2010\u2011\u2012\u2013\u2014\u2212."
_TO_SHAPE = str.maketrans("123456789", "000000000")


def shape_of(text: str) -> str:
    """Return a text with each digit replaced by 0.

    >>> shape_of("-12.50 kg")
    '-00.00 kg'
    """
    return text.translate(_TO_SHAPE)


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
    """A column in brief: how many cells are not missing, if one begins with a 0 as codes do, one of its numbers.

    It is apart from the `Reading`, which most columns of a wide table share: of 4,000 columns that is a third of the
    memory.
    """

    present: int
    zeros: bool
    example: str


_LEADING_ZERO = re.compile(rf"(?:^|{BREAK})[\s\"']*0[0-9]+[\s\"']*(?={BREAK}|$)")


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
    found: dict[tuple[str, str], list[tuple[re.Match[str], int]]] = {}
    words: list[str] = []
    for shape, match in _matches(shapes, pattern(decimal, thousands)).items():
        if match is None:
            words.append(shape)
        else:
            found.setdefault((match["before"] or "", match["after"] or ""), []).append((match, shapes.counts[shape]))
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
    minus, plus = _signs(matches)
    format = replace(format, minus=minus, plus=plus)
    numeric = not others and (not words or _few_words(shapes, words))
    return Reading(format if numeric else None, n_words, others, bool(marks), first)


def _matches(shapes: Shapes, pattern: re.Pattern[str]) -> dict[str, re.Match[str] | None]:
    """Return each shape as a number, None if it is none.

    Numbers in brackets are negative ones if others stand without; where all have brackets they may be labels.
    """
    out: dict[str, re.Match[str] | None] = {}
    others = False
    for shape in shapes.counts:
        match = pattern.fullmatch(shapes.example[shape][1])
        sign = None if match is None else sign_of(match)
        out[shape] = None if sign is None else match
        others = others or (sign is not None and sign.after != ")")
    return out if others else dict.fromkeys(out)


def _signs(matches: Iterable[tuple[re.Match[str], int]]) -> tuple[Sign, Sign]:
    """Return how most of the negative numbers are marked (by a minus sign if there are none), and the positive ones."""
    minus: Counter[Sign] = Counter()
    plus: Counter[Sign] = Counter()
    for match, count in matches:
        sign = sign_of(match) or Sign()
        (minus if sign.negative else plus)[sign] += count
    return (
        max(minus, key=minus.__getitem__, default=Sign("-")),
        max(plus, key=plus.__getitem__, default=Sign()),
    )


def _few_words(shapes: Shapes, words: Iterable[str]) -> bool:
    """Return whether cells that are no numbers are few, and words: ERR or #DIV/0! but not <0.5 or 2024-01-01.

    Dashes, or the point of SAS, say that there is nothing: they may be up to a half.
    """
    blank = {word for word in words if not word.strip(NOTHING)}
    number = sum(shapes.counts[word] for word in words if word not in blank)
    if 2 * sum(shapes.counts[word] for word in blank) > shapes.present:
        return False
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
