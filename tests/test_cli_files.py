"""The command line and the files that people have: what is said, written, kept, and refused before the work."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from circle_file import WRONG, N, frame, names

import kernmend as library
from kernmend.cli.targets import Refused, check_free
from kernmend.io import read, replacing

pytestmark = pytest.mark.usefixtures("quick_calibration")


def german_table(folder):
    """The circle as an office in Germany would store it, two points wrong, with what else is in such files."""
    rows = [[f"p{i}", f"{1000 + 900 * x:,.2f}", f"{50 + 40 * y:.1f}%"] for i, _, x, y in frame().itertuples()]
    for row in rows:
        row[1] = row[1].translate(str.maketrans(",.", ".,"))
        row[2] = row[2].replace(".", ",")
    rows[20][1] = "ERR"
    lines = [["Punkt", "Länge", "Anteil", ""], ["", "mm", "", ""], *([*row, ""] for row in rows), ["", "", "", ""]]
    path = folder / "tabelle.csv"
    path.write_bytes("\r\n".join(";".join(line) for line in lines).encode("cp1252") + b"\r\n")
    return path


def test_a_table_of_an_office_is_mended_in_its_own_words(kernmend, tmp_path):
    path = german_table(tmp_path)
    page = tmp_path / "page.html"
    done = kernmend("mend", path, "--report", page)
    for words in (
        "tabelle.csv: 200 rows, 2 columns of numbers, 1 value missing.",
        "Passed through untouched: Punkt, column 3.",
        "Line 2 is taken for units and kept.",
        "Read with columns between semicolons, decimal commas, thousands apart by '.', letters as cp1252.",
        "column 'Länge': 1 cell is no number and counts as missing, first 'ERR' in row 20",
    ):
        assert words in done.stdout.splitlines()
    old, new = (each.read_bytes().decode("cp1252").split("\r\n") for each in (path, tmp_path / "tabelle.mended.csv"))
    changed = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    assert [i - 2 for i in changed] == sorted([*WRONG, 20])
    for i in changed:
        name, length, share, _ = new[i].split(";")
        assert name == f"p{i - 2}"
        assert len(length.partition(",")[2]) == 2
        assert (len(length) > 6) == ("." in length)
        assert share.endswith("%")
        assert len(share.partition(",")[2]) == 2
    mended = read(tmp_path / "tabelle.mended.csv", columns=["Länge", "Anteil"]).X
    np.testing.assert_allclose(np.hypot((mended[:, 0] - 1000) / 900, (mended[:, 1] - 50) / 40), 1, atol=0.06)
    text = page.read_text()
    for row in WRONG:  # the report shows what the file has
        assert json.dumps([float(value) for value in mended[row]], separators=(",", ":")) in text
    facts = json.loads(kernmend("inspect", path, "--json").stdout)
    assert "Line 2 is taken for units and kept." in facts["notes"]


def test_spectra_whose_header_is_of_numbers(kernmend, tmp_path):
    rng = np.random.default_rng(0)
    waves, peak = np.arange(400.0, 460.0, 1.2).round(1), rng.uniform(420, 440, 60)
    X = np.exp(-(((waves - peak[:, None]) / 8) ** 2)).round(4)
    X[5] = rng.uniform(0, 1, len(waves)).round(4)
    path = tmp_path / "spectra.csv"
    rows = ["sample," + ",".join(map(str, waves)), *(f"s{i}," + ",".join(map(str, row)) for i, row in enumerate(X))]
    path.write_text("\n".join(rows) + "\n")
    done = kernmend("mend", path)
    assert "The numbers in line 1 are taken for the names of the columns; say --no-header if not." in done.stdout
    assert (tmp_path / "spectra.mended.csv").read_text().splitlines()[0] == rows[0]
    assert json.loads(kernmend("inspect", path, "--no-header", "--json").stdout)["rows"] == 61
    assert json.loads(kernmend("inspect", path, "--header", "--json").stdout)["notes"] == []


def test_what_the_user_says_of_a_table(kernmend, tmp_path):
    path = tmp_path / "a.txt"
    data = (1000 * frame()[["x", "y"]]).round(3)
    path.write_text("".join(f"{x:.3f}\t{y:.3f}\t7\n".replace(".", ",") for x, y in data.to_numpy()))
    facts = json.loads(kernmend("inspect", path, "--delimiter", "tab", "--decimal", ",", "--json").stdout)
    assert (facts["columns"], facts["rows"], sorted(facts["flagged_rows"])) == (3, N, WRONG)
    facts = json.loads(kernmend("inspect", path, "--keep", "2", "--thousands", "none", "--json").stdout)
    assert facts["passed"] == ["column 2"]
    done = kernmend("inspect", path, "--decimal", "x", code=2)
    assert "the decimal sign must be a point or a comma" in done.stderr
    done = kernmend("inspect", path, "--keep", "9", code=2)
    assert "has no column '9' to keep" in done.stderr


def test_rows_without_a_number_keep_their_place(kernmend, tmp_path):
    data = frame()
    data.loc[[3, 90], ["x", "y"]] = np.nan
    data.to_csv(tmp_path / "a.csv", index=False)
    facts = json.loads(kernmend("mend", tmp_path / "a.csv", "--json").stdout)
    assert (facts["rows"], sorted(facts["flagged_rows"]), facts["missing"]) == (N - 2, WRONG, 0)
    assert facts["notes"] == ["2 rows have no number and are kept as they are."]
    out = pd.read_csv(facts["output"])
    assert out.index[out["x"].isna()].tolist() == [3, 90]
    scores = tmp_path / "scores.csv"
    done = kernmend("inspect", tmp_path / "a.csv", "--scores", scores, "--rows", 2)
    assert sorted(pd.read_csv(scores).query("flagged == 1")["row"]) == WRONG
    assert all(f"│ {row:>3} │" in done.stdout for row in WRONG)


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_packed_tables_get_a_good_name(kernmend, tmp_path, kind):
    frame().to_csv(tmp_path / f"a.csv.{kind}", index=False)
    kernmend("mend", tmp_path / f"a.csv.{kind}")
    assert names(tmp_path) == [f"a.csv.{kind}", f"a.mended.csv.{kind}"]
    assert len(pd.read_csv(tmp_path / f"a.mended.csv.{kind}")) == N


# --- apply ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    est = library.KernelRecovery().fit(frame()[["x", "y"]])
    return est.save(tmp_path_factory.mktemp("model") / "circle.kernmend")


@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_apply_writes_a_report_on_the_new_rows(kernmend, model, tmp_path, follow):
    new = frame().iloc[:30].copy()
    new.loc[3, ["x", "y"]] = [0.2, 0.1]
    new[["y", "x", "name"]].to_csv(tmp_path / "new.csv", index=False)
    page = tmp_path / "page.html"
    done = kernmend("apply", model, tmp_path / "new.csv", "--report", page, *follow)
    assert f"Report: {page}" in done.stdout
    text = page.read_text()
    assert "new.csv" in text
    assert "of 30 rows flagged" in text
    assert "[0.2,0.1]" in text  # before, in the order of the model
    done = kernmend("apply", model, tmp_path / "new.csv", "--report", page, code=2)
    assert "is there already" in done.stderr


def test_apply_writes_a_report_on_each_of_several_files(kernmend, model, tmp_path):
    for name in ("a.csv", "b.csv"):
        frame().iloc[:30].to_csv(tmp_path / name, index=False)
    kernmend(
        "apply", model, tmp_path / "a.csv", tmp_path / "b.csv", "-o", tmp_path / "out", "--report", tmp_path / "pages"
    )
    assert names(tmp_path / "pages") == ["a.csv.html", "b.csv.html"]
    assert names(tmp_path / "out") == ["a.csv", "b.csv"]
    file = tmp_path / "file"
    file.touch()
    done = kernmend("apply", model, tmp_path / "a.csv", tmp_path / "b.csv", "--report", file, code=2)
    assert "with several inputs --report names a folder" in done.stderr


# --- refused before the work ------------------------------------------------------------------------------------------


@pytest.fixture
def no_work(monkeypatch):
    """Nothing may be fitted."""
    monkeypatch.setattr("kernmend._mend.fit", None)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("option", ["-o", "--report", "--save-model"])
def test_an_output_that_is_an_input_is_refused(kernmend, table, tmp_path, option):
    before = table.read_bytes()
    (tmp_path / "folder").mkdir()
    other = tmp_path / "folder" / ".." / "circle.csv"
    for path in (table, other):
        done = kernmend("mend", table, option, path, "--force", code=2)
        assert done.stderr == f"kernmend: {path} is the input: choose another name\n"
    good = tmp_path / "good.csv"
    shutil.copy(table, good)
    assert "is the input" in kernmend("mend", table, "--good", good, option, good, "--force", code=2).stderr
    assert table.read_bytes() == good.read_bytes() == before


@pytest.mark.usefixtures("no_work")
def test_an_output_in_a_folder_that_is_read_is_refused(kernmend, tmp_path):
    (tmp_path / "images").mkdir()
    done = kernmend("mend", tmp_path / "images", "--report", tmp_path / "images" / "page.html", code=2)
    assert "lies in the input" in done.stderr


def test_apply_writes_neither_over_its_model_nor_over_its_inputs(kernmend, model, tmp_path):
    frame().to_csv(tmp_path / "a.csv", index=False)
    before = model.read_bytes()
    assert "is the input" in kernmend("apply", model, tmp_path / "a.csv", "-o", model, "--force", code=2).stderr
    assert "is the input" in kernmend("apply", model, tmp_path / "a.csv", "-o", tmp_path, "--force", code=2).stderr
    assert model.read_bytes() == before


@pytest.mark.usefixtures("no_work")
def test_a_read_only_folder_is_noticed_before_the_work(kernmend, table, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, *_, **__: Path(path) != tmp_path / "closed")
    (tmp_path / "closed").mkdir()
    for option in ("-o", "--report", "--save-model"):
        done = kernmend("mend", table, option, tmp_path / "closed" / "a.csv", code=2)
        assert f"a.csv cannot be written: the folder {tmp_path / 'closed'} is read-only" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root steps down for a moment")
def test_a_folder_of_another_user():
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(Refused, match=f"cannot be written: the folder {folder} is read-only"):
            check_free([folder / "a.csv"], force=False)
    finally:
        os.seteuid(0)
    check_free([folder / "a.csv"], force=False)
    folder.rmdir()


def test_the_folder_in_which_one_is(kernmend, tmp_path, monkeypatch):
    from PIL import Image

    (tmp_path / "pictures").mkdir()
    rng = np.random.default_rng(0)
    place = np.arange(6)
    for i, shift in enumerate(rng.uniform(0, 2 * np.pi, 40)):
        picture = 127 + 120 * np.cos(shift + place[:, None] + 0.5 * place)
        Image.fromarray(picture.round().astype(np.uint8)).save(tmp_path / "pictures" / f"{i:02d}.png")
    (tmp_path / "pictures" / "40.png").write_text("broken")
    monkeypatch.chdir(tmp_path / "pictures")
    done = kernmend("mend", ".", "--contamination", "0.05")
    assert "40.png is damaged or no image, and kept as it is." in done.stdout
    assert names(tmp_path) == ["pictures", "pictures.mended"]
    assert len(names(tmp_path / "pictures.mended")) == 41
    assert "say -o" in kernmend("mend", "/", code=2).stderr


def test_a_full_disk_names_the_file(kernmend, table, tmp_path, monkeypatch):
    def full(self, *arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    done = kernmend("mend", table, "--report", tmp_path / "page.html", code=1)
    assert done.stderr == f"kernmend: cannot write {tmp_path / 'page.html'}: No space left on device\n"


# --- temporary files of a run that was killed -------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from kernmend.io import replacing
with replacing(Path(sys.argv[1]), folder=len(sys.argv) > 2) as temporary:
    (temporary / "half").touch() if len(sys.argv) > 2 else temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_has_left_is_removed_by_the_next(tmp_path):
    target = tmp_path / "out.csv"
    for more in ([], ["folder"]):
        subprocess.run([sys.executable, "-c", KILLED, target, *more], check=False, timeout=60)
    (tmp_path / ".out.csv").write_text("mine")
    (tmp_path / ".out.elsewhere.1.abc.csv").write_text("of another machine")
    assert len(names(tmp_path)) == 3  # the second has removed what the first one left
    with replacing(tmp_path / "other.csv") as temporary:
        temporary.write_text("no concern of ours")
    assert len(names(tmp_path)) == 4
    with replacing(target) as temporary, replacing(target) as second:
        second.write_text("both are of a process that lives")
        temporary.write_text("whole")
    assert names(tmp_path) == [".out.csv", ".out.elsewhere.1.abc.csv", "other.csv", "out.csv"]
    assert target.read_text() == "whole"


def test_an_earlier_process_of_our_number(tmp_path):
    """In a container the number of the process is always the same."""
    target = tmp_path / "out.csv"
    with replacing(target) as temporary:
        left = temporary.with_name(temporary.name.replace(".csv", "x.csv"))
        left.write_text("half")
        os.utime(left, (0, time.time() - 10**6))
    assert left.exists()
    with replacing(target) as temporary:
        temporary.write_text("whole")
    assert names(tmp_path) == ["out.csv"]


# --- the rest of what went wrong --------------------------------------------------------------------------------------


def test_sentences_in_a_pipe_are_one_line_each(kernmend, table):
    done = kernmend("inspect", table)
    sentence = next(line for line in done.stdout.splitlines() if "rows flagged" in line)
    assert len(sentence) > 80
    assert sentence.endswith(".")


@pytest.mark.parametrize("X", [{"a": 1}, 3.0, {1.0, 2.0}, b"1,2"])
def test_what_is_no_table_at_all(X):
    with pytest.raises(ValueError, match="X must be rows of numbers, a DataFrame or the path of a file, got a"):
        library.mend(X)


def test_the_layout_of_a_file_in_python(tmp_path):
    path = german_table(tmp_path)
    mended = library.mend(path, layout={"decimal": ",", "delimiter": ";"}, keep=["Länge"], contamination=0.0)
    assert mended.data.shape == (N, 1)
    with pytest.raises(ValueError, match="columns are chosen by name"):
        library.mend(np.eye(5), keep=["a"])
    with pytest.raises(ValueError, match="there is no column 'z' to keep"):
        library.mend(frame(), keep=["z"])
    assert library.mend(frame(), keep=["x"], contamination=0.0).estimator.n_features_in_ == 1


def test_the_same_numbers_with_and_without_names():
    """Columns far apart: as an array, as a DataFrame, from files; what is flagged and how it is mended is the same."""
    data = frame()[["x", "y"]] * [1000.0, 0.01]
    est = library.KernelRecovery().fit(data)
    assert np.flatnonzero(est.outliers_).tolist() == WRONG
    for X in (data.to_numpy(), data.to_numpy().tolist()):
        again = library.KernelRecovery().fit(X)
        np.testing.assert_array_equal(again.recovered_, est.recovered_)
    for X in (data, data.to_numpy()):
        np.testing.assert_array_equal(np.asarray(library.mend(X).data), est.recovered_)


@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_files_without_names_are_mended_as_those_with(tmp_path, ending):
    data = (frame()[["x", "y"]] * [1000.0, 0.01]).to_numpy()
    path = tmp_path / f"a.{ending}"
    np.save(path, data) if ending == "npy" else np.savetxt(path, data, delimiter=",", fmt="%.17g")
    assert np.flatnonzero(library.mend(path).flags).tolist() == WRONG


def test_a_model_of_a_table_without_names_finds_its_columns_in_a_shorter_one(kernmend, tmp_path):
    data = frame()[["x", "y"]].round(6)
    data.insert(0, "n", range(100, 100 + N))
    data.to_csv(tmp_path / "old.csv", index=False, header=False)
    data.iloc[:5].to_csv(tmp_path / "new.csv", index=False, header=False)
    done = kernmend("mend", tmp_path / "old.csv", "--save-model", tmp_path / "model")
    assert "Not measured, kept as it is: column 0 (counts its rows)" in done.stdout
    kernmend("apply", tmp_path / "model", tmp_path / "new.csv")
    assert (tmp_path / "new.mended.csv").read_text() == (tmp_path / "new.csv").read_text()


def test_identifiers_are_found_by_blocks_as_in_memory(tmp_path):
    from kernmend.io._blocks import open_blocks

    data = frame(5000).assign(n=range(5000), shop_id=7)[["n", "shop_id", "x", "y"]]
    data.to_parquet(tmp_path / "a.parquet", row_group_size=500)
    blocks, sample = open_blocks(tmp_path / "a.parquet")
    whole = read(tmp_path / "a.parquet")
    assert (sample.columns, sample.passed, sample.notes) == (whole.columns, whole.passed, whole.notes)
    np.testing.assert_array_equal(blocks.numbers(3), whole.X[1500:2000])
