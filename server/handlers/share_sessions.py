"""Common parts of ShareFetch and ShareAcknowledge: permissions, acknowledgements, and the leaders of other partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ..partitions.topics import Partition
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..sharing.acknowledging import GAP, REJECT, RENEW, Acknowledgement, acknowledge, repeats_last
from ..sharing.loading import STATE_RETRY_MS, STATE_TRIES, LeadSharePartition
from ..sharing.share_partition import RUNS_AT_ONCE, Update
from ..sharing.share_records import SharePartitionKey
from ..sharing.share_sessions import SessionKey, SharedPartition
from .permissions import check_without_words, refusal
from .routing import endpoints
from .share_groups import are_served

MEMBER_ID_CHARS_MAX = 36
RENEWALS_SINCE = 2
# Acknowledge types that are handled at once; some milliseconds, if each differs from the one before.
TYPES_AT_ONCE = 1_000
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def checked(ctx: Context, body: Any) -> SessionKey:
    """Return the member of the request. Raises KafkaError if it is invalid or not permitted, or share groups are not served."""
    if not are_served(ctx):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if body.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    check_without_words(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
    if not body.member_id or len(body.member_id) > MEMBER_ID_CHARS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(body.group_id, body.member_id)


def find_partition(ctx: Context, place: SharedPartition) -> Partition:
    """Return the partition, regardless of its leader.

    Raises:
        KafkaError: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION; only the second has a message.
    """
    topic = ctx.services.topics.by_id(place.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not ctx.may(AclOperation.READ, ResourceType.TOPIC, topic.name):
        raise refusal(ResourceType.TOPIC)
    if not 0 <= place.partition < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.partitions[place.partition]


@dataclass(slots=True)
class CurrentLeaders:
    """Leaders of partitions that other nodes lead, for the response."""

    ctx: Context
    node_ids: set[int] = field(default_factory=set)

    def leader_of(self, place: SharedPartition, error: KafkaError | None) -> tuple[int, int] | None:
        """Return leader and epoch, if the response must have them."""
        if error is None or error.code not in _MOVED:
            return None
        try:
            partition = self.ctx.services.topics.partition_by_id(*place)
        except KafkaError:
            return None
        self.node_ids.add(partition.leader)
        return partition.leader, partition.leader_epoch

    def endpoints(self, row: type[Any]) -> tuple[Any, ...]:
        """Make rows of a response, of the class `row`."""
        return tuple(
            row(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in endpoints(self.ctx, self.node_ids)
        )


class Acknowledging:
    """The acknowledgements of one request.

    Attributes:
        answers: Result for each partition.
    """

    def __init__(self, ctx: Context, request: Request, whose: SessionKey) -> None:
        body = request.body
        self._ctx = ctx
        self._whose = whose
        self._leaders = ctx.services.coordinators.share_leaders
        self._type_max = RENEW if request.version >= RENEWALS_SINCE else REJECT
        self._renews = request.version >= RENEWALS_SINCE and body.is_renew_ack
        self._topics = body.topics
        self._written: dict[SharedPartition, LeadSharePartition] = {}
        self._tries_left = STATE_TRIES
        self.answers: dict[SharedPartition, KafkaError | None] = {}

    async def run(self) -> None:
        """Handle each partition on its own, completely or not at all. If a partition is named twice, its last row counts."""
        time_slice = self._ctx.time_slice
        rows: dict[SharedPartition, Any] = {}
        for topic in self._topics:
            async for row in time_slice.each(topic.partitions):
                rows[SharedPartition(topic.topic_id, row.partition_index)] = row
        empty: list[SharedPartition] = []
        has_said = False
        async for place, row in time_slice.each(rows.items()):
            try:
                await self._check(place, row.acknowledgement_batches)
                find_partition(self._ctx, place)
            except KafkaError as error:
                self.answers[place] = error.with_traceback(None)
                continue
            if row.acknowledgement_batches:
                self.answers[place] = await self._acknowledge_patiently(place, row.acknowledgement_batches)
                has_said = True
            else:
                empty.append(place)
        if has_said:
            # As in Apache Kafka: if a request acknowledges nothing, only errors are returned.
            self.answers.update(dict.fromkeys(empty))
        await time_slice.empty(rows)

    async def settle(self) -> None:
        """Wait until the written acknowledgements are on disk."""
        time_slice = self._ctx.time_slice
        async for place, led in time_slice.each(self._written.items()):
            try:
                await self._leaders.settle(led)
            except KafkaError as error:
                self.answers[place] = error.with_traceback(None)
        time_slice.begin()

    async def _check(self, place: SharedPartition, batches: tuple[Any, ...]) -> None:
        """Raise INVALID_REQUEST unless the batches are in order and their types are valid. An unknown topic is reported
        first."""
        if self._ctx.services.topics.by_id(place.topic_id) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        time_slice, before = self._ctx.time_slice, -1
        async for batch in time_slice.each(batches):
            first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
            if first > last or first < before or len(types) not in (1, last - first + 1):
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            async for at in time_slice.each(range(0, len(types), TYPES_AT_ONCE)):
                some = types[at : at + TYPES_AT_ONCE]
                if min(some) < GAP or (most := max(some)) > self._type_max or (most == RENEW and not self._renews):
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
            before = last

    async def _acknowledge_patiently(self, place: SharedPartition, batches: tuple[Any, ...]) -> KafkaError | None:
        """Acknowledge as `_acknowledge` does, but wait while the share coordinator loads, as Apache Kafka's persister does:
        after a refusal all records would be delivered again."""
        services = self._ctx.services
        while True:
            refused = await self._acknowledge(place, batches)
            is_early = refused is not None and refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            # Acknowledgements that were partly applied must not be applied twice.
            if not is_early or place in self._written or not self._tries_left or services.cluster.is_stopping:
                return refused
            self._tries_left -= 1
            await services.clock.sleep(STATE_RETRY_MS)
            self._ctx.time_slice.begin()

    async def _acknowledge(self, place: SharedPartition, batches: tuple[Any, ...]) -> KafkaError | None:
        leaders, time_slice = self._leaders, self._ctx.time_slice
        led = leaders.find(SharePartitionKey(self._whose.group_id, *place))
        if led is None or led.share is None or led.partition.leader != self._ctx.node.node_id:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        pieces: list[list[Acknowledgement]] = []
        async for piece in time_slice.each(_pieces(batches)):
            pieces.append(piece)
        try:
            # All or nothing: if it takes several time slices, all are checked before any is applied.
            if len(pieces) == 1:
                update, rest = self._compute_update(led, pieces[0])
                if not rest:
                    self._commit(place, led, update)
                    return None
                await time_slice.next()
            self._check_seams(led, pieces)
            for is_done in False, True:
                for piece in pieces:
                    rest = piece
                    while rest:
                        if time_slice.is_over():
                            await time_slice.next()
                        update, rest = self._compute_update(led, rest)
                        if is_done:
                            self._commit(place, led, update)
        except KafkaError as error:
            return error.with_traceback(None)
        return None

    def _compute_update(
        self, led: LeadSharePartition, piece: list[Acknowledgement]
    ) -> tuple[Update, list[Acknowledgement]]:
        """Call `acknowledge`; raises KafkaError also if the share partition is unavailable."""
        self._leaders.check(led)
        share = self._leaders.share_of(led)
        if share is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elapsed_ms = self._ctx.services.clock.elapsed_ms()
        return acknowledge(share, self._whose.member_id, piece, elapsed_ms, RUNS_AT_ONCE)

    def _check_seams(self, led: LeadSharePartition, pieces: list[list[Acknowledgement]]) -> None:
        """Raise INVALID_RECORD_STATE if a piece begins with an offset that the piece before it has acknowledged for good."""
        share = self._leaders.share_of(led)
        if share is not None and any(repeats_last(share, one[-1], behind[0]) for one, behind in pairwise(pieces)):
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Acknowledgement batches overlap.")

    def _commit(self, place: SharedPartition, led: LeadSharePartition, update: Update) -> None:
        self._leaders.commit(led, update)
        self._written[place] = led


def _pieces(batches: tuple[Any, ...]) -> Iterator[list[Acknowledgement]]:
    """Split the batches, in the same order, into pieces of `TYPES_AT_ONCE` types."""
    piece: list[Acknowledgement] = []
    room = TYPES_AT_ONCE
    for batch in batches:
        first, types = batch.first_offset, batch.acknowledge_types
        if len(types) == 1:
            piece.append(Acknowledgement(first, batch.last_offset, types))
            room -= 1
        else:
            at = 0
            while at < len(types):
                some = types[at : at + room]
                piece.append(Acknowledgement(first + at, first + at + len(some) - 1, some))
                at, room = at + len(some), room - len(some)
                if not room:
                    yield piece
                    piece, room = [], TYPES_AT_ONCE
        if not room:
            yield piece
            piece, room = [], TYPES_AT_ONCE
    if piece:
        yield piece
