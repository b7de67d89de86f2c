"""Change logs: patch makes what mending wrote, revert gives the input back, for every format and any odd table."""

import dataclasses
import io
import zipfile

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from io_samples import KINDS, contents, save

from kernmend.io import FileError, patch, read, read_log, revert, without_empty
from kernmend.io.changes import Found, make_log
from kernmend.io.frames import settle

WORDS = st.text(st.sampled_from("abé \"='+-@\n;,"), max_size=5)


def found(data):
    return Found(np.linspace(0, 9, len(data.X)), np.ones(len(data.X), dtype=bool))


def mended(data, cells):
    """Return the numbers of a file with others in some cells, as they can be written."""
    A = data.X.copy()
    for (row, column), value in cells.items():
        A[row % len(A), column % A.shape[1]] = value
    return settle(A, data)


# --- tables of texts --------------------------------------------------------------------------------------------------


@st.composite
def tables(draw):
    """Return the bytes of a table as people have them: odd quotes, delimiters, decimals, encodings, line ends."""
    delimiter, decimal = draw(st.sampled_from([(",", "."), (";", ","), (";", "."), ("\t", "."), ("|", ",")]))
    before, after = draw(st.sampled_from([("", ""), ("$", ""), ("", "%"), ("", " kg")]))
    grouped, places = draw(st.booleans()), draw(st.integers(0, 4))
    end = draw(st.sampled_from(["\n", "\r\n"]))

    def quoted(text):
        return '"' + text.replace('"', '""') + '"'

    def number(value):
        text = f"{value:,.{places}f}" if grouped else f"{value:.{places}f}"
        text = text.replace(",", "T").replace(".", decimal).replace("T", "." if decimal == "," else ",")
        sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
        text = f"{sign}{before}{digits}{after}"
        style = draw(st.integers(0, 5))
        if delimiter in text or style == 0:
            return quoted(text)
        return f" {text}" if style == 1 else text

    numbers = st.floats(-99999, 99999, allow_nan=False)
    n = draw(st.integers(4, 9))
    lines = [["word", "x", "y y", "note"]]
    for i in range(n):
        x, y = draw(numbers), draw(numbers)
        missing = draw(st.sampled_from([None] * 6 + ["", "NA", " ", '""']))
        note = quoted(draw(WORDS))
        lines.append([f"w{i}", number(x), number(y) if missing is None else missing, note])
    text = end.join(delimiter.join(line) for line in lines) + draw(st.sampled_from(["", end]))
    encoding, mark = draw(
        st.sampled_from([("utf-8", ""), ("utf-8", "\ufeff"), ("cp1252", ""), ("utf-16-le", "\ufeff")])
    )
    return f"{mark}{text}".encode(encoding)


