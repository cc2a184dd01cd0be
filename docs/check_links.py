"""Links inside the built site: `python docs/check_links.py docs/build`.

Every page, picture and anchor that a page names must be there, and nothing that a page shows may
come from the network; links that a reader follows may lead outside.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors of a page, and what it names: links to follow, and files that it loads."""

    def __init__(self, path: Path) -> None:
        """Read a page."""
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for every tag."""
        named = dict(attrs)
        self.anchors |= {named[key] or "" for key in ("id", "name") if key in named}
        self.loaded += [named["src"] or ""] if "src" in named else []
        if "href" in named:
            (self.links if tag == "a" else self.loaded).append(named["href"] or "")


def broken(site: Path) -> list[str]:
    """A line for each link of the site that leads nowhere, or loads from the network."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            outside = parts.scheme not in {"", "data"} or parts.netloc
            if outside or parts.scheme:
                found += [f"{path}: loads {link}"] if outside and link in page.loaded else []
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {""}
            if not target.is_file() or unquote(parts.fragment) not in anchors:
                found.append(f"{path}: {link}")
    return sorted(set(found))


if __name__ == "__main__":
    lines = broken(Path(sys.argv[1]))
    sys.exit("\n".join(lines) if lines else 0)
