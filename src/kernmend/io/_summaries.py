"""Rows at the end of a table that sum up the others: totals, means and the like, which are not measured.

They are known by arithmetic: most of their numbers are the sum or the mean of those above. A word such as "Total" only
makes less of it enough; of the smallest, the largest and other figures that a good row may have too it is demanded.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.io._number_format import NumberFormat

# Largest number of rows that sum up a table, and number of the last rows among which they are looked for.
MOST, LAST = 8, 24
# Fewest rows that are summed up: two or one often add up by accident.
LEAST = 3
# Largest chance that the numbers of a row agree by accident if it has no such word, and if it has one.
CHANCE, CHANCE_WITH_WORD = 1e-4, 0.05
# Standard deviations by which a sum of rounded numbers may differ from the rounded sum of the numbers; a number that is
# rounded to a unit is off by 1 / sqrt(12) of it.
DEVIATIONS = 3 / 12**0.5
# Largest distance from a figure, as a share of the range of its column, of a number that is said to be it.
NEAR = 0.05
# Number of the rows above that are asked how they agree.
SAMPLE = 1000
# Most decimals of a number that are looked for; beyond, they are those of the last bits.
MOST_DECIMALS = 10
# Number of entries that are looked at together, so that this takes no memory to speak of.
ENTRIES = 2**15
WORDS = {
    "sum": "sum sums total totals totale totaal gesamt insgesamt summe summa somme suma soma razem σ итого всего 合计",
    "mean": "mean means average averages avg ave mittel mittelwert durchschnitt moyenne media promedio gemiddelde ø",
    "median": "median médiane mediana",
    "smallest": "min minimum mini minimo mínimo",
    "largest": "max maximum maxi massimo máximo",
    "standard deviation": "std stdev sd stddev deviation standardabweichung",
    "number": "count counts anzahl",
}
"""What sums up a column, and the words that say so in some languages."""
FIGURES: dict[str, Callable[[Array], Sequence[float]]] = {
    "median": lambda known: [float(np.median(known))],
    "smallest": lambda known: [float(known.min())],
    "largest": lambda known: [float(known.max())],
    "standard deviation": lambda known: [float(known.std()), float(known.std(ddof=1))],
    "number": lambda known: [float(len(known))],
}
"""Those that count only where a word says so."""
_BY_WORD = {word: name for name, words in WORDS.items() for word in words.split()}


@dataclass(frozen=True)
class Above:
    """What is known of the columns above a row: their sums, numbers of known values, smallest and largest values."""

    sums: Array
    counts: NDArray[np.intp]
    low: Array
    high: Array

    def with_rows(self, rows: Array) -> "Above":
        """Return what is known with more rows."""
        known = ~np.isnan(rows)
        return Above(
            self.sums + np.where(known, rows, 0.0).sum(axis=0),
            self.counts + known.sum(axis=0),
            np.minimum(self.low, np.where(known, rows, np.inf).min(axis=0, initial=np.inf)),
            np.maximum(self.high, np.where(known, rows, -np.inf).max(axis=0, initial=-np.inf)),
        )


def said_figures(cells: Sequence[str]) -> set[str]:
    """Return which figures the words of a row name.

    >>> sorted(said_figures(["Grand total:", "12", "Std. dev."]))
    ['standard deviation', 'sum']
    """
    words = (word for cell in cells for word in re.findall(r"[^\W\d_]+", cell.casefold()))
    return {_BY_WORD[word] for word in words if word in _BY_WORD}


def summary_rows(
    X: Array, formats: Sequence[NumberFormat], cells: Callable[[int], Sequence[str]]
) -> tuple[int, list[str]]:
    """Return the number of the first row, of those at the end that sum up the others, and what each of them is.

    Between and below them only rows without a number may stand. `cells(i)` are the texts of a row. Without such rows it
    is the number of all rows.
    """
    tail = np.arange(max(0, len(X) - LAST), len(X))
    filled = tail[~np.isnan(X[tail]).all(axis=1)][-MOST:].tolist()
    if not filled or filled[-1] < LEAST:
        return len(X), []
    powers = np.array([(one.most or 0) if one.exponent else -1 for one in formats])
    said = {i: said_figures(cells(i)) for i in filled}
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        above = _first_rows(X, filled[0])
        for k, first in enumerate(filled):
            if k:
                above = above.with_rows(X[filled[k - 1] : filled[k - 1] + 1])
            names: list[str] = []
            for i in reversed(filled[k:] if first >= LEAST else []):  # the last row first: mostly it is none
                name = _figure(X[:first], X[i], above, powers, said[i])
                if name is None:
                    break
                names.insert(0, name)
            if first >= LEAST and len(names) == len(filled) - k:
                return first, names
    return len(X), []


def _first_rows(X: Array, stop: int) -> Above:
    """Return what is known of the columns above a row, a few rows at a time."""
    width = X.shape[1]
    above = Above(np.zeros(width), np.zeros(width, dtype=np.intp), np.full(width, np.inf), np.full(width, -np.inf))
    step = max(1, ENTRIES // width)
    for start in range(0, stop, step):
        above = above.with_rows(X[start : min(start + step, stop)])
    return above


def _figure(X: Array, row: Array, above: Above, powers: NDArray[np.intp], said: set[str]) -> str | None:
    """Return what a row is of the rows X, None if it is none.

    More than half of its numbers must agree, and the chance that they do by accident must be small: that of a column
    is the share of its range, the figure included, in which a number would be as near. Where no word says what the row
    is, none of the rows above may agree as well: in tables of zeros, or of columns that repeat each other, many do.
    """
    same = (above.low == above.high) & (row == above.low)  # a constant column tells nothing of its mean
    known = np.flatnonzero(~np.isnan(row) & (above.counts > 0) & ~same)
    if not len(known):
        return None
    row, tried = row[known], _figures(X, known, above, said)
    spans = [np.maximum(above.high[known], one) - np.minimum(above.low[known], one) for _, one in tried]
    close = [np.abs(row - one) < NEAR * span for (_, one), span in zip(tried, spans, strict=True)]
    if 2 * np.any(close, axis=0).sum() <= len(row):
        return None  # nearly always
    own = _units(row[None], powers[known])
    sample = X[-max(20, min(SAMPLE, ENTRIES // len(row))) :, known]
    rounding = DEVIATIONS * _units(sample, powers[known]) / np.sqrt(above.counts[known])  # of a mean
    best, near = np.full(len(row), np.inf), np.zeros(len(row))
    which = np.full(len(row), "", dtype=object)
    for (name, figure), span, some in zip(tried, spans, close, strict=True):
        distance = np.abs(row - figure)
        allowed = rounding * above.counts[known] if name == "sum" else rounding
        chance = np.minimum(1.0, len(tried) * (2 * distance + own) / span)
        better = (distance <= 0.5 * own + allowed + 1e-9 * np.abs(figure)) & some & (chance < best)
        best[better], near[better], which[better] = chance[better], figure[better], name
    agreeing = which != ""
    if 2 * agreeing.sum() <= len(row):
        return None
    name = str(Counter(which[agreeing].tolist()).most_common(1)[0][0])
    chance = np.prod(best[agreeing])
    if name in said:
        return name if chance < CHANCE_WITH_WORD else None
    reach = np.maximum(np.abs(row - near), 0.5 * own)[agreeing]
    as_near = (np.abs(sample[:, agreeing] - near[agreeing]) <= reach).sum(axis=1)
    return name if chance < CHANCE and not (2 * as_near > len(row)).any() else None


def _figures(X: Array, known: NDArray[np.intp], above: Above, said: set[str]) -> list[tuple[str, Array]]:
    """Return what may sum up some columns of X: their sums, means, and what words say."""
    out = [("sum", above.sums[known]), ("mean", above.sums[known] / above.counts[known])]
    for name in (name for name in FIGURES if name in said):
        columns = (X[:, j] for j in known.tolist())
        out += [(name, figure) for figure in np.array([FIGURES[name](one[~np.isnan(one)]) for one in columns]).T]
    return out


def _units(values: Array, powers: NDArray[np.intp]) -> Array:
    """Return for each column the place value of the last decimal that its numbers have: 0.01 for 2.5 and 3.75.

    `powers` are the decimals before an exponent, which are those of the largest number; -1 in columns without one.
    """
    largest = np.abs(np.where(np.isnan(values), 0.0, values)).max(axis=0)
    units = np.full(values.shape[1], 10.0**-MOST_DECIMALS)
    open_ = np.flatnonzero(powers < 0)
    for decimals in range(MOST_DECIMALS):
        scaled = np.abs(values[:, open_]) * 10.0**decimals
        fits = (np.isnan(scaled) | (np.abs(scaled - np.rint(scaled)) <= 1e-9 * scaled + 1e-9)).all(axis=0)
        units[open_[fits]] = 10.0**-decimals
        open_ = open_[~fits]
        if not len(open_):
            break
    powered = (powers >= 0) & (largest > 0)
    units[powered] = 10.0 ** (np.floor(np.log10(largest[powered])) - powers[powered])
    return units


def note(names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on the rows that sum up the others; none if there are none.

    >>> note(["sum"])
    ('The last row is the sum of those above: not measured, kept as it is.',)
    """
    if not names:
        return ()
    if len(names) == 1:
        return (f"The last row is the {names[0]} of those above: not measured, kept as it is.",)
    some = " and ".join([", ".join(names[:-1]), names[-1]])
    return (f"The last {len(names)} rows are {some} of those above: not measured, kept as they are.",)
