"""`ottla describe-config`: every option with type, default, bound and meaning, for reading and for the documentation."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...storage.topics.config import TOPIC_OPTIONS
from ...storage.topics.options import Option, UpdateMode, format_value
from ..config.options.known_options import BROKER_OPTIONS
from ..config.static_config import PROFILES
from .frame.errors import CommandError, did_you_mean
from .frame.options import json_option
from .frame.parser import Command, Parser
from .frame.printing import show, show_json

_TITLES = {"topic": "Topic options", "broker": "Broker options"}
_INERT_TITLE = "Broker options that Ottla accepts but that have no effect"


@dataclass(frozen=True, slots=True)
class OptionRow:
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

    def as_json(self) -> dict[str, object]:
        option = self.option
        return {
            "scope": self.scope,
            "name": option.name,
            "type": option.type.name.lower(),
            "default": None if option.default is None else format_value(option.default),
            "bound": self.bound or None,
            "change": self.update,
            "meaning": option.doc,
            "acts": option.acts,
        }


def add_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="option to describe (default: all)")
    parser.add_argument("--scope", choices=("topic", "broker"), help="show only topic or only broker options")
    parser.add_argument("--format", choices=("text", "markdown"), default="text", help="output format (default: text)")
    json_option(parser, "print an array of objects as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the options that the command line asks for.

    Raises:
        CommandError: There is none of that name.
    """
    if options.json:
        show_json([row.as_json() for row in rows_of(options.name, options.scope)])
    else:
        show(render(options.name, scope=options.scope, markdown=options.format == "markdown"), as_it_is=True)
    return 0


def render(name: str | None = None, *, scope: str | None = None, markdown: bool = False) -> str:
    """The options as text or as a Markdown table: one by name, or all, of one scope (`topic`, `broker`) or both.

    Raises:
        CommandError: No option of that scope has the name.
    """
    rows = rows_of(name, scope)
    blocks = []
    for of_scope, title in _TITLES.items():
        acting = [row for row in rows if row.scope == of_scope and (name or _is_described(row))]
        if acting:
            blocks.append(_table(title, acting) if markdown else _paragraphs("" if name else title, acting))
    inert = [row.option.name for row in rows if not name and not _is_described(row)]
    if inert:
        blocks.append(f"## {_INERT_TITLE}\n\n{', '.join(inert)}" if markdown else _names(inert))
    return "\n\n".join(blocks)


def rows_of(name: str | None = None, scope: str | None = None) -> list[OptionRow]:
    """One option by name, or all. CommandError if there is none."""
    rows = [row for row in _rows() if scope in (None, row.scope) and (name is None or row.option.name == name)]
    if name is not None and not rows:
        raise CommandError(_no_such(name, scope))
    return rows


def _rows() -> Iterator[OptionRow]:
    for scope, options in (("topic", TOPIC_OPTIONS), ("broker", BROKER_OPTIONS)):
        yield from (OptionRow(scope, option) for option in options.values() if not option.hidden)


def _is_described(row: OptionRow) -> bool:
    return row.option.acts or row.scope == "topic"


def _no_such(name: str, scope: str | None) -> str:
    of_scope = [row.option.name for row in _rows() if scope in (None, row.scope)]
    kind = f"{scope} " if scope else ""
    return f"{kind}option {name} not found{did_you_mean(name, list(dict.fromkeys(of_scope)))}"


def _paragraphs(title: str, rows: Iterable[OptionRow]) -> str:
    lines = [title, "=" * len(title), ""] if title else []
    for row in rows:
        option = row.option
        facts = [f"{row.scope} option", option.type.name.lower(), f"default {row.default}", row.bound, row.update]
        lines += [option.name, f"    {', '.join(filter(None, facts))}"]
        if option.synonyms:
            lines.append(
                f"    default taken from the broker's {', else '.join(synonym.name for synonym in option.synonyms)}"
            )
        lines += [f"    {option.doc}", ""]
    return "\n".join(lines).rstrip()


def _names(names: Sequence[str]) -> str:
    return "\n".join([_INERT_TITLE, "=" * len(_INERT_TITLE), "", *(f"    {name}" for name in names)])


def _table(title: str, rows: Iterable[OptionRow]) -> str:
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


COMMAND = Command("describe-config", "show options with their defaults and bounds", run, add_options)
