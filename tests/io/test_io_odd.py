"""Tables with something odd about them that programs and people write: what is read, kept and said of each."""

import zipfile

import numpy as np
import openpyxl
import pytest
from numpy.testing import assert_array_equal
from office import LENGTH, MASS, SHARE, N

from kernmend.io import FileError, patch, read, revert
from kernmend.io.changes import Found, make_log

X = np.column_stack([LENGTH, MASS, SHARE])
ROWS = [",".join(map(str, row)) for row in X.tolist()]
NAMES = ("length", "mass", "share")
HEAD = ",".join(NAMES)


def table(head=HEAD, rows=ROWS, end="\n", last=True):
    return end.join([head, *rows]) + (end if last else "")


def before(cells, rows=ROWS):
    return [f"{cell},{row}" for cell, row in zip(cells, rows, strict=True)]


TABLES = {
    "utf-8 mark": ("\ufeff" + table(), NAMES, ()),
    "mark and quotes": ("\ufeff" + table('"length","mass","share"', end="\r\n"), NAMES, ()),
    "utf-16 with a mark": (("\ufeff" + table()).encode("utf-16-le"), NAMES, ()),
    "utf-16 without one": (table().encode("utf-16-be"), NAMES, ()),
    "two encodings": (
        table(f"town,{HEAD}", before([f"Köln {i}" for i in range(N)])).encode()
        + "Köln,1500.0,60.0,50.0\n".encode("cp1252"),
        NAMES,
        ("Read with letters as cp1252.",),
    ),
    "line ends in quotes": (table(f"note,{HEAD}", before([f'"{i}\n""b"", c"' for i in range(N)])), NAMES, ()),
    "semicolons and decimal commas": (
        table(HEAD.replace(",", ";"), [row.replace(",", ";").replace(".", ",") for row in ROWS]),
        NAMES,
        ("Read with columns between semicolons, decimal commas.",),
    ),
    "delimiters at the end": (table(HEAD + ",", [row + "," for row in ROWS]), NAMES, ()),
    "delimiters at the end of rows": (table(HEAD, [row + "," for row in ROWS]), NAMES, ()),
    "index of R": (table(HEAD, before([f"r{i}" for i in range(N)])), NAMES, ()),
    "index without a name": (table(f",{HEAD}", before(range(N))), NAMES, ()),
    "the same name three times": (table("x,x,x"), ("x", "x (2)", "x (3)"), ()),
    "dates": (table(f"day,{HEAD}", before([f"2024-01-{i % 28 + 1:02d}" for i in range(N)])), NAMES, ()),
    "American dates": (table(f"day,{HEAD}", before([f"{i % 12 + 1}/{i % 28 + 1}/2024" for i in range(N)])), NAMES, ()),
    "dates as numbers": (
        table(f"day,{HEAD}", before([f"202401{7 * i % 28 + 1:02d}" for i in range(N)])),
        NAMES,
        ("Not measured, kept as it is: day (dates); --columns decides which are mended.",),
    ),
    "seconds since 1970": (
        table(f"at,{HEAD}", before([1_700_000_000 + 600 * i for i in range(N)])),
        NAMES,
        ("Not measured, kept as it is: at (seconds or milliseconds since 1970); --columns decides which are mended.",),
    ),
    "truth values": (table(f"ok,{HEAD}", before(["True", "False"] * (N // 2))), NAMES, ()),
    "no line end at the end": (table(last=False), NAMES, ()),
    "line ends of old Macs": (table(end="\r"), NAMES, ()),
    "line ends of two systems": (table(rows=ROWS[:9]) + "\r\n".join(ROWS[9:]) + "\r\n", NAMES, ()),
    "the delimiter in the first line": (
        "sep=;\r\n" + table(HEAD.replace(",", ";"), [row.replace(",", ";") for row in ROWS], end="\r\n"),
        NAMES,
        ("1 line above the table is kept.", "Read with columns between semicolons."),
    ),
    "a comment at the end": (table() + "# made by a logger\n", NAMES, ("1 line below the table is kept.",)),
    "a signature of two lines": (
        table() + "\nrows: 40\nmade on Monday",
        NAMES,
        ("2 lines below the table are kept.",),
    ),
    "blanks that align": (
        "  length   mass  share\n" + "".join(f"{a:8.2f} {b:6.1f} {c:6.1f}\n" for a, b, c in X.tolist()),
        NAMES,
        ("Read with columns between runs of blanks.",),
    ),
    "blanks after commas": (table(HEAD.replace(",", ", "), [row.replace(",", ", ") for row in ROWS]), NAMES, ()),
    "empty lines above": ("\n\n" + table(), NAMES, ()),
}


@pytest.mark.parametrize("kind", TABLES)
def test_odd_tables_are_read_and_come_back(tmp_path, kind):
    content, names, notes = TABLES[kind]
    raw = content if isinstance(content, bytes) else content.encode()
    path = tmp_path / "a.csv"
    path.write_bytes(raw)
    data = read(path)
    assert (data.columns, data.notes) == (names, notes)
    assert_array_equal(data.X[:N], X)
    assert data.write(tmp_path / "same.csv", data.X).read_bytes() == raw
    A = data.X.copy()
    A[5, 1] = 77
    new = data.write(tmp_path / "new.csv", A)
    assert_array_equal(read(new).X, A)
    log = make_log(data, A, Found(np.zeros(len(A)), np.zeros(len(A), dtype=bool), None))
    assert patch(path, log, tmp_path / "patched.csv").path.read_bytes() == new.read_bytes()
    assert revert(new, log, tmp_path / "back.csv").path.read_bytes() == raw


def test_whole_numbers_stay_whole(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{i * i},{7 * i % 5}\n" for i in range(20)))
    data = read(tmp_path / "a.csv")
    assert data.integer.all()
    A = data.X.copy()
    A[4] = [17.6, 2.2]
    assert data.write(tmp_path / "b.csv", A).read_text().splitlines()[5] == "18,2"


@pytest.mark.parametrize(("rows", "shape"), [(ROWS[:1], (1, 3)), (ROWS[:2], (2, 3)), (["5.5", "6.5"], (2, 1))])
def test_few_rows_and_one_column(tmp_path, rows, shape):
    head = HEAD if shape[1] == 3 else "x"
    (tmp_path / "a.csv").write_text(table(head, rows))
    data = read(tmp_path / "a.csv")
    assert data.X.shape == shape
    assert data.write(tmp_path / "b.csv", data.X).read_text() == table(head, rows)


@pytest.mark.parametrize("last", ["1500.5", "1500.5,6"])
def test_a_row_that_was_cut_off_is_no_signature(tmp_path, last):
    (tmp_path / "a.csv").write_text(table() + last)
    with pytest.raises(FileError, match=f"line {N + 2} has . cells? where 3 are expected"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("values", "measured"),
    [
        ([20240101 + 3 * i for i in range(10)], False),
        ([20241301 + 3 * i for i in range(10)], True),  # there is no month 13
        ([20240101] * 10, True),  # no dates: nothing tells the rows apart
        ([1_700_000_000_000 + i * i for i in range(10)], False),
        ([1_700_000_000 - 7 * i for i in range(10)], True),  # time does not go back
        ([700_000_000 + 7 * i for i in range(10)], True),
    ],
)
def test_whole_numbers_that_are_dates_or_times(tmp_path, values, measured):
    (tmp_path / "a.csv").write_text("t,x\n" + "".join(f"{value},{i * i / 8}\n" for i, value in enumerate(values)))
    assert (read(tmp_path / "a.csv").columns == ("t", "x")) == measured


@pytest.mark.parametrize("style", [None, "0.00"])
def test_cells_of_a_workbook_that_were_not_there_are_taken_away_again(tmp_path, style):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["name", "x", "y", "z"])
    for i in range(20):
        sheet.append([f"r{i}", i * i / 4, (7 * i) % 11, 0.5 * i])
        for cell in sheet[i + 2][1:]:
            cell.number_format = style or "General"
    for cell in ("B4", "D6", "B9", "C9", "D9"):
        sheet[cell] = None
        if cell != "C9":
            del sheet._cells[sheet[cell].row, sheet[cell].column]
    sheet["C9"].number_format = "0.0"  # empty, but there
    path = tmp_path / "a.xlsx"
    book.save(path)
    data = read(path)
    A = data.X.copy()
    A[2, 0], A[4, 2], A[7], A[0, 1] = 3.25, 4.5, [5, 6, 7], 8
    log = make_log(data, A, Found(np.zeros(20), np.zeros(20, dtype=bool), None))
    clean, patched = data.write(tmp_path / "clean.xlsx", A), patch(path, log, tmp_path / "patched.xlsx").path
    back = revert(clean, log, tmp_path / "back.xlsx").path
    parts = []
    for one in (path, clean, patched, back):
        with zipfile.ZipFile(one) as archive:
            xml = archive.read("xl/worksheets/sheet1.xml")
            parts.append(xml.replace(b' t="n" />', b"/>").replace(b" />", b"/>"))  # how an empty cell is said to be so
    assert parts[1] == parts[2] != parts[0]
    assert parts[3] == parts[0]
    again = openpyxl.load_workbook(clean).active
    assert [again[cell].value for cell in ("B4", "D6", "B9", "C9", "D9", "C2")] == [3.25, 4.5, 5, 6, 7, 8]
    assert again["B4"].number_format == (style or "General")
    assert_array_equal(read(clean).X, A)
