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
from kernmend.datasets import corruption, metrics

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


def defined(value, module, name):
    return name[0] != "_" and getattr(value, "__module__", "") == module.__name__


def test_every_public_name_is_on_the_page():
    public = {f"kernmend.{name}" for name in kernmend.__all__} | {
        f"kernmend.datasets.{name}" for name in datasets.__all__
    }
    for module in (corruption, metrics):  # all that they define
        public |= {
            value.__module__ + "." + name for name, value in vars(module).items() if defined(value, module, name)
        }
    missing = {name for name in public if name.rpartition(".")[2] not in PLAIN} - set(NAMES)
    assert missing == set()
    assert len(NAMES) == len(set(NAMES)) > 40


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_has_the_form_of_numpydoc(name):
    left_out = set(CHECKS) - {"all"} | ({"PR01"} if name in MADE else set())
    errors = [error for error in validate(name)["errors"] if error[0] not in left_out]
    assert errors == []


def methods() -> list[str]:
    """The public methods and properties of the estimators and of what they return, where they are defined."""
    out = set()
    for name in NAMES:
        for base in getattr(the(name), "__mro__", ()):
            if base.__module__.startswith(("kernmend.estimators", "kernmend._mend", "kernmend.repair", "kernmend.io")):
                out |= {
                    f"{base.__module__}.{base.__qualname__}.{key}"
                    for key, value in vars(base).items()
                    if key[0] != "_" and (inspect.isfunction(value) or isinstance(value, property))
                }
    return sorted(out - {"kernmend.estimators._base.NewRowsRecovery.score_samples"})  # every subclass has its own


@pytest.mark.parametrize("name", methods())
def test_a_method_says_what_it_takes_and_returns(name):
    """The example is that of the class."""
    errors = [error for error in validate(name)["errors"] if error[0] not in {*CHECKS, "EX01"}]
    assert errors == []


@pytest.mark.parametrize("name", NAMES)
def test_there_is_an_example(name):
    """The doctests of all modules run in this suite, those of these names among them."""
    assert doctest.DocTestParser().get_examples(inspect.getdoc(the(name)) or "")
