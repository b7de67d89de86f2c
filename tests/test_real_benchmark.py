"""`python -m benchmarks real`: its cases and their truth, its figures, how it goes on, and its page."""

import numpy as np
import pytest

from benchmarks import real, real_cases, real_work
from benchmarks.real import Task, measure_all, tasks
from benchmarks.real_cases import CHOOSE, Case, cases, sharp_spikes
from benchmarks.real_errors import SEVEN_KINDS, TABLE_KINDS, corrupt_table
from benchmarks.real_page import Result, figure, page
from benchmarks.real_sample import Sample, robust_sd
from benchmarks.real_work import METHODS, TOLD, applies, entry_figures, measure, row_figures, score_figures
from kernmend.paper.store import Store

needs_data = pytest.mark.skipif(
    not real_cases.load("tables_dev.npz"), reason="KERNMEND_DATA does not name the folder of the real data"
)
ALL = list(cases())


def quick(case):
    """Return whether a case is made in no time: no MNIST, nor large curves."""
    small = {"pictures": "digits: [0, 1], 100", "curves": "circle"}.get(case.group, case.name)
    slow = case.group == "sensors" or "MNIST" in case.name or case.kind == "intruders"
    return case.seed == 0 and case.name == small and not slow


QUICK = [pytest.param(case, id=case.key) for case in ALL if quick(case)]


def table(n=60, d=4):
    return np.random.default_rng(5).normal(size=(n, d)) * [1.0, 10.0, 0.1, 3.0][:d]


# --- the cases ------------------------------------------------------------------------------------------------------


def test_no_two_cases_have_one_name_and_names_can_be_taken_apart():
    keys = [Task("kernmend", "now", real.name_of(case)).key for case in ALL]
    assert len(set(keys)) == len(ALL)
    assert {case.group for case in ALL} <= set(real.GROUPS)
    for case, key in zip(ALL, keys, strict=True):
        found = Result.of({"key": key})
        assert (found.group, found.name, found.kind, found.seed) == (case.group, case.name, case.kind, str(case.seed))
        assert (found.column, found.reported) == ("now", case.reported)


@pytest.mark.parametrize("case", QUICK)
def test_a_case_is_the_same_every_time_and_its_truth_agrees(case):
    sample, again = case.sample(), case.sample()
    np.testing.assert_array_equal(sample.X, again.X)
    np.testing.assert_array_equal(sample.bad, again.bad)
    assert np.isfinite(sample.X).all()
    assert sample.bad.any() != case.kind.startswith("clean")
    if sample.truth is not None:
        np.testing.assert_array_equal(sample.bad, (sample.truth != sample.X).any(axis=1))
    if sample.entries is not None:
        np.testing.assert_array_equal(sample.entries, sample.truth != sample.X)
    if sample.train is not None:
        assert sample.train.shape[1] == sample.X.shape[1]


def test_cases_do_not_depend_on_each_other():
    by_key = {case.key: case for case in cases()}
    for key in ("tables, iris, spike 10, 1", "tables, wine, drawn, 0", "curves, circle, 10 % of 60, 0"):
        alone = by_key[key].sample()
        for other in ("tables, iris, spike 10, 0", "curves, circle, 3 % of 60, 1"):
            by_key[other].sample()
        np.testing.assert_array_equal(alone.X, by_key[key].sample().X)
    first, second = (by_key[f"tables, iris, spike 10, {seed}"].sample() for seed in (0, 1))
    assert not np.array_equal(first.bad, second.bad)


def test_every_set_is_in_one_half_and_each_group_in_both():
    def halves(key):
        return {case.reported for case in ALL if key(case)}

    for name in {case.name for case in ALL}:
        assert len(halves(lambda case, name=name: case.name == name)) == 1
    for group in ("tables", "pictures", "curves", "clean", "new rows"):
        assert halves(lambda case, group=group: case.group == group) == {True, False}


@needs_data
def test_every_set_to_choose_on_is_there():
    assert {case.name.partition(":")[0] for case in ALL} >= CHOOSE
    assert {case.group for case in ALL} == set(real.GROUPS)


@needs_data
def test_the_truth_of_cartilage_does_not_hang_on_its_limit():
    X = real_cases.load("spectra_dev.npz")["cartilage"].astype(float)
    spiky = sharp_spikes(X).any(axis=1)
    assert (spiky.sum(), spiky[:50].sum()) == (47, 45)
    for limit in (15.0, 40.0):
        np.testing.assert_array_equal(sharp_spikes(X, limit).any(axis=1), spiky)


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_errors_of_tables_are_in_few_rows(kind):
    X = table()
    sample = corrupt_table(X, kind, np.random.default_rng(1))
    most = {"column -999": 6, "equal 2": 2, "equal 4": 4, "equal 9": 9, "clean": 0}.get(kind, 3)
    assert (most > 0) <= sample.bad.sum() <= most
    np.testing.assert_array_equal(sample.truth, X)
    if kind in ("spike 10", "spike 5", "times 100", "-999", "column -999"):
        assert sample.entries.sum() == sample.bad.sum()


