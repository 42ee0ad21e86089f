"""Fetch, API key 1, versions 4-18.

Behaviour
- Answers at once when there are `min_bytes`, an error, a diverging epoch, nothing is asked for, or a partition is read
  in an older segment than the one in which what may be read ends; else parks (see `waits`) until that is so or
  `max_wait_ms` is over. Nothing polls.
- A look at many partitions takes several turns. What came meanwhile is seen when the fetch begins to watch them; if
  something else changed, it looks again.
- Partitions that are not there do not hurry the answer while others are, as in Apache Kafka: a client that still asks
  for a deleted topic would ask in a loop.
- What counts towards `min_bytes` and the limits is what Apache Kafka would send, the part of a last batch included
  that is cut off by a limit. Sent are whole batches only.
- The first partition with data gives its first batch whole even when that exceeds the limits, so a
  consumer always gets on (KIP-74).
- Who may read a topic is asked when the request comes, as in Apache Kafka: what is taken away while a fetch is parked
  counts for the next one, in a session too. Partitions of topics that may not be read do not hurry the answer either.
- `read_committed` reads up to the last stable offset and is told the aborted transactions. Where they are very many, an
  answer holds fewer records, so that nobody's memory fills with their names.
- Sessions (KIP-227) see `fetch_sessions`; topic ids from version 13 (KIP-516); the current leader
  with NOT_LEADER_OR_FOLLOWER from 12, its address from 16 (KIP-951).

Differs from Apache Kafka
- Behind the last stable offset `read_committed` waits, see `waits`.
- There are no followers: a replica id in the request is ignored, the reader is a consumer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

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
from ...protocol.schema import maker
from ...protocol.wire import as_array
from ...storage.disk.files import WouldWaitError
from ...storage.segment.index import AbortedTxn
from ..network.connection import PEER_CHECK_MS
from ..network.transport import COPIED_BYTES
from ..partitions.fetch_sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchItem,
    FetchSession,
    FetchSessions,
    TopicKey,
    item_of,
)
from ..partitions.topics import Partition
from ..partitions.waits import Waiter, Wanted
from ..runtime.cold_reads import TRIES_MAX, bring
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import Operation, ResourceType
from ..services.context import Context
from .permissions import refusal
from .routing import NotLeaderError, endpoints, led_partition

Answer = tuple[FetchItem, PartitionData]

# Of what nearly every answer consists.
_answer, _topic_answer, _partition_answer = maker(FetchResponse), maker(FetchableTopicResponse), maker(PartitionData)
TOPIC_IDS = 13
READ_COMMITTED = 1
# Of thousands that have been parked for long, each look costs: who leaves holds its place for as long again at most.
PEER_CHECK_MS_MAX = 60_000
# Partitions whose errors and answers may go in one go: a tenth of a millisecond.
FREED_AT_ONCE = 100
# Aborted transactions of a partition that take less than a millisecond; 50 MB of records may hold half a million.
ABORTED_AT_ONCE = 500
# So they are bounded: a partition with as many gives so much at a time, in which some 4 000 can begin, and with so many in an
# answer no further partition gives anything. What was open where the fetch begins has to be named, one for a producer at most.
MANY_ABORTED_BYTES = 256 << 10
ABORTED_MAX = 5_000


class Found(NamedTuple):
    """What a look at one partition found."""

    data: PartitionData
    wanted: Wanted | None = None
    """What to wait for; None if there is nothing to wait for, but an error or epochs that diverge."""
    offered_bytes: int = 0
    """How many count."""
    more_aborted: Iterator[AbortedTxn] | None = None
    """Aborted transactions that `data` does not name yet, if there may be any."""


@dataclass(slots=True)
class Look:
    """What one look at all wanted partitions found."""

    answers: list[Answer] = field(default_factory=list)
    offered_bytes: int = 0
    must_answer: bool = False
    missing_count: int = 0
    """Partitions that are not there."""
    aborted_count: int = 0
    has_waited: bool = False
    """Whether others had their turn meanwhile, as it was long or the disk had to be waited for: there may be more by now."""
    wanted: list[Wanted] = field(default_factory=list)
    leaders: set[int] = field(default_factory=set)


def handle(ctx: Context, request: Request) -> Any:
    """A fetch of one partition without a session is answered here, if it need not wait and finds no error."""
    return _fetch_one(ctx, request) or _fetch(ctx, request)


async def _fetch(ctx: Context, request: Request) -> FetchResponse:
    body: FetchRequest = request.body
    waits, time_slice = ctx.services.waits, ctx.time_slice
    try:
        session, items = await ctx.services.fetch_sessions[ctx.node.node_id].begin(
            body, request.version >= TOPIC_IDS, ctx.services.clock.elapsed_ms(), time_slice
        )
    except KafkaError as error:
        return FetchResponse(throttle_time_ms=0, error_code=error.code, session_id=NO_SESSION, responses=())
    unread: Collection[TopicKey] = ()
    if ctx.services.authorizer is not None:
        unread = await _unread(ctx, body, items, time_slice)
    max_bytes = min(body.max_bytes, ctx.services.config.current.fetch_max_bytes)
    min_bytes = min(body.min_bytes, max_bytes)
    committed = body.isolation_level == READ_COMMITTED

    changes = waits.changes
    look = await _look(ctx, items, unread, max_bytes, committed, time_slice)
    missing_count, deadline_s = look.missing_count, None
    while look.wanted and not look.must_answer and look.missing_count == missing_count:
        if look.offered_bytes >= min_bytes or ctx.services.cluster.is_stopping:
            break
        now_s = trio.current_time()
        if deadline_s is None:
            deadline_s = now_s + body.max_wait_ms / 1000
        if now_s >= deadline_s:
            break
        with waits.waiter(min_bytes, committed=committed, is_alone=len(look.wanted) == 1) as waiter:
            is_enough = await _watch(ctx, look, waiter, changes, deadline_s)
        if is_enough:
            break
        changes = waits.changes
        if len(items) > FREED_AT_ONCE:
            await time_slice.empty(look.answers, look.wanted)
        look = await _look(ctx, items, unread, max_bytes, committed, time_slice)
        if waiter.is_complete:
            break

    answers = (
        look.answers if session is None else await _told(session, look.answers, body.session_epoch > 0, time_slice)
    )
    responses = await _by_topic(answers, time_slice)
    if len(items) > FREED_AT_ONCE:
        await time_slice.empty(look.wanted, look.answers, answers, items)
    return _answer(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        session_id=session.session_id if session else NO_SESSION,
        responses=responses,
        node_endpoints=_endpoints(ctx, look.leaders) if look.leaders else (),
    )


async def _watch(ctx: Context, look: Look, waiter: Waiter, changes: int, deadline_s: float) -> bool:
    """Wait until there may be enough, unless there is already, or something has changed since `changes` were counted.

    Returns:
        Whether what `look` has found is enough.
    """
    time_slice, is_stale = ctx.time_slice, look.has_waited
    for wanted in look.wanted:
        if time_slice.is_over():
            await time_slice.next()
            is_stale = True
        waiter.watch(wanted)
    is_complete = waiter.is_complete
    if not is_complete and ctx.services.waits.changes == changes:
        await wait_for(ctx, waiter, deadline_s)
        time_slice.begin()
    await waiter.leave(time_slice)
    return is_complete and not is_stale


def _fetch_one(ctx: Context, request: Request) -> FetchResponse | None:
    body: FetchRequest = request.body
    services, topics = ctx.services, body.topics
    if body.session_epoch != FINAL_EPOCH or body.session_id != NO_SESSION or services.authorizer is not None:
        return None
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic = topics[0]
    item = item_of(topic, topic.partitions[0], request.version >= TOPIC_IDS)
    max_bytes = min(body.max_bytes, services.config.current.fetch_max_bytes)
    try:
        partition = led_partition(ctx, item.topic, item.partition)
        found = _read(partition, item, max_bytes, True, body.isolation_level == READ_COMMITTED, at_once=True)
    except (KafkaError, WouldWaitError):
        return None
    data, wanted, offered_bytes, more_aborted = found
    if wanted is None or more_aborted is not None or (data.records and len(data.records) > COPIED_BYTES):
        return None
    if offered_bytes < min(body.min_bytes, max_bytes) and body.max_wait_ms > 0:
        return None
    return _answer(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        session_id=NO_SESSION,
        responses=(_topic_answer(topic=topic.topic, topic_id=topic.topic_id, partitions=(data,)),),
        node_endpoints=(),
    )


def _endpoints(ctx: Context, leaders: set[int]) -> tuple[NodeEndpoint, ...]:
    return tuple(
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints(ctx, leaders)
    )


async def _told(session: FetchSession, answers: list[Answer], incremental: bool, time_slice: TimeSlice) -> list[Answer]:
    """Those that the answer holds: in an incremental one, what is news."""
    told = []
    async for item, data in time_slice.each(answers):
        # Every item is told, so that the session knows what the client knows.
        if item.has_news(data) or not incremental:
            told.append((item, data))
            if incremental and data.records:
                FetchSessions.served(session, item)
    return told


async def wait_for(ctx: Context, waiter: Waiter, deadline_s: float) -> None:
    """Until something wakes `waiter` or its time is over; PeerGoneError if the client goes meanwhile."""
    patience_ms = PEER_CHECK_MS
    while (left_ms := (deadline_s - trio.current_time()) * 1000) > 0:
        if await waiter.wait(min(left_ms, patience_ms)):
            return
        ctx.client.check_peer()
        patience_ms = min(2 * patience_ms, PEER_CHECK_MS_MAX)


async def _unread(ctx: Context, body: FetchRequest, items: list[FetchItem], time_slice: TimeSlice) -> set[TopicKey]:
    """The topics that the client may not read. A broker, which its replica id tells, needs a right to the cluster instead."""
    is_broker = body.replica_id >= 0 or body.replica_state.replica_id >= 0
    if is_broker and ctx.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return set()
    known, found = ctx.services.topics, set()
    async for key in time_slice.each(dict.fromkeys(await time_slice.map(attrgetter("topic"), items))):
        topic = None if isinstance(key, str) else known.by_id(key)
        name = key if isinstance(key, str) else None if topic is None else topic.name
        # An id that is nobody's is no secret, but of brokers.
        if is_broker or (name is not None and not ctx.may(Operation.READ, ResourceType.TOPIC, name)):
            found.add(key)
    return found


async def _look(
    ctx: Context,
    items: list[FetchItem],
    unread: Collection[TopicKey],
    max_bytes: int,
    committed: bool,
    time_slice: TimeSlice,
) -> Look:
    """Read what is there now, in order, until `max_bytes` are found; of topics in `unread` nothing.

    What is not in memory is brought by a worker thread first; nearly always nothing has to be.
    """
    look = Look()
    left_bytes = max_bytes
    for item in items:
        if look.answers and time_slice.is_over():
            await time_slice.next()
            look.has_waited = True
        if look.aborted_count >= ABORTED_MAX:
            left_bytes, look.must_answer = 0, True  # the client is to come again for it, not to wait
        if unread and item.topic in unread:
            look.answers.append((item, _refusal(item, refusal(ResourceType.TOPIC))))
            look.missing_count += 1
            continue
        try:
            partition = led_partition(ctx, item.topic, item.partition)
        except NotLeaderError as error:
            look.leaders.add(error.partition.leader)
            current_leader = LeaderIdAndEpoch(
                leader_id=error.partition.leader, leader_epoch=error.partition.leader_epoch
            )
            look.answers.append((item, _refusal(item, error, current_leader)))
            look.must_answer = True
            continue
        except KafkaError as error:
            look.answers.append((item, _refusal(item, error)))
            look.missing_count += 1
            continue
        try:
            try:
                found = _read(partition, item, left_bytes, look.offered_bytes == 0, committed, at_once=True)
            except WouldWaitError as cold:
                found = await _read_cold(ctx, cold, partition, item, left_bytes, look, committed)
        except KafkaError as error:
            found = Found(_refusal(item, error))
        data, wanted, offered_bytes, more_aborted = found
        if more_aborted is not None:
            assert data.aborted_transactions is not None
            more = await time_slice.map(_told_aborted, more_aborted)
            data = replace(data, aborted_transactions=as_array([*data.aborted_transactions, *more]))
            look.has_waited = True
        look.aborted_count += len(data.aborted_transactions or ())
        look.answers.append((item, data))
        if wanted is None:
            look.must_answer = True
        else:
            look.wanted.append(wanted)
            look.offered_bytes += offered_bytes
            left_bytes = max(0, left_bytes - offered_bytes)
    return look


async def _read_cold(
    ctx: Context,
    cold: WouldWaitError,
    partition: Partition,
    item: FetchItem,
    left_bytes: int,
    look: Look,
    committed: bool,
) -> Found:
    """`_read`, once all that it looks at is in memory; the partition is not the same any more if it has been made anew."""
    first = look.offered_bytes == 0
    look.has_waited = True
    for _ in range(TRIES_MAX):
        await bring(cold, partition.log)
        partition = led_partition(ctx, item.topic, item.partition)
        try:
            return _read(partition, item, left_bytes, first, committed, at_once=True)
        except WouldWaitError as colder:
            cold = colder
    return _read(partition, item, left_bytes, first, committed, at_once=False)


def _read(
    partition: Partition, item: FetchItem, left_bytes: int, first: bool, committed: bool, *, at_once: bool
) -> Found:
    """What partition `item` has to give, at most `left_bytes` unless its first batch may exceed them.

    Raises:
        KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        WouldWaitError: Only if `at_once`.
    """
    log = partition.log
    if item.current_leader_epoch != -1:
        partition.check_leader_epoch(item.current_leader_epoch)
    high_watermark, last_stable_offset = log.high_watermark, log.last_stable_offset
    if item.last_fetched_epoch >= 0:
        diverging = _diverging_epoch(partition, item)
        if diverging is not None:
            data = PartitionData(
                partition_index=item.partition,
                error_code=ErrorCode.NONE,
                high_watermark=high_watermark,
                last_stable_offset=last_stable_offset,
                log_start_offset=log.log_start_offset,
                diverging_epoch=diverging,
                aborted_transactions=None,
                records=b"",
            )
            return Found(data)
    up_to = last_stable_offset if committed else high_watermark
    end = log.locate(up_to, at_once=at_once)
    records, offered_bytes, start = log.fetch(
        item.fetch_offset,
        max_bytes=min(item.max_bytes, left_bytes),
        end=end,
        first_batch_whole=first,
        at_once=at_once,
    )
    aborted: tuple[AbortedTransaction, ...] | None = () if committed else None
    more_aborted = None
    if committed and records.size_bytes:
        more_aborted = log.overlapping_aborted(item.fetch_offset, up_to, records, at_once=at_once)
        aborted = tuple(map(_told_aborted, islice(more_aborted, ABORTED_AT_ONCE)))
        if len(aborted) == ABORTED_AT_ONCE and records.size_bytes > MANY_ABORTED_BYTES:
            records = log.fetch(item.fetch_offset, max_bytes=MANY_ABORTED_BYTES, end=end, at_once=at_once).records
            more_aborted = log.overlapping_aborted(item.fetch_offset, up_to, records, at_once=at_once)
            aborted = tuple(map(_told_aborted, islice(more_aborted, ABORTED_AT_ONCE)))
        if len(aborted) < ABORTED_AT_ONCE:
            more_aborted = None
    data = _partition_answer(
        partition_index=item.partition,
        error_code=ErrorCode.NONE,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=aborted,
        records=records if records.size_bytes else b"",
    )
    return Found(data, Wanted(log, start, end, item.max_bytes), offered_bytes, more_aborted)


def _told_aborted(txn: AbortedTxn) -> AbortedTransaction:
    return AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)


def _diverging_epoch(partition: Partition, item: FetchItem) -> EpochEndOffset | None:
    """Where the epoch ends that the client read last, if that is not where the client is (KIP-595).

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE: nothing is known of that epoch, or the client is below the log start.
    """
    log_start_offset = partition.log.log_start_offset
    epoch, end_offset = partition.end_of_epoch(item.last_fetched_epoch)
    if epoch < 0 or item.fetch_offset < log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {item.fetch_offset} after leader epoch {item.last_fetched_epoch} of {partition.topic_partition}, which"
            f" starts at {log_start_offset} and has leader epochs up to {partition.leader_epoch}",
        )
    if epoch < item.last_fetched_epoch or end_offset < item.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _refusal(item: FetchItem, error: KafkaError, current_leader: LeaderIdAndEpoch | None = None) -> PartitionData:
    return PartitionData(
        partition_index=item.partition,
        error_code=error.code,
        high_watermark=-1,
        aborted_transactions=None,
        current_leader=current_leader or LeaderIdAndEpoch(),
        records=b"",
    )


async def _by_topic(answers: list[Answer], time_slice: TimeSlice) -> tuple[FetchableTopicResponse, ...]:
    """Group neighbouring partitions of one topic, keeping the order."""
    if len(answers) == 1:
        ((item, data),) = answers
        return (_group((item.topic, [data])),)
    groups: list[tuple[TopicKey, list[PartitionData]]] = []
    async for item, data in time_slice.each(answers):
        if not groups or groups[-1][0] != item.topic:
            groups.append((item.topic, []))
        groups[-1][1].append(data)
    if len(groups) == 1:
        return (_group(groups[0]),)
    found = as_array(await time_slice.map(_group, groups))
    await time_slice.empty(groups)
    return found


def _group(group: tuple[TopicKey, list[PartitionData]]) -> FetchableTopicResponse:
    topic, partitions = group
    if isinstance(topic, str):
        return _topic_answer(topic=topic, partitions=as_array(partitions))
    return _topic_answer(topic_id=topic, partitions=as_array(partitions))
