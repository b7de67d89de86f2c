"""The files that people really have: what is read of each, what is kept, what is said, and how mended values look."""

import gzip
import json
import re
import zipfile

import numpy as np
import office
import openpyxl
import pytest
from numpy.testing import assert_array_equal
from office import LENGTH, MASS, SHARE, SPECTRA, WAVES, N, made

from kernmend.io import FileError, read, without_empty


def changed_lines(data, cells, target):
    """Return the lines that differ after some cells were given other values, new by old."""
    A = data.X.copy()
    for at, value in cells.items():
        A[at] = value
    old, new = data.source.read_bytes(), data.write(target, A).read_bytes()
    if target.suffix == ".gz":
        old, new = gzip.decompress(old), gzip.decompress(new)
    pairs = zip(old.decode("cp1252").splitlines(), new.decode("cp1252").splitlines(), strict=True)
    return {before: after for before, after in pairs if before != after}


@pytest.mark.parametrize("name", office.FILES)
def test_untouched_files_keep_every_byte(tmp_path, name):
    path = made(tmp_path, name)
    data = read(path)
    again = data.write(tmp_path / f"again.{office.FILES[name]}", data.X)
    if name in ("packed_by_zip", "workbook"):
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(again) as new:
            assert old.namelist() == new.namelist()
            assert all(old.read(part) == new.read(part) for part in old.namelist())
    else:
        assert again.read_bytes() == path.read_bytes()


# --- headers of numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spectra_with_samples", "spectra_without_names", "wavenumbers_downwards"])
def test_wavelengths_are_names_and_never_written(tmp_path, name):
    path = made(tmp_path, name)
    data = read(path)
    down = name == "wavenumbers_downwards"
    assert data.columns == tuple(map(str, WAVES[::-1] if down else WAVES))
    assert data.X.shape == SPECTRA.shape
    assert "The numbers in line 1 are taken for the names of the columns; say --no-header if not." in data.notes
    assert data.row_labels == (None if name == "spectra_without_names" else tuple(f"s{i}" for i in range(N)))
    new = data.write(tmp_path / "out.csv", data.X + 1).read_text().splitlines()
    assert new[0] == path.read_text().splitlines()[0]
    told = read(path, header=True)
    assert (told.columns, told.notes) == (data.columns, ())
    assert read(path, header=False).X.shape == (N + 1, len(WAVES))


def test_years_are_names_though_rows_go_up_too(tmp_path):
    assert read(made(tmp_path, "years_as_names")).columns == tuple(map(str, range(1990, 1996)))


def test_points_without_a_header_have_none(tmp_path):
    data = read(made(tmp_path, "points_without_header"))
    assert data.columns is None
    assert_array_equal(data.X, np.column_stack([LENGTH, MASS, SHARE]))
    assert read(data.source, header=True).X.shape == (N - 1, 3)


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (["1,2,3,4,5", "2,3,4,5,6", "3,4,5,6,7"], False),  # all rows go up
        (["1,2,3,4,5", "5,1,2,9,0", "1,7,0,2,2"], False),  # 1 stands again below
        (["10,20,30,40,50", "5,1,2,9,0", "1,7,0,2,2"], True),
        (["10,20,30", "5,1,2", "1,7,0"], True),  # evenly spaced
        (["10,20,35", "5,1,2", "1,7,0"], False),  # three numbers go up by chance
        (["a,10,25,30,47,50", "b,5,1,2,9,0", "c,1,7,0,2,2"], True),
        (["a,10,25,30,47,5", "b,5,1,2,9,0", "c,1,7,0,2,2"], False),
        (["a,10,25,30,47,50", "b,5,1,,9,0", "c,1,7,0,2,2"], True),
        ([",,,,", "1,2,3,4,5"], False),
    ],
)
def test_when_numbers_are_a_header(tmp_path, rows, names):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(rows) + "\n")
    assert (read(path).columns is not None) == names


