"""Records that are appended: see `...control.records`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ...control.operation import INT64_MAX, Length, PartitionId, Range, TopicName
from ...control.records import HEADERS_MAX, Encoding, NewRecordFields, RecordAppended, append_record
from ..call import Call, Lives


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
        "POST",
        "/v1/topics/{topic}/records",
        "Append a record.",
        AppendRequest,
        RecordAppended,
        appended,
        statuses=(404, 500, 503),
    ),
)
