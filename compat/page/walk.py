"""Every page, found as a person finds it: by the links of earlier pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ottla.server.page.pages import VIEWS

if TYPE_CHECKING:
    from playwright.sync_api import Page

LINKS = "() => [...document.querySelectorAll('header a[href], main a[href]')].map((each) => each.href)"


def walk(page: Page, root: str, *, each_max: int) -> Iterator[str]:
    """Go to each page, wait until it receives changes, and yield its path; the caller may then use the page.

    Args:
        each_max: Pages of one kind: two topics look like two hundred.
    """
    seen, count, todo = {"/"}, dict.fromkeys(VIEWS, 0), deque(["/"])
    while todo:
        path = todo.popleft()
        open_page(page, root + path)
        for link in page.evaluate(LINKS):
            parts = urlsplit(link)
            found = parts.path + (f"?{parts.query}" if parts.query else "")
            kind = kind_of(parts.path)
            if kind is None or found in seen or count[kind] >= each_max:
                continue
            seen.add(found)
            count[kind] += 1
            todo.append(found)
        yield path


def open_page(page: Page, address: str) -> None:
    """Open a page, and wait until its script has received the changes since it was loaded."""
    page.goto(address, wait_until="load")
    page.wait_for_function("() => document.body.dataset.watched")


def kind_of(path: str) -> str | None:
    """Return the path's row in the table of views; None if it is no page."""
    segments = path.split("/")
    for template in VIEWS:
        wanted = template.split("/")
        if len(wanted) == len(segments) and all(
            name.startswith("{") or name == segment for name, segment in zip(wanted, segments, strict=True)
        ):
            return template
    return None
