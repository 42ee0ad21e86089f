"""All commands of `ottla`: what the help of the whole says of them, and which module has them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

from .command import Command


class Row(NamedTuple):
    """A command, or several that belong together."""

    name: str
    help: str
    module: str
    """Below `server/commands`; of several commands in one module, `module:NAME` says which."""


class Commands(NamedTuple):
    """What a row's module has."""

    row: Row
    command: Command | None
    """None where there are actions:"""
    actions: dict[str, Command]

    @property
    def all(self) -> list[Command]:
        """The one, or each of the actions."""
        return [self.command] if self.command is not None else list(self.actions.values())


ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        Row("serve", "run a broker", "serve_command"),
        Row("dev", "run a broker for development: loopback, temporary data, the admin listener", "dev_command"),
        Row("topics", "topics: list, describe, create, delete, and how clean they are", "kafka.topics"),
        Row("configs", "options of topics, brokers and groups: describe, alter, delete", "kafka.configs"),
        Row("groups", "groups: list, describe with lag, delete, set offsets", "kafka.groups"),
        Row("nodes", "the broker ids that are played: list, stop, start", "admin.nodes"),
        Row("produce", "write records into a topic", "kafka.produce"),
        Row("consume", "show the records of a topic", "kafka.consume"),
        Row("seed", "make the topics, records, groups and hard cases that a file names", "admin.seed"),
        Row("cases", "hard cases that many clients have stumbled over, as topics: list, load", "admin.cases"),
        Row("dump-log", "show what is in log, index, snapshot and checkpoint files", "dump_log"),
        Row("describe-config", "what options there are, their defaults and bounds", "describe_config"),
        Row("completion", "a script that completes these commands in bash, zsh or fish", "completion"),
    )
}


@cache
def load(name: str) -> Commands:
    """The commands of one row, by its name."""
    where, _, attribute = ROWS[name].module.partition(":")
    module = import_module(f"...{where}", __name__)
    actions: tuple[Command, ...] = getattr(module, "ACTIONS", ())
    command = None if actions else getattr(module, attribute or "COMMAND")
    return Commands(ROWS[name], command, {each.name: each for each in actions})
