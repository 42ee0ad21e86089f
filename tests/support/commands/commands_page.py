"""`docs/commands.md`, made from the parsers of all commands.

python tests/support/commands/commands_page.py      rewrites it
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from ottla.server.commands.completion import CommandPlace, places

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
INTRODUCTION = """\
# Commands

This page is generated from the help of the commands (`python tests/support/commands/commands_page.py`). `ottla --help`,
`ottla topics --help`, `ottla topics create --help` and `ottla help topics create` also show examples.

- Options can be given anywhere: `ottla --json topics list` is the same as `ottla topics list --json`. They cannot be abbreviated.
- `--json` prints the result as JSON. Tables are cut to the width of the terminal, but not in a pipe.
- Exit codes: 0 success, 1 rejected by the broker or invalid file, 2 usage error or no broker reachable, 130 Ctrl-C. An error is
  one line on standard error.
- `--bootstrap HOST:PORT[,…]` is the broker address for commands that use Kafka's protocol and work with any broker (default:
  `OTTLA_BOOTSTRAP`, else localhost:9092). `--command-config FILE` (default: `OTTLA_COMMAND_CONFIG`) has the client properties of
  Apache Kafka's tools, e.g. for a TLS listener.
- `--admin [HOST:]PORT` is the address of the admin listener for commands that work with Ottla only (default: `OTTLA_ADMIN`, else
  localhost:9099, the address of `ottla dev`). A listener with a token requires `--admin-token-file FILE` or `OTTLA_ADMIN_TOKEN`.
- `source <(ottla completion bash)` enables completion in bash; zsh and fish are supported as well.
"""

EVERYWHERE = {"--help", "--json"}
OF_THE_BROKER = {"--bootstrap": "Kafka's protocol", "--admin": "the admin listener"}


def page() -> str:
    """Return the whole text."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    for place in places():
        if place.at.count("/") == 1:
            yield f"## ottla {place.at[1:]}\n"
            if place.names:
                yield f"{_sentence(place.help)}\n"
                continue
        elif not place.at:
            continue
        else:
            yield f"### ottla {place.at[1:].replace('/', ' ')}\n"
        yield from _command(place)


def _command(place: CommandPlace) -> Iterator[str]:
    over = " and ".join(how for name, how in OF_THE_BROKER.items() if _has(place, name))
    is_asking = bool(over) and "serve" not in place.at and "dev" not in place.at.split("/")
    yield f"{_sentence(place.help)}{f' Over {over}.' if is_asking else ''}\n"
    hidden = EVERYWHERE | ({"--bootstrap", "--command-config", "--admin", "--admin-token-file"} if is_asking else set())
    rows = [*map(_operand, place.operands)]
    rows += [_option(each) for each in place.options if not hidden & {*each.option_strings}]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in rows)]) + "\n"


def _has(place: CommandPlace, name: str) -> bool:
    return any(name in action.option_strings for action in place.options)


def _operand(action: argparse.Action) -> tuple[str, str]:
    name = str(action.metavar)
    shown = {"*": f"[{name} …]", "+": f"{name} …", "?": f"[{name}]"}.get(str(action.nargs), name)
    return shown, _cell(action.help or "")


def _option(action: argparse.Action) -> tuple[str, str]:
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names, _cell(action.help or "")
    value = ("|".join(map(str, action.choices))) if action.choices else action.metavar or action.dest.upper()
    return _cell(f"{names} {value}"), _cell(action.help or "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    PAGE.write_text(page())
