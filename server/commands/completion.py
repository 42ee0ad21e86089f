"""`ottla completion`: a script that completes commands, options and choices, made from the parsers themselves.

Each script walks over the words that stand before the cursor and collects the names among them, as `/topics/create`; what it
offers then stands in a table. Values that have no choices are left to the shell, which knows files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .frame.command_line import top
from .frame.parser import Command, Parser, takes_value
from .frame.printing import show
from .frame.table import ROWS, load

NOTES = """\
  bash   source <(ottla completion bash)                              in ~/.bashrc
  zsh    source <(ottla completion zsh)                               in ~/.zshrc, after compinit
  fish   ottla completion fish > ~/.config/fish/completions/ottla.fish
"""

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
    """Every place in a command line where something can be completed: the beginning, each command, each action; in the order of the
    help."""
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


def bash(found: list[CommandPlace]) -> Iterator[str]:
    """For bash 3.2 and later."""
    yield "# ottla completion bash"
    yield "_ottla() {"
    yield "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= word words="
    yield '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield f'        case "$at/$word" in {_steps(found)}) at=$at/$word ;; esac'
    yield "    done"
    yield '    case "$at $prev" in'
    for place in found:
        for action, choices in valued(place):
            pattern = "|".join(f'"{place.at} {name}"' for name in action.option_strings)
            yield (
                f"        {pattern}) words={_quoted(' '.join(choices))} ;;"
                if choices
                else f"        {pattern}) return ;;"
            )
    yield "    esac"
    yield '    [ -n "$words" ] || case "$at" in'
    for place in found:
        yield f"        {_quoted(place.at)}) words={_quoted(' '.join(place.words))} ;;"
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield "}"
    yield "complete -o bashdefault -o default -F _ottla ottla"


def zsh(found: list[CommandPlace]) -> Iterator[str]:
    """To be sourced, or a file `_ottla` in `fpath`."""
    yield "#compdef ottla"
    yield "_ottla() {"
    yield "    local at= word"
    yield "    local -a names flags"
    yield '    for word in "${(@)words[2,CURRENT-1]}"; do'
    yield f'        case "$at/$word" in {_steps(found)}) at=$at/$word ;; esac'
    yield "    done"
    yield '    case "$at ${words[CURRENT-1]}" in'
    for place in found:
        for action, choices in valued(place):
            pattern = "|".join(f'"{place.at} {name}"' for name in action.option_strings)
            offer = f"compadd -- {' '.join(choices)}" if choices else "_files" if is_path(action) else "_message value"
            yield f"        {pattern}) {offer}; return ;;"
    yield "    esac"
    yield '    case "$at" in'
    for place in found:
        yield f"        {_quoted(place.at)})"
        yield f"            names=({' '.join(_described(name, text) for name, text in _operands(place).items())})"
        options = {name: action.help or "" for action in place.options for name in action.option_strings}
        yield f"            flags=({' '.join(_described(name, text) for name, text in options.items())}) ;;"
    yield "    esac"
    yield "    (( $#names )) && _describe name names"
    yield "    _describe -o option flags"
    yield "    (( $#names )) || _files"
    yield "}"
    yield 'if [ "$funcstack[1]" = _ottla ]; then _ottla "$@"; else compdef _ottla ottla; fi'


def fish(found: list[CommandPlace]) -> Iterator[str]:
    """A file of its own among fish's completions."""
    yield "# ottla completion fish"
    yield "function __ottla_at"
    yield "    set -l at ''"
    yield "    for word in (commandline -opc)[2..-1]"
    yield f'        switch "$at/$word"; case {_steps(found, " ")}; set at "$at/$word"; end'
    yield "    end"
    yield '    test "$at" = "$argv[1]"'
    yield "end"
    for place in found:
        here = f"complete -c ottla -n '__ottla_at \"{place.at}\"'"
        operands = _operands(place)
        if operands or not any(map(is_path, place.operands)):
            yield f"{here} -f"
        for name, text in operands.items():
            yield f"{here} -a {name} -d {_quoted(text)}"
        choices_of = {action.dest: choices for action, choices in valued(place)}
        for action in place.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings
            )
            value = ""
            if action.dest in choices_of:
                choices = choices_of[action.dest]
                value = f" -x -a {_quoted(' '.join(choices))}" if choices else " -r -F" if is_path(action) else " -x"
            yield f"{here} {names}{value} -d {_quoted(action.help or '')}"


SHELLS: dict[str, Callable[[list[CommandPlace]], Iterator[str]]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _steps(found: list[CommandPlace], between: str = "|") -> str:
    return between.join(place.at for place in found if place.at)


def _operands(place: CommandPlace) -> dict[str, str]:
    """Words without a dash that may stand here."""
    return place.names | {str(choice): "" for action in place.operands for choice in action.choices or ()}


def _described(name: str, text: str) -> str:
    return _quoted(f"{name.replace(':', chr(92) + ':')}:{text}")


def _quoted(text: str) -> str:
    """For every shell."""
    return "'" + text.replace("'", "’") + "'"


def add_options(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SHELLS), help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> None:
    """Print the script of one shell."""
    show(SHELLS[options.shell](list(places())), as_it_is=True)


COMMAND = Command("completion", "print a completion script for bash, zsh or fish", run, add_options, NOTES)
