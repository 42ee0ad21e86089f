"""Fetch, API key 1, versions 4-18.

Behaviour
- Answers at once when there are `min_bytes`, an error or a diverging epoch, when no partition is requested, or when a partition
  is read in an older segment than the one with the end of the readable records; else parks (see `waits`) until one of these is
  true or `max_wait_ms` is over. Nothing polls. A fetch of few partitions parks without a task (`WaitingFetch`). With
  `ottla.hold.heartbeats` the response is sent soon when the client sends another request on the connection: a response keeps
  those to later requests waiting.
- A scan of many partitions takes several time slices. Records that arrive during the scan are seen when the fetch begins to
  watch the partitions; after any other change it scans again.
- Missing partitions do not make the response immediate while others exist, as in Apache Kafka: a client that still fetches a
  deleted topic would do so in a loop.
- Towards `min_bytes` and the limits count the bytes that Apache Kafka would send, including the part of a last batch that a
  limit cuts off. Only whole batches are sent.
- The first partition with data gives its first batch whole even when that exceeds the limits, so a consumer always makes
  progress (KIP-74).
- Permissions are checked when the request arrives, as in Apache Kafka: a permission that is revoked while a fetch is parked
  counts for the next one, also in a session. Partitions of topics that may not be read do not make the response immediate
  either.
- `read_committed` reads up to the last stable offset and gets the aborted transactions. If they are very many, a response has
  fewer records, so that their list does not fill the memory.
- Sessions (KIP-227) see `fetch_sessions`; topic ids from version 13 (KIP-516); the current leader
  with NOT_LEADER_OR_FOLLOWER from 12, its address from 16 (KIP-951).

Differs from Apache Kafka
- A `read_committed` fetch that begins beyond the last stable offset waits, see `waits`.
- The broker has no followers: a replica id in the request is ignored, the reader is a consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
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
from ...protocol.schema import ZERO_UUID, maker
from ...protocol.wire import as_array
from ...storage.disk.files import WouldWaitError
from ...storage.produce.record_checks import EarlyRefusalError
from ...storage.segment.index import AbortedTxn
from ...storage.steps import A_PIECE, Steps, to_the_end
from ..network.connection import PEER_CHECK_MS
from ..network.dispatcher import Deferred
from ..partitions.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Begun,
    FetchItem,
    FetchSession,
    FetchSessions,
    Reader,
    TopicKey,
    item_of,
)
from ..partitions.topics import Partition
from ..partitions.waits import TICK_MS, Waiter, WantedPartition
from ..runtime.threads import TRIES_MAX, load_cold
from ..runtime.time_slices import run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import refusal
from .routing import endpoints, led_partition

Answer = tuple[FetchItem, PartitionData]

# The classes that nearly every response consists of.
_answer, _topic_answer, _partition_answer = (
    maker(FetchResponse),
    maker(FetchableTopicResponse),
    maker(PartitionData),
)
TOPIC_IDS = 13
READ_COMMITTED = 1
# Of thousands that have been parked for long, each check costs: the place of a client that has disconnected is kept for this
# much longer at most.
PEER_CHECK_MS_MAX = 60_000
# A client may send fetches without waiting for the responses: each waits for records this long before the next one ends the wait.
WAIT_MS_MIN = 20
# Aborted transactions of a partition that are read at once, in less than a millisecond; 50 MB of records may contain half a
# million.
ABORTED_AT_ONCE = 500
# Hence these limits: a partition with ABORTED_AT_ONCE or more returns this many bytes, in which some 4 000 can begin, and after
# ABORTED_MAX in a response further partitions return none. Transactions open at the fetch offset must be listed, at most one
# per producer.
MANY_ABORTED_BYTES = 256 << 10
ABORTED_MAX = 5_000


class FoundPartition(NamedTuple):
    """Result of reading one partition."""

    data: PartitionData
    wanted: WantedPartition | None = None
    """The partition to wait for; None for an error or a diverging epoch."""
    offered_bytes: int = 0
    """Bytes that count towards `min_bytes` and the limits."""
    more_aborted: Iterator[AbortedTxn] | None = None
    """Aborted transactions that are not in `data` so far, if there may be any."""


@dataclass(slots=True)
class FetchQuery:
    """Parameters of a request."""

    body: FetchRequest
    session: FetchSession | None
    items: list[FetchItem]
    unread: Collection[TopicKey]
    """Topics that the client may not read."""
    min_bytes: int
    max_bytes: int
    client_id: str


@dataclass(slots=True)
class FetchScan:
    """Result of one scan of all requested partitions."""

    left_bytes: int
    """Bytes that the response may still take."""
    answers: list[Answer] = field(default_factory=list)
    offered_bytes: int = 0
    is_enough: bool = False
    """Whether to answer now, as there are `min_bytes` or an error."""
    missing_count: int = 0
    """Number of missing partitions."""
    aborted_count: int = 0
    more_aborted: Iterator[AbortedTxn] | None = None
    """Aborted transactions that the last of `answers` does not list so far."""
    has_waited: bool = False
    """Whether other tasks ran during the scan, as it was long or waited for the disk: there may be more records by now."""
    wanted: list[WantedPartition] = field(default_factory=list)
    leaders: set[int] = field(default_factory=set)


def handle(ctx: Context, request: Request) -> Any:
    """Answer a fetch of few partitions here if it need not wait."""
    return _fetch_one(ctx, request) or _fetch_few(ctx, request)


def _fetch_one(ctx: Context, request: Request) -> FetchResponse | None:
    """Answer a fetch of one partition without a session, as most clients send it, with a minimum of work; None if it has to
    wait, or has an error."""
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
    if wanted is None or more_aborted is not None:
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


def _fetch_few(ctx: Context, request: Request) -> Any:
    """Return the response, or the coroutine that continues if the fetch has to wait or has many partitions."""
    body, services = request.body, ctx.services
    sessions, waits = services.fetch_sessions[ctx.node.node_id], services.waits
    client_id = request.client_id or ""
    reader = partial(_reader, ctx, client_id)
    beginning = sessions.begin(body, request.version >= TOPIC_IDS, services.clock.elapsed_ms, reader)
    try:
        next(beginning)
    except StopIteration as end:
        session, items = end.value
    except KafkaError as error:
        return _refused(error)
    else:
        return _fetch(ctx, body, client_id, beginning)
    unread = () if services.authorizer is None else to_the_end(_unread(ctx, body, items))
    max_bytes = min(body.max_bytes, services.config.current.fetch_max_bytes)
    asked = FetchQuery(body, session, items, unread, min(body.min_bytes, max_bytes), max_bytes, client_id)
    changes, look = waits.changes, _scan_few(ctx, asked)
    if look is None:
        return _scan_until_enough(ctx, asked)
    if look.wanted and not look.is_enough and body.max_wait_ms > 0:
        return WaitingFetch(ctx, asked, look, changes, trio.current_time() + body.max_wait_ms / 1000)
    return to_the_end(_answer_of(ctx, asked, look))


def _scan_few(ctx: Context, asked: FetchQuery) -> FetchScan | None:
    """Scan all partitions at once; None if that would wait for the disk, or there are many aborted transactions."""
    look = FetchScan(asked.max_bytes)
    try:
        for item in asked.items:
            _read_partition(ctx, asked, look, item)
            if look.more_aborted is not None or look.aborted_count >= ABORTED_AT_ONCE:
                return None
    except WouldWaitError:
        return None
    return look


class WaitingFetch(Deferred):
    """A fetch of few partitions that waits for records, without a task.

    Args:
        look: Result of the scan that was not enough. No other task may run between the scan and `begin`.
        changes: Count of `waits` before that scan.
        deadline_s: End of the wait; it may come up to TICK_MS later.
    """

    __slots__ = (
        "_asked",
        "_changes",
        "_ctx",
        "_deadline_s",
        "_has_left",
        "_is_complete",
        "_is_woken",
        "_look",
        "_soon_s",
        "_waiter",
    )

    def __init__(self, ctx: Context, asked: FetchQuery, look: FetchScan, changes: int, deadline_s: float) -> None:
        super().__init__(ctx.services.waits.deferrals, deadline_s * 1000 + TICK_MS)
        self._ctx, self._asked, self._look, self._changes = ctx, asked, look, changes
        self._deadline_s, self._soon_s = deadline_s, trio.current_time() + WAIT_MS_MIN / 1000
        self._is_woken = self._is_complete = self._has_left = False
        self._waiter: Waiter | None = None

    def begin(self, send: Callable[[], object]) -> None:
        super().begin(send)
        asked, wanted = self._asked, self._look.wanted
        committed = asked.body.isolation_level == READ_COMMITTED
        waiter = self._waiter = self._ctx.services.waits.waiter(
            asked.min_bytes, committed=committed, is_alone=len(wanted) == 1, on_wake=self._wake
        )
        waiter.reader = _reader(self._ctx, asked.client_id)
        for each in wanted:
            waiter.watch(each)
        # Not needed any more: a third of the memory of a wait.
        self._look.answers, self._look.wanted = [], []

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._waits.end_soon(self)

    def leave(self) -> None:
        super().leave()
        if self._waiter is not None:
            self._is_complete = self._waiter.is_complete
            self._waiter.__exit__()
            self._waiter = None  # it refers to this object

    def yields(self, *, is_ending: bool) -> bool:
        """With `ottla.hold.heartbeats` the wait ends soon: the next request may be a heartbeat."""
        if is_ending:
            self._has_left = True
            return True
        if not self._ctx.services.config.current.ottla_hold_heartbeats:
            return False
        self.move(self._soon_s * 1000 + TICK_MS)
        return self._soon_s <= trio.current_time()

    def finish(self, handle_again: Callable[[], Any]) -> Any:
        ctx, asked, waits = self._ctx, self._asked, self._ctx.services.waits
        if self._has_left:  # Thousands may leave at once: others must not wait for a scan for each.
            session_id = NO_SESSION if asked.session is None else asked.session.session_id
            return FetchResponse(session_id=session_id, responses=())
        is_over = not self._is_woken or self._is_complete or ctx.services.cluster.is_stopping
        changes, look = waits.changes, _scan_few(ctx, asked)
        if look is None:
            return _scan_until_enough(ctx, asked, deadline_s=0.0 if is_over else self._deadline_s)
        if is_over or look.is_enough or not look.wanted or look.missing_count != self._look.missing_count:
            return to_the_end(_answer_of(ctx, asked, look))
        return WaitingFetch(ctx, asked, look, changes, self._deadline_s)

    def instead(self) -> Any:
        self._look.has_waited = True  # before the coroutine begins
        return _scan_until_enough(self._ctx, self._asked, self._look, self._changes, self._deadline_s)


async def _fetch(ctx: Context, body: FetchRequest, client_id: str, beginning: Begun) -> FetchResponse:
    """Answer a fetch of many partitions."""
    services, time_slice = ctx.services, ctx.time_slice
    try:
        session, items = await run_cooperatively(beginning, time_slice)
    except KafkaError as error:
        return _refused(error)
    unread: Collection[TopicKey] = ()
    if services.authorizer is not None:
        unread = await run_cooperatively(_unread(ctx, body, items), time_slice)
    max_bytes = min(body.max_bytes, services.config.current.fetch_max_bytes)
    return await _scan_until_enough(
        ctx, FetchQuery(body, session, items, unread, min(body.min_bytes, max_bytes), max_bytes, client_id)
    )


async def _scan_until_enough(
    ctx: Context,
    asked: FetchQuery,
    look: FetchScan | None = None,
    changes: int = 0,
    deadline_s: float | None = None,
) -> FetchResponse:
    """Scan until there is enough, or time is over.

    Args:
        look: Result of an earlier scan that was not enough.
        changes: Count of `waits` before that scan.
        deadline_s: End of the wait, by Trio's time; None: as requested, from now on.
    """
    body, waits, time_slice = asked.body, ctx.services.waits, ctx.time_slice
    if look is None:
        changes, look = waits.changes, await _scan(ctx, asked)
    missing_count = look.missing_count
    while look.wanted and not look.is_enough and look.missing_count == missing_count:
        if ctx.services.cluster.is_stopping:
            break
        now_s = trio.current_time()
        if deadline_s is None:
            deadline_s = now_s + body.max_wait_ms / 1000
        if now_s >= deadline_s:
            break
        committed = body.isolation_level == READ_COMMITTED
        with waits.waiter(asked.min_bytes, committed=committed, is_alone=len(look.wanted) == 1) as waiter:
            waiter.reader = _reader(ctx, asked.client_id)
            has_enough = await _watch(ctx, look, waiter, changes, deadline_s)
        if has_enough:
            break
        changes = waits.changes
        if len(asked.items) > A_PIECE:
            await time_slice.empty(look.answers, look.wanted)
        look = await _scan(ctx, asked)
        if waiter.is_complete:
            break
    answer = await run_cooperatively(_answer_of(ctx, asked, look), time_slice)
    if len(asked.items) > A_PIECE:
        await time_slice.empty(look.wanted, look.answers, asked.items)
    return answer


def _reader(ctx: Context, client_id: str) -> Reader:
    return Reader(client_id, ctx.client.client_host, ctx.client.peer)


def _refused(error: KafkaError) -> FetchResponse:
    return FetchResponse(throttle_time_ms=0, error_code=error.code, session_id=NO_SESSION, responses=())


async def _watch(ctx: Context, look: FetchScan, waiter: Waiter, changes: int, deadline_s: float) -> bool:
    """Wait until there may be enough, unless there is already, or something has changed since `changes` were counted.

    Returns:
        Whether the result in `look` is enough.
    """
    time_slice, is_stale = ctx.time_slice, look.has_waited
    for wanted in look.wanted:
        if time_slice.is_over():
            await time_slice.next()
            is_stale = True
        waiter.watch(wanted)
    is_complete = waiter.is_complete
    if not is_complete and ctx.services.waits.changes == changes:
        if await wait_for(ctx, waiter, deadline_s):
            waiter.is_complete = True
        time_slice.begin()
    await waiter.leave(time_slice)
    return is_complete and not is_stale


def _answer_of(ctx: Context, asked: FetchQuery, look: FetchScan) -> Steps[FetchResponse]:
    """Make the response of a scan; in a later fetch of a session, only of changed partitions. Neighbouring partitions of one
    topic are one row."""
    session, is_long = asked.session, len(look.answers) > A_PIECE
    is_incremental = session is not None and asked.body.session_epoch > INITIAL_EPOCH
    topics: list[FetchableTopicResponse] = []
    topic: TopicKey = ""
    partitions: list[PartitionData] = []
    for item, data in look.answers:
        if is_long:
            yield
        if session is not None:
            # Each item is checked, so that the session knows the client's state.
            if not item.has_news(data) and is_incremental:
                continue
            if is_incremental and data.records:
                FetchSessions.move_to_end(session, item)
        if partitions and topic != item.topic:
            topics.append(_row(topic, partitions))
            partitions = []
        topic = item.topic
        partitions.append(data)
    if partitions:
        topics.append(_row(topic, partitions))
    return _answer(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        session_id=NO_SESSION if session is None else session.session_id,
        responses=as_array(topics),
        node_endpoints=_endpoints(ctx, look.leaders) if look.leaders else (),
    )


def _row(topic: TopicKey, partitions: list[PartitionData]) -> FetchableTopicResponse:
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    return _topic_answer(topic=name, topic_id=topic_id, partitions=as_array(partitions))


def _endpoints(ctx: Context, leaders: set[int]) -> tuple[NodeEndpoint, ...]:
    return tuple(
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints(ctx, leaders)
    )


async def wait_for(ctx: Context, waiter: Waiter, deadline_s: float) -> bool:
    """Wait until `waiter` is woken or its time is over; with `ottla.hold.heartbeats` soon when the client sends another request.

    Returns:
        Whether the wait was ended for another request.

    Raises:
        trio.BrokenResourceError: The client has disconnected.
    """
    client, now_s, patience_s = ctx.client, trio.current_time(), PEER_CHECK_MS / 1000
    soon_s, end_s = min(deadline_s, now_s + WAIT_MS_MIN / 1000), deadline_s

    def hurry() -> None:
        nonlocal end_s
        end_s = soon_s
        waiter.hurry(soon_s)

    if ctx.services.config.current.ottla_hold_heartbeats:
        client.on_more(hurry)
    try:
        while now_s < end_s:
            if await waiter.wait(min(end_s, now_s + patience_s)):
                return False
            client.check_peer()
            now_s, patience_s = trio.current_time(), min(2 * patience_s, PEER_CHECK_MS_MAX / 1000)
        return end_s < deadline_s
    finally:
        client.on_more(None)


def _unread(ctx: Context, body: FetchRequest, items: list[FetchItem]) -> Steps[set[TopicKey]]:
    """Find the topics that the client may not read. A broker, recognised by its replica id, needs a permission on the cluster
    instead."""
    is_broker = body.replica_id >= 0 or body.replica_state.replica_id >= 0
    found = set[TopicKey]()
    if is_broker and ctx.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return found
    known, seen = ctx.services.topics, set[TopicKey]()
    for item in items:
        yield
        key = item.topic
        if key in seen:
            continue
        seen.add(key)
        topic = None if isinstance(key, str) else known.by_id(key)
        name = key if isinstance(key, str) else None if topic is None else topic.name
        # An unknown id reveals nothing, except to brokers.
        if is_broker or (name is not None and not ctx.may(AclOperation.READ, ResourceType.TOPIC, name)):
            found.add(key)
    return found


async def _scan(ctx: Context, asked: FetchQuery) -> FetchScan:
    """Scan all partitions, in order.

    A worker thread first loads what is not in memory; hardly ever is that necessary.
    """
    look, time_slice = FetchScan(asked.max_bytes), ctx.time_slice
    for item in asked.items:
        if look.answers and time_slice.is_over():
            await time_slice.next()
            look.has_waited = True
        for left in reversed(range(TRIES_MAX)):
            try:
                _read_partition(ctx, asked, look, item, at_once=left > 0)
                break
            except WouldWaitError as cold:
                look.has_waited = True
                await load_cold(cold, led_partition(ctx, item.topic, item.partition).log)
        if look.more_aborted is not None:
            more = await time_slice.map(_aborted_row, look.more_aborted)
            _, data = look.answers.pop()
            assert data.aborted_transactions is not None
            data = replace(data, aborted_transactions=as_array([*data.aborted_transactions, *more]))
            look.answers.append((item, data))
            look.aborted_count += len(more)
            look.more_aborted, look.has_waited = None, True
    return look


def _read_partition(ctx: Context, asked: FetchQuery, look: FetchScan, item: FetchItem, *, at_once: bool = True) -> None:
    """Read one partition, as much as there is room for, and note the result.

    Raises:
        WouldWaitError: Only if `at_once`; nothing was noted.
    """
    if look.aborted_count >= ABORTED_MAX:
        look.left_bytes, look.is_enough = 0, True  # the client must fetch again for it, not wait
    if asked.unread and item.topic in asked.unread:
        look.answers.append((item, _refusal(item, refusal(ResourceType.TOPIC))))
        look.missing_count += 1
        return
    try:
        partition = led_partition(ctx, item.topic, item.partition)
    except EarlyRefusalError as error:
        assert error.leader is not None
        leader_id, leader_epoch = error.leader
        look.leaders.add(leader_id)
        current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        look.answers.append((item, _refusal(item, error, current_leader)))
        look.is_enough = True
        return
    except KafkaError as error:
        look.answers.append((item, _refusal(item, error)))
        look.missing_count += 1
        return
    committed = asked.body.isolation_level == READ_COMMITTED
    try:
        data, wanted, offered_bytes, look.more_aborted = _read(
            partition, item, look.left_bytes, look.offered_bytes == 0, committed, at_once=at_once
        )
    except KafkaError as error:
        data, wanted, offered_bytes = _refusal(item, error), None, 0
    look.aborted_count += len(data.aborted_transactions or ())
    look.answers.append((item, data))
    if wanted is None:
        look.is_enough = True
    else:
        look.wanted.append(wanted)
        look.offered_bytes += offered_bytes
        look.left_bytes = max(0, look.left_bytes - offered_bytes)
        look.is_enough = look.is_enough or look.offered_bytes >= asked.min_bytes


def _read(
    partition: Partition, item: FetchItem, left_bytes: int, first: bool, committed: bool, *, at_once: bool
) -> FoundPartition:
    """Read a partition, at most `left_bytes` unless its first batch may exceed them.

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
            return FoundPartition(data)
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
        aborted = tuple(map(_aborted_row, islice(more_aborted, ABORTED_AT_ONCE)))
        if len(aborted) == ABORTED_AT_ONCE and records.size_bytes > MANY_ABORTED_BYTES:
            records = log.fetch(item.fetch_offset, max_bytes=MANY_ABORTED_BYTES, end=end, at_once=at_once).records
            more_aborted = log.overlapping_aborted(item.fetch_offset, up_to, records, at_once=at_once)
            aborted = tuple(map(_aborted_row, islice(more_aborted, ABORTED_AT_ONCE)))
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
    return FoundPartition(data, WantedPartition(log, start, end, item.max_bytes), offered_bytes, more_aborted)


def _aborted_row(txn: AbortedTxn) -> AbortedTransaction:
    return AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)


def _diverging_epoch(partition: Partition, item: FetchItem) -> EpochEndOffset | None:
    """Return the end of the epoch that the client read last, if the client's offset does not match it (KIP-595).

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE: the epoch is unknown, or the client is below the log start.
    """
    log_start_offset = partition.log.log_start_offset
    epoch, end_offset = partition.end_of_epoch(item.last_fetched_epoch)
    if epoch < 0 or item.fetch_offset < log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {item.fetch_offset} after leader epoch {item.last_fetched_epoch}: not in"
            f" {partition.topic_partition}, which starts at {log_start_offset} and has leader epochs up to"
            f" {partition.leader_epoch}",
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
