"""`kernmend mend`, `inspect` and `apply`, run as a user runs them."""

import json
import re
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from circle_file import EXACTLY, WRONG, N, frame, names, narrow

import kernmend as library
from kernmend._mend import score
from kernmend.cli.work import make_estimator
from kernmend.estimators import KernelRecovery, RobustPCA
from kernmend.estimators._summary import one_in

pytestmark = pytest.mark.usefixtures("quick_calibration")

# --- mend -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("terminal")
def test_mend_writes_beside_the_input_and_says_so(kernmend, table, tmp_path):
    before = table.read_bytes()
    done = kernmend("mend", table)
    assert table.read_bytes() == before
    assert names(tmp_path) == ["circle.csv", "circle.mended.csv"]
    old, new = before.decode().splitlines(), (tmp_path / "circle.mended.csv").read_text().splitlines()
    assert [i - 1 for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b] == WRONG
    out = pd.read_csv(tmp_path / "circle.mended.csv")
    np.testing.assert_allclose(np.hypot(out["x"], out["y"]), 1.0, atol=0.05)
    for words in ("200 rows, 2 columns", "Passed through untouched: name", "2 of 200 rows flagged"):
        assert words in done.stdout
    assert "4 of 400 values changed." in done.stdout
    assert "cells replaced" not in done.stdout  # one count is enough
    assert f"Mended data: {tmp_path / 'circle.mended.csv'}" in done.stdout
    assert narrow(done.stdout)
    assert done.stderr == ""


def test_worst_rows_are_named_as_in_the_file(kernmend, tmp_path):
    """Rows without any number are not in the data, but they count."""
    data = frame()
    data.loc[[0, 1, 2], ["x", "y"]] = np.nan
    for named, table in ((True, data), (False, data.assign(name="point"))):
        table.to_csv(tmp_path / "gap.csv", index=False)
        done = kernmend("mend", tmp_path / "gap.csv", "--changes", tmp_path / "log.csv", "--force").stdout
        worst = re.search("Worst rows.*: (.*)[.]", done)[1]
        found = sorted(int(row) for row in re.findall(r"(\d+)(?: · point \d+)? \(one in", worst))
        assert found == WRONG == sorted(set(pd.read_csv(tmp_path / "log.csv")["row"]))
        assert ("80 · point 80 (one in" in worst) == named
        assert ("80 · point 80 (one in" in library.mend(tmp_path / "gap.csv").summary()) == named


def test_mend_as_json(kernmend, table, tmp_path):
    target, model = tmp_path / "out.csv", tmp_path / "model.kernmend"
    done = kernmend("mend", table, "-o", target, "--json", "--save-model", model, "--threads", 1, "--seed", 3)
    facts = json.loads(done.stdout)
    assert len(done.stdout.splitlines()) == 1
    assert (facts["rows"], facts["columns"], facts["flagged"], facts["passed"]) == (N, 2, 2, ["name"])
    assert sorted(facts["flagged_rows"]) == WRONG
    assert (facts["output"], facts["model"], facts["method"]) == (str(target), str(model), "kernel")
    assert facts["seconds"] > 0
    assert facts["stop_reason"] == "converged"
    est = library.load(model)
    assert (facts["gamma"], facts["error"], est.random_state) == (est.gamma_, est.error_, 3)
    assert est.feature_names_in_.tolist() == ["x", "y"]


def test_the_report(kernmend, table, tmp_path):
    page = tmp_path / "page.html"
    done = kernmend("mend", table, "--report", page)
    assert f"Report: {page}" in done.stdout
    text = page.read_text()
    assert "<html" in text
    assert "circle.csv" in text
    facts = json.loads(kernmend("mend", table, "--report", page, "--json", "--force").stdout)
    assert facts["report"] == str(page)


