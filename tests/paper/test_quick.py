"""The whole quick suite, run once, and what must hold of its store and pages."""

import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from kernmend.cli.main import cli
from kernmend.paper import NAMES, experiments, machine, matrices, spec, tables
from kernmend.paper.store import Store
from kernmend.repair import joint_trial


def paper(*arguments, code=0):
    result = CliRunner().invoke(cli, ["paper", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module", autouse=True)
def small(module_calibration):
    """Galleries of one image a row, and settings chosen in a hurry: what is tested is that there are such."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernmend.paper.figures.SHOWN", 1)
        patch.setattr("kernmend.repair.joint_trial.SEARCH_ITERATIONS", 2)
        patch.setattr("kernmend.repair.joint_choice.FROM_DATA", 4)
        patch.setattr("kernmend.repair.joint_choice.PATH_ITERATIONS", 2)
        many = replace(joint_trial.MANY, iterations=2)
        patch.setattr("kernmend.repair.joint_trial.MANY", many)
        yield


@pytest.fixture(scope="module")
def coil(tmp_path_factory):
    """A folder with a made-up COIL-20: two objects, smooth blobs that wander with the angle."""
    folder = tmp_path_factory.mktemp("coil")
    y, x = np.mgrid[:32, :32]
    angles = np.tile(np.linspace(0, 2 * np.pi, 24, endpoint=False), 2)
    sizes = np.repeat([20.0, 50.0], 24)
    images = [
        255 * np.exp(-((x - 16 - 6 * np.cos(a)) ** 2 + (y - 16 - 4 * np.sin(a)) ** 2) / s)
        for a, s in zip(angles, sizes, strict=True)
    ]
    labels = np.repeat([1, 2], 24)
    np.savez(folder / "coil20_32.npz", images_f32=np.float32(images), labels=labels, angle_deg=np.degrees(angles))
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory, coil):
    """The folder of a finished quick run of everything."""
    out = tmp_path_factory.mktemp("paper")
    text = paper("all", "--quick", "--data", coil, "-o", out)
    assert all(f"{name}: " in text for name in NAMES)
    return out


def test_every_experiment_has_its_pages_and_figures(finished):
    for name in NAMES:
        page = (finished / f"{name}.md").read_text()
        assert "not run" not in page
        assert f"fits, code {machine.code_digest()}, " in page
        assert "<table>" in (finished / f"{name}.html").read_text()
        pictures = list(finished.glob(f"{name}-*.png"))
        assert pictures
        assert all(picture.name in page for picture in pictures)
        assert all(picture.with_suffix(".svg").exists() for picture in pictures)


def test_table_1_has_all_four_readings_and_an_untouched_row_in_each(finished):
    page = (finished / "denoise.md").read_text()
    for reading in ("corrupted images", "clean images", "all images", "mean per image"):
        part = page[page.index(f"## All columns, {reading}") :]
        rows = [line.split(" | ")[0] for line in part[: part.index("\n\n", part.index("|---"))].splitlines()]
        assert "| untouched" in rows
        assert rows[-1] == "| oracle"
        assert [f"| {name}, tuned" in rows for name in ("OP", "KPCA", "GRPCA", "ours, Gaussian")] == 4 * [True]


def test_a_picture_stands_below_its_table(finished):
    for name in ("denoise", "similarity"):
        for case in experiments.get(name, quick=True).cases:
            _, _, part = (finished / f"{name}.md").read_text().partition(f"\n## {case.label}\n")
            pictures = [line for line in part.partition("\n## ")[0].splitlines() if line.startswith("![")]
            assert len(pictures) == 2
            assert all(case.label in picture for picture in pictures)


def test_a_record_says_where_it_comes_from(finished):
    for record in Store(finished).read().values():
        assert {"versions", "machine", "params", "rule", "seconds", "matrix", "seed", "corruption"} <= record.keys()
        assert record["metrics"]
        assert record["estimator"] in ("untouched", "oracle") or record["peak_mb"] > 0


def test_all_methods_of_a_case_get_the_same_matrix(finished):
    seen = {}
    for record in Store(finished).read().values():
        seen.setdefault((record["experiment"], record["case"], record["repetition"]), set()).add(record["matrix"])
    assert all(len(digests) == 1 for digests in seen.values())
    both = [key for key in seen if key[1].startswith("MNIST, Gaussian (energy)") and key[2] == 0]
    assert len(set.union(*(seen[key] for key in both))) == 1  # Table 2 is timed on the matrix of Table 1
    tuned = [seen[key] for key in seen if key[2] == spec.TUNING]
    assert tuned
    assert all(digest.isdisjoint(set.union(*(seen[key] for key in seen if key[2] >= 0))) for digest in tuned)


def test_finished_work_is_not_run_again(finished, coil, monkeypatch):
    monkeypatch.setattr("kernmend.paper.runner.execute", None)
    text = paper("run", "circle", "denoise", "--quick", "--data", coil, "-o", finished)
    assert "circle: 0 results new, 5 were there" in text
    assert "denoise: 0 results new" in text


def test_tables_come_from_the_store_alone(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(matrices, "load", None)
    monkeypatch.delenv("KERNMEND_DATA", raising=False)
    shutil.copy(finished / "results.jsonl", tmp_path)
    text = paper("show", "denoise", "--quick", "-o", tmp_path)
    assert "| oracle |" in text
    assert "39.03 / 29.25" in text
    assert "cannot share data" in text
    original, again = (
        [line for line in (folder / "denoise.md").read_text().splitlines() if line and not line.startswith("![")]
        for folder in (finished, tmp_path)
    )
    assert again == original
    assert "not run" in paper("show", "denoise", "-o", tmp_path)  # the full one


def test_missing_data_is_one_sentence_and_the_rest_is_kept(finished, tmp_path, monkeypatch):
    monkeypatch.delenv("KERNMEND_DATA", raising=False)
    shutil.copy(finished / "results.jsonl", tmp_path)
    text = paper("run", "denoise", "--quick", "-o", tmp_path, code=1)
    assert "what needs COIL-20 was left out" in text
    assert "columbia.edu" in text
    assert "0 results new" in text


def test_pages_that_cannot_be_made_are_one_sentence(finished, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    shutil.copy(finished / "results.jsonl", tmp_path)
    monkeypatch.setattr("kernmend.paper.figures.write_pages", full)
    text = paper("show", "circle", "--quick", "-o", tmp_path, code=1)
    assert f"cannot write to {tmp_path}: No space left on device" in text
    monkeypatch.setitem(sys.modules, "kernmend.paper.figures", None)
    text = paper("show", "circle", "--quick", "-o", tmp_path, code=1)
    assert "pictures need matplotlib: pip install matplotlib" in text


def test_more_seeds_are_more_work_with_the_same_beginning(finished, tmp_path):
    shutil.copy(finished / "results.jsonl", tmp_path)
    assert "circle: 5 results new, 5 were there" in paper(
        "run", "circle", "--quick", "--seeds", 2, "-o", tmp_path, "--jobs", 2
    )


def test_usage(tmp_path):
    assert "no results" in paper("show", "circle", "-o", tmp_path, code=1)
    assert "is not one of" in paper("run", "square", code=2)
    listed = paper("list")
    assert all(name in listed for name in NAMES)


def test_the_full_experiments_are_the_papers():
    assert set(experiments._BUILDERS) == set(NAMES)
    cases = experiments.get("denoise").cases
    assert [case.repetitions for case in cases] == 4 * [5] + 4 * [2]
    assert [case.data.name for case in cases] == 4 * ["mnist"] + 4 * ["coil"]
    assert [case.data.scale for case in cases] == 2 * (2 * ["[0, 1]"] + 2 * ["unit length"])
    assert [case.corruption.kind for case in cases] == 4 * ["gaussian", "occlusion"]
    for case in cases:
        names = [method.name for method in case.methods]
        assert names[0] == "untouched"
        assert names[-1] == "oracle"
        assert len(set(names)) == len(names)
        assert all(method.rule for method in case.methods)


def test_the_printed_kernel_is_used_on_images_of_unit_length_only():
    for case in experiments.get("denoise").cases:
        (ours,) = [method for method in case.methods if method.name == "ours, Gaussian"]
        assert (dict(ours.params).get("gamma") == experiments.GAMMA) == case.data.unit_after
        assert ours.paper


def test_images_are_brought_to_unit_length_after_the_corruption():
    plain = spec.Data("mnist", 20)
    noise = spec.Corruption("occlusion")
    truth, X, bad = matrices.make_matrix(plain, noise, 0)
    scaled = matrices.make_matrix(spec.Data("mnist", 20, unit_after=True), noise, 0)
    np.testing.assert_array_equal(scaled.rows, bad)
    for A, B in ((truth, scaled.truth), (X, scaled.X)):
        np.testing.assert_allclose(B * np.linalg.norm(A, axis=1, keepdims=True), A)


def test_coil_20_is_in_single_precision_and_measured_in_double(coil):
    data = spec.Data("coil", objects=2, rotations=1, views=8)
    matrix = matrices.make_matrix(data, spec.Corruption("gaussian"), 0, coil)
    assert matrix.truth.dtype == matrix.X.dtype == np.float32
    double = matrix.in_double()
    assert double.truth.dtype == double.X.dtype == np.float64
    np.testing.assert_array_equal(double.X[~matrix.rows], double.truth[~matrix.rows])


def test_a_rise_of_the_objective_would_show(finished):
    records = Store(finished).read()
    objectives = [record["objective"] for record in records.values() if record["experiment"] == "convergence"]
    assert len(objectives) == 6
    assert all(tables.rises(objective) == 0 for objective in objectives)
    assert tables.rises([*objectives[0], 1.01 * objectives[0][-1]]) == 1
