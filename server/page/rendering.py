"""From a `Page` to HTML. Runs in a worker: Jinja2 is loaded here, at the first look of anybody."""

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
    """Who looks, and at what."""

    token: str
    """What the page's calls have to know."""
    version: str
    navigation: tuple[tuple[str, str], ...]
    """Paths and names of the pages that all others lead to."""


class Drawn(NamedTuple):
    """A page and its rows as they were drawn last, so that only what has changed is drawn again."""

    page: Page
    rows: dict[str, tuple[Row, str]]
    """By id."""

    def row(self, row: Row) -> str | None:
        """How it was drawn; None if it looked otherwise then, or was not there."""
        known = self.rows.get(row.id)
        return known[1] if known is not None and known[0] == row else None


def whole(page: Page, look: Viewer) -> str:
    """The HTML document."""
    drawn = Drawn(page, {})
    sections = [_section(section, drawn, drawn) for section in page.sections]
    template = _environment().get_template("page.html")
    return template.render(page=page, sections=sections, look=look)


def changes(page: Page, last: Drawn | None) -> tuple[list[str], Drawn]:
    """What has changed since `last`, or all of it: lines of JSON, `{"id": …, "html": …}` each, to be put in place of what has
    that id; or `{"reload": true}` where sections have come or gone.
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
    """Ids and HTML of the section, or of those of its rows that look otherwise than before."""
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


def plain(template: str, **fields: object) -> str:
    """A page without sections: the one that asks for the token, say."""
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
"""Of files that pages load: all from `static/`."""


def static(name: str) -> bytes | None:
    """A file that pages load; None if there is none of that name."""
    return _files().get(name)  # kept are those that there are: anybody may ask for any name


@cache
def _files() -> dict[str, bytes]:
    from .drawing import style

    # No name of ours has a slash, so none leads elsewhere.
    folder = resources.files(__package__).joinpath("static")
    # Drawings outside of pages have the last one, too.
    return {each.name: each.read_bytes() for each in folder.iterdir()} | {"picture.css": style()}