def test_images(kernmend, tmp_path):
    rng = np.random.default_rng(0)
    shift = rng.uniform(0, 2 * np.pi, 60)[:, None, None]
    place = np.arange(6)
    images = 127 + 120 * np.cos(shift + place[:, None] + 0.5 * place)
    images[4] = rng.uniform(0, 255, (6, 6))
    np.save(tmp_path / "images.npy", images.round().astype(np.uint8).reshape(60, 36))
    done = kernmend("mend", tmp_path / "images.npy", "--image-shape", "6x6", "--contamination", "0.02")
    assert "60 images of 6x6" in done.stdout
    out, old = (np.load(tmp_path / name) for name in ("images.mended.npy", "images.npy"))
    assert out.dtype == np.uint8
    assert np.flatnonzero((out != old).any(axis=1)).tolist() == [4]
    assert "not images of (6, 5)" in kernmend("inspect", tmp_path / "images.npy", "--image-shape", "6x5", code=2).stderr
    assert (
        "values" not in kernmend("inspect", tmp_path / "images.npy", "--image-shape", "6x6").stdout.split("flagged")[2]
    )


def test_quiet_and_progress(kernmend, table):
    done = kernmend("mend", table, "-q")
    assert (done.stdout, done.stderr) == ("", "")
    done = kernmend("mend", table, "--force", "--progress", "--json")
    assert "calibrating" in done.stderr
    assert json.loads(done.stdout)["flagged"] == 2


def test_options_reach_the_estimator(kernmend, table, tmp_path):
    options = "--method kernel --error rows --kernel rbf --gamma 2 --bounds=-0.5,0.5 --contamination 0.05 --max-iter 50"
    facts = json.loads(kernmend("mend", table, "--json", *options.split()).stdout)
    assert (facts["error"], facts["gamma"], facts["flagged"]) == ("rows", 2, 10)
    out, old = (pd.read_csv(path)[["x", "y"]].to_numpy() for path in (facts["output"], table))
    assert np.abs(out[out != old]).max() <= 0.5
    facts = json.loads(kernmend("mend", table, "--json", "--columns", "x", "--force").stdout)
    assert (facts["columns"], facts["passed"]) == (1, ["name", "y"])


@pytest.mark.parametrize(("said", "meant"), [("none", None), ("columns", "columns")])
def test_the_scale_reaches_the_estimator(kernmend, said, meant, table, tmp_path):
    kernmend("mend", table, "--scale", said, "--save-model", tmp_path / "model", "--error", "rows", "-q")
    assert library.load(tmp_path / "model").scale == meant


@pytest.mark.parametrize("method", ["kernel", "search", "joint"])
def test_seed_and_scale_reach_every_method_that_has_them(method, monkeypatch):
    made = {}
    monkeypatch.setattr("kernmend._mend.make_estimator", lambda name, params, bounds: made.update(params))
    options = defaultdict(lambda: None, progress=False, seed=3, scale="columns")
    make_estimator(method, SimpleNamespace(X=np.zeros((5, 2)), bounds=None), options)
    assert (made["random_state"], made["scale"]) == (3, "columns")


def test_a_scale_that_a_method_does_not_have_is_refused(kernmend, table):
    said = kernmend("mend", table, "--method", "robust-pca", "--scale", "columns", "--seed", 1, code=2).stderr
    assert "method 'robust-pca' has no parameter 'scale'" in said


def test_another_method_and_missing_values(kernmend, tmp_path):
    data = frame().drop(columns="name").round(3)
    data.loc[20, "x"] = -999
    data.loc[30, "y"] = np.nan
    path = tmp_path / "holes.csv"
    data.to_csv(path, index=False)
    facts = json.loads(kernmend("mend", path, "--missing", "-999", "--missing", "n/k", "--json").stdout)
    assert (facts["missing"], facts["filled"]) == (2, 2)
    assert abs(pd.read_csv(facts["output"]).loc[20, "x"]) < 2
    facts = json.loads(kernmend("mend", path, "--method", "robust-pca", "--json", "--force").stdout)
    assert facts["method"] == "robust-pca"


