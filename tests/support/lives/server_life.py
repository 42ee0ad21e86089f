"""A history of the whole server, its answers, and what any restart must find because of them.

Every answered change has a key in the ledger, with the values that a restart may find for it: the one answered,
and those requested since that were refused or not answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import trio
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records import batches
from ottla.server.broker.broker import Broker
from ottla.server.config.resources import ConfigResourceType
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.consumer.group import ConsumerGroup
from ottla.storage.logs.log import Log
from support.broker.in_process_broker import NOW_MS, InProcessClient, pass_time, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch

Key = tuple[Hashable, ...]
Values = frozenset[Hashable]
Owed = Mapping[Key, Values]

NOTHING: Values = frozenset({None})
TIMEOUT_MS = 5_000
"""The timeout of transactions: shorter than the sessions of the members."""


class Ledger:
    """The values that a restart may find, by key; a missing key stands for no value."""

    def __init__(self) -> None:
        self.owed: Owed = MappingProxyType({})
        self.told = 0
        """Number of requests that succeeded."""

    def ask(self, changes: Mapping[Key, Hashable]) -> None:
        """Note that these changes are requested."""
        self._put({key: self.owed.get(key, NOTHING) | {value} for key, value in changes.items()})

    def note_success(self, changes: Mapping[Key, Hashable]) -> None:
        """Note that these changes were answered with success."""
        self.told += 1
        self._put({key: frozenset({value}) for key, value in changes.items()})

    def _put(self, changes: Mapping[Key, Values]) -> None:
        self.owed = MappingProxyType({**self.owed, **changes})


def topic(name: str) -> Key:
    """Return the key of a topic's state: (its incarnation, its max.message.bytes)."""
    return "topic", name


def record(name: str, incarnation: int, value: str) -> Key:
    return "record", name, incarnation, value


def offset(group: str, name: str, incarnation: int) -> Key:
    """Return the key of the offset that a group has committed in the only partition."""
    return "offset", group, name, incarnation


def transaction(number: int) -> Key:
    """Return the key of a transaction's outcome; True: committed."""
    return "transaction", number


