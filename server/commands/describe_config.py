"""`ottla describe-config`: every option with type, default, bound and meaning, for reading and for the documentation."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...storage.topics.config import TOPIC_OPTIONS
from ...storage.topics.options import Option, UpdateMode, format_value
from ..config.broker_config import BROKER_OPTIONS, PROFILES

_TITLES = {"topic": "Topic options", "broker": "Broker options"}
_INERT_TITLE = "Broker options that Ottla knows and does not act on"


@dataclass(frozen=True, slots=True)
class Row:
    """One option as it is shown."""

    scope: str
    option: Option

    @property
    def default(self) -> str:
        text = format_value(self.option.default) or "none"
        in_dev = PROFILES["dev"].get(self.option.name) if self.scope == "broker" else None
        return text if in_dev is None else f"{text} (dev: {in_dev})"

    @property
    def bound(self) -> str:
        return self.option.check.bound if self.option.check else ""

    @property
    def update(self) -> str:
        """When the option may change."""
        return "fixed at start" if self.option.update is UpdateMode.READ_ONLY else "may change at any time"


class UnknownOptionError(Exception):
    """No option has this name. The text suggests some that look like it."""


def run(options: argparse.Namespace) -> int:
    """Print the options that the command line asks for; the exit code is 1 if there is none of that name."""
    try:
        text = render(options.name, scope=options.scope, markdown=options.format == "markdown")
    except UnknownOptionError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0


def render(name: str | None = None, *, scope: str | None = None, markdown: bool = False) -> str:
    """The options as text or as a Markdown table: one by name, or all, of one scope (`topic`, `broker`) or both.

    Raises:
        UnknownOptionError: No option of that scope has the name.
    """
    rows = [row for row in _rows() if scope in (None, row.scope) and (name is None or row.option.name == name)]
    if name is not None and not rows:
        raise UnknownOptionError(_no_such(name))
    blocks = []
    for of_scope, title in _TITLES.items():
        acting = [row for row in rows if row.scope == of_scope and (name or _is_described(row))]
        if acting:
            blocks.append(_table(title, acting) if markdown else _paragraphs("" if name else title, acting))
    inert = [row.option.name for row in rows if not name and not _is_described(row)]
    if inert:
        blocks.append(f"## {_INERT_TITLE}\n\n{', '.join(inert)}" if markdown else _names(inert))
    return "\n\n".join(blocks)


def _rows() -> Iterator[Row]:
    for scope, options in (("topic", TOPIC_OPTIONS), ("broker", BROKER_OPTIONS)):
        yield from (Row(scope, option) for option in options.values() if not option.hidden)


def _is_described(row: Row) -> bool:
    return row.option.acts or row.scope == "topic"


def _no_such(name: str) -> str:
    similar = difflib.get_close_matches(name, [*TOPIC_OPTIONS, *BROKER_OPTIONS], n=3)
    hint = f"; did you mean {' or '.join(dict.fromkeys(similar))}?" if similar else ""
    return f"there is no option {name}{hint}"


def _paragraphs(title: str, rows: Iterable[Row]) -> str:
    lines = [title, "=" * len(title), ""] if title else []
    for row in rows:
        option = row.option
        facts = [f"{row.scope} option", option.type.name.lower(), f"default {row.default}", row.bound, row.update]
        lines += [option.name, f"    {', '.join(filter(None, facts))}"]
        if option.synonyms:
            lines.append(f"    default from the broker's {', else '.join(synonym.name for synonym in option.synonyms)}")
        lines += [f"    {option.doc}", ""]
    return "\n".join(lines).rstrip()


def _names(names: Sequence[str]) -> str:
    return "\n".join([_INERT_TITLE, "=" * len(_INERT_TITLE), "", *(f"    {name}" for name in names)])


def _table(title: str, rows: Iterable[Row]) -> str:
    lines = [f"## {title}", "", "| option | type | default | bound | change | meaning |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [
            f"`{row.option.name}`",
            row.option.type.name.lower(),
            row.default,
            row.bound,
            row.update,
            row.option.doc,
        ]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)
