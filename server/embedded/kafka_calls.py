"""Topics, records and groups of `ottla.Broker`, for tests that want no client library."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .running import Running

if TYPE_CHECKING:  # a third of all that `ottla.Broker` would load, for those who have a client of their own
    from ..client.configs import Kind
    from ..client.kafka import ConfigValue, Kafka
    from ..client.reading import Isolation
    from ..client.values import Content, Group, HeadersLike, NewRecord, Offsets, Record, Topic


class KafkaCalls(Running):
    """What any client could do, over the broker's own port: faults, quotas and moved leaders are met here, too.

    Raises of all methods: KafkaError for a refusal, with Kafka's name for it; OSError when no answer comes; RuntimeError while
    the broker does not run.
    """

    _kafka: Kafka | None = None
    _making = threading.Lock()

    def stop(self) -> None:
        run = self._run
        try:
            super().stop()
        finally:
            if run is None or not run.is_elsewhere:  # In a fork it may be locked by a thread that is not there.
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
        """Make a topic; it can be written to when this returns. None takes the broker's default.

        Args:
            replication_factor: Kafka's name of `replicas`.
        """
        self._client.create_topic(name, partitions, configs, replicas=replicas, replication_factor=replication_factor)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._client.delete_topic(name)

    def topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics by name; those of the broker itself only with `internal`."""
        return self._client.topics(internal=internal)

    def set_configs(self, kind: Kind, name: str, changes: Mapping[str, ConfigValue | None]) -> None:
        """Set options of a topic, a broker (its id as text) or a group, or (None) take them back to their defaults."""
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
        """Append one record, and return it as it is in the log now.

        Args:
            value, key: Text stands for its UTF-8 bytes; a value of None is a tombstone.
            timestamp_ms: When it was made; now, by the broker's clock, unless given.
            partition: Unless given the key decides, as with every client; without one they take turns.
        """
        return self._client.produce(
            topic, value, key=key, headers=headers, timestamp_ms=timestamp_ms, partition=partition
        )

    def produce_all(self, topic: str, records: Iterable[NewRecord | tuple[Content, Content]]) -> list[Record]:
        """Append many: pairs of key and value, or `ottla.NewRecord`s. If one is not fit to be sent, none is."""
        return self._client.produce_all(topic, records)

    def records(
        self, topic: str, partition: int | None = None, isolation: Isolation = "read_uncommitted"
    ) -> list[Record]:
        """All records that the topic (or one partition) holds now, by partition and offset."""
        return self._client.records(topic, partition, isolation)

    def offsets(self, topic: str, isolation: Isolation = "read_uncommitted") -> dict[int, Offsets]:
        """Where each partition begins (inclusive) and ends (exclusive)."""
        return self._client.offsets(topic, isolation)

    def groups(self) -> list[Group]:
        """All groups, with what they have committed."""
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

        bootstrap = self._lives.bootstrap  # not for a forked process: both would read answers of one connection
        with self._making:
            if self._kafka is None or self._kafka.bootstrap != bootstrap:
                if self._kafka is not None:
                    self._kafka.close()
                self._kafka = Kafka(bootstrap, security=self.security, now_ms=self._lives.clock.now_ms)
            return self._kafka
