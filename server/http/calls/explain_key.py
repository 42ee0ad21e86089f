"""The history of a key, which HTTP has as a text: see `..control.explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ...control import explain
from ...control.explain import KeyExplanation
from ...control.operation import PartitionId, Range, TopicName
from ...control.records import Encoding, decoded
from ..call import Call, Lives


@dataclass(frozen=True, slots=True)
class ExplainKeyRequest:
    topic: TopicName
    key: str
    encoding: Encoding = Encoding.TEXT
    """How the key is written."""
    partition: PartitionId | None = None
    """Null: where the clients' default partitioner puts the key."""
    records_max: Annotated[int, Range(1, explain.RECORDS_MAX)] = explain.RECORDS
    """So many records are told, the newest."""


async def explain_key(lives: Lives, request: ExplainKeyRequest) -> KeyExplanation:
    key = decoded("key", request.key, request.encoding)
    return await explain.explain_key(
        lives.broker, request.topic, key, partition=request.partition, records_max=request.records_max
    )


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/v1/topics/{topic}/explain-key",
        "The history of one key: each record, what took its place, and what the next pass makes of it.",
        ExplainKeyRequest,
        KeyExplanation,
        explain_key,
        statuses=(404, 409),
        only_waits=True,
    ),
)
