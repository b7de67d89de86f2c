"""The list of changes: it says exactly what became of the data, and why."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from test_intervals import table

from kernmend import KernelRecovery, RecoverySearch, load
from kernmend._mend import mend
from kernmend.repair.changes import CHANGE, FIELDS, Changes, changed_entries

pytestmark = pytest.mark.usefixtures("quick_settings")


def rebuilt(X, changes):
    """Return the data with the changes applied."""
    out, records = X.copy(), changes.records[changes.records["accepted"]]
    out[records["row"], records["column"]] = records["new"]
    return out


def check(est, X):
    """Check that the changes of a fit to X are what it did to X."""
    records = est.changes_.records
    np.testing.assert_array_equal(rebuilt(X, est.changes_), est.recovered_)
    np.testing.assert_array_equal(records["old"], X[records["row"], records["column"]])
    assert not ((records["old"] == records["new"]) | (np.isnan(records["old"]) & np.isnan(records["new"]))).any()
    places = records["row"] * X.shape[1] + records["column"]
    assert (np.diff(places) > 0).all()
    assert records["accepted"].sum() == changed_entries(X, np.asarray(est.recovered_)).sum()
    np.testing.assert_array_equal(records["kind"] == "missing", np.isnan(records["old"]))
    np.testing.assert_array_equal(np.isnan(records["score"]), records["kind"] == "missing")
    proposed = est.unsure_[records["row"], records["column"]] & (est._row_mender.unsure == "keep")
    np.testing.assert_array_equal(records["accepted"], ~proposed)
    assert all(isinstance(reason, str) and reason for reason in records["reason"])
    return records


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"interval": None},
        {"unsure": "blank"},
        {"unsure": "keep"},
        {"contamination": 0.1},
        {"contamination": 0.0},
        {"landmarks": 100},
        {"scale": "columns"},
        {"scale": "rows"},
        {"error": "rows"},
        {"bounds": "data"},
    ],
    ids=str,
)
def test_changes_are_what_became_of_the_data(params):
    _, X = table()
    est = KernelRecovery(**params).fit(X)
    records = check(est, X)
    if params.get("interval", 0.9) is not None and "unsure" not in params:
        half = est.half_widths_[records["row"], records["column"]]
        assert (half > 0).all()
        if "bounds" not in params:
            known = ~est.unsure_[records["row"], records["column"]] | est._row_mender.units.by_rows
            np.testing.assert_allclose((records["high"] - records["new"])[known], half[known], rtol=1e-6)
            np.testing.assert_allclose((records["new"] - records["low"])[known], half[known], rtol=1e-6)
            assert ((records["low"] <= records["new"]) & (records["new"] <= records["high"])).all()


def test_float32_and_a_search():
    _, X = table()
    check(KernelRecovery().fit(X.astype(np.float32)), X.astype(np.float32))
    search = RecoverySearch(n_iter=2, n_splits=1).fit(X)
    check(search, X)
    assert str(search.explain(0)) == str(search.best_estimator_.explain(0))


def test_clean_data_have_no_changes():
    est = KernelRecovery().fit(table()[0])
    assert len(est.changes_) == 0
    assert repr(est.changes_) == "<Changes: 0 values in 0 rows, 0 wrong, 0 missing>"
    assert est.changes_.to_frame().empty
    assert len(est.explanations_) == 0


@pytest.mark.parametrize("error", ["auto", "rows"])
def test_scores_are_those_of_the_row_or_of_the_entry(error):
    _, X = table()
    est = KernelRecovery(error=error).fit(X)
    records = est.changes_.records[est.changes_.records["kind"] == "wrong"]
    rows, columns = records["row"], records["column"]
    whole = est.whole_rows_[rows]
    expected = np.where(whole, est.outlier_scores_[rows], est.entry_scores_[rows, columns])
    np.testing.assert_array_equal(records["score"], expected)
    told = ["the row as a whole does not fit" in reason for reason in records["reason"]]
    np.testing.assert_array_equal(told, whole)
    assert whole.any()
    assert whole.all() == (error == "rows")


def test_reasons_say_what_is_wrong():
    _, X = table()
    wrong = np.arange(len(X)) == 60
    est = KernelRecovery().fit(X, wrong=wrong)
    told = {int(record["row"]): record["reason"] for record in est.changes_}
    partly = np.flatnonzero(est.outliers_ & ~est.whole_rows_)
    assert all("the other columns of this row say" in told[row] for row in partly if row in told and row != 60)
    given = KernelRecovery(error="rows").fit(X, wrong=wrong).changes_
    assert "the row was given as wrong" in next(record["reason"] for record in given if record["row"] == 60)
    missing = next(record for record in est.changes_ if record["kind"] == "missing")
    assert missing["reason"].startswith("missing: ")
    far = [record for record in est.changes_ if record["old"] > est._rows.mender.L[:, record["column"]].max()]
    assert far
    assert all("no good row is above" in record["reason"] for record in far)


def test_changes_of_later_batches():
    _, X = table()
    est = KernelRecovery().partial_fit(X)
    check(est, X)
    batch = table(1)[1][:60]
    check(est.partial_fit(batch), batch)


def test_a_saved_model_has_its_changes(tmp_path):
    _, X = table()
    est = KernelRecovery().fit(X)
    again = load(est.save(tmp_path / "model"))
    one, other = est.changes_.to_frame(), again.changes_.to_frame()
    pd.testing.assert_frame_equal(one, other)
    row = int(np.flatnonzero(est.outliers_)[0])
    assert again.explain(row) == est.explain(row)
    np.testing.assert_array_equal(again.half_widths_, est.half_widths_)
    new = table(1)[1]
    pd.testing.assert_frame_equal(est.changes_of(new).to_frame(), again.changes_of(new).to_frame())


def test_changes_of_new_rows_are_what_transform_does():
    est = KernelRecovery().fit(table()[1])
    new = table()[1][::-1].copy()
    changes = est.changes_of(new)
    assert len(changes) > 10
    np.testing.assert_array_equal(rebuilt(new, changes), est.transform(new))


def test_good_rows_below_the_data_have_no_changes():
    truth, X = table()
    mended = mend(X[:100], good=truth[100:])
    assert mended.estimator.changes_.records["row"].max() < 100
    check(mended.estimator, X[:100])


def test_before_a_fit_there_are_none():
    for name in ("changes_", "explanations_", "confidence_"):
        with pytest.raises(NotFittedError):
            getattr(KernelRecovery(), name)
    assert not hasattr(KernelRecovery(), "changes_")


def test_a_second_fit_forgets_the_changes_of_the_first():
    truth, X = table()
    est = KernelRecovery().fit(X)
    assert len(est.changes_)
    assert len(est.fit(truth).changes_) == 0


# --- the list itself --------------------------------------------------------------------------------------------------


def made(n):
    records = np.zeros(n, CHANGE)
    records["row"], records["column"] = np.arange(n) // 2, np.arange(n) % 2
    records["old"], records["new"] = np.arange(n), np.arange(n) + 0.5
    records["kind"], records["reason"] = "wrong", "because"
    return records


def test_it_is_a_sequence():
    changes = Changes(made(6))
    assert len(changes) == 6
    assert [record["new"] for record in changes] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert changes[-1]["row"] == 2
    assert [record["old"] for record in changes[1:3]] == [1.0, 2.0]
    assert changes.records.dtype == CHANGE
    assert repr(changes) == "<Changes: 6 values in 3 rows, 6 wrong, 0 missing>"
    assert repr(Changes(made(1))) == "<Changes: 1 value in 1 row, 1 wrong, 0 missing>"


def test_records_have_the_fields_of_the_table_and_the_labels_of_the_rows():
    named = Changes(made(4), labels=["first", "second"])
    assert named.records.dtype.names == FIELDS
    assert named.records["label"].tolist() == ["first", "first", "second", "second"]
    assert named[2:].records["label"].tolist() == ["second", "second"]
    assert Changes(made(4)).records["label"].tolist() == [0, 0, 1, 1]
    assert named.to_frame()["label"].tolist() == named.records["label"].tolist()
    assert named.to_frame(labels=["a", "b"])["label"].tolist() == ["a", "a", "b", "b"]


def test_a_part_of_a_list_has_the_same_reasons():
    _, X = table()
    changes = KernelRecovery().fit(X).changes_
    part = changes[3:9]
    assert [record["reason"] for record in part] == [record["reason"] for record in changes][3:9]


def test_a_list_can_be_pickled():
    _, X = table()
    changes = KernelRecovery().fit(X).changes_
    again = pickle.loads(pickle.dumps(changes))
    pd.testing.assert_frame_equal(again.to_frame(), changes.to_frame())


def test_a_table_of_changes():
    names, labels = ["a", "b"], ["x", "y", "z"]
    frame = Changes(made(6)).to_frame(labels=labels, columns=names)
    assert tuple(frame.columns) == FIELDS
    assert frame["label"].tolist() == ["x", "x", "y", "y", "z", "z"]
    assert frame["column"].tolist() == names * 3
    assert Changes(made(6), names=names)[2:4].to_frame()["column"].tolist() == names
    plain = Changes(made(6)).to_frame()
    assert plain["label"].tolist() == plain["row"].tolist() == [0, 0, 1, 1, 2, 2]


def test_a_table_of_changes_has_the_names_of_the_fitted_frame():
    data = pd.DataFrame(table()[1], columns=list("abcdef"))
    est = KernelRecovery().fit(data)
    for changes in (est.changes_, est.changes_of(data)):
        assert changes.to_frame()["column"].tolist() == ["abcdef"[j] for j in changes.records["column"]]


@pytest.mark.parametrize("make", [KernelRecovery, lambda: RecoverySearch(n_iter=1, n_splits=1)])
def test_labels_are_those_of_the_index_of_the_fitted_frame(make, tmp_path):
    """As they are through `kernmend.mend`; also after the model was saved, and of new rows."""
    X = table()[1]
    times = pd.date_range("2026-01-01", periods=len(X), freq="h")
    data = pd.DataFrame(X, columns=list("abcdef"), index=times)
    est = make().fit(data)
    again = load(est.save(tmp_path / "model"))
    for changes in (est.changes_, est.changes_of(data), again.changes_, est.changes_[2:5]):
        assert changes.to_frame()["label"].tolist() == [str(times[row]) for row in changes.records["row"]]
    mended = mend(data)
    assert mended.changes.to_frame()["label"].tolist() == mended.estimator.changes_.to_frame()["label"].tolist()
    row = int(est.changes_.records["row"][0])
    assert f"Row {row} · {times[row]} " in str(est.explain(row))
    assert str(times[row]) in est.report(tmp_path / "page.html").read_text()
    plain = est.fit(data.reset_index(drop=True)).changes_.to_frame()
    assert plain["label"].tolist() == plain["row"].tolist()  # forgotten with the fit


def test_labels_of_batches_are_those_of_the_last_one():
    X = table()[1]
    est = KernelRecovery()
    for start in (0, 75):
        batch = pd.DataFrame(X[start : start + 75], index=[f"row {start + i}" for i in range(75)])
        batch.columns = list("abcdef")
        est.partial_fit(batch)
        frame = est.changes_.to_frame()
        assert len(frame)
        assert frame["label"].tolist() == [f"row {start + row}" for row in frame["row"]]


def test_without_pandas_a_table_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas"):
        Changes(made(2)).to_frame()


def test_many_changes():
    """A list of 100,000 changes has its reasons, and they are made once."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((2000, 4)) @ rng.standard_normal((4, 60)) + 0.1 * rng.standard_normal((2000, 60))
    est = KernelRecovery(landmarks=100, contamination=0.0).fit(truth)
    far = truth + 50.0 * rng.standard_normal(truth.shape)
    changes = est.changes_of(far)
    assert len(changes) > 100_000
    made = changes.records
    assert made is changes.records  # and not made a second time
    assert all(changes.records["reason"])
