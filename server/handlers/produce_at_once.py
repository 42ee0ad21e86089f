"""One batch for one partition, appended at once; and requests that are like the one before them but for their records.

A client that does not batch sends the same request again and again, with other records: the same client id, topic, partition
and acks. So the bytes before the records are compared instead of being read, and of the answer the place of the records is
written anew. What it takes for the records to be appended is asked each time.

    request   size | key, version | correlation id | client id … index | length | records | tags
                     `version`                       `head`……………………………………|           | `TAGS`, in flexible versions
    answer    size | correlation id | … | base offset, append time, log start | …
                                          the place
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any, Self

from ...protocol.compression import Codec
from ...protocol.connection import Request, encode_request, encode_response
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.making import maker
from ...protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from ...protocol.records import ATTRIBUTES_LOW_BYTE_POSITION, CODEC_MASK, HEADER_BYTES
from ...protocol.wire import uvarint
from ...storage.disk.files import WouldWaitError
from ...storage.logs.log import AppendInfo, LargeWriteError, Log
from ...storage.produce.record_checks import HeavyBatchError, InvalidRecordError, NotOneBatchError
from ...storage.topics.options import MAX_LONG
from ..partitions.reasons import Reasons
from ..partitions.topics import Partition
from ..services.context import Context, Services
from ..transactions.verification import UnverifiedError
from .routing import led_partition

# Older clients cannot read zstd (KIP-110).
ZSTD_SINCE = 7

# Refusals by the log that do not tell where it starts, as in Apache Kafka.
LOG_START_UNTOLD = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)

_partition_answer = maker(PartitionProduceResponse)

HEAD_BYTES_MAX = 1 << 10
"""A client id may have 32 KiB, and thousands of connections shall not keep it."""
TAGS = bytes(3)
"""What stands behind the records: no tagged fields of the partition, of the topic, of the request."""
_START = struct.Struct(">ii")
"""Key and version, correlation id."""
_LENGTH = struct.Struct(">i")
_HEAD_AT = _START.size
_CORRELATION_ID_AT = 4
"""In an answer, whose first four bytes are its size."""
_PLACES = {size.size: size for size in (struct.Struct(">qq"), struct.Struct(">qqq"))}
"""Base offset, log append time and, from version 5 on, log start offset."""


def checked(
    ctx: Context, version: int, acks: int, topic: str | bytes, index: int, records: object
) -> tuple[Partition, memoryview]:
    """The partition and its records, if a client may write them there. Raises KafkaError."""
    if acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; allowed are -1, 0 and 1")
    partition = led_partition(ctx, topic, index)
    if not isinstance(records, memoryview) or not records:
        raise NotOneBatchError(ErrorCode.INVALID_RECORD, f"no records for {partition.topic_partition}")
    _check_attributes(records, version)
    if partition.is_internal:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic_partition.topic} is written by the broker alone"
        )
    return partition, records


def _check_attributes(records: memoryview, version: int) -> None:
    """Refuse what the batch's attributes say and this request must not carry; looks at one byte."""
    if len(records) < HEADER_BYTES:
        return  # The log says what is wrong with it.
    attributes = records[ATTRIBUTES_LOW_BYTE_POSITION]
    if attributes & CODEC_MASK == Codec.ZSTD and version < ZSTD_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce {ZSTD_SINCE} or newer, this is version {version}",
        )


def append_now(services: Services, partition: Partition, records: memoryview) -> AppendInfo | None:
    """None: not at once. Raises KafkaError."""
    log = partition.log
    if log in services.appends.large:
        return None
    try:
        return log.append(records, now_ms=services.clock.now_ms(), leader_epoch=partition.leader_epoch, at_once=True)
    except (HeavyBatchError, LargeWriteError, WouldWaitError):
        return None


def accepted(index: int, done: AppendInfo) -> PartitionProduceResponse:
    return _partition_answer(
        index=index,
        error_code=ErrorCode.NONE,
        base_offset=done.base_offset,
        log_append_time_ms=done.log_append_time_ms,
        log_start_offset=done.log_start_offset,
    )


def refusal(index: int, log: Log | None, error: KafkaError, reasons: Reasons) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=_log_start(log, error),
        error_message=None if isinstance(error, NotOneBatchError) else reasons.of(error),
    )


def _log_start(log: Log | None, error: KafkaError) -> int:
    """What the answer to a refusal says of the log start: Apache Kafka names it when the log itself refused."""
    if log is None or error.code in LOG_START_UNTOLD or isinstance(error, UnverifiedError | NotOneBatchError):
        return -1
    return log.log_start_offset


def taken_at_once(
    ctx: Context, version: int, acks: int, topic: str | bytes, index: int, records: object
) -> AppendInfo | PartitionProduceResponse | None:
    """Append one batch of no transaction, if nobody has to be asked or waited for.

    Returns:
        Where it went, or the answer with what its log refused it for; None if it is not for here: then nothing has been done.
    """
    services = ctx.services
    if acks not in (1, -1) or services.authorizer is not None:
        return None
    log: Log | None = None
    try:
        partition, batch = checked(ctx, version, acks, topic, index, records)
        if acks == -1:
            services.appends.check_insync(partition)
        if partition.log.config.flush_messages < MAX_LONG:
            return None
        log = partition.log
        done = append_now(services, partition, batch)
    except InvalidRecordError:
        return None  # The batch was only looked at.
    except KafkaError as error:
        # It may have been given offsets before, in place: it is not to be looked at again.
        return None if log is None else refusal(index, log, error, Reasons())
    if done is None:
        return None
    if not done.duplicate:
        services.waits.moved(log)
    return done


