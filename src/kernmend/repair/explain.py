"""The reason of one row: which cells were changed, against what, how sure that is, and which good rows are nearest."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from kernmend.repair.changes import in_words, with_interval

MOST_CELLS = 5
"""Cells that are told of in words; all are in `cells`."""


@dataclass(frozen=True)
class CellReason:
    """One cell of a row: what it was, what it became, and what it was held against.

    In words, "give or take" is one standard deviation (`spread`), and ± half of the interval (`low` to `high`).
    `low` and `high` bound the true value. `expected` is what the other columns of the row say of the cell (in rows that
    are wrong as a whole, what similar good rows say), `spread` how far good rows are from that, one standard deviation.
    `lowest` and `highest` are the range of the good rows in this column. `score` is -log10 of the chance of a good cell
    being as far out, NaN where it is not known, `confidence` the probability that the cell was wrong, NaN if it was
    not found to be. `unsure` says that no value is known to better than the column: `low` and `high` are its ends.
    """

    column: int
    name: str
    old: float
    new: float
    low: float
    high: float
    score: float
    expected: float
    spread: float
    lowest: float
    highest: float
    confidence: float = float("nan")
    unsure: bool = False

    def sentence(self, *, whole: bool) -> str:
        """Return in words why the cell is what it became."""
        who = "similar rows say" if whole else "the other columns of this row say"
        if self.old != self.old:
            known = f"{self.name} is missing, and similar rows say {with_interval(self.new, self.low, self.high)}"
        else:
            expected = f"{in_words(self.expected)}, give or take {in_words(self.spread, 2)}"
            known = f"{self.name} is {in_words(self.old)} where {who} {expected}"
            if self.old > self.highest:
                known += f", and no good row is above {in_words(self.highest)}"
            elif self.old < self.lowest:
                known += f", and no good row is below {in_words(self.lowest)}"
        doubt = f"the column as a whole says {in_words(self.low)} to {in_words(self.high)}, and no more is known"
        if self.new != self.new:
            return f"{known}; it is left blank, since {doubt}"
        if self.new == self.old:
            return f"{known}; it stays, since {doubt if self.unsure else 'it is in line with it'}"
        if self.unsure:
            return f"{known}; unsure: {doubt}"
        return known if self.old != self.old else f"{known}; it became {with_interval(self.new, self.low, self.high)}"


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a row was changed, or was not.

    Attributes
    ----------
    row : int
        Its number.
    flagged, suspect, changed : bool
        Whether it counts as wrong, is unusual but not wrong, has values that are not what they were.
    score, threshold : float
        -log10 of the chance of a good row being as far out, and beyond which score rows are flagged.
    confidence : float
        The probability that a flagged row is wrong; NaN if it is not flagged.
    whole : bool
        Whether the row is wrong as a whole; else single cells are, or none.
    cells : tuple of CellReason
        The cells that were changed, or found wrong and left as they were; those that changed most come first.
    nearest : tuple of int
        The numbers of the good rows nearest to what the row became.
    sentences : tuple of str
        All that in words.

    Examples
    --------
    >>> from kernmend import KernelRecovery
    >>> from kernmend.datasets import make_circle
    >>> X = make_circle(60, random_state=0).X
    >>> X[7] = [0.4, 0.4]
    >>> why = KernelRecovery().fit(X).explain(7)
    >>> why.flagged, why.whole, len(why.cells)
    (True, True, 2)
    """

    row: int
    flagged: bool
    suspect: bool
    changed: bool
    score: float
    threshold: float
    confidence: float
    whole: bool
    cells: tuple[CellReason, ...]
    nearest: tuple[int, ...]
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def __repr__(self) -> str:
        return f"<Explanation: {self.sentences[0]}>"

    def _repr_html_(self) -> str:
        """Return the explanation for a notebook: the sentences, then a table of the cells."""
        words = f"<p>{escape(self.sentences[0])}</p>"
        near = f"<p>{escape(self.sentences[-1])}</p>" if self.nearest else ""
        heads = ("column", "old", "new", "low", "high", "expected", "spread", "lowest", "highest")
        rows = "".join(
            f"<tr><td>{escape(cell.name)}</td>"
            + "".join(f"<td>{in_words(getattr(cell, name))}</td>" for name in heads[1:])
            + "</tr>"
            for cell in self.cells
        )
        table = f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{rows}</table>" if rows else ""
        return words + table + near


def sentences(
    row: int,
    *,
    flagged: bool,
    suspect: bool,
    score: float,
    threshold: float,
    confidence: float,
    whole: bool,
    cells: Sequence[CellReason],
    nearest: Sequence[int],
    by_share: bool = False,
    names: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Return in words why a row was flagged or was not, what became of its cells, and which good rows are nearest.

    `by_share` says that a given share of the rows was flagged, `names` are those of all rows.
    """

    def called(number: int) -> str:
        return str(number) if names is None else f"{number} · {names[number]}"

    out = [f"Row {called(row)} {_verdict(flagged, suspect, score, threshold, confidence, whole, by_share)}."]
    told = [cell.sentence(whole=whole or not flagged) for cell in cells[:MOST_CELLS]]
    out += [f"{text}." for text in told]
    if len(cells) > MOST_CELLS:
        out.append(f"{len(cells) - MOST_CELLS} more cells are in `cells`.")
    if flagged and not cells:
        out.append("Nothing was changed: mending left every value where it was.")
    if nearest:
        out.append(f"The nearest good rows are {', '.join(map(called, nearest))}.")
    return tuple(out)


def _verdict(
    flagged: bool, suspect: bool, score: float, threshold: float, confidence: float, whole: bool, by_share: bool
) -> str:
    """Return what was decided of a row, and by what."""
    chance = f"its score is {score:.3g}, the threshold {threshold:.3g}"
    if flagged and by_share:
        return f"is flagged as one of the share that was asked for: {chance}"
    if flagged and score > threshold:
        # Never more than is shown: 0.9996 is not 100 %.
        sure = f"{np.floor(1000.0 * confidence) / 10.0:.4g} % of the rows that are as far out are wrong"
        return f"is wrong {'as a whole' if whole else 'in single cells'}: {chance}, and about {sure}"
    if flagged:
        return f"was given as wrong, though it would not have been flagged: {chance}"
    if score > threshold:
        return f"was given as good, and so it was not flagged: {chance}"
    if suspect:
        return f"is unusual and was not changed: {chance}"
    return f"fits the others: {chance}"
