"""The README: every figure in it is what a program prints now, it fits one screen, and it shows on PyPI."""

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.readme import BLOCK, README, between, filled

TEXT = README.read_text()
ROOT = Path(__file__).parents[1]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]


def test_every_figure_is_what_a_program_prints():
    """`make readme` writes them anew where this fails."""
    assert filled(TEXT) == TEXT


def test_no_figure_stands_outside_of_what_programs_print():
    """But for years, versions, counts of what the code itself says, and the size of the picture's data."""
    text = between(between(BLOCK.sub("", TEXT), "printed", ""), "demo", "")
    text = re.sub(r"\(https?://[^)]*\)|BSD-3|Python 3\.11|2019", "", text)
    assert re.findall(r"\d+", text) == []


def test_it_is_short():
    assert len(TEXT.splitlines()) < 90


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
