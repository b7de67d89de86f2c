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


def pytest_collection_modifyitems(items):
    """Count the lines that run in the first case of each test only, since counting takes half as long again.

    The other cases repeat it with other values. So the share of the lines is, if anything, too low.
    """
    seen = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in seen:
            item.add_marker("no_cover")
        seen.add(name)


def hurry(patch):
    """Choose settings in a hurry: for tests in which it does not matter which ones, and there are many of them."""
    patch.setattr("kernmend.repair.calibrate.SEARCH_ITERATIONS", 2)
    patch.setattr("kernmend.repair.calibrate.PASSES", 0)


@pytest.fixture
def quick_calibration(monkeypatch):
    """Settings are chosen in a hurry."""
    hurry(monkeypatch)


@pytest.fixture(scope="module")
def module_calibration():
    """Settings are chosen in a hurry in all tests of a file, and in what they share."""
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
