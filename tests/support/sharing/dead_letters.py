"""A group with a dead letter topic, on a broker in this process whose clock stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import trio
import trio.testing

from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.records import Record, batches
from ottla.server.broker.broker import Broker
from ottla.server.config.group_configs import COPIES, DEAD_LETTERS
from ottla.server.config.resources import ConfigResourceType
from ottla.server.services.share_persister import SharePersister
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.server.sharing.share_states import ShareState
from ottla.storage.disk.files import Buffer
from support.broker.conversation import produce_request
from support.broker.in_process_broker import InProcessClient, running
from support.disk.crash_files import CrashFiles
from support.sharing.chaos_members import Connection, Member, acknowledge_request, fetch_request

TOPIC, GROUP, LETTERS = "t", "g", "dlq.t"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
OPTIONS = {"group_share_delivery_count_limit": "2", "group_share_min_delivery_count_limit": "2"}


@dataclass
class Queue:
    """A topic with one partition, and one member of a share group."""

    broker: Broker
    topic_id: bytes
    connection: Connection

    async def ask(self, message: Any, version: int, node: int | None = None) -> Any:
        there = self.connection.node if node is None else node
        client = self.connection.client if there == self.connection.node else None
        return await InProcessClient(self.broker, client, node=there).ask(message, version)

    async def produce(self, records: Buffer) -> None:
        answer = await self.ask(produce_request(TOPIC, records), 12)
        assert not answer.responses[0].partition_responses[0].error_code

    async def fetch(self) -> list[int]:
        """Return the offsets of newly acquired records."""
        if self.connection.epoch == 0:  # The first fetch of a share partition only loads its state.
            await self._fetch()
            await trio.testing.wait_all_tasks_blocked()
        return await self._fetch()

    async def _fetch(self) -> list[int]:
        request = fetch_request(
            GROUP, self.connection, self.topic_id, frozenset({0}), {}, max_wait_ms=0, max_records=500, batch_size=500,
            mode=0,
        )  # fmt: skip
        answer = await self.ask(request, 2)
        self.connection.epoch += 1
        acquired = [one for topic in answer.responses for row in topic.partitions for one in row.acquired_records]
        return [offset for one in acquired for offset in range(one.first_offset, one.last_offset + 1)]

    async def say(self, kinds: Mapping[int, int]) -> None:
        """Acknowledge records, and let the broker do what follows from it."""
        says = {0: dict(kinds)}
        request = acknowledge_request(GROUP, self.connection, self.topic_id, says, self.connection.epoch, renews=False)
        (row,) = (await self.ask(request, 2)).responses[0].partitions
        assert not row.error_code, row
        self.connection.epoch += 1
        await trio.testing.wait_all_tasks_blocked()

    async def create(self, name: str = LETTERS, partitions: int = 1, **configs: str) -> None:
        """Create a dead letter topic; `_` stands for the point in the names of its options."""
        given = ENABLED | {option.replace("_", "."): value for option, value in configs.items()}
        await create(self.broker, name, partitions, given)

    async def configure(self, **configs: str) -> None:
        await configure(self.broker, ConfigResourceType.GROUP, GROUP, configs)

    def letters(self, name: str = LETTERS) -> list[Record]:
        """Return all dead letters, in the order of the partitions."""
        topic = self.broker.services.topics.get(name)
        logs = [] if topic is None else [partition.log for partition in topic.partitions]
        data = b"".join(log.read(0, max_bytes=1 << 30, up_to=log.log_end_offset).read() for log in logs)
        return [record for batch in batches(data) for record in batch.records()]

    def dead(self, name: str = LETTERS) -> list[int]:
        """Return the offsets of the records that have dead letters."""
        return [int(dict(one.headers)["__dlq.errors.offset"] or b"") for one in self.letters(name)]

    @property
    def state(self) -> ShareState:
        """The written state of the share partition."""
        key = SharePartitionKey(GROUP, self.topic_id, 0)
        state = self.broker.services.coordinators.share_states.coordinator.summary(key)
        assert state is not None
        return state


async def create(broker: Broker, name: str, partitions: int, configs: Mapping[str, str], replicas: int = 1) -> None:
    rows = tuple(CreatableTopicConfig(name=option, value=value) for option, value in configs.items())
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=rows)
    answer = await InProcessClient(broker).ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=1_000), 7)
    assert not answer.topics[0].error_code, answer


async def configure(broker: Broker, kind: ConfigResourceType, name: str, configs: Mapping[str, str]) -> None:
    rows = tuple(AlterableConfig(name=option, config_operation=0, value=value) for option, value in configs.items())
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    answer = await InProcessClient(broker).ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1)
    assert not answer.responses[0].error_code, answer


@asynccontextmanager
async def queue(
    files: CrashFiles | None = None,
    records: Iterable[Buffer] = (),
    *,
    name: str = LETTERS,
    copies: bool = False,
    nodes: int = 1,
    options: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Queue]:
    """Run a broker. Unless it has started before with these files, it gets the topic, and a group with a dead letter topic,
    which does not exist yet."""
    async with running(files or CrashFiles(), nodes, **(OPTIONS | dict(options))) as (broker, _):
        if broker.services.topics.get(TOPIC) is None:
            await create(broker, TOPIC, 1, {}, nodes)
            topic = broker.services.topics.get(TOPIC)
            assert topic is not None
            persister = SharePersister(broker.services.coordinators.share_states)
            assert not await persister.initialize(GROUP, 0, {topic.id: {0: 0}})
            group = {DEAD_LETTERS: name, COPIES: str(copies).lower()}
            await configure(broker, ConfigResourceType.GROUP, GROUP, group)
        topic = broker.services.topics.get(TOPIC)
        assert topic is not None
        found = Queue(broker, topic.id, Connection(Member("m"), topic.partitions[0].leader))
        for one in records:
            await found.produce(one)
        yield found
