"""Topics are created, deleted, grown and altered while clients use them, and the process dies or the disk refuses at each step.

No client is notified of a change that did not happen.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.server.broker.broker import Broker
from ottla.server.coordination.jobs import to_the_end
from ottla.server.groups.classic.protocol import Caller
from ottla.storage.disk.os_files import OsFiles
from support.broker.admin import set_topic_configs
from support.broker.conversation import create_topic, fetch, list_offset, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.disk.stepped_files import SteppedFiles, reached_or
from support.sizes import size
from support.transactions.transactional_client import TransactionalClient

E = ErrorCode
LATEST = -1
SETTINGS = {
    "group_consumer_assignment_interval_ms": "0",
    "transaction_state_log_num_partitions": "1",
    "offsets_topic_num_partitions": "1",
    "log_initial_task_delay_ms": str(10**9),  # housekeeping's changes do not count as the topic's
}


class Clients:
    """One client of each kind, in the middle of its work with topic "t" of two partitions."""

    def __init__(self) -> None:
        self.producers: list[TransactionalClient] = []
        self.epochs: dict[str, int] = {}

    def begin(self, client: RawClient) -> None:
        for name in ("open", "late"):
            producer = TransactionalClient(client, name, version=2)
            producer.begin()
            self.producers.append(producer)
        self.producers[0].produce("t", ("k", "in a transaction"))
        assert self._commit_in_transaction(client, self.producers[0]) == E.NONE

    def act(self, client: RawClient) -> None:
        """Send requests during the change; all results must be as without a change."""
        one, late = self.producers
        assert client.ask(MetadataRequest(topics=(MetadataRequestTopic(name="t"),))).topics[0].error_code == E.NONE
        one.end(commit=True)
        assert list_offset(client, "t", LATEST, committed=True) == (E.NONE, 2), "the marker is there"
        late.produce("t", ("k", "began late"), partition=1)
        late.end(commit=False)
        assert produce(client, "t", ("k", "plain")).error_code == E.NONE
        assert commit(client, "plain", 7) == E.NONE
        assert committed(client, "plain", "committed in a transaction") == [7, 5]

    def act_without_topic(self, client: RawClient) -> None:
        """Send the same requests after the topic was deleted, which every client must see at once."""
        one, late = self.producers
        answer = client.ask(MetadataRequest(topics=(MetadataRequestTopic(name="t"),), allow_auto_topic_creation=False))
        assert answer.topics[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        one.end(commit=True)
        late.end(commit=False)
        assert produce(client, "t", ("k", "plain")).error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        assert commit(client, "plain", 7) == E.UNKNOWN_TOPIC_OR_PARTITION
        assert committed(client, "plain", "committed in a transaction") == [-1, -1]

    def _commit_in_transaction(self, client: RawClient, producer: TransactionalClient) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            group_id="committed in a transaction",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=(
                TxnOffsetCommitRequestTopic(
                    name="t", partitions=(TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5),)
                ),
            ),
        )
        code: int = client.ask(request, 5).topics[0].partitions[0].error_code
        return code

    # Members of a KIP-848 group, without the wire

    def beat(self, broker: Broker, member: str) -> None:
        """Send one heartbeat; revoked partitions are given up by the next one."""
        epoch = self.epochs.get(member, 0)
        request = ConsumerGroupHeartbeatRequest(
            group_id="members",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=("t",) if epoch == 0 else None,
            topic_partitions=(),
        )
        caller = Caller("c", "/h", 1)
        try:
            coordinator = broker.services.coordinators.groups.coordinator
            shard = coordinator.shard_for("members")
            answer = to_the_end(coordinator.consumer_heartbeat(shard, request, caller, broker.clock.now_ms))
        except KafkaError:
            self.epochs[member] = 0  # fenced: it joins again
        else:
            self.epochs[member] = answer.member_epoch

    def settle(self, broker: Broker) -> int:
        """Send heartbeats until all partitions are assigned; return how many partitions the members should have."""
        for _ in range(6):
            for member in ("a", "b"):
                self.beat(broker, member)
        group: Any = broker.services.coordinators.groups.coordinator.shard_of("members").groups["members"]
        return sum(len(indexes) for target in group.targets.values() for indexes in target.values())


def commit(client: RawClient, group: str, offset: int) -> int:
    rows = (OffsetCommitRequestPartition(partition_index=0, committed_offset=offset),)
    request = OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name="t", partitions=rows),))
    code: int = client.ask(request, 8).topics[0].partitions[0].error_code
    return code


def committed(client: RawClient, *groups: str) -> list[int]:
    wanted = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    request = OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id=one, topics=wanted) for one in groups))
    return [one.topics[0].partitions[0].committed_offset for one in client.ask(request, 9).groups]


Change = Callable[[Broker], Awaitable[object]]


async def delete(broker: Broker) -> None:
    topic = broker.services.topics.get("t")
    assert topic is not None
    await broker.services.topic_admin.delete(topic)


async def create(broker: Broker) -> None:
    await broker.services.topic_admin.create(broker.services.topic_admin.planner.plan("u", num_partitions=1))


async def grow(broker: Broker) -> None:
    topic = broker.services.topics.get("t")
    assert topic is not None
    await broker.services.topic_admin.grow(topic, broker.services.topic_admin.planner.plan_growth(topic, 3, None))


async def alter(broker: Broker) -> None:
    await set_topic_configs(broker, "t", {"max.message.bytes": "12345"})


Facts = dict[str, tuple[int, str]]
"""Number of partitions and max.message.bytes, by name."""

BEFORE: Facts = {"t": (2, "")}
CHANGES: dict[str, tuple[Change, Facts]] = {
    "delete": (delete, {}),
    "create": (create, {"t": (2, ""), "u": (1, "")}),
    "grow": (grow, {"t": (3, "")}),
    "alter": (alter, {"t": (2, "12345")}),
}


def facts(broker: Broker) -> Facts:
    """Return the facts about topics, which must be the same in the catalog, in memory and on disk."""
    known = {
        name: (len(entry.partitions), entry.configs.get("max.message.bytes", ""))
        for name, entry in broker.services.cluster.catalog.topics.items()
        if not name.startswith("__")
    }
    assert {one.name: len(one.partitions) for one in broker.services.topics if not one.is_internal} == {
        name: count for name, (count, _) in known.items()
    }
    logs = {one for one in broker.services.logs.logs if not one.topic.startswith("__")}
    assert logs == {(name, index) for name, (count, _) in known.items() for index in range(count)}
    for topic in broker.services.topics:
        assert broker.services.cluster.catalog.topics[topic.name].topic_id == topic.id
        for partition in topic.partitions:
            assert partition.log.topic_id in (None, topic.id)
    return known


async def check(served: Served, clients: Clients, known: Facts) -> None:
    """Check that every answer holds for the topics that exist."""
    broker = served.broker
    coordinator = broker.services.coordinators.transactions.coordinator
    states = {
        name: coordinator.describe(coordinator.shard_of(name), name).transaction_state for name in ("open", "late")
    }
    assert states == {"open": "CompleteCommit", "late": "CompleteAbort"}
    for topic in broker.services.topics:
        for partition in topic.partitions:
            assert partition.log.last_stable_offset == partition.log.high_watermark, "nothing hangs"
    count = known.get("t", (0, ""))[0]
    assert clients.settle(broker) == count
    kept = await served.ask(committed, "plain", "committed in a transaction")
    if count:
        row = await served.ask(fetch, "t", 0, committed=True)
        assert row.error_code == E.NONE
        found = records_of(row)
        assert [value for _, key, value in found if key == b"k"] == [b"in a transaction", b"plain"], row
        assert kept == [7, 5]
    else:
        assert kept == [-1, -1]


async def check_recreated(served: Served, clients: Clients) -> None:
    """Check that a topic that is created again inherits nothing."""
    if served.broker.services.topics.get("t") is None:
        await served.ask(create_topic, "t", partitions=2)
        assert await served.ask(committed, "plain", "committed in a transaction") == [-1, -1]
        assert clients.settle(served.broker) == 2


@asynccontextmanager
async def in_the_middle(path: Path, files: SteppedFiles) -> AsyncIterator[tuple[Served, Clients]]:
    async with serving(path, files, **SETTINGS) as served:
        clients = Clients()
        await served.ask(create_topic, "t", partitions=2)
        await served.broker.services.coordinators.groups.ensure_topic()
        await served.ask(clients.begin)
        clients.beat(served.broker, "a")
        yield served, clients


async def live(tmp_path: Path, name: str, at: int, *, refuse: bool) -> bool:
    """Run a broker with a change that waits before its operation `at`; return whether another run may follow.

    The operations after a topic's deletion are housekeeping, and tried once.
    """
    change, after = CHANGES[name]
    files, over, codes = SteppedFiles(), trio.Event(), list[ErrorCode]()
    data, killed = tmp_path / f"{at}", tmp_path / f"{at}-killed"
    data.mkdir(parents=True)

    async def run(broker: Broker) -> None:
        try:
            await change(broker)
            codes.append(E.NONE)
        except KafkaError as error:
            codes.append(ErrorCode(error.code))
        over.set()

    async with in_the_middle(data, files) as (served, clients), trio.open_nursery() as nursery:
        broker = served.broker
        files.arm(at)
        nursery.start_soon(run, broker)
        if not await reached_or(files, over):
            files.disarm()
            return False
        try:
            is_gone = broker.services.topics.get("t") is None
            fails = refuse and not is_gone
            assert is_gone == ("t" not in broker.services.cluster.catalog.topics)
            await served.ask(clients.act_without_topic if is_gone else clients.act)
            clients.beat(broker, "b")
            shutil.copytree(data, killed)
        finally:
            files.let_on(refuse=refuse)
        await over.wait()
        assert codes == [E.KAFKA_STORAGE_ERROR if fails else E.NONE]
        assert facts(broker) == (BEFORE if fails else after)
        await check(served, clients, facts(broker))
    stopped_or_killed = (data, killed)
    for path in size(stopped_or_killed[at % 2 : at % 2 + 1], stopped_or_killed):
        async with serving(path, OsFiles(), **SETTINGS) as served:
            known_then = facts(served.broker)
            assert known_then in (BEFORE, after)
            clients.epochs = {}
            await check(served, clients, known_then)
            await check_recreated(served, clients)
    return not is_gone


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_is_visible_exactly_after_its_write(tmp_path: Path, name: str) -> None:
    steps = 0
    while await live(tmp_path, name, steps, refuse=True):
        steps += 1
    assert steps >= 5
    assert await live(tmp_path / "let on", name, 0, refuse=False)


async def test_a_topic_deleted_before_its_configs_are_written_is_reported_alone(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        broker = served.broker
        for name in ("gone", "again", "stays"):
            await broker.services.topic_admin.create(broker.services.topic_admin.planner.plan(name, num_partitions=1))
        topics = {name: topic for name in ("gone", "again", "stays") if (topic := broker.services.topics.get(name))}
        await broker.services.topic_admin.delete(topics["gone"])
        await broker.services.topic_admin.delete(topics["again"])
        await broker.services.topic_admin.create(broker.services.topic_admin.planner.plan("again", num_partitions=1))
        refused = await broker.services.config_changes.alter_topics(
            {topic: {"retention.ms": "5"} for topic in topics.values()}
        )
        assert refused == {topics["gone"], topics["again"]}
        assert {name: broker.services.cluster.catalog.topics[name].configs for name in ("again", "stays")} == {
            "again": {},
            "stays": {"retention.ms": "5"},
        }
