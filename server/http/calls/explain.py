"""Why partitions are as they are: `..control.explain`, `..control.dry_run`, `..control.explain_key`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ...control.topic.encodings import Encoding, decoded
from ...control.why import dry_run as dry_runs
from ...control.why import explain as explaining
from ...control.why import explain_key as keys
from ...control.why.dry_run import DryRun
from ...control.why.explain import Explanation
from ...control.why.explain_key import KeyExplanation
from ..call import Call, Lives
from ..fields import PartitionId, Range, TopicName


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    topic: TopicName
    partition: PartitionId | None = None
    """Null: all."""


@dataclass(frozen=True, slots=True)
class DryRunRequest:
    topic: TopicName
    partition: PartitionId | None = None
    """Null: all."""
    force: bool = False
    """As a forced pass, which ends the active segment first, and takes young segments."""
    records_max: Annotated[int, Range(0, dry_runs.LISTED_MAX)] = dry_runs.LISTED
    """So many removals are listed for each partition."""


@dataclass(frozen=True, slots=True)
class ExplainKeyRequest:
    topic: TopicName
    key: str
    encoding: Encoding = Encoding.TEXT
    """How the key is written."""
    partition: PartitionId | None = None
    """Null: where the clients' default partitioner puts the key."""
    records_max: Annotated[int, Range(1, keys.RECORDS_MAX)] = keys.RECORDS
    """So many records are told, the newest."""


async def explain(lives: Lives, request: ExplainRequest) -> Explanation:
    return await explaining.explain(lives.broker, request.topic, _only(request.partition))


async def dry_run(lives: Lives, request: DryRunRequest) -> DryRun:
    return await dry_runs.dry_run(
        lives.broker,
        request.topic,
        _only(request.partition),
        force=request.force,
        records_max=request.records_max,
    )


async def explain_key(lives: Lives, request: ExplainKeyRequest) -> KeyExplanation:
    key = decoded("key", request.key, request.encoding)
    return await keys.explain_key(
        lives.broker, request.topic, key, partition=request.partition, records_max=request.records_max
    )


def _only(partition: int | None) -> list[int] | None:
    return None if partition is None else [partition]


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/v1/topics/{topic}/explain",
        "Why each partition is or is not eligible for the cleaner, when it will be, and what makes it so.",
        ExplainRequest,
        Explanation,
        explain,
        statuses=(404, 409),
        only_waits=True,
    ),
    Call(
        "GET",
        "/v1/topics/{topic}/dry-run",
        "What a pass of the cleaner would take out now, without writing anything.",
        DryRunRequest,
        DryRun,
        dry_run,
        statuses=(404, 409),
        only_waits=True,
    ),
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
