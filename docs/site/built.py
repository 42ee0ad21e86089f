"""What is wrong with a built site: links that lead nowhere in it, and whatever a page would load from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data"), ("link", "href")}
LOADS_IN_STYLES = re.compile(r"""(?:@import|url\()\s*['"]?((?:https?:)?//[^'")\s]+)""")
NOT_LOADED = {"canonical", "next", "prev", "index", "search", "author", "license"}


@dataclass
class Page(HTMLParser):
    """What a page names: its anchors, its links, what it loads."""

    text: str
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if (tag, name) == ("a", "href") and value:
                self.links.append(value)
            if (tag, name) in LOADS and value and dict(attrs).get("rel") not in NOT_LOADED:
                self.loads.append(value)


def faults(site: Path) -> Iterator[str]:
    """One line for each thing that is wrong."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(site)
        for load in page.loads:
            if urlsplit(load).netloc:
                yield f"{name} loads {load}"
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name} leads to {link}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name} leads to {link}, whose anchor is not there"
    for sheet in site.rglob("*.css"):
        for load in LOADS_IN_STYLES.findall(sheet.read_text()):
            yield f"{sheet.relative_to(site)} loads {load}"
