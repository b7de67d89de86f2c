"""The change log on the command line and in Python: mend and apply --changes, patch, revert, labels, notebooks."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from circle_file import WRONG, frame, names

import kernmend as library
from kernmend.io import FileError, read_log

pytestmark = pytest.mark.usefixtures("quick_calibration")


@pytest.fixture
def odd(tmp_path):
    """The circle as an office would have it: semicolons, decimal commas, quotes, a missing value, a line of names."""
    data = frame()
    lines = ["name;x;y;z"]
    for i, (name, x, y) in enumerate(data.itertuples(index=False)):
        z = "" if i == 30 else f"{x + y:.3f}"
        lines.append(f'"{name}";{x:.3f};"{y:.3f}";{z}'.replace(".", ","))
    path = tmp_path / "circle.csv"
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path


def test_mend_writes_a_log_that_patch_and_revert_understand(kernmend, odd, tmp_path):
    clean, log, back = tmp_path / "clean.csv", tmp_path / "log.csv", tmp_path / "back.csv"
    done = kernmend("mend", odd, "-o", clean, "--changes", log)
    assert f"Change log: {log}" in done.stdout
    changes = read_log(log)
    assert set(changes.row) == {*WRONG, 30}
    assert changes.kind[list(changes.row).index(30)] == "missing"
    assert changes.label[0] == "point 7"
    assert changes.old[0] == "0,400"
    assert all(low and high for low, high in zip(changes.low, changes.high, strict=True))
    assert all(changes.reason)
    done = kernmend("patch", odd, log, "-o", tmp_path / "patched.csv")
    assert done.stdout.startswith(f"{len(changes)} changes made.\nWritten: ")
    assert (tmp_path / "patched.csv").read_bytes() == clean.read_bytes()
    facts = json.loads(kernmend("revert", clean, log, "-o", back, "--json").stdout)
    assert (facts["command"], facts["changed"], facts["left"]) == ("revert", len(changes), 0)
    assert back.read_bytes() == odd.read_bytes()


def test_patch_and_revert_refuse_in_one_line(kernmend, odd, tmp_path):
    log = tmp_path / "log.csv"
    facts = json.loads(kernmend("mend", odd, "--changes", log, "--json").stdout)
    assert facts["changes"] == str(log)
    for arguments, words in (
        (("patch", odd, log, "-o", odd), "is the input"),
        (("patch", odd, log, "-o", log), "is the input"),
        (("patch", odd, tmp_path / "no.csv", "-o", tmp_path / "out.csv"), "no such file"),
        (("patch", odd, odd, "-o", tmp_path / "out.csv"), "is no change log"),
        (("patch", tmp_path / "no.csv", log, "-o", tmp_path / "out.csv"), "no such file or folder"),
        (("revert", odd, log, "-o", tmp_path / "out.csv"), "was taken back already"),
    ):
        done = kernmend(*arguments, code=2)
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert "--output" in kernmend("patch", odd, log, code=2).stderr
    assert "is there already" in kernmend("mend", odd, "--changes", log, "-o", tmp_path / "o.csv", code=2).stderr
    assert names(tmp_path) == ["circle.csv", "circle.mended.csv", "log.csv"]


def test_apply_writes_logs(kernmend, table, tmp_path):
    model = tmp_path / "model.kernmend"
    kernmend("mend", table, "--save-model", model, "-q")
    (tmp_path / "logs").mkdir()
    for name in ("a.csv", "b.csv"):
        frame().to_csv(tmp_path / name, index=False, columns=["y", "name", "x"])
    new = [tmp_path / "a.csv", tmp_path / "b.csv"]
    done = kernmend("apply", model, *new, "-o", tmp_path / "out", "--changes", tmp_path / "logs", "--json")
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    logs = [tmp_path / "logs" / f"{name}.changes.csv" for name in ("a.csv", "b.csv")]
    assert [fact["changes"] for fact in facts] == [str(log) for log in logs]
    kernmend("revert", facts[1]["output"], facts[1]["changes"], "-o", tmp_path / "back.csv")
    assert (tmp_path / "back.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    page = tmp_path / "page.html"
    kernmend("apply", model, new[0], "--changes", tmp_path / "one.csv", "--report", page)
    log = read_log(tmp_path / "one.csv")
    assert set(log.row) == set(WRONG)
    assert sorted(log.column) == ["x", "x", "y", "y"]
    assert all(float(log.low[k]) <= float(log.new[k]) <= float(log.high[k]) for k in range(len(log)))
    assert "kernmend patch a.csv a.decisions.csv -o a.reviewed.csv" in page.read_text()


def test_a_baseline_has_a_log_without_intervals(kernmend, table, tmp_path):
    log = tmp_path / "log.csv"
    kernmend("mend", table, "--method", "outlier-pursuit", "--changes", log, "-o", tmp_path / "out.csv")
    changes = read_log(log)
    assert len(changes) > 0
    assert not any(changes.low)
    assert set(changes.reason) <= {"the row does not fit the others", "moved by the model"}
    kernmend("revert", tmp_path / "out.csv", log, "-o", tmp_path / "back.csv")
    assert (tmp_path / "back.csv").read_bytes() == table.read_bytes()


def test_intervals_and_what_is_unsure(kernmend, table, tmp_path):
    log = tmp_path / "log.csv"
    kernmend(
        "mend", table, "--interval", "0.5", "--unsure", "blank", "--changes", log, "--save-model", tmp_path / "model"
    )
    model = library.load(tmp_path / "model")
    assert (model.interval, model.unsure) == (0.5, "blank")
    changes = read_log(log)
    out = pd.read_csv(tmp_path / "circle.mended.csv")
    for k in range(len(changes)):
        value = out.loc[changes.row[k], changes.column[k]]
        assert np.isnan(value) if changes.new[k] == "" else value == float(changes.new[k])
    assert "interval must" in kernmend("mend", table, "--interval", "2", "--force", code=2).stderr


def test_what_was_kept_can_be_accepted_later(kernmend, table, tmp_path):
    """--unsure keep leaves what is unsure; accepting its proposals makes the changes, and revert takes them back."""
    log, out, back = tmp_path / "log.csv", tmp_path / "out.csv", tmp_path / "back.csv"
    kernmend("mend", table, "--unsure", "keep", "-o", out, "--changes", log)
    changes = read_log(log)
    assert len(changes) == 2 * len(WRONG)
    assert not changes.accepted.any()  # a point beside a circle may come from anywhere on it
    assert out.read_bytes() == table.read_bytes()
    kernmend("patch", table, log, "-o", tmp_path / "same.csv")
    assert (tmp_path / "same.csv").read_bytes() == table.read_bytes()
    log.write_text(log.read_text().replace(",no\n", ",yes\n"))
    kernmend("patch", table, log, "-o", tmp_path / "clean.csv")
    clean = pd.read_csv(tmp_path / "clean.csv")
    for k in range(len(changes)):
        assert clean.loc[changes.row[k], changes.column[k]] == float(changes.new[k])
    kernmend("revert", tmp_path / "clean.csv", log, "-o", back)
    assert back.read_bytes() == table.read_bytes()


# --- what the user knows ----------------------------------------------------------------------------------------------


def test_a_column_says_which_rows_are_good_or_wrong(kernmend, tmp_path):
    data = frame()
    data["checked"] = ""
    data.loc[80, "checked"] = "good"
    data.loc[100, "checked"] = "Wrong"
    path = tmp_path / "in.csv"
    data.to_csv(path, index=False)
    facts = json.loads(kernmend("mend", path, "--labels", "checked", "--json").stdout)
    assert (facts["known_good"], facts["known_wrong"]) == (1, 1)
    assert sorted(facts["flagged_rows"]) == [7, 100]
    again = library.mend(data, labels="checked")
    for mended, name in ((library.mend(path, labels="checked"), "a.html"), (again, "b.html")):
        assert "holds the labels" in mended.report(path.with_name(name)).read_text()
    assert np.flatnonzero(again.flags).tolist() == [7, 100]
    assert library.mend(path, labels="checked").flags.tolist() == again.flags.tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--labels", "nothing"), "has no column 'nothing' that says"),
        (("--labels", "x"), "column 'x' is made of numbers"),
        (("--labels", "name"), "column 'name' says 'point 0' of row 0: it must say good, wrong, or nothing"),
        (("--labels", "name", "--method", "graph"), "labels are for the methods kernel and search"),
        (("--labels", "name", "--workers", 1), "--labels is for data in memory"),
    ],
)
def test_labels_that_cannot_be(kernmend, table, arguments, words):
    assert words in kernmend("mend", table, *arguments, code=2).stderr


def test_columns_are_kept_by_ranges(kernmend, tmp_path):
    data = frame().assign(a=1.5, b=np.arange(200) ** 2, c=0.5)
    path = tmp_path / "in.csv"
    data.to_csv(path, index=False)
    facts = json.loads(kernmend("mend", path, "--keep", "a..c", "--json").stdout)
    assert facts["passed"] == ["name", "a", "b", "c"]
    assert library.mend(data, keep=["a..c"])._source.passed == ("name", "a", "b", "c")
    assert "'a' stands before 'c'" in kernmend("mend", path, "--keep", "c..a", "--force", code=2).stderr
    assert "no column 'q' to keep; it has " in kernmend("mend", path, "--keep", "a..q", "--force", code=2).stderr
    with pytest.raises(ValueError, match=r"no column 'c\.\.a' to keep"):
        library.mend(data, keep=["c..a"])


# --- Python and notebooks ---------------------------------------------------------------------------------------------


def test_changes_in_python(tmp_path):
    data = frame()
    mended = library.mend(data)
    log = mended.changes
    assert [(row, column) for row, column in zip(log.row, log.column, strict=True)] == [
        (row, column) for row in WRONG for column in ("x", "y")
    ]
    assert float(log.new[0]) == mended.data.loc[7, "x"]
    assert float(log.old[0]) == 0.4
    assert log.to_frame()["row"].tolist() == [7, 7, 80, 80]
    path = mended.write_changes(tmp_path / "log.csv")
    with pytest.raises(FileError, match="exists already"):
        mended.write_changes(path)
    data.to_csv(tmp_path / "in.csv", index=False)
    library.io.patch(tmp_path / "in.csv", path, tmp_path / "out.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out.csv"), mended.data)


def test_a_notebook_shows_counts_and_the_worst_rows(tmp_path):
    data = frame().rename(columns={"x": "<x>"}).set_index("name")
    data.iloc[50, 1] = np.nan
    mended = library.mend(data)
    flagged = int(mended.flags.sum())
    assert repr(mended).startswith(f"<Mended: {flagged} of 200 rows flagged; ")
    assert len(repr(mended)) < 120
    assert "1 of them filled in" in repr(mended)
    shown = mended._repr_html_()
    assert "row 7 · point 7" in shown
    assert "&lt;x&gt;: <s>0.4</s> → <b>" in shown
    scores = [float(score) for score in re.findall(r"</th><td[^>]*>([0-9.e+-]+)</td>", shown)]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)
    assert "<x>" not in shown
    assert "y: <s>missing</s>" in shown
    assert ".report(" in shown
    clean = library.mend(frame()[["x", "y"]].drop(index=WRONG).to_numpy(), contamination=0)
    assert "<table" not in clean._repr_html_()
    figure = mended.plot()
    assert len(figure.axes) == 2
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_a_flagged_row_that_is_not_changed_is_said(kernmend, tmp_path):
    """A good row that the user calls wrong stays where it is, in the digits of the file."""
    data = frame().round(1)
    data["z"], data["checked"] = (data["x"] + data["y"]).round(1), ""
    data.loc[50, "checked"] = "wrong"
    path, page = tmp_path / "in.csv", tmp_path / "page.html"
    data.to_csv(path, index=False)
    words = "1 flagged row was not changed, since mending leaves its values where they are: 50 · point 50."
    assert words in kernmend("mend", path, "--labels", "checked", "--report", page).stdout
    assert words in page.read_text()
    assert words in library.mend(path, labels="checked").summary()


@pytest.mark.parametrize("new", ["=1+1", "@SUM(A1)", "../../etc/passwd", "many"])
def test_a_hostile_log_is_bad_input(kernmend, tmp_path, new):
    (tmp_path / "in.csv").write_text("x,y\n1.5,2\n3.5,4\n")
    head = "row,label,column,old,new,low,high,kind,score,reason,accepted"
    (tmp_path / "log.csv").write_text(f"{head}\n0,,x,1.5,{new},,,wrong,3,why,yes\n")
    done = kernmend("patch", tmp_path / "in.csv", tmp_path / "log.csv", "-o", tmp_path / "out.csv", code=2)
    assert len(done.stderr.splitlines()) == 1
    assert new in done.stderr
    assert names(tmp_path) == ["in.csv", "log.csv"]


def test_a_figure_is_shown_by_pyplot_and_once_by_a_notebook(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    mended = library.mend(frame()[["x", "y"]], contamination=0)
    assert mended.plot() is pyplot.gcf()
    pyplot.close("all")
    monkeypatch.setattr("matplotlib.get_backend", lambda: "module://matplotlib_inline.backend_inline")
    assert len(mended.plot().axes) == 2
    assert not pyplot.get_fignums()


def test_a_notebook_shows_few_digits(tmp_path):
    mended = library.mend(frame()[["x", "y"]])
    shown = re.findall(r"<b>(-?[0-9.e-]+)</b>", mended._repr_html_())
    assert shown
    assert max(map(len, shown)) <= 12
    assert max(map(len, mended.changes.new)) > 12  # all digits are in the list of changes
