"""The store, and runs that are killed or interrupted in the middle."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kernmend import KernelRecovery
from kernmend.cli.main import cli
from kernmend.model.kernels import RBF
from kernmend.paper import experiments, machine, runner, spec, tables
from kernmend.paper.store import Store
from kernmend.paper.work import execute, neighbour_similarity, time_budget

NAMES = ("complexity", "circle")


def start(out):
    command = [sys.executable, "-c", "from kernmend.cli.main import main; main()", "paper", "run", *NAMES, "--quick"]
    return subprocess.Popen(
        [*command, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def stop_after(process, path, lines, number):
    """Send a signal as soon as the store has that many lines; return what it has then."""
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(number)
    output = process.communicate(timeout=60)
    return path.read_text(), output[1]


def results(folder):
    """Return what must not depend on interruptions: everything but times and memory."""
    return {key: (record["metrics"], record["matrix"], record["stop"]) for key, record in Store(folder).read().items()}


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    process = start(tmp_path / "killed")
    before, _ = stop_after(process, tmp_path / "killed" / "results.jsonl", 3, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    again = start(tmp_path / "killed")
    output, error = again.communicate(timeout=120)
    assert again.returncode == 0, error
    assert "3 were there" in output or "4 were there" in output
    text = (tmp_path / "killed" / "results.jsonl").read_text()
    whole = before[: before.rindex("\n") + 1]
    assert text.startswith(whole)
    keys = [json.loads(line)["key"] for line in text.splitlines() if line.endswith("}")]
    assert len(keys) == len(set(keys)) == 11
    straight = Store(tmp_path / "straight")
    for name in NAMES:
        runner.run(experiments.get(name, quick=True), straight, quiet=True)
    assert results(tmp_path / "killed") == results(tmp_path / "straight")


def test_ctrl_c_ends_with_130_and_keeps_what_is_finished(tmp_path):
    process = start(tmp_path)
    text, error = stop_after(process, tmp_path / "results.jsonl", 2, signal.SIGINT)
    assert process.returncode == 130
    assert "kernmend: interrupted" in error
    assert "Traceback" not in error
    assert 2 <= len(text.splitlines()) < 11
    assert all(json.loads(line)["stop"] != "interrupted" for line in text.splitlines())


def test_a_line_cut_short_is_passed_over_and_spoils_nothing(tmp_path):
    store = Store(tmp_path)
    store.append({"key": "a", "metrics": {"snr": float("inf"), "none": float("nan"), "n": np.float64(1.5)}})
    with store.path.open("a") as file:
        file.write('{"key": "b", "metr')
    assert set(store.read()) == {"a"}
    store.append({"key": "c"})
    records = store.read()
    assert set(records) == {"a", "c"}
    assert records["a"]["metrics"] == {"snr": float("inf"), "none": None, "n": 1.5}


def circle_task(**method):
    facts = {"name": "ours", "estimator": "KernelRecovery", "rule": "fixed"} | method
    return spec.Task("circle", spec.Data("circle", 60), spec.Corruption("outliers"), spec.Method(**facts), 0, "c")


def test_the_key_depends_on_the_work_and_not_on_labels():
    task = circle_task()
    assert task.key == circle_task(rule="another", paper="39.03").key
    assert task.key != circle_task(params=(("lam", 0.3),)).key
    assert task.seed == circle_task(estimator="OutlierPursuit", name="OP").seed


def test_a_budget_gives_what_there_is_and_says_so():
    params = (("gamma", 1.0), ("lam", 0.3), ("max_iter", 100_000), ("rho", 1e4),
              ("solver", "alternating"), ("tol", 0.0))  # fmt: skip
    record, _ = execute(circle_task(estimator="KernelLowRank", params=params, budget=0.3))
    assert record["budget_hit"]
    assert record["stop"] == "interrupted"
    assert np.isfinite(record["metrics"]["distance"])


def test_a_budget_that_ends_before_there_is_a_result(monkeypatch):
    def endless(self, X):
        while True:
            pass

    monkeypatch.setattr(KernelRecovery, "fit", endless)
    record, recovered = execute(circle_task(budget=0.05))
    assert record["budget_hit"]
    assert (record["stop"], record["metrics"], recovered) == ("nothing within the budget", {}, None)


@pytest.mark.parametrize("caught", [False, True], ids=["raised", "the solver stopped"])
def test_ctrl_c_in_a_fit_ends_the_run(caught, monkeypatch):
    fit = KernelRecovery.fit

    def interrupted(self, X):
        if not caught:
            raise KeyboardInterrupt
        fit(self, X).stop_reason_ = "interrupted"

    monkeypatch.setattr(KernelRecovery, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(circle_task())


def test_a_true_ctrl_c_is_not_taken_for_a_budget():
    def interrupted():
        with time_budget(60.0) as budget:
            try:
                raise KeyboardInterrupt
            finally:
                assert not budget.hit

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_where_the_system_tells_nothing_of_memory_the_peak_is_since_the_start(monkeypatch):
    def refused(*arguments, **options):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.read_text", refused)
    monkeypatch.setattr("pathlib.Path.write_text", refused)
    machine.reset_peak()
    assert machine.peak_megabytes() > 10


def test_a_package_whose_version_is_not_known(monkeypatch):
    def unknown(name):
        raise machine.PackageNotFoundError

    monkeypatch.setattr(machine, "version", unknown)
    assert machine.versions.__wrapped__()["numpy"] == "unknown"


def test_the_winner_of_a_grid_is_the_best_on_the_separate_seed():
    grid = tuple((("lam", lam),) for lam in (0.1, 0.2, 0.3))
    task = circle_task(grid=grid)
    points = spec.grid_points(task)
    assert all(point.repetition == spec.TUNING for point in points)
    scores = dict(zip([point.key for point in points], (1.0, 3.0, 2.0), strict=True))
    records = {key: {"metrics": {runner.TUNED_BY: score}} for key, score in scores.items()}
    resolved = runner.resolve(task, records)
    assert dict(resolved.method.params)["lam"] == 0.2
    assert resolved.repetition == 0


def test_the_similarity_of_a_graph_is_a_gram_matrix():
    X = np.random.default_rng(0).standard_normal((30, 4))
    K = neighbour_similarity(RBF(0.3), X)
    np.testing.assert_allclose(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_a_result_has_the_name_of_the_code_that_its_method_runs():
    source = Path(machine.__file__).parents[2]
    pursuit, joint = (
        {path.name for path in machine._imported(source, f"kernmend.estimators.{name}")}
        for name in ("_outlier_pursuit", "_kernel_low_rank")
    )
    assert {"_outlier_pursuit.py", "_base.py", "kernels.py"} <= pursuit
    assert "joint_choice.py" in joint - pursuit
    digests = {machine.code_digest(name) for name in ("", "OutlierPursuit", "KernelLowRank")}
    assert len(digests) == 3


@pytest.mark.parametrize(("code", "said"), [("", "1 of 1 results are of another version"), (None, "1 seed.")])
def test_a_table_says_which_results_are_of_other_code(code, said):
    digest = machine.code_digest("OutlierPursuit") if code is None else code
    record = {"estimator": "OutlierPursuit", "versions": {"code": digest}, "shape": [4, 2], "corruption": "noise"}
    text = tables._size({"OP": [record]})
    assert said in text
    assert ("another version" in text) == (code is not None)


def test_a_page_says_how_many_results_are_of_other_code():
    experiment = experiments.get("circle", quick=True)
    assert tables.lead(experiment, {}) == "The paper's claim: outliers return to the curve."
    digests = {"17": "", "18": machine.code_digest("OutlierPursuit")}
    records = {
        task.key: {"estimator": "OutlierPursuit", "versions": {"code": code}, "finished": f"2026-11-{day}T00:00:00Z"}
        for task, (day, code) in zip(spec.tasks(experiment), digests.items(), strict=False)
    }
    said = "2026-11-17 to 2026-11-18: 2 fits, 1 of them of another version of the code"
    assert said in tables.lead(experiment, records)


def test_rotations_are_those_of_coil_20_alone():
    whole, small = (experiments.get("denoise", rotations=rotations) for rotations in (None, 1))
    for before, after in zip(whole.cases, small.cases, strict=True):
        assert after.data.rotations == (1 if after.data.name == "coil" else before.data.rotations)
        known = {"OP, tuned"} if after.data != before.data else set()  # its grid depends on how many images there are
        assert {new.name for new, old in zip(after.methods, before.methods, strict=True) if new != old} == known


def test_without_tuned_rows_no_grid_is_searched():
    whole, fast = (experiments.get("denoise", tuned=tuned) for tuned in (True, False))
    assert any(method.grid for case in whole.cases for method in case.methods)
    assert not any(method.grid for case in fast.cases for method in case.methods)
    for before, after in zip(whole.cases, fast.cases, strict=True):
        assert [method for method in before.methods if not method.grid] == list(after.methods)


def test_parameters_are_tuned_on_fewer_images_where_they_do_not_depend_on_their_number():
    whole, fast = (experiments.get("denoise", grid_rotations=rotations) for rotations in (None, 1))
    for before, after in zip(whole.cases, fast.cases, strict=True):
        assert after.data == before.data
        for plain, item in zip(before.methods, after.methods, strict=True):
            fewer = before.data.name == "coil" and item.name in ("KPCA, tuned", "GRPCA, tuned")
            assert item.grid_rotations == (1 if fewer else None)
            assert item.rule == plain.rule + (", 720 images" if fewer else "")
    case = fast.cases[-1]
    item = next(each for each in case.methods if each.name == "GRPCA, tuned")
    task = spec.Task("denoise", case.data, case.corruption, item, 0, case.label)
    points = spec.grid_points(task)
    assert {(point.data.rotations, point.repetition) for point in points} == {(1, spec.TUNING)}
    small = experiments.get("denoise", rotations=1)  # whose search of the same grid serves both
    assert {point.key for point in points} <= {point.key for point in spec.tuning_tasks(small)}
    records = {point.key: {"metrics": {runner.TUNED_BY: float(i)}} for i, point in enumerate(points)}
    resolved = runner.resolve(task, records)
    assert resolved.data == case.data
    assert resolved.method.params == points[-1].method.params
    assert task.key != replace(task, method=replace(item, grid_rotations=None)).key


def test_outlier_pursuit_has_smaller_lam_to_choose_from_where_images_are_many():
    for rotations, least in ((5, 0.4), (1, 0.7)):
        case = experiments.get("denoise", rotations=rotations).cases[-1]
        grid = next(each.grid for each in case.methods if each.name == "OP, tuned")
        lams = [dict(point)["lam"] for point in grid]
        assert min(lams) == least
        assert 0.95 in lams
        assert len(set(lams)) == len(lams)


def test_only_the_columns_asked_for():
    whole, some = experiments.get("denoise"), experiments.get("denoise", columns="coil-20, occlusion")
    assert list(some.cases) == [case for case in whole.cases if case.label.startswith("COIL-20, occlusion")]
    assert len(some.cases) == 2
    with pytest.raises(ValueError, match="circle has no column with 'COIL' in its name, but circle"):
        experiments.get("circle", columns="COIL")


@pytest.mark.parametrize("command", ["run", "show"])
def test_a_column_that_is_not_there_is_one_sentence(tmp_path, command):
    Store(tmp_path).append({"key": "a"})
    arguments = ["paper", command, "circle", "--columns", "COIL", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    assert "Error: circle has no column with 'COIL' in its name" in result.output
