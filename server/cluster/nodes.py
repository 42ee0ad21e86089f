"""The nodes of the cluster that this process emulates: broker ids, listeners, advertised addresses.

All nodes use one store. Routing decides which node leads a partition or coordinates a group: a request to the wrong node is
refused as in a real cluster, and no data is copied between nodes. `broker.node_run` stops and starts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..network.listener import Listener


@dataclass(slots=True, eq=False)
class Node:
    """One broker id. `listeners` is in configured order; the first is the one that `ready` prints."""

    node_id: int
    listeners: list[Listener]
    rack: str | None = None
    is_alive: bool = True
    """Whether the node serves: False from the moment when it leads no partition any more, until it may lead again."""
    is_registered: bool = True
    """Whether the node is listed where stopped nodes are also listed; True again from each of its starts."""
    by_listener: dict[str, Listener] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_listener = {listener.name: listener for listener in self.listeners if listener.controller_id is None}

    @property
    def own_listeners(self) -> list[Listener]:
        """Listeners that start and stop with the node: not those of controllers that are not nodes."""
        return [listener for listener in self.listeners if listener.controller_id in (None, self.node_id)]

    def bind(self, backlog: int) -> None:
        """Listen on every address that has no listener yet. If one of these fails, none of them listens; the others continue.

        Raises:
            OSError: as `Listener.bind`.
        """
        resting = [listener for listener in self.listeners if not listener.is_listening]
        try:
            for listener in resting:
                listener.bind(backlog)
        except OSError:
            for listener in resting:
                listener.pause()
            raise

    def pause(self) -> None:
        """Stop listening until `bind` is called again, and keep the ports."""
        for listener in self.listeners:
            listener.pause()

    def pause_own_listeners(self) -> None:
        """Run `pause` for the node's own listeners only."""
        for listener in self.own_listeners:
            listener.pause()

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Return the host and port that a client of listener `listener_name` should use for this node.

        A node without a listener of that name answers with its first one.
        """
        listener = self.by_listener.get(listener_name) or self.listeners[0]
        return listener.advertised_host, listener.advertised_port


def close_all(nodes: Iterable[Node]) -> None:
    """Stop listening on every node."""
    for node in nodes:
        for listener in node.listeners:
            listener.close()
