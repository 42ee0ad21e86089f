"""Numbers of successful and failed authentications, as Apache Kafka counts them."""

from __future__ import annotations

from collections.abc import Iterator

import trio

from ...runtime.meters import Meter, Timer


class Counts:
    """Authentications on one listener. A PLAINTEXT listener has none."""

    def __init__(self) -> None:
        self.succeeded = Meter()
        self.failed = Meter()
        self.succeeded_again = Meter()
        self.failed_again = Meter()
        self.without_again = 0
        """Successful clients that cannot log in again (KIP-368)."""
        self.expired = 0
        """Connections that were closed because their sessions had expired."""
        self.again = Timer()
        """Durations of re-authentications."""

    def succeed(self, *, knows_sessions: bool = False) -> None:
        self.succeeded.mark(1, trio.current_time())
        self.without_again += not knows_sessions

    def fail(self) -> None:
        self.failed.mark(1, trio.current_time())

    def succeed_again(self, seconds: float) -> None:
        self.succeeded_again.mark(1, trio.current_time())
        self.again.update(seconds)

    def fail_again(self) -> None:
        self.failed_again.mark(1, trio.current_time())


class Authentications:
    """Authentications on all listeners, since the broker began to serve."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str], Counts] = {}

    def counts_of(self, node_id: int, listener: str) -> Counts:
        """Return the counts of a node's listener of this name."""
        found = self._counts.get((node_id, listener))
        if found is None:
            found = self._counts[node_id, listener] = Counts()
        return found

    def __iter__(self) -> Iterator[tuple[int, str, Counts]]:
        return iter([(node_id, listener, counts) for (node_id, listener), counts in self._counts.items()])
