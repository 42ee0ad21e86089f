"""A broker's files without sockets: one start of the broker on files that the test chooses."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import trio

from ottla.protocol.records import batches
from ottla.server.broker.broker import Broker, nodes_of
from ottla.server.config.static_config import static_config
from ottla.server.faults.table import Faults
from ottla.server.runtime.clock import Clock
from ottla.storage.disk.files import Files
from ottla.storage.logs.log import Log
from support.logs.batches import batch

Values = dict[tuple[str, int], list[bytes]]
"""The values in each partition, in order."""


class StoredBroker:
    """A broker without sockets, open from construction to `stop`; a context manager. Raises what `Broker.open` raises."""

    def __init__(
        self,
        files: Files,
        data_dirs: Sequence[str] = ("/data",),
        *,
        seed: int = 0,
        options: Mapping[str, str] | None = None,
    ) -> None:
        flags = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": ",".join(data_dirs), "node.id": "0"}
        static = static_config(profile="dev", flags=flags, overrides=dict(options or {}))
        self.broker = Broker(
            static, nodes_of(static), clock=Clock(), files=files, rng=random.Random(seed), faults=Faults()
        )
        self.broker.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.broker.close()

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic as CreateTopics does; `_` in the names of configs stands for the point."""
        texts = {key.replace("_", "."): text for key, text in configs.items()}
        plan = self.broker.services.topic_admin.planner.plan(
            name, num_partitions=partitions, replication_factor=1, configs=texts
        )
        trio.run(self.broker.services.topic_admin.create, plan)

    def delete(self, name: str) -> None:
        """Delete a topic as DeleteTopics does."""
        topic = self.broker.services.topics.get(name)
        assert topic is not None
        trio.run(self.broker.services.topic_admin.delete, topic)

    def append(self, name: str, partition: int, value: bytes) -> None:
        """Append one record, as a producer does. Raises KafkaError if the record is refused."""
        records = bytearray(batch((b"k", value)))
        self.log(name, partition).append(memoryview(records), now_ms=self.broker.clock.now_ms())

    def log(self, name: str, partition: int) -> Log:
        return self.broker.services.topics.partition(name, partition).log

    def values(self) -> Values:
        """Return the values that consumers would read from each partition."""
        return {
            (topic.name, partition.index): values_of(partition.log)
            for topic in self.broker.services.topics
            for partition in topic.partitions
        }


def values_of(log: Log) -> list[bytes]:
    """Return the values of all records."""
    found = []
    for segment in log.segments:
        data = segment.log_file.read_at(0, segment.log_file.size())
        found += [bytes(record.value or b"") for each in batches(data) for record in each.records()]
    return found
