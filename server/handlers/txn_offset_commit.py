"""TxnOffsetCommit, API key 28, versions 0-6.

Behaviour
- The offsets are pending until the transaction ends: OffsetFetch returns the previous ones, or with `require_stable`
  UNSTABLE_OFFSET_COMMIT.
- The transaction coordinator must know that the transaction writes to the group's partition of `__consumer_offsets`:
  from AddOffsetsToTxn, or from version 5 on from this request (KIP-890).
- Topics are named up to version 5 and identified by id from version 6 on (KIP-1319).
- An error of the group or the transaction is the error of every existing partition; a missing partition has its own error.
- Before version 2 COORDINATOR_LOAD_IN_PROGRESS is COORDINATOR_NOT_AVAILABLE (KAFKA-7296).
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...storage.disk.paths import TopicPartition
from ..coordination.records import Producer
from ..groups.offset_commits import TopicCommit
from ..groups.offset_table import Place
from ..partitions.internal_topics import OFFSETS_TOPIC
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..transactions.verification import Verification, transaction_support_of
from .committing import TopicAtRequest, found_of, prepared_commit, rows_of

# First versions whose clients handle COORDINATOR_LOAD_IN_PROGRESS, understand TRANSACTION_ABORTABLE, that add the partition to
# the transaction, and that identify topics by id.
_LOADING_SINCE = 2
_ABORTABLE_SINCE = 4
_ADDING_SINCE = 5
_IDS_SINCE = 6

_NO_SEQUENCE = -1


async def handle(ctx: Context, request: Request) -> TxnOffsetCommitResponse:
    body: TxnOffsetCommitRequest = request.body
    known, time_slice = ctx.services.topics, TimeSlice()
    if not ctx.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id):
        return await _refused(body, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, time_slice)
    if not ctx.may(AclOperation.READ, ResourceType.GROUP, body.group_id):
        return await _refused(body, ErrorCode.GROUP_AUTHORIZATION_FAILED, time_slice)
    by_id = request.version >= _IDS_SINCE
    found = await run_cooperatively(
        found_of(ctx, body.topics, lambda asked: known.by_id(asked.topic_id) if by_id else known.get(asked.name)),
        time_slice,
    )
    error, refused = ErrorCode.NONE, dict[Place, ErrorCode]()
    if found.commits:
        error, refused = await _commit(ctx, body, request.version, found.commits)
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.version < _LOADING_SINCE:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def error_of(known_as: TopicAtRequest, index: int) -> ErrorCode:
        if by_id and known_as.topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return known_as.error_of(index, error, refused)

    time_slice.begin()
    rows = await run_cooperatively(
        rows_of(body.topics, found, error_of, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition),
        time_slice,
    )
    return TxnOffsetCommitResponse(topics=rows)


async def _refused(body: TxnOffsetCommitRequest, code: ErrorCode, time_slice: TimeSlice) -> TxnOffsetCommitResponse:
    """Make a response with the same error for every partition."""
    answers = []
    async for asked in time_slice.each(body.topics):
        rows = await time_slice.map(
            lambda one: TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code),
            asked.partitions,
        )
        answers.append(TxnOffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=tuple(rows)))
    return TxnOffsetCommitResponse(topics=tuple(answers))


async def _commit(
    ctx: Context, body: TxnOffsetCommitRequest, version: int, commits: list[TopicCommit]
) -> tuple[ErrorCode, dict[Place, ErrorCode]]:
    services = ctx.services
    try:
        if not body.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group ID is empty")
        if body.producer_id < 0:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"invalid producer ID {body.producer_id}")
        groups = services.coordinators.groups
        shard = await groups.route(ctx.node, body.group_id)
        partition = TopicPartition(OFFSETS_TOPIC, shard.partition)
        producer = Producer(body.producer_id, body.producer_epoch)
        transaction_support = transaction_support_of(
            version, abortable_since=_ABORTABLE_SINCE, adding_since=_ADDING_SINCE
        )
        verification = Verification(
            services.coordinators.transactions,
            body.transactional_id,
            producer,
            transaction_support,
            {partition: _NO_SEQUENCE},
        )
        while True:
            prepared = await run_cooperatively(prepared_commit(ctx, shard, body, commits), ctx.time_slice)
            # No other task runs before the append.
            await verification.check(partition)
            if groups.coordinator.is_current(prepared):
                break
        refused = groups.coordinator.commit_in_transaction(shard, body, version, prepared, services.clock.now_ms())
        await groups.settle(shard)
        return ErrorCode.NONE, refused
    except KafkaError as error:
        return error.code, {}
