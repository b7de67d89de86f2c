"""Text tables: what is found by looking, and that untouched cells keep every byte."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from kernmend.io import Dataset, FileError, patch, read, revert
from kernmend.io.changes import Found, make_log

NAN = float("nan")


def table(folder: Path, content: str | bytes, name: str = "in.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def mended(data: Dataset, cells: dict[tuple[int, int], float], name: str = "out.csv") -> bytes:
    A = data.X.copy()
    for at, value in cells.items():
        A[at] = value
    return data.write(data.source.with_name(name), A).read_bytes()


ODD = {
    "bom": b"\xef\xbb\xbfx,y\r\n1.50,2\r\n3,4\r\n",
    "utf-16": "\ufeffx\ty\n1.50\t2\n3\t4\n".encode("utf-16-le"),
    "latin-1": "name;größe;y\nä;1.50;2\nö;3;4\n".encode("latin-1"),
    "no end of line": b"x,y\n1.50,2\n3,4",
    "old Mac ends": b"x,y\r1.50,2\r3,4\r",
    "quoted": b'"x","y"\n"1.50","2"\n"3","4"\n',
    "blanks": b"x, y\n 1.50 , 2\n3,\t4 \n",
    "comments": b"# made by hand, really\n# twice\nx,y\n1.50,2\n3,4\n",
    "blank lines": b"x,y\n\n1.50,2\n\n3,4\n\n\n",
    "pipes": b"x|y\n1.50|2\n3|4\n",
    "spaces": b"1.50 2\n3 4\n",
    "aligned by blanks": b"      x        y\n   1.50        2\n      3        4  \n",
    "no header": b"1.50,2\n3,4\n",
}


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD.keys())
def test_odd_files_are_read_and_written_back_as_they_are(tmp_path, raw):
    data = read(table(tmp_path, raw, "in.txt"))
    assert_array_equal(data.X, [[1.5, 2], [3, 4]])
    assert data.integer.tolist() == [False, True]
    assert mended(data, {}, "same.txt") == raw
    encoding = "utf-16-le" if raw.startswith(b"\xff\xfe") else "latin-1"
    assert mended(data, {(0, 0): 0.25, (1, 1): 6.6}, "out.txt").decode(encoding) == (
        raw.decode(encoding).replace("1.50", "0.25").replace("4", "7")
    )


def test_aligned_columns_stay_aligned(tmp_path):
    raw = "".join(f"{i * 1.5:10.2f}  {100 - i * i:8.1f}\n" for i in range(12))
    data = read(table(tmp_path, raw, "in.txt"))
    assert_array_equal(data.X[:, 0], 1.5 * np.arange(12))
    new = mended(data, {(3, 0): 12345.678, (4, 1): -0.5, (5, 1): 123456789.0, (6, 0): NAN}, "out.txt").decode()
    old = raw.splitlines()
    changed = [line for line, before in zip(new.splitlines(), old, strict=True) if line != before]
    assert changed == [
        "  12345.68      91.0",
        "      6.00      -0.5",
        "      7.50 123456789.0",
        "        NA      64.0",
    ]
    assert "columns between runs of blanks" in data.notes[0]


def test_semicolons_with_decimal_commas(tmp_path):
    raw = "id;x;y\n1;1,50;10\n2;;12\n3;2,5e3;14\n"
    data = read(table(tmp_path, raw))
    assert_array_equal(data.X, [[1.5, 10], [NAN, 12], [2500, 14]])
    assert (data.columns, data.passed, data.row_labels) == (("x", "y"), ("id",), ("1", "2", "3"))
    assert mended(data, {(1, 0): -0.125}).decode() == "id;x;y\n1;1,50;10\n2;-0,125;12\n3;2,5e3;14\n"


def test_a_decimal_comma_far_down_is_found(tmp_path):
    data = read(table(tmp_path, "x;y\n" + "1;2\n" * 3000 + "1,5;2\n"))
    assert data.X[-1].tolist() == [1.5, 2]


def test_dates_and_words_pass_through_and_are_named(tmp_path):
    raw = 'when,x,note\n2024-01-01,1,"a, ""b"""\n2024-01-02,,"over\ntwo lines"\n2024-01-03,3,\n'
    data = read(table(tmp_path, raw))
    assert data.passed == ("when", "note")
    assert data.row_labels == ("2024-01-01", "2024-01-02", "2024-01-03")
    assert_array_equal(data.X, [[1], [NAN], [3]])
    assert mended(data, {(1, 0): 2.2}).decode() == raw.replace("02,,", "02,2,")


