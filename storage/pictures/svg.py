"""SVG as text: elements, whose attributes and texts are always escaped.

Drawings have no `viewBox`: places are percentages of the available width, heights and letters are pixels. So bars fill wide and
narrow screens, and letters have the same size on both. Colours and patterns are classes of `picture.css`; the patterns
themselves are in `definitions`, which a page has once.
"""

from __future__ import annotations

from html import escape
from unicodedata import category

CHARACTER = 6.3
"""Width in pixels of a character of the drawings' text; most are narrower."""
_UNSEEN = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
NARROW = 320.0
"""Width in pixels of the narrowest readable picture: that of a phone, less its margins."""


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an element. `_` in an attribute's name becomes `-`, at its end nothing (`class_`). None leaves one out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def words(text: str) -> str:
    """Escape a text within an element."""
    return escape(_escape_characters(text), quote=False)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return _escape_characters(str(value))


def _escape_characters(text: str) -> str:
    """Replace characters that XML forbids, or that control the direction of text, by their escapes."""
    if text.isascii() and text.isprintable():  # nearly all are
        return text
    return "".join(repr(each)[1:-1] if category(each) in _UNSEEN else each for each in text)


def part(place: float) -> str:
    """Format a place between 0 and 1 as a percentage."""
    return f"{_text(100.0 * place)}%"


def drawing(height: float, title: str, description: str, *children: str, kind: str) -> str:
    """Return a whole drawing.

    Args:
        height: Height in pixels.
        title, description: Text for users who cannot see it; the title is also its tooltip.
        kind: Class of the drawing, in addition to the common one.
    """
    return tag(
        "svg",
        tag("title", words(title)),
        tag("desc", words(description)),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        class_=f"ottla-drawing {kind}",
        role="img",
        width="100%",
        height=height,
        aria_label=f"{title}. {description}",
    )


def bar(left: float, right: float, top: float, height: float, class_: str, title: str | None = None) -> str:
    """Return a rectangle from one place to another."""
    return tag(
        "rect",
        *([tag("title", words(title))] if title is not None else []),
        class_=class_,
        x=part(left),
        y=top,
        width=part(right - left),
        height=height,
    )


def text(place: float, y: float, said: str, *, class_: str = "label", anchor: str = "start", dx: float = 0) -> str:
    """Return a line of text with its base line at `y`."""
    return tag(
        "text",
        words(said),
        class_=class_,
        x=part(place),
        y=y,
        dx=dx or None,
        text_anchor=None if anchor == "start" else anchor,
    )


def line(place: float, top: float, bottom: float, class_: str) -> str:
    """Return a vertical line."""
    return tag("line", class_=class_, x1=part(place), x2=part(place), y1=top, y2=bottom)


def definitions() -> str:
    """Return the patterns of all drawings; a page has them once, before the first drawing."""
    patterns = (
        tag(
            "pattern",
            tag("rect", class_="dirty-ground", width=8, height=8),
            tag("path", class_="dirty-line", d="M-2 2 2-2M0 8 8 0M6 10l4-4"),
            id="ottla-dirty",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        ),
        tag(
            "pattern",
            tag("rect", class_="held-ground", width=8, height=8),
            tag("circle", class_="held-dot", cx=2, cy=2, r=1.3),
            tag("circle", class_="held-dot", cx=6, cy=6, r=1.3),
            id="ottla-held",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        ),
        tag(
            "pattern",
            tag("rect", class_="gone-ground", width=6, height=6),
            tag("path", class_="gone-line", d="M0 0 6 6M-1 5 1 7M5-1 7 1"),
            id="ottla-gone",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        ),
        tag(
            "pattern",
            tag("rect", class_="active-ground", width=8, height=8),
            tag("path", class_="active-line", d="M2 0v8M6 0v8"),
            id="ottla-active",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        ),
    )
    return tag(
        "svg",
        tag("defs", *patterns),
        xmlns="http://www.w3.org/2000/svg",
        class_="ottla-drawing definitions",
        aria_hidden="true",
        width=0,
        height=0,
    )
