"""What builds the site: blocks that fail are noticed, labels have lines, checks find what is wrong."""

import inspect
import re
import runpy
import sys
import tarfile
from html import unescape
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
CHECK_SITE = runpy.run_path(str(ROOT / "docs" / "check_site.py"))
CHECK_DIST = runpy.run_path(str(ROOT / "docs" / "check_dist.py"))
LABELS = runpy.run_path(str(ROOT / "tests" / "model" / "test_labels.py"))["LABELS"]
BLOCK = (ROOT / "docs" / "method.md").read_text().partition("```{equations}\n")[2].partition("\n```\n")[0]
EQUATIONS = {label: place for label, place, _ in (line.split(" | ") for line in BLOCK.splitlines())}


@pytest.fixture
def extension(monkeypatch):
    """Import one of the extensions of the site."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))

    def load(name):
        sys.modules.pop(name, None)
        return __import__(name)

    return load


@pytest.fixture(scope="module")
def lines():
    """The extension that links equations, which reads the source once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "_ext"))
        return import_module("source_lines")


def test_blocks_of_a_page_share_names_and_folder(extension, tmp_path):
    session = extension("run").Session()
    assert session.python("x = 2\nfrom pathlib import Path\nPath('note').write_text('hello')", "page") == ""
    assert session.python("print(x + 1)", "page") == "3\n"
    assert session.bash("cat note", 0) == "hello"
    with pytest.raises(RuntimeError, match="exit code 3, expected 0"):
        session.bash("exit 3", 0)
    assert session.bash("exit 3", 3) == ""
    with pytest.raises(ZeroDivisionError):
        session.python("1 / 0", "page")
    session.keep(["note"], tmp_path / "page")
    assert (tmp_path / "page" / "note").read_text() == "hello"
    session.folder.cleanup()


def test_the_page_has_every_label_of_the_paper():
    """The labels of the paper's source, as the test of the source has them."""
    assert sorted(EQUATIONS) == sorted(LABELS)


@pytest.mark.parametrize("label", EQUATIONS)
def test_an_equation_is_linked_to_the_line_that_names_it(lines, label):
    """The first link leads into the class or function of the page, which Python finds by its name, not by a number."""
    place = EQUATIONS[label]
    row = lines.Equations.row(SimpleNamespace(docname="method"), label, place, "")
    (first, number), *others = re.findall(r'<a href="code/(\S+)\.html#L-(\d+)">', row)
    for module, line in [(first, number), *others]:
        assert f"({label})" in (ROOT / "src" / f"{module}.py").read_text().splitlines()[int(line) - 1]
    if place.endswith(".py"):
        assert first == f"kernmend/{place.removesuffix('.py')}"
    else:
        whole, start = inspect.getsourcelines(attrgetter(place)(import_module(first.replace("/", "."))))
        heading = (ROOT / "src" / f"{first}.py").read_text().splitlines()[int(number) - 1].startswith("# ---")
        assert heading or start <= int(number) < start + len(whole)


def test_an_equation_that_its_function_does_not_name_is_noticed(lines):
    assert lines.Equations.row(SimpleNamespace(docname="method"), "relax", "RBF", "") is None


def test_an_anchor_of_the_source_is_at_its_line(lines):
    wanted = "kernmend/model/objective"
    body = lines.shown(wanted)
    shown = re.split(r'<a id="L-(\d+)" name="L-\d+"></a>', body)[1:]
    for number, text in zip(shown[::2], shown[1::2], strict=True):
        code = unescape(re.sub(r"<[^>]+>", "", text)).rstrip("\n")
        assert code.lstrip().removeprefix(number).strip() == lines.modules()[wanted][int(number) - 1].strip()


def test_a_csv_is_shown_as_a_table(extension):
    page = extension("run").as_table('name,new\n"a <b>, c",-1.5\n')
    assert "<th>name</th><th>new</th>" in page
    assert "<td>a &lt;b&gt;, c</td><td align=right>-1.5</td>" in page
    reason = "35.92 where the other columns of this row say 12.41 ± 0.96"
    assert f"<td class=words>{reason}</td>" in extension("run").as_table(f"reason\n{reason}\n")  # broken, not cut


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a norm |x| here", r"a norm \|x\| here"),
        ("`|x|` stays", "`|x|` stays"),
        ("n_iter_ + 1", r"n_iter\_ + 1"),
        ("a_b", "a_b"),
    ],
)
def test_formulas_of_docstrings_are_shown_as_typed(extension, text, shown):
    assert extension("plain_formulas").escape(text) == shown


def test_a_formula_on_its_own_line_is_literal(extension):
    lines = [
        "Minimise",
        "",
        "    |a| + b",
        "",
        "over a_.",
        "",
        "Parameters",
        "----------",
        "a_ : float",
        "    A |norm|.",
    ]
    extension("plain_formulas").process(None, "class", "x", None, None, lines)
    assert lines == [
        *("Minimise", "", "::", "", "    |a| + b", "", r"over a\_.", "", "Parameters", "----------", "a_ : float"),
        r"    A \|norm\|.",
    ]


def test_links_that_lead_nowhere_and_requests_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a href="other.html#here">1</a><a href="other.html#there">2</a><a href="gone.html">3</a>'
        '<script src="https://cdn.example/x.js"></script><a href="https://github.com/a">4</a><a href="https://a.example">5</a>'
    )
    (tmp_path / "other.html").write_text('<p id="here"><pre><span></span>/a/plot.py:3: UserWarning: no</pre>')
    (tmp_path / "style.css").write_text("a { background: url(https://b.example/x.png) }")
    assert CHECK_SITE["problems"](tmp_path) == [
        "index.html fetches https://cdn.example/x.js",
        "index.html links to an unknown host: https://a.example",
        "index.html links to an unknown host: https://cdn.example/x.js",
        "index.html links to gone.html, which is not there",
        "index.html links to other.html#there, which has no such anchor",
        "other.html shows a UserWarning",
        "style.css fetches https://b.example/x.png",
    ]


def test_what_is_missing_in_a_release_or_should_not_be_there_is_found(tmp_path):
    with ZipFile(tmp_path / "kernmend-0-py3-none-any.whl", "w") as wheel:
        for name in (*CHECK_DIST["IN_WHEEL"][1:], "tests/x.py"):
            wheel.writestr(name, "")
    (tmp_path / "picture.png").write_text("")
    with tarfile.open(tmp_path / "kernmend-0.tar.gz", "w:gz") as sdist:
        sdist.add(tmp_path / "picture.png", "kernmend-0/picture.png")
        for name in CHECK_DIST["IN_SDIST"][1:]:
            sdist.add(tmp_path / "picture.png", f"kernmend-0/{name}")
    assert CHECK_DIST["problems"](tmp_path) == [
        "kernmend/__init__.py is not in the wheel",
        "pyproject.toml is not in the sdist",
        "tests/x.py is in the wheel",
        "picture.png is in the sdist",
    ]