def test_a_note_for_what_did_not_converge(kernmend, table):
    done = kernmend("mend", table, "--max-iter", 1)
    assert done.stderr.startswith("kernmend: note: not converged after max_iter=1")
    assert len(done.stderr.splitlines()) == 1


# --- mend --good, --alpha -------------------------------------------------------------------------------------------


def good_frame(n=300):
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, n)
    return pd.DataFrame({"y": np.sin(angle), "x": np.cos(angle), "name": "good"})


@pytest.mark.usefixtures("terminal")
def test_a_reference_file_of_good_rows(kernmend, tmp_path):
    scattered = np.random.default_rng(1).uniform(-4, 4, (60, 2))
    scattered = scattered[abs(np.hypot(*scattered.T) - 1) > 0.5][:20]
    fine = frame()[["x", "y"]].drop(index=WRONG)[:20]
    data = pd.DataFrame(np.vstack([fine, scattered]), columns=["x", "y"])
    data.to_csv(tmp_path / "run.csv", index=False)
    good_frame().to_csv(tmp_path / "good.csv", index=False)
    page, model = tmp_path / "page.html", tmp_path / "model.kernmend"
    arguments = ("mend", tmp_path / "run.csv", "--good", tmp_path / "good.csv", "--report", page, "--save-model", model)
    done = kernmend(*arguments)
    assert "20 of 40 rows flagged" in done.stdout
    assert "300 more rows, known to be good, were learned from." in done.stdout
    assert "40 of 80 values changed" in done.stdout
    assert narrow(done.stdout)
    out = pd.read_csv(tmp_path / "run.mended.csv")
    assert out.iloc[:20].equals(pd.read_csv(tmp_path / "run.csv").iloc[:20])
    np.testing.assert_allclose(np.hypot(out["x"], out["y"]), 1.0, atol=0.05)
    facts = json.loads(kernmend(*arguments, "--json", "--force").stdout)
    assert (facts["rows"], facts["flagged"], facts["good_rows"]) == (40, 20, 300)
    assert facts["good"] == str(tmp_path / "good.csv")
    assert sorted(facts["flagged_rows"]) == list(range(20, 40))
    assert "20 of 40 rows flagged" in page.read_text()
    assert library.load(model).outliers_.sum() == 20
    assert names(tmp_path) == ["good.csv", "model.kernmend", "page.html", "run.csv", "run.mended.csv"]


@pytest.mark.parametrize(
    ("columns", "arguments", "words"),
    [
        (None, [], "good.csv: no such file or folder"),
        (["x", "z"], [], "good.csv has no column 'y', which the data have"),
        (["x", "y"], ["--workers", 2], "--good is for data in memory"),
        (["x", "y"], ["--cluster", "tcp://127.0.0.1:1"], "--good is for data in memory"),
        (["x", "y"], ["--method", "graph"], "good rows are for the methods kernel and search, not for graph"),
        (["x", "y"], ["--contamination", 0.1], "contamination=0.1 is a share of all rows"),
    ],
)
def test_good_rows_that_cannot_be(kernmend, columns, arguments, words, table, tmp_path):
    if columns is not None:
        good_frame().rename(columns={"y": columns[1]}).to_csv(tmp_path / "good.csv", index=False)
    before = names(tmp_path)
    done = kernmend("mend", table, "--good", tmp_path / "good.csv", *arguments, code=2)
    assert words in done.stderr
    assert sum(words in line for line in done.stderr.splitlines()) == 1
    assert names(tmp_path) == before


def test_alpha_and_no_contamination(kernmend, table):
    high, low = (
        json.loads(kernmend("inspect", table, "--alpha", alpha, "--json").stdout)["threshold"] for alpha in (0.001, 0.5)
    )
    assert high > low
    assert json.loads(kernmend("inspect", table, "--contamination", 0, "--json").stdout)["flagged"] == 0


