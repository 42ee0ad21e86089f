"""What a page is made of: sections, which are drawn anew, one by one, only when what they show has changed."""

from __future__ import annotations

from dataclasses import dataclass

EVENTS = "events"
"""The field of a page that is watched: what takes a look at files is drawn with the page alone (`Section.is_still`)."""
ROWS_MAX = 500
"""Of what may be more than anybody reads; how many there are is told."""


@dataclass(frozen=True, slots=True)
class Row:
    """One of many within a section: of a table, for the most part."""

    id: str
    """Unique on the page."""
    state: object
    """What the template of rows shows, as `row`. Equal states look equal: it is what decides whether anything is drawn."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page."""

    id: str
    """Unique on the page; a template of that name, `sections/<template>.html`, draws it."""
    template: str
    state: object
    """What the template shows, as `state`; see `Row.state`."""
    rows: tuple[Row, ...] = ()
    """Drawn by `rows/<template>.html`, each by itself; the section's template places them, as `rows`, and knows how many they are, as `shown`."""
    is_still: bool = False
    """Whether it is drawn with the page alone, and stays as it was then while the page is watched."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one view comes to at one moment."""

    title: str
    here: str
    """Which entry of the navigation this is: its path."""
    sections: tuple[Section, ...]
    trail: tuple[tuple[str, str], ...] = ()
    """Above this page: names and paths."""
