"""Check a built site: links lead somewhere, nothing is fetched from another host, and no block printed a warning.

python docs/check_site.py docs/_build/html
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes that make a browser fetch something when a page is opened; `a href` does so only when it is clicked.
FETCHED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("source", "src"), ("video", "src")}
# Where clicking may lead outside of the site.
KNOWN_HOSTS = (
    "github.com",
    "www.sphinx-doc.org",
    "pydata-sphinx-theme.readthedocs.io",
    "sphinx-gallery.github.io",
    "keepachangelog.com",
)


class Page(HTMLParser):
    """The anchors of a page, what it links to, what it fetches, and the warnings that its blocks printed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.warnings = re.findall(r"(?:^|<span></span>)/\S+\.py:\d+: (\w*Warning)", text, re.MULTILINE)
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element says."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name, value in values.items():
            if (tag, name) in FETCHED and values.get("rel") not in ("canonical", "author", "next", "prev"):
                self.fetched.append(value)
            if (tag, name) == ("a", "href"):
                self.links.append(value)


def problems(site: Path) -> list[str]:
    """Return one line for each link that leads nowhere and each request to another host."""
    found = [
        path.resolve() for path in sorted(site.rglob("*.html")) if path.name != "webpack-macros.html"
    ]  # a template
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in found}
    out = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        out += [f"{name} fetches {address}" for address in page.fetched if re.match(r"(https?:)?//", address)]
        out += [f"{name} shows a {kind}" for kind in page.warnings]
        for address in page.links + page.fetched:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                if parts.netloc not in KNOWN_HOSTS:
                    out.append(f"{name} links to an unknown host: {address}")
            elif parts.scheme not in ("mailto", "data", "javascript"):
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                if not target.exists():
                    out.append(f"{name} links to {address}, which is not there")
                elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                    out.append(f"{name} links to {address}, which has no such anchor")
    for style in site.rglob("*.css"):
        found = re.findall(r"url\(['\"]?(https?://[^)]+)", style.read_text(encoding="utf-8"))
        out += [f"{style.relative_to(site)} fetches {address}" for address in found]
    return sorted(set(out))


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]))
    for line in found:
        print(line)
    sys.exit(f"{len(found)} problems" if found else 0)