@dataclass
class Life:
    """A broker, and the requests that a script sends to it."""

    broker: Broker
    client: InProcessClient
    ledger: Ledger

    async def do(self, request: Callable[[], Awaitable[bool]], changes: Mapping[Key, Hashable]) -> bool:
        """Make a request that makes these changes if it succeeds."""
        self.ledger.ask(changes)
        if not await request():
            return False
        self.ledger.note_success(changes)
        return True

    # Topics

    async def create(self, name: str, incarnation: int, **configs: Any) -> bool:
        configs = {"max_message_bytes": 1_000 + incarnation, **configs}
        wanted = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=tuple(
                CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()
            ),
        )

        async def request() -> bool:
            answer = await self.client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=1_000), 7)
            return bool(answer.topics[0].error_code == ErrorCode.NONE)

        return await self.do(request, {topic(name): configs["max_message_bytes"]})

    async def alter(self, kind: ConfigResourceType, name: str, option: str, value: str, key: Key) -> bool:
        change = AlterableConfig(name=option, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=(change,))

        async def request() -> bool:
            answer = await self.client.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1)
            return bool(answer.responses[0].error_code == ErrorCode.NONE)

        return await self.do(request, {key: int(value)})

    async def delete(self, name: str, gone: Mapping[Key, Hashable]) -> bool:
        async def request() -> bool:
            answer = await self.client.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1), 6)
            return bool(answer.responses[0].error_code == ErrorCode.NONE)

        return await self.do(request, {topic(name): None, **gone})

    async def delete_records(self, name: str, up_to: int, gone: Mapping[Key, Hashable]) -> bool:
        async def request() -> bool:
            partition = DeleteRecordsPartition(partition_index=0, offset=up_to)
            wanted = DeleteRecordsTopic(name=name, partitions=(partition,))
            answer = await self.client.ask(DeleteRecordsRequest(topics=(wanted,), timeout_ms=1), 2)
            return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)

        return await self.do(request, gone)

    # Records

    async def produce(self, name: str, incarnation: int, value: str, *, at_ms: int = 0) -> bool:
        made = batch((value, value), timestamp=NOW_MS + at_ms)
        return await self.do(partial(self._append, name, made), {record(name, incarnation, value): True})

    async def _append(self, name: str, made: bytearray, transactional_id: str | None = None, version: int = 12) -> bool:
        data = TopicProduceData(name=name, partition_data=(PartitionProduceData(index=0, records=made),))
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1_000, topic_data=(data,))
        answer = await self.client.ask(request, version)
        return bool(answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE)

    # Groups

    async def commit(
        self, group: str, name: str, incarnation: int, at: int, *, member_id: str = "", epoch: int = -1
    ) -> bool:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=at)
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=(OffsetCommitRequestTopic(name=name, partitions=(partition,)),),
        )

        async def ask() -> bool:
            answer = await self.client.ask(request, 9)
            return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)

        return await self.do(ask, {offset(group, name, incarnation): at})

    async def join_classic(self, group: str) -> tuple[str, int] | None:
        """Join as the only member and assign the partitions to it: (member id, generation)."""
        joining = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0"),),
        )
        joined = await self.client.ask(joining, 3)
        if joined.error_code:
            return None
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        syncing = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=(assignment,),
        )

        async def request() -> bool:
            answer = await self.client.ask(syncing, 3)
            return bool(answer.error_code == ErrorCode.NONE)

        if await self.do(request, {("classic member", group): joined.generation_id}):
            return joined.member_id, joined.generation_id
        return None

    async def heartbeat(self, group: str, member_id: str, epoch: int, *topics: str) -> int | None:
        """Join a consumer group with a member (0), or leave (-1); return its epoch."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=topics or None,
            topic_partitions=() if epoch == 0 else None,
        )
        self.ledger.ask({("member", group): "any" if epoch == 0 else None})
        answer = await self.client.ask(request, 1)
        if answer.error_code:
            return None
        self.ledger.note_success({("member", group): answer.member_epoch if epoch == 0 else None})
        return int(answer.member_epoch)

    # Producers

    async def take_producer_id(self) -> None:
        answer = await self.client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
        if not answer.error_code:
            self.ledger.note_success({("producer id", answer.producer_id): True})


@dataclass
class Transactions:
    """A transactional producer that gives up at the first error, as one that crashed."""

    life: Life
    transactional_id: str
    is_new: bool = True
    """Whether it uses transaction version 2."""
    producer_id: int = -1
    epoch: int = -1
    _sequences: dict[str, int] = field(default_factory=dict)

    async def begin(self) -> bool:
        asked = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self.life.client.ask(asked, 4)
        if answer.error_code:
            return False
        self.life.ledger.note_success({("producer id", answer.producer_id): True})
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        return True

    async def run(
        self, number: int, records: Mapping[str, int], *, commit: bool, group: str | None = None, at: int = 0
    ) -> bool:
        """Run one transaction: a record in each of these topics (name -> incarnation), and an offset of a group in `a`."""
        made: dict[Key, Hashable] = {
            record(name, incarnation, f"txn-{number}"): True for name, incarnation in records.items()
        }
        if group is not None:
            made[offset(group, "a", 1)] = at
        for name in records:
            if not await self._write(name, number):
                return False
        if group is not None and not await self._commit_offset(group, at):
            return False
        asked = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )

        async def request() -> bool:
            answer = await self.life.client.ask(asked, 5 if self.is_new else 4)
            if answer.error_code:
                return False
            if self.is_new:
                if answer.producer_epoch != self.epoch:
                    self._sequences.clear()
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return True

        changes: dict[Key, Hashable] = {transaction(number): commit, **(made if commit else {})}
        return await self.life.do(request, changes)

    async def _write(self, name: str, number: int) -> bool:
        if not self.is_new:
            wanted = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=(AddPartitionsToTxnTopic(name=name, partitions=(0,)),),
            )
            added = await self.life.client.ask(wanted, 3)
            if added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code:
                return False
        sequence = self._sequences.get(name, 0)
        self._sequences[name] = sequence + 1
        made = batch(
            (f"txn-{number}", f"txn-{number}"),
            timestamp=NOW_MS,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return await self.life._append(name, made, self.transactional_id, 12 if self.is_new else 11)

    async def _commit_offset(self, group: str, at: int) -> bool:
        client = self.life.client
        if not self.is_new:
            added = await client.ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=group,
                ),
                3,
            )
            if added.error_code:
                return False
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=at)
        answer = await client.ask(
            TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                topics=(TxnOffsetCommitRequestTopic(name="a", partitions=(partition,)),),
            ),
            5 if self.is_new else 4,
        )
        return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)


# The script


async def first_day(life: Life) -> None:
    """Write everything that a server persists, once."""
    await life.create("a", 1, segment_ms=1_000)
    await life.create("b", 1)
    await life.produce("a", 1, "plain-1")
    await life.produce("a", 1, "plain-2", at_ms=5_000)  # in another segment
    await life.produce("b", 1, "plain-1")
    await life.commit("simple", "a", 1, 1)
    await life.commit("simple", "b", 1, 1)
    member = await life.join_classic("classic")
    if member is not None:
        await life.commit("classic", "a", 1, 2, member_id=member[0], epoch=member[1])
    epoch = await life.heartbeat("consumer", "member-of-consumer-gr", 0, "a")
    if epoch is not None:
        await life.commit("consumer", "a", 1, 3, member_id="member-of-consumer-gr", epoch=epoch)
    await life.take_producer_id()
    producer = Transactions(life, "new")
    if await producer.begin():
        await producer.run(1, {"a": 1, "b": 1}, commit=True, group="transactional", at=11)
        await trio.testing.wait_all_tasks_blocked()  # else the next one would have to be repeated
        await producer.run(2, {"a": 1, "b": 1}, commit=False, group="transactional", at=22)
        await trio.testing.wait_all_tasks_blocked()
    await pass_time(life.broker, 6_000)  # checkpoints, closed segments, files to remove


async def second_day(life: Life) -> None:
    """Change what exists; the last transaction is left open."""
    await life.alter(ConfigResourceType.TOPIC, "a", "max.message.bytes", "1234", topic("a"))
    await life.alter(ConfigResourceType.BROKER, "", "message.max.bytes", "54321", ("message.max.bytes",))
    producer = Transactions(life, "old", is_new=False)
    if await producer.begin():
        await producer.run(3, {"b": 1, "a": 1}, commit=True, group="transactional", at=33)
    await life.commit("simple", "a", 1, 2)
    if life.ledger.owed.get(record("a", 1, "plain-1")) == frozenset[Hashable]({True}):  # then it is the first one
        await life.delete_records("a", 1, {record("a", 1, "plain-1"): None})
    epoch = await life.heartbeat("consumer", "member-of-consumer-gr", -1)
    if epoch is not None:
        await life.take_producer_id()
    gone = {record("b", 1, value): None for value in ("plain-1", "txn-1", "txn-3")} | {offset("simple", "b", 1): None}
    if await life.delete("b", gone):
        await life.create("b", 2)
        await life.produce("b", 2, "plain-2")
    await life.broker.stop_node(0)
    await life.broker.start_node(0)
    await pass_time(life.broker, 6_000)
    await life.commit("simple", "a", 1, 3)
    fresh = Transactions(life, "new")
    if await fresh.begin():
        await fresh._write("a", 4)


DAYS = (first_day, second_day)


async def live(files: CrashFiles, ledger: Ledger, **options: str) -> None:
    """Run each day as a start and a stop of its own."""
    for day in DAYS:
        files.new_process()
        async with running(files, **options) as (broker, client):
            await day(Life(broker, client, ledger))


# What a restart finds


@dataclass(frozen=True)
class Found:
    """The answers and the data of a restarted server."""

    topics: Mapping[str, int]
    """max.message.bytes by name."""
    records: Mapping[str, tuple[str, ...]]
    """Records that a read_committed consumer reads, by topic."""
    offsets: Mapping[tuple[str, str], int]
    classic_members: Mapping[str, int]
    """Generation of groups with a member and its assignment."""
    member_epochs: Mapping[str, int]
    message_max_bytes: int | None
    producer_id: int
    hanging: tuple[str, ...]


GROUPS = ("simple", "classic", "consumer", "transactional")


async def look(broker: Broker, client: InProcessClient) -> Found:
    """Look at everything, after unfinished work has ended."""
    await trio.testing.wait_all_tasks_blocked()
    topics = {name: int(entry.configs["max.message.bytes"]) for name, entry in broker.services.cluster.catalog.topics.items()
              if not name.startswith("__")}  # fmt: skip
    classic, epochs = {}, {}
    if broker.services.coordinators._groups is not None:
        for shard in broker.services.coordinators._groups.coordinator.shards:
            for group_id, group in shard.groups.items():
                if isinstance(group, ClassicGroup) and any(one.assignment == b"mine" for one in group.members.values()):
                    classic[group_id] = group.generation
                if isinstance(group, ConsumerGroup) and group.members:
                    epochs[group_id] = max(one.epoch for one in group.members.values())
    for _ in range(4):  # an open transaction is aborted, its markers are written
        await pass_time(broker, 10_000)
    offsets = {}
    for group_id in GROUPS:
        wanted = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in topics)
        asked = OffsetFetchRequestGroup(group_id=group_id, topics=wanted)
        answer = await client.ask(OffsetFetchRequest(groups=(asked,), require_stable=True), 8)
        assert not answer.groups[0].error_code, ErrorCode(answer.groups[0].error_code)
        for row in answer.groups[0].topics:
            assert not row.partitions[0].error_code, ErrorCode(row.partitions[0].error_code)
            if row.partitions[0].committed_offset >= 0:
                offsets[group_id, row.name] = row.partitions[0].committed_offset
    fresh = await client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
    assert not fresh.error_code
    cluster = broker.services.cluster.catalog.state.broker_configs.get("", {})
    logs = {name: broker.services.topics.partition(name, 0).log for name in topics}
    return Found(
        topics=topics,
        records={name: committed_values(each) for name, each in logs.items()},
        offsets=offsets,
        classic_members=classic,
        member_epochs=epochs,
        message_max_bytes=int(cluster["message.max.bytes"]) if "message.max.bytes" in cluster else None,
        producer_id=fresh.producer_id,
        hanging=tuple(
            str(tp) for tp, each in broker.services.logs.logs.items() if each.last_stable_offset != each.log_end_offset
        ),
    )


def committed_values(log: Log) -> tuple[str, ...]:
    """Return the values of all committed records of a log, in their order."""
    found: list[tuple[int, str]] = []
    open_by_producer: dict[int, list[tuple[int, str]]] = {}
    for segment in log.segments:
        for each in batches(segment.log_file.read_at(0, segment.size_bytes)):
            if each.is_control:
                (only,) = each.records()
                pending = open_by_producer.pop(each.producer_id, [])
                if only.key is not None and bytes(only.key)[3] == 1:
                    found += pending
                continue
            rows = [(one.offset, bytes(one.value or b"").decode()) for one in each.records()]
            if each.is_transactional:
                open_by_producer.setdefault(each.producer_id, []).extend(rows)
            else:
                found += rows
    return tuple(value for at, value in sorted(found) if at >= log.log_start_offset)


def check(found: Found, owed: Owed) -> None:
    """Raise AssertionError if the server has lost or invented anything."""

    def may_be(key: Key, value: Hashable) -> None:
        allowed = owed.get(key, NOTHING)
        assert value in allowed, f"{key} is {value!r}, may be {sorted(map(str, allowed))}"

    assert not found.hanging, f"{found.hanging} hold back readers"
    assert ("producer id", found.producer_id) not in owed, f"producer id {found.producer_id} was given twice"
    may_be(("message.max.bytes",), found.message_max_bytes)
    for name in ("a", "b"):
        may_be(topic(name), found.topics.get(name))
    incarnations = {name: 2 if size == 1_002 else 1 for name, size in found.topics.items()}
    _check_records(found, owed, incarnations, may_be)
    for key in owed:
        if key[0] == "offset":
            group, name = str(key[1]), str(key[2])
            if incarnations.get(name) == key[3]:
                may_be(key, found.offsets.get((group, name)))
        elif key[0] == "classic member":
            may_be(key, found.classic_members.get(str(key[1])))
        elif key[0] == "member":
            epoch = found.member_epochs.get(str(key[1]))
            allowed = owed[key]
            if "any" not in allowed or epoch is None:
                may_be(key, epoch)
    for group, name in found.offsets:
        assert ("offset", group, name, incarnations[name]) in owed, f"{group} has an offset in {name} from nowhere"


def _check_records(
    found: Found, owed: Owed, incarnations: Mapping[str, int], may_be: Callable[[Key, Hashable], None]
) -> None:
    for name, values in found.records.items():
        assert len(set(values)) == len(values), f"{name} has records twice: {values}"
        for value in values:
            key = record(name, incarnations[name], value)
            assert True in owed.get(key, NOTHING), f"{key} was never committed"
    for key in owed:
        if key[0] == "record" and incarnations.get(str(key[1])) == key[2]:
            may_be(key, True if key[3] in found.records[str(key[1])] else None)
    _check_transactions(found, owed, incarnations)


def _check_transactions(found: Found, owed: Owed, incarnations: Mapping[str, int]) -> None:
    """Check that all of a transaction is there, or nothing."""
    for number, at in ((1, 11), (3, 33)):
        seen = {name: f"txn-{number}" in values for name, values in found.records.items() if incarnations[name] == 1}
        assert len(set(seen.values())) <= 1, f"transaction {number} is there in parts: {seen}"
        if seen and True not in seen.values():
            assert found.offsets.get(("transactional", "a")) != at, f"transaction {number} left its offset alone"
        elif seen and number == 3:
            assert found.offsets.get(("transactional", "a")) == at, f"transaction {number} left no offset"


def restart_and_look(files: CrashFiles, **options: str) -> Found:
    """Start on this disk, look, and stop."""

    async def work() -> Found:
        async with running(files, **options) as (broker, client):
            return await look(broker, client)

    return run_in_order(work)
