"""What a command is.

A module of a command has either `COMMAND` (`ottla status`) or `ACTIONS` (`ottla topics list`, `ottla topics create` …).
It is loaded for every help text and every completion, so what it needs to do its work is imported in `run`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

from .parser import Parser


def no_options(_parser: Parser) -> None:
    """For a command that has none."""


class Command(NamedTuple):
    """One thing that `ottla` can be asked to do."""

    name: str
    help: str
    """One line, without a full stop."""
    run: Callable[[argparse.Namespace], int | None]
    """Does it; returns the exit code, None for 0. Raises `errors.CommandError`."""
    add_options: Callable[[Parser], None] = no_options
    notes: str = ""
    """What the help says below the options, laid out as it is."""

    def parser(self, group: str = "") -> Parser:
        """Reads the options; `group` is the command that this is an action of."""
        made = Parser(" ".join(filter(None, ("ottla", group, self.name))), _sentence(self.help), self.notes)
        self.add_options(made)
        return made


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
