"""One sheet of an Excel workbook: its cells with their places in the XML, so that some can be replaced and no others.

The XML is checked by a parser and cut by patterns: a parser that writes would change what it does not know.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import escape, unescape

# Patterns of rows and cells; some programs put a prefix before each name.
ROW = re.compile(r"<(?:\w+:)?row(?P<facts>\s[^>]*?)?(?:/>|>(?P<body>.*?)</(?:\w+:)?row>)", re.DOTALL)
CELL = re.compile(r"<(?P<p>\w+:)?c(?P<facts>\s[^>]*?)?(?:/>|>(?P<body>.*?)</(?:\w+:)?c>)", re.DOTALL)
# The name of a row with one blank more behind it than it needs, which means nothing: all its cells were emptied.
EMPTIED = re.compile(r"<(?:\w+:)?row\s(?=[\s/>])")
FACT = re.compile(r"\s(\w+)\s*=\s*[\"']([^\"']*)[\"']")
VALUE = re.compile(r"<(?:\w+:)?v(?:\s[^>]*)?>(.*?)</(?:\w+:)?v>", re.DOTALL)
ONLY_NUMBER = re.compile(r"<(?P<name>(?:\w+:)?c)(?P<facts>\s[^>]*)><(?:\w+:)?v>[^<]*</(?:\w+:)?v></(?P=name)>")
# The kind of a cell that holds words, and of one that holds a number.
WORDS, NUMBER = ' t="inlineStr"', ' t="n"'
TEXT = re.compile(r"<(?:\w+:)?t(?:\s[^>]*)?>(.*?)</(?:\w+:)?t>", re.DOTALL)
FORMULA = re.compile(r"<(?:\w+:)?f[\s>/]")
# The numbers of Excel's own formats of dates and times.
DATES = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])
# A letter of a date or a time in a format of the user's own, outside quotes and brackets.
DATE_LETTER = re.compile(r"[dmyhs]", re.IGNORECASE)
NO_LETTERS = re.compile(r"\"[^\"]*\"|\[[^\]]*\]|\\.|_.")
# The day 0 of Excel, whose 1900 has a 29th of February.
DAY_0 = datetime(1899, 12, 30)
# Largest number of columns and rows that Excel has.
MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576


@dataclass(frozen=True)
class Cell:
    """What a cell shows as text, its style, its place in the XML, and whether it is a formula."""

    text: str
    start: int
    end: int
    prefix: str
    style: str
    formula: bool


@dataclass(frozen=True)
class Line:
    """A row of a sheet: where it is in the XML, where its cells begin and end there, and the cells by column."""

    start: int
    end: int
    inner: tuple[int, int] | None
    cells: dict[int, Cell]
    emptied: bool = False
    """Whether `with_cells` left nothing in it: it still counts as a row, though others that show nothing do not."""

    @property
    def filled(self) -> int:
        """The number of cells that show something."""
        return sum(bool(cell.text) for cell in self.cells.values())


def check_xml(raw: bytes) -> None:
    """Raise ValueError, or an error of expat, for XML that is not sound or declares entities."""
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise ValueError("it declares entities")

    parser.StartDoctypeDeclHandler = refuse
    parser.CommentHandler = _refuse_comment
    parser.StartCdataSectionHandler = _refuse_comment
    parser.Parse(raw, True)


def _refuse_comment(*_: object) -> None:
    raise ValueError("it has comments or CDATA, which Excel does not write")


def tree(raw: bytes) -> ElementTree.Element:
    """Return sound XML as a tree, without namespaces in the names of its elements."""
    check_xml(raw)
    root = ElementTree.fromstring(raw)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def shared_strings(raw: bytes | None) -> list[str]:
    """Return the texts that cells refer to by number."""
    if raw is None:
        return []
    found = []
    for item in tree(raw).iter("si"):
        parts = [run for run in item if run.tag == "t"] + [
            run for part in item.findall("r") for run in part.findall("t")
        ]
        found.append("".join(part.text or "" for part in parts))
    return found


def date_styles(raw: bytes | None) -> set[str]:
    """Return the numbers of the styles in which a number is shown as a date or a time."""
    if raw is None:
        return set()
    root = tree(raw)
    own = {
        one.get("numFmtId", ""): bool(DATE_LETTER.search(NO_LETTERS.sub("", one.get("formatCode", ""))))
        for one in root.iter("numFmt")
    }
    styles = [one.get("numFmtId", "0") for part in root.iter("cellXfs") for one in part.findall("xf")]
    return {str(k) for k, number in enumerate(styles) if own.get(number, number.isdecimal() and int(number) in DATES)}


def column_number(reference: str) -> int:
    """Return the number of the column of a reference, from 0.

    >>> column_number("A1"), column_number("AB12")
    (0, 27)
    """
    number = 0
    for letter in reference.rstrip("0123456789").upper():
        if not "A" <= letter <= "Z":
            raise ValueError(f"{reference!r} is no cell")
        number = 26 * number + ord(letter) - ord("A") + 1
    if not 1 <= number <= MOST_COLUMNS:
        raise ValueError(f"{reference!r} is no cell")
    return number - 1


def column_name(number: int) -> str:
    """Return the letters of a column.

    >>> column_name(0), column_name(27)
    ('A', 'AB')
    """
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def lines(xml: str, strings: list[str], dates: set[str]) -> dict[int, Line]:
    """Return the rows of a sheet by their numbers, from 1; ValueError if they are not as Excel numbers them."""
    found: dict[int, Line] = {}
    number = 0
    for match in ROW.finditer(xml):
        facts = dict(FACT.findall(match["facts"] or ""))
        number = int(facts.get("r", number + 1))
        if not 1 <= number <= MOST_ROWS or number in found:
            raise ValueError(f"row {number} is not in its place")
        inner = None if match["body"] is None else match.span("body")
        line = Line(*match.span(), inner, _cells(xml, inner, strings, dates))
        emptied = inner is not None and not line.filled and EMPTIED.match(xml, line.start) is not None
        found[number] = replace(line, emptied=emptied)
    return found


def _cells(xml: str, inner: tuple[int, int] | None, strings: list[str], dates: set[str]) -> dict[int, Cell]:
    """Return the cells of a row by their columns."""
    out: dict[int, Cell] = {}
    if inner is None:
        return out
    column = -1
    for match in CELL.finditer(xml, *inner):
        facts = dict(FACT.findall(match["facts"] or ""))
        column = column_number(facts["r"]) if "r" in facts else column + 1
        if column in out:
            raise ValueError(f"column {column_name(column)} is there twice in a row")
        body, style = match["body"] or "", facts.get("s", "")
        text = _shown(body, facts.get("t", "n"), style in dates, strings)
        out[column] = Cell(text, *match.span(), match["p"] or "", style, FORMULA.search(body) is not None)
    return out


def _shown(body: str, kind: str, date: bool, strings: list[str]) -> str:
    """Return what a cell shows as text: its number, its words, or its date."""
    if kind == "inlineStr":
        return "".join(unescape(part) for part in TEXT.findall(body))
    match = VALUE.search(body)
    if match is None:
        return ""
    value = unescape(match[1]).strip()
    if kind == "s":
        if not value.isdecimal() or int(value) >= len(strings):
            raise ValueError(f"there is no text {value[:20]}")
        return strings[int(value)]
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind == "n" and date:
        try:
            return str(DAY_0 + timedelta(days=float(value)))
        except (ValueError, OverflowError):
            return f"date {value}"
    return value


def new_cell(column: int, row: int, prefix: str, style: str, text: str, *, number: bool, added: bool = False) -> str:
    """Return the XML of a cell with another value: a number, or a text such as 12 kg.

    One that is added, since none was there, has its reference as the last attribute. That means nothing to Excel,
    which writes it first, and tells `is_added` that the cell may be taken away again.
    """
    kind = ("n" if number else "inlineStr") if text else ""
    facts = {"r": f"{column_name(column)}{row}", "s": style, "t": "" if number and not added else kind}
    names = ("s", "t", "r") if added else ("r", "s", "t")
    start = f"<{prefix}c" + "".join(f' {name}="{facts[name]}"' for name in names if facts[name])
    if not text:
        return f"{start}/>"
    if number:
        return f"{start}><{prefix}v>{text}</{prefix}v></{prefix}c>"
    return f"{start}><{prefix}is><{prefix}t>{escape(text)}</{prefix}t></{prefix}is></{prefix}c>"


def is_added(cell: str) -> bool:
    """Return whether a cell was added by `new_cell` where none was.

    >>> is_added(new_cell(2, 9, "", "1", "5", number=True, added=True)), is_added('<c r="C9" s="1"><v>5</v></c>')
    (True, False)
    """
    names = [name for name, _ in FACT.findall(cell[: cell.index(">")])]
    return len(names) > 1 and names[-1] == "r"


def is_text(cell: str) -> bool:
    """Return whether the XML of a cell is that of a text.

    >>> is_text('<c r="A2" t="s"><v>0</v></c>'), is_text('<c r="A2"><v>5</v></c>')
    (True, False)
    """
    return dict(FACT.findall(cell[: cell.index(">")])).get("t") in ("s", "str", "inlineStr")


def with_number(cell: str, number: str) -> str | None:
    """Return the XML of a cell that holds a number, or nothing, with another one; None if it holds something else.

    A blank more after its name, which means nothing, says that an empty cell was to hold a text: pandas writes such.

    >>> with_number('<c r="A2" s="1" t="n"><v>5</v></c>', "7.5")
    '<c r="A2" s="1" t="n"><v>7.5</v></c>'
    >>> with_number('<c r="A2" t="inlineStr" />', "7.5")
    '<c  r="A2" t="n" ><v>7.5</v></c>'
    """
    start = cell[: cell.index(">")]
    kind = dict(FACT.findall(start)).get("t", "n")
    if cell.endswith("/>"):
        name = start[1:].split()[0]
        start = start.removesuffix("/")
        if kind == "inlineStr" and WORDS in start and start.startswith(f"<{name} "):
            start = f"<{name} {start[1 + len(name) :].replace(WORDS, NUMBER)}"
        elif kind != "n":
            return None
        return f"{start}><{name[:-1]}v>{number}</{name[:-1]}v></{name}>"
    values = list(VALUE.finditer(cell))
    if len(values) != 1 or kind != "n":
        return None
    return cell[: values[0].start(1)] + number + cell[values[0].end(1) :]


def without_number(cell: str) -> str | None:
    """Return the XML of a cell that holds a number without it, as it was before `with_number`; None if it holds more.

    >>> without_number('<c  r="A2" t="n" ><v>7.5</v></c>'), without_number('<c r="A2"><v>5</v></c>')
    ('<c r="A2" t="inlineStr" />', '<c r="A2"/>')
    """
    match = ONLY_NUMBER.fullmatch(cell)
    if match is None or dict(FACT.findall(match["facts"])).get("t", "n") != "n":
        return None
    facts = match["facts"]
    if facts.startswith("  "):
        facts = facts[1:].replace(NUMBER, WORDS)
    return f"<{match['name']}{facts}/>"


def with_cells(xml: str, line: Line, new: dict[int, str], *, shows: bool) -> str:
    """Return the XML of a row with other cells in some columns; the others stay as they are, character by character.

    `shows` says whether something is in the row then. One that is emptied gets a blank more behind its name, so that it
    is known for a row, and loses it when it is filled again.
    """
    row = _with_cells(xml, line, new)
    if shows == line.emptied:
        name = re.split(r"[\s/>]", row, maxsplit=1)[0]
        rest = row[len(name) :]
        row = name + (rest[1:] if line.emptied else f" {rest}")
    return row


def _with_cells(xml: str, line: Line, new: dict[int, str]) -> str:
    row = xml[line.start : line.end]
    if line.inner is None:
        facts = row.rstrip("/>").rstrip()
        name = facts[1:].split()[0]
        return f"{facts}>{''.join(new[column] for column in sorted(new))}</{name}>"
    at, parts = line.start, []
    rest = sorted(new)
    for column in sorted(line.cells):
        cell = line.cells[column]
        while rest and rest[0] < column:
            parts.append(xml[at : cell.start] + new[rest.pop(0)])
            at = cell.start
        if rest and rest[0] == column:
            parts.append(xml[at : cell.start] + new[rest.pop(0)])
            at = cell.end
    last = max((cell.end for cell in line.cells.values()), default=line.inner[0])
    parts.append(xml[at:last] + "".join(new[column] for column in rest) + xml[last : line.end])
    return "".join(parts)