def test_a_later_column_names_the_rows_where_the_first_repeats(tmp_path):
    path, log = tmp_path / "in.csv", tmp_path / "log.csv"
    text = "shop;remark;day;sum;share\nA;;01.02.2024;1,5;2\nB;late;02.02.2024;2,5;4\nA;;03.02.2024;9,5;6\n"
    path.write_text(text)
    data = read(path)
    assert (data.columns, data.row_labels) == (("sum", "share"), ("01.02.2024", "02.02.2024", "03.02.2024"))
    assert data.why_passed["day"] == "names the rows"
    assert data.why_passed["shop"] == "not made of numbers"
    A = data.X.copy()
    A[2, 0] = 3.5
    made = make_log(data, A, Found(np.ones(3), np.ones(3, dtype=bool)))
    assert made.label == ["03.02.2024"]
    made.write(log)
    clean = patch(path, log, tmp_path / "clean.csv").path
    assert revert(clean, log, tmp_path / "back.csv").path.read_text() == text
    log.write_text(log.read_text().replace("03.02.2024", "04.02.2024"))
    with pytest.raises(FileError, match=r"row 2 is 'A' in .*, the log says '04\.02\.2024'"):
        patch(path, log, tmp_path / "other.csv")
    path.write_text(text.replace("01.02.2024", "01.02.2024, " + "a long remark " * 3))
    assert read(path).row_labels is None


def test_duplicate_and_empty_names_become_unique_but_the_header_stays(tmp_path):
    raw = "x,x,,x (2)\n1.0,2,3,4\n5,6,7,8\n"
    data = read(table(tmp_path, raw))
    assert data.columns == ("x", "x (3)", "column 2", "x (2)")
    assert read(data.source, columns=["x (3)"]).X.tolist() == [[2], [6]]
    assert mended(data, {(0, 1): 9}).decode() == raw.replace("1.0,2", "1.0,9")


def test_thousands_of_columns(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 4000))
    frame = pd.DataFrame(X, columns=[f"wave {j}" for j in range(4000)])
    frame.to_csv(tmp_path / "in.csv")
    data = read(tmp_path / "in.csv")
    assert_array_equal(data.X, X)
    assert data.columns == tuple(frame.columns)
    data.write(tmp_path / "out.csv", data.X)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "in.csv").read_bytes()


@pytest.mark.parametrize(
    ("raw", "columns", "X"),
    [
        ("400,401,402\n1,2,3\n", None, [[400, 401, 402], [1, 2, 3]]),  # nothing says that these are wavelengths
        ("sample,400,401\n1,2,3\n4,5,6\n", ("sample", "400", "401"), [[1, 2, 3], [4, 5, 6]]),
        (",0,1\n0,5,6\n1,7,8\n", ("0", "1"), [[5, 6], [7, 8]]),
        ("0,1,2\n5,6,7\n", ("0", "1", "2"), [[5, 6, 7]]),
        ("x y\na 1 2\nb 3 4\n", ("x", "y"), [[1, 2], [3, 4]]),  # R leaves out the name of the index
        ("a,1\nb,2\n", None, [[1], [2]]),
        (
            "400 nm,403 nm,406 nm\n.5,.6,.7\n.8,.7,.5\n",
            ("400 nm", "403 nm", "406 nm"),
            [[0.5, 0.6, 0.7], [0.8, 0.7, 0.5]],
        ),
        ("400 nm,403 nm,406 nm\n5 nm,6 nm,7 nm\n8 nm,7 nm,5 nm\n", None, [[400, 403, 406], [5, 6, 7], [8, 7, 5]]),
        ("x\n1\n\n3\n\n", ("x",), [[1], [NAN], [3]]),  # with one column an empty line is an empty cell
        ("x,y\n1,NA\n?,null\n2,3\n", ("y",), [[NAN], [NAN], [3]]),
        ("x,y,\n1,2,\n3,4,\n", ("x", "y"), [[1, 2], [3, 4]]),
        ("x,y\n1_000,1\n2,2\n", ("y",), [[1], [2]]),
    ],
)
def test_header_and_index(tmp_path, raw, columns, X):
    data = read(table(tmp_path, raw))
    assert data.columns == columns
    assert_array_equal(data.X, X)


def test_missing_texts_and_numbers(tmp_path):
    path = table(tmp_path, "x,y\n1,?\n-999.0,5\n3,6\n")
    assert read(path).passed == ("y",)
    assert "'?' in row 0" in read(path).notes[0]
    data = read(path, missing=["?", "-999"])
    assert_array_equal(data.X, [[1, NAN], [NAN, 5], [3, 6]])
    assert mended(data, {(0, 1): 4, (1, 0): 2}).decode() == "x,y\n1,4\n2,5\n3,6\n"


