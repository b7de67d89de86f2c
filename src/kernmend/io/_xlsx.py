"""Excel workbooks: one sheet is mended; all other cells, their formulas and formats stay as they are in the XML."""

import posixpath
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from zipfile import ZipFile, ZipInfo

from kernmend.io._cells import Edits, Verbatim
from kernmend.io._dataset import Request
from kernmend.io._files import FileError, damaged
from kernmend.io._grid import Columns, TableFormat
from kernmend.io._header import SAMPLE, find_header, has_groups, lines_above, units_note
from kernmend.io._number_format import is_number
from kernmend.io._sheet import (
    Line,
    check_xml,
    column_name,
    date_styles,
    is_added,
    is_text,
    lines,
    new_cell,
    shared_strings,
    tree,
    with_cells,
    with_number,
    without_number,
)
from kernmend.io._tables import Grid, missing_texts
from kernmend.io._text import plain, replaced
from kernmend.io._zips import ZIP_MAGIC, content, names_in, opened, rewrite

WORKBOOK = "xl/workbook.xml"
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
CALCULATION = re.compile(r"<((?:\w+:)?)calcPr\b([^>]*?)(/?)>")
# Elements of a workbook after which the one that asks for a calculation may stand, the last first.
BEFORE_CALCULATION = ("definedNames", "externalReferences", "functionGroups", "sheets")


@dataclass(frozen=True, kw_only=True)
class SheetGrid(Grid):
    """The table of a sheet: its data rows by their numbers in the sheet, from 1."""

    format: ClassVar[str] = "xlsx"
    xml: str
    lines: dict[int, Line]
    rows: list[int]
    first: int
    """The number of the first column in the sheet."""
    notes: tuple[str, ...]
    """What stands around the table."""
    write: Callable[[Path, str], None]
    """Writes the workbook to a temporary path with other XML of the sheet."""

    def cells(self, start: int, stop: int) -> list[list[str]]:
        """Return what the cells of some rows show; those of formulas nothing."""
        return [_texts(self.lines[row], self.first, self.width, formulas=False) for row in self.rows[start:stop]]

    def raw(self, row: int) -> list[str]:
        """Return what the cells of a row show, those of formulas what they have computed."""
        return _texts(self.lines[self.rows[row]], self.first, self.width, formulas=True)

    def assumed(self, ask: Request, columns: Columns) -> tuple[str, ...]:
        """Return notes on what stands around the table."""
        return self.notes

    def save(self, temporary: Path, edits: Edits) -> None:
        """Write the workbook with other texts in some cells of the sheet."""
        parts, at, styles = [], 0, _styles(self)
        for k, texts in edits:
            row = self.rows[k]
            line = self.lines[row]
            new = {self.first + j: self._cell(row, self.first + j, text, styles) for j, text in texts.items()}
            left = any(cell.text for column, cell in line.cells.items() if column not in new)
            parts += [self.xml[at : line.start], with_cells(self.xml, line, new, shows=left or any(texts.values()))]
            at = line.end
        self.write(temporary, "".join([*parts, self.xml[at:]]))

    def _cell(self, row: int, column: int, text: str, styles: dict[int, str]) -> str:
        """Return the XML of a cell with another text; nothing for one that was added and is now taken away."""
        line = self.lines[row]
        cell = line.cells.get(column)
        old = "" if cell is None else self.xml[cell.start : cell.end]
        if cell is not None and cell.formula:
            raise FileError(f"{column_name(column)}{row} holds a formula, which is not replaced by a value")
        if not text and (cell is None or (isinstance(text, Verbatim) and is_added(old))):
            return ""
        number = NUMBER.fullmatch(text) is not None
        if cell is not None and text and is_text(old) and is_number(plain(cell.text)):
            number = False  # a number stored as text stays one, in its quotes if it has any
            text = text if isinstance(text, Verbatim) else replaced(cell.text, text)
        elif cell is not None and (number or not text):
            same = with_number(old, text) if number else without_number(old)
            if same is not None:
                return same
        prefix = next((one.prefix for one in line.cells.values()), "")
        style = styles.get(column, "") if cell is None else cell.style
        return new_cell(column, row, prefix, style, text, number=number, added=cell is None)