def test_random_rows_are_hardly_ever_taken_for_a_header(tmp_path):
    """One row in 60 of five random numbers goes one way, rarely one of six: what the constants promise."""
    rng = np.random.default_rng(0)
    found = {5: 0, 8: 0}
    for d in found:
        for k in range(300):
            path = tmp_path / f"{d} {k}.csv"
            np.savetxt(path, rng.normal(size=(4, d)), fmt="%.4f", delimiter=",")
            found[d] += read(path).columns is not None
    assert found[5] <= 300 / 30
    assert found[8] == 0


# --- numbers with something around them -------------------------------------------------------------------------------


def test_amounts_percent_and_units_come_back(tmp_path):
    data = read(made(tmp_path, "american_amounts"))
    assert_array_equal(data.X, np.column_stack([LENGTH, MASS, SHARE]))
    assert data.notes == ("Read with thousands apart by ','.",)
    old = f'"${LENGTH[3]:,.2f}",{MASS[3]} kg,{SHARE[3]}%'
    cells = {(3, 0): 1234567.891, (3, 1): 7, (3, 2): -0.04}
    assert changed_lines(data, cells, tmp_path / "out.csv") == {old: '"$1,234,567.89",7.0 kg,0.0%'}


def test_euros_with_decimal_commas(tmp_path):
    data = read(made(tmp_path, "euros"))
    assert_array_equal(data.X, np.column_stack([LENGTH, MASS]))
    assert data.notes == (
        "Read with columns between semicolons, decimal commas, thousands apart by '.', letters as cp1252.",
    )
    old = f"{office.german(LENGTH[0], 2)} €;{office.german(MASS[0], 1)}"
    assert changed_lines(data, {(0, 0): -24638.14828, (0, 1): 24.63814}, tmp_path / "out.csv") == {
        old: "-24.638,15 €;24,6"
    }


def test_empty_rows_and_columns_of_excel_are_kept(tmp_path):
    data = read(made(tmp_path, "excel_with_empty_rows_and_columns"))
    assert data.columns == ("Länge", "Masse")
    assert data.passed == ("column 2", "column 3")
    assert_array_equal(data.X, np.column_stack([LENGTH, MASS]))
    old = f"{office.german(LENGTH[30], 2)};{office.german(MASS[30], 1)};;"
    assert changed_lines(data, {(30, 1): 24.63814828512779}, tmp_path / "out.csv") == {
        old: f"{office.german(LENGTH[30], 2)};24,6;;"
    }


def test_a_line_of_units_is_kept_and_errors_count_as_missing(tmp_path):
    data = read(made(tmp_path, "logger_with_units_and_errors"))
    assert data.columns == ("length", "mass", "share")
    assert data.X.shape == (N, 3)
    assert np.argwhere(np.isnan(data.X)).tolist() == [[5, 0], [9, 1], [11, 2]]
    assert data.notes == (
        "Line 2 is taken for units and kept.",
        "column 'length': 1 cell is no number and counts as missing, first 'ERR' in row 5",
        "column 'share': 1 cell is no number and counts as missing, first '#DIV/0!' in row 11",
    )
    found = changed_lines(data, {(5, 0): 999.999, (11, 2): 3}, tmp_path / "out.csv")
    assert sorted(found.values()) == [f"00:05,1000.0,{MASS[5]},{SHARE[5]}", f"00:11,{LENGTH[11]},{MASS[11]},3.0"]


def test_lines_above_the_table_are_kept(tmp_path):
    raw = "Logger X12\nserial: 7\n\ntime;temp;mass\ns;K;g\n" + "".join(f"{i}.5;{300 + i};1,{i}\n" for i in range(9))
    (tmp_path / "a.csv").write_text(raw)
    data = read(tmp_path / "a.csv")
    assert (data.columns, data.X.shape) == (("time", "temp", "mass"), (9, 3))
    assert data.notes[:2] == ("2 lines above the table are kept.", "Line 5 is taken for units and kept.")
    assert data.write(tmp_path / "b.csv", data.X).read_text() == raw