CHANGES = st.dictionaries(
    st.tuples(st.integers(0, 8), st.integers(0, 1)),
    st.one_of(st.floats(-99999, 99999, allow_nan=False), st.just(np.nan)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150)
@given(tables(), CHANGES, st.data())
def test_any_table_is_patched_as_it_was_mended_and_comes_back_byte_for_byte(tmp_path_factory, raw, cells, choice):
    folder = tmp_path_factory.mktemp("any")
    path = folder / "in.csv"
    path.write_bytes(raw)
    try:
        data = without_empty(read(path))
    except FileError:
        assume(False)
    A = mended(data, cells)
    log = make_log(data, A, found(data))
    assume(len(log))
    log.write(folder / "log.csv")
    clean = data.write(folder / "clean.csv", A).read_bytes()
    assert patch(path, folder / "log.csv", folder / "patched.csv").path.read_bytes() == clean
    assert revert(folder / "clean.csv", log, folder / "back.csv").path.read_bytes() == raw
    some = np.array(choice.draw(st.lists(st.booleans(), min_size=len(log), max_size=len(log))))
    dataclasses.replace(log, accepted=some).write(folder / "log.csv", force=True)
    done = patch(path, folder / "log.csv", folder / "some.csv")
    assert (done.changed, done.left) == (some.sum(), (~some).sum())
    revert(folder / "some.csv", folder / "log.csv", folder / "again.csv")
    assert (folder / "again.csv").read_bytes() == raw


def test_a_log_is_in_the_words_of_the_file(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("town;sum;share\nUlm;$1.000,92;7,5%\nBonn;$2.000,00;8,5%\n=Rom;;9,5%\n", encoding="utf-8")
    data = read(path)
    log = make_log(data, mended(data, {(0, 0): 1234.5, (2, 0): 77.123, (1, 1): -3.04}), found(data))
    assert log.records[["row", "column", "old", "new", "kind"]].tolist() == [
        (0, "sum", "$1.000,92", "$1.234,50", "wrong"),
        (1, "share", "8,5%", "-3,0%", "wrong"),
        (2, "sum", "", "$77,12", "missing"),
    ]
    text = log.write(tmp_path / "log.csv").read_text()
    assert '2,\'=Rom,sum,,"$77,12"' in text  # no formula for a spreadsheet
    again = read_log(tmp_path / "log.csv")
    assert all(list(getattr(again, name)) == list(getattr(log, name)) for name in ("label", "old", "new", "reason"))
    assert log.to_frame()["accepted"].all()
    assert "=Rom" in log._repr_html_()
    assert repr(log) == "<ChangeLog: 3 changes in 3 rows, 3 accepted>"


def test_a_value_typed_by_hand_is_taken_and_one_refused_is_left(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('x;y\n"1,50";2\n3,25;4\n5,75;6\n')
    data = read(path)
    log = make_log(data, mended(data, {(0, 0): 9, (1, 0): 8, (2, 1): 7}), found(data))
    log.write(tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text()
    edited = text.replace('"9,00"', '"9,125"')
    lines = edited.splitlines()
    lines[2] = lines[2].removesuffix("yes") + "No"
    (tmp_path / "log.csv").write_text("\n".join(lines))
    assert patch(path, tmp_path / "log.csv", tmp_path / "out.csv").left == 1
    assert (tmp_path / "out.csv").read_text() == 'x;y\n"9,125";2\n3,25;4\n5,75;7\n'
    revert(tmp_path / "out.csv", tmp_path / "log.csv", tmp_path / "back.csv")
    assert (tmp_path / "back.csv").read_bytes() == path.read_bytes()


def test_a_value_that_no_float_holds_is_refused(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("x,y\n1.50,2\n3.25,4\n")
    data = read(path)
    make_log(data, mended(data, {(0, 0): 9}), found(data)).write(tmp_path / "log.csv")
    (tmp_path / "log.csv").write_text((tmp_path / "log.csv").read_text().replace("9.00", "1e400"))
    with pytest.raises(FileError, match="line 2: the new value '1e400' is too large for a number"):
        patch(path, tmp_path / "log.csv", tmp_path / "out.csv")


def test_a_log_saved_by_a_spreadsheet_still_fits(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("x,y\n1.50,2\n3.25,4\n")
    data = read(path)
    make_log(data, mended(data, {(0, 0): 9}), found(data)).write(tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text().replace("1.50", "1.5").replace("9.00", "9").replace(",", ";")
    (tmp_path / "log.csv").write_text("\ufeff" + text.replace("\n", "\r\n"), encoding="utf-8")
    assert patch(path, tmp_path / "log.csv", tmp_path / "out.csv").path.read_text() == "x,y\n9,2\n3.25,4\n"


def test_a_log_saved_by_excel_in_germany_still_fits(tmp_path):
    """Semicolons, decimal commas, and the letters of Windows."""
    path, log = tmp_path / "in.csv", tmp_path / "log.csv"
    path.write_bytes("Größe;Höhe €\r\n1,50;2\r\n3,25;4\r\n".encode("cp1252"))
    data = read(path)
    make_log(data, mended(data, {(0, 0): 9, (1, 1): 7}), found(data)).write(log)
    lines = [";".join(cells) for cells in read_log(log).lines()]
    log.write_bytes("\r\n".join(lines).encode("cp1252"))
    clean = patch(path, log, tmp_path / "out.csv").path
    assert clean.read_bytes().decode("cp1252") == "Größe;Höhe €\r\n9,00;2\r\n3,25;7\r\n"
    assert revert(clean, log, tmp_path / "back.csv").path.read_bytes() == path.read_bytes()
    log.write_bytes(log.read_bytes().replace(b"\xf6", b"\x81"))  # a byte that means no letter
    with pytest.raises(FileError, match="is not UTF-8 text"):
        patch(path, log, tmp_path / "other.csv")


def test_a_row_that_is_emptied_comes_back(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("x,y\n1.5,2\n3.25,4\n5,6\n")
    data = read(path)
    log = make_log(data, mended(data, {(1, 0): np.nan, (1, 1): np.nan}), found(data))
    assert patch(path, log, tmp_path / "out.csv").path.read_text() == "x,y\n1.5,2\n,\n5,6\n"
    assert revert(tmp_path / "out.csv", log, tmp_path / "back.csv").path.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "line", ['{"x": 1 }', "{ }", '{"x": 1.50, "z": "word"}', '{"y": null,"x":2}', '{"x": true, "y": "3.5"}']
)
def test_keys_that_were_absent_are_taken_away_again(tmp_path, line):
    path = tmp_path / "in.jsonl"
    path.write_text('{"x": 1, "y": 2.5}\n' * 12 + line + "\n")
    data = read(path)
    A = mended(data, {(12, 0): 7, (12, 1): 8.5, (3, 1): np.nan})
    log = make_log(data, A, found(data))
    clean = data.write(tmp_path / "clean.jsonl", A)
    assert patch(path, log, tmp_path / "out.jsonl").path.read_bytes() == clean.read_bytes()
    assert read(clean).X[12].tolist() == [7, 8.5]
    assert revert(clean, log, tmp_path / "back.jsonl").path.read_bytes() == path.read_bytes()


# --- all formats ------------------------------------------------------------------------------------------------------


def whole_content(path):
    """Return what must come back: files of a folder or an archive, unpacked; None where only values do."""
    if path.suffix in (".csv", ".jsonl", ".npy", ".npz", ".nc", ".tif"):
        return path.read_bytes()
    if path.name.endswith(".csv.gz"):
        import gzip

        return gzip.decompress(path.read_bytes())
    if path.name.endswith(".csv.zip"):
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_comes_back(tmp_path, kind):
    path = save(tmp_path, kind)
    data = read(path)
    A = mended(data, {(0, 0): 5, (1, 1): 11, (1, 0): 100})
    log = make_log(data, A, found(data))
    assert len(log) in (2, 3)  # pixels beside each other are one line
    log.write(tmp_path / "log.csv")
    clean, patched, back = (tmp_path / f"{name}.{kind}" for name in ("clean", "patched", "back"))
    data.write(clean, A)
    patch(path, tmp_path / "log.csv", patched)
    np.testing.assert_array_equal(read(patched).X, A)
    np.testing.assert_array_equal(read(patched).X, read(clean).X)
    assert whole_content(patched) == whole_content(clean)
    revert(clean, tmp_path / "log.csv", back)
    again = read(back)
    np.testing.assert_array_equal(again.X, data.X)
    assert (again.columns, again.row_labels, again.passed) == (data.columns, data.row_labels, data.passed)
    assert whole_content(back) == whole_content(path)
    if clean.is_dir():
        assert contents(clean).keys() == contents(back).keys()


def test_a_workbook_of_pandas_comes_back_byte_for_byte(tmp_path):
    """Its empty cells say that they hold text."""
    import pandas as pd

    path = tmp_path / "in.xlsx"
    table = pd.DataFrame({"who": list("abcd"), "x": [1.5, np.nan, 3.5, 40.0], "y": [1, 2, 3, 4.5], "note": [None] * 4})
    table.to_excel(path, index=False)
    data = read(path)
    for new in ({(1, 0): 2.5, (3, 0): 4.5}, {(0, 0): np.nan, (1, 0): 7, (2, 1): np.nan}):
        A = mended(data, new)
        log = make_log(data, A, found(data))
        clean = data.write(tmp_path / "clean.xlsx", A, force=True)
        np.testing.assert_array_equal(read(clean).X, A)
        np.testing.assert_array_equal(pd.read_excel(clean)[["x", "y"]], A)
        assert revert(clean, log, tmp_path / "back.xlsx", force=True).path.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("row", [0, 2, 4])
def test_a_row_of_a_workbook_that_is_left_without_a_number_comes_back(tmp_path, header, row):
    """`unsure="blank"` may empty a row: it stays a row, also beside rows that were never any."""
    import openpyxl
    import pandas as pd

    path = tmp_path / "in.xlsx"
    numbers = np.array([[1.5, 2.5], [3.5, 4.5], [np.nan, np.nan], [5.5, 6.5], [7.5, 8.5], [9.5, 1.25]])
    pd.DataFrame(numbers, columns=["x", "y"]).to_excel(path, index=False, header=header)
    data = read(path, header=header)
    assert len(data.X) == 5  # the empty line is none
    A = mended(data, {(row, 0): np.nan, (row, 1): np.nan, (3, 0): 7.25})
    log = make_log(data, A, found(data))
    clean = data.write(tmp_path / "clean.xlsx", A)
    np.testing.assert_array_equal(read(clean, header=header).X, A)
    there = [cell.value is not None for line in openpyxl.load_workbook(clean).active for cell in line]
    assert sum(there) == 8 + 2 * header
    assert revert(clean, log, tmp_path / "back.xlsx").path.read_bytes() == path.read_bytes()


def test_whole_numbers_beyond_floats_come_back(tmp_path):
    import pyarrow
    from pyarrow import parquet

    big = 2**60 + 1
    np.save(tmp_path / "in.npy", np.array([[big, 1], [2, 3], [4, 5]]))
    table = pyarrow.table({"a": [big, 2, None, 7], "b": [0.5, float("nan"), None, 2.5]})
    parquet.write_table(table, tmp_path / "in.parquet")
    for name in ("in.npy", "in.parquet"):
        data = read(tmp_path / name, columns=None if name == "in.npy" else ["a", "b"])
        A = mended(data, {(0, 0): 9, (1, 1): 7, (2, 0): 8, (2, 1): 6})
        log = make_log(data, A, found(data))
        assert log.old[0] == str(big)
        patch(tmp_path / name, log, tmp_path / f"out{name}")
        revert(tmp_path / f"out{name}", log, tmp_path / f"back{name}")
    assert (tmp_path / "backin.npy").read_bytes() == (tmp_path / "in.npy").read_bytes()
    again = parquet.read_table(tmp_path / "backin.parquet")
    assert again["a"].to_pylist() == table["a"].to_pylist()
    assert [repr(value) for value in again["b"].to_pylist()] == ["0.5", "nan", "None", "2.5"]


def test_a_single_series_comes_back(tmp_path):
    np.save(tmp_path / "in.npy", np.arange(6.0))  # one axis
    data = read(tmp_path / "in.npy")
    A = mended(data, {(2, 0): 9, (4, 0): 7.5})
    log = make_log(data, A, found(data))
    assert (log.old, log.new) == (["2.0", "4.0"], ["9.0", "7.5"])
    clean = data.write(tmp_path / "clean.npy", A)
    assert np.load(clean).tolist() == [0, 1, 9, 3, 7.5, 5]
    assert patch(tmp_path / "in.npy", log, tmp_path / "out.npy").path.read_bytes() == clean.read_bytes()
    assert revert(clean, log, tmp_path / "back.npy").path.read_bytes() == (tmp_path / "in.npy").read_bytes()


def test_pictures_are_logged_by_runs_of_pixels(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    (tmp_path / "in").mkdir()
    for k in range(3):
        Image.fromarray(rng.integers(0, 256, (4, 6), dtype=np.uint8)).save(tmp_path / f"in/{k}.png")
    data = read(tmp_path / "in")
    A = data.X.copy()
    A[1, 4:9] = 255 - A[1, 4:9]  # two pixels of the first line, three of the second
    log = make_log(data, A, found(data))
    assert list(log.column) == ["pixels 4-5", "pixels 6-8"]
    assert list(log.label) == ["1.png", "1.png"]
    assert log.old[1] == " ".join(f"{value:.0f}" for value in data.X[1, 6:9])
    patch(tmp_path / "in", dataclasses.replace(log, accepted=np.array([True, False])), tmp_path / "out")
    expected = data.X.copy()
    expected[1, 4:6] = A[1, 4:6]
    np.testing.assert_array_equal(read(tmp_path / "out").X, expected)
    with pytest.raises(FileError, match="2 values stand where 3 pixels are"):
        patch(tmp_path / "in", dataclasses.replace(log, new=[log.new[0], "1 2"]), tmp_path / "bad")
    (tmp_path / "jpeg").mkdir()
    for k in range(3):
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / f"jpeg/{k}.jpg")
    data = read(tmp_path / "jpeg")
    log = make_log(data, mended(data, {(0, 0): 255}), found(data))
    patch(tmp_path / "jpeg", log, tmp_path / "jpeg-out")
    with pytest.raises(FileError, match="JPEG or GIF images, which lose pixels"):
        revert(tmp_path / "jpeg-out", log, tmp_path / "jpeg-back")