# --- inspect ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("terminal")
def test_inspect_shows_the_worst_rows_and_changes_nothing(kernmend, table, tmp_path):
    done = kernmend("inspect", table, "--rows", 3)
    assert names(tmp_path) == ["circle.csv"]
    assert "2 of 200 rows flagged, 1.0 %" in done.stdout
    rows = [line.split("│")[1].strip() for line in done.stdout.splitlines() if line.startswith("│")]
    assert sorted(map(int, rows[:2])) == WRONG
    assert len(rows) == 3
    assert "x 0.4  y 0.4" in done.stdout
    assert narrow(done.stdout)


def test_inspect_shows_unusual_values_first(kernmend, tmp_path):
    """In a row of many columns the wrong cell is the one to see, also where its column is constant elsewhere."""
    t = np.linspace(0, 1, 200)
    X = np.column_stack([t, 2 * t, 3 - t, 4 * t, np.full(200, 7.0)])
    X[50, 3], X[60, 4], X[:20, 0] = -99.0, 8.0, np.nan
    pd.DataFrame(X, columns=list("abcde")).to_csv(tmp_path / "data.csv", index=False)
    out = kernmend("inspect", tmp_path / "data.csv", "--method", "robust-pca", "--rows", 200).stdout
    assert "their most unusual values first" in out
    rows = [line.split("│") for line in out.splitlines() if line.startswith("│")]
    first = {row[1].strip(): row[4].split() for row in rows}
    assert first["50"][:2] == ["d", "-99"]
    assert first["60"][:2] == ["e", "8"]
    assert first["0"][-2:] == ["a", "?"]  # missing ones last


@pytest.mark.usefixtures("terminal")
def test_a_wide_table_is_cut_off_at_the_right(kernmend, tmp_path):
    data = frame().set_index("name")
    wide = pd.concat([data] + [data.add_suffix(f" of copy {k}") for k in range(10)], axis=1)
    wide.index = [f"a rather long name for row {i} of this table" for i in range(N)]
    wide.to_csv(tmp_path / "wide.csv")
    done = kernmend("inspect", tmp_path / "wide.csv", "--rows", 2)
    assert narrow(done.stdout)
    for words in (" row ", " chance ", " found ", " flagged "):
        assert words in done.stdout


def test_inspect_for_scripts(kernmend, table, tmp_path):
    scores = tmp_path / "scores.csv"
    facts = json.loads(kernmend("inspect", table, "--json", "--scores", scores).stdout)
    assert (facts["rows"], facts["flagged"], facts["scores"]) == (N, 2, str(scores))
    found = pd.read_csv(scores, **EXACTLY)
    assert len(found) == N
    est = KernelRecovery().fit(frame()[["x", "y"]].to_numpy())
    np.testing.assert_array_equal(found["score"], est.outlier_scores_)
    np.testing.assert_array_equal(found["flagged"].astype(bool), est.outliers_)
    np.testing.assert_array_equal(found["suspect"].astype(bool), est.suspects_)
    assert sorted(facts["suspects"]) == np.flatnonzero(est.suspects_).tolist()
    assert facts["threshold"] == est.threshold_
    assert "--force" in kernmend("inspect", table, "--scores", scores, code=2).stderr


def listed(text):
    """Return the numbers of the rows in a table on the terminal, and what was found of them."""
    cells = [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if line.startswith("│")]
    return [(int(line[1]), line[-3]) for line in cells]


