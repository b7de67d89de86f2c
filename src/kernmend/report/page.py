"""From facts to one self-contained HTML page: nothing is loaded from anywhere, and nothing in the data is code."""

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from kernmend.io import replacing

SCRIPTS = ("core.js", "scores.js", "map.js", "rows.js", "review.js", "main.js")
NOTHING_ELSE = "base-uri 'none'; form-action 'none'"


def need_templates() -> None:
    """Raise ImportError that says what is to be installed, if pages cannot be made."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise ImportError("reports need jinja2: pip install jinja2") from error


def render(facts: dict[str, Any], *, title: str | None = None) -> str:
    """Return the page. CSS and scripts are inlined, and the page's own policy allows these two and nothing else."""
    need_templates()
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    home = files("kernmend.report") / "assets"
    style = (home / "style.css").read_text(encoding="utf-8")
    script = "\n".join((home / name).read_text(encoding="utf-8") for name in SCRIPTS)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((home / "page.html").read_text(encoding="utf-8"))
    return template.render(
        facts=facts,
        short=_short,
        title=title or f"{facts['method']} report",
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; {NOTHING_ELSE}",
        style=Markup(style),
        script=Markup(script),
        data=embedded(compact(facts)),
    )


def write_page(facts: dict[str, Any], path: Path, *, title: str | None = None, force: bool = False) -> Path:
    """Write the page, whole or not at all, and return its path.

    FileExistsError if it is there and not `force`, FileNotFoundError if its folder is not.
    """
    if path.exists() and not force:
        raise FileExistsError(f"{path} is there already: say force=True to overwrite it, or give another name")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    page = render(facts, title=title)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def compact(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts as the page keeps them: pictures as bytes, and no difference, which it can take itself."""
    rows = facts["rows"]
    low, high = rows["range"] or (0.0, 1.0)

    def packed(values: list[float | None]) -> str:
        known = np.array([low if value is None else value for value in values])
        levels = np.clip(np.rint(255 * (known - low) / (high - low)), 0, 255)
        return base64.b64encode(levels.astype(np.uint8).tobytes()).decode("ascii")

    shown = []
    for row in rows["shown"]:
        kept = {name: value for name, value in row.items() if name != "difference"}
        if rows["view"] == "pictures":
            kept |= {"before": packed(row["before"]), "after": packed(row["after"])}
        shown.append(kept)
    return facts | {"rows": rows | {"shown": shown}}


def embedded(data: Any) -> Any:
    """Return JSON that cannot end the script element it stands in, whatever the data contain."""
    from markupsafe import Markup

    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _short(value: float | None) -> str:
    """Return a number as the table of columns shows it."""
    if value is None:
        return ""
    return f"{value:,.6g}" if 1e-4 <= abs(value) < 1e7 or value == 0 else f"{value:.3g}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
