"""Produce, API key 0, versions 3-13 (advertised from 0: librdkafka before 2.11.1 looks for that row).

Behaviour
- Each partition is appended on its own; a refusal does not affect the others.
- `acks=0` gets no response; an error closes the connection, the only signal for such a client.
- `acks=1` and `acks=-1` are the same here, since nothing is replicated; `acks=-1` honours
  `min.insync.replicas` against the partition's replicas.
- With `flush.messages` the response waits for the syncs of all its partitions, which run at the same time.
- A batch that takes long to check or to write is appended in a worker thread, see `large_appends`. The connection's next
  request waits for it, which keeps the order of its batches; other connections do not wait.
- The first batch of a transaction in a partition must be verified by the transaction coordinator (KIP-890); from version 12 on
  it adds the partition to the transaction. While the previous transaction is being completed the request is held for
  `add.partitions.to.txn.retry.backoff.max.ms`, then answered CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import trio

from ...protocol.compression import Codec
from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError, ProtocolError
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ...protocol.records import ATTRIBUTES_LOW_BYTE_POSITION, CODEC_MASK, HEADER_BYTES
from ...protocol.schema import maker
from ...protocol.wire import as_array
from ...storage.disk.files import WouldWaitError
from ...storage.logs.large_append import LargeWriteError
from ...storage.logs.log import AppendInfo, Log
from ...storage.produce.record_checks import NO_KEY, EarlyRefusalError, HeavyBatchError, InvalidRecordError
from ..partitions.large_appends import append_later
from ..partitions.reasons import ErrorMessageBudget
from ..partitions.topics import Partition
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..transactions.writes import TransactionalWrites, is_one_plain_batch, transactional_writes
from .routing import NotLeaderError, endpoints, led_partition

# Older clients cannot read zstd (KIP-110).
ZSTD_SINCE = 7

# Refusals by the log whose response has no log start offset, as in Apache Kafka.
LOG_START_UNTOLD = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)

# The classes that nearly every response consists of.
_answer, _topic_answer = maker(ProduceResponse), maker(TopicProduceResponse)
_partition_answer = maker(PartitionProduceResponse)
# From this version on topics are named by id.
TOPIC_IDS = 13


def handle(ctx: Context, request: Request) -> Any:
    """Append a single batch without a transaction here, if that needs no waiting."""
    body: ProduceRequest = request.body
    if not is_one_plain_batch(body) or ctx.services.authorizer is not None:
        return _append_each(ctx, request)
    topic = body.topic_data[0]
    appending = Appending(ctx, request.version, body.acks, None)
    asked = topic.topic_id if request.version >= TOPIC_IDS else topic.name
    response = appending.append_now(asked, topic.partition_data[0])
    if response is None:
        return _append_each(ctx, request)
    responses = [_topic_answer(name=topic.name, topic_id=topic.topic_id, partition_responses=(response,))]
    if appending.unflushed:
        return _flush(ctx, body, responses, appending)
    if response.error_code or not body.acks:
        return _answered(ctx, body, responses, appending)
    return _answer(responses=(*responses,), node_endpoints=())


async def _append_each(ctx: Context, request: Request) -> ProduceResponse | None:
    body: ProduceRequest = request.body
    by_id = request.version >= TOPIC_IDS
    time_slice = ctx.time_slice
    unwritten: Collection[str | bytes] = ()
    if ctx.services.authorizer is not None:
        unwritten = await _unwritten(ctx, body, by_id=by_id)
    writes: TransactionalWrites | None = None
    if not is_one_plain_batch(body):
        try:
            writes = await _transactional_writes(ctx, body, request.version, unwritten)
        except KafkaError as error:
            return await _refused(body, error, time_slice)
    appending = Appending(ctx, request.version, body.acks, writes)
    responses: list[TopicProduceResponse] = []
    async for topic in time_slice.each(body.topic_data):
        asked = topic.topic_id if by_id else topic.name
        is_refused = unwritten and asked in unwritten
        partitions: list[PartitionProduceResponse] = []
        async for data in time_slice.each(topic.partition_data):
            partitions.append(_unwritable(data.index) if is_refused else await appending.append(asked, data))
        responses.append(
            _topic_answer(name=topic.name, topic_id=topic.topic_id, partition_responses=as_array(partitions))
        )
    if appending.unflushed:
        return await _flush(ctx, body, responses, appending)
    return _answered(ctx, body, responses, appending)


async def _flush(
    ctx: Context, body: ProduceRequest, responses: list[TopicProduceResponse], appending: Appending
) -> ProduceResponse | None:
    """Wait for the needed syncs, then answer as `_answered` does."""
    told = await _flushed(ctx, responses, appending.unflushed, appending.reasons, ctx.time_slice)
    return _answered(ctx, body, told, appending)


def _answered(
    ctx: Context, body: ProduceRequest, responses: list[TopicProduceResponse], appending: Appending
) -> ProduceResponse | None:
    """Return the response; None if the client wants none. Raises ProtocolError if it wants none and a partition was refused."""
    if body.acks == 0:
        for topic in responses:
            for partition in topic.partition_responses:
                if partition.error_code:
                    raise ProtocolError(
                        f"acks=0 produce to {_topic_label(topic)}-{partition.index} failed with "
                        f"{ErrorCode(partition.error_code).name}: {partition.error_message}"
                    )
        return None
    return _answer(
        responses=as_array(responses),
        node_endpoints=_endpoints(ctx, appending.leaders) if appending.leaders else (),
    )


def _topic_label(topic: TopicProduceData | TopicProduceResponse) -> str:
    """Return a topic's name or id, as its request has it."""
    return topic.name or topic.topic_id.hex()


