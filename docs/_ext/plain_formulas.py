"""Docstrings are written for those who read the source: this lets Sphinx show their formulas as they are typed.

|x| is a norm and no substitution, n_iter_ an attribute and no reference, and an indented line above the first section
is a formula on a line of its own.
"""

import re
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"(`+[^`]*`+)")
PARAMETER = re.compile(r"^(\*{0,2}[A-Za-z_][\w, *]*)( : .*)?$")


def escape(text: str) -> str:
    """Return text with bars and trailing underscores escaped, except in code."""
    parts = CODE.split(text)
    parts[::2] = [re.sub(r"(?<=\w)_(?!\w)", r"\\_", part.replace("|", r"\|")) for part in parts[::2]]
    return "".join(parts)


def formulas(lines: list[str]) -> list[str]:
    """Return the lines with every indented block made a literal one."""
    out: list[str] = []
    inside = False
    for line in lines:
        begins = line.startswith("    ") and not inside and (not out or not out[-1].strip())
        if begins:
            out += ["::", ""]
        if line.strip():
            inside = begins or (inside and line.startswith("    "))
        out.append(line if inside else escape(line))
    return out


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Change the lines of a docstring in place, before numpydoc reads its sections."""
    sections = [number - 1 for number, line in enumerate(lines) if number and re.fullmatch(r"-{3,}", line.strip())]
    first = sections[0] if sections else len(lines)
    out = formulas(lines[:first])
    for number, line in enumerate(lines[first:], start=first):
        named = PARAMETER.match(line)
        if line.lstrip().startswith((">>>", "...")) or number in sections or number - 1 in sections:
            out.append(line)
        elif named:
            out.append(named[1] + escape(named[2] or ""))
        else:
            out.append(escape(line))
    lines[:] = out


def setup(app: Sphinx) -> dict[str, Any]:
    """Register it to run before numpydoc."""
    app.connect("autodoc-process-docstring", process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
