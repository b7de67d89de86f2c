"""The source, line by line, the directive `equations` and the role `src`, which lead to it.

Every module of the package becomes a page `code/kernmend/...`, each line of which can be linked to as `#L-12`. Lines
of a label of the paper are found by its name in parentheses, so that no number is written by hand. The page says in
which class or function the equation is computed, or why it is not, and that must be one of those which name it. The
role is given the path of a module, such as detect/rows.py, and links to its page. A label that its class or function
does not name and a module that is not there are warnings, which `make docs` turns into errors.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

SRC = Path(__file__).parents[2] / "src"
logger = logging.getLogger(__name__)


@cache
def modules() -> dict[str, list[str]]:
    """Return the lines of each module by its path below `src`, without the suffix."""
    paths = sorted((SRC / "kernmend").rglob("*.py"))
    return {str(path.relative_to(SRC).with_suffix("")): path.read_text().splitlines() for path in paths}


def lines_of(label: str) -> list[tuple[str, int]]:
    """Return the module and number of each line that names a label of the paper, such as (relax)."""
    pattern = re.compile(rf"\({re.escape(label)}\)")
    return [
        (module, number)
        for module, lines in modules().items()
        for number, line in enumerate(lines, start=1)
        if pattern.search(line)
    ]


@cache
def definitions(module: str) -> list[tuple[str, int, int]]:
    """Return name, first and last line of all classes and functions of a module, what is inside another after it."""
    out: list[tuple[str, int, int]] = []

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                out.append((prefix + child.name, first, child.end_lineno or first))
                walk(child, f"{prefix}{child.name}.")

    walk(ast.parse("\n".join(modules()[module])), "")
    return out


def place_of(module: str, number: int) -> str:
    """Return the class or function that has a line; a heading belongs to what follows, other lines to the module."""
    found = definitions(module)
    inside = [name for name, first, last in found if first <= number <= last]
    if inside:
        return inside[-1]
    after = [name for name, first, _ in found if first > number]
    heading = modules()[module][number - 1].startswith("# ---")
    return after[0] if heading and after else f"{module.removeprefix('kernmend/')}.py"


class Equations(SphinxDirective):
    """A table of the labels in the content, one `label | class or function | what it is` a line, with their lines."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = []
        for text in self.content:
            label, place, meaning = (part.strip() for part in text.split("|"))
            row = self.row(self.env, label, place, meaning)
            if row is None:
                logger.warning("%s does not name (%s)", place, label, location=self.get_location())
            rows.append(row or "")
        head = "<thead><tr><th>label</th><th>what</th><th>where</th></tr></thead>"
        body = f'<div class="pst-scrollable-table-container"><table class="table equations">{head}<tbody>'
        return [nodes.raw("", f"{body}{''.join(rows)}</tbody></table></div>", format="html")]

    @staticmethod
    def row(env: Any, label: str, place: str, meaning: str) -> str | None:
        """Return the row of a label, the line in its class or function first; None if that does not name it."""
        found = lines_of(label)
        computed = [line for line in found if place_of(*line) == place][:1]
        if not computed:
            return None
        up = "../" * env.docname.count("/")
        links = [
            f'<a href="{up}code/{module}.html#L-{number}">{module.removeprefix("kernmend/")}:{number}</a>'
            for module, number in [*computed, *(line for line in found if line not in computed)]
        ]
        also = f"; also {', '.join(links[1:])}" if links[1:] else ""
        where = links[0] if place.endswith(".py") else f"<code>{escape(place)}</code>, {links[0]}"
        return f"<tr><td><code>({escape(label)})</code></td><td>{escape(meaning)}</td><td>{where}{also}</td></tr>"


class Source(SphinxRole):
    """A link to the page of a module, named by its path below `src/kernmend`."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link."""
        module = f"kernmend/{self.text.removesuffix('.py')}"
        if module not in modules():
            logger.warning("there is no module %s", self.text, location=self.get_location())
        up = "../" * self.env.docname.count("/")
        link = nodes.reference("", "", nodes.literal("", self.text), refuri=f"{up}code/{module}.html", internal=True)
        return [link], []


def shown(module: str) -> str:
    """Return the source of a module as HTML, with an anchor at each line."""
    # Lines at the start stay, which the lexer would strip: then the numbers of all others would be wrong.
    formatter = HtmlFormatter(lineanchors="L", anchorlinenos=True, linenos="inline", cssclass="highlight source")
    text: str = highlight("\n".join(modules()[module]), PythonLexer(stripnl=False), formatter)
    return text


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Give Sphinx one page for each module."""
    for module in modules():
        body = f"<h1>{module.replace('/', '.')}</h1>{shown(module)}"
        yield f"code/{module}", {"title": module.replace("/", "."), "body": body, "parents": []}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, the role and the pages."""
    app.add_directive("equations", Equations)
    app.add_role("src", Source())
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
