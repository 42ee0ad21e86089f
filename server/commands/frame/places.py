"""Every place in a command line where something can be completed, or looked up: made from the table and all parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from .command_line import top
from .parser import Parser, takes_value
from .table import ROWS, load

FILES = ("FILE", "DIR")
"""What arguments are called that are paths."""


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Where one stands after some names: `/topics/create`, the beginning is empty."""

    at: str
    help: str
    names: dict[str, str]
    """Commands or actions that may follow, with the help of each."""
    parser: Parser

    @property
    def options(self) -> list[argparse.Action]:
        """What has names, `--help` with it."""
        return [action for action in self.parser.arguments if action.option_strings]

    @property
    def operands(self) -> list[argparse.Action]:
        """What has none."""
        return [action for action in self.parser.arguments if not action.option_strings and not self.names]

    @property
    def words(self) -> list[str]:
        """All that may stand here, but for values: names, choices of what has no name, options."""
        choices = [str(choice) for action in self.operands for choice in action.choices or ()]
        return [*self.names, *choices, *(name for action in self.options for name in action.option_strings)]


def places() -> Iterator[CommandPlace]:
    """The beginning, each command, each action; in the order of the help."""
    first = top()
    yield CommandPlace("", "", first.names, first.parser())
    for row in ROWS.values():
        commands = load(row.name)
        if commands.command is not None:
            yield CommandPlace(f"/{row.name}", commands.command.help, {}, commands.command.parser())
            continue
        level = top(row.name)
        yield CommandPlace(f"/{row.name}", row.help, level.names, level.parser())
        for action in commands.actions.values():
            yield CommandPlace(f"/{row.name}/{action.name}", action.help, {}, action.parser(row.name))


def is_path(action: argparse.Action) -> bool:
    """Whether its values are files or directories."""
    return isinstance(action.metavar, str) and action.metavar in FILES


def valued(place: CommandPlace) -> Iterator[tuple[argparse.Action, list[str]]]:
    """Options that take a value, with the choices for it; none are any text."""
    for action in place.options:
        if takes_value(action):
            yield action, [str(choice) for choice in action.choices or ()]