@pytest.mark.usefixtures("terminal")
def test_inspect_lists_unusual_rows_after_the_flagged_ones_in_words(kernmend, tmp_path):
    X = np.random.default_rng(4).standard_normal((300, 3))
    X[[10, 20, 30]] += 50
    X[[40, 50, 60, 70]] = 4.8 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0]])  # unusual, not wrong
    np.save(tmp_path / "tails.npy", X)
    est = KernelRecovery().fit(X)
    order = np.argsort(-est.outlier_scores_, kind="stable")
    flagged, unusual = ([int(row) for row in order if mask[row]] for mask in (est.outliers_, est.suspects_))
    assert len(flagged) > 2
    assert len(unusual) > 2
    done = kernmend("inspect", tmp_path / "tails.npy", "--rows", 2)
    wanted = [(row, "flagged") for row in flagged[:2]] + [(row, "unusual") for row in unusual[:2]]
    assert listed(done.stdout) == wanted
    assert f"{len(unusual)} more rows are unusual, not flagged." in done.stdout
    assert f"good rows are as far out in less than {one_in(est.threshold_)}" in " ".join(done.stdout.split())
    for row in flagged[:2] + unusual[:2]:
        assert one_in(est.outlier_scores_[row]) in done.stdout
    assert narrow(done.stdout)
    facts = json.loads(kernmend("inspect", tmp_path / "tails.npy", "--json").stdout)
    assert (facts["flagged_rows"], facts["suspects"]) == (flagged, unusual)
    facts = json.loads(kernmend("mend", tmp_path / "tails.npy", "--json").stdout)
    assert (facts["flagged_rows"], facts["suspects"]) == (flagged, unusual)
    done = kernmend("inspect", tmp_path / "tails.npy", "--contamination", 0.1)
    assert "30 of 300 rows flagged, 10.0 %, the share that was asked for." in done.stdout


def test_where_nothing_is_flagged_the_five_most_unusual_rows_are_shown(kernmend, tmp_path):
    X = np.random.default_rng(0).uniform(size=(200, 3))
    np.save(tmp_path / "clean.npy", X)
    done = kernmend("inspect", tmp_path / "clean.npy")
    assert "0 of 200 rows flagged" in done.stdout
    est = KernelRecovery().fit(X)
    worst = np.argsort(-est.outlier_scores_, kind="stable")[:5]
    assert [row for row, _ in listed(done.stdout)] == worst.tolist()
    assert all(one_in(est.outlier_scores_[row]) in done.stdout for row in worst)
    assert len(listed(kernmend("inspect", tmp_path / "clean.npy", "--rows", 7).stdout)) == 7
    assert not listed(kernmend("inspect", tmp_path / "clean.npy", "--rows", 0).stdout)


def test_other_methods_have_scores_that_are_no_chances(kernmend, table):
    done = kernmend("inspect", table, "--method", "outlier-pursuit", "--rows", 2)
    assert " score " in done.stdout
    assert "one in" not in done.stdout


def test_inspecting_mends_nothing(monkeypatch):
    X = frame()[["x", "y"]].to_numpy(copy=True)
    X[30, 0] = np.nan
    fitted = KernelRecovery(contamination=0.1, random_state=4).fit(X)
    linear = RobustPCA().fit(X)
    monkeypatch.setattr("kernmend.repair.mender.Mender.mend_with_history", None)
    found = score(KernelRecovery(contamination=0.1, random_state=4), X)
    np.testing.assert_array_equal(found.scores, fitted.outlier_scores_)
    np.testing.assert_array_equal(found.flags, fitted.outliers_)
    assert found.threshold == fitted.threshold_
    np.testing.assert_array_equal(score(RobustPCA(), X).scores, linear.outlier_scores_)


# --- apply ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    est = KernelRecovery().fit(frame()[["x", "y"]])
    return est.save(folder / "circle.kernmend")


def test_apply_mends_new_data(kernmend, model, table, tmp_path):
    new = frame().iloc[:30].copy()
    new.loc[3, ["x", "y"]] = [0.2, 0.1]
    new.loc[5, "x"] = np.nan
    new["more"] = 1.0
    path = tmp_path / "new.csv"
    new.to_csv(path, index=False)
    done = kernmend("apply", model, path)
    est = library.load(model)
    wrong = est.predict(new[["x", "y"]]) == -1
    assert wrong[[3, 7]].all()
    assert f"{wrong.sum()} of 30 rows do not fit the model" in done.stdout
    assert narrow(done.stdout)
    out = pd.read_csv(tmp_path / "new.mended.csv")
    assert out.columns.tolist() == new.columns.tolist()
    np.testing.assert_allclose(np.hypot(out["x"], out["y"]), 1.0, atol=0.1)
    np.testing.assert_allclose(out[["x", "y"]], est.transform(new[["x", "y"]]), rtol=1e-12)


