"""The figures of the README: what `kernmend demo` and the Python block print now. tests/test_demo.py compares them.

python -m benchmarks readme        # writes them into README.md (make readme)
"""

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from kernmend.cli import demo, demo_show

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```\n", re.DOTALL)


def run() -> None:
    with TemporaryDirectory() as folder:
        parts = [demo.mend_station(Path(folder))[0], *demo.mend_others()]
    README.write_text(filled(README.read_text(), parts))


def filled(text: str, parts: Sequence[demo.Part]) -> str:
    """Return the README with every figure that a program prints as it prints it now; `parts` are those of the demo."""
    block = BLOCK.search(text)
    assert block is not None
    printed = "".join(f"    {line}\n" for line in output(block[1]).splitlines())
    return between(between(text, "printed", printed), "demo", demo_table(parts))


def between(text: str, name: str, new: str) -> str:
    """Return the text with what stands between two comments of that name replaced."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert pattern.search(text), f"README.md has no part {name}"
    return pattern.sub(lambda match: f"{match[1]}\n{new}\n{match[2]}", text)


def output(code: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    return out.getvalue()


def demo_table(parts: Sequence[demo.Part]) -> str:
    """Return the table of `kernmend demo` as Markdown."""
    lines = [demo_show.HEADS, ("---",) * len(demo_show.HEADS), *map(demo_show.cells, parts)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
