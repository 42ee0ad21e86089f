"""Output of commands: lines, JSON, and tables that fit the terminal.

In a pipe, cells are printed whole; on a terminal, wide ones are cut with an ellipsis. Control characters, e.g. in a
record's key, are shown as escapes and never sent.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .errors import CommandError, ReaderGoneError

GAP = "  "
ELLIPSIS = "…"
BECOMES = " -> "
"""Separator between an old value and its new value."""
NARROWEST = 4
"""Minimum width of a column."""
LEAST_WITH_AN_END = 8
"""Minimum width of a cut text that keeps its end."""
SHORT = 10
"""Width up to which a text is not cut while others can be."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_NO_PLACE = ("Mn", "Me", "Cf")
_TWO_PLACES = ("W", "F")


@contextmanager
def writing_to_reader() -> Iterator[None]:
    """Write to standard output in the block; ReaderGoneError if the reader has closed the pipe."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error


def show(lines: str | Iterable[str], *, flush: bool = False, as_it_is: bool = False) -> None:
    """Print one line, or each of several; `flush` also flushes earlier output.

    ReaderGoneError if the reader has closed the pipe.

    Args:
        as_it_is: The text is ours, and its control characters are sent: colours, line ends.
    """
    with writing_to_reader():
        for line in (lines,) if isinstance(lines, str) else lines:
            line = line if as_it_is else visible(line)
            try:
                print(line)
            except UnicodeEncodeError:  # a terminal with fewer characters gets replacements
                encoding = sys.stdout.encoding
                print(line.replace(ELLIPSIS, "~").encode(encoding, "replace").decode(encoding))
        if flush:
            sys.stdout.flush()


def show_bytes(data: bytes) -> None:
    """Write bytes unchanged, after the lines printed before."""
    with writing_to_reader():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def show_json(value: Any, *, indent: int | None = 2) -> None:
    """Print one JSON document; with `indent` None on one line, flushed."""
    show(json.dumps(value, indent=indent), flush=indent is None, as_it_is=True)


def show_table(header: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()) -> None:
    """Print the table of `table`, as wide as the terminal; without a terminal, as wide as its content."""
    show(table(header, rows, notes, width=terminal_width()))


def terminal_width() -> int | None:
    """Return the width of the terminal that standard output is; None if it is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = (), *, width: int | None = None
) -> Iterator[str]:
    """Yield the lines of a table, with numbers aligned to the right.

    Args:
        rows: As many cells as the header has.
        notes: A sentence for each row, or for none. They are printed below the table, after the first cells of their rows;
            folded and never cut.
        width: Columns in a line; None for any number. Numbers, times and short words are cut last: a part of one would
            mislead.
    """
    texts = [[visible(_cell(value)) for value in row] for row in rows]
    is_number = [bool(texts) and all(_is_number(row[place]) for row in texts) for place in range(len(header))]
    widths = [max(map(places, column)) for column in zip(header, *texts, strict=True)]
    if width is not None:
        room = width - len(GAP) * (len(header) - 1)
        is_whole = [all(map(_is_whole, column)) for column in zip(*texts, strict=True)] or [False] * len(header)
        whole = sum(width for width, is_one in zip(widths, is_whole, strict=True) if is_one)
        cut = iter(
            narrowed([width for width, is_one in zip(widths, is_whole, strict=True) if not is_one], room - whole)
        )
        widths = narrowed(
            [width if is_one else next(cut) for width, is_one in zip(widths, is_whole, strict=True)], room
        )
    for row in [list(header), *texts]:
        cells = [
            fitted(text, width, right=right, keeps_end=True)
            for text, width, right in zip(row, widths, is_number, strict=True)
        ]
        yield GAP.join(cells).rstrip()
    about: dict[str, list[str]] = {}
    for row, note in zip(texts, notes, strict=False):
        if note:
            about.setdefault(note, []).append(fitted(row[0], widths[0], keeps_end=True).rstrip())
    for note, names in about.items():
        who = "all" if len(names) == len(texts) > 1 else ", ".join(names)
        yield from folded(f"{who}: {visible(note)}", width, "  ")


def _cell(value: object) -> str:
    """Format a cell: None is a dash, several values are separated by commas."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(_cell, value)) if isinstance(value, list | tuple) else str(value)


def bounds_text(at_least: int, at_most: int) -> str:
    """Format a number that is known exactly, or only within bounds."""
    return str(at_least) if at_least == at_most else f"{at_least}-{at_most}"


def waited_for(reason: str | None) -> str | None:
    """Return what the cleaner waits for with a partition; None if nothing is left to clean, or nothing blocks it."""
    return None if reason in (None, "all_clean", "not_compacted") else reason


def folded(text: str, width: int | None, indent: str = "    ") -> list[str]:
    """Fold `text` into lines of at most `width` columns, each after `indent`; into one line if `width` is None."""
    if width is None:
        return [indent + text]
    return textwrap.wrap(text, max(width, 20 + len(indent)), initial_indent=indent, subsequent_indent=indent)


def narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Reduce the widest columns until all fit, or each has its minimum width."""
    out = list(widths)
    while sum(out) > room and (widest := max(out, default=0)) > NARROWEST:
        of_this_width = [place for place, width in enumerate(out) if width == widest]
        next_widest = max((width for width in out if width < widest), default=0)
        too_much = -(-(sum(out) - room) // len(of_this_width))
        for place in of_this_width:
            out[place] = max(widest - too_much, next_widest, NARROWEST)
    return out


def fitted(text: str, width: int, *, right: bool = False, keeps_end: bool = False) -> str:
    """Return `text` in exactly `width` columns: cut with an ellipsis, or padded.

    Args:
        keeps_end: A third of the remaining text is its end: names and paths in one table often differ only there.
    """
    if places(text) > width:
        end = _beginning(text[::-1], (width - 1) // 3)[::-1] if keeps_end and width >= LEAST_WITH_AN_END else ""
        text = _beginning(text, width - 1 - places(end)) + ELLIPSIS + end
    filling = " " * (width - places(text))
    return filling + text if right else text + filling


def _beginning(text: str, width: int) -> str:
    """Return the longest beginning of `text` that fits into `width` columns."""
    for at, character in enumerate(text):
        if (width := width - places(character)) < 0:
            return text[:at]
    return text


def places(text: str) -> int:
    """Return how many columns a terminal needs for `text`: two for East Asian characters, none for combining accents."""
    if text.isascii():
        return len(text)
    return sum(map(_places, text))


def _places(character: str) -> int:
    if unicodedata.category(character) in _NO_PLACE:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _TWO_PLACES else 1


def visible(text: str) -> str:
    """Return `text` with control characters written as `\\x1b`, `\\n`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _is_whole(text: str) -> bool:
    """Return whether the text should not be cut, since a part would mislead, or save nothing."""
    return _is_number(text) or places(text) <= SHORT or _TIME.match(text) is not None


def _is_number(text: str) -> bool:
    """Return whether the text is a number, or an old and a new number."""
    return all(map(_is_one_number, text.split(BECOMES)))


def _is_one_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).lstrip("-").isdigit() or text in ("", "-", "?")


def write_report(path: str, text: str) -> None:
    """Write a file that the user has named; an empty text only tries whether it can be written.

    Raises:
        CommandError: It cannot.
    """
    from ....storage.disk.own_files import open_file

    try:
        with open(open_file(path, os.O_WRONLY, create=True, truncate=bool(text)), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error
