"""`report_data`: every fact against the estimator that it was taken from."""

import json
import pickle
import re

import numpy as np
import pytest
from cases import IGNORE_MAX_ITER, RationalQuadratic
from pages import EVIL_COLUMN, circle, clean, linear, many, unusual
from sklearn.base import clone

import kernmend
from kernmend import KernelLowRank, KernelPCADenoiser, KernelRecovery, RecoverySearch, RobustPCA, estimators
from kernmend.datasets import make_circle
from kernmend.report._rows import CURVE_POINTS, WIDE_TABLE, choose_view

QUICK = {"RecoverySearch": {"n_iter": 2, "n_splits": 1}}
every = pytest.mark.parametrize("name", estimators.__all__)


def check(facts, est, X):
    """What holds of all facts."""
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    flagged = facts["scores"]["flagged"]
    assert sorted(flagged) == np.flatnonzero(est.outliers_).tolist()
    assert (np.diff(est.outlier_scores_[flagged]) <= 0).all()
    suspects = facts["scores"]["suspects"]
    assert sorted(suspects) == np.flatnonzero(getattr(est, "suspects_", [])).tolist()
    assert (np.diff(est.outlier_scores_[suspects]) <= 0).all()
    assert sum(facts["scores"]["histogram"]["counts"]) == len(X) == facts["n_rows"]
    assert (np.diff(facts["scores"]["histogram"]["edges"]) > 0).all()
    values = np.array(facts["scores"]["values"])
    np.testing.assert_allclose(values, est.outlier_scores_[facts["scores"]["rows"]], rtol=1e-5, atol=1e-300)
    assert (np.diff(values) <= 0).all()
    for where in ("before", "after"):
        places = np.array(facts["map"][where], dtype=float)
        assert places.shape == (len(facts["map"]["rows"]), 2)
        assert np.isfinite(places).all()
    assert facts["objective"]["values"][-1] == pytest.approx(est.objective_[-1])
    numbers = [re.sub(r"(\d+) · [^ ]+", r"\1", line) for line in facts["words"]]  # the page adds the names of the rows
    assert numbers == est.summary().splitlines()
    assert facts["stop"]["reason"] == est.stop_reason_


@every
@IGNORE_MAX_ITER
@pytest.mark.usefixtures("quick_calibration")
def test_all_estimators(name):
    _, X, _ = linear()
    est = getattr(estimators, name)(**QUICK.get(name, {})).fit(X)
    facts = est.report_data()
    check(facts, est, X)
    assert facts["method"] == name
    assert facts["rows"]["view"] == "curves"
    for shown in facts["rows"]["shown"]:
        row = shown["row"]
        np.testing.assert_allclose(shown["before"], X[row], rtol=1e-5)
        np.testing.assert_allclose(shown["after"], est.recovered_[row], rtol=1e-5, atol=1e-300)
        np.testing.assert_allclose(shown["difference"], est.recovered_[row] - X[row], rtol=1e-5, atol=1e-300)
    used = {fact["name"]: fact["used"] for fact in facts["parameters"]}
    assert used["rank"] == str(est.rank_)
    assert ("lam" in used) == hasattr(est, "lam_")
    if "lam" in used:
        assert used["lam"] == f"{est.lam_:.6g}"


