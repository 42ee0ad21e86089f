"""Reads `server.properties` files: the properties, and the comment lines that carry what has no property.

    # nodes=3                          number of nodes
    # controllers=3000@localhost:9093  controllers by id, of whom `# node.ID.…` lines may speak, and where they answer
    # controller.listener=CONTROLLER   the name of their listener
    # node.1.listeners=PLAINTEXT://:0  an option of one node
    # cluster.id=abc                   the cluster's id
    # metadata.version=4.0-IV3         finalized feature levels to start with, those of a new cluster of that version
    # feature.group.version=0          one of them

Called by the server's configuration. Text in, values out; reading the file is the caller's.
"""

import os
import re
from dataclasses import dataclass, field

from ...storage.topics.options import ConfigError
from ...storage.topics.properties import LINE_END, parse_properties

_HINT = re.compile(
    r"# (nodes|metadata\.version|controllers|controller\.listener|cluster\.id|feature\.[^=:\s]+|node\.[0-9]+\.[^=:\s]+)[ \t]*="
)


@dataclass(frozen=True, slots=True)
class Properties:
    """What a file says. A key that occurs twice has its last value, as in Java."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    node_values: dict[int, dict[str, str]] = field(default_factory=dict, repr=False)
    nodes: int | None = None
    controllers: dict[int, str] = field(default_factory=dict)
    """HOST:PORT of controllers by id; empty for one that is only spoken of."""
    controller_listener: str | None = None
    cluster_id: str | None = None
    features: dict[str, int] = field(default_factory=dict)
    metadata_version: str | None = None


def parse_server_properties(text: str) -> Properties:
    """The properties and comment lines of a file.

    Raises:
        ConfigError: A malformed escape, or a comment line of ours whose value is no number.
    """
    values = parse_properties(text)
    found: dict[str, str] = {}
    for line in LINE_END.split(text):
        if _HINT.match(line):
            found.update(parse_properties(line[2:]))
    node_values: dict[int, dict[str, str]] = {}
    features = {}
    for key, value in found.items():
        kind, _, rest = key.partition(".")
        if kind == "node":
            node, _, name = rest.partition(".")
            node_values.setdefault(_number(f"# {key}", node, 2**31 - 1), {})[name] = value
        elif kind == "feature":
            features[rest] = _number(f"# {key}", value, 2**15 - 1)
    nodes = _number("# nodes", found["nodes"], 1000) if "nodes" in found else None
    voters = filter(None, found.get("controllers", "").split(","))
    controllers = {
        _number("# controllers", voter.partition("@")[0].strip(), 2**31 - 1): voter.partition("@")[2].strip()
        for voter in voters
    }
    return Properties(
        values,
        node_values,
        nodes,
        controllers,
        found.get("controller.listener"),
        found.get("cluster.id"),
        features,
        found.get("metadata.version"),
    )


def _number(place: str, text: str, maximum: int) -> int:
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > maximum:
        raise ConfigError(f"Invalid value {text} for comment line {place}: must be a number from 0 to {maximum}")
    return int(text)


def refuse_comma(name: str, given: str) -> None:
    """Refuse a comma in the path of a data directory that is given outside of `log.dirs`, where commas separate them.

    Nobody who has a folder `my,data` means two, and as one it could not be told to `log.dirs`, which has no escape.

    Raises:
        ConfigError: `given` is a path, or leads through one, that is there and has a comma. `name` is where it was given.
    """
    path = given.strip()
    while "," in path:
        if os.path.lexists(path):
            raise ConfigError(
                f"Invalid value {given} for {name}: {path} is a single path, but log.dirs separates directories with"
                " commas; use a symbolic link without a comma in its name"
            )
        path = os.path.dirname(path)
