"""The paper's labels are in the source, where their formulas are, and nothing cites a file that is not here.

The labels are written out below, since the paper's source is not part of the repository.
"""

import re
from pathlib import Path

import pytest

import kernmend

SOURCE = Path(kernmend.__file__).parent
TESTS = Path(__file__).parents[1]

MODEL = ("NLRPCA", "eq:rpca_l", "eq:rpca", "eq:generalform", "prop1", "Auxiliary", "relax")
STEPS = ("sub2", "sub2solution", "sub1", "sub1decomp", "sub1decomp2")
POLYNOMIAL = ("sub1poly", "sub1ployHQUpdate1", "sub1ployHQUpdate2", "sub1ployHQUpdate3")
GAUSSIAN = ("sub1exp", "sub1expHQ", "sub1expHQUpdate1", "sub1expHQUpdate2", "sub1expHQUpdate3")
ACCELERATED = ("sub1expAPGUpdate1", "sub1expAPGUpdate2", "sub1expAPGUpdate3", "sub1expAPGUpdate4")
THEORY = ("HQProp", "lem1", "thm2", "HQprop", "aiargmin", "aiargmin3", "thm1", "decreasing", "FBk", "fak")
EXPERIMENTS = ("recovSimi", "toydata", "denoised", "denoise-Eval", "tab:time")
LABELS = (*MODEL, *STEPS, *POLYNOMIAL, *GAUSSIAN, *ACCELERATED, *THEORY, *EXPERIMENTS)
ROOM_OF = {
    "relax": "model/objective.py",
    "sub2solution": "model/penalties.py",
    "sub1": "model/penalties.py",
    "sub1poly": "model/kernels.py",
    "sub1decomp2": "solvers/alternating.py",
    "sub1expAPGUpdate4": "solvers/alternating.py",
    "eq:rpca": "model/terms.py",
}
# Files that once were beside the repository. In two halves, so that this file does not cite them.
NOT_HERE = re.compile(r"\b(DES" + r"IGN|PROTO" + r"COL)\b")


def texts(folder, *patterns):
    for pattern in patterns:
        for path in sorted(folder.rglob(pattern)):
            if "node_modules" not in path.parts:
                yield path, path.read_text(encoding="utf-8")


def where(label):
    return [str(path.relative_to(SOURCE)) for path, text in texts(SOURCE, "*.py") if f"({label})" in text]


@pytest.mark.parametrize("label", LABELS)
def test_each_label_is_in_the_source(label):
    assert where(label)


@pytest.mark.parametrize(("label", "path"), ROOM_OF.items())
def test_a_label_is_where_its_formula_is(label, path):
    assert path in where(label)


def test_no_equation_is_cited_that_the_paper_does_not_have():
    cited = re.compile(r"\b[Ee]qs?\.\s+\(([\w:-]+)\)")
    found = {label for _, text in texts(SOURCE, "*.py") for label in cited.findall(text)}
    assert len(found) > 20
    assert found <= set(LABELS)


@pytest.mark.parametrize("folder", ["src", "docs", "tests"])
def test_nothing_cites_a_file_that_is_not_here(folder):
    citing = [str(path) for path, text in texts(TESTS.parent / folder, "*.py", "*.md") if NOT_HERE.search(text)]
    assert not citing
