"""Command declarations, and a parser of their options that reports errors in one line; correct usage is in the help."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from .errors import WRONG_CALL, did_you_mean


class Parser(argparse.ArgumentParser):
    """Parser of one command.

    Options cannot be abbreviated: an option that is added later would make an abbreviation ambiguous.
    """

    def __init__(self, prog: str, description: str, notes: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=notes,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    @property
    def arguments(self) -> list[argparse.Action]:
        """Options and positional arguments, in order."""
        return self._actions

    @property
    def options(self) -> dict[str, argparse.Action]:
        """Options by each of their names, including `-h` and `--help`."""
        return {name: action for action in self._actions for name in action.option_strings}

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_CALL, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = list(map(str, action.choices))
            hint = did_you_mean(str(value), names) or f"; choose from: {', '.join(names)}"
            raise argparse.ArgumentError(action, f"invalid choice {str(value)!r}{hint}")


def takes_value(action: argparse.Action) -> bool:
    """Return whether an option's value follows it."""
    return action.nargs != 0


def read(parser: Parser, words: Iterable[str]) -> argparse.Namespace:
    """Parse the options of one command, which may be before, between and after positional arguments.

    Each is passed to argparse as one word with its value, so that the value may begin with a dash; positional arguments
    are last.

    Raises:
        SystemExit: An error was reported; or help was shown.
    """
    options, rest = split(parser.options, words, parser)
    found, left = parser.parse_known_args([*options, "--", *rest] if rest else options)
    if surplus := [word for word in left if word != "--"]:
        parser.error(f"unexpected argument {surplus[0]!r}")
    return found


def split(known: dict[str, argparse.Action], words: Iterable[str], parser: Parser) -> tuple[list[str], list[str]]:
    """Separate options, one word each, from other words. An unknown option ends the program with an error by `parser`."""
    options: list[str] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return options, rest + left
        if not looks_like_option(word):
            rest.append(word)
            continue
        options.append(take_option(known, word, left, parser))
    return options, rest


_OTHER_ADDRESS = {"--admin": "--bootstrap", "--bootstrap": "--admin"}
"""The two addresses of a broker, of which a command has one."""


def take_option(known: dict[str, argparse.Action], word: str, left: list[str], parser: Parser) -> str:
    """Return the option `word` as one word with its value, which is removed from `left` if it is the next word."""
    name, equals, _ = word.partition("=")
    if not word.startswith("--"):
        name, equals = word[:2], word[2:]
    action = known.get(name)
    if action is None:
        other = _OTHER_ADDRESS.get(name)
        hint = f"; use {other} for this command" if other in known else did_you_mean(name, list(known))
        parser.error(f"unknown option {name}{hint}")
    if equals or not takes_value(action) or not left or left[0] in known:
        return word
    return f"{name}={left.pop(0)}"


def looks_like_option(word: str) -> bool:
    """Return whether a word is an option: a single dash is a file name, and a dash before a digit belongs to a number."""
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def no_options(_parser: Parser) -> None:
    """Add no options."""


class Command(NamedTuple):
    """One command or action of `ottla`.

    A module of a command has either `COMMAND` (`ottla status`) or `ACTIONS` (`ottla topics list`, `ottla topics create`
    …). It is loaded for every help text and every completion, so modules that only the work needs are imported in
    `run`.
    """

    name: str
    help: str
    """One line, without a full stop."""
    run: Callable[[argparse.Namespace], int | None]
    """Runs the command; returns the exit code, None for 0. Raises `errors.CommandError`."""
    add_options: Callable[[Parser], None] = no_options
    notes: str = ""
    """Text of the help below the options, with its own layout."""

    def parser(self, group: str = "") -> Parser:
        """Make the parser of the options; `group` is the command that this is an action of."""
        made = Parser(" ".join(filter(None, ("ottla", group, self.name))), _sentence(self.help), self.notes)
        self.add_options(made)
        return made


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
