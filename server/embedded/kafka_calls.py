"""Topics, records and groups of `ottla.Broker`, for tests without a client library."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .running import Running

if (
    TYPE_CHECKING
):  # a third of everything that `ottla.Broker` would load; callers with a client of their own do not need it
    from ..client.configs import Kind
    from ..client.kafka import ConfigValue, Kafka
    from ..client.reading import Isolation
    from ..client.table import Table
    from ..client.values import Content, Group, HeadersLike, NewRecord, Offsets, Record, Topic


class KafkaCalls(Running):
    """Calls that any Kafka client could make, over the broker's own port: faults, quotas and moved leaders apply to them.

    All methods raise KafkaError for an error response, with Kafka's name of the error; OSError without a response;
    RuntimeError if the broker is not running.
    """

    _kafka: Kafka | None = None
    _making = threading.Lock()

    def stop(self) -> None:
        run = self._run
        try:
            super().stop()
        finally:
            if run is None or not run.is_elsewhere:  # In a fork, a thread that does not exist there may hold its lock.
                self._close_client()

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        configs: Mapping[str, ConfigValue] | None = None,
        *,
        replicas: int | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic; it can be written to when this returns. None selects the broker's default.

        Args:
            replication_factor: Kafka's name for `replicas`.
        """
        self._client.create_topic(name, partitions, configs, replicas=replicas, replication_factor=replication_factor)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._client.delete_topic(name)

    def topics(self, *, internal: bool = False) -> list[Topic]:
        """Return all topics by name; internal topics only with `internal`."""
        return self._client.topics(internal=internal)

    def set_configs(self, kind: Kind, name: str, changes: Mapping[str, ConfigValue | None]) -> None:
        """Set options of a topic, a broker (its id as str) or a group; None resets an option to its default."""
        self._client.set_configs(kind, name, changes)

    def produce(
        self,
        topic: str,
        value: Content,
        *,
        key: Content = None,
        headers: HeadersLike = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Record:
        """Append one record, and return it as it is in the log.

        Args:
            value, key: A str is encoded as UTF-8; a value of None is a tombstone.
            timestamp_ms: Timestamp of the record (default: now, by the broker's clock).
            partition: Default: chosen by the key, as in every client; records without a key are distributed round robin.
        """
        return self._client.produce(
            topic, value, key=key, headers=headers, timestamp_ms=timestamp_ms, partition=partition
        )

    def produce_all(self, topic: str, records: Iterable[NewRecord | tuple[Content, Content]]) -> list[Record]:
        """Append records: (key, value) pairs, or `ottla.NewRecord`s. If one of them is invalid, none is sent."""
        return self._client.produce_all(topic, records)

    def records(
        self, topic: str, partition: int | None = None, isolation: Isolation = "read_uncommitted"
    ) -> list[Record]:
        """Return all records of the topic (or of one partition), by partition and offset."""
        return self._client.records(topic, partition, isolation)

    def table(self, topic: str) -> Table:
        """Return the topic as a table: a mapping from keys to newest values, as read_committed consumers see it.

        Each access first reads what was committed up to then: `table["k"]`, `len(table)`, loops. `table.wait_for(key, predicate)`
        waits for a value. Only keys and offsets are in memory.
        """
        from ..client.table import Table

        return Table(self._supervisor.bootstrap, topic, security=self.security)

    def offsets(self, topic: str, isolation: Isolation = "read_uncommitted") -> dict[int, Offsets]:
        """Return the start (inclusive) and end (exclusive) offset of each partition."""
        return self._client.offsets(topic, isolation)

    def groups(self) -> list[Group]:
        """Return all groups, with their committed offsets."""
        return self._client.groups()

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit {(topic, partition): next offset to read} for a group without members."""
        self._client.commit(group_id, offsets)

    def _close_client(self) -> None:
        with self._making:
            kafka, self._kafka = self._kafka, None
        if kafka is not None:
            kafka.close()

    @property
    def _client(self) -> Kafka:
        from ..client.kafka import Kafka

        bootstrap = (
            self._supervisor.bootstrap
        )  # raises in a forked process: both would read responses of one connection
        with self._making:
            if self._kafka is None or self._kafka.bootstrap != bootstrap:
                if self._kafka is not None:
                    self._kafka.close()
                self._kafka = Kafka(bootstrap, security=self.security, now_ms=self._supervisor.clock.now_ms)
            return self._kafka