# --- the figures ----------------------------------------------------------------------------------------------------


def test_figures_of_rows():
    bad = np.array([True, True, False, False, False])
    found = row_figures(bad, np.array([True, False, True, False, False]))
    assert found == {"good_flagged": pytest.approx(1 / 3), "f1": 0.5, "recall": 0.5, "precision": 0.5}
    assert row_figures(bad, np.zeros(5, dtype=bool))["precision"] is None
    assert row_figures(np.zeros(4, dtype=bool), np.array([True, False, False, False])) == {"good_flagged": 0.25}


def test_figures_of_scores():
    bad = np.array([True, True, False, False, False])
    found = score_figures(bad, np.array([9.0, 1.0, 2.0, 0.0, 0.0]))
    assert found == {"f1_told": 0.5, "auc": pytest.approx(5 / 6), "ap": pytest.approx((1 + 2 / 3) / 2)}
    assert score_figures(~bad & bad, np.zeros(5)) == {}
    with pytest.raises(ValueError, match="not finite"):
        score_figures(bad, np.array([np.inf, 1.0, 2.0, 0.0, 0.0]))


def test_figures_of_entries():
    truth = np.column_stack([np.arange(9.0), 10 * np.arange(9.0)])
    X, recovered = truth.copy(), truth.copy()
    X[0, 0], X[1, 1] = 100.0, 500.0
    recovered[0, 0], recovered[1, 1], recovered[5, 1] = 0.0, 500.0, 50.0 + robust_sd(truth)[1]
    found = entry_figures(Sample.of(truth, X), None, recovered)
    assert found["entry_precision"] == found["entry_recall"] == 0.5
    assert found["left"] == pytest.approx(490.0 / robust_sd(truth)[1] / 2)  # of 0 and of all
    assert found["damage"] == pytest.approx(1 / 16)
    assert found["good_changed"] == pytest.approx(1 / 7)
    said = entry_figures(Sample.of(truth, X), truth != X, recovered)
    assert said["entry_precision"] == said["entry_recall"] == 1.0
    assert entry_figures(Sample(X, np.zeros(9, dtype=bool)), None, recovered) == {}


def test_the_univariate_rule_puts_the_median_in_place():
    sample = corrupt_table(table(), "spike 10", np.random.default_rng(1))
    found = measure("robust z > 5", sample)
    assert (found["recall"], found["entry_recall"]) == (1.0, 1.0)
    assert found["left"] < 3.0
    assert measure("robust z > 5", Sample(sample.X, sample.bad, train=table()))["recall"] == 1.0


def test_ours_flags_seen_and_new_rows():
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[:3] = [[2.5, 2.5], [-2.0, 2.5], [2.4, -2.0]]
    bad = np.arange(60) < 3
    found = measure("kernmend", Sample(X, bad))
    assert "error" not in found
    assert found["auc"] == 1.0
    assert {"f1", "f1_told", "ap", "good_flagged", "recall", "precision", "cpu"} <= set(found)
    assert "error" not in measure("kernmend", Sample(X, bad, train=X[3:]))


class InfiniteScores:
    def fit(self, X):
        self.recovered_, self.outliers_ = X, X[:, 0] > 2
        self.outlier_scores_ = np.where(self.outliers_, np.inf, 0.0)
        return self


def test_a_failure_is_recorded_and_counts_as_nothing_found(monkeypatch):
    bad = np.arange(10) < 2
    monkeypatch.setitem(METHODS, "broken", lambda sample: 1 / 0)
    found = measure("broken", Sample(np.zeros((10, 2)), bad))
    assert found["error"] == "ZeroDivisionError: division by zero"
    assert (found["f1"], found["f1_told"], found["auc"], found["ap"]) == (0.0, 0.0, 0.5, 0.2)
    monkeypatch.setattr(real_work, "WITHOUT_SCORES", ("broken",))
    assert "auc" not in measure("broken", Sample(np.zeros((10, 2)), bad))
    monkeypatch.setattr(real_work, "KernelRecovery", InfiniteScores)
    found = measure("kernmend", Sample(np.where(bad, 3.0, 0.0)[:, np.newaxis], bad))
    assert (found["error"], found["f1"], found["as_flagged"]["f1"]) == (real_work.NOT_FINITE, 0.0, 1.0)


def test_those_that_are_told_the_share_have_nothing_to_do_in_clean_data():
    assert not any(applies(name, "curves", "clean grid 300") for name in TOLD)
    assert applies("kernmend", "curves", "clean grid 300")
    assert [group for group in real.GROUPS if applies("DDC", group, "spike 10")] == ["tables"]


