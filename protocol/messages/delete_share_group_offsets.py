"""DeleteShareGroupOffsets (key 92, version 0): forget where an empty share group is in topics (KIP-932)."""

from dataclasses import dataclass

from ..wire import ZERO_UUID, Int16, Int32, String, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsRequest:
    group_id: String = ""
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()
