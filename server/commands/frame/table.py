"""All commands of `ottla`: what the help of the whole says of them, and which module has them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

from .parser import Command


class CommandRow(NamedTuple):
    """A command, or several that belong together."""

    name: str
    help: str
    module: str
    """Below `server/commands`; of several commands in one module, `module:NAME` says which."""


class Commands(NamedTuple):
    """What a row's module has."""

    row: CommandRow
    command: Command | None
    """None where there are actions:"""
    actions: dict[str, Command]

    @property
    def all(self) -> list[Command]:
        """The one, or each of the actions."""
        return [self.command] if self.command is not None else list(self.actions.values())


ROWS: dict[str, CommandRow] = {
    row.name: row
    for row in (
        CommandRow("serve", "run a broker", "serve_command"),
        CommandRow("dev", "run a broker for development: loopback, temporary data, the admin listener", "dev_command"),
        CommandRow("status", "a running broker on one screen", "status"),
        CommandRow("topics", "topics: list, describe, create, delete, and how clean they are", "kafka.topics"),
        CommandRow("configs", "options of topics, brokers and groups: describe, alter, delete", "kafka.configs"),
        CommandRow("groups", "groups: list, describe with lag, delete, set offsets", "kafka.groups"),
        CommandRow("acls", "who may do what: list, add, remove, and which entry decides", "admin.acls"),
        CommandRow("quotas", "how much clients may use: list, set, remove, and who is throttled", "admin.quotas"),
        CommandRow("produce", "write records into a topic", "kafka.produce"),
        CommandRow("consume", "show the records of a topic", "kafka.consume"),
        CommandRow("explain", "why a topic is compacted or not, and what would make it so", "admin.explain"),
        CommandRow("compact", "clean partitions of a compacted topic now", "admin.compact:COMPACT"),
        CommandRow("roll", "end the active segments of a topic", "admin.compact:ROLL"),
        CommandRow("retention", "delete now what retention lets go", "admin.compact:RETENTION"),
        CommandRow("clock", "the broker's time: show, advance, set, freeze", "admin.clock"),
        CommandRow("faults", "what is to go wrong: list, add, wait, remove, clear", "admin.faults"),
        CommandRow("nodes", "the broker ids that are played: list, stop, start, move leaders", "admin.nodes"),
        CommandRow("seed", "make the topics, records, groups and hard cases that a file names", "admin.seed"),
        CommandRow("cases", "hard cases that many clients have stumbled over, as topics: list, load", "admin.cases"),
        CommandRow("snapshot", "copy all data of the broker into a new directory", "admin.lives:SNAPSHOT"),
        CommandRow("restore", "have all data as they were when a snapshot was made", "admin.lives:RESTORE"),
        CommandRow("restart", "stop the broker cleanly and start it again", "admin.lives:RESTART"),
        CommandRow("crash", "kill the broker and start it again", "admin.lives:CRASH"),
        CommandRow("reset", "lose all data and start as the first time", "admin.lives:RESET"),
        CommandRow("dump-log", "show what is in log, index, snapshot and checkpoint files", "dump_log"),
        CommandRow("describe-config", "what options there are, their defaults and bounds", "describe_config"),
        CommandRow("completion", "a script that completes these commands in bash, zsh or fish", "completion"),
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
