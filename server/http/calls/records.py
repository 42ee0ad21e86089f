"""Records, read and appended: see `...control.topic.records`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ...control.topic.encodings import Encoding
from ...control.topic.records import (
    COUNT,
    COUNT_MAX,
    HEADERS_MAX,
    NewRecordFields,
    RecordAppended,
    RecordList,
    append_record,
    read_records,
)
from ..call import Call, Lives
from ..fields import INT64_MAX, Length, Name, PartitionId, Range, TopicName


@dataclass(frozen=True, slots=True)
class ReadRequest:
    topic: Name
    partition: PartitionId = 0
    offset: Annotated[int, Range(0, INT64_MAX)] | None = None
    """The first; null: `count` offsets before the end."""
    count: Annotated[int, Range(1, COUNT_MAX)] = COUNT


@dataclass(frozen=True, slots=True)
class AppendRequest:
    topic: TopicName
    key: str | None = None
    value: str | None = None
    """Null: a tombstone."""
    key_encoding: Encoding = Encoding.TEXT
    value_encoding: Encoding = Encoding.TEXT
    headers: Annotated[Mapping[str, str], Length(0, HEADERS_MAX)] = field(default_factory=dict)
    timestamp_ms: Annotated[int, Range(0, INT64_MAX)] | None = None
    """Null: now, by the broker's clock."""
    partition: PartitionId | None = None
    """Null: where the clients' default partitioner puts the key; 0 without a key."""


async def read(lives: Lives, request: ReadRequest) -> RecordList:
    return await read_records(
        lives.broker, request.topic, request.partition, offset=request.offset, count=request.count
    )


async def appended(lives: Lives, request: AppendRequest) -> RecordAppended:
    new = NewRecordFields(
        request.key,
        request.value,
        request.key_encoding,
        request.value_encoding,
        request.headers,
        request.timestamp_ms,
        request.partition,
    )
    return await append_record(lives.broker, request.topic, new)


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/v1/topics/{topic}/records",
        "Records of a partition, from an offset on; the newest unless told.",
        ReadRequest,
        RecordList,
        read,
        statuses=(404, 500),
        only_waits=True,
    ),
    Call(
        "POST",
        "/v1/topics/{topic}/records",
        "Append a record.",
        AppendRequest,
        RecordAppended,
        appended,
        statuses=(404, 500, 503),
    ),
)