@every
@IGNORE_MAX_ITER
@pytest.mark.usefixtures("quick_calibration")
def test_the_python_lines_do_the_same(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, X, _ = linear()
    est = getattr(estimators, name)(**QUICK.get(name, {}))
    if "contamination" in est.get_params():
        est.set_params(contamination=0.2)
    est.fit(X)
    scope = {"X": X}
    exec(est.report_data()["python"], scope)
    np.testing.assert_array_equal(scope["A"], est.recovered_)
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.usefixtures("quick_calibration")
def test_the_python_lines_name_what_has_no_short_form():
    _, X, _ = linear()
    kernel = RationalQuadratic(0.1)
    lines = KernelLowRank(kernel=kernel, init=X, rho=10.0, lam=0.5).fit(X).report_data()["python"]
    assert "from cases import RationalQuadratic" in lines
    assert f"kernel={kernel!r}" in lines
    assert "init=init" in lines
    inner = RecoverySearch(estimator=KernelRecovery(bounds=(-9, 9)), n_iter=1, n_splits=1).fit(X)
    assert "RecoverySearch(estimator=KernelRecovery(bounds=(-9, 9)), n_iter=1" in inner.report_data()["python"]


def test_a_table_with_a_missing_entry():
    est, X = circle()
    facts = est.report_data(row_labels=[f"r{i}" for i in range(len(X))])
    check(facts, est, X)
    assert facts["rows"]["view"] == "table"
    assert facts["rows"]["columns"] == ["x", EVIL_COLUMN]
    assert facts["map"]["axes"] == ["x", EVIL_COLUMN]
    assert (facts["n_missing"], facts["n_changed"]) == (1, 4)
    assert facts["scores"]["labels"][0] == f"r{facts['scores']['rows'][0]}"
    filled = next(shown for shown in facts["rows"]["shown"] if shown["row"] == 50)
    assert filled["before"][1] is None
    assert filled["difference"][1] is None
    assert filled["marked"] == [1]
    assert filled["after"][1] == pytest.approx(est.recovered_[50, 1], rel=1e-5)
    good = next(shown for shown in facts["rows"]["shown"] if shown["row"] not in (7, 30, 99, 50))
    assert (good["changed"], good["marked"]) == (0, [])


def test_unusual_rows():
    est = unusual()
    facts = est.report_data()
    check(facts, est, est.recovered_)
    assert facts["scores"]["suspects"]
    assert not set(facts["scores"]["suspects"]) & set(facts["scores"]["flagged"])
    assert any("unusual and were not changed" in line for line in facts["words"])


@pytest.mark.parametrize("method", ["kernel", "search"])
@pytest.mark.usefixtures("quick_calibration")
def test_good_rows_are_not_in_the_facts_and_in_the_python_lines(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, X, bad = linear()
    X, good = X[bad | (np.arange(len(X)) < 50)], X[~bad]
    options = {"n_iter": 2, "n_splits": 1, "error": "rows"} if method == "search" else {"error": "rows"}
    mended = kernmend.mend(X, good=good, method=method, **options)
    facts = mended.estimator.report_data()
    check(facts, mended.estimator, X)
    assert facts["n_flagged"] > 0
    assert f"{len(good)} more rows, known to be good, were learned from." in facts["words"]
    scope = {"X": X, "good": good}
    exec(facts["python"], scope)
    np.testing.assert_array_equal(scope["A"], mended.data)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_nothing_flagged():
    est = clean()
    facts = est.report_data()
    check(facts, est, est.recovered_)
    assert facts["scores"]["threshold"] == est.threshold_ > est.outlier_scores_.max()
    assert (facts["n_flagged"], facts["n_changed"], facts["scores"]["flagged"]) == (0, 0, [])
    reasons = {fact["name"]: fact["why"] for fact in facts["parameters"]}
    assert reasons["threshold"].startswith("from alpha")
    assert "nothing was flagged" in reasons["lam"]


def test_ten_thousand_rows_say_what_is_left_out():
    est, X, bad = many()
    facts = est.report_data()
    check(facts, est, X)
    assert len(facts["rows"]["shown"]) == 200
    assert len(facts["map"]["rows"]) == 2000
    assert set(np.flatnonzero(bad)) <= set(facts["map"]["rows"])
    assert "worst 200 of 400 flagged rows" in facts["left_out"][0]
    assert "2,000 of 10,000 rows" in facts["left_out"][1]


def test_more_rows_than_scores_are_kept():
    est, X, _ = many()
    three = pickle.loads(pickle.dumps(est))
    for name in ("recovered_", "outlier_scores_", "outliers_", "_originals"):
        setattr(three, name, np.concatenate([getattr(est, name)] * 3))
    three._changed_rows = np.arange(3 * len(X))
    facts = three.report_data(max_rows=20)
    check(facts, three, np.concatenate([X] * 3))
    assert (len(facts["scores"]["rows"]), facts["scores"]["certain"]) == (10_000, 5_000)
    assert any("30,000 scores" in line for line in facts["left_out"])


@pytest.mark.parametrize("shape", [(10, 10), (5, 20, 1), (4, 5, 5), (0, 20), (20,)])
def test_image_shapes_that_do_not_fit(shape):
    est, _, _ = linear()
    with pytest.raises(ValueError, match="product of 20"):
        est.report_data(image_shape=shape)


def test_images_grey_in_colour_and_large():
    est, X, _ = linear()
    facts = est.report_data(image_shape=(4, 5))
    assert facts["rows"]["view"] == "pictures"
    assert facts["rows"]["image_shape"] == [4, 5]
    assert facts["rows"]["range"] == pytest.approx([est.recovered_.min(), est.recovered_.max()], rel=1e-5)
    assert RobustPCA().fit(X[:, :18]).report_data(image_shape=(3, 2, 3))["rows"]["image_shape"] == [3, 2, 3]
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((30, 1)) @ rng.standard_normal((1, 200 * 100))
    facts = RobustPCA(max_iter=50, tol=1e-2).fit(wide).report_data(image_shape=(200, 100))
    assert facts["rows"]["image_shape"] == [66, 33]
    blocks = wide[facts["rows"]["shown"][0]["row"]].reshape(200, 100)[:198, :99].reshape(66, 3, 33, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(facts["rows"]["shown"][0]["before"], blocks.ravel(), rtol=1e-4, atol=1e-4)
    assert "smaller than they are" in facts["left_out"][-1]


def test_pictures_are_drawn_in_the_bounds_that_were_given():
    _, X, _ = linear()
    est = KernelRecovery(bounds=(-9, 9), gamma=0.01, lam=0.1, rho=1e3, error="rows").fit(X)
    assert est.report_data(image_shape=(4, 5))["rows"]["range"] == [-9.0, 9.0]


def test_long_curves_keep_their_spikes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 5000))
    X[3, 1234] += 50.0
    est = RobustPCA().fit(X)
    facts = est.report_data()
    assert len(facts["rows"]["positions"]) == CURVE_POINTS
    spiked = next(shown for shown in facts["rows"]["shown"] if shown["row"] == 3)
    change = np.abs(spiked["difference"])
    assert change.max() == pytest.approx(abs(est.recovered_[3, 1234] - X[3, 1234]), rel=1e-4)
    assert abs(facts["rows"]["positions"][change.argmax()] - 1234) <= 5000 / CURVE_POINTS


def test_wide_tables_show_the_columns_that_changed_most():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 70))
    X[3, 66] += 50.0
    names = [f"gene {chr(97 + j % 26)}{j}" for j in range(70)]
    facts = RobustPCA().fit(X).report_data(columns=names)
    assert facts["rows"]["view"] == "table"
    assert len(facts["rows"]["columns"]) == WIDE_TABLE
    assert names[66] in facts["rows"]["columns"]
    assert f"{WIDE_TABLE} of 70 columns" in facts["left_out"][-1]


