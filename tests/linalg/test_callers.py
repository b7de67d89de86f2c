"""`linalg.eigen` is the only module that calls an eigen-solver of NumPy or SciPy: what it says of itself is so."""

import re
from pathlib import Path

import kernmend

ROOT = Path(kernmend.__file__).parent
SOLVER = re.compile(r"\b(eigh|eigvalsh|eigsh|lobpcg|eig|eigvals|eigs|eigh_tridiagonal|syevr|dsyevr|ssyevr)\(")


def callers():
    paths = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    return {path for path, text in paths.items() if SOLVER.search(text)}


def test_only_eigen_calls_an_eigen_solver():
    assert callers() == {"linalg/eigen.py"}


def test_the_pattern_finds_calls():
    assert all(SOLVER.search(text) for text in ("np.linalg.eigh(K)", "s = eigvalsh(K)", "eigsh(K, k=3)"))
    assert not SOLVER.search("s, U = eigen(K, cut)")
