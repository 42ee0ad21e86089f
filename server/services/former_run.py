"""The former run of the broker: topics that old clients may still name.

A client that lives over a reset asks for the Metadata of its old topics as soon as it has connected again. With
`auto.create.topics.enable` that would create them, before the next test creates its own. So for a few seconds Metadata does not
create a missing topic of the former run for a client like one that was connected at its end. Other clients do not wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from ..network.dispatcher import RequestingClient

WITHHELD_S = 2.0
"""Time from the start of a run; clients connect again within milliseconds, and the next test creates its topics soon."""

Program: TypeAlias = tuple[str, tuple[str, str] | None]
"""A client's host and library: all that a connection has in common with the one before it."""


class FormerRun:
    """The topics of the former run, existing and deleted, and the clients that were connected when it ended."""

    __slots__ = ("_clients", "_topics", "_until_s")

    def __init__(self, topics: Iterable[str] = (), clients: Iterable[RequestingClient] = ()) -> None:
        self._topics = frozenset(topics)
        self._clients = frozenset(map(_program, clients))
        self._until_s = math.inf

    def begin(self, now_s: float) -> None:
        """Note when the present run began to serve, by Trio's clock."""
        self._until_s = now_s + WITHHELD_S

    def withholds(self, name: str, client: RequestingClient, now_s: float) -> bool:
        """Return whether Metadata must not create the missing topic `name` for this client, for now."""
        return now_s < self._until_s and name in self._topics and _program(client) in self._clients


def _program(client: RequestingClient) -> Program:
    return client.client_host, client.software
