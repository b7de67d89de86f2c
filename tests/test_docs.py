"""The pages keep up with the code: nothing is left out, and what they show runs."""

import re
from pathlib import Path

import pytest

from kernmend import estimators

ROOT = Path(__file__).parents[1]
WHICH_METHOD = ROOT / "docs" / "which_method.md"
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in (
        ROOT / "README.md",
        WHICH_METHOD,
        *(ROOT / "docs" / f"{name}.md" for name in ("files", "new_kernel", "new_error")),
    )
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
]
LARGE = "\n".join(
    re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "large.md").read_text(), re.DOTALL | re.MULTILINE)
)


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_estimator_is_in_the_table_of_methods(name):
    rows = [line for line in WHICH_METHOD.read_text().splitlines() if line.startswith("|")]
    assert any(f"`{name}" in line.split("|")[1] for line in rows)


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")]), ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("block", [*BLOCKS, pytest.param(LARGE, id="large")])
def test_the_examples_run(block):
    exec(compile(block, "<docs>", "exec"), {"__name__": "docs"})


def test_the_tables_of_the_reproduction_are_those_of_its_pages():
    """No figure is typed by hand: what the document shows, a page that `kernmend paper` wrote has, line by line."""
    pages = {line for page in ROOT.glob("docs/reproduction/*.md") for line in page.read_text().splitlines()}
    text = (ROOT / "docs" / "reproduction.md").read_text()
    tables = text[text.index("## Table 1") :]
    lines = [line for line in tables.splitlines() if line.startswith("|")]
    assert len(lines) > 20
    assert [line for line in lines if line not in pages] == []
