"""A Kafka client without a client library: topics, records and groups in one line each.

    with Kafka("127.0.0.1:9092") as kafka:
        kafka.create_topic("orders", configs={"cleanup.policy": "compact"})
        kafka.produce("orders", "new", key="1")
        assert [record.value for record in kafka.records("orders")] == [b"new"]

It does not replace a client library: no consumer group, no transactions, no batching over time. A refusal by the broker is a
`KafkaError` with Kafka's name for it; a temporary refusal, during an election or a move, is retried.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .nodes import NodeConnections
from .security import PLAIN, Security
from .values import Config, Content, Group, HeadersLike, NewRecord, Offsets, Record, Topic

if TYPE_CHECKING:  # Loaded with the first call that needs it: the messages of an API take milliseconds.
    from .configs import Kind
    from .reading import Isolation

ConfigValue = str | int | float | bool


def wall_time_ms() -> int:
    return time.time_ns() // 1_000_000


class Kafka:
    """A client of one cluster, for any thread; one call at a time is served.

    Args:
        bootstrap: HOST:PORT[,HOST:PORT…].
        client_id: Name of the client in the broker's faults and logs.
        timeout_s: Limit for one response, and for all retries of a call that is refused temporarily.
        security: Used for all connections.
        now_ms: Returns the timestamp of records without one; the wall time by default.

    Every method raises `KafkaError` for a refusal, `OSError` when no broker answers, ValueError or TypeError for invalid
    arguments.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "ottla",
        timeout_s: float = 10,
        security: Security = PLAIN,
        now_ms: Callable[[], int] = wall_time_ms,
    ) -> None:
        self.bootstrap = bootstrap
        self._nodes = NodeConnections(bootstrap, client_id=client_id, timeout_s=timeout_s, security=security)
        self._now_ms = now_ms
        self._turns = count()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Kafka({self.bootstrap!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; a call of another thread is not retried any more. A later call makes new connections."""
        self._nodes.is_closing = True
        with self._lock:
            self._nodes.close()

    def topics(self, *, internal: bool = False) -> list[Topic]:
        """Return all topics by name; the broker's own ones only with `internal`."""
        with self._lock:
            return [topic for topic in self._nodes.retrying(self._nodes.topics) if internal or not topic.is_internal]

    def topic(self, name: str) -> Topic:
        """Return one topic and its partitions."""
        with self._lock:
            return self._nodes.retrying(lambda: self._nodes.topic(name))

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        configs: Mapping[str, ConfigValue] | None = None,
        *,
        replicas: int | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic; it can be written to when this returns. None takes the broker's default.

        Args:
            replication_factor: Kafka's name of `replicas`.
        """
        from . import topics

        with self._lock:
            topics.create_topic(self._nodes, name, partitions, configs, replicas, replication_factor)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        from . import topics

        with self._lock:
            topics.delete_topic(self._nodes, name)

    def configs(self, kind: Kind, name: str) -> list[Config]:
        """Return all options of a topic, a broker (its id as text) or a group."""
        from . import configs

        with self._lock:
            return configs.configs(self._nodes, kind, name)

    def set_configs(self, kind: Kind, name: str, changes: Mapping[str, ConfigValue | None]) -> None:
        """Set options, or (None) restore their defaults."""
        from . import configs

        with self._lock:
            configs.set_configs(self._nodes, kind, name, changes)

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
        """Append one record and return it as it is in the log now; see `NewRecord` for the defaults.

        A missing topic is created if the broker creates topics automatically.
        """
        new = NewRecord(value, key, headers, timestamp_ms, partition)
        return self.produce_all(topic, (new,))[0]

    def produce_all(self, topic: str, records: Iterable[NewRecord | tuple[Content, Content]]) -> list[Record]:
        """Append many records: pairs of key and value, or `NewRecord`s. Returns them as they are in the log, in the order
        given.

        If one is invalid, none is sent; if a batch is refused, those before it are written.
        """
        from . import producing

        with self._lock:
            return producing.produce(self._nodes, topic, records, self._turns, self._now_ms())

    def records(
        self, topic: str, partition: int | None = None, isolation: Isolation = "read_uncommitted"
    ) -> list[Record]:
        """Return all records that the topic (or one partition) has now, by partition and offset.

        Gaps, control batches and, with `read_committed`, aborted data are skipped; then a partition ends at its first open
        transaction.
        """
        with self._lock:
            return list(self._records(topic, partition, isolation))

    def scan(
        self,
        topic: str,
        partition: int,
        *,
        start: int | None = None,
        end: int | None = None,
        isolation: Isolation = "read_uncommitted",
    ) -> Iterator[Record]:
        """Yield the records of one partition from `start` to `end` (exclusive; None: all it has now), fetch by fetch.

        For logs larger than memory, and for one thread alone.
        """
        from . import reading

        return reading.records(self._nodes, topic, partition, isolation, start=start, end=end)

    def offsets(self, topic: str, isolation: Isolation = "read_uncommitted") -> dict[int, Offsets]:
        """Return the start and end of each partition."""
        from . import reading

        with self._lock:
            found = self._nodes.retrying(lambda: self._nodes.topic(topic))
            return {each.index: reading.offsets(self._nodes, topic, each.index, isolation) for each in found.partitions}

    def groups(self) -> list[Group]:
        """Return all groups, with their committed offsets."""
        from . import groups

        with self._lock:
            return groups.groups(self._nodes)

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit {(topic, partition): next offset} for a group without members."""
        from . import groups

        with self._lock:
            groups.commit(self._nodes, group_id, offsets)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its committed offsets."""
        from . import groups

        with self._lock:
            groups.delete_group(self._nodes, group_id)

    def _records(self, topic: str, partition: int | None, isolation: Isolation) -> Iterator[Record]:
        from . import reading

        if partition is None:
            indexes = [each.index for each in self._nodes.retrying(lambda: self._nodes.topic(topic)).partitions]
        else:
            indexes = [partition]
        return chain.from_iterable(reading.records(self._nodes, topic, index, isolation) for index in indexes)
