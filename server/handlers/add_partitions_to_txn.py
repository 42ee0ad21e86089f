"""AddPartitionsToTxn, API key 24, versions 0-5.

Behaviour
- All partitions of a transaction are added or none: beside one that does not exist, or a topic that clients may not
  write, the others are OPERATION_NOT_ATTEMPTED.
- Versions 4 and 5, meant for brokers, ask for several transactions, and perhaps only whether the partitions are in
  them; one that is not is TRANSACTION_ABORTABLE (KIP-890).
- Nobody adds partitions of the broker's own topics here (TOPIC_AUTHORIZATION_FAILED). Apache Kafka lets versions 4 and 5,
  with which its brokers add `__consumer_offsets` for TxnOffsetCommit; our coordinators speak to each other without it.
- Versions 4 and 5 need CLUSTER_ACTION on the cluster, and no right to the topics.
- PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ...storage.disk.paths import TopicPartition
from ..coordination.records import Producer
from ..partitions.internal_topics import INTERNAL_TOPICS
from ..runtime.threads import have_made
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..transactions.metadata import FIRST_VERSION_WITH_EPOCH_BUMP, code_for

_FIRST_VERSION_WITH_FENCED = 2
_FIRST_VERSION_OF_BROKERS = 4

Codes = dict[TopicPartition, ErrorCode]


async def handle(ctx: Context, request: Request) -> AddPartitionsToTxnResponse:
    body: AddPartitionsToTxnRequest = request.body
    time_slice = TimeSlice()
    if request.version < _FIRST_VERSION_OF_BROKERS:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=body.v3_and_below_transactional_id,
            producer_id=body.v3_and_below_producer_id,
            producer_epoch=body.v3_and_below_producer_epoch,
            topics=body.v3_and_below_topics,
        )
        codes = await _add(ctx, asked, request.version, time_slice)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _by_topic(codes, time_slice))
    # The transactional id is a key: of several with the same one, the first counts.
    transactions: dict[str, AddPartitionsToTxnTransaction] = {}
    async for one in time_slice.each(body.transactions):
        transactions.setdefault(one.transactional_id, one)
    results = []
    async for one in time_slice.each(transactions.values()):
        codes = await _add(ctx, one, request.version, time_slice)
        results.append(
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id, topic_results=await _by_topic(codes, time_slice)
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))


async def _add(ctx: Context, asked: AddPartitionsToTxnTransaction, version: int, time_slice: TimeSlice) -> Codes:
    codes: Codes = {}
    is_refused = False
    is_of_client = version < _FIRST_VERSION_OF_BROKERS
    is_known = not is_of_client or ctx.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, asked.transactional_id)
    async for topic in time_slice.each(asked.topics):
        may_write = not is_of_client or ctx.may(AclOperation.WRITE, ResourceType.TOPIC, topic.name)
        async for index in time_slice.each(topic.partitions):
            one = TopicPartition(topic.name, index)
            if may_write:
                codes[one] = _refused(ctx, one, adds=not asked.verify_only)
            else:
                codes[one] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            is_refused |= bool(codes[one])
    if not is_known:
        async for one in time_slice.each(codes):
            codes[one] = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return codes
    if is_refused:
        async for one, code in time_slice.each(codes.items()):
            codes[one] = code or ErrorCode.OPERATION_NOT_ATTEMPTED
        return codes
    # All of them exist, so there are no more than there are partitions.
    partitions = list(codes)
    services = ctx.services
    producer = Producer(asked.producer_id, asked.producer_epoch)
    try:
        async for one in time_slice.each(() if asked.verify_only else partitions):
            await have_made(services.topics.partition(*one).log)  # a marker that ends the transaction does not wait
        transactions = services.coordinators.transactions
        shard = await transactions.route(ctx.node, asked.transactional_id)
        if asked.verify_only:
            missing = transactions.coordinator.verify_partitions(shard, asked.transactional_id, producer, partitions)
            await transactions.settle(shard)
            return codes | dict.fromkeys(missing, ErrorCode.TRANSACTION_ABORTABLE)
        client_version = FIRST_VERSION_WITH_EPOCH_BUMP if version >= _FIRST_VERSION_OF_BROKERS else 0
        now_ms = services.clock.now_ms()
        transactions.coordinator.add_partitions(
            shard, asked.transactional_id, producer, partitions, client_version, now_ms
        )
        await transactions.settle(shard)
    except KafkaError as error:
        code = code_for(error, version, knows_fenced_since=_FIRST_VERSION_WITH_FENCED)
        return dict.fromkeys(partitions, code)
    return codes


def _refused(ctx: Context, one: TopicPartition, *, adds: bool) -> ErrorCode:
    """Why the partition cannot be in a transaction, whichever; NONE if it can."""
    if adds and one.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    try:
        ctx.services.topics.partition(*one)
    except KafkaError as error:
        return ErrorCode(error.code)
    return ErrorCode.NONE


async def _by_topic(codes: Codes, time_slice: TimeSlice) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    """The rows of the answer; `codes` is empty then."""
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    async for (topic, partition), code in time_slice.each(codes.items()):
        result = AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=code)
        by_topic.setdefault(topic, []).append(result)
    rows = await time_slice.map(
        lambda one: AddPartitionsToTxnTopicResult(name=one[0], results_by_partition=tuple(one[1])), by_topic.items()
    )
    await time_slice.empty(codes, by_topic)
    return tuple(rows)
