"""Change logs that do not fit their file, damaged and hostile ones, and long ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_samples import save
from test_change_logs import found, mended

from kernmend.io import ChangeLog, FileError, patch, read, read_log, revert
from kernmend.io.changes import make_log
from kernmend.io.frames import settle

TABLE = "name,x,y\na,1.5,2\nb,3.5,4\nc,5.5,6\n"
HEAD = "row,label,column,old,new,low,high,kind,score,reason,accepted\n"
GOOD = "1,b,x,3.5,9.5,,,wrong,3,why,yes\n"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "is no change log, it has other columns: the first line must be row,label,column"),
        ("x,y\n1,2\n", "is no change log, it has other columns"),
        (HEAD.replace("old,", "") + "1,b,x,9.5,,,wrong,3,why,yes\n", "has no column 'old'"),
        (HEAD + GOOD.replace("3.5,9.5", "3.25,9.5"), r"line 2: row 1, column 'x' is '3.5' in .*, the log says '3.25'"),
        (HEAD + GOOD.replace("1,b", "2,c"), r"line 2: row 2, column 'x' is '5.5' in .*, the log says '3.5'"),
        (HEAD + GOOD.replace("1,b", "1,z"), "line 2: row 1 is 'b' in .*, the log says 'z'"),
        (HEAD + GOOD.replace("1,b", "7,b"), "line 2: there is no row 7, .* has 3 rows"),
        (HEAD + GOOD.replace("1,b", "-1,b"), "line 2: '-1' is not the number of a row"),
        (HEAD + GOOD.replace("1,b", "1e3,b"), "line 2: '1e3' is not the number of a row"),
        (HEAD + GOOD.replace(",x,", ",z,"), "line 2: .* has no column 'z'"),
        (HEAD + GOOD.replace(",x,", ",../../etc/passwd,"), "line 2: .* has no column '../../etc/passwd'"),
        (HEAD + GOOD.replace(",x,", ",column 9,"), "has no column 'column 9'"),
        (HEAD + GOOD.replace(",x,", ",pixels 0-2,"), "has no column 'pixels 0-2'"),
        (
            HEAD + GOOD.replace(",x,3.5", ",name,b"),
            "the new value '9.5' stands in a column that is not made of numbers",
        ),
        (HEAD + GOOD + GOOD, "line 3: row 1, column 'x' is there a second time"),
        (HEAD + GOOD.replace("9.5", "=cmd()"), "line 2 holds '=cmd\\(\\)', which is a formula"),
        (HEAD + GOOD.replace("why", "@SUM(A1)"), "line 2 holds '@SUM\\(A1\\)', which is a formula"),
        (HEAD + GOOD.replace("9.5", "'=cmd()"), "the new value '=cmd\\(\\)' is not a number as the column writes them"),
        (HEAD + GOOD.replace("9.5", "/etc/passwd"), "the new value '/etc/passwd' is not a number"),
        (HEAD + GOOD.replace("9.5", '"9,5"'), "the new value '9,5' is not a number as the column writes .* '1.5'"),
        (HEAD + GOOD.replace("9.5", '"9.5\n"'), "the new value '9.5.n' is not a number"),
        (HEAD + GOOD.replace("yes", "perhaps"), "line 2: accepted must be yes or no, not 'perhaps'"),
        (HEAD + GOOD.replace("yes", "yes,more"), "line 2 has 12 cells where 11 are expected"),
        (HEAD + GOOD + '1,b,"x', "is not a sound csv"),
        (HEAD + "1,b,x," + "3" * 200_000 + ",9.5,,,wrong,3,why,yes\n", "is not a sound csv"),
        (b"\xff\xfe\x00\x80" * 20, "is not UTF-8 text"),
        (b"PK\x03\x04" + bytes(100), "is no change log"),
    ],
)
def test_logs_that_do_not_fit_are_refused_in_one_sentence(tmp_path, log, words):
    (tmp_path / "in.csv").write_text(TABLE)
    (tmp_path / "log.csv").write_bytes(log if isinstance(log, bytes) else log.encode())
    with pytest.raises(FileError, match=words) as caught:
        patch(tmp_path / "in.csv", tmp_path / "log.csv", tmp_path / "out.csv")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + 2 * len(str(tmp_path))
    assert not (tmp_path / "out.csv").exists()


def refusal_of(do, *arguments):
    """Return why something is refused, nothing if it is not."""
    try:
        do(*arguments)
    except FileError as error:
        return str(error)
    return ""


@settings(max_examples=300)
@given(st.data())
def test_damaged_logs_are_refused_or_taken_back(tmp_path_factory, data):
    """Whatever becomes of a log, it is refused in one line, or changes are made that revert takes back.

    Byte for byte unless the old values were damaged too, in ways that leave them the same numbers.
    """
    folder = tmp_path_factory.mktemp("log")
    (folder / "in.csv").write_text(TABLE)
    log = bytearray((HEAD + GOOD + "2,c,y,6,7,5,9,wrong,1,'=x,no\n" + "0,a,x,1.5,,,,wrong,2,,1\n").encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(len(HEAD) - 9, len(log) - 1))
        piece = data.draw(st.sampled_from([b"", b"9", b"-", b"=", b'"', b",", b"\n", b"'", b"x", b"\xff", b"no", b" "]))
        log[at : at + data.draw(st.integers(0, 2))] = piece
    (folder / "log.csv").write_bytes(log)
    refusal = refusal_of(patch, folder / "in.csv", folder / "log.csv", folder / "out.csv")
    assert (folder / "out.csv").exists() == (not refusal)
    if refusal:
        assert "\n" not in refusal
        return
    assert len((folder / "out.csv").read_text().splitlines()) == 4
    refusal = refusal_of(revert, folder / "out.csv", folder / "log.csv", folder / "back.csv")
    if refusal:
        assert "cannot stand in one cell" in refusal
        return
    np.testing.assert_array_equal(read(folder / "back.csv").X, read(folder / "in.csv").X)
    if {*read_log(folder / "log.csv").old} <= {"1.5", "3.5", "5.5", "2", "4", "6"}:
        assert (folder / "back.csv").read_text() == TABLE


def test_changes_made_or_taken_back_already_are_said(tmp_path):
    (tmp_path / "in.csv").write_text(TABLE)
    (tmp_path / "log.csv").write_text(HEAD + GOOD)
    patch(tmp_path / "in.csv", tmp_path / "log.csv", tmp_path / "out.csv")
    with pytest.raises(FileError, match="the change was made already"):
        patch(tmp_path / "out.csv", tmp_path / "log.csv", tmp_path / "more.csv")
    with pytest.raises(FileError, match="the change was taken back already"):
        revert(tmp_path / "in.csv", tmp_path / "log.csv", tmp_path / "more.csv")
    with pytest.raises(FileError, match="exists already"):
        patch(tmp_path / "in.csv", tmp_path / "log.csv", tmp_path / "out.csv")


def test_a_formula_of_a_workbook_is_not_replaced(tmp_path):
    path = save(tmp_path, "xlsx")
    import openpyxl

    book = openpyxl.load_workbook(path)
    book.active["A4"] = "=SUM(A2:A3)"
    book.save(path)
    log = ChangeLog(np.array([0]), [""], ["x"], ["1"], ["9"], [""], [""], ["wrong"], ["1"], [""], np.array([True]))
    patch(path, log, tmp_path / "out.xlsx")
    assert openpyxl.load_workbook(tmp_path / "out.xlsx").active["A4"].value == "=SUM(A2:A3)"


def test_ten_million_lines_are_refused_before_they_are_read(tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text(TABLE)
    with (tmp_path / "log.csv").open("wb") as file:
        file.write(HEAD.encode())
        for _ in range(100):
            file.write(b"1,b,x\n" * 100_000)
    monkeypatch.setattr("kernmend.io._change_log.csv.reader", None)
    with pytest.raises(FileError, match="has more than 2,000,000 lines"):
        patch(tmp_path / "in.csv", tmp_path / "log.csv", tmp_path / "out.csv")


def test_a_hundred_thousand_lines(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 6)).round(3)
    path = tmp_path / "in.csv"
    path.write_text("a,b,c,d,e,f\n" + "\n".join(",".join(f"{v:.3f}" for v in row) for row in X.tolist()) + "\n")
    data = read(path)
    A = data.X.copy()
    A.flat[rng.choice(A.size, 100_000, replace=False)] += 1
    A = settle(A, data)
    log = make_log(data, A, found(data))
    assert len(log) > 99_000
    log.write(tmp_path / "log.csv")
    clean = data.write(tmp_path / "clean.csv", A)
    assert patch(path, tmp_path / "log.csv", tmp_path / "out.csv").path.read_bytes() == clean.read_bytes()
    assert revert(clean, tmp_path / "log.csv", tmp_path / "back.csv").path.read_bytes() == path.read_bytes()


def test_too_many_changes_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("kernmend.io._change_log.MOST_LINES", 1)
    (tmp_path / "in.csv").write_text(TABLE)
    data = read(tmp_path / "in.csv")
    log = make_log(data, mended(data, {(0, 0): 9, (1, 1): 7}), found(data))
    with pytest.raises(FileError, match="2 changes are too many for a change log"):
        log.write(tmp_path / "log.csv")
    monkeypatch.undo()
    log.write(tmp_path / "log.csv")
    with pytest.raises(FileError, match="exists already"):
        log.write(tmp_path / "log.csv")
