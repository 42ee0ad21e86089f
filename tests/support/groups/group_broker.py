"""The parts of a broker that group coordination needs, over logs in memory: no sockets, so time may be virtual."""

from __future__ import annotations

from types import SimpleNamespace

import trio

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.partitions.topics import Partition, Topic, Topics
from ottla.server.runtime.clock import Clock
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import AppendInfo, Log
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.topics.catalog_file import PartitionEntry
from support.broker.steppable_wall import SteppableWall, virtual_ms
from support.disk.crash_files import CrashFiles
from support.groups.settings import CONFIG
from support.logs.make_log import make_log

OFFSETS_TOPIC = "__consumer_offsets"
CONSUMED_TOPIC_ID = b"\1" * 16
"""The id of topic "t", which groups consume."""


class GroupBroker:
    """A substitute for `coordination.deps.CoordinatorDeps`. Its one node leads every partition; its clock follows Trio's.

    Attributes:
        wall: May be stepped.
        creation_failure: The error that creating an internal topic raises, if set.
        append_failure: The error that appending raises, if set: a KafkaError of this code, or an unexpected exception.
    """

    def __init__(self, files: CrashFiles | None = None, *, partition_count: int = 2) -> None:
        self.files = files or CrashFiles()
        self.wall = SteppableWall()
        self.node = SimpleNamespace(node_id=0, rack=None)
        self.clock = Clock(self.wall, virtual_ms)
        self.config = SimpleNamespace(current=CONFIG, watchers=[], groups={})
        self.appends = SimpleNamespace(append_own=self._append)
        self.nodes = [self.node]
        self.topics = Topics()
        self.logs = SimpleNamespace(logs=dict[TopicPartition, Log](), data_dir_of=lambda _: "/data")
        self.topics.add(Topic("t", CONSUMED_TOPIC_ID))
        self.partition_count = partition_count
        self.creation_failure: ErrorCode | None = None
        self.append_failure: ErrorCode | Exception | None = None

    async def ensure_topic(self, name: str) -> Topic:
        if self.creation_failure is not None:
            raise KafkaError(self.creation_failure, "told to fail")
        await trio.lowlevel.checkpoint()
        return self.topics.get(name) or self.create_topic(name)

    def create_topic(self, name: str = OFFSETS_TOPIC) -> Topic:
        """Create the topic, or find it again in `files`."""
        topic = Topic(name, b"\5" * 16)
        for index in range(self.partition_count):
            log = self.logs.logs[TopicPartition(name, index)] = make_log(self.files, tp=TopicPartition(name, index))
            topic.partitions.append(Partition(topic, index, PartitionEntry(replicas=(0,), leader=0), log))
        self.topics.add(topic)
        return topic

    def log(self, partition: int) -> Log:
        return self.topics.partition(OFFSETS_TOPIC, partition).log

    def _append(self, topic_partition: TopicPartition, records: bytearray) -> AppendInfo:
        if isinstance(self.append_failure, Exception):
            raise self.append_failure
        if self.append_failure is not None:
            raise KafkaError(self.append_failure, "told to fail")
        return self.topics.partition(*topic_partition).log.append(
            memoryview(records), now_ms=self.clock.now_ms(), origin=AppendOrigin.COORDINATOR
        )
