"""The pictures of logs on pages: what `storage.pictures` draws, as filters of the templates. All of it is markup."""

from __future__ import annotations

from collections.abc import Callable

from ...storage.pictures import page, svg
from ...storage.pictures.legend import contents_sentence, parts_in, pass_sentence, sentences
from ...storage.pictures.log_picture import LogPicture
from ...storage.pictures.log_svg import contents_svg, log_svg
from ...storage.pictures.pass_svg import pass_svg
from ...storage.pictures.scale import Axis
from ...storage.pictures.text import state


def small(picture: LogPicture) -> str:
    """Bars alone, for a row of a table."""
    return log_svg(picture, is_small=True)


def by_bytes(picture: LogPicture) -> str:
    return log_svg(picture, Axis.BYTES)


DRAWINGS: dict[str, Callable[..., str]] = {
    "picture": log_svg,
    "picture_small": small,
    "picture_by_bytes": by_bytes,
    "picture_key": lambda picture: page.key(parts_in(picture)),
    "picture_key_of": page.key,
    "picture_of_pass": pass_svg,
    "picture_of_contents": contents_svg,
}
"""Filters whose result is markup."""

SENTENCES: dict[str, Callable[..., str]] = {
    "picture_short": state,
    "picture_told": lambda picture: " ".join(sentences(picture)),
    "pass_told": pass_sentence,
    "contents_told": contents_sentence,
}
"""Filters whose result is text."""

DEFINITIONS = svg.definitions()
"""What all drawings of a page refer to."""


def style() -> bytes:
    """`/static/picture.css`."""
    return page.style().encode()
