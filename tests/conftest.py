import subprocess
import sys

import pytest
from circle_file import frame
from hypothesis import settings

from kernmend.cli.main import _run

# Helpers that assert on behalf of a test: their failures should show values, like the test's own.
pytest.register_assert_rewrite("kernel_contract")

settings.register_profile("kernmend", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("kernmend")


# Long tests of results, time or memory: the lines that they run, others run too. And tests that counting would stop.
UNCOUNTED = {
    "test_images_of_the_benchmark",
    "test_surfaces",
    "test_beliefs_are_those_of_brute_force",
    "test_probabilities_are_frequencies_where_the_scores_follow_the_prior",
    "test_four_times_the_file_suffice",
    "test_a_hundred_thousand_lines",
    "test_bad_files",
    "test_float32_has_no_copy_of_all_rows_in_float64",
    "test_data_larger_than_the_memory_of_a_worker",
    "test_a_turning_circle_is_followed",
    "test_coverage_on_exchangeable_data",
    "test_confidence_of_entries_is_the_share_that_is_wrong",
    "test_points_of_a_surface_are_covered_however_they_went_wrong",
    "test_wrong_entries_in_all_rows",
    "test_spikes_are_marked",
    "test_few_rows_few_and_many_features",
    "test_finished_work_is_not_run_again",
    # Time limits of `kernmend.paper` interrupt by a signal: where `coverage` holds its lock, that stops the suite.
    "test_a_budget_gives_what_there_is_and_says_so",
    "test_a_budget_that_ends_before_there_is_a_result",
}


def pytest_collection_modifyitems(items):
    """Count the lines that run in the first case of each test only, since counting takes half as long again.

    The other cases repeat it with other values. So the share of the lines is, if anything, too low.
    """
    seen = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in seen or name.rpartition("::")[2] in UNCOUNTED:
            item.add_marker("no_cover")
        seen.add(name)


def hurry(patch):
    """Choose settings in a hurry: for tests in which it does not matter which ones, and there are many of them."""
    patch.setattr("kernmend.repair.calibrate.SEARCH_ITERATIONS", 2)
    patch.setattr("kernmend.repair.calibrate.PASSES", 0)


def hurry_all(patch):
    """Choose settings in a hurry, and try few rows for the intervals: where it does not matter how wide these are."""
    hurry(patch)
    patch.setattr("kernmend.repair.conformal.TRIED", 12)
    patch.setattr("kernmend.repair.conformal.ITERATIONS", 3)


@pytest.fixture
def quick_calibration(monkeypatch):
    """Settings and intervals are found in a hurry."""
    hurry_all(monkeypatch)


@pytest.fixture(scope="module")
def module_calibration():
    """Settings and intervals are found in a hurry in all tests of a file, and in what they share."""
    with pytest.MonkeyPatch.context() as patch:
        hurry_all(patch)
        yield


@pytest.fixture
def quick_settings(monkeypatch):
    """Settings are chosen in a hurry, and intervals are what they are."""
    hurry(monkeypatch)


@pytest.fixture(scope="module")
def module_settings():
    """Settings are chosen in a hurry in all tests of a file, and in what they share; intervals are what they are."""
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        yield


class Never:
    """Ctrl-C is not pressed."""

    code = None


@pytest.fixture
def kernmend(monkeypatch, capfd):
    """Run the command line in this process, to the exit code and all."""

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["kernmend", *map(str, arguments)])
        capfd.readouterr()
        done = _run(Never())
        out = capfd.readouterr()
        assert done == code, out.err
        assert "Traceback" not in out.err
        return subprocess.CompletedProcess(arguments, done, out.out, out.err)

    return run


@pytest.fixture
def terminal(monkeypatch):
    """The command line believes that it writes to a terminal of 80 columns."""
    monkeypatch.setattr("kernmend.cli.words.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def table(tmp_path):
    """A file with a circle and two wrong points."""
    path = tmp_path / "circle.csv"
    frame().to_csv(path, index=False)
    return path