# --- the run --------------------------------------------------------------------------------------------------------


def one_table():
    make = lambda kind: lambda rng: corrupt_table(table(), kind, rng)  # noqa: E731
    made = [Case("tables", "mine", kind, 0, make(kind)) for kind in (*SEVEN_KINDS, "clean")]
    return {real.name_of(case): case for case in made}


@pytest.fixture
def mine(monkeypatch):
    monkeypatch.setattr(real, "all_cases", one_table)
    return tasks(["tables"], ["robust z > 5"], "now")


def test_what_is_in_the_store_is_not_run_again(mine, monkeypatch, tmp_path, capsys):
    store, ran = Store(tmp_path, "real.jsonl"), []
    monkeypatch.setattr(real, "measure", lambda method, sample: ran.append(method) or {"f1": 1.0, "cpu": 0.1})
    measure_all(mine[:3], store, 1)
    assert len(ran) == 3
    measure_all(mine, store, 1)
    assert len(ran) == len(mine) == 8
    assert set(store.read()) == {task.key for task in mine}
    assert capsys.readouterr().err.count(" s: ") == 8  # a line for each
    measure_all(mine, store, 1)
    assert len(ran) == 8
    assert capsys.readouterr().err == ""


def test_labels_tell_our_versions_apart_and_peers_have_none():
    assert Task("kernmend", "before", "a").key != Task("kernmend", "now", "a").key
    assert Task("KNN", "before", "a").key == Task("KNN", "now", "a").key


def test_groups_come_in_their_order():
    groups = [task.case.split(" | ")[0] for task in tasks(real.GROUPS, ["kernmend"], "now")]
    assert groups == sorted(groups, key=real.GROUPS.index)


@pytest.mark.parametrize("arguments", [["--methods", "nobody"], ["--groups", "tables,nothing"]])
def test_unknown_names_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        real.main(arguments)
    assert "there are" in capsys.readouterr().err


# --- the page -------------------------------------------------------------------------------------------------------


def record(method, label, case, **found):
    return {"key": f"{method} | {label} | {case}"} | found


def test_the_page_is_made_from_stores(mine, tmp_path, capsys):
    real.main(["--out", str(tmp_path / "a.jsonl"), "--methods", "robust z > 5", "--groups", "tables"])
    other = Store(tmp_path, "b.jsonl")
    spike, octane = "tables | mine | spike 10 | 0", "spectra | octane | alcohol added | 0"
    other.append(record("kernmend", "now", spike, f1=0.8, auc=0.9, good_flagged=0.01, recall=0.7, cpu=1.0))
    other.append(record("kernmend", "before", spike, f1=0.25, auc=0.9, good_flagged=0.0, recall=0.2, cpu=4.0))
    other.append(record("KNN", "peer", octane, f1_told=0.5, auc=1.0))
    other.append(record("kernmend", "now", octane, f1=0.0, auc=0.5, error="it | broke"))
    sources = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    real.main(["--from", *sources, "--page", str(tmp_path / "page.md")])
    lines = (tmp_path / "page.md").read_text().splitlines()
    assert any("| cases | before | now | robust z > 5 |" in line for line in lines)
    spikes = next(line for line in lines if line.startswith("| spike 10 |"))
    assert spikes.startswith("| spike 10 | 1 | .25 / .25 / .90 / 0.0 % | .80 / .80 / .90 / 1.0 % | ")
    assert "| octane | 1 | .00 / .00 / .50 / – | .50 / .50 / 1.00 / – |" in lines
    assert "| tables | 1 | 4.0 | 1.0 | 0.25 | 1 | 4.0 | 1.0 | 0.25 |" in lines
    assert any("it / broke" in line for line in lines)
    assert "KNN" not in "".join(lines[lines.index("## Entries of tables") : lines.index("## Pictures")])
    assert sum(line.startswith("- Results of ") for line in lines) == 1


def test_the_page_has_every_case_in_a_table():
    """A kind that no line is about would be measured for nothing."""
    found = {"f1": 1.0, "good_flagged": 0.0, "damage": 0.0, "cpu": 1.0}
    records = [record("kernmend", "now", real.name_of(case), **found) for case in ALL]
    text = page(records, "the command")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "**" not in line]
    counted = [int(row[1]) for row in rows if row[1].isdigit()]
    entries = sum(case.group == "tables" and case.kind in (*SEVEN_KINDS, "column -999") for case in ALL)
    every_group = 2 * len(ALL)  # in the table of seconds: each group, and all
    assert sum(counted) == len(ALL) + entries + every_group


def test_figures_are_short():
    assert [figure(value) for value in (0.123, 1.0, 13.5, None)] == [".12", "1.00", "13.50", "–"]
