"""Fast path for a Produce that differs from the previous one only in its records, as most of a producer's do.

Parses it and encodes its response from the cached parts of the previous one. The results are those of `connection`, in a third
of the time.

    request  api_key version | correlation_id | client_id … index | length | records | end
             same              other            same                other    other     no tagged fields three times, or nothing
    response size | correlation_id | topic index error | base_offset log_append_time_ms log_start_offset | …
             same   other            same                other                                             same
"""

from __future__ import annotations

import dataclasses
import struct
from functools import lru_cache
from typing import Any

from .connection import Request, encode_response
from .messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from .schema import unsealed
from .wire import read_uvarint, uvarint

HEAD_BYTES_MAX = 1 << 10
"""Largest part before the records. A client may have names of 32 KB, which would stay in memory with its connection."""
_INT32 = struct.Struct(">i")
_NO_TAGS = bytes(3)
"""Empty tagged fields after the records of a flexible version: of the partition, the topic and the body."""
_ELEMENTS = 2
"""Elements of such a request: one topic, one partition, no tagged field."""
_OFFSETS = struct.Struct(">qqq")
_OFFSETS_SINCE = 5
"""From this version on a response has all three offsets."""
_NOWHERE_ELSE = (-2, -3, -4)
"""Impossible offsets, whose bytes no topic name contains: they mark the place of the offsets in the response."""

# `schema.unsealed` gives the reason.
_Data: Any = unsealed(PartitionProduceData)
_Topic: Any = unsealed(TopicProduceData)
_Body: Any = unsealed(ProduceRequest)


@lru_cache(maxsize=256)
def _head(length_at: int, is_flexible: bool) -> struct.Struct:
    """Return the struct of the head: key and version, correlation ID, the rest before the length of the records, and that
    length or its first byte."""
    return struct.Struct(f">4si{length_at - 8}s{'B' if is_flexible else 'i'}")


class LastProduce:
    """Cached parts of a client's last Produce, without the records: parsed values and bytes. Keeps no view of the frame."""

    __slots__ = (
        "_answer",
        "_body",
        "_end",
        "_head",
        "_index",
        "_length_end",
        "_offsets_at",
        "_request",
        "_topic",
        "_unpack",
    )

    def __init__(self, frame: memoryview, request: Request, length_at: int, end: bytes) -> None:
        # In a flexible version the length has at least one byte.
        head = _head(length_at, bool(end))
        self._unpack, self._length_end, self._end = head.unpack_from, head.size, end
        start, _, rest, _ = head.unpack_from(frame)
        self._head = start, rest
        body: ProduceRequest = request.body
        topic = body.topic_data[0]
        self._request = request.api, request.version, request.client_id
        self._body = body.transactional_id, body.acks, body.timeout_ms
        self._topic = topic.name, topic.topic_id
        self._index = topic.partition_data[0].index
        self._answer: bytes | None = None
        self._offsets_at = 0

    @classmethod
    def from_frame(cls, frame: memoryview, request: Request) -> LastProduce | None:
        """Make an object from the Produce in `frame`, for later ones; None unless it has records for exactly one partition."""
        topics = request.body.topic_data
        if request.elements != _ELEMENTS or not topics or not topics[0].partition_data:
            return None
        records = topics[0].partition_data[0].records
        if not records:
            return None
        if request.api.is_flexible(request.version):
            length, end = uvarint(len(records) + 1), _NO_TAGS
        else:
            length, end = _INT32.pack(len(records)), b""
        records_at = request.end_at - len(end) - len(records)
        length_at = records_at - len(length)
        # A varint may have more bytes than it needs.
        is_there = frame[length_at:records_at] == length and frame[records_at : records_at + len(records)] == records
        return cls(frame, request, length_at, end) if is_there and length_at <= HEAD_BYTES_MAX else None

    def parse(self, frame: memoryview) -> Request | None:
        """Parse `frame` like `parse_request`; None if more than the correlation ID and the records differ."""
        size_bytes, at, end = len(frame), self._length_end, self._end
        if size_bytes < at + len(end):
            return None
        start, correlation_id, rest, length = self._unpack(frame)
        if (start, rest) != self._head:
            return None
        if end:
            if length >= 0x80:
                try:
                    length, at = read_uvarint(frame, at, length)
                except IndexError:
                    return None
            length -= 1
        records_end = at + length
        if length <= 0 or records_end + len(end) != size_bytes or (end and frame[records_end:] != end):
            return None
        data, topic, body = _Data(), _Topic(), _Body()
        data.index = self._index
        data.records = frame[at:records_end]
        data.__class__ = PartitionProduceData
        topic.name, topic.topic_id = self._topic
        topic.partition_data = (data,)
        topic.__class__ = TopicProduceData
        body.transactional_id, body.acks, body.timeout_ms = self._body
        body.topic_data = (topic,)
        body.__class__ = ProduceRequest
        api, version, client_id = self._request
        return Request(api, version, correlation_id, client_id, body, _ELEMENTS, size_bytes, size_bytes)

    def encode(self, request: Request, answer: ProduceResponse) -> list[Any] | None:
        """Encode the response to a request from `parse`, like `encode_response`; None unless it has only offsets."""
        if answer.throttle_time_ms or len(answer.responses) != 1 or len(answer.responses[0].partition_responses) != 1:
            return None
        topic = answer.responses[0]
        partition = topic.partition_responses[0]
        if partition.error_code or partition.index != self._index or (topic.name, topic.topic_id) != self._topic:
            return None
        offsets = partition.base_offset, partition.log_append_time_ms, partition.log_start_offset
        if self._answer is None:
            if request.version < _OFFSETS_SINCE:
                return None
            base_offset, log_append_time_ms, log_start_offset = _NOWHERE_ELSE
            partition = dataclasses.replace(
                partition,
                base_offset=base_offset,
                log_append_time_ms=log_append_time_ms,
                log_start_offset=log_start_offset,
            )
            topic = dataclasses.replace(topic, partition_responses=(partition,))
            written = b"".join(encode_response(request, dataclasses.replace(answer, responses=(topic,))))
            self._answer, self._offsets_at = written, written.index(_OFFSETS.pack(*_NOWHERE_ELSE))
        parts = bytearray(self._answer)
        _INT32.pack_into(parts, 4, request.correlation_id)
        _OFFSETS.pack_into(parts, self._offsets_at, *offsets)
        return [parts]
