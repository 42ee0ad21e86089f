"""Fetch, API key 1, versions 4-18.

Behaviour
- Answers at once when there are `min_bytes`, an error, a diverging epoch, or nothing is asked for;
  else parks until an append brings the missing bytes or `max_wait_ms` is over. Nothing polls.
- The first partition with data gives its first batch whole even when that exceeds the limits, so a
  consumer always gets on (KIP-74).
- `read_committed` reads up to the last stable offset and is told the aborted transactions.
- Sessions (KIP-227) see `fetch_sessions`; topic ids from version 13 (KIP-516); the current leader
  with NOT_LEADER_OR_FOLLOWER from 12, its address from 16 (KIP-951).

Differs from Apache Kafka
- There are no followers: a replica id in the request is ignored, the reader is a consumer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ...storage.paths import TopicPartition
from ..connection import PEER_CHECK_MS, Context
from ..fetch_sessions import NO_SESSION, FetchItem, FetchSessions, TopicKey
from ..routing import NotLeaderError, endpoints, led_partition
from ..topics import Partition

TOPIC_IDS = 13
READ_COMMITTED = 1


@dataclass(slots=True)
class Look:
    """What one look at all wanted partitions found."""

    answers: list[tuple[FetchItem, PartitionData]] = field(default_factory=list)
    size_bytes: int = 0
    must_answer: bool = False
    watched: list[TopicPartition] = field(default_factory=list)
    leaders: set[int] = field(default_factory=set)


async def handle(ctx: Context, request: Request) -> FetchResponse:
    body: FetchRequest = request.body
    sessions = ctx.node.fetch_sessions
    try:
        session, items = sessions.begin(body, request.version >= TOPIC_IDS, ctx.broker.clock.elapsed_ms())
    except KafkaError as error:
        return FetchResponse(throttle_time_ms=0, error_code=error.code, session_id=NO_SESSION, responses=())
    max_bytes = min(body.max_bytes, ctx.broker.config.fetch_max_bytes)
    min_bytes = min(body.min_bytes, max_bytes)
    committed = body.isolation_level == READ_COMMITTED

    look = _look(ctx, items, max_bytes, committed)
    deadline = trio.current_time() + body.max_wait_ms / 1000
    while items and not look.must_answer and look.size_bytes < min_bytes:
        left_ms = (deadline - trio.current_time()) * 1000
        if left_ms <= 0 or ctx.broker.stopping:
            break
        with ctx.broker.waits.park(look.watched, min_bytes - look.size_bytes) as waiter:
            if not await waiter.wait(min(left_ms, PEER_CHECK_MS)):
                ctx.connection.check_peer()
        look = _look(ctx, items, max_bytes, committed)

    answers = look.answers
    incremental = session is not None and body.session_epoch > 0
    if session is not None:
        # Every item is told, so that the session knows what the client knows.
        told = [(item, data) for item, data in answers if item.has_news(data) or not incremental]
        answers = told
        FetchSessions.served(session, [item for item, data in answers if data.records])
    return FetchResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        session_id=session.session_id if session else NO_SESSION,
        responses=_by_topic(answers),
        node_endpoints=tuple(
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in endpoints(ctx, look.leaders)
        ),
    )


def _look(ctx: Context, items: list[FetchItem], max_bytes: int, committed: bool) -> Look:
    """Read what is there now, in order, until `max_bytes` are found."""
    look = Look()
    left_bytes = max_bytes
    for item in items:
        partition: Partition | None = None
        try:
            partition = led_partition(ctx, item.topic, item.partition)
            data = _read(partition, item, left_bytes, look.size_bytes == 0, committed)
            look.watched.append(partition.topic_partition)
        except NotLeaderError as error:
            look.leaders.add(error.partition.leader)
            data = _refusal(
                item,
                error,
                current_leader=LeaderIdAndEpoch(
                    leader_id=error.partition.leader, leader_epoch=error.partition.leader_epoch
                ),
            )
            look.must_answer = True
        except KafkaError as error:
            data = _refusal(item, error)
            look.must_answer = True
        if data.diverging_epoch.epoch != -1:
            look.must_answer = True
        size_bytes = len(data.records) if data.records is not None else 0
        look.size_bytes += size_bytes
        left_bytes = max(0, left_bytes - size_bytes)
        look.answers.append((item, data))
    return look


def _read(partition: Partition, item: FetchItem, left_bytes: int, first: bool, committed: bool) -> PartitionData:
    """What partition `item` has to give, at most `left_bytes` unless its first batch may exceed them.

    Raises:
        KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
    """
    log = partition.log
    partition.check_leader_epoch(item.current_leader_epoch)
    if item.last_fetched_epoch >= 0:
        epoch, end_offset = log.leader_epochs.end_offset_for(item.last_fetched_epoch, log.log_end_offset)
        if epoch < item.last_fetched_epoch or end_offset < item.fetch_offset:
            return PartitionData(
                partition_index=item.partition,
                error_code=ErrorCode.NONE,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.log_start_offset,
                diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
                aborted_transactions=None,
                records=b"",
            )
    up_to = log.last_stable_offset if committed else log.high_watermark
    records = log.read(
        item.fetch_offset,
        max_bytes=min(item.max_bytes, left_bytes),
        up_to=up_to,
        first_batch_whole=first,
    )
    aborted = None
    if committed:
        aborted = tuple(
            AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
            for txn in (log.aborted_transactions(item.fetch_offset, up_to, records) if records else ())
        )
    return PartitionData(
        partition_index=item.partition,
        error_code=ErrorCode.NONE,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=aborted,
        records=records if records else b"",
    )


def _refusal(item: FetchItem, error: KafkaError, current_leader: LeaderIdAndEpoch | None = None) -> PartitionData:
    return PartitionData(
        partition_index=item.partition,
        error_code=error.code,
        high_watermark=-1,
        aborted_transactions=None,
        current_leader=current_leader or LeaderIdAndEpoch(),
        records=b"",
    )


def _by_topic(answers: list[tuple[FetchItem, PartitionData]]) -> tuple[FetchableTopicResponse, ...]:
    """Group neighbouring partitions of one topic, keeping the order."""
    groups: list[tuple[TopicKey, list[PartitionData]]] = []
    for item, data in answers:
        if not groups or groups[-1][0] != item.topic:
            groups.append((item.topic, []))
        groups[-1][1].append(data)
    return tuple(
        FetchableTopicResponse(topic=topic, partitions=tuple(partitions))
        if isinstance(topic, str)
        else FetchableTopicResponse(topic_id=topic, partitions=tuple(partitions))
        for topic, partitions in groups
    )
