"""DescribeProducers: the stored state of a partition's producers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.broker.admin import create, wanted
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.logs.batches import COMMIT, batch, marker

TP = TopicPartition("t", 0)


def describe(client: RawClient, topic: str, *partitions: int) -> list[PartitionResponse]:
    answer = client.ask(DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=partitions),)))
    (row,) = answer.topics
    assert row.name == topic
    return list(row.partitions)


async def test_producers_are_described_with_their_open_transactions(tmp_path: Path) -> None:
    def of(producer_id: int, **options: Any) -> bytearray:
        return batch(("k", "v"), ("k", "w"), producer_id=producer_id, **options)

    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t")
        now_ms = served.broker.services.clock.now_ms()  # producers of long ago expire
        append = served.broker.services.appends.append_own
        append(TP, of(1, producer_epoch=3, base_sequence=10, timestamp=now_ms - 2))
        append(TP, of(2, producer_epoch=4, transactional=True, timestamp=now_ms - 1))
        append(TP, of(3, transactional=True))
        append(TP, marker(COMMIT, producer_id=3, producer_epoch=1, coordinator_epoch=9, timestamp=now_ms))

        (row,) = await served.ask(describe, "t", 0)

    assert (row.partition_index, row.error_code, row.error_message) == (0, ErrorCode.NONE, None)
    assert row.active_producers == (
        ProducerState(
            producer_id=1, producer_epoch=3, last_sequence=11, last_timestamp=now_ms - 2, coordinator_epoch=-1
        ),
        ProducerState(
            producer_id=2,
            producer_epoch=4,
            last_sequence=1,
            last_timestamp=now_ms - 1,
            coordinator_epoch=-1,
            current_txn_start_offset=2,
        ),
        ProducerState(producer_id=3, producer_epoch=1, last_timestamp=now_ms, coordinator_epoch=9),
    )


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [
        ("t", 0, ErrorCode.NONE),
        ("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 32_767, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_an_unknown_partition_has_an_error(
    tmp_path: Path, topic: str, partition: int, expected: ErrorCode
) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t")
        (row,) = await served.ask(describe, topic, partition)

    assert (row.error_code, row.active_producers) == (expected, ())
    assert (row.error_message is None) == (expected == ErrorCode.NONE)


def test_exactly_the_replicas_describe_producers(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), nodes=3) as broker, ExitStack() as stack:
        leader, follower, stranger = (stack.enter_context(RawClient(*address(broker, node))) for node in range(3))
        create(leader, wanted("t", -1, -1, assignments=[(0, (0, 1))]))
        produce(leader, "t", ("k", "v"), producer_id=1, producer_epoch=0, base_sequence=0)
        assert [row.producer_id for row in describe(leader, "t", 0)[0].active_producers] == [1]
        assert describe(follower, "t", 0) == describe(leader, "t", 0)
        assert describe(stranger, "t", 0)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_idle_producers_are_forgotten_after_a_configurable_time(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        broker = served.broker
        await served.ask(create_topic, "t")
        # The topic created afterwards also uses the changed time.
        await broker.services.config_changes.alter_broker("", {"producer.id.expiration.ms": "3600000"})
        await served.ask(create_topic, "u")
        for topic in ("t", "u"):
            records = batch(("k", "v"), producer_id=1, timestamp=broker.clock.now_ms())
            broker.services.appends.append_own(TopicPartition(topic, 0), records)

        broker.clock.advance(3_000_000)
        await broker.background_jobs.expire_producers()
        assert [len((await served.ask(describe, topic, 0))[0].active_producers) for topic in ("t", "u")] == [1, 1]
        broker.clock.advance(600_000)
        await broker.background_jobs.expire_producers()
        assert [len((await served.ask(describe, topic, 0))[0].active_producers) for topic in ("t", "u")] == [0, 0]