class Again:
    """Answers requests that are like one that went straight, as that was answered. Keeps nothing of its frame."""

    __slots__ = (
        "_acks",
        "_answer",
        "_before",
        "_ctx",
        "_head",
        "_index",
        "_is_flexible",
        "_place",
        "_place_at",
        "_records_at",
        "_request",
        "_size",
        "_spoken",
        "_tags_bytes",
        "_told",
        "_topic",
    )

    def __init__(
        self, ctx: Context, frame: memoryview, request: Request, topic: str | bytes, told: ProduceResponse
    ) -> None:
        body = request.body
        (data,) = body.topic_data[0].partition_data
        self._ctx = ctx
        self._request = replace(request, body=None)
        self._topic = topic
        self._index = data.index
        self._acks = body.acks
        self._told = told
        self._is_flexible = request.api.is_flexible(request.version)
        self._tags_bytes = len(TAGS) if self._is_flexible else 0
        self._size = len(frame)
        self._records_at = self._size - self._tags_bytes - len(data.records)
        length = self._length_of(len(data.records))
        (self._spoken, _) = _START.unpack_from(frame)
        self._before = bytes(frame[_HEAD_AT : self._records_at - len(length)])
        self._head = self._before + length
        # What tells of the place is what differs.
        self._answer, other = (self._told_of(place) for place in (0, -1))
        differing = [at for at, (one, another) in enumerate(zip(self._answer, other, strict=True)) if one != another]
        self._place_at, self._place = differing[0], _PLACES[len(differing)]

    @classmethod
    def of(
        cls, ctx: Context, frame: memoryview, request: Request, topic: str | bytes, told: ProduceResponse
    ) -> Self | None:
        """None if the request was refused, or is not written as this reads it: with tags or bytes that mean nothing, say; or if it
        has much before its records."""
        if told.responses[0].partition_responses[0].error_code:
            return None
        written = encode_request(request.api, request.version, request.correlation_id, request.client_id, request.body)
        if written[_LENGTH.size :] != bytes(frame):
            return None
        made = cls(ctx, frame, request, topic, told)
        return made if len(made._head) <= HEAD_BYTES_MAX else None

    def __call__(self, frame: memoryview) -> list[Any] | None:
        """The parts of the answer; None if it is for others to answer: then nothing has been done."""
        size = len(frame)
        if size < _HEAD_AT:
            return None
        spoken, correlation_id = _START.unpack_from(frame)
        if spoken != self._spoken or (size != self._size and not self._fits(size)):
            return None
        at = self._records_at
        # A codec, a transaction: seldom, and then there is more to ask.
        if bytes(frame[_HEAD_AT:at]) != self._head or frame[at + ATTRIBUTES_LOW_BYTE_POSITION]:
            return None
        end = size - self._tags_bytes
        if end != size and frame[end:] != TAGS:
            return None
        request = self._request
        outcome = taken_at_once(self._ctx, request.version, self._acks, self._topic, self._index, frame[at:end])
        if outcome is None:
            return None
        if isinstance(outcome, PartitionProduceResponse):
            return encode_response(replace(request, correlation_id=correlation_id), self._telling(outcome))
        answer = bytearray(self._answer)
        _LENGTH.pack_into(answer, _CORRELATION_ID_AT, correlation_id)
        place_at = self._place_at
        if self._place.size == 24:
            self._place.pack_into(
                answer, place_at, outcome.base_offset, outcome.log_append_time_ms, outcome.log_start_offset
            )
        else:
            self._place.pack_into(answer, place_at, outcome.base_offset, outcome.log_append_time_ms)
        return [answer]

    def _fits(self, size: int) -> bool:
        """Whether a frame of this size may be like it, so that from now on frames of this size are compared."""
        records_bytes = size - self._tags_bytes - self._records_at
        if records_bytes < HEADER_BYTES:
            return False
        head = self._before + self._length_of(records_bytes)
        if len(head) != len(self._head):
            return False
        self._head, self._size = head, size
        return True

    def _length_of(self, records_bytes: int) -> bytes:
        """As it stands before the records."""
        return bytes(uvarint(records_bytes + 1)) if self._is_flexible else _LENGTH.pack(records_bytes)

    def _telling(self, response: PartitionProduceResponse) -> ProduceResponse:
        (topic,) = self._told.responses
        return replace(self._told, responses=(replace(topic, partition_responses=(response,)),))

    def _told_of(self, place: int) -> bytes:
        response = self._told.responses[0].partition_responses[0]
        (part,) = encode_response(
            self._request,
            self._telling(replace(response, base_offset=place, log_append_time_ms=place, log_start_offset=place)),
        )
        return bytes(part)