def test_limits_of_detection_are_not_missing(tmp_path):
    path = made(tmp_path, "limits_of_detection")
    data = read(path)
    assert data.columns == ("length",)
    assert data.notes == (
        "column 'mass' is passed through: 1 cell is no number, first '<40' in row 3; to have it mended say "
        "--missing '<40'",
    )
    assert np.isnan(read(path, missing=["<40"]).X[3, 1])
    with pytest.raises(FileError, match=r"column 'mass' is not made of numbers, row 3 has '<40'.*--missing '<40'"):
        read(path, columns=["mass"])


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["12 kg", "13 kg", "14 kg"], [12, 13, 14]),
        (["12 kg", "13 g", "14 kg"], None),  # another unit
        (["12 kg", "13", "14 kg"], None),  # of which unit?
        (["12 m2", "13 m3", "14 m2"], None),
        (["12 m2", "13 m2", "14 m2"], [12, 13, 14]),
        (["1e3", "2.5E-1", "7"], [1000, 0.25, 7]),
        (["1'234.5", "12.5", "2'000'000"], [1234.5, 12.5, 2e6]),
        (["1 234", "2 000 000", "3"], [1234, 2e6, 3]),
        (["1,234", "5", "6"], [1234, 5, 6]),  # in quotes between commas these are thousands
        (["1,5", "2,25", "3"], [1.5, 2.25, 3]),
        (["-$5", "$-6", "$7"], [-5, -6, 7]),
        (["EUR 5", "EUR 6", "EUR 7"], [5, 6, 7]),
        (["20 °C", "21 °C", "-3 °C"], [20, 21, -3]),
        (["2024-01-01", "2024-01-02", "2024-01-03"], None),
        (["12:30", "12:31", "12:32"], None),
        (["1.2.3", "1.2.4", "1.2.5"], None),
        (["A1", "A2", "A3"], None),
        (["0x1F", "0x2A", "0x3B"], None),
        (["1st", "2nd", "3rd"], None),
        (["--5", "6", "7"], None),
    ],
)
def test_columns_of_numbers(tmp_path, cells, numbers):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f'{i / 7:.3f},"{cell}"\n' for i, cell in enumerate(cells)))
    data = read(path)
    if numbers is None:
        assert data.columns == ("x",)
    else:
        assert_array_equal(data.X[:, 1], np.array(numbers, dtype=float))


@pytest.mark.parametrize(
    ("cells", "value", "written"),
    [
        (["12.22", "3.10"], 24.63814828512779, "24.64"),
        (["12.22", "3.1"], 5.0, "5.0"),
        (["12.22", "3"], 5.0, "5"),
        (["12", "3"], 4.6, "5"),
        (["1.234E+05", "2.000E-03"], 123456.0, "1.235E+05"),
        (["1.5e3", "2.5e-3"], 0.00123, "1.2e-3"),
        (["1e-7", "0.5"], 1 / 3, "0.3333333333333333"),
        (["0.1234567890123456", "0.5"], 1 / 3, "0.3333333333333333"),
        (["65.09999999999999", "77.90000000000001"], 1 / 3, "0.3"),  # 65.1 and 77.9 but for their last bits
        (["65.099999999999994", "7"], 2.0, "2"),
        (["10.5%", "9.0%"], -0.04, "0.0%"),
        (["0.5", "0.25"], 1e300, f"{1e300:.0f}.0"),
        (["1.5", "2.5"], float("nan"), ""),
    ],
)
def test_values_are_written_as_their_column_writes_them(tmp_path, cells, value, written):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells)))
    data = read(path)
    A = data.X.copy()
    A[0, 0] = value
    new = data.write(tmp_path / "out.csv", A).read_text().splitlines()[1].partition(",")[0]
    assert float(new.strip("%") or "nan") == pytest.approx(float(written.strip("%") or "nan"), nan_ok=True)
    assert new == written or value == 1e300


