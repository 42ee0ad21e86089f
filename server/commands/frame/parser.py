"""What a command is, and a parser of its options, which says what is wrong in one line; what would be right stands in the help."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from .errors import WRONG_CALL, did_you_mean


class Parser(argparse.ArgumentParser):
    """See the module. Options are never abbreviated: one that is new tomorrow would make today's call ambiguous."""

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
        """By each of their names, `-h` and `--help`."""
        return {name: action for action in self._actions for name in action.option_strings}

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_CALL, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = list(map(str, action.choices))
            hint = did_you_mean(str(value), names) or f"; choose from: {', '.join(names)}"
            raise argparse.ArgumentError(action, f"invalid choice {str(value)!r}{hint}")


def takes_value(action: argparse.Action) -> bool:
    """Whether an option's value follows it."""
    return action.nargs != 0


def read(parser: Parser, words: Iterable[str]) -> argparse.Namespace:
    """The options of one command, which may stand before, between and behind what has no name.

    Each comes to argparse as one word with its value, so that the value may begin with a dash; the rest comes last.

    Raises:
        SystemExit: Something is wrong, and has been said; or help was wanted.
    """
    options, rest = split(parser.options, words, parser)
    found, left = parser.parse_known_args([*options, "--", *rest] if rest else options)
    if surplus := [word for word in left if word != "--"]:
        parser.error(f"unexpected argument {surplus[0]!r}")
    return found


def split(known: dict[str, argparse.Action], words: Iterable[str], parser: Parser) -> tuple[list[str], list[str]]:
    """Options, a word each, and what is none. Ends with a line by way of `parser` where one is not known."""
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
        options.append(taken(known, word, left, parser))
    return options, rest


def taken(known: dict[str, argparse.Action], word: str, left: list[str], parser: Parser) -> str:
    """The option `word` as one word with its value, which is taken off `left` if it is the next."""
    name, equals, _ = word.partition("=")
    if not word.startswith("--"):
        name, equals = word[:2], word[2:]
    action = known.get(name)
    if action is None:
        parser.error(f"unknown option {name}{did_you_mean(name, list(known))}")
    if equals or not takes_value(action) or not left or left[0] in known:
        return word
    return f"{name}={left.pop(0)}"


def looks_like_option(word: str) -> bool:
    """A dash alone is a file's name, and one before a digit belongs to a number."""
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def no_options(_parser: Parser) -> None:
    """For a command that has none."""


class Command(NamedTuple):
    """One thing that `ottla` can be asked to do.

    A module of a command has either `COMMAND` (`ottla status`) or `ACTIONS` (`ottla topics list`, `ottla topics create` …).
    It is loaded for every help text and every completion, so what it needs to do its work is imported in `run`.
    """

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
