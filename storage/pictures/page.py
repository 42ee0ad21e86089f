"""HTML around the drawings: the legend, and self-contained documents and fragments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources

from . import svg
from .legend import key_of, parts_in, pass_sentence, sentences
from .log_picture import LogPicture, Part, PassPicture
from .log_svg import log_svg
from .pass_svg import pass_svg
from .scale import Axis

SHOWN_MAX = 50
"""Largest number of logs in a fragment; the rest are counted."""


@cache
def style() -> str:
    """Return the text of `picture.css`."""
    return resources.files(__package__).joinpath("picture.css").read_text(encoding="utf-8")


def key(parts: Iterable[Part]) -> str:
    """Return the legend of the bars as a list."""
    rows = [
        f"<li>{_swatch(part, letter)}<span><b>{name}</b>: {meaning}</span></li>"
        for part, letter, name, meaning in key_of(parts)
    ]
    return f'<ul class="key">{"".join(rows)}</ul>'


def _swatch(part: Part, letter: str) -> str:
    return svg.tag(
        "svg",
        svg.tag("rect", class_=f"bar {part.value}", x=0.5, y=0.5, width=25, height=17),
        svg.tag("circle", class_="letter-ground", cx=13, cy=9, r=7),
        svg.tag("text", letter, class_="letter", x=13, y=13, text_anchor="middle"),
        class_="ottla-drawing",
        width=26,
        height=18,
        aria_hidden="true",
    )


def fragment(title: str, pictures: Sequence[LogPicture]) -> str:
    """Return pictures of logs as HTML for any page, e.g. a notebook: with its own style, without a script."""
    shown = pictures[:SHOWN_MAX]
    parts = parts_in(*shown)
    return _standalone([_heading(title), key(parts), *map(_log, shown), *_more_lines(len(pictures) - len(shown))])


def plan_fragment(title: str, passes: Sequence[tuple[str, PassPicture]]) -> str:
    """Return pictures of passes or dry runs, each with the partition's name, as HTML for any page."""
    shown = passes[:SHOWN_MAX]
    return _standalone(
        [_heading(title), *(_pass(name, each) for name, each in shown), *_more_lines(len(passes) - len(shown))]
    )


def document(title: str, body: str) -> str:
    """Return a whole page around a fragment."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title></head>\n<body>{body}</body></html>\n'
    )


def _standalone(pieces: Iterable[str]) -> str:
    return f'<div class="ottla-picture alone"><style>{style()}</style>{svg.definitions()}{"".join(pieces)}</div>'


def _heading(title: str) -> str:
    return f"<p><b>{svg.words(title)}</b></p>"


def _log(picture: LogPicture) -> str:
    drawing = log_svg(picture, Axis.OFFSETS)
    told = svg.words(" ".join(sentences(picture)))
    why = svg.words(f"{picture.explanation[:1].upper()}{picture.explanation[1:]}.")
    return f'<section><p><b>{svg.words(picture.name)}</b></p>{drawing}<p class="quiet">{told} {why}</p></section>'


def _pass(name: str, picture: PassPicture) -> str:
    drawing = pass_svg(picture, name)
    return f'<section><p><b>{svg.words(name)}</b></p>{drawing}<p class="quiet">{svg.words(pass_sentence(picture))}</p></section>'


def _more_lines(count: int) -> Iterator[str]:
    if count > 0:
        yield f"<p>and {count} more</p>"
