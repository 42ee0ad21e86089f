"""ShareFetch, API key 78, versions 1-2.

Behaviour
- A member acquires records of the partitions of its share session, and may acknowledge others in the same request. That is done
  first; when the response is sent it is in the log, and on disk if `flush.messages` requires it.
- Answers once there are `min_bytes` in partitions with records to acquire, or a partition is read in an older segment than the
  one with the end of the readable records; else parks until that is true or `max_wait_ms` is over. Released records, and
  expired locks, wake it as new records do. So does a partition with the largest allowed number of records in flight, when its
  log start moves past some of them.
- The partitions are served in another order with each epoch of the session, and have equal parts of `max_bytes`, so that none
  starves.
- Partitions with an error do not make the response immediate while others can be fetched, as in Apache Kafka.
- A renewal of locks (`is_renew_ack`) is a request of its own: nothing is fetched with it.
- When a connection ends, its share sessions end: records that their members have acquired, and maybe never received, are
  released.
- Served unless the feature `share.version` is 0; else UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import trio

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ...storage.disk.files import WouldWaitError
from ..runtime.threads import TRIES_MAX, load_cold
from ..runtime.time_slices import run_cooperatively
from ..services.context import Context
from ..sharing.acquiring import AcquireRequest
from ..sharing.fetching import NOTHING, AcquiredSlice, OfferedRecords, acquire_offered, offer
from ..sharing.leaders import ShareLeaders, Visitor
from ..sharing.loading import LeadSharePartition
from ..sharing.share_partition import SharePartition
from ..sharing.share_records import SharePartitionKey
from ..sharing.share_sessions import FINAL_EPOCH, FULL_EPOCH, SessionKey, SharedPartition, ShareSession
from .fetch import wait_for
from .routing import led_partition
from .share_sessions import RENEWALS_SINCE, Acknowledging, CurrentLeaders, checked, find_partition

_BATCH_OPTIMIZED, _RECORD_LIMIT = 0, 1
_MODES_SINCE = 2

_Work: TypeAlias = Callable[[SharePartition, bool], OfferedRecords | AcquiredSlice]
"""Work on a share partition and its log; the flag says whether it must not wait for the disk."""


async def handle(ctx: Context, request: Request) -> ShareFetchResponse:
    body: ShareFetchRequest = request.body
    try:
        whose = checked(ctx, body)
        _check_renewal(body, request.version)
        session, epoch = await _session(ctx, body, whose), body.share_session_epoch
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED and body.max_wait_ms > 0:
            # Otherwise its client would retry at once.
            has_ended = trio.Event()
            with ctx.services.coordinators.share_leaders.sessions[ctx.node.node_id].waiting(has_ended.set):
                await ctx.client.hold(has_ended, body.max_wait_ms / 1000, is_client_needed=True)
        return ShareFetchResponse(error_code=error.code)
    shares = ctx.services.coordinators.share_leaders
    acknowledging = Acknowledging(ctx, request, whose)
    if epoch != FULL_EPOCH and await _acknowledges(ctx, body):
        await acknowledging.run()
    rows: dict[SharedPartition, PartitionData] = {}
    leaders = CurrentLeaders(ctx)
    if epoch != FINAL_EPOCH and not (request.version >= RENEWALS_SINCE and body.is_renew_ack):
        fetching = _Fetching(ctx, request, session, shares, leaders)
        try:
            found = await fetching.run(_rotated(list(session.places), epoch))
        except KafkaError as error:
            return ShareFetchResponse(error_code=error.code)
        async for place, row in ctx.time_slice.each(found.items()):
            has_records, has_error = bool(row.acquired_records), row.error_code != ErrorCode.NONE
            if session.needs_row(place, has_records=has_records, has_error=has_error) or epoch == FULL_EPOCH:
                rows[place] = row
    if epoch == FINAL_EPOCH:
        await shares.end_session(ctx.node.node_id, session)
    await acknowledging.settle()
    async for place, refused in ctx.time_slice.each(acknowledging.answers.items()):
        row = rows.get(place) or PartitionData(partition_index=place.partition, records=b"")
        if refused is not None:
            message = refused.message or None
            row = replace(row, acknowledge_error_code=refused.code, acknowledge_error_message=message)
        rows[place] = row
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=shares.config_of(whose.group_id).record_lock_duration_ms,
        responses=await _by_topic(ctx, rows),
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )


def _check_renewal(body: ShareFetchRequest, version: int) -> None:
    """Raise INVALID_REQUEST if a request to renew locks also fetches (KIP-1222)."""
    fetches = body.max_bytes or body.min_bytes or body.max_records or body.max_wait_ms
    if version >= RENEWALS_SINCE and body.is_renew_ack and fetches:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a request that renews acquisition locks must not fetch records")


async def _session(ctx: Context, body: ShareFetchRequest, whose: SessionKey) -> ShareSession:
    """Return the session, updated by the request. Raises KafkaError as `ShareSessions.fetch` does."""
    time_slice, node_id, client = ctx.time_slice, ctx.node.node_id, ctx.client
    shares = ctx.services.coordinators.share_leaders
    places: list[SharedPartition] = []
    for topic in body.topics:
        async for row in time_slice.each(topic.partitions):
            places.append(SharedPartition(topic.topic_id, row.partition_index))
    forgotten: list[SharedPartition] = []
    for gone in body.forgotten_topics_data:
        async for index in time_slice.each(gone.partitions):
            forgotten.append(SharedPartition(gone.topic_id, index))
    has_acknowledgements = await _acknowledges(ctx, body)
    if body.share_session_epoch == FULL_EPOCH:
        await shares.released(node_id, whose)
        time_slice.begin()
    if client.farewell is None:
        client.farewell = Visitor(shares, node_id)
    fetching = shares.sessions[node_id].fetch(
        whose,
        body.share_session_epoch,
        client.farewell,
        places=places,
        forgotten=forgotten,
        has_acknowledgements=has_acknowledgements,
    )
    session = await run_cooperatively(fetching, time_slice)
    await time_slice.empty(forgotten)
    if body.share_session_epoch == FULL_EPOCH:
        # The previous session may have ended during that: a request with thousands of partitions takes many time slices.
        await shares.released(node_id, whose)
        time_slice.begin()
    return session


async def _acknowledges(ctx: Context, body: ShareFetchRequest) -> bool:
    for topic in body.topics:
        for row in topic.partitions:
            if row.acknowledgement_batches:
                return True
            if ctx.time_slice.is_over():
                await ctx.time_slice.next()
    return False


def _rotated(places: list[SharedPartition], epoch: int) -> list[SharedPartition]:
    at = epoch % len(places) if places and epoch > 0 else 0
    return places[at:] + places[:at]


@dataclass(slots=True)
class _Scan:
    """Result of one scan of all partitions.

    Attributes:
        offers: Offers of partitions that have records to acquire, or would have if the log had more.
        full: Partitions with the largest allowed number of records in flight.
        is_due: Whether one of them is read in an older segment: a wait does not give it more records.
    """

    offers: dict[SharedPartition, OfferedRecords] = field(default_factory=dict)
    full: list[LeadSharePartition] = field(default_factory=list)
    size_bytes: int = 0
    is_due: bool = False


class _Fetching:
    """One fetch: the records for a member in the partitions of its session."""

    def __init__(
        self, ctx: Context, request: Request, session: ShareSession, shares: ShareLeaders, leaders: CurrentLeaders
    ) -> None:
        body: ShareFetchRequest = request.body
        config = shares.config_of(session.key.group_id)
        self._ctx = ctx
        self._body = body
        self._version = request.version
        self._session = session
        self._shares = shares
        self._leaders = leaders
        self._committed = config.reads_committed
        self._max_bytes = min(body.max_bytes, ctx.services.config.current.fetch_max_bytes)
        self._min_bytes = min(body.min_bytes, self._max_bytes)
        self._led: dict[SharedPartition, LeadSharePartition] = {}
        self._rows: dict[SharedPartition, PartitionData] = {}
        self._is_hurried = False
        """Whether the client has sent another request, which waits for the response."""

    async def run(self, places: list[SharedPartition]) -> dict[SharedPartition, PartitionData]:
        """Return the row of each partition; partitions without records to acquire are left out.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR: unknown acquire mode. As in Apache Kafka this is checked only if records are
                fetched.
        """
        ctx, time_slice = self._ctx, self._ctx.time_slice
        has_mode = self._version < _MODES_SINCE or self._body.share_acquire_mode in (_BATCH_OPTIMIZED, _RECORD_LIMIT)
        is_for_nothing = self._body.max_records <= 0 or self._max_bytes <= 0 or not has_mode
        async for place in time_slice.each(places):
            try:
                find_partition(ctx, place)
                if not is_for_nothing:
                    key = SharePartitionKey(self._session.key.group_id, *place)
                    self._led[place] = self._shares.get_or_load(key, led_partition(ctx, *place))
            except KafkaError as error:
                self._refuse(place, error)
        if not has_mode and len(self._rows) < len(places):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        deadline_s = trio.current_time() + self._body.max_wait_ms / 1000
        while self._led:
            look = await self._scan_and_wait(deadline_s)
            if look is not None:
                await self._acquire_all(look)
                break
        return self._rows

    async def _scan_and_wait(self, deadline_s: float) -> _Scan | None:
        """Return the scan if it is time to answer; else None, after an event that ends the wait."""
        ctx, time_slice, waits = self._ctx, self._ctx.time_slice, self._ctx.services.waits
        changes = waits.changes
        with waits.waiter(max(self._min_bytes, 1), committed=self._committed, is_alone=False) as waiter:
            asked = [*self._led.values()]
            try:
                # Before the scan, so that no event during it is missed.
                async for led in time_slice.each(asked):
                    led.waiters.add(waiter)
                look = await self._scan()
                is_enough = look.offers and (look.is_due or look.size_bytes >= self._min_bytes)
                is_over = self._is_hurried or trio.current_time() >= deadline_s or ctx.services.cluster.is_stopping
                if is_enough or is_over or not self._led:
                    return look
                async for found in time_slice.each(look.offers.values()):
                    waiter.watch(found.wanted)
                async for led in time_slice.each(look.full):
                    waiter.watch_changes(led.partition.log)
                if not waiter.is_complete and waits.changes == changes:
                    self._is_hurried = await wait_for(ctx, waiter, deadline_s)
                    time_slice.begin()
                await waiter.leave(time_slice)
                return None
            finally:
                for led in asked:
                    led.waiters.discard(waiter)

    async def _scan(self) -> _Scan:
        look = _Scan()
        async for place, led in self._ctx.time_slice.each([*self._led.items()]):
            try:
                share = self._share(led)
                if share is None:
                    continue
                if not share.has_room():
                    look.full.append(led)
                    continue
                found = await self._await_offer(led, self._max_bytes, first=not look.size_bytes)
            except KafkaError as error:
                del self._led[place]
                self._refuse(place, error)
                continue
            look.offers[place] = found
            look.size_bytes += found.size_bytes
            start, end = found.wanted.start, found.wanted.end
            look.is_due |= start.offset < end.offset and start.segment_base_offset != end.segment_base_offset
        return look

    def _share(self, led: LeadSharePartition) -> SharePartition | None:
        """Return the share partition; None while its state is being read. Raises KafkaError if it is unavailable."""
        self._shares.check(led)
        return self._shares.share_of(led)

    async def _await_offer(self, led: LeadSharePartition, max_bytes: int, *, first: bool) -> OfferedRecords:
        taken = await self._at_disk(led, lambda share, at_once: self._offer(led, share, max_bytes, first, at_once))
        assert isinstance(taken, OfferedRecords)
        return taken

    def _offer(
        self, led: LeadSharePartition, share: SharePartition, max_bytes: int, first: bool, at_once: bool
    ) -> OfferedRecords:
        log = led.partition.log
        return offer(log, share, max_bytes, first=first, committed=self._committed, at_once=at_once)

    async def _acquire_all(self, look: _Scan) -> None:
        """Acquire the member's records from each partition; the first one with records gives a batch of any size."""
        left_records, left_bytes = self._body.max_records, self._max_bytes
        part_bytes = max(self._max_bytes // max(len(look.offers), 1), 1)
        mode, member_id = self._body.share_acquire_mode, self._session.key.member_id
        async for place in self._ctx.time_slice.each(look.offers):
            led = self._led[place]
            acquire_request = AcquireRequest(member_id, left_records, self._body.batch_size, mode == _RECORD_LIMIT)
            try:
                taken = await self._acquire(
                    led, acquire_request, min(part_bytes, left_bytes), left_bytes == self._max_bytes
                )
            except KafkaError as error:
                self._refuse(place, error)
                continue
            acquired = tuple(
                AcquiredRecords(
                    first_offset=one.first_offset, last_offset=one.last_offset, delivery_count=one.delivery_count
                )
                for one in taken.acquired
            )
            left_records -= sum(one.last_offset - one.first_offset + 1 for one in taken.acquired)
            left_bytes = max(0, left_bytes - len(taken.records or b""))
            self._rows[place] = PartitionData(
                partition_index=place.partition, records=taken.records or b"", acquired_records=acquired
            )

    async def _acquire(
        self, led: LeadSharePartition, acquire_request: AcquireRequest, max_bytes: int, first: bool
    ) -> AcquiredSlice:
        def acquire(share: SharePartition, at_once: bool) -> AcquiredSlice:
            # The member may have begun another session, on another connection: it would never get this response.
            if not self._shares.sessions[self._ctx.node.node_id].has(self._session):
                return NOTHING
            if not share.has_room():
                return NOTHING  # Other members were faster.
            found = self._offer(led, share, max_bytes, first, at_once)
            elapsed_ms = self._ctx.services.clock.elapsed_ms()
            carry_out = partial(self._shares.commit_unrequested, led)
            return acquire_offered(
                share, found, acquire_request, elapsed_ms, carry_out, committed=self._committed, at_once=at_once
            )

        taken = await self._at_disk(led, acquire)
        assert isinstance(taken, AcquiredSlice)
        self._shares.locks_changed(led)
        return taken

    async def _at_disk(self, led: LeadSharePartition, work: _Work) -> OfferedRecords | AcquiredSlice:
        """Run `work`, during which no other task runs; data that it needs from the disk is loaded first."""
        for tries in range(TRIES_MAX + 1):
            share = self._share(led)
            assert share is not None
            try:
                return work(share, tries < TRIES_MAX)
            except WouldWaitError as cold:
                await load_cold(cold, led.partition.log)
        raise AssertionError("waiting for the disk")

    def _refuse(self, place: SharedPartition, error: KafkaError) -> None:
        """Note an error, without a message, as in Apache Kafka."""
        current = self._leaders.leader_of(place, error)
        self._rows[place] = PartitionData(
            partition_index=place.partition,
            error_code=error.code,
            current_leader=LeaderIdAndEpoch()
            if current is None
            else LeaderIdAndEpoch(leader_id=current[0], leader_epoch=current[1]),
            records=b"",
        )


async def _by_topic(
    ctx: Context, rows: dict[SharedPartition, PartitionData]
) -> tuple[ShareFetchableTopicResponse, ...]:
    topics: dict[bytes, list[PartitionData]] = {}
    async for place, row in ctx.time_slice.each(rows.items()):
        topics.setdefault(place.topic_id, []).append(row)
    return tuple(
        ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(rows_of))
        for topic_id, rows_of in topics.items()
    )
