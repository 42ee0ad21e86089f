"""From a `Page` to HTML. Runs in a worker: Jinja2 is loaded here, with the first page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from .section import FILTERS, Page, Row, Section

if TYPE_CHECKING:
    from jinja2 import Environment


class Viewer(NamedTuple):
    """Facts about the client and the navigation that pages show."""

    token: str
    """Token of the page's calls."""
    version: str
    navigation: tuple[tuple[str, str], ...]
    """Paths and names of the pages in the navigation."""


class Drawn(NamedTuple):
    """A page and its rows as they were last drawn, so that only changes are drawn again."""

    page: Page
    rows: dict[str, tuple[Row, str]]
    """Rows and their HTML by ID."""

    def row(self, row: Row) -> str | None:
        """Return the row's HTML; None if its state was different, or it was not on the page."""
        known = self.rows.get(row.id)
        return known[1] if known is not None and known[0] == row else None


def render_document(page: Page, look: Viewer) -> str:
    """Return the HTML document."""
    drawn = Drawn(page, {})
    sections = [_section(section, drawn, drawn) for section in page.sections]
    template = _environment().get_template("page.html")
    return template.render(page=page, sections=sections, look=look)


def changes(page: Page, last: Drawn | None) -> tuple[list[str], Drawn]:
    """Return what has changed since `last`, or everything, as lines of JSON.

    `{"id": …, "html": …}` replaces the element with that ID; `{"reload": true}` means that sections were added or
    removed.
    """
    drawn = Drawn(page, {})
    if last is None:
        last = Drawn(Page(page.title, page.here, ()), {})
        before: dict[str, Section] = {}
    elif [each.id for each in page.sections] != [each.id for each in last.page.sections]:
        return [json.dumps({"reload": True})], drawn
    else:
        before = {each.id: each for each in last.page.sections}
    found = []
    for section in page.sections:
        if section.is_still:
            continue
        for id, html in _changed(section, before.get(section.id), last, drawn):
            found.append(json.dumps({"id": id, "html": html}))
    return found, drawn


def _changed(section: Section, before: Section | None, last: Drawn, drawn: Drawn) -> Iterator[tuple[str, str]]:
    """Yield IDs and HTML of the section, or of those of its rows that have changed."""
    if before is None or before.state != section.state or _ids(before) != _ids(section):
        yield section.id, _section(section, last, drawn)
        return
    for row in section.rows:
        html = last.row(row)
        if html is None:
            html = _row(section, row)
            yield row.id, html
        drawn.rows[row.id] = row, html


def _ids(section: Section) -> list[str]:
    return [row.id for row in section.rows]


def _section(section: Section, last: Drawn, drawn: Drawn) -> str:
    from markupsafe import Markup

    for row in section.rows:
        drawn.rows[row.id] = row, last.row(row) or _row(section, row)
    rows = Markup("\n".join(drawn.rows[row.id][1] for row in section.rows))
    template = _environment().get_template(f"sections/{section.template}.html")
    return template.render(id=section.id, state=section.state, rows=rows, shown=len(section.rows))


def _row(section: Section, row: Row) -> str:
    return _environment().get_template(f"rows/{section.template}.html").render(id=row.id, row=row.state)


def render_plain(template: str, **fields: object) -> str:
    """Return a page without sections, e.g. the one that asks for the token."""
    return _environment().get_template(template).render(**fields)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from . import drawing

    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= FILTERS | drawing.DRAWINGS | drawing.SENTENCES
    environment.globals["picture_definitions"] = drawing.DEFINITIONS
    return environment


KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
"""Content types of files that pages load: all from `static/`."""


def static(name: str) -> bytes | None:
    """Return a file that pages load; None for an unknown name."""
    return _files().get(name)  # only existing files are cached: clients may ask for any name


@cache
def _files() -> dict[str, bytes]:
    from .drawing import style

    # No name of ours has a slash, so no name leads outside the folder.
    folder = resources.files(__package__).joinpath("static")
    # Drawings outside of pages use picture.css also.
    return {each.name: each.read_bytes() for each in folder.iterdir()} | {"picture.css": style()}
