"""Tables of texts: which records of a file are their rows, what stands in the cells, and how others are written."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from kernmend.io._cells import Edits
from kernmend.io._dataset import Request
from kernmend.io._decoding import Ends, Text, write_records
from kernmend.io._text import MISSING


def missing_texts(ask: Request) -> frozenset[str]:
    """Return the texts that mean a missing value: those that always do, and those that were told."""
    return MISSING | set(ask.missing)


@dataclass(frozen=True, kw_only=True)
class Grid(ABC):
    """The data rows of a table of texts, by the numbers that they have in the file."""

    rows: Any
    """The numbers of the records that are rows, a sequence."""
    header: list[str] | None = None
    """The names of the columns; None if there are none."""
    width: int = 0
    """The number of columns."""
    prefer_plain: ClassVar[bool] = False
    """Whether a decimal sign is preferred that leaves no marks between thousands."""

    @property
    @abstractmethod
    def format(self) -> str:
        """The name of the format."""

    @property
    def decimals(self) -> Sequence[str]:
        """The decimal signs that are tried, the likelier first."""
        return ".", ","

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @abstractmethod
    def cells(self, start: int, stop: int) -> Sequence[Sequence[str]]:
        """Return the cells of some rows as they stand in the file; FileError where a row has another width."""

    def raw(self, row: int) -> Sequence[str]:
        """Return the cells of a row as they stand in the file, also where `cells` gives a word for them."""
        return self.cells(row, row + 1)[0]

    @abstractmethod
    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the file with other texts in some cells."""

    def accepts(self, text: str) -> bool:
        """Return whether the format allows a number to be written so."""
        return True

    def assumed(self, ask: Request, columns: Any) -> tuple[str, ...]:
        """Return notes on what was assumed of the table, whose `columns` are known, and not told."""
        return ()

    def upto(self, stop: int) -> Self:
        """Return the grid with the first rows only; the others are kept as they are."""
        return replace(self, rows=self.rows[:stop])


@dataclass(frozen=True, kw_only=True)
class TextGrid(Grid):
    """A table in a text file: some of its records are rows, and a record that is not mended stays as it is."""

    path: Path
    text: Text
    ends: Ends
    """Where the records end."""
    pack: Callable[[Path], None] | None = None
    """Packs, in its place, what was written; None if the file is not packed."""

    def begin(self, number: int) -> int:
        """Return where a record begins."""
        return int(self.ends[number - 1]) if number else 0

    def record(self, number: int) -> str:
        """Return a record with its line end."""
        return self.text.part(self.begin(number), int(self.ends[number]))

    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the whole text with other texts in some cells."""
        numbers = ((int(self.rows[row]), texts) for row, texts in edits)
        write_records(temporary, self.text, self.ends, ((n, self.edited(n, texts)) for n, texts in numbers))
        if self.pack is not None:
            self.pack(temporary)

    @abstractmethod
    def edited(self, number: int, texts: Mapping[int, str]) -> str:
        """Return a record with other texts in some cells."""