# --- what the user says -----------------------------------------------------------------------------------------------


def test_what_is_told_is_not_guessed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("größe;y\n1.500;2\n2.500;3\n".encode("cp1252"))
    assert_array_equal(read(path, encoding="cp1252").X, [[1.5, 2], [2.5, 3]])
    data = read(path, decimal=",", delimiter=";", encoding="cp1252")
    assert_array_equal(data.X, [[1500, 2], [2500, 3]])
    assert data.columns == ("größe", "y")
    assert data.notes == ("Read with thousands apart by '.'.",)
    told = read(path, decimal=",", delimiter=";", encoding="cp1252", thousands=".")
    assert_array_equal(told.X, data.X)
    assert told.notes == ()
    assert read(path, decimal=",", thousands="").columns == ("y",)
    assert read(path, encoding="latin-1").columns == ("größe", "y")
    wide = tmp_path / "wide.txt"
    wide.write_text("a b|c\n1 2|3\n4 5|6\n")
    assert read(wide, delimiter=" ").columns == ("a",)
    assert read(wide, delimiter="|").columns == ("c",)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"delimiter": ";;"}, "the delimiter must be one character"),
        ({"decimal": "x"}, "the decimal sign must be a point or a comma"),
        ({"decimal": ",", "thousands": ","}, "',' cannot be the decimal sign and something else"),
        ({"decimal": ",", "delimiter": ","}, "',' cannot be the decimal sign and something else"),
        ({"thousands": "x"}, "'x' cannot stand between groups of digits"),
        ({"encoding": "klingon"}, "there is no encoding 'klingon'"),
        ({"encoding": "ascii"}, "is not ascii text"),
        ({"keep": ["q"]}, "has no column 'q' to keep"),
        ({"keep": ["x"], "columns": ["x"]}, "a column is either to be mended or to be kept"),
        ({"keep": ["x", "y"]}, "holds no column of numbers but those to keep"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, layout, message):
    path = tmp_path / "a.csv"
    path.write_text("x,y,ü\n1,2,a\n3,4,b\n")
    with pytest.raises(FileError, match=message):
        read(path, **layout)


