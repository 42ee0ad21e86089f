"""Information from nodes about themselves and partitions: pages, log directories, producer ids, epochs, deleted records."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.server.config.resources import ConfigResourceType
from support.broker.admin import create, delete_records, metadata, wanted
from support.broker.conversation import address, create_topic, fetch, list_offset, produce, records_of
from support.broker.raw_client import RawClient

NOT_ASKED = -(2**31)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """Yield a client of a broker with topics a (1 partition), b (3) and c (2), for tests that only read."""
    with ottla.Broker(str(tmp_path_factory.mktemp("shared"))) as broker, RawClient(*address(broker)) as client:
        create(client, wanted("a"), wanted("b", 3), wanted("c", 2))
        yield client


# DescribeTopicPartitions

Page = list[tuple[str, ErrorCode, list[int]]]


def page(client: RawClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> tuple[Page, Any]:
    """Return name, error and partitions of each topic in the answer, and the beginning of the next page."""
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None,
    )
    answer = client.ask(request)
    topics = [
        (row.name, ErrorCode(row.error_code), [each.partition_index for each in row.partitions])
        for row in answer.topics
    ]
    following = answer.next_cursor
    return topics, (following.topic_name, following.partition_index) if following else None


OK, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        ((), {}, ([("a", OK, [0]), ("b", OK, [0, 1, 2]), ("c", OK, [0, 1])], None)),
        (("c", "a", "c"), {}, ([("a", OK, [0]), ("c", OK, [0, 1])], None)),
        (("b",), {"limit": 2}, ([("b", OK, [0, 1])], ("b", 2))),
        (("b",), {"limit": 2, "cursor": ("b", 2)}, ([("b", OK, [2])], None)),
        ((), {"limit": 2}, ([("a", OK, [0]), ("b", OK, [0])], ("b", 1))),
        ((), {"limit": 2, "cursor": ("b", 1)}, ([("b", OK, [1, 2])], ("c", 0))),
        ((), {"cursor": ("bb", 1)}, ([("c", OK, [0, 1])], None)),
        ((), {"cursor": ("zzz", 0)}, ([], None)),
        (("b",), {"cursor": ("b", 7)}, ([("b", OK, [])], None)),
        (("b",), {"limit": 0}, ([("b", OK, [0])], ("b", 1))),
        (("b",), {"limit": -1}, ([("b", OK, [0])], ("b", 1))),
        (("a", "bb", "c"), {}, ([("a", OK, [0]), ("bb", UNKNOWN, []), ("c", OK, [0, 1])], None)),
        (("bb", "c"), {"cursor": ("bb", 1)}, ([("bb", UNKNOWN, []), ("c", OK, [0, 1])], None)),
        (("a b",), {}, ([("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, [])], None)),
        (("b",), {"cursor": ("b", -1)}, ([("b", ErrorCode.INVALID_REQUEST, [])], None)),
        (
            ("a", "b"),
            {"cursor": ("c", 0)},
            ([("a", ErrorCode.INVALID_REQUEST, []), ("b", ErrorCode.INVALID_REQUEST, [])], None),
        ),
    ],
)
def test_topics_are_described_page_by_page(
    shared: RawClient, names: tuple[str, ...], options: dict[str, Any], expected: tuple[Page, Any]
) -> None:
    assert page(shared, *names, **options) == expected


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_all_pages_together_hold_every_partition_once(shared: RawClient, limit: int) -> None:
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(7):
        topics, cursor = page(shared, limit=limit, cursor=cursor)
        assert sum(len(partitions) for _, _, partitions in topics) <= limit
        seen += [(name, index) for name, _, partitions in topics for index in partitions]
        if cursor is None:
            break
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]


def test_no_page_exceeds_max_request_partition_size_limit(tmp_path: Path) -> None:
    overrides = {"max.request.partition.size.limit": "2"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", partitions=3)
        assert page(client, "t") == ([("t", OK, [0, 1])], ("t", 2))


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_a_cluster_describes_its_nodes(shared: RawClient, version: int) -> None:
    answer = shared.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    (node,) = metadata(shared).brokers
    assert [(row.broker_id, row.host, row.port) for row in answer.brokers] == [(0, node.host, node.port)]
    assert (answer.cluster_id, answer.controller_id) == (metadata(shared).cluster_id, 0)
    assert answer.cluster_authorized_operations == 8096
    assert shared.ask(DescribeClusterRequest(), version).cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (1, ErrorCode.NONE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_only_brokers_are_cluster_members(shared: RawClient, kind: int, code: ErrorCode) -> None:
    answer = shared.ask(DescribeClusterRequest(endpoint_type=kind))
    assert (answer.error_code, answer.endpoint_type) == (code, 1)
    assert bool(answer.error_message) == bool(code) != bool(answer.brokers)


# DescribeLogDirs


def log_dirs(client: RawClient, *wanted: tuple[str, list[int]], version: int = 5) -> list[Any]:
    topics = tuple(DescribableLogDirTopic(topic=name, partitions=tuple(indexes)) for name, indexes in wanted)
    return list(client.ask(DescribeLogDirsRequest(topics=topics or None), version).results)


def test_log_dirs_are_described_with_partition_sizes(tmp_path: Path) -> None:
    directories = [str(tmp_path / "one"), str(tmp_path / "two")]
    overrides = {"log.dirs": ",".join(directories)}
    with ottla.Broker(overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", partitions=4)
        produce(client, "t", ("k", "v" * 1000), partition=1)
        results = log_dirs(client)
        assert [row.log_dir for row in results] == directories
        assert all(row.total_bytes > row.usable_bytes > 0 for row in results)
        sizes = {
            each.partition_index: each.partition_size
            for row in results
            for topic in row.topics
            for each in topic.partitions
        }
        assert {index for index, size in sizes.items() if size} == {1} and len(sizes) == 4
        assert sizes[1] == len(fetch(client, "t", 0, partition=1).records or b"")
        assert [len(topic.partitions) for row in results for topic in row.topics] == [2, 2]


@pytest.mark.parametrize("version", range(1, 6))
def test_only_the_requested_partitions_are_described(shared: RawClient, version: int) -> None:
    (row,) = log_dirs(shared, ("b", [1, 9]), ("missing", [0]), version=version)
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in row.topics] == [("b", [1])]
    assert (row.total_bytes > 0) == (version >= 4)


# InitProducerId


def producer_id(client: RawClient, version: int = 5, **fields: Any) -> tuple[ErrorCode, int]:
    request = InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 1000, **fields})
    answer = client.ask(request, version)
    assert answer.producer_epoch == (-1 if answer.error_code else 0)
    return ErrorCode(answer.error_code), answer.producer_id


def test_producer_ids_are_never_given_twice_not_even_after_a_kill(tmp_path: Path) -> None:
    given = []
    for generation in range(3):
        here, there = tmp_path / str(generation), tmp_path / str(generation + 1)
        with ottla.Broker(str(here)) as broker, RawClient(*address(broker)) as client:
            given += [producer_id(client)[1] for _ in range(5)]
            shutil.copytree(here, there)  # The files that a kill at this moment would leave.
            given += [producer_id(client)[1] for _ in range(2)] if generation == 2 else []
    assert len(set(given)) == len(given) == 17


def test_all_nodes_take_ids_from_one_source(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), nodes=3) as broker:
        given = []
        for node in range(3):
            with RawClient(*address(broker, node)) as client:
                given += [producer_id(client)[1] for _ in range(3)]
    assert len(set(given)) == 9


@pytest.mark.parametrize("version", range(6))
def test_every_init_producer_id_version_is_answered(shared: RawClient, version: int) -> None:
    code, first = producer_id(shared, version)
    assert (code, producer_id(shared, version)) == (ErrorCode.NONE, (ErrorCode.NONE, first + 1))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5, "producer_epoch": 3}, ErrorCode.NONE),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 3}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_id_and_its_epoch_belong_together(shared: RawClient, fields: dict[str, Any], code: ErrorCode) -> None:
    answered, given = producer_id(shared, **fields)
    assert (answered, given == -1) == (code, code is not ErrorCode.NONE)


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("topic", "partition", "current", "asked", "expected"),
    [
        ("t", 0, -1, 0, (ErrorCode.NONE, 0, 2)),
        ("t", 0, 0, 0, (ErrorCode.NONE, 0, 2)),
        ("t", 0, -1, 1, (ErrorCode.NONE, -1, -1)),
        ("t", 0, -1, -1, (ErrorCode.NONE, -1, -1)),
        ("t", 0, 5, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        ("t", 1, -1, 0, (ErrorCode.NONE, 0, 0)),
        ("t", 7, -1, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
        ("missing", 0, -1, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
def test_a_leader_epoch_ends_where_the_next_begins(
    filled: RawClient, version: int, topic: str, partition: int, current: int, asked: int, expected: tuple[Any, ...]
) -> None:
    row = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=asked)
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic=topic, partitions=(row,)),))
    (found,) = filled.ask(request, version).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == expected


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """Yield a client of a broker whose topic t has two records in partition 0 and none in partition 1."""
    with ottla.Broker(str(tmp_path_factory.mktemp("filled"))) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", partitions=2)
        produce(client, "t", ("a", "1"), ("b", "2"))
        yield client


# DeleteRecords


@pytest.mark.scenario(167, 198)
@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, (ErrorCode.NONE, 1)),
        (1, (ErrorCode.NONE, 1)),
        (2, (ErrorCode.NONE, 2)),
        (3, (ErrorCode.NONE, 3)),
        (-1, (ErrorCode.NONE, 3)),
        (4, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (-2, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (2**63 - 1, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
    ],
)
@pytest.mark.parametrize("version", range(3))
def test_records_below_an_offset_are_deleted_at_once(
    client: RawClient, version: int, offset: int, expected: tuple[ErrorCode, int]
) -> None:
    create_topic(client, "t")
    for key in "abc":
        produce(client, "t", (key, "1"))
    assert delete_records(client, "t", 1) == (ErrorCode.NONE, 1)
    assert delete_records(client, "t", offset, version=version) == expected
    start = max(1, expected[1])
    assert fetch(client, "t", start - 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = fetch(client, "t", start)
    assert (data.log_start_offset, data.high_watermark) == (start, 3)
    assert [each for each, _, _ in records_of(data)] == list(range(start, 3))
    assert list_offset(client, "t", -2) == (ErrorCode.NONE, start)


def test_records_inside_a_batch_can_be_deleted(client: RawClient) -> None:
    create_topic(client, "t")
    produce(client, "t", *[(f"k{number}", "v") for number in range(10)])
    assert delete_records(client, "t", 4) == (ErrorCode.NONE, 4)
    assert fetch(client, "t", 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    # The batch is returned whole, as by Kafka; consumers skip records before the requested offset.
    assert [offset for offset, _, _ in records_of(fetch(client, "t", 4))] == list(range(10))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("delete", (ErrorCode.NONE, 1)),
        ("compact,delete", (ErrorCode.NONE, 1)),
        ("", (ErrorCode.NONE, 1)),
        ("compact", (ErrorCode.POLICY_VIOLATION, -1)),
    ],
)
def test_only_purely_compacted_topics_keep_their_records(
    client: RawClient, policy: str, expected: tuple[ErrorCode, int]
) -> None:
    create_topic(client, "t", cleanup_policy=policy)
    produce(client, "t", ("k", "v"))
    assert delete_records(client, "t", 1) == expected


def test_records_of_missing_or_internal_topics_are_not_deleted(client: RawClient) -> None:
    create_topic(client, "t")
    metadata(client, "__consumer_offsets", create=True)
    assert delete_records(client, "missing", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_records(client, "t", 0, partition=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_records(client, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


@pytest.mark.scenario(180, 198)
def test_a_moved_log_start_survives_a_stop(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        produce(client, "t", ("a", "1"), ("b", "2"))
        delete_records(client, "t", 1)
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert list_offset(client, "t", -2) == (ErrorCode.NONE, 1)
        assert produce(client, "t", ("c", "3")).log_start_offset == 1


# Versions of the config APIs; test_config_apis tests their effects


@pytest.mark.parametrize("version", range(3))
def test_every_alter_configs_version_is_answered(shared: RawClient, version: int) -> None:
    resource = ReplacedResource(resource_type=ConfigResourceType.TOPIC, resource_name="a", configs=())
    (row,) = shared.ask(AlterConfigsRequest(resources=(resource,), validate_only=True), version).responses
    assert (row.error_code, row.resource_name) == (ErrorCode.NONE, "a")


@pytest.mark.parametrize("version", range(2))
def test_every_incremental_alter_configs_version_is_answered(shared: RawClient, version: int) -> None:
    resource = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name="a", configs=())
    (row,) = shared.ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True), version).responses
    assert (row.error_code, row.resource_name) == (ErrorCode.NONE, "a")
