"""The counted requests: for each row a conversation, and which of its requests counts.

A conversation is a generator. It yields requests, is sent the answers, and yields `COUNTED` before the one that counts. Each
run of it has a number of its own, so that the groups and transactions that it creates are new.
"""

import struct
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.messages import consumer_group_heartbeat as consumer
from ottla.protocol.messages import share_group_heartbeat as share
from ottla.protocol.messages import streams_group_heartbeat as streams
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TOPIC = "topic"
VERSIONS = {
    "AddPartitionsToTxn": 3,
    "ConsumerGroupHeartbeat": 1,
    "CreateTopics": 7,
    "EndTxn": 5,
    "Fetch": 12,
    "Heartbeat": 4,
    "InitProducerId": 5,
    "JoinGroup": 9,
    "LeaveGroup": 5,
    "Metadata": 12,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "Produce": 12,
    "ShareGroupHeartbeat": 1,
    "StreamsGroupHeartbeat": 0,
    "SyncGroup": 5,
    "TxnOffsetCommit": 5,
}
"""The newest ones that have topics by name, and AddPartitionsToTxn as producers send it."""

COUNTED = object()

Conversation = Generator[Any, Any, None]


class Row(NamedTuple):
    what: str
    conversation: Callable[[int], Conversation]
    most: int | None = None
    """Calls that it may take."""


def topic() -> CreateTopicsRequest:
    made = (CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1),)
    return CreateTopicsRequest(topics=made, timeout_ms=30_000)


# Records


def record(value_bytes: int = 100) -> ProduceRequest:
    batch = build_batch([(0, 1_700_000_000_000, b"key", b"v" * value_bytes, ())])
    partitions = (PartitionProduceData(index=0, records=batch),)
    return ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=TOPIC, partition_data=partitions),)
    )


def produce(_: int) -> Conversation:
    yield COUNTED
    yield record()


def fetching(offset: int, session_epoch: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic=TOPIC, partitions=(partition,)),)
    return FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=session_epoch, topics=topics)


def fetch_the_last(_: int) -> Conversation:
    whole = yield fetching(0, -1)
    yield COUNTED
    yield fetching(whole.responses[0].partitions[0].high_watermark - 1, -1)


def fetch_40_kb(_: int) -> Conversation:
    written = yield record(40_000)
    yield COUNTED
    yield fetching(written.responses[0].partition_responses[0].base_offset, -1)


def fetch_the_first(_: int) -> Conversation:
    yield COUNTED
    yield fetching(0, -1)


def fetch_in_session(_: int) -> Conversation:
    whole = yield fetching(0, -1)
    session = yield fetching(whole.responses[0].partitions[0].high_watermark, 0)
    yield COUNTED
    yield FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session.session_id, session_epoch=1)


def metadata(_: int) -> Conversation:
    yield COUNTED
    yield MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False)


# Classic groups


def joining(group: str, member: str) -> JoinGroupRequest:
    subscription = struct.pack(f">hih{len(TOPIC)}si", 0, 1, len(TOPIC), TOPIC.encode(), -1)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=member,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
    )


def in_classic_group(number: int, then: Callable[[str, str, int], Conversation], what_counts: str = "") -> Conversation:
    """Make a group of one member, and continue with `then`, called with the group's name, the member id and the generation."""
    group = f"classic-{number}"
    given = yield joining(group, "")
    if what_counts == "join":
        yield COUNTED
    joined = yield joining(group, given.member_id)
    if what_counts == "sync":
        yield COUNTED
    yield SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"x"),),
    )
    yield from then(group, joined.member_id, joined.generation_id)


def stay(group: str, member: str, generation: int) -> Conversation:
    beat = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
    yield beat
    yield COUNTED
    yield beat


def nothing(_group: str, _member: str, _generation: int) -> Conversation:
    yield from ()


def leave(group: str, member: str, _generation: int) -> Conversation:
    yield COUNTED
    yield LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id=member),))


def committing(group: str, member: str, generation: int) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(row,)),),
    )


def commit(group: str, member: str, generation: int) -> Conversation:
    yield committing(group, member, generation)
    yield COUNTED
    yield committing(group, member, generation)


def committed(group: str, member: str, generation: int) -> Conversation:
    yield committing(group, member, generation)
    topics = (OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,)),)
    yield COUNTED
    yield OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=topics),), require_stable=True)


# Groups whose members only send heartbeats: consumer, share and streams groups


class Kind(NamedTuple):
    """The requests of a member of a kind of group: to join, and later."""

    join: Callable[[str, str], Any]
    stay: Callable[[str, str, int], Any]