def test_a_layout_is_for_tables_of_texts(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    with pytest.raises(FileError, match="is a NumPy array file, which has no header to choose: leave out --header"):
        read(tmp_path / "a.npy", header=True)
    with pytest.raises(FileError, match="is JSON lines, which has no decimal to choose"):
        read(made(tmp_path, "json_lines"), decimal=",")


def test_columns_to_keep(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(4, 3) ** 2)
    data = read(tmp_path / "a.npy", keep=[1])
    assert (data.columns, data.passed) == (("column 0", "column 2"), ("column 1",))
    data = read(made(tmp_path, "american_amounts"), keep=["mass"])
    assert (data.columns, data.passed) == (("price", "share"), ("mass",))
    import pandas as pd

    pd.DataFrame({"a": [0.5, 1.5], "b": [2.5, 0.1]}).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", keep=["a"]).columns == ("b",)


# --- identifiers ------------------------------------------------------------------------------------------------------


def test_identifiers_are_not_measured(tmp_path):
    path = made(tmp_path, "identifiers")
    data = read(path)
    assert (data.columns, data.passed) == (("length", "mass"), ("year", "zip", "customer_id"))
    assert data.notes == (
        "Not measured, kept as it is: year (counts its rows), zip (begins with zeros, as codes do), customer_id "
        "(codes); --columns decides which are mended.",
    )
    assert read(path, columns=["year", "length"]).columns == ("year", "length")
    assert read(path, keep=["mass"]).columns == ("length",)


def test_what_counts_is_measured_where_there_is_nothing_else(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("n\n" + "".join(f"{i}\n" for i in range(30)))
    assert read(path).columns == ("n",)


@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_identifiers_of_typed_tables(tmp_path, format):
    import pandas as pd

    import kernmend

    frame = pd.DataFrame({"year": range(1980, 1980 + N), "shopID": MASS.astype(int), "length": LENGTH, "mass": MASS})
    getattr(frame, f"to_{format}")(tmp_path / f"a.{format}")
    data = read(tmp_path / f"a.{format}")
    assert (data.columns, data.passed) == (("length", "mass"), ("year", "shopID"))
    assert "year (counts its rows), shopID (codes)" in data.notes[0]
    mended = kernmend.mend(frame, contamination=0.0)
    assert mended.estimator.n_features_in_ == 2
    assert "Passed through" in mended.summary()
    assert kernmend.mend(frame, columns=["year", "mass"], contamination=0.0).estimator.n_features_in_ == 2


# --- other formats ----------------------------------------------------------------------------------------------------


def test_json_lines(tmp_path):
    data = read(made(tmp_path, "json_lines"))
    assert (data.columns, data.passed, data.format) == (("length", "mass"), ("name", "tags"), "jsonl")
    assert np.argwhere(np.isnan(data.X)).tolist() == [[4, 1], [6, 0]]
    found = changed_lines(data, {(4, 1): 61.25, (6, 0): 7, (8, 0): 1.23456}, tmp_path / "out.jsonl")
    new = [json.loads(line) for line in found.values()]
    assert [(row["length"], row["mass"]) for row in new] == [(LENGTH[4], 61.2), (7.0, MASS[6]), (1.23, MASS[8])]
    assert all(row["tags"] == ["x"] for row in new)
    assert next(iter(found.values())).endswith('"tags": ["x"], "mass": 61.2}')


@pytest.mark.parametrize("name", ["packed_by_gzip", "packed_by_zip"])
def test_packed_tables(tmp_path, name):
    path = made(tmp_path, name)
    data = read(path)
    assert_array_equal(data.X, np.column_stack([LENGTH, MASS, SHARE]))
    A = data.X.copy()
    A[0, 0] = 5
    new = data.write(tmp_path / path.name.replace("packed", "new"), A)
    assert_array_equal(read(new).X, A)
    if name == "packed_by_gzip":
        assert new.read_bytes()[:10] == path.read_bytes()[:10]  # the time
        plain = gzip.decompress(new.read_bytes()).decode()
    else:
        with zipfile.ZipFile(new) as archive:
            assert archive.read("data/read me") == b"text"
            plain = archive.read("data/table.csv").decode()
    assert plain == office.american_amounts().replace(f"${LENGTH[0]:,.2f}", "$5.00")


def cells_of(path, sheet="xl/worksheets/sheet1.xml"):
    with zipfile.ZipFile(path) as archive:
        xml = archive.read(sheet).decode()
    return {match[1]: match[0] for match in re.finditer(r'<c [^>]*?\br="(\w+)"[^>]*?(?:/>|>.*?</c>)', xml)}, xml


def test_a_workbook_keeps_the_xml_of_all_other_cells(tmp_path):
    path = made(tmp_path, "workbook")
    data = read(path)
    assert (data.columns, data.passed) == (("length", "mass"), ("run", "sum", "note"))
    assert_array_equal(data.X[:, 0], LENGTH)
    assert np.argwhere(np.isnan(data.X)).tolist() == [[5, 1]]
    assert data.notes == (
        "Columns of formulas are kept as they are.",
        f"Kept as they are: row {N + 4} has formulas in columns of values.",
    )
    A = data.X.copy()
    A[2, 0], A[5, 1], A[N - 1] = 1234.5678, 61.25, [-1, 2]
    new = data.write(tmp_path / "out.xlsx", A)
    old_cells, old_xml = cells_of(path)
    new_cells, new_xml = cells_of(new)
    touched = {"B6", "C9", f"B{N + 3}", f"C{N + 3}"}
    assert {key for key in new_cells if old_cells.get(key) != new_cells[key]} == touched
    assert old_cells.keys() <= new_cells.keys()
    assert new_cells["B6"] == old_cells["B6"].replace(str(LENGTH[2]), "1234.57")
    for key in touched:  # and nothing changed between the cells
        new_xml = new_xml.replace(new_cells[key], "")
        old_xml = old_xml.replace(old_cells.get(key, "none"), "")
    assert new_xml == old_xml
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(new) as now:
        different = [part for part in old.namelist() if old.read(part) != now.read(part)]
    assert set(different) <= {"xl/worksheets/sheet1.xml", "xl/workbook.xml"}
    book = openpyxl.load_workbook(new)
    assert book.calculation.fullCalcOnLoad
    sheet = book["Runs"]
    assert (sheet["B6"].value, sheet["C9"].value, sheet["D6"].value) == (1234.57, 61.2, "=B6+C6")
    assert sheet["B6"].font.bold
    assert sheet["B6"].number_format == "#,##0.00"
    assert sheet["E6"].value == "<2 & more>"


def test_several_sheets_want_a_name(tmp_path):
    book = openpyxl.Workbook()
    book.active.title = "one"
    for sheet in (book.active, book.create_sheet("two")):
        for row in (["x", "y"], [1, 2.5], [4, 3.5], [2, 2.5]):
            sheet.append([sheet.title + "x" if cell == "x" else cell for cell in row])
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(FileError, match=r"has several sheets, one, two: name the one that is meant, as in a.xlsx::one"):
        read(tmp_path / "a.xlsx")
    assert read(f"{tmp_path}/a.xlsx::two").columns == ("twox", "y")
    with pytest.raises(FileError, match="has no sheet 'three'; it has one, two"):
        read(f"{tmp_path}/a.xlsx::three")


def test_cells_of_all_kinds(tmp_path):
    """Dates, truth values, errors, texts with units, and numbers that are stored as text."""
    import datetime

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["day", "yes", "x", "load", "text", "span"])
    for i in range(30):
        day = datetime.date(2024, 1, 1) + datetime.timedelta(i)
        sheet.append([day, i % 2 == 0, i * i / 8, f"{1000 + i * i:,} kg", str(i * i / 4), datetime.time(i % 24, 5)])
    sheet["C5"] = "#DIV/0!"
    book.save(tmp_path / "a.xlsx")
    data = read(tmp_path / "a.xlsx")
    assert (data.columns, data.passed) == (("x", "load", "text"), ("day", "yes", "span"))
    assert np.argwhere(np.isnan(data.X)).tolist() == [[3, 0]]
    A = data.X.copy()
    A[3, 0], A[4, 1], A[5, 2] = 1.5, 99999, 3
    cells = cells_of(data.write(tmp_path / "out.xlsx", A))[0]
    assert "<v>1.5" in cells["C5"]
    assert "<t>99,999 kg</t>" in cells["D6"]
    assert 't="inlineStr"><is><t>3.0</t>' in cells["E7"]  # a text among texts, which sums leave out
    assert data.row_labels == tuple(f"2024-01-{i + 1:02d} 00:00:00" for i in range(30))


def test_rows_and_columns_without_a_number_are_set_aside(tmp_path):
    X = np.arange(12.0).reshape(4, 3) ** 2
    X[1] = np.nan
    X[:, 2] = np.nan
    np.save(tmp_path / "a.npy", X)
    data = without_empty(read(tmp_path / "a.npy"))
    assert_array_equal(data.X, X[[0, 2, 3], :2])
    assert (data.passed, data.row_labels) == (("column 2",), ("0", "2", "3"))
    assert data.rows.tolist() == [0, 2, 3]
    assert data.notes == ("1 row has no number and is kept as it is.",)
    data.write(tmp_path / "out.npy", data.X + 1)
    again = np.load(tmp_path / "out.npy")
    assert_array_equal(again[[0, 2, 3], :2], X[[0, 2, 3], :2] + 1)
    assert np.isnan(again[1]).all()
    assert np.isnan(again[:, 2]).all()
