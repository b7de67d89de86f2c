"""The words of the source: each docstring stands alone, says what is returned, and each number has a sentence."""

import ast
import re
from pathlib import Path

import pytest

import kernmend

ROOT = Path(kernmend.__file__).parent
PATHS = sorted(ROOT.rglob("*.py"))
# Words of an earlier version that only its author understood, and beginnings that need another docstring.
PRIVATE = re.compile(r"\b(lest|spared|usual|near is less|suspicions?|planted|plants)\b", re.IGNORECASE)
LEANS = re.compile(
    r"(do the same|the same\b(?! parameters)|as above|as before|ditto|likewise|see above)", re.IGNORECASE
)
SENTENCE = re.compile(r"[A-Z`\"'0-9|(.].*\.", re.DOTALL)


def is_number(value):
    """Whether an expression is made of numbers alone."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    parts = getattr(value, "elts", None) or [
        getattr(value, name) for name in ("left", "right", "operand") if hasattr(value, name)
    ]
    return bool(parts) and all(map(is_number, parts))


def numbers(text):
    """Yield the constants of a module that are numbers, with the comment above or behind, or the docstring below."""
    lines, body = text.splitlines(), ast.parse(text).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        names = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if not (isinstance(node, (ast.Assign, ast.AnnAssign)) and is_number(node.value)):
            continue
        told = after.value if isinstance(after, ast.Expr) else None
        above = []
        while lines[node.lineno - 2 - len(above)].startswith("#") and len(above) < node.lineno - 1:
            above.insert(0, lines[node.lineno - 2 - len(above)].lstrip("# "))
        behind = lines[node.end_lineno - 1].partition("  # ")[2]
        yield ast.unparse(names[0]), told.value if isinstance(told, ast.Constant) else behind or " ".join(above)


def docstrings(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ""


def silent(text):
    """Yield the functions that return something, have a docstring, and do not say in it what that is."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef) or node.returns is None:
            continue
        marks = {ast.unparse(mark) for mark in node.decorator_list}
        what = ast.unparse(node.returns)
        if marks & {"property", "cached_property", "contextmanager"} or what in ("None", "NoReturn", "Never"):
            continue  # a property is what its docstring says
        told = ast.get_docstring(node)
        if told is not None and not re.search(r"\b(return(s|ed)?|yields?|gives?)\b", told, re.IGNORECASE):
            yield node.name


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_words(path):
    text = path.read_text(encoding="utf-8")
    assert [match[0] for match in PRIVATE.finditer(text)] == []
    assert [told.splitlines()[0] for told in docstrings(text) if LEANS.match(told)] == []
    assert [name for name, told in numbers(text) if not SENTENCE.fullmatch(told)] == []
    assert list(silent(text)) == []


def test_what_is_not_said_is_found():
    text = '# Unit: rows.\nA = 1\nB, C = 2, -3.0\nD = 2**4  # of rows\nE: float = 1e-3\n"""A share."""\nF = "text"\n'
    expected = {"A": "Unit: rows.", "(B, C)": "", "D": "of rows", "E": "A share."}
    assert dict(numbers(text)) == expected
    assert [name for name, told in expected.items() if SENTENCE.fullmatch(told)] == ["A", "E"]
    assert LEANS.match("The same for columns.")
    assert PRIVATE.search("rows are spared")
    functions = ['def {}() -> int:\n    """{}"""\n'.format(*each) for each in (("f", "Return 1."), ("g", "Count."))]
    assert list(silent("".join(functions))) == ["g"]