CONSUMER = Kind(
    lambda group, member: consumer.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=(TOPIC,),
        topic_partitions=(),
    ),
    lambda group, member, epoch: consumer.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch
    ),
)
SHARE = Kind(
    lambda group, member: share.ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, subscribed_topic_names=(TOPIC,)
    ),
    lambda group, member, epoch: share.ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch),
)
STREAMS = Kind(
    lambda group, member: streams.StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        rebalance_timeout_ms=300_000,
        process_id=member,
        topology=streams.Topology(
            epoch=1,
            subtopologies=(streams.Subtopology(subtopology_id="0", source_topics=(TOPIC,)),),
        ),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    ),
    lambda group, member, epoch: streams.StreamsGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch
    ),
)
LEAVES = -1


def first_joins(kind: Kind, number: int) -> Conversation:
    yield COUNTED
    yield kind.join(f"group-{number}", f"a-{number}")


def second_joins(kind: Kind, number: int) -> Conversation:
    group = f"group-{number}"
    yield kind.join(group, f"a-{number}")
    yield COUNTED
    yield kind.join(group, f"b-{number}")


def alone(kind: Kind, number: int) -> Generator[Any, Any, tuple[str, str, int]]:
    """Create a group whose only member gets all partitions or tasks."""
    group, member = f"group-{number}", f"a-{number}"
    answer = yield kind.join(group, member)
    for _ in range(3):
        answer = yield kind.stay(group, member, answer.member_epoch)
    return group, member, answer.member_epoch


def stays(kind: Kind, number: int) -> Conversation:
    group, member, epoch = yield from alone(kind, number)
    yield COUNTED
    yield kind.stay(group, member, epoch)


def leaves(kind: Kind, number: int) -> Conversation:
    group, member, _ = yield from alone(kind, number)
    yield COUNTED
    yield kind.stay(group, member, LEAVES)


# Transactions


def transaction(number: int, what_counts: str) -> Conversation:
    """AddPartitionsToTxn, TxnOffsetCommit and EndTxn of a new transactional id."""
    name = f"transaction-{number}"
    producer = yield InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    of_producer = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    if what_counts == "add":
        yield COUNTED
    yield AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=(AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,)),),
    )
    if what_counts == "commit":
        yield COUNTED
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    yield TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=f"group-{number}",
        topics=(TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(row,)),),
        **of_producer,
    )
    if what_counts == "end":
        yield COUNTED
    yield EndTxnRequest(transactional_id=name, committed=True, **of_producer)


STAYS_MOST = 60
"""Calls that a heartbeat with nothing new may take."""


def rows() -> list[Row]:
    of_kinds = [
        row
        for api, kind, first_most, second_most in (
            ("ConsumerGroupHeartbeat", CONSUMER, 235, 235),
            ("ShareGroupHeartbeat", SHARE, 355, 210),
            ("StreamsGroupHeartbeat", STREAMS, 250, 210),
        )
        for row in (
            Row(f"{api}, nothing new", lambda number, kind=kind: stays(kind, number), STAYS_MOST),  # type: ignore[misc]
            Row(f"{api}, the first joins", lambda number, kind=kind: first_joins(kind, number), first_most),  # type: ignore[misc]
            Row(f"{api}, the second joins", lambda number, kind=kind: second_joins(kind, number), second_most),  # type: ignore[misc]
            Row(f"{api}, the last leaves", lambda number, kind=kind: leaves(kind, number)),  # type: ignore[misc]
        )
    ]
    return [
        Row("Heartbeat, nothing new", lambda number: in_classic_group(number, stay), STAYS_MOST),
        Row("JoinGroup, the first", lambda number: in_classic_group(number, nothing, "join")),
        Row("SyncGroup of the leader", lambda number: in_classic_group(number, nothing, "sync")),
        Row("LeaveGroup, the last", lambda number: in_classic_group(number, leave)),
        Row("OffsetCommit of 1 partition", lambda number: in_classic_group(number, commit), 115),
        Row("OffsetFetch of 1 partition", lambda number: in_classic_group(number, committed)),
        *of_kinds,
        Row("AddPartitionsToTxn of 1 partition", lambda number: transaction(number, "add")),
        Row("TxnOffsetCommit of 1 partition", lambda number: transaction(number, "commit")),
        Row("EndTxn, 2 partitions", lambda number: transaction(number, "end")),
        Row("Produce of 1 record", produce, 45),
        Row("Fetch of 1 partition, its last record", fetch_the_last, 45),
        Row("Fetch of 1 partition, a record of 40 KB", fetch_40_kb, 55),
        Row("Fetch of 1 partition, from its first record on", fetch_the_first),
        Row("Fetch in a session, nothing new", fetch_in_session, 45),
        Row("Metadata of 1 topic", metadata),
    ]