def test_apply_to_several_files(kernmend, model, tmp_path):
    paths = [tmp_path / f"{name}.csv" for name in "abc"]
    for path in paths:
        frame(90).to_csv(path, index=False)
    facts = [json.loads(line) for line in kernmend("apply", model, *paths, "--json").stdout.splitlines()]
    assert [fact["output"] for fact in facts] == [str(tmp_path / f"{name}.mended.csv") for name in "abc"]
    kernmend("apply", model, *paths, "-o", tmp_path / "out", "-q")
    assert names(tmp_path / "out") == ["a.csv", "b.csv", "c.csv"]
    assert (tmp_path / "out" / "a.csv").read_bytes() == (tmp_path / "b.mended.csv").read_bytes()
    assert "a.csv is there already" in kernmend("apply", model, *paths, "-o", tmp_path / "out", code=2).stderr
    assert "names a folder" in kernmend("apply", model, *paths, "-o", paths[0], code=2).stderr
    nowhere = kernmend("apply", model, *paths, "-o", tmp_path / "no" / "folder", code=2)
    assert f"there is no folder {tmp_path / 'no'} to make folder in" in nowhere.stderr
    twice = kernmend("apply", model, paths[0], paths[0], "-o", tmp_path / "new", code=2)
    assert "written twice" in twice.stderr


def test_apply_checks_the_columns(kernmend, model, tmp_path):
    path = tmp_path / "new.csv"
    frame().rename(columns={"y": "z"}).to_csv(path, index=False)
    assert "'y'" in kernmend("apply", model, path, code=2).stderr
    assert "no column 'z'" in kernmend("apply", model, path, "--columns", "x,z", code=2).stderr
    np.save(tmp_path / "wide.npy", np.zeros((5, 3)))
    done = kernmend("apply", model, tmp_path / "wide.npy", code=2)
    assert "has 3 columns of numbers, the model 2" in done.stderr
    assert names(tmp_path) == ["new.csv", "wide.npy"]


def test_apply_finds_columns_by_name_and_takes_arrays_as_they_are(kernmend, model, tmp_path):
    data = frame()[["x", "y"]]
    expected = library.load(model).transform(data)
    data[["y", "x"]].to_csv(tmp_path / "turned.csv", index=False)
    np.save(tmp_path / "plain.npy", data.to_numpy())
    np.save(tmp_path / "one.npy", data.to_numpy()[7:8])
    np.savez(tmp_path / "two.npz", a=data.to_numpy(), b=np.zeros((3, 5)))
    arguments = [tmp_path / "turned.csv", tmp_path / "plain.npy", f"{tmp_path / 'two.npz'}::a"]
    assert kernmend("apply", model, *arguments, "-q").stderr == ""
    np.testing.assert_allclose(pd.read_csv(tmp_path / "turned.mended.csv")[["x", "y"]], expected, rtol=1e-12)
    np.testing.assert_array_equal(np.load(tmp_path / "plain.mended.npy"), expected)
    np.testing.assert_array_equal(np.load(tmp_path / "two.mended.npz")["a"], expected)
    assert "1 of 1 row does not fit the model." in kernmend("apply", model, tmp_path / "one.npy").stdout


def test_apply_needs_a_model_that_can(kernmend, table, tmp_path):
    assert "not a kernmend model" in kernmend("apply", table, table, code=2).stderr
    est = library.GraphRobustPCA().fit(frame()[["x", "y"]])
    est.save(tmp_path / "graph.kernmend")
    done = kernmend("apply", tmp_path / "graph.kernmend", table, code=1)
    assert "the method graph, which cannot mend new data" in done.stderr