def _endpoints(ctx: Context, leaders: set[int]) -> tuple[NodeEndpoint, ...]:
    return tuple(
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints(ctx, leaders)
    )


async def _unwritten(ctx: Context, body: ProduceRequest, *, by_id: bool) -> set[str | bytes]:
    """Find the topics that the client may not write to, by the key in the request."""
    found: set[str | bytes] = set()
    async for topic in ctx.time_slice.each(body.topic_data):
        if not by_id:
            if not ctx.may(AclOperation.WRITE, ResourceType.TOPIC, topic.name):
                found.add(topic.name)
            continue
        known = ctx.services.topics.by_id(topic.topic_id)
        if known is not None and not ctx.may(AclOperation.WRITE, ResourceType.TOPIC, known.name):
            found.add(topic.topic_id)
    return found


def _unwritable(index: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, base_offset=-1, log_start_offset=-1
    )


async def _transactional_writes(
    ctx: Context, body: ProduceRequest, version: int, unwritten: Collection[str | bytes]
) -> TransactionalWrites | None:
    services = ctx.services
    return await transactional_writes(
        body,
        version,
        ctx.time_slice,
        topics=services.topics,
        clock=services.clock,
        config=services.config.current,
        transactions=lambda: services.coordinators.transactions,
        may_use=None
        if services.authorizer is None
        else partial(ctx.may, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
        unwritten=unwritten,
    )


async def _refused(body: ProduceRequest, error: KafkaError, time_slice: TimeSlice) -> ProduceResponse | None:
    """Make a response with the same error for every partition."""
    if body.acks == 0:
        raise ProtocolError(f"acks=0 produce failed with {error}")
    reasons, responses = ErrorMessageBudget(), []
    async for topic in time_slice.each(body.topic_data):
        partitions = await time_slice.map(
            lambda data: PartitionProduceResponse(
                index=data.index, error_code=error.code, base_offset=-1, error_message=reasons.message_of(error)
            ),
            topic.partition_data,
        )
        responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=as_array(partitions))
        )
    return ProduceResponse(responses=as_array(responses))


async def _flushed(
    ctx: Context,
    responses: list[TopicProduceResponse],
    unflushed: Sequence[tuple[PartitionProduceResponse, Log]],
    reasons: ErrorMessageBudget,
    time_slice: TimeSlice,
) -> list[TopicProduceResponse]:
    """Wait for the needed syncs; returns the responses, with an error where a sync has failed."""
    failed = await ctx.services.appends.flusher.flush_each(log for _, log in unflushed)
    time_slice.begin()
    refusals: dict[int, PartitionProduceResponse] = {}
    async for response, log in time_slice.each(unflushed):
        if (error := failed.get(log)) is not None:
            refusals[id(response)] = refusal(response.index, log, error, reasons)
    if not refusals:
        return responses
    told = []
    for topic in responses:
        partitions = await time_slice.map(lambda each: refusals.get(id(each), each), topic.partition_responses)
        told.append(replace(topic, partition_responses=as_array(partitions)))
    return told


