"""The broker of a `Chaos`: requests to it, and changes to it that do not depend on members."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import batches
from ottla.server.broker.broker import Broker
from ottla.server.config.group_configs import COPIES, DEAD_LETTERS
from ottla.server.config.resources import ConfigResourceType
from ottla.server.control.nodes import move_leader
from ottla.server.coordination.shard import ShardState
from ottla.server.partitions.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from ottla.server.sharing.share_records import SharePartitionKey
from support.broker.contexts import Staying
from support.broker.in_process_broker import NOW_MS, InProcessClient, pass_time
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.sharing.ledger import LOCK_MS, Ledger

NODES = 3
PARTITIONS = 2
TOPIC, GROUP, LETTERS = "t", "g", "dlq.t"
OPTIONS = {
    "group_share_assignment_interval_ms": "0",
    "errors_deadletterqueue_auto_create_topics_enable": "true",
    "group_share_heartbeat_interval_ms": "5000",
    "log_flush_interval_messages": "1",
    "log_segment_delete_delay_ms": "1000",
    "share_coordinator_snapshot_update_records_per_snapshot": "3",
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_state_topic_prune_interval_ms": "20000",
    "share_coordinator_state_topic_segment_bytes": "2000",
}


class ChaosBroker:
    """A topic on several nodes, and the ledger of its share group. Both outlive the broker."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ledger = Ledger(PARTITIONS)
        self.seen: set[str] = set()
        """Names of the events that happened."""
        self.broker: Broker
        self.files: CrashFiles
        self.is_full = self.is_lost = False
        self.elapsed_ms = 0

    # Requests

    async def ask(self, message: Any, version: int, node: int, client: Staying | None = None) -> Any:
        answer = await InProcessClient(self.broker, client, node=node).ask(message, version)
        self.time_passed()
        return answer

    def time_passed(self) -> None:
        elapsed_ms = self.broker.clock.elapsed_ms()
        self.ledger.time_passed(elapsed_ms - self.elapsed_ms)
        self.elapsed_ms = elapsed_ms

    def leader(self, topic: str = TOPIC, partition: int = 0) -> int:
        there = self.broker.services.topics.get(topic)
        return 0 if there is None else there.partitions[partition].leader

    @property
    def topic_id(self) -> bytes:
        there = self.broker.services.topics.get(TOPIC)
        assert there is not None
        return there.id

    # What happens

    async def begin(self) -> None:
        """Create the topic, and a group that begins with its first record."""
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=NODES)
        await self.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=1_000), 7, 0)
        options = {"share.auto.offset.reset": "earliest", DEAD_LETTERS: LETTERS, COPIES: "true"}
        changes = tuple(AlterableConfig(name=name, config_operation=0, value=value) for name, value in options.items())
        group = AlterConfigsResource(resource_type=ConfigResourceType.GROUP, resource_name=GROUP, configs=changes)
        answer = await self.ask(IncrementalAlterConfigsRequest(resources=(group,)), 1, 0)
        assert not answer.responses[0].error_code

    def letters(self) -> set[tuple[int, int]]:
        """Return partition and offset of all records that have dead letters."""
        topic = self.broker.services.topics.get(LETTERS)
        logs = [] if topic is None else [partition.log for partition in topic.partitions]
        data = b"".join(log.read(0, max_bytes=1 << 20, up_to=log.log_end_offset).read() for log in logs)
        found = set()
        for record in (record for each in batches(data) for record in each.records()):
            assert (record.key, record.value) in ((b"k", b"v"), (None, None))  # the second if the log start has moved
            headers = dict(record.headers)
            found.add((int(headers["__dlq.errors.partition"] or b""), int(headers["__dlq.errors.offset"] or b"")))
        return found

    async def produce(self) -> None:
        partition, count = self.rng.randrange(PARTITIONS), self.rng.randint(1, 5)
        rows = PartitionProduceData(
            index=partition, records=batch(*(("k", "v") for _ in range(count)), timestamp=NOW_MS)
        )
        data = TopicProduceData(name=TOPIC, partition_data=(rows,))
        self.ledger.produced(partition, count)  # before a parked fetch returns them
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=(data,))
        answer = await self.ask(request, 12, self.leader(TOPIC, partition))
        assert not answer.responses[0].partition_responses[0].error_code

    async def delete_records(self) -> None:
        partition = self.rng.randrange(PARTITIONS)
        log = self.broker.services.topics.partition(TOPIC, partition).log
        before = self.rng.randint(log.log_start_offset, log.log_end_offset)
        row = DeleteRecordsPartition(partition_index=partition, offset=before)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=(row,))
        request = DeleteRecordsRequest(topics=(topic,), timeout_ms=1_000)
        answer = await self.ask(request, 2, self.leader(TOPIC, partition))
        assert not answer.topics[0].partitions[0].error_code
        self.ledger.note_log_start(partition, before)

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Refuse writes of share partitions' states, as a full disk does."""

        def refuse(operation: str, path: str, _: int) -> None:
            if operation == "append" and SHARE_STATE_TOPIC in path and path.endswith(".log"):
                raise OSError(errno.ENOSPC, f"{path}: no space left")

        self.files.refuse, self.is_full = refuse, True
        try:
            yield
        finally:
            self.files.refuse, self.is_full = None, False

    def lose_states(self) -> None:
        """Fail every sync of share partitions' states, until the next start."""

        def refuse(operation: str, path: str, _: int) -> None:
            if operation == "sync" and SHARE_STATE_TOPIC in path and path.endswith(".log"):
                raise OSError(errno.EIO, f"{path}: cannot be synced")

        self.files.refuse, self.is_lost = refuse, True

    async def wait(self) -> None:
        await pass_time(self.broker, self.rng.choice([1_000, 5_000, 10_000, LOCK_MS, 61_000]))

    async def move_partition(self) -> None:
        partition = self.rng.randrange(PARTITIONS)
        was = self.leader(TOPIC, partition)
        await self.move(TOPIC, partition)
        if self.leader(TOPIC, partition) != was:
            self.ledger.taken_back(partition)

    async def move_states(self) -> None:
        await self.move(SHARE_STATE_TOPIC, 0)

    async def move_group(self) -> None:
        await self.move(OFFSETS_TOPIC, 0)

    async def move(self, topic: str, partition: int) -> None:
        if self.broker.services.topics.get(topic) is not None:
            self.seen.add(f"{topic} moved")
            await move_leader(self.broker, topic, partition, self.rng.randrange(NODES))

    def check(self) -> None:
        states = self.broker.services.coordinators.share_states
        for partition in range(PARTITIONS):
            if not states.coordinator.shards:
                return
            key = SharePartitionKey(GROUP, self.topic_id, partition)
            shard = states.coordinator.shards[states.coordinator.partition_for(key.text)]
            assert shard.state is ShardState.ACTIVE or self.is_lost
            state = shard.states.get(key)
            log = self.broker.services.topics.partition(TOPIC, partition).log
            if state is not None:
                self.ledger.check(partition, state, log.log_start_offset)