def test_columns_are_chosen_by_name_or_number(tmp_path):
    path = table(tmp_path, "id,x,y\n1,2,3\n4,5,6\n")
    data = read(path, columns=["y", 0])
    assert (data.columns, data.passed, data.X.tolist()) == (("id", "y"), ("x",), [[1, 3], [4, 6]])
    with pytest.raises(FileError, match="has no column 'z'; it has id, x, y"):
        read(path, columns=["z"])
    with pytest.raises(FileError, match="column 'x' is not made of numbers, row 1 has 'no'"):
        read(table(tmp_path, "x,y\n1,2\nno,3\n"), columns=["x"])


def test_flattened_images(tmp_path):
    path = table(tmp_path, "0,1,2,3,4,5\n6,7,8,9,9,9\n")
    assert read(path, image_shape=(2, 3)).image_shape == (2, 3)
    with pytest.raises(FileError, match="rows have 6 values, which are not images of"):
        read(path, image_shape=(2, 2))
    with pytest.raises(FileError, match="image shape must be height × width"):
        read(path, image_shape=(6,))


def test_a_missing_value_is_written_as_an_empty_cell(tmp_path):
    assert mended(read(table(tmp_path, "x,y\n1,2\n3,4\n")), {(0, 1): NAN}) == b"x,y\n1,\n3,4\n"


def test_a_float32_result_changes_only_what_it_mends(tmp_path):
    raw = "x,y\n0.1,0.2\n0.30000000000000004,0.4\n"
    data = read(table(tmp_path, raw))
    A = data.X.astype(np.float32)
    A[0, 1] = 0.7
    assert data.write(tmp_path / "out.csv", A).read_text() == raw.replace("0.2", "0.7")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("x,y\n1,2\n3\n4,5\n", r"line 3 has 1 cell where 2 are expected"),
        ('x,y\n1,"a\nb"\n3\n4,5\n', r"line 4 has 1 cell where"),
        ('x,y\n1,2\n"3,4\n5,6\n', "the quote opened in line 3 is never closed"),
        ("name,town\na,b\nc,d\n", "no column of numbers"),
        ("# only words\n", "holds no rows"),
        ("x,y\n", "no column of numbers"),
        ("\n\n", "holds no rows"),
        (b"\xff\xfex\x00\x00\xd8", "not sound utf-16-le text"),
        (b"x,y\n" + b"1,2\n" * 1000 + b"\0,1\n", "zero bytes"),
    ],
)
def test_bad_tables_are_refused_in_one_line(tmp_path, raw, message):
    with pytest.raises(FileError, match=message) as caught:
        read(table(tmp_path, raw))
    assert "\n" not in str(caught.value)


@given(arrays(np.float64, (3, 2), elements=st.floats(allow_infinity=False)), st.sampled_from([",", ";", "\t"]))
def test_any_numbers_survive(tmp_path_factory, A, delimiter):
    folder = tmp_path_factory.mktemp("any")
    raw = delimiter.join("xy") + "\n" + f"1.5{delimiter}2.5\n" * 2 + f"1e-7{delimiter}2e-7\n"  # of no fixed decimals
    data = read(table(folder, raw))
    data.write(folder / "out.csv", A)
    again = np.genfromtxt(folder / "out.csv", delimiter=delimiter, skip_header=1)
    assert_array_equal(again, A)
    if not np.isnan(A).all(axis=0).any():
        assert_array_equal(read(folder / "out.csv").X, A[~np.isnan(A).all(axis=1)])  # a line of nothing is no row


@given(st.data())
def test_whatever_is_in_the_cells_the_same_table_is_written(tmp_path_factory, data):
    """Against Python's csv module: random words, quotes and delimiters beside a column of numbers."""
    import csv
    import io

    words = st.text(st.sampled_from('ab,;"\n\r\t é#'), max_size=6)
    rows = data.draw(st.lists(st.tuples(words, words), min_size=2, max_size=6))
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerows([["word", "x", "other"]] + [[f"w{a}", i, b] for i, (a, b) in enumerate(rows)])
    folder = tmp_path_factory.mktemp("any")
    found = read(table(folder, out.getvalue()))
    assert found.X[:, found.columns.index("x")].tolist() == list(range(len(rows)))
    again = found.write(folder / "same.csv", found.X)
    assert again.read_bytes() == found.source.read_bytes()
