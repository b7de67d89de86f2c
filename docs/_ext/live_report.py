"""Reports that an example of the gallery writes are shown in its page, live.

A block that ends in `est.report("name.html")`, or writes any other html file beside it, gets the file as a frame below.
"""

import shutil
from pathlib import Path
from typing import Any

# Folder whose content Sphinx copies to `_static`.
GENERATED = Path(__file__).parents[1] / "_generated"
FRAME = """
.. raw:: html

    <p><a href="../_static/reports/{name}">Open this report on a page of its own</a></p>
    <iframe class="report" src="../_static/reports/{name}" title="Report" loading="lazy"></iframe>

"""


def live_report(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Return the frames of the reports that a block wrote: a scraper of sphinx-gallery."""
    home = GENERATED / "reports"
    home.mkdir(parents=True, exist_ok=True)
    example = Path(block_vars["src_file"])
    out = ""
    for page in sorted(example.parent.glob("*.html")):
        name = f"{example.stem}-{page.name}"
        shutil.move(page, home / name)
        out += FRAME.format(name=name)
    return out
