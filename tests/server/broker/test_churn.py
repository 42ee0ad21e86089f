"""Topics are created, changed and deleted while clients use them and the cleaner works: nothing breaks.

Each client sends its next request without waiting for the others, so creations, deletions, appends, fetches, changes
of policy, clean passes and retention meet in any order. The possible answers of each are known, and data that was
acknowledged for an existing topic is there.
"""

from __future__ import annotations

import logging
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.config.resources import ConfigResourceType
from ottla.server.runtime.clock import wall_time_ms
from support.broker.admin import growth, metadata, wanted
from support.broker.conversation import address, fetch_request, list_offset, produce_request
from support.broker.raw_client import RawClient
from support.logs.batches import batch
from support.sizes import some

TOPICS = ("a", "b", "c")
CLIENTS, REQUESTS = 5, 600
SMALL = {"internal.segment.bytes": "2000", "min.cleanable.dirty.ratio": "0", "file.delete.delay.ms": "0"}

GONE = {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
ALLOWED: dict[str, set[ErrorCode]] = {
    "CreateTopicsRequest": {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS},
    "CreatePartitionsRequest": GONE | {ErrorCode.INVALID_PARTITIONS},
    "DeleteTopicsRequest": GONE,
    "DeleteRecordsRequest": GONE | {ErrorCode.POLICY_VIOLATION},
    "IncrementalAlterConfigsRequest": GONE,
    "ProduceRequest": GONE,
    "FetchRequest": GONE | {ErrorCode.OFFSET_OUT_OF_RANGE},
    "MetadataRequest": GONE,
}


def some_request(rng: random.Random) -> tuple[Any, int | None]:
    """Return a request and its version; produce and fetch are the most frequent."""
    topic, partition = rng.choice(TOPICS), rng.randrange(2)
    deleted = DeleteRecordsTopic(name=topic, partitions=(DeleteRecordsPartition(partition_index=partition, offset=-1),))
    policy = AlterableConfig(name="cleanup.policy", value=rng.choice(["compact", "delete", "compact,delete"]))
    altered = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=topic, configs=(policy,))
    records = batch((f"k{rng.randrange(5)}", "v" * rng.randrange(900)), timestamp=wall_time_ms())
    choices: list[tuple[int, Any, int | None]] = [
        (12, produce_request(topic, records, partition), 12),
        (6, fetch_request(topic, rng.randrange(20), partition, max_wait_ms=rng.choice([0, 1])), 12),
        (4, CreateTopicsRequest(topics=(wanted(topic, rng.choice([1, 2]), configs=SMALL),)), None),
        (2, DeleteTopicsRequest(topics=(DeleteTopicState(name=topic),)), None),
        (1, CreatePartitionsRequest(topics=(growth(topic, 2),)), None),
        (2, IncrementalAlterConfigsRequest(resources=(altered,)), None),
        (1, DeleteRecordsRequest(topics=(deleted,)), None),
        (1, MetadataRequest(topics=None), None),
    ]
    _, request, version = rng.choices(choices, [weight for weight, _, _ in choices])[0]
    return request, version


def error_of(answer: Any) -> ErrorCode:
    """Return the error of the only topic, partition or resource in the answer; NONE for an empty answer."""
    for field in ("responses", "topics", "results"):
        for row in getattr(answer, field, ()):
            for inner in ("partition_responses", "partitions"):
                for partition in getattr(row, inner, ()):
                    if partition.error_code:
                        return ErrorCode(partition.error_code)
            return ErrorCode(getattr(row, "error_code", 0))
    return ErrorCode.NONE


@pytest.mark.parametrize("seed", some((2, 7, 11), 1))
def test_creating_and_deleting_topics_breaks_nothing(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    rng = random.Random(seed)
    overrides = {"log.cleaner.backoff.ms": "1", "log.retention.check.interval.ms": "5"}
    with ottla.Broker(str(tmp_path), overrides=overrides, rng=random.Random(seed)) as broker, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(*address(broker))) for _ in range(CLIENTS)]
        waiting: list[list[str]] = [[] for _ in clients]
        for _ in range(REQUESTS):
            number = rng.randrange(CLIENTS)
            request, version = some_request(rng)
            clients[number].send(request, version)
            waiting[number].append(type(request).__name__)
            if len(waiting[number]) > rng.randrange(8):
                check(clients[number], waiting[number].pop(0))
        for client, names in zip(clients, waiting, strict=True):
            for name in names:
                check(client, name)
        before = ends(clients[0])
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert ends(client) == before
        assert sorted(path.name for path in tmp_path.glob("*-stray")) == []
    assert caplog.records == []


def check(client: RawClient, name: str) -> None:
    assert error_of(client.receive()) in ALLOWED[name], name


def ends(client: RawClient) -> dict[tuple[str, int], tuple[int, int]]:
    """Return error and log end offset of every partition."""
    return {
        (topic.name, row.partition_index): list_offset(client, topic.name, -1, row.partition_index)
        for topic in metadata(client).topics
        for row in topic.partitions
    }
