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
COMPARED_BYTES = 1 << 12
"""Bytes of the records that are compared with their supposed place in the frame. A place that is wrong is a few bytes off, and views
of 95 MB take 0.2 s to compare."""
SHARED_MAX = 256
"""Number of objects that are kept for other clients. If there are more, all are forgotten."""
_INT32 = struct.Struct(">i")
_NO_TAGS = bytes(3)
"""Empty tagged fields after the records of a flexible version: of the partition, the topic and the body."""
_ELEMENTS = 2
"""Elements of such a request: one topic, one partition, no tagged field."""
_OFFSETS_SINCE = 5
"""From this version on a response has all three offsets."""
_NOWHERE_ELSE = (-2, -3, -4)
_MARK = struct.pack(">qqq", *_NOWHERE_ELSE)
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


@lru_cache(maxsize=256)
def _response(rest_bytes: int, end_bytes: int) -> struct.Struct:
    """Return the struct of a response: size, correlation ID, the rest before the offsets, the offsets, the end."""
    return struct.Struct(f">4si{rest_bytes}sqqq{end_bytes}s")


class LastProduce:
    """Cached parts of a client's last Produce, without the records: parsed values and bytes. Keeps no view of the frame.

    Clients whose requests have the same bytes there share one object: a thousand of them would not fit the processor's cache.
    """

    __slots__ = (
        "_body",
        "_end",
        "_index",
        "_length_end",
        "_name",
        "_pack",
        "_request",
        "_response",
        "_rest",
        "_size_min",
        "_start",
        "_topic_id",
        "_unpack",
    )

    def __init__(self, start: bytes, rest: bytes, end: bytes, request: Request) -> None:
        # In a flexible version the length has at least one byte.
        head = _head(8 + len(rest), bool(end))
        self._unpack, self._length_end = head.unpack_from, head.size
        self._size_min = head.size + len(end)
        self._start, self._rest, self._end = start, rest, end
        body: ProduceRequest = request.body
        topic = body.topic_data[0]
        self._request = request.api, request.version, request.client_id
        self._body = body.transactional_id, body.acks, body.timeout_ms
        self._name, self._topic_id = topic.name, topic.topic_id
        self._index = topic.partition_data[0].index
        self._pack: Any = None
        self._response = b"", b"", b""
        """Parts of the response for `_pack`, once there has been one: size, rest, end."""

    @classmethod
    def from_frame(cls, frame: memoryview, request: Request) -> LastProduce | None:
        """Return an object for later requests like the Produce in `frame`; None unless it has records for exactly one partition."""
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
        begin = records[:COMPARED_BYTES]
        is_there = frame[length_at:records_at] == length and frame[records_at : records_at + len(begin)] == begin
        if not is_there or length_at > HEAD_BYTES_MAX:
            return None
        key = bytes(frame[:4]), bytes(frame[8:length_at]), end
        last = _SHARED.get(key)
        if last is None:
            if len(_SHARED) >= SHARED_MAX:
                _SHARED.clear()
            last = _SHARED[key] = cls(*key, request)
        return last

    def parse(self, frame: memoryview) -> Request | None:
        """Parse `frame` like `parse_request`; None if more than the correlation ID and the records differ."""
        size_bytes = records_end = len(frame)
        if size_bytes < self._size_min:
            return None
        unpack = self._unpack  # `self._unpack(…)` would look for a method first, which is slower
        start, correlation_id, rest, length = unpack(frame)
        if start != self._start or rest != self._rest:
            return None
        at, end = self._length_end, self._end
        if end:
            if length >= 0x80:
                try:
                    length, at = read_uvarint(frame, at, length)
                except IndexError:
                    return None
            length -= 1
            records_end -= len(end)
            if frame[records_end:] != end:
                return None
        if length <= 0 or at + length != records_end:
            return None
        data, topic, body = _Data(), _Topic(), _Body()
        data.index = self._index
        data.records = frame[at:records_end]
        data.__class__ = PartitionProduceData
        topic.name, topic.topic_id = self._name, self._topic_id
        topic.partition_data = (data,)
        topic.__class__ = TopicProduceData
        body.transactional_id, body.acks, body.timeout_ms = self._body
        body.topic_data = (topic,)
        body.__class__ = ProduceRequest
        api, version, client_id = self._request
        return Request(api, version, correlation_id, client_id, body, _ELEMENTS, size_bytes, size_bytes)

    def encode(self, request: Request, answer: ProduceResponse) -> list[Any] | None:
        """Encode the response to a request from `parse`, like `encode_response`; None unless it has only offsets."""
        topics = answer.responses
        if answer.throttle_time_ms or len(topics) != 1:
            return None
        topic = topics[0]
        partitions = topic.partition_responses
        if len(partitions) != 1 or topic.name != self._name or topic.topic_id != self._topic_id:
            return None
        partition = partitions[0]
        if partition.error_code or partition.index != self._index:
            return None
        pack = self._pack
        if pack is None:
            if request.version < _OFFSETS_SINCE:
                return None
            pack = self._keep(request, answer)
        size, rest, end = self._response
        return [
            pack(
                size,
                request.correlation_id,
                rest,
                partition.base_offset,
                partition.log_append_time_ms,
                partition.log_start_offset,
                end,
            )
        ]

    def _keep(self, request: Request, answer: ProduceResponse) -> Any:
        """Keep the parts of the response that are the same in the next one; returns `_pack`."""
        topic = answer.responses[0]
        base_offset, log_append_time_ms, log_start_offset = _NOWHERE_ELSE
        partition = dataclasses.replace(
            topic.partition_responses[0],
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
        )
        topic = dataclasses.replace(topic, partition_responses=(partition,))
        written = b"".join(encode_response(request, dataclasses.replace(answer, responses=(topic,))))
        head, _, end = written.partition(_MARK)
        self._response = head[:4], head[8:], end
        self._pack = _response(len(head) - 8, len(end)).pack
        return self._pack


_SHARED: dict[tuple[bytes, bytes, bytes], LastProduce] = {}
"""The newest objects, by the bytes that are the same in each request."""