class Appending:
    """The appends of one request, with further data for its response."""

    __slots__ = ("_acks", "_ctx", "_reasons", "_version", "_writes", "leaders", "unflushed")

    def __init__(self, ctx: Context, version: int, acks: int, writes: TransactionalWrites | None) -> None:
        self._ctx = ctx
        self._version = version
        self._acks = acks
        self._writes = writes
        self.leaders: set[int] = set()
        """Leaders of the partitions that other nodes lead."""
        self._reasons: ErrorMessageBudget | None = None
        self.unflushed: list[tuple[PartitionProduceResponse, Log]] = []
        """Responses that must not be sent before the appended records are on disk."""

    @property
    def reasons(self) -> ErrorMessageBudget:
        """Messages of the refusals, made for the first one."""
        if self._reasons is None:
            self._reasons = ErrorMessageBudget()
        return self._reasons

    def append_now(self, topic: str | bytes, data: PartitionProduceData) -> PartitionProduceResponse | None:
        """Append one partition's records, if that needs no waiting; a refusal becomes that partition's error.

        Returns:
            None if `append` must be used; nothing has been done.
        """
        log: Log | None = None
        services = self._ctx.services
        try:
            partition, records = checked(self._ctx, self._version, self._acks, topic, data.index, data.records)
            log = partition.log
            if self._acks == -1:
                services.appends.check_insync(partition)
            if log in services.appends.large:
                return None
            done = log.append(
                records, now_ms=services.clock.now_ms(), leader_epoch=partition.leader_epoch, at_once=True
            )
        except (InvalidRecordError, HeavyBatchError, LargeWriteError, WouldWaitError):
            return None  # the batch was only checked; its refusal may have a row for each of its records
        except KafkaError as error:
            return self._refused(data.index, log, error)
        return self._accepted(data.index, log, done)

    async def append(self, topic: str | bytes, data: PartitionProduceData) -> PartitionProduceResponse:
        """Append as `append_now` does, but wait if necessary."""
        writes = self._writes
        if writes is None and (response := self.append_now(topic, data)) is not None:
            return response
        log: Log | None = None
        appends = self._ctx.services.appends
        try:
            partition, records = checked(self._ctx, self._version, self._acks, topic, data.index, data.records)
            log = partition.log
            if self._acks == -1:
                appends.check_insync(partition)
            done = await append_later(appends, partition, records, None if writes is None else writes.check)
        except InvalidRecordError as error:
            return await self._with_record_errors(data.index, log, error)
        except KafkaError as error:
            return self._refused(data.index, log, error)
        return self._accepted(data.index, log, done)

    def _accepted(self, index: int, log: Log, done: AppendInfo) -> PartitionProduceResponse:
        response = _partition_answer(
            index=index,
            error_code=ErrorCode.NONE,
            base_offset=done.base_offset,
            log_append_time_ms=done.log_append_time_ms,
            log_start_offset=done.log_start_offset,
        )
        if done.last_offset >= log.high_watermark:  # `flush.messages`
            self.unflushed.append((response, log))
        elif not done.duplicate:
            self._ctx.services.waits.notify_moved(log)
        return response

    def _refused(self, index: int, log: Log | None, error: KafkaError) -> PartitionProduceResponse:
        if isinstance(error, NotLeaderError):
            self.leaders.add(error.partition.leader)
            led = LeaderIdAndEpoch(leader_id=error.partition.leader, leader_epoch=error.partition.leader_epoch)
            return replace(refusal(index, None, error, self.reasons), current_leader=led)
        told = refusal(index, log, error, self.reasons)
        # Without a response only the log has the reason.
        return told if self._acks else replace(told, error_message=error.message)

    async def _with_record_errors(
        self, index: int, log: Log | None, error: InvalidRecordError
    ) -> PartitionProduceResponse:
        rows = await self._ctx.time_slice.map(
            lambda one: BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.message),
            self.reasons.records_of(error),
        )
        keyless = sum(message.startswith(NO_KEY) for _, message in error.record_errors)
        self._ctx.services.appends.keyless_refused.mark(keyless, trio.current_time())
        return replace(refusal(index, log, error, self.reasons), record_errors=tuple(rows))


def checked(
    ctx: Context, version: int, acks: int, topic: str | bytes, index: int, records: object
) -> tuple[Partition, memoryview]:
    """Return the partition and its records, if a client may write them there. Raises KafkaError."""
    if acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"invalid acks {acks}; must be -1, 0 or 1")
    partition = led_partition(ctx, topic, index)
    if not isinstance(records, memoryview) or not records:
        raise EarlyRefusalError(ErrorCode.INVALID_RECORD, f"no records for {partition.topic_partition}")
    if version < ZSTD_SINCE and len(records) >= HEADER_BYTES:  # otherwise the log reports the error
        _check_codec(records, version)
    if partition.is_internal:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker may write to {partition.topic_partition.topic}"
        )
    return partition, records


def _check_codec(records: memoryview, version: int) -> None:
    if records[ATTRIBUTES_LOW_BYTE_POSITION] & CODEC_MASK == Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd requires Produce version {ZSTD_SINCE} or later (version {version})",
        )


def refusal(index: int, log: Log | None, error: KafkaError, reasons: ErrorMessageBudget) -> PartitionProduceResponse:
    is_early = isinstance(error, EarlyRefusalError)
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=_log_start(log, error),
        error_message=None if is_early and error.code is ErrorCode.INVALID_RECORD else reasons.message_of(error),
    )


def _log_start(log: Log | None, error: KafkaError) -> int:
    """Return the log start for the response to a refusal: Apache Kafka returns it if the log itself refused."""
    if log is None or error.code in LOG_START_UNTOLD or isinstance(error, EarlyRefusalError):
        return -1
    return log.log_start_offset
