"""A Kafka client for those who want no client library: topics, records and groups in one line each.

    with Kafka("127.0.0.1:9092") as kafka:
        kafka.create_topic("orders", configs={"cleanup.policy": "compact"})
        kafka.produce("orders", "new", key="1")
        assert [record.value for record in kafka.records("orders")] == [b"new"]

It stands in for no client: no consumer group, no transactions, no batching over time. Whatever the broker refuses is a
`KafkaError` with Kafka's name for it; what is refused for a moment only, by an election or a move, is tried again.
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
        client_id: Under which name faults and logs of the broker know it.
        timeout_s: How long one answer may take, and how long a call that is refused for a moment is tried again.
        security: Of all connections.
        now_ms: When records are made that do not say so; the wall time unless given.

    Every method raises `KafkaError` for a refusal, `OSError` when no broker answers, ValueError or TypeError for what
    cannot be asked.
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
        """Close the connections; a call of another thread tries nothing again. A later call makes new connections."""
        self._nodes.is_closing = True
        with self._lock:
            self._nodes.close()

    def topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics by name; those of the broker itself only with `internal`."""
        with self._lock:
            return [topic for topic in self._nodes.retrying(self._nodes.topics) if internal or not topic.is_internal]

    def topic(self, name: str) -> Topic:
        """One topic and its partitions."""
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
        """Make a topic; it can be written to when this returns. None takes the broker's default.

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
        """All options of a topic, a broker (its id as text) or a group."""
        from . import configs

        with self._lock:
            return configs.configs(self._nodes, kind, name)

    def set_configs(self, kind: Kind, name: str, changes: Mapping[str, ConfigValue | None]) -> None:
        """Set options, or (None) take them back to their defaults."""
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
        """Append one record and return it as it is in the log now; see `NewRecord` for what is left out.

        A topic that there is not is made where the broker makes topics by itself.
        """
        new = NewRecord(value, key, headers, timestamp_ms, partition)
        return self.produce_all(topic, (new,))[0]

    def produce_all(self, topic: str, records: Iterable[NewRecord | tuple[Content, Content]]) -> list[Record]:
        """Append many: pairs of key and value, or `NewRecord`s. Returns them as they are in the log, in the order given.

        If one is not fit to be sent, none is; a batch that is refused leaves those before it written.
        """
        from . import producing

        with self._lock:
            return producing.produce(self._nodes, topic, records, self._turns, self._now_ms())

    def records(
        self, topic: str, partition: int | None = None, isolation: Isolation = "read_uncommitted"
    ) -> list[Record]:
        """All records that the topic (or one partition) holds now, by partition and offset.

        Gaps, control batches and, with `read_committed`, aborted data are passed over; open transactions then end it.
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
        """The records of one partition from `start` to `end` (exclusive; None: all it has now), fetch by fetch.

        For logs larger than memory, and for one thread alone.
        """
        from . import reading

        return reading.records(self._nodes, topic, partition, isolation, start=start, end=end)

    def offsets(self, topic: str, isolation: Isolation = "read_uncommitted") -> dict[int, Offsets]:
        """Where each partition begins and ends."""
        from . import reading

        with self._lock:
            found = self._nodes.retrying(lambda: self._nodes.topic(topic))
            return {each.index: reading.offsets(self._nodes, topic, each.index, isolation) for each in found.partitions}

    def groups(self) -> list[Group]:
        """All groups, with what they have committed."""
        from . import groups

        with self._lock:
            return groups.groups(self._nodes)

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit {(topic, partition): next offset} for a group without members."""
        from . import groups

        with self._lock:
            groups.commit(self._nodes, group_id, offsets)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and what it has committed."""
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
