"""Imports go one way: from the command line down to linear algebra, never up."""

import ast
from pathlib import Path

import pytest

import kernmend
from benchmarks.walks import walks

ROOT = Path(kernmend.__file__).parent
LAYERS = (
    ("_typing", "_methods", "__init__"),
    ("linalg",),
    ("model",),
    ("solvers",),
    ("_validation",),
    ("detect",),
    ("repair",),
    ("large",),
    ("estimators",),
    ("datasets", "io", "report"),
    ("_mend", "paper"),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# What a user calls on an estimator and stands above it: `est.report(path)`, `est.save(path)`. Imported in the method.
UPWARD = {("estimators/_outputs.py", "report"), ("estimators/_outputs.py", "io")}
MODULES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


def imported(path):
    """Return the rooms of kernmend that a module imports from anywhere in it."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module == "kernmend":
            names = [alias.name for alias in node.names if alias.name in RANK]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            room = name.removeprefix("kernmend.").partition(".")[0]
            if room in RANK:
                yield room


def room_of(path):
    return Path(path).parts[0].removesuffix(".py")


def test_every_module_has_a_layer():
    assert {room_of(path) for path in MODULES} == RANK.keys()


@pytest.mark.parametrize("path", [path for path in MODULES if path != "__init__.py"])
def test_imports_go_down(path):
    here = room_of(path)
    upward = {room for room in imported(path) if RANK[room] > RANK[here] and (path, room) not in UPWARD}
    sideways = {room for room in imported(path) if RANK[room] == RANK[here] and room != here}
    assert not upward, f"{path} imports {upward}, which stand above it"
    assert not sideways - {"_typing", "_methods", "io", "__init__"}, f"{path} imports {sideways}"


@pytest.mark.parametrize(
    ("call", "most", "through"),
    [
        # Files that a call crosses, at most: one more is one more that a newcomer has to read.
        ("KernelRecovery().fit_transform(X)", 24, {"repair/learn.py", "detect/detector.py", "repair/conformal.py"}),
        ("est.transform(X)", 17, {"repair/row_mender.py", "solvers/rows.py"}),
        ("KernelLowRank(...).fit(X)", 16, {"repair/joint.py", "solvers/reduced.py"}),
        ("RobustPCA().fit(X)", 10, {"estimators/_robust_pca.py", "solvers/admm.py"}),
    ],
)
def test_a_call_is_followed_in_few_files(walked, call, most, through):
    assert through < walked[call].keys()
    assert len(walked[call]) <= most, sorted(walked[call])


@pytest.fixture(scope="module")
def walked():
    return walks()
