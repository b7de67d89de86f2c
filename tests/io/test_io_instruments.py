"""More files of offices, loggers and instruments: what is read, kept and said of each, and how values come back."""

import datetime
import zipfile

import numpy as np
import openpyxl
import pytest
from numpy.testing import assert_array_equal
from office import LENGTH, MASS, SHARE, N

from kernmend.io import FileError, patch, read, revert
from kernmend.io.changes import Found, make_log

X = np.column_stack([LENGTH - 1500, MASS, SHARE]).round(2)  # about half of the first column is negative
NAMES = ("level", "mass", "share")
HEAD = ",".join(NAMES)
ROWS = [",".join(map(str, row)) for row in X.tolist()]


def lines(rows, end="\n"):
    return end.join([*rows, ""])


def level(form):
    """Return the rows with another form of the first column, made by a function of its value."""
    return [",".join([form(a), *row.split(",")[1:]]) for a, row in zip(X[:, 0].tolist(), ROWS, strict=True)]


def bracketed(value):
    return f"({-value:.2f})" if value < 0 else f"{value:.2f}"


BRACKETS = ("Numbers in brackets are taken for negative ones: level.",)
TABS = "Read with columns between tabs."
FILES = {
    "brackets": (lines([HEAD, *level(bracketed)]), BRACKETS, "(77.25),"),
    "brackets in quotes, with blanks": (
        lines([HEAD, *level(lambda a: f'" ${bracketed(a)} "')]),
        BRACKETS,
        '" $(77.25) ",',
    ),
    "brackets around the currency": (
        lines([HEAD, *level(lambda a: f"(${-a:.2f})" if a < 0 else f"${a:.2f}")]),
        BRACKETS,
        "($77.25),",
    ),
    "printed minus signs": (lines([HEAD, *level(lambda a: f"{a:.2f}".replace("-", "\u2212"))]), (), "\u221277.25,"),
    "minus signs behind": (
        lines([HEAD, *level(lambda a: f"{-a:.2f}-" if a < 0 else f"{a:.2f}")]),
        (),
        "77.25-,",
    ),
    "single quotes": (lines([HEAD, *level(lambda a: f"'{a:.2f}'")]), (), "'-77.25',"),
    "exponents of Fortran": (lines([HEAD, *level(lambda a: f"{a:.6E}".replace("E", "D"))]), (), "-7.725000D+01,"),
    "settings of an oscilloscope": (
        "Model,X20\nVersion,1.52\n\nFormat,Y,\nInterval,4e-09,\nUnit,S,\n\n" + lines([HEAD, *ROWS]),
        ("5 lines above the table are kept.",),
        None,
    ),
    "a logger of Campbell": (
        '"TOA5","CR1000","12","Std.22","Table1"\n"AT","level","mass","share"\n"TS","mm","kg","%"\n"","Smp","Avg","Avg"\n'
        + lines(f'"2024-01-01 00:{i:02d}:00",{row}' for i, row in enumerate(ROWS)),
        ("1 line above the table is kept.", "Lines 3 to 4 are taken for units and kept."),
        None,
    ),
    "a spectrometer": (
        "Data from a.txt\n\nDate: Fri 1\nTime (s): 1.0E-1\n>>>Begin<<<\n" + "\t".join(NAMES) + "\n"
        + lines(row.replace(",", "\t") for row in ROWS),
        ("4 lines above the table are kept.", TABS),
        None,
    ),
    "a unit of what has none": (
        lines([HEAD, "mm,1,%", *ROWS]),
        ("Line 2 is taken for units and kept.",),
        None,
    ),
    "names of groups": (lines(["Sensor 1,,Sensor 2", HEAD, *ROWS]), ("1 line above the table is kept.",), None),
    "comments inside": (
        lines([HEAD, *ROWS[:9], "# pause", *ROWS[9:20], "# again, later", *ROWS[20:]]),
        ("2 lines in it that begin with # are kept.",),
        None,
    ),
    "another table beside it": (
        lines([HEAD + ",,code,cost", *(row + (f",,c{i},{i * i}" if i < 9 else ",,,") for i, row in enumerate(ROWS))]),
        ("Another table beside this one is kept as it is: cost; --columns decides which are mended.",),
        None,
    ),
    "the end of a file of DOS": (lines([HEAD, *ROWS], "\r\n") + "\x1a", ("1 line below the table is kept.",), None),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_files_are_read_and_come_back(tmp_path, kind):
    content, notes, written = FILES[kind]
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    data = read(path)
    assert data.notes == notes
    assert data.columns == NAMES
    assert_array_equal(data.X, X)
    assert data.write(tmp_path / "same.csv", data.X).read_bytes() == path.read_bytes()
    A = data.X.copy()
    A[5, 0] = -77.25
    new = data.write(tmp_path / "new.csv", A)
    old, lines = path.read_bytes().decode().splitlines(), new.read_bytes().decode().splitlines()
    (other,) = [line for line, before in zip(lines, old, strict=True) if line != before]
    assert (written or "-77.25") in other
    assert_array_equal(read(new).X, A)
    log = make_log(data, A, Found(np.zeros(N), np.zeros(N, dtype=bool), None))
    assert patch(path, log, tmp_path / "patched.csv").path.read_bytes() == new.read_bytes()
    assert revert(new, log, tmp_path / "back.csv").path.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("top", "names", "above"),
    [
        (["x,x,x", "ERR,ERR,ERR"], ("x", "x (2)", "x (3)"), 0),  # names that repeat, then a row of errors
        (["made,by,", "on,Monday,", "level,mass,mass"], ("level", "mass", "mass (2)"), 2),  # filled up with commas
        ([",mass,share", "mm,kg,%"], ("column 0", "mass", "share"), 0),  # a column without a name, and units
        (["made by,me", "level,mass,share"], NAMES, 1),
    ],
)
def test_which_line_names_the_columns(tmp_path, top, names, above):
    (tmp_path / "a.csv").write_text(lines([*top, *ROWS]))
    data = read(tmp_path / "a.csv")
    assert data.columns == names
    assert any("above the table" in note for note in data.notes) == (above > 0)
    assert_array_equal(data.X[-N:], X)


