"""DeleteTopics (key 20, versions 1–6).

4 adds flexible encoding, 5 error messages and THROTTLING_QUOTA_EXCEEDED (KIP-599), 6 deletion by topic id (KIP-516).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int16, Int32, String, Uuid, nullable_since, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicState:
    name: String | None = None
    topic_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    topics: Annotated[tuple[DeleteTopicState, ...], since(6)] = ()
    topic_names: Annotated[tuple[String, ...], until(5)] = ()
    timeout_ms: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTopicResult:
    name: Annotated[String | None, nullable_since(6)] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(5)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: tuple[DeletableTopicResult, ...] = ()
