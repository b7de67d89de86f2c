"""Every public name is on the page of the API, has a docstring in numpydoc's form, and an example that runs."""

import doctest
import inspect
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from numpydoc.validate import validate

import kernmend
from kernmend import datasets

ROOT = Path(__file__).parents[1]
API = (ROOT / "docs" / "api" / "index.md").read_text()
CHECKS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["numpydoc_validation"]["checks"]
# Names that are no code.
PLAIN = {"__version__", "SURFACES"}
# Classes that a function returns and nobody makes: their fields are attributes, not parameters.
MADE = {"kernmend._mend.Mended", "kernmend.repair.explain.Explanation"}


def listed() -> list[str]:
    """The names of the page, with their modules."""
    out, module = [], ""
    for line in API.splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"   ~?([\w.]+)$", line):
            out.append(f"{module}.{found[1]}")
    return out


NAMES = listed()


def the(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def test_every_public_name_is_on_the_page():
    public = {f"kernmend.{name}" for name in kernmend.__all__} | {
        f"kernmend.datasets.{name}" for name in datasets.__all__
    }
    missing = {name for name in public if name.rpartition(".")[2] not in PLAIN} - set(NAMES)
    assert missing == set()
    assert len(NAMES) == len(set(NAMES)) > 40


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_has_the_form_of_numpydoc(name):
    left_out = set(CHECKS) - {"all"} | ({"PR01"} if name in MADE else set())
    errors = [error for error in validate(name)["errors"] if error[0] not in left_out]
    assert errors == []


@pytest.mark.parametrize("name", NAMES)
def test_there_is_an_example(name):
    """The doctests of all modules run in this suite, those of these names among them."""
    assert doctest.DocTestParser().get_examples(inspect.getdoc(the(name)) or "")
