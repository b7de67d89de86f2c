"""`kernmend demo`, the main job as a user has it, and the README, whose figures are what it prints now."""

import csv
import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.readme import BLOCK, README, between, filled
from kernmend.cli import demo, demo_show
from kernmend.cli.main import DEMO_FILES
from kernmend.io import read

TEXT = README.read_text()
ROOT = Path(__file__).parents[1]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
MEND_OTHERS = demo.mend_others


@cache
def others():
    """What is not the table takes most of the time, and is the same for all tests here."""
    return list(MEND_OTHERS())


@pytest.fixture(scope="module")
def mended_others():
    """Make `others` with the calibration that users have, before a test asks for a quick one."""
    return others()


@pytest.fixture
def quick(monkeypatch, mended_others, quick_calibration):
    monkeypatch.setattr(demo, "mend_others", lambda **options: mended_others)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("quick")
def test_it_writes_what_it_says(kernmend, tmp_path):
    folder = tmp_path / "new" / "folder"
    done = kernmend("demo", "--out", folder)
    assert names(folder) == sorted(DEMO_FILES)
    assert all(str(folder / name) in done.stdout for name in DEMO_FILES)
    assert max(map(len, done.stdout.splitlines()[:8])) <= 80
    assert "filling in" in done.stderr  # a progress bar
    for name in ("circle.png", "digits.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert "A weather station" in (folder / "report.html").read_text()
    kernmend("revert", folder / "station.mended.csv", folder / "station.changes.csv", "-o", folder / "back.csv")
    assert (folder / "back.csv").read_bytes() == (folder / "station.csv").read_bytes()


@pytest.mark.usefixtures("quick")
def test_it_does_not_overwrite_unless_told(kernmend, tmp_path):
    (tmp_path / "circle.png").write_text("mine")
    assert "--force" in kernmend("demo", "-o", tmp_path, code=2).stderr
    assert (tmp_path / "circle.png").read_text() == "mine"
    kernmend("demo", "-o", tmp_path, "--force", "--quiet")
    assert (tmp_path / "circle.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_written_is_one_line(kernmend, tmp_path):
    (tmp_path / "file").write_text("")
    done = kernmend("demo", "-q", "-o", tmp_path / "file" / "below", code=1)
    assert done.stderr.startswith("kernmend: cannot write")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("lacks", [["matplotlib"], ["jinja2"], ["matplotlib", "jinja2"]])
def test_without_packages_it_says_so_at_once_and_goes_on(kernmend, tmp_path, monkeypatch, lacks):
    import kernmend.cli.main as main

    real = main.find_spec
    monkeypatch.setattr(main, "find_spec", lambda name: None if name in lacks else real(name))
    done = kernmend("demo", "-q", "-o", tmp_path / "new")
    assert done.stderr.startswith("kernmend: note: without ")
    assert f"pip install {' '.join(lacks)}" in done.stderr
    needs = {"circle.png": "matplotlib", "digits.png": "matplotlib", "report.html": "jinja2"}
    assert names(tmp_path / "new") == sorted(name for name in DEMO_FILES if needs.get(name) not in lacks)


@pytest.mark.usefixtures("quick")
def test_an_interruption_ends_with_130(kernmend, tmp_path, monkeypatch):
    stopped = [replace(others()[0], interrupted=True)]
    monkeypatch.setattr(demo, "mend_others", lambda **options: stopped)
    kernmend("demo", "-q", "-o", tmp_path, code=130)
    assert "circle.png" not in names(tmp_path)


def test_the_table_is_dirty_and_its_truth_is_known(tmp_path):
    truth, wrong = demo.write_station(tmp_path / "station.csv")
    X = read(tmp_path / "station.csv").X
    missing = np.isnan(X)
    assert 0 < missing.sum() < 20
    assert not missing[wrong].any()
    off = np.abs(X - truth) > 0.006  # more than rounding to two decimals
    assert (off.sum(axis=1)[wrong] == 1).all()
    assert not off[~wrong].any()
    with open(tmp_path / "station.csv", newline="") as file:
        assert next(csv.reader(file))[0] == "time"


def test_the_counts_are_of_rows_and_the_error_is_that_of_all_wrong_ones():
    truth = np.zeros((4, 1))
    X = np.array([[0.0], [4.0], [2.0], [0.0]])
    recovered = np.array([[0.0], [1.0], [2.0], [0.0]])
    wrong, flags = np.array([False, True, True, False]), np.array([True, True, False, False])
    part = demo.Part("x", truth, X, wrong, recovered, flags, lambda A, rows: float(np.abs((A - truth)[rows]).sum()))
    assert demo_show.cells(part) == ("x", "2 of 4", "1", "1 of 2", "50 %")


def test_kernel_pca_is_tuned_on_the_truth():
    """No choice within its grid is better, so the picture is fair to it."""
    part = others()[2]
    panels = demo.circle_panels(part)
    assert part.error(panels[demo.KPCA], part.wrong) < part.error(part.X, part.wrong)
    assert set(panels) == {demo.INPUT, demo.KPCA, demo.OURS}


# --- the README -------------------------------------------------------------------------------------------------------


def test_every_figure_is_what_a_program_prints(tmp_path):
    """`make readme` writes them anew where this fails."""
    parts = [demo.mend_station(tmp_path)[0], *others()]
    assert filled(TEXT, parts) == TEXT


def test_no_figure_stands_outside_of_what_programs_print():
    """But for years, versions, counts of what the code itself says, and the size of the picture's data."""
    text = between(between(BLOCK.sub("", TEXT), "printed", ""), "demo", "")
    text = re.sub(r"\(https?://[^)]*\)|BSD-3|HDF5|Python 3\.11|2019", "", text)
    assert re.findall(r"\d+", text) == []


def test_it_fits_a_screen():
    """Lines of text as a page shows them; the picture and the links take a few more."""
    assert len([line for line in TEXT.splitlines() if line.strip()]) <= 55
    assert not re.search(r"^#{2,} ", TEXT, re.MULTILINE)  # one heading


def test_pictures_and_links_have_absolute_addresses():
    targets = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
    assert any(target.endswith(".png") for target in targets)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", TEXT))
def test_an_address_is_that_of_the_project_and_its_file_is_there(target):
    repository = URLS["Source"].removeprefix("https://github.com/")
    owner, name = repository.split("/")
    raw, blob = f"https://raw.githubusercontent.com/{repository}/main/", f"https://github.com/{repository}/blob/main/"
    site = f"https://{owner}.github.io/{name}/"
    for start in (raw, blob):
        if target.startswith(start):
            assert (ROOT / target.removeprefix(start)).exists()
            return
    page = target.removeprefix(site).removesuffix(".html")
    assert target.startswith(site)
    assert (ROOT / "docs" / f"{page}.md").exists() or page == "auto_examples/index"