class Xlsx(TableFormat):
    """Workbooks of Excel and of programs that write the same."""

    name = "xlsx"
    words = "an Excel workbook"
    endings = (".xlsx", ".xlsm")
    marks = ZIP_MAGIC
    several = True
    layout = ("header", "decimal", "thousands")

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether this is a zip whose ending, or whose content, is that of a workbook."""
        known = path.suffix.lower() in self.endings
        return super().sees(path, head) and (known or "[Content_Types].xml" in names_in(path))

    def grid(self, ask: Request) -> SheetGrid:
        """Return the only sheet with a table, or the named one."""
        with opened(ask.path) as archive, damaged(ask.path, "Excel workbook"):
            infos = {info.filename: info for info in archive.infolist()}
            parts = _Parts(ask, archive, infos)
            name, member, sheet = _pick(ask, parts)
            calculated = any(
                "sheet" in key and b"<f" in content(archive, infos[key]) for key in infos if key.endswith("xml")
            )
            workbook = parts.text(WORKBOOK)

        def write(temporary: Path, xml: str) -> None:
            new = {member: xml.encode()}
            if calculated:
                new[WORKBOOK] = _calculating(workbook).encode()
            rewrite(ask.path, temporary, new.get)

        return _table(ask, sheet, name, write)


class _Parts:
    """The files in a workbook."""

    def __init__(self, ask: Request, archive: ZipFile, infos: dict[str, ZipInfo]) -> None:
        self.archive, self.infos = archive, infos
        if WORKBOOK not in infos:
            raise FileError(f"{ask.path}: is an Office file without a workbook: save the table as csv")
        relations = tree(self.raw("xl/_rels/workbook.xml.rels") or b"<none/>")
        targets = {
            one.get("Id"): posixpath.normpath(posixpath.join("xl", one.get("Target", ""))).lstrip("/")
            for one in relations.iter("Relationship")
        }
        self.sheets: dict[str, str] = {}
        for sheet in tree(self.raw(WORKBOOK) or b"").iter("sheet"):
            relation = next((value for key, value in sheet.attrib.items() if key.endswith("}id")), None)
            target = targets.get(relation, "")
            target = target.removeprefix("xl/") if target.startswith("xl/xl/") else target
            if target in infos and "worksheets" in target:
                self.sheets[sheet.get("name", "")] = target
        self.strings = shared_strings(self.raw("xl/sharedStrings.xml"))
        self.dates = date_styles(self.raw("xl/styles.xml"))

    def raw(self, name: str) -> bytes | None:
        """Return a file; None if it is not there."""
        return content(self.archive, self.infos[name]) if name in self.infos else None

    def text(self, name: str) -> str:
        """Return a file as text, after a check of its XML."""
        raw = self.raw(name) or b""
        check_xml(raw)
        return raw.decode("utf-8")

    def grid(self, member: str) -> tuple[str, dict[int, Line]]:
        """Return the XML of a sheet and its rows."""
        xml = self.text(member)
        return xml, lines(xml, self.strings, self.dates)


def _pick(ask: Request, parts: _Parts) -> tuple[str, str, tuple[str, dict[int, Line]]]:
    """Return the name, the file and the rows of the sheet that is meant."""
    if ask.member is not None:
        if ask.member not in parts.sheets:
            raise FileError(f"{ask.path}: has no sheet {ask.member!r}; it has {', '.join(parts.sheets) or 'none'}")
        return ask.member, parts.sheets[ask.member], parts.grid(parts.sheets[ask.member])
    found = {name: parts.grid(member) for name, member in parts.sheets.items()}
    full = [name for name, (_, rows) in found.items() if sum(line.filled for line in rows.values()) > 3]
    if len(full) > 1:
        raise FileError(
            f"{ask.path}: has several sheets, {', '.join(full)}: name the one that is meant, as in "
            f"{ask.path.name}::{full[0]}"
        )
    if not full:
        raise FileError(f"{ask.path}: holds no table")
    return full[0], parts.sheets[full[0]], found[full[0]]


def _texts(line: Line, first: int, width: int, *, formulas: bool) -> list[str]:
    """Return what the cells of a row show; those of formulas only if asked."""
    out = [""] * width
    for column, cell in line.cells.items():
        if first <= column < first + width and (formulas or not cell.formula):
            out[column - first] = cell.text.replace("\0", "")
    return out


def _table(
    ask: Request, sheet: tuple[str, dict[int, Line]], name: str, write: Callable[[Path, str], None]
) -> SheetGrid:
    """Return the table of a sheet. `write` writes the workbook.

    A title above it is passed over: rows that fill less than half of the columns. So are rows in which a formula stands
    in a column of values, such as totals. A column most of whose cells are formulas is computed, not measured.
    """
    xml, rows = sheet
    places = [row for row in sorted(rows) if rows[row].filled]
    columns = [column for row in places for column, cell in rows[row].cells.items() if cell.text]
    if not places:
        raise FileError(f"{ask.path}: the sheet {name} is empty")
    first, width = min(columns), max(columns) - min(columns) + 1
    most = max(rows[row].filled for row in places)
    while len(places) > 1 and 2 * rows[places[0]].filled < most:
        places.pop(0)
    top = [_texts(rows[row], first, width, formulas=True) for row in places[: SAMPLE + 2]]
    missing = missing_texts(ask)
    above = 0 if ask.layout.header is False else lines_above(top, missing)
    above += has_groups(top[above:], missing, ask.layout.header)
    places, top = places[above:], top[above:]
    found = find_header(top, missing, ask.layout.header)
    header = top[0] if found.names else None
    # Rows that mending emptied are rows of the table as they were; what stands above the table is never emptied.
    data = sorted([*places[found.names + found.units :], *(row for row, line in rows.items() if line.emptied)])
    counts = Counter(c for row in data for c, cell in rows[row].cells.items() if cell.formula)
    computed = {c for c, count in counts.items() if 2 * count > len(data)}
    totals = [r for r in data if any(cell.formula and c not in computed for c, cell in rows[r].cells.items())]
    notes = []
    if found.doubt:
        notes.append(f"The numbers in row {places[0]} are taken for the names of the columns; say --no-header if not.")
    if found.units:
        notes.append(units_note("row", places[1], found.units))
    if computed:
        notes.append("Columns of formulas are kept as they are.")
    if totals:
        some = f"row {totals[0]} has" if len(totals) == 1 else f"{len(totals)} rows (the first is row {totals[0]}) have"
        notes.append(f"Kept as they are: {some} formulas in columns of values.")
    kept = set(totals)
    return SheetGrid(
        xml=xml,
        lines=rows,
        rows=[row for row in data if row not in kept],
        first=first,
        width=width,
        header=header,
        notes=tuple(notes),
        write=write,
    )


def _styles(grid: SheetGrid) -> dict[int, str]:
    """Return the style of the cells of each column, that of the first row that has one."""
    out: dict[int, str] = {}
    for row in grid.rows:
        for column, cell in grid.lines[row].cells.items():
            out.setdefault(column, cell.style)
    return out


def _calculating(workbook: str) -> str:
    """Return the XML of the workbook so that Excel computes all formulas when it opens it."""
    match = CALCULATION.search(workbook)
    if match is not None:
        facts = re.sub(r"\sfullCalcOnLoad\s*=\s*[\"'][^\"']*[\"']", "", match[2])
        new = f'<{match[1]}calcPr{facts} fullCalcOnLoad="1"{match[3]}>'
        return f"{workbook[: match.start()]}{new}{workbook[match.end() :]}"
    for name in BEFORE_CALCULATION:
        end = re.search(rf"</((?:\w+:)?){name}>|<((?:\w+:)?){name}[^>]*/>", workbook)
        if end is not None:
            prefix = end[1] or end[2] or ""
            return f'{workbook[: end.end()]}<{prefix}calcPr fullCalcOnLoad="1"/>{workbook[end.end() :]}'
    return workbook
