"""`ottla.Broker`."""

from __future__ import annotations

from ...storage.disk.paths import TopicPartition
from ..cleaning.status import CleanerStatus
from .running import Running


class Broker(Running):
    """A broker in a thread of this process, for programs and tests.

    with ottla.Broker() as broker: ...                    # or `start` and `stop`, from any thread
    async with ottla.Broker() as broker: ...              # in asyncio and Trio

    All methods block until it is done what they ask for; in an event loop call them in a thread.
    """

    # Time

    def advance_clock(self, by_ms: int) -> None:
        """Let `by_ms` more have passed by the broker's clock: what becomes due by it is due at once.

        Raises:
            ValueError: A negative number: time that has passed cannot be taken back.
        """
        if by_ms < 0:
            raise ValueError(f"Invalid value {by_ms} for by_ms: must be at least 0, as time does not go back")
        self._call(self.inner.clock.advance, by_ms)

    # Nodes

    def stop_node(self, node_id: int) -> None:
        """Stop one node, as `ottla.server.broker.broker.Broker.stop_node`; the others serve on."""
        self.run(self.inner.stop_node, node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again, as `ottla.server.broker.broker.Broker.start_node`."""
        self.run(self.inner.start_node, node_id)

    # What it knows of itself

    def metrics(self) -> dict[str, int | float]:
        """The metrics of logs and cleaner, under Apache Kafka's JMX names; see `ottla.server.broker.metrics`."""
        return self._call(self.inner.metrics)

    def cleaner_status(self) -> dict[TopicPartition, CleanerStatus]:
        """What the cleaner has done to each partition, and what it waits for."""
        return self._call(self.inner.cleaner_status)
