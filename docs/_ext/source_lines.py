"""The source, line by line, the directive `equations` and the role `src`, which lead to it.

Every module of the package becomes a page `code/kernmend/...`, each line of which can be linked to as `#L-12`. Lines
of a label of the paper are found by its name in parentheses, so that no number is written by hand. The role is given
the path of a module, such as detect/rows.py, and links to its page. A label without any line and a module that is not
there are warnings, which `make docs` turns into errors.
"""

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


class Equations(SphinxDirective):
    """A table of the labels in the content, one `label: what it is` a line, with links to the lines of each."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = []
        for text in self.content:
            label = text.partition(": ")[0].strip()
            meaning = text.partition(": ")[2].strip()
            found = lines_of(label)
            if not found:
                logger.warning("no line of the source names (%s)", label, location=self.get_location())
            links = ", ".join(self._link(module, number) for module, number in found)
            rows.append(f"<tr><td><code>({escape(label)})</code></td><td>{escape(meaning)}</td><td>{links}</td></tr>")
        head = "<thead><tr><th>label</th><th>what</th><th>lines</th></tr></thead>"
        body = f'<div class="pst-scrollable-table-container"><table class="table equations">{head}<tbody>'
        return [nodes.raw("", f"{body}{''.join(rows)}</tbody></table></div>", format="html")]

    def _link(self, module: str, number: int) -> str:
        up = "../" * self.env.docname.count("/")
        short = module.removeprefix("kernmend/")
        return f'<a href="{up}code/{module}.html#L-{number}">{short}:{number}</a>'


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


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Give Sphinx one page for each module."""
    formatter = HtmlFormatter(lineanchors="L", anchorlinenos=True, linenos="inline", cssclass="highlight source")
    for module, lines in modules().items():
        body = f"<h1>{module.replace('/', '.')}</h1>{highlight(chr(10).join(lines), PythonLexer(), formatter)}"
        yield f"code/{module}", {"title": module.replace("/", "."), "body": body, "parents": []}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, the role and the pages."""
    app.add_directive("equations", Equations)
    app.add_role("src", Source())
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