@pytest.mark.parametrize(
    ("columns", "n", "view"),
    [
        (None, 15, "table"),
        (None, 16, "curves"),
        (tuple(f"t{i}" for i in range(8)), 8, "curves"),
        (tuple(f"{i / 10} s" for i in range(8, 0, -1)), 8, "curves"),
        (tuple(f"t{i}" for i in range(7)), 7, "table"),
        (tuple(f"t{i % 5}" for i in range(9)), 9, "table"),
        (tuple("abcdefghijklmnopqrst"), 20, "table"),
        (tuple(f"{'xy'[i % 2]}{i}" for i in range(9)), 9, "table"),
    ],
)
def test_the_view_follows_the_columns(columns, n, view):
    assert choose_view(columns, n, None) == view
    assert choose_view(columns, n, (1, n)) == "pictures"


def test_names_must_be_as_many_as_there_are():
    est, _ = circle()
    with pytest.raises(ValueError, match="row_labels must have one name for each of the 120 rows, got 3"):
        est.report_data(row_labels=["a", "b", "c"])
    with pytest.raises(ValueError, match="columns must have one name for each of the 2 columns, got 1"):
        est.report_data(columns=["x"])
    with pytest.raises(ValueError, match="max_rows"):
        est.report_data(max_rows=0)


@pytest.mark.parametrize(("d", "image_shape"), [(2, None), (4, None), (20, None), (16, (4, 4))])
def test_values_that_were_left_blank_hide_nothing_else(d, image_shape):
    """Of columns that say nothing of each other, every value that was missing is blank."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, d))
    X[np.arange(0, 120, 6), np.arange(20) % d] = np.nan
    X[3] += 12.0
    est = KernelRecovery(unsure="blank").fit(X)
    assert np.isnan(est.recovered_[~est.outliers_]).any()
    facts = est.report_data(image_shape=image_shape)
    assert np.isfinite(np.array([facts["map"]["before"], facts["map"]["after"]], dtype=float)).all()
    known = np.nanstd(est.recovered_, axis=0)
    if d <= 4:
        np.testing.assert_allclose(facts["rows"]["spread"], known, rtol=1e-5)
    else:
        assert facts["rows"]["range"] == pytest.approx([np.nanmin(est.recovered_), np.nanmax(est.recovered_)], rel=1e-5)


def test_equal_rows_have_a_map_and_a_histogram():
    X = np.ones((20, 3))
    est = KernelPCADenoiser().fit(X)
    check(est.report_data(), est, X)


def test_only_the_changed_rows_are_remembered():
    est, X = circle()
    assert est._changed_rows.tolist() == [7, 30, 50, 99]
    np.testing.assert_array_equal(est._originals, X[[7, 30, 50, 99]])
    assert clean()._originals.shape == (0, 2)
    assert not any(name.endswith("_") and "original" in name for name in vars(est))
    assert pickle.loads(pickle.dumps(est)).report_data() == est.report_data()
    assert not hasattr(clone(est), "_originals")
    with pytest.raises(ValueError, match="not fitted"):
        clone(est).report_data()


def test_the_memory_is_a_copy():
    X = make_circle(60, random_state=0).X.copy()
    X[7] = [0.4, 0.4]
    est = KernelLowRank(gamma=1.0, lam=0.3, rho=1e4).fit(X)
    before = est.report_data()
    X[:] = 0.0
    assert est.report_data() == before
