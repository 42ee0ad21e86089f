"""What a start with `--workers` is told: a data directory for each node, and nothing that other processes would not know of."""

from __future__ import annotations

from collections.abc import Mapping

from ...storage.data_dirs.inspection import unique
from ...storage.topics.config import ConfigError
from .listeners import PLAINTEXT
from .static_config import StaticConfig


def check_flags(given: Mapping[str, object]) -> None:
    """Refuse what the flags of a start ask for that only one process can do. ConfigError likewise."""
    for name, value in given.items():
        if value:
            raise ConfigError(f"--workers cannot be had with {name}, which knows only what is in the first process")


def check_workers(static: StaticConfig) -> None:
    """Refuse what cannot be had with nodes in processes of their own.

    Raises:
        ConfigError: One line that says what, and why.
    """
    first = static.node(static.node_ids[0])
    if len(static.node_ids) == 1:
        raise ConfigError(
            "--workers is for several nodes: each but the first gets a process of its own; give --nodes as well"
        )
    if len(unique(first.data_dirs)) > 1:
        raise ConfigError("--workers cannot be had with several log.dirs: each process has one of its own")
    for node_id in static.node_ids:
        for listener in static.node(node_id).listener_configs:
            if listener.security_protocol != PLAINTEXT:
                raise ConfigError(
                    f"--workers cannot be had with the {listener.security_protocol} listener {listener.name}: users and keys that"
                    " change are known to the first process alone"
                )
    if first.authorization is not None:
        raise ConfigError(
            "--workers cannot be had with authorizer.class.name: ACLs that change are known to the first process alone"
        )


def data_dirs_of(static: StaticConfig) -> list[str]:
    """The data directories of all nodes: the first has that of the start, each other one beside it."""
    (first,) = unique(static.node(static.node_ids[0]).data_dirs)
    return [first, *(f"{first}-node-{node_id}" for node_id in static.node_ids[1:])]
