"""From the words of a command line to a command and its options.

Options may be at any position: `ottla --json topics --bootstrap H:1 list` is `ottla topics list --json --bootstrap
H:1`. Only the named command is loaded. Options before a command load all commands, which are needed to know which word
is an option's value.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple, NoReturn

from .errors import did_you_mean
from .parser import Command, Parser, looks_like_option, read, take_option
from .table import ROWS, Commands, load

DESCRIPTION = "A Kafka-compatible broker in Python, with log compaction that you can trust."
EXAMPLES = """\
examples:
  ottla serve --profile dev --data ./data       a broker on localhost:9092 with short delays, for development
  ottla serve --config server.properties        a broker with the configuration of an Apache Kafka broker
  ottla topics create t --config cleanup.policy=compact
  ottla topics list
  ottla topics status t                         what the cleaner has done, and what it is waiting for
  ottla dump-log --print-data ./data/t-0/00000000000000000000.log
  ottla describe-config min.cleanable.dirty.ratio

exit codes: 0 success, 1 rejected by the broker or invalid file, 2 usage error or no broker reachable

Clients need no special library: point any Kafka client at the address.
"""


class CommandCall(NamedTuple):
    """A command to run, with its options."""

    command: Command
    options: argparse.Namespace


class Level(NamedTuple):
    """A position at which a word is a name: at the top, or after a command with actions."""

    group: str
    names: dict[str, str]
    """Names with their help texts."""
    below: tuple[str, ...]
    """The rows that an option at this position may belong to."""

    @property
    def what(self) -> str:
        return "action" if self.group else "command"

    def parser(self) -> Parser:
        """Return a parser that only shows help and reports errors."""
        row = ROWS.get(self.group)
        text = f"{row.help[0].upper()}{row.help[1:]}." if row else DESCRIPTION
        made = Parser(f"ottla {self.group}".rstrip(), text, "" if row else EXAMPLES)
        if not row:
            made.add_argument(
                "--version", action=_Version, nargs=0, help="show the version and the kind of cleaner kernel, and exit"
            )
        found = made.add_subparsers(
            title=f"{self.what}s", metavar=self.what.upper(), parser_class=argparse.ArgumentParser
        )
        for name, help_text in self.names.items():
            found.add_parser(name, help=help_text, add_help=False)
        return made

    def options(self) -> dict[str, argparse.Action]:
        """Return all options of the commands below, by name."""
        return _options(self.group)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> NoReturn:
        from .... import __version__
        from ....storage.kernel import COMPILED

        print(f"ottla {__version__} ({'compiled' if COMPILED else 'interpreted'} cleaner kernel)")
        parser.exit()


def parsers_of(commands: Commands) -> list[Parser]:
    """Return one parser for each command of a row."""
    return [each.parser("" if commands.command else commands.row.name) for each in commands.all]


def parse_command_line(words: Sequence[str]) -> CommandCall:
    """Parse a command line.

    Raises:
        SystemExit: A usage error was reported in one line; or the help, or the version, has been shown.
    """
    left = [*words[1:], "--help"] if list(words[:1]) == ["help"] else list(words)
    early: list[str] = []
    name = _name(top(), left, early)
    commands = load(name)
    if (command := commands.command) is None:
        command = commands.actions[_name(top(name), left, early)]
        parser = command.parser(name)
    else:
        parser = command.parser()
    return CommandCall(command, read(parser, [*early, *left]))


def top(group: str = "") -> Level:
    """Return the level of command names, or that of the actions of `group`."""
    if not group:
        return Level("", {row.name: row.help for row in ROWS.values()}, tuple(ROWS))
    return Level(group, {each.name: each.help for each in load(group).actions.values()}, (group,))


@cache
def _options(group: str) -> dict[str, argparse.Action]:
    """Return the options of a level.

    Cached, since each option before the name needs them, and creating all parsers takes tens of milliseconds.
    """
    level = top(group)
    parsers = [parser for name in level.below for parser in parsers_of(load(name))]
    return {name: action for parser in [*parsers, level.parser()] for name, action in parser.options.items()}


def _name(level: Level, left: list[str], early: list[str]) -> str:
    """Remove the name from `left`, and move the options before it to `early`."""
    while left:
        word = left.pop(0)
        if word == "--":
            continue
        if word == "--version" and not level.group:
            level.parser().parse_args([word])
        if looks_like_option(word):
            early.append(word if word in ("-h", "--help") else take_option(level.options(), word, left, level.parser()))
        elif word in level.names:
            return word
        else:
            hint = did_you_mean(word, list(level.names)) or _choices_text(level.names)
            level.parser().error(f"{level.what} {word!r} not found{hint}")
    parser = level.parser()
    if {"-h", "--help"} & set(early):
        parser.print_help()
        parser.exit()
    if level.group:
        parser.error(f"missing action{_choices_text(level.names)}")
    parser.print_help()
    parser.exit(2)


def _choices_text(names: Iterable[str]) -> str:
    return f"; choose from: {', '.join(names)}"
