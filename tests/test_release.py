"""What a release needs agrees with pyproject.toml: recipe, citation, workflows, the project's address."""

import json
import re
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

import kernmend
from kernmend.io.model_file import FORMAT

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = kernmend.__version__.partition(".dev")[0]
RELEASED = kernmend.__version__ == RELEASE
ON_PYPI = False  # whether `pip install kernmend` gets this package: true after the first upload


def plain(requirement):
    return re.sub(r"\s+", "", requirement.partition("#")[0].partition(";")[0])


def test_the_recipe_asks_for_the_same_versions():
    text = (ROOT / "conda" / "meta.yaml").read_text()
    recipe = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "x", re.sub(r"\{%.*?%\}", "", text)))
    run = {plain(requirement) for requirement in recipe["requirements"]["run"]}
    assert run == {f"python{PROJECT['requires-python']}", *map(plain, PROJECT["dependencies"])}
    assert f'version = "{RELEASE}"' in text


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == RELEASE
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]


def test_a_release_has_one_date():
    """Before it there is none; a release sets it in the changelog and in the citation."""
    heading = re.search(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading is not None
    assert heading[1] == RELEASE
    date = yaml.safe_load((ROOT / "CITATION.cff").read_text()).get("date-released")
    assert heading[2] == (str(date) if RELEASED else "unreleased")
    assert (date is not None) == RELEASED


def test_a_release_has_a_model_of_its_own():
    """Files of the first release must be read by all that have its format: see tests/models/make.py."""
    with ZipFile(ROOT / "tests" / "models" / f"format-{FORMAT}.kernmend") as file:
        written = json.loads(file.read("model.json"))["kernmend"]
    assert written == kernmend.__version__ or not RELEASED


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_pages_say_how_to_install_what_there_is(page):
    """From the folder of the repository; whoever uploads the package to PyPI sets ON_PYPI."""
    assert (re.search(r'pip install "\.\[io,report\]"', (ROOT / page).read_text()) is not None) == (not ON_PYPI)


def test_nothing_is_said_to_be_on_pypi_that_is_not():
    """No page and no message says `pip install kernmend`, by that name or with extras, before it is true."""
    said = re.compile(r"pip install [^\n`]*\bkernmend\b")
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("examples/*.py")]
    assert ON_PYPI or [str(path) for path in texts if said.search(path.read_text(encoding="utf-8"))] == []


def test_there_is_one_address():
    """Every page, recipe and file names the same repository."""
    found = set()
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob("*.cff"),
        *ROOT.glob("docs/*.md"),
        ROOT / "conda" / "meta.yaml",
        ROOT / "pyproject.toml",
    ]:
        found |= set(re.findall(r"https://github\.com/(?:kernmend)/[\w-]+", path.read_text()))
    assert found == {PROJECT["urls"]["Source"]}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_make_targets_that_exist(workflow):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert all(command.startswith("make ") and command.split()[1] in targets for command in commands)


def test_the_pythons_of_the_classifiers_are_tested():
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert tests["jobs"]["test"]["strategy"]["matrix"]["python-version"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_every_dependency_that_users_get_has_a_least_version():
    extras = PROJECT["optional-dependencies"]
    asked = [
        *PROJECT["dependencies"],
        *(one for name in ("io", "report", "datasets", "dask", "test") for one in extras[name]),
    ]
    assert [one for one in asked if ">=" not in one and not one.startswith("kernmend[")] == []
