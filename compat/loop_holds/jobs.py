"""The broker's background jobs and small requests with much work, each with as much work as possible: one broker a job."""

from __future__ import annotations

import resource
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from ottla.protocol.apis import APIS
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.server.client.connection import Client

from ..support.brokers.clocked_ottla import ClockedOttla
from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import BrokerProcess
from ..support.clients.holds import Hold, Pinger
from ..support.clients.members import HOLDING, RHYTHM_S
from ..support.logs.batches import make_batches
from .asking import (
    Sender,
    client,
    commit_for_groups,
    create_topics,
    find,
    in_turn,
    retried,
    small_batch,
)
from .figures import Figures
from .specials import encoded, produce

COLLECTOR_S = 11.0
"""The time in which Python's garbage collector has run twice."""
REBALANCE_IN_PROGRESS = 27
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
SETTLED_CPU, LOOK_S, LOOKS, SETTLE_MAX_S = 0.35, 0.2, 3, 60.0
"""The broker is settled when it used little CPU in LOOKS periods in a row.

The pings alone take up to a fifth of a processor. A broker that waits for the disk for that time also counts as settled.
"""


T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`; the last may be shorter."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


@dataclass
class At:
    """A broker for one job, and the size of the job."""

    process: BrokerProcess
    client: Client
    node_id: int
    size: int
    kept: ExitStack
    producer: Any = None
    """The producer, or another result of the preparation that the job continues with."""

    def advance_clock(self, by_ms: int) -> None:
        assert isinstance(self.process, ClockedOttla)
        self.process.advance_clock(by_ms)
        self.settle()

    def settle(self) -> None:
        """Return when the broker has hardly anything left to do."""
        until_s, quiet = time.monotonic() + SETTLE_MAX_S, 0
        while quiet < LOOKS and time.monotonic() < until_s:
            before = self.process.cpu_seconds()
            time.sleep(LOOK_S)
            quiet = quiet + 1 if self.process.cpu_seconds() - before < SETTLED_CPU * LOOK_S else 0

    def ask_raw(self, frame: bytes, answers: int = 1) -> None:
        with Sender(self.process.bootstrap) as sender:
            if not sender.ask(frame, answers):
                raise RuntimeError("the broker closed the connection")

    def all_at_once(self, topic: str, partitions: int) -> bytes:
        """Return a Produce of one record to each partition."""
        batch = small_batch()
        return produce(topic, dict.fromkeys(range(partitions), batch))


@dataclass(frozen=True)
class Job:
    name: str
    form: str
    act: Callable[[At], object]
    prepare: Callable[[At], object] = lambda at: None
    size: int = 1
    quick_size: int = 1
    needs_clock: bool = False
    nodes: int = 1
    key_type: int = 0
    overrides: dict[str, str] = field(default_factory=dict)


# --- topics and partitions


def _create_many(at: At) -> None:
    create_topics(at.client, {"many": at.size})


def _create_topics(at: At) -> None:
    create_topics(at.client, {f"many{number}": 1 for number in range(at.size)})


def _delete_many(at: At) -> None:
    answer = at.client.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="many"),), timeout_ms=60_000))
    assert not answer.responses[0].error_code, answer
    at.settle()


def _delete_files(at: At) -> None:
    at.advance_clock(2 * MINUTE_MS)


def _grow(at: At) -> None:
    topics = (CreatePartitionsTopic(name="one", count=at.size, assignments=None),)
    answer = at.client.ask(CreatePartitionsRequest(topics=topics, timeout_ms=60_000))
    assert not answer.results[0].error_code, answer


def _create_by_metadata(at: At) -> None:
    topics = tuple(MetadataRequestTopic(name=f"auto{number}") for number in range(at.size))
    at.client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)
    at.settle()


def _produce_to_all(at: At) -> None:
    at.ask_raw(at.all_at_once("many", at.size))


def _produce_to_each(at: At) -> None:
    batch = small_batch()
    at.ask_raw(b"".join(produce("many", {number: batch}) for number in range(at.size)), at.size)


def _configure_all(at: At) -> None:
    resources = tuple(
        AlterConfigsResource(
            resource_type=2,
            resource_name=f"many{number}",
            configs=(AlterableConfig(name="retention.ms", value="1000000"),),
        )
        for number in range(at.size)
    )
    answer = at.client.ask(IncrementalAlterConfigsRequest(resources=resources))
    assert not answer.responses[0].error_code, answer.responses[0]


def _configure_broker(at: At, count: int | None = None) -> None:
    """Set `count` configs of the broker, each for a listener of its own."""
    count = at.size if count is None else count
    configs = tuple(
        AlterableConfig(name=f"listener.name.n{number}.ssl.cipher.suites", value=f"a,b,{count}")
        for number in range(count)
    )
    resources = (AlterConfigsResource(resource_type=4, resource_name=str(at.node_id), configs=configs),)
    answer = at.client.ask(IncrementalAlterConfigsRequest(resources=resources))
    assert not answer.responses[0].error_code, answer.responses[0]


def _describe_broker(at: At) -> None:
    broker = DescribeConfigsResource(resource_type=4, resource_name=str(at.node_id), configuration_keys=None)
    answer = at.client.ask(DescribeConfigsRequest(resources=(broker,), include_synonyms=True))
    assert len(answer.results[0].configs) > at.size, answer.results[0].error_message
    _configure_broker(at, 1)


# --- logs


def _many_with_records(at: At) -> None:
    create_topics(at.client, {"many": at.size}, retention_ms=str(MINUTE_MS))
    _produce_to_all(at)


def _many_with_segments(at: At) -> None:
    create_topics(at.client, {"many": at.size}, retention_ms=str(MINUTE_MS), internal_segment_bytes="100")
    for _ in range(20):
        _produce_to_all(at)


def _many_flushed_later(at: At) -> None:
    create_topics(at.client, {"many": at.size}, flush_ms=str(MINUTE_MS))
    _produce_to_all(at)


def _retain(at: At) -> None:
    at.advance_clock(HOUR_MS)


def _next_minutes(at: At) -> None:
    at.advance_clock(2 * MINUTE_MS)


def _delete_records(at: At) -> None:
    partitions = tuple(DeleteRecordsPartition(partition_index=number, offset=-1) for number in range(at.size))
    topics = (DeleteRecordsTopic(name="many", partitions=partitions),)
    answer = at.client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=60_000))
    assert not any(row.error_code for row in answer.topics[0].partitions), answer.topics[0].partitions[:3]


def _many_producers(at: At) -> None:
    """Send a batch from each of many producers, over a thousand partitions."""
    create_topics(at.client, {"many": 1_000})
    for numbers in batched(range(at.size), 1_000):
        batches = {
            number % 1_000: small_batch(producer_id=number, producer_epoch=0, base_sequence=0) for number in numbers
        }
        at.ask_raw(produce("many", batches))


def _producers_of_one(at: At) -> None:
    """Send a batch from each of many producers to one partition."""
    create_topics(at.client, {"many": 1}, segment_bytes=str(1 << 30))
    for numbers in batched(range(at.size), 200):
        with Sender(at.process.bootstrap) as sender:
            frames = (
                produce("many", {0: small_batch(producer_id=number, producer_epoch=0, base_sequence=0)})
                for number in numbers
            )
            sender.ask(b"".join(frames), len(numbers))


def _roll(at: At) -> None:
    """Roll by time: the record has a timestamp of the next year."""
    at.ask_raw(produce("many", {0: small_batch(int(time.time() * 1000) + 365 * DAY_MS)}))


def _compacted(at: At) -> None:
    """Write `size` MB to one log, all in closed segments; the cleaner may not start yet."""
    configs = {"cleanup_policy": "compact", "segment_bytes": str(8 << 20), "min_cleanable_dirty_ratio": "1.0"}
    create_topics(at.client, {"compacted": 1}, **configs)
    batches = make_batches(lambda offset: offset % 50_000, value_bytes=100, size_bytes=at.size * 1_000_000, lz4_in=3)
    with Sender(at.process.bootstrap) as sender:
        for some in batched((bytes(8) + bytes(batch[8:]) for batch in batches), 50):
            sender.ask(b"".join(produce("compacted", {0: batch}) for batch in some), len(some))


def _clean(at: At) -> None:
    _set_config(at, "compacted", "min.cleanable.dirty.ratio", "0")
    at.settle()


def _many_compacted(at: At) -> None:
    configs = {"cleanup_policy": "compact", "internal_segment_bytes": "100", "min_cleanable_dirty_ratio": "1.0"}
    create_topics(at.client, {"compacted": at.size}, **configs)
    for _ in range(5):
        at.ask_raw(at.all_at_once("compacted", at.size))


def _set_config(at: At, topic: str, name: str, value: str) -> None:
    configs = (AlterableConfig(name=name, value=value),)
    resources = (AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs),)
    answer = at.client.ask(IncrementalAlterConfigsRequest(resources=resources))
    assert not answer.responses[0].error_code, answer


def _long_log(at: At) -> None:
    """Write `size` segments, each of which becomes cleanable a millisecond after the one before."""
    configs = {"cleanup_policy": "compact", "internal_segment_bytes": "100", "min_compaction_lag_ms": str(DAY_MS)}
    create_topics(at.client, {"long": 1}, **configs)
    begin_ms = int(time.time() * 1000)
    with Sender(at.process.bootstrap) as sender:
        for some in batched(range(at.size), 200):
            sender.ask(b"".join(produce("long", {0: small_batch(begin_ms + number)}) for number in some), len(some))


def _describe_log_dirs(at: At) -> None:
    answer = at.client.ask(DescribeLogDirsRequest(topics=None, ottla_cleaner_status=True))
    assert answer.results[0].topics[0].partitions[0].partition_size, answer


def _elect_unknown(at: At) -> None:
    """Request elections that are refused; the collector may find their garbage seconds later."""
    partitions = tuple(range(1_000, 1_000 + at.size))
    asked = ElectLeadersRequest(
        election_type=0,
        topic_partitions=(TopicPartitions(topic="one", partitions=partitions),),
        timeout_ms=10_000,
    )
    at.ask_raw(encoded(asked))
    time.sleep(COLLECTOR_S)


# --- groups


def _groups(at: At) -> None:
    create_topics(at.client, {"many": 1})
    commit_for_groups(at.client, _group_names(at.size), "many")


def _group_names(count: int) -> Iterable[str]:
    return (f"g{number:07}" for number in range(count))


def _many_offsets(at: At) -> None:
    create_topics(at.client, {"many": 1_000})
    commit_for_groups(at.client, _group_names(at.size // 1_000), "many", range(1_000))


def _delete_groups(at: At) -> None:
    answer = at.client.ask(DeleteGroupsRequest(groups_names=tuple(_group_names(at.size))))
    assert not answer.results[0].error_code, answer.results[0]


def _expire_groups(at: At) -> None:
    at.advance_clock(8 * DAY_MS)
    at.advance_clock(HOUR_MS)


def _consumer_members(at: At) -> None:
    """Add members to one group (KIP-848), with one partition for each."""
    create_topics(at.client, {"many": at.size})
    find(at.client, "members")

    def beats() -> Iterable[ConsumerGroupHeartbeatRequest]:
        for number in range(at.size):
            yield ConsumerGroupHeartbeatRequest(
                group_id="members",
                member_id=f"member-{number:07}",
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=("many",),
                topic_partitions=(),
            )

    (first, *others) = beats()
    retried(lambda: at.client.ask(first), lambda answer: not answer.error_code)
    for answer in in_turn(at.client, others):
        assert not answer.error_code, answer


def _classic_members(at: At) -> None:
    """Join static members of one group, each on a connection of its own, as JoinGroup is answered when all have joined.

    They do not join all at once: each of two thousand requests waits for the ones before it.
    """
    find(at.client, "members")
    senders = [at.kept.enter_context(Sender(at.process.bootstrap)) for _ in range(at.size)]
    for number, sender in enumerate(senders):
        protocols = (JoinGroupRequestProtocol(name="range", metadata=bytes(100)),)
        asked = JoinGroupRequest(
            group_id="members",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            group_instance_id=f"member-{number:07}",
            protocol_type="consumer",
            protocols=protocols,
        )
        sender.send(encoded(asked, 5))
        if number % 50 == 0:
            time.sleep(0.05)
    at.settle()


def _join_as_static_members(at: At, metadata: bytes) -> None:
    """Make a group that is stable but for the assignment, which the leader, `at.producer`, must send.

    A static member stays in the group when its connection is closed, so few connections are open at a time.
    """
    find(at.client, "members")
    long_ms = 1_800_000

    def join(number: int, member_id: str = "") -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="members",
            session_timeout_ms=long_ms,
            rebalance_timeout_ms=long_ms,
            member_id=member_id,
            group_instance_id=str(number),
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
        )

    leader = retried(lambda: at.client.ask(join(0), 5), lambda answer: not answer.error_code)
    # Each is accepted before the next connects: a client that does not fit into the backlog retries a second later.
    asked_first = encoded(FindCoordinatorRequest(key="members", key_type=0), 3)
    for number in range(1, at.size):
        with Sender(at.process.bootstrap) as sender:
            sender.send(asked_first + encoded(join(number), 5))
            sender.receive()
    at.settle()
    at.producer = at.client.ask(join(0, leader.member_id), 5)
    assert len(at.producer.members) == at.size, at.producer.error_code
    at.settle()


def _empty_members(at: At) -> None:
    """Join members without metadata, so that a group's record holds as many as possible: 12 000."""
    _join_as_static_members(at, b"")


def _assign(at: At, assignment_of: Callable[[int], bytes] = lambda number: b"") -> None:
    leader = at.producer
    assignments = tuple(
        SyncGroupRequestAssignment(member_id=one.member_id, assignment=assignment_of(int(one.group_instance_id or 0)))
        for one in leader.members
    )
    asked = SyncGroupRequest(
        group_id="members",
        generation_id=leader.generation_id,
        member_id=leader.member_id,
        group_instance_id="0",
        assignments=assignments,
    )
    assert not at.client.ask(asked, 3).error_code
    at.settle()


def _assign_and_describe(at: At) -> None:
    _assign(at)
    answer = at.client.ask(DescribeGroupsRequest(groups=("members",)), 5)
    assert len(answer.groups[0].members) == at.size


def _members_that_beat(at: At) -> None:
    """Let each member of a stable group send its first heartbeat, on a connection of its own; `at.producer` has the connections."""
    _empty_members(at)
    _assign(at)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    named = encoded(ApiVersionsRequest(client_software_name="librdkafka", client_software_version="1"), 3)
    members = []
    for one in at.producer.members:
        sender = at.kept.enter_context(Sender(at.process.bootstrap))
        heartbeat = HeartbeatRequest(
            group_id="members",
            generation_id=at.producer.generation_id,
            member_id=one.member_id,
            group_instance_id=one.group_instance_id,
        )
        members.append((sender, encoded(heartbeat, 3)))
        sender.send(named + members[-1][1])
        sender.receive()
        assert _error_of_heartbeat(sender) == 0
    at.producer = members
    time.sleep(RHYTHM_S)


def _error_of_heartbeat(sender: Sender) -> int:
    _, _, error_code = struct.unpack(">iih", sender.receive(10))
    return int(error_code)


def _ring(at: At) -> None:
    """Let all members send a heartbeat; the responses are held until one of them leaves."""
    for number, (sender, heartbeat) in enumerate(at.producer):
        sender.send(heartbeat)
        if number % 50 == 49:  # of ten thousand requests at once, each would wait for all others
            time.sleep(0.01)
    leaving = LeaveGroupRequest(group_id="members", members=(MemberIdentity(group_instance_id="1"),))
    assert not at.client.ask(leaving, 3).error_code
    errors = Counter(_error_of_heartbeat(sender) for sender, _ in at.producer)
    # Where the machine is slow, the first holds have ended when the last one begins.
    assert errors[REBALANCE_IN_PROGRESS] > at.size / 2, errors


def _classic_consumers(at: At) -> None:
    """Join a classic group whose leader has assigned one partition to each member."""
    create_topics(at.client, {"many": at.size})
    _join_as_static_members(at, struct.pack(">hih4si", 0, 1, 4, b"many", -1))
    _assign(at, lambda number: struct.pack(">hih4siii", 0, 1, 4, b"many", 1, number, -1))


def _come_with_consumer_protocol(at: At) -> None:
    asked = ConsumerGroupHeartbeatRequest(
        group_id="members",
        member_id="new",
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=("many",),
        topic_partitions=(),
    )
    answer = at.client.ask(asked)
    assert not answer.error_code, answer
    at.settle()


def _consumers_of_both_protocols(at: At) -> None:
    _classic_consumers(at)
    _come_with_consumer_protocol(at)


def _go_with_consumer_protocol(at: At) -> None:
    answer = at.client.ask(ConsumerGroupHeartbeatRequest(group_id="members", member_id="new", member_epoch=-1))
    assert not answer.error_code, answer
    at.settle()
    answer = at.client.ask(DescribeGroupsRequest(groups=("members",)), 5)
    assert len(answer.groups[0].members) == at.size, answer.groups[0].group_state


def _stop_leader(at: At) -> None:
    assert isinstance(at.process, OttlaProcess)
    at.process.stop_node(at.node_id)
    at.settle()


def _sessions_end(at: At) -> None:
    at.advance_clock(2 * MINUTE_MS)


def _topics_for_expression(at: At) -> None:
    create_topics(at.client, {f"topic{number}": 1 for number in range(at.size)})
    find(at.client, "members")


def _subscribe_by_expression(at: At) -> None:
    for number in range(5):
        asked = ConsumerGroupHeartbeatRequest(
            group_id="members",
            member_id=f"m{number}",
            rebalance_timeout_ms=300_000,
            subscribed_topic_regex=f"topic.*[0-{number + 5}]",
            topic_partitions=(),
        )
        retried(lambda: at.client.ask(asked), lambda answer: not answer.error_code)  # noqa: B023
    at.advance_clock(11 * MINUTE_MS)


def _subscribe_to_all(at: At) -> None:
    """Subscribe by name: a member gets its partitions with its second heartbeat, on a slow machine with a later one."""

    def beat(epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id="members",
            member_id="m",
            member_epoch=epoch,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=tuple(f"topic{number}" for number in range(at.size)),
            topic_partitions=(),
        )

    epoch = retried(lambda: at.client.ask(beat(0)), lambda answer: not answer.error_code).member_epoch
    given = 0
    for _ in range(5):
        at.settle()
        answer = at.client.ask(beat(epoch))
        assert not answer.error_code, answer
        epoch = answer.member_epoch
        given = len(answer.assignment.topic_partitions) if answer.assignment is not None else given
        if given == at.size:
            break
    assert given == at.size
    at.settle()


def _of_consumer_group(member_id: str, names: tuple[str, ...]) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="members",
        member_id=member_id,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=names,
        topic_partitions=(),
    )


def _of_share_group(member_id: str, names: tuple[str, ...]) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group_id="members", member_id=member_id, subscribed_topic_names=names)


Joining: TypeAlias = Callable[[str, tuple[str, ...]], ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest]


def _join(joining: Joining, member_id: str, at: At) -> None:
    asked = joining(member_id, tuple(f"topic{number}" for number in range(at.size)))
    retried(lambda: at.client.ask(asked), lambda answer: not answer.error_code)
    at.settle()


def _static(member_id: str, epoch: int, at: At, *, names: range | None = None, **fields: Any) -> Any:
    """Send a heartbeat of a static member, which names these topics if it joins."""
    joins = names is not None
    asked = ConsumerGroupHeartbeatRequest(
        group_id="members",
        member_id=member_id,
        member_epoch=epoch,
        instance_id="one",
        rebalance_timeout_ms=300_000 if joins else -1,
        subscribed_topic_names=tuple(f"topic{number}" for number in names) if names is not None else None,
        topic_partitions=() if joins else None,
        **fields,
    )
    answer = retried(lambda: at.client.ask(asked), lambda answer: not answer.error_code)
    at.settle()
    return answer


def _static_member_of_all(at: At) -> None:
    _topics_for_expression(at)
    joined = _static("first", 0, at, names=range(at.size))
    given = _static("first", joined.member_epoch, at).assignment or joined.assignment  # few are given at once
    assert len(given.topic_partitions) == at.size


def _static_member_comes_back(at: At) -> None:
    _static("first", -2, at)
    _static("second", 0, at, names=range(at.size))


def _members_of_own_topics(at: At) -> None:
    """Two members, each of half of the topics."""
    _topics_for_expression(at)
    half = at.size // 2
    for number in range(2):
        names = tuple(f"topic{one}" for one in range(number * half, (number + 1) * half))
        asked = _of_consumer_group(f"m{number}", names)
        retried(lambda: at.client.ask(asked), lambda answer: not answer.error_code)  # noqa: B023
        at.settle()


def _given_by_expression(at: At) -> None:
    """A member is given what its expression matches with its third heartbeat."""
    asked = ConsumerGroupHeartbeatRequest(
        group_id="members",
        member_id="m",
        rebalance_timeout_ms=300_000,
        subscribed_topic_regex="topic.*",
        topic_partitions=(),
    )
    epoch = retried(lambda: at.client.ask(asked), lambda answer: not answer.error_code).member_epoch
    given = 0
    for _ in range(5):
        at.settle()
        answer = at.client.ask(ConsumerGroupHeartbeatRequest(group_id="members", member_id="m", member_epoch=epoch))
        assert not answer.error_code, answer
        epoch = answer.member_epoch
        given = len(answer.assignment.topic_partitions) if answer.assignment is not None else given
    assert given == at.size


def _share_states(at: At) -> None:
    """One topic, of which a member of a share group has all partitions."""
    create_topics(at.client, {"topic0": at.size})
    find(at.client, "members")
    _share_member(at, "first")


def _share_member(at: At, member_id: str) -> None:
    retried(lambda: at.client.ask(_of_share_group(member_id, ("topic0",))), lambda answer: not answer.error_code)
    at.settle()


def _topics_and_a_member(joining: Joining, at: At) -> None:
    _topics_for_expression(at)
    _join(joining, "first", at)


# --- transactions


def _transactions(at: At) -> None:
    """Open transactions, each with one partition."""
    _transactional_ids(at, open_each=True)


def _decided(at: At) -> None:
    _transactional_ids(at, open_each=False)


def _transactional_ids(at: At, *, open_each: bool) -> None:
    create_topics(at.client, {"many": 1})
    find(at.client, "x0", 1)

    def begun(number: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=f"x{number}", transaction_timeout_ms=10_000, producer_id=-1)

    retried(lambda: at.client.ask(begun(0), 4), lambda answer: not answer.error_code)
    producers = in_turn(at.client, map(begun, range(at.size)), 4)
    if open_each:
        added = in_turn(
            at.client,
            (
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=f"x{number}",
                    v3_and_below_producer_id=producer.producer_id,
                    v3_and_below_producer_epoch=producer.producer_epoch,
                    v3_and_below_topics=(AddPartitionsToTxnTopic(name="many", partitions=(0,)),),
                )
                for number, producer in enumerate(producers)
            ),
            3,
        )
        assert not added[-1].results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, added[-1]


def _large_transaction(at: At) -> None:
    create_topics(at.client, {"many": at.size})
    find(at.client, "x", 1)
    asked = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000, producer_id=-1)
    at.producer = retried(lambda: at.client.ask(asked, 4), lambda answer: not answer.error_code)
    at.client.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=at.producer.producer_id,
            v3_and_below_producer_epoch=at.producer.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name="many", partitions=tuple(range(at.size))),),
        ),
        3,
    )


def _end(at: At) -> None:
    producer = at.producer
    asked = EndTxnRequest(
        transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=True
    )
    assert not at.client.ask(asked, 3).error_code
    at.settle()


def _offsets_in_a_transaction(at: At) -> None:
    """1 000 a group."""
    create_topics(at.client, {"many": 1_000})
    find(at.client, "g0000000")
    find(at.client, "x", 1)
    asked = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000, producer_id=-1)
    at.producer = producer = retried(lambda: at.client.ask(asked, 4), lambda answer: not answer.error_code)
    offsets = tuple(TxnOffsetCommitRequestPartition(partition_index=one, committed_offset=1) for one in range(1_000))

    def commit(group: str) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=(TxnOffsetCommitRequestTopic(name="many", partitions=offsets),),
        )

    for answer in in_turn(at.client, map(commit, _group_names(at.size // 1_000)), 5, 20):
        assert not answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0]


def _end_with_new_epoch(at: At) -> None:
    producer = at.producer
    asked = EndTxnRequest(
        transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=True
    )
    assert not at.client.ask(asked, 5).error_code
    at.settle()


def _transactions_time_out(at: At) -> None:
    at.advance_clock(2 * MINUTE_MS)


def _transactional_ids_expire(at: At) -> None:
    at.advance_clock(8 * DAY_MS)
    at.advance_clock(2 * HOUR_MS)


# --- nodes, connections, code


def _move_leaders(at: At) -> None:
    """Move leaders: the node gives its partitions to the other one, which is pinged, and may get them back."""
    assert isinstance(at.process, OttlaProcess)
    at.process.stop_node(at.node_id)
    at.settle()
    at.process.start_node(at.node_id)
    at.settle()


def _connect(at: At) -> None:
    for _ in range(at.size):
        at.kept.enter_context(Sender(at.process.bootstrap))


def _grow_idle(at: At) -> None:
    time.sleep(5)


def _speak_all(at: At) -> None:
    """Send a request of each API, most of them malformed after the header; a connection each."""
    for api in APIS.values():
        if api.name == "Produce":
            continue
        frame = encoded(api.request(), api.versions[1])
        with Sender(at.process.bootstrap) as sender:
            sender.ask(frame)


def _create_and_delete(at: At) -> None:
    _create_many(at)
    _delete_many(at)


def _expire(at: At) -> None:
    at.advance_clock(DAY_MS + HOUR_MS)
    at.advance_clock(HOUR_MS)


def _collect(at: At) -> None:
    _many_producers(at)
    time.sleep(COLLECTOR_S)


JOBS = (
    Job("The first request of each API", "one each, the process is new", _speak_all),
    Job("Creation of a topic of many partitions", "{size} partitions", _create_many, size=10_000, quick_size=500),
    Job("Creation of many topics", "{size} topics in a request", _create_topics, size=2_000, quick_size=200),
    Job("Deletion of a topic of many partitions", "{size} partitions", _delete_many, _create_many, 10_000, 500),
    Job(
        "Removal of the files of a deleted topic",
        "{size} partitions",
        _delete_files,
        _create_and_delete,
        10_000,
        500,
        needs_clock=True,
    ),
    Job(
        "More partitions for a topic",
        "from 1 to {size}",
        _grow,
        lambda at: create_topics(at.client, {"one": 1}),
        5_000,
        500,
    ),
    Job("A Metadata request that creates topics", "{size} names", _create_by_metadata, size=1_000, quick_size=100),
    Job("First produce to many partitions", "{size} in a request", _produce_to_all, _create_many, 1_000, 200),
    Job("First produce to each of many partitions", "{size} requests", _produce_to_each, _create_many, 1_000, 200),
    Job("Configs of many topics", "{size} topics in a request", _configure_all, _create_topics, 2_000, 200),
    Job("Configs of a broker that has many", "{size} of them", _describe_broker, _configure_broker, 390, 390),
    Job("Retention of many logs", "{size} logs", _retain, _many_with_records, 2_000, 200, needs_clock=True),
    Job(
        "Retention of many segments",
        "20 segments in {size} logs",
        _retain,
        _many_with_segments,
        200,
        20,
        needs_clock=True,
    ),
    Job("flush.ms of many logs", "{size} logs", _next_minutes, _many_flushed_later, 2_000, 200, needs_clock=True),
    Job("Checkpoints of many logs", "{size} logs", _next_minutes, _many_with_records, 5_000, 200, needs_clock=True),
    Job("DeleteRecords of many logs", "{size} logs", _delete_records, _many_with_records, 2_000, 200),
    Job(
        "Expiry of producer ids",
        "{size} of 1 000 partitions",
        _expire,
        _many_producers,
        100_000,
        5_000,
        needs_clock=True,
        overrides={"log.retention.ms": "-1"},
    ),
    Job(
        "The collector when many producers have come",
        "{size} of 1 000 partitions",
        _collect,
        size=100_000,
        quick_size=70_000,
    ),
    Job(
        "A roll behind many producers",
        "{size} of one partition",
        _roll,
        _producers_of_one,
        200_000,
        5_000,
        overrides={"log.message.timestamp.after.max.ms": str(2 * 365 * DAY_MS)},
    ),
    Job("DescribeLogDirs of a long log", "{size} segments", _describe_log_dirs, _long_log, 8_000, 1_000),
    Job(
        "What refused elections leave behind",
        "{size} partitions",
        _elect_unknown,
        lambda at: create_topics(at.client, {"one": 1}),
        99_000,
        99_000,
    ),
    Job("A clean pass", "{size} MB", _clean, _compacted, 100, 10, overrides={"log.cleaner.backoff.ms": "100"}),
    Job(
        "Clean passes of many logs, one thread",
        "{size} logs of 5 segments",
        _clean,
        _many_compacted,
        500,
        50,
        overrides={"log.cleaner.backoff.ms": "100"},
    ),
    Job(
        "Clean passes of many logs",
        "{size} logs of 5 segments, 8 threads",
        _clean,
        _many_compacted,
        500,
        50,
        overrides={"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "8"},
    ),
    Job("Deletion of a topic that many groups committed", "{size} groups", _delete_many, _groups, 20_000, 1_000),
    Job("DeleteGroups of all", "{size} groups", _delete_groups, _groups, 20_000, 1_000),
    Job("Expiry of groups", "{size} groups", _expire_groups, _groups, 20_000, 1_000, needs_clock=True),
    Job(
        "Expiry of many offsets",
        "{size} offsets, 1 000 a group",
        _expire_groups,
        _many_offsets,
        100_000,
        5_000,
        needs_clock=True,
    ),
    Job("Members of a consumer group join", "{size} members", _consumer_members, size=2_000, quick_size=200),
    Job(
        "Sessions of a consumer group end",
        "{size} members",
        _sessions_end,
        _consumer_members,
        2_000,
        200,
        needs_clock=True,
    ),
    Job("Members of a classic group join", "{size} members", _classic_members, size=2_000, quick_size=200),
    Job(
        "Sessions of a classic group end",
        "{size} members",
        _sessions_end,
        _classic_members,
        2_000,
        200,
        needs_clock=True,
    ),
    Job(
        "A leader assigns for many members, and the group is described",
        "{size} members",
        _assign_and_describe,
        _empty_members,
        8_000,
        500,
    ),
    Job(
        "Held heartbeats of a group end, as a member leaves",
        "{size} members",
        _ring,
        _members_that_beat,
        10_000,
        500,
        overrides=HOLDING,
    ),
    Job(
        "A classic group becomes a consumer group",
        "{size} members",
        _come_with_consumer_protocol,
        _classic_consumers,
        3_000,
        300,
    ),
    Job(
        "A consumer group becomes a classic group",
        "{size} members",
        _go_with_consumer_protocol,
        _consumers_of_both_protocols,
        3_000,
        300,
    ),
    Job(
        "Groups of a partition that nobody leads any more",
        "{size} groups",
        _stop_leader,
        _groups,
        20_000,
        1_000,
        nodes=2,
        overrides={"offsets.topic.replication.factor": "1"},
    ),
    Job(
        "Regular expressions over many topics",
        "5 over {size} topics",
        _subscribe_by_expression,
        _topics_for_expression,
        5_000,
        500,
        needs_clock=True,
    ),
    Job(
        "A member of a consumer group is given many topics",
        "{size} topics",
        _subscribe_to_all,
        _topics_for_expression,
        5_000,
        500,
    ),
    Job(
        "A second member of a consumer group names many topics",
        "{size} topics",
        partial(_join, _of_consumer_group, "second"),
        partial(_topics_and_a_member, _of_consumer_group),
        5_000,
        500,
    ),
    Job(
        "A second member of a share group names many topics",
        "{size} topics",
        partial(_join, _of_share_group, "second"),
        partial(_topics_and_a_member, _of_share_group),
        5_000,
        500,
    ),
    Job(
        "A static member of many topics comes back",
        "{size} topics",
        _static_member_comes_back,
        _static_member_of_all,
        10_000,
        1_000,
    ),
    Job(
        "A member is given what an expression matches",
        "{size} topics",
        _given_by_expression,
        _topics_for_expression,
        10_000,
        1_000,
    ),
    Job(
        "Sessions of members of topics of their own end",
        "2 members, {size} topics",
        _sessions_end,
        _members_of_own_topics,
        10_000,
        1_000,
        needs_clock=True,
    ),
    Job(
        "A second member of a share group of many partitions joins",
        "{size} partitions",
        lambda at: _share_member(at, "second"),
        _share_states,
        10_000,
        2_000,
    ),
    Job("Transactions time out", "{size} of them", _transactions_time_out, _transactions, 5_000, 300, needs_clock=True),
    Job(
        "Transactional ids expire", "{size} of them", _transactional_ids_expire, _decided, 5_000, 300, needs_clock=True
    ),
    Job("The end of a large transaction", "{size} partitions", _end, _large_transaction, 2_000, 200),
    Job(
        "The end of a transaction with offsets of many groups",
        "{size} offsets, 1 000 a group",
        _end_with_new_epoch,
        _offsets_in_a_transaction,
        200_000,
        5_000,
        overrides={"offsets.topic.num.partitions": "1"},
    ),
    Job("Loads of the group coordinator", "{size} offsets", _move_leaders, _many_offsets, 100_000, 5_000, nodes=2),
    Job("Loads of the group coordinator, groups", "{size} groups", _move_leaders, _groups, 20_000, 1_000, nodes=2),
    Job("Loads of a consumer group", "{size} members", _move_leaders, _consumer_members, 2_000, 200, nodes=2),
    Job(
        "Loads of the transaction coordinator",
        "{size} ids",
        _move_leaders,
        _transactions,
        5_000,
        300,
        nodes=2,
        key_type=1,
    ),
    Job(
        "Idle connections are closed",
        "{size} of them",
        _grow_idle,
        _connect,
        3_000,
        500,
        overrides={"connections.max.idle.ms": "2000"},
    ),
)

TWO_REPLICAS = {
    name: value
    for topic in ("offsets.topic", "transaction.state.log")
    for name, value in ((f"{topic}.num.partitions", "1"), (f"{topic}.replication.factor", "2"))
}
"""Options of internal topics: one node coordinates all of them, and another can take over."""

QUICK_JOBS = {
    "The first request of each API",
    "Creation of a topic of many partitions",
    "Deletion of a topic of many partitions",
    "First produce to many partitions",
    "Retention of many logs",
    "A clean pass",
    "Deletion of a topic that many groups committed",
    "Sessions of a consumer group end",
    "Held heartbeats of a group end, as a member leaves",
    "Transactions time out",
}

Pinged = Callable[[BrokerProcess], AbstractContextManager[tuple[BrokerProcess, Pinger]]]


def run(figures: Figures, broker: Callable[..., BrokerProcess], pinged: Pinged, *, quick: bool, is_ottla: bool) -> None:
    for job in JOBS:
        if not figures.wants(job.name) or (quick and job.name not in QUICK_JOBS and not figures.is_narrowed):
            continue
        if not is_ottla and (job.needs_clock or job.nodes > 1):
            continue
        size = job.quick_size if quick else job.size
        figures.measure(job.name, job.form.format(size=size), partial(_done, job, size, broker, pinged))


def _done(job: Job, size: int, broker: Callable[..., BrokerProcess], pinged: Pinged) -> Hold:
    with ExitStack() as stack:
        if job.nodes > 1:
            process = stack.enter_context(broker(job.nodes, TWO_REPLICAS | job.overrides))
            node_id = _coordinator(process, job.key_type)
            assert isinstance(process, ClockedOttla)
            assert process.process is not None
            pinger = Pinger(process.addresses[1 - node_id], process.process.pid, process.take_steps)
            stack.enter_context(pinger)
        else:
            process, pinger = stack.enter_context(pinged(broker(1, job.overrides)))
            node_id = 0
        at_client = stack.enter_context(client(process.addresses[node_id]))
        at = At(process, at_client, node_id, size, stack.enter_context(ExitStack()))
        job.prepare(at)
        at.settle()
        with pinger.watch() as hold:
            job.act(at)
            at.settle()
    return hold


def _coordinator(process: BrokerProcess, key_type: int) -> int:
    """Return the node that coordinates everything of this kind."""
    with client(process.bootstrap) as at:
        asked = FindCoordinatorRequest(key="any", key_type=key_type)
        return int(retried(lambda: at.ask(asked, 3), lambda answer: not answer.error_code).node_id)
