"""What commands print: lines, JSON, and tables that fit the terminal.

Whoever reads from a pipe gets cells whole; on a terminal what is too wide is cut with an ellipsis. Control characters, as a
record's key may hold them, are shown and never sent.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .errors import ReaderGoneError

GAP = "  "
ELLIPSIS = "…"
NARROWEST = 4
"""A column is not cut below this many places."""
_NO_PLACE = ("Mn", "Me", "Cf")
_TWO_PLACES = ("W", "F")


@contextmanager
def to_the_reader() -> Iterator[None]:
    """What is written to standard output inside: ReaderGoneError if nobody takes it."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error


def show(lines: str | Iterable[str], *, flush: bool = False, as_it_is: bool = False) -> None:
    """Print one line, or each of several; `flush` what was printed so far, too. ReaderGoneError if nobody takes them.

    Args:
        as_it_is: What steers a terminal is ours, and sent: colours, line ends.
    """
    with to_the_reader():
        for line in (lines,) if isinstance(lines, str) else lines:
            line = line if as_it_is else visible(line)
            try:
                print(line)
            except UnicodeEncodeError:  # a terminal that has few characters gets those that it has
                encoding = sys.stdout.encoding
                print(line.replace(ELLIPSIS, "~").encode(encoding, "replace").decode(encoding))
        if flush:
            sys.stdout.flush()


def show_bytes(data: bytes) -> None:
    """Write bytes as they are, behind the lines before them."""
    with to_the_reader():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def show_json(value: Any, *, indent: int | None = 2) -> None:
    """Print one JSON document; with `indent` None on one line, at once."""
    show(json.dumps(value, indent=indent, default=_as_json), flush=indent is None, as_it_is=True)


def _as_json(value: object) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    raise TypeError(f"expected something that JSON has, found {type(value).__name__}")


def show_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = (), *, width: int | None = None
) -> None:
    """Print a table, as `table` makes it, as wide as the terminal; as wide as it is where that is none."""
    show(table(header, rows, notes, width=width or terminal_width()))


def terminal_width() -> int | None:
    """Of the terminal that we print on; None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = (), *, width: int | None = None
) -> Iterator[str]:
    """The lines of a table, numbers to the right.

    Args:
        rows: As many cells as the header has.
        notes: A sentence for each row, or for none; a line of its own below the row, folded and never cut.
        width: Places in a line; None for any number.
    """
    texts = [[visible(_cell(value)) for value in row] for row in rows]
    is_number = [bool(texts) and all(_is_number(row[place]) for row in texts) for place in range(len(header))]
    widths = [max(map(places, column)) for column in zip(header, *texts, strict=True)]
    if width is not None:
        widths = narrowed(widths, width - len(GAP) * (len(header) - 1))
    for number, row in enumerate([list(header), *texts], start=-1):
        cells = [fitted(text, width, right=right) for text, width, right in zip(row, widths, is_number, strict=True)]
        yield GAP.join(cells).rstrip()
        if number >= 0 and number < len(notes) and notes[number]:
            yield from folded(visible(notes[number]), width)


def _cell(value: object) -> str:
    """What stands in a cell: nothing is a dash, several things have commas between them."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(_cell, value)) if isinstance(value, list | tuple) else str(value)


def folded(text: str, width: int | None, indent: str = "    ") -> list[str]:
    """`text` on lines of at most `width` places, each behind `indent`; on one if `width` is None."""
    if width is None:
        return [indent + text]
    return textwrap.wrap(text, max(width, 20 + len(indent)), initial_indent=indent, subsequent_indent=indent)


def narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Take places away from the widest columns until all have room, or each is as narrow as it may be."""
    out = list(widths)
    while sum(out) > room and (widest := max(out)) > NARROWEST:
        of_this_width = [place for place, width in enumerate(out) if width == widest]
        next_widest = max((width for width in out if width < widest), default=0)
        too_much = -(-(sum(out) - room) // len(of_this_width))
        for place in of_this_width:
            out[place] = max(widest - too_much, next_widest, NARROWEST)
    return out


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """`text` in exactly `width` places: cut with an ellipsis, or filled up."""
    if places(text) > width:
        kept, left = "", width - 1
        for character in text:
            if (left := left - places(character)) < 0:
                break
            kept += character
        text = kept + ELLIPSIS
    filling = " " * (width - places(text))
    return filling + text if right else text + filling


def places(text: str) -> int:
    """How many places a terminal gives `text`: two for East Asian characters, none for accents of their own."""
    if text.isascii():
        return len(text)
    return sum(map(_places, text))


def _places(character: str) -> int:
    if unicodedata.category(character) in _NO_PLACE:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _TWO_PLACES else 1


def visible(text: str) -> str:
    """`text` with what would steer a terminal written as `\\x1b`, `\\n`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).lstrip("-").isdigit() or text in ("", "-", "?")
