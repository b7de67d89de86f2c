"""The directive `run`: code of a page is run while the site is built, and what it prints stands below it.

    ```{run} python        or: {run} bash
    print(1 + 1)
    ```

All blocks of a page share one Python session and one empty folder, from top to bottom, as a reader would type them. A
block that fails, or a command whose exit code is not that of the option `exit`, is a warning, which `make docs` turns
into an error. So no figure on a page is typed by hand. With the option `csv`, what is printed is shown as a table. The
option `keep` names files that the block wrote and that readers can download: `_generated/PAGE/NAME`.
"""

import csv
import io
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from live_report import GENERATED
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


class Session:
    """What the blocks of one page share: an empty folder and the names that Python code defines."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="kernmend-docs-")
        self.names: dict[str, Any] = {"__name__": "docs"}

    def python(self, code: str, where: str) -> str:
        """Run code and return what it printed."""
        out = io.StringIO()
        with chdir(self.folder.name), redirect_stdout(out):
            exec(compile(code, where, "exec"), self.names)
        return out.getvalue()

    def bash(self, code: str, expected: int) -> str:
        """Run commands and return what they printed; RuntimeError if the exit code is not the expected one."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-eu", "-c", code],
            cwd=self.folder.name,
            env={**os.environ, "PATH": path, "COLUMNS": "96", "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != expected:
            raise RuntimeError(f"exit code {done.returncode}, expected {expected}\n{done.stdout}")
        return done.stdout

    def keep(self, names: list[str], home: Path) -> None:
        """Copy files of the folder to where the site takes them from."""
        for name in names:
            home.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(self.folder.name) / name, home / name)


SESSIONS: dict[str, Session] = {}
# Most characters of a cell of a table that stands on one line.
LONGEST_WORD = 40


def as_table(text: str) -> str:
    """Return a csv as an HTML table: the first line names the columns, numbers stand right, sentences are broken."""
    head, *rows = csv.reader(io.StringIO(text))

    def cell(value: str) -> str:
        number = value.strip("-").replace(".", "", 1).isdigit()
        kind = " align=right" if number else " class=words" if len(value) > LONGEST_WORD else ""
        return f"<td{kind}>{escape(value)}</td>"

    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(cell(value) for value in row)}</tr>" for row in rows)
    table = f'<table class="table csv"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="pst-scrollable-table-container csv-output">{table}</div>'


class Run(SphinxDirective):
    """Show code and what it printed when the site was built."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "exit": directives.nonnegative_int,
        "no-output": directives.flag,
        "hidden": directives.flag,
        "csv": directives.flag,
        "keep": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Return the code as a block, and its output as another."""
        language, code = self.arguments[0], "\n".join(self.content)
        if self.env.docname not in SESSIONS:
            SESSIONS[self.env.docname] = Session()
        session = SESSIONS[self.env.docname]
        try:
            if language == "python":
                printed = session.python(code, f"{self.env.docname}:{self.lineno}")
            else:
                printed = session.bash(code, self.options.get("exit", 0))
            session.keep(self.options.get("keep", "").split(), GENERATED / self.env.docname)
        except Exception as error:
            logger.warning(
                "a block of the page failed: %s: %s", type(error).__name__, error, location=self.get_location()
            )
            printed = ""
        shown = nodes.literal_block(code, code, language=language)
        self.set_source_info(shown)
        out: list[nodes.Node] = [] if "hidden" in self.options else [shown]
        if printed.strip() and "csv" in self.options:
            out.append(nodes.raw("", as_table(printed), format="html"))
        elif printed.strip() and "no-output" not in self.options:
            text = printed.rstrip()
            aligned = any("   " in line.strip() or line.startswith(("│", "┃")) for line in text.splitlines())
            classes = ["output", "aligned"] if aligned else ["output"]
            out.append(nodes.literal_block(text, text, language="none", classes=classes))
        return out


def forget(app: Sphinx, docname: str, source: list[str]) -> None:
    """Begin a page that is read again with an empty session."""
    SESSIONS.pop(docname, None)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("run", Run)
    app.connect("source-read", forget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
