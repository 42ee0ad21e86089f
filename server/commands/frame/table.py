"""Table of all commands of `ottla`: their help texts, and their modules."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

from .parser import Command


class CommandRow(NamedTuple):
    """A command, or several related ones."""

    name: str
    help: str
    module: str
    """Name below `server/commands`; `module:NAME` selects one of several commands in a module."""


class Commands(NamedTuple):
    """Commands of a row's module."""

    row: CommandRow
    command: Command | None
    """None if the row has actions."""
    actions: dict[str, Command]

    @property
    def all(self) -> list[Command]:
        """The command, or all actions."""
        return [self.command] if self.command is not None else list(self.actions.values())


ROWS: dict[str, CommandRow] = {
    row.name: row
    for row in (
        CommandRow("serve", "run a broker", "serve_command"),
        CommandRow(
            "dev",
            "run a broker for development: on loopback, with temporary data and the admin listener",
            "dev_command",
        ),
        CommandRow("status", "show a running broker on one screen", "status"),
        CommandRow("topics", "list, describe, create and delete topics, and show their cleaner status", "kafka.topics"),
        CommandRow("configs", "describe, alter and delete options of topics, brokers and groups", "kafka.configs"),
        CommandRow("groups", "list, describe (with lag) and delete groups, and reset their offsets", "kafka.groups"),
        CommandRow("acls", "list, add and remove ACLs, and show which one decides", "admin.acls"),
        CommandRow("quotas", "list, set and remove client quotas, and show throttled clients", "admin.quotas"),
        CommandRow("empty", "delete all records of a topic", "kafka.empty"),
        CommandRow("erase", "erase keys from a compacted topic, and prove it", "erase"),
        CommandRow("produce", "write records to a topic", "kafka.produce"),
        CommandRow("consume", "show the records of a topic", "kafka.consume"),
        CommandRow("schemas", "list, show, register and check schemas in a schema registry", "schemas"),
        CommandRow("explain", "show why a topic is or is not compacted, and how to get it compacted", "admin.explain"),
        CommandRow("advise", "show what compaction costs a topic, and the settings that reach a goal", "advise"),
        CommandRow("compact", "run the cleaner on a compacted topic now", "admin.compact:COMPACT"),
        CommandRow("roll", "roll the active segments of a topic", "admin.compact:ROLL"),
        CommandRow("retention", "apply retention now", "admin.compact:RETENTION"),
        CommandRow("clock", "show, advance, set and freeze the broker's clock", "admin.clock"),
        CommandRow("faults", "list, add and remove injected faults, and wait until they are hit", "admin.faults"),
        CommandRow("wait", "wait until consumers read, have consumed, or have joined", "admin.wait"),
        CommandRow("nodes", "list, stop and start nodes, and move leaders", "admin.nodes"),
        CommandRow("seed", "create the topics, records, groups and hard cases that a file lists", "admin.seed"),
        CommandRow("cases", "list and load hard cases: topics that have exposed bugs in many clients", "admin.cases"),
        CommandRow("snapshot", "copy all data of the broker to a new directory", "admin.supervisor:SNAPSHOT"),
        CommandRow("restore", "restore all data from a snapshot", "admin.supervisor:RESTORE"),
        CommandRow("restart", "stop the broker cleanly and start it again", "admin.supervisor:RESTART"),
        CommandRow("crash", "kill the broker and start it again", "admin.supervisor:CRASH"),
        CommandRow("reset", "delete all data and start as on first start", "admin.supervisor:RESET"),
        CommandRow("dump-log", "show the contents of log, index, snapshot and checkpoint files", "dump_log"),
        CommandRow("describe-config", "show options with their defaults and bounds", "describe_config"),
        CommandRow("completion", "print a completion script for bash, zsh or fish", "completion"),
    )
}


@cache
def load(name: str) -> Commands:
    """Load the commands of one row, by its name."""
    where, _, attribute = ROWS[name].module.partition(":")
    module = import_module(f"...{where}", __name__)
    actions: tuple[Command, ...] = getattr(module, "ACTIONS", ())
    command = None if actions else getattr(module, attribute or "COMMAND")
    return Commands(ROWS[name], command, {each.name: each for each in actions})