def test_a_header_without_the_name_of_the_index_above_a_row_of_errors(tmp_path):
    rows = [f"r{i},{row}" for i, row in enumerate(["ERR,ERR,ERR", *ROWS])]
    (tmp_path / "a.csv").write_text(lines([HEAD, *rows]))
    data = read(tmp_path / "a.csv")
    assert data.columns == NAMES
    assert_array_equal(data.X[-N:], X)


def test_plus_signs_come_back(tmp_path):
    (tmp_path / "a.csv").write_text(lines([HEAD, *level(lambda a: f"{a:+.2f}")]))
    data = read(tmp_path / "a.csv")
    A = data.X.copy()
    A[[5, 6], 0] = 77.25, -77.25
    rows = data.write(tmp_path / "b.csv", A).read_text().splitlines()
    assert [row.partition(",")[0] for row in rows[6:8]] == ["+77.25", "-77.25"]


@pytest.mark.parametrize("mark", ["--", "-", "\u2014", "."])
def test_dashes_and_points_are_missing_though_they_are_many(tmp_path, mark):
    rows = [row if i % 3 else f"{mark}," + row.partition(",")[2] for i, row in enumerate(ROWS)]
    (tmp_path / "a.csv").write_text(lines([HEAD, *rows]))
    data = read(tmp_path / "a.csv")
    assert np.isnan(data.X[::3, 0]).all()
    assert data.notes == (f"column 'level': 14 cells are no numbers and count as missing, first {mark!r} in row 0",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,c\n", "no column of numbers was found: it has a header and no rows below"),
        ("# 5 rows, of a, b\na,b,c\n", "no column of numbers was found: it has a header and no rows below"),
        ("a,b,c\n,,\n,,\n", "no column of numbers was found: it has a header and only empty cells below"),
        (",,\n,,\n,,\n", "holds only empty cells"),
        ("# a\n# b, c\n", "holds no rows"),
        ("<html><table><tr><td>1</td></tr></table></html>", "is a web page or XML: save the table as csv or xlsx"),
    ],
)
def test_what_is_refused(tmp_path, content, message):
    (tmp_path / "a").write_text(content)
    with pytest.raises(FileError, match=message):
        read(tmp_path / "a")


def book(fill):
    """Return a workbook whose only sheet is filled by a function."""
    out = openpyxl.Workbook()
    fill(out.active)
    return out


def table(sheet):
    for i, row in enumerate(X.tolist()):
        sheet.append([f"r{i}", *row])


def merged(sheet):
    sheet["A1"] = "Measurements"
    sheet.merge_cells("A1:D1")
    sheet["B2"], sheet["D2"] = "Sensor 1", "Sensor 2"
    sheet.merge_cells("B2:C2")
    sheet.append(["run", *NAMES])
    table(sheet)


def hidden(sheet):
    sheet.append(["run", *NAMES])
    table(sheet)
    sheet.row_dimensions[5].hidden = sheet.column_dimensions["C"].hidden = True
    sheet.auto_filter.ref = f"A1:D{N + 1}"


def dated(sheet):
    sheet.append(["day", "at", *NAMES])
    for i, row in enumerate(X.tolist()):
        sheet.append([datetime.date(2024, 1, 1 + i % 28), datetime.datetime(2024, 1, 1, i % 24), *row])


def texts(sheet):
    sheet.append(["run", *NAMES])
    for i, row in enumerate(X.tolist()):
        sheet.append([f"r{i}", bracketed(row[0]), f"'{row[1]}'", row[2]])


def beside(sheet):
    sheet.append([*NAMES, None, "code", "cost"])
    for i, row in enumerate(X.tolist()):
        sheet.append([*row, None, *([f"c{i}", i * i] if i < 9 else [])])


@pytest.mark.parametrize("fill", [merged, hidden, dated, texts, beside])
def test_workbooks(tmp_path, fill):
    path = tmp_path / "a.xlsx"
    book(fill).save(path)
    data = read(path)
    assert data.columns == NAMES
    assert_array_equal(data.X, X)
    A = data.X.copy()
    A[5] = [-77.25, 70.5, 30.5]
    again = data.write(tmp_path / "b.xlsx", A)
    assert_array_equal(read(again).X, A)
    parts = []
    for one in (path, again):
        with zipfile.ZipFile(one) as archive:
            parts.append({name: archive.read(name) for name in archive.namelist()})
    sheet = "xl/worksheets/sheet1.xml"
    assert {name: raw for name, raw in parts[0].items() if name != sheet} == {
        name: raw for name, raw in parts[1].items() if name != sheet
    }
    rows = [part[sheet].decode().split("<row ") for part in parts]
    assert sum(a != b for a, b in zip(*rows, strict=True)) == 1
    if fill is texts:
        cells = [cell.value for cell in openpyxl.load_workbook(again).active[7]][1:]
        assert cells == ["(77.25)", "'70.5'", 30.5]
