"""DescribeProducers: what a partition remembers of its producers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from ottla.storage.files import OsFiles
from ottla.storage.paths import TopicPartition
from support.batches import COMMIT, batch, marker
from support.conversation import create_topic
from support.raw_client import RawClient
from support.served import serving

TP = TopicPartition("t", 0)


def describe(client: RawClient, topic: str, *partitions: int) -> list[PartitionResponse]:
    answer = client.ask(DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=partitions),)))
    (row,) = answer.topics
    assert row.name == topic
    return list(row.partitions)


async def test_producers_are_told_with_their_open_transactions(tmp_path: Path) -> None:
    def of(producer_id: int, **options: Any) -> bytearray:
        return batch(("k", "v"), ("k", "w"), producer_id=producer_id, **options)

    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t")
        append = served.broker.append_internal
        append(TP, of(1, producer_epoch=3, base_sequence=10, timestamp=5_000))
        append(TP, of(2, producer_epoch=4, transactional=True, timestamp=6_000))
        append(TP, of(3, transactional=True))
        append(TP, marker(COMMIT, producer_id=3, producer_epoch=1, coordinator_epoch=9, timestamp=7_000))

        (row,) = await served.ask(describe, "t", 0)

    assert (row.partition_index, row.error_code, row.error_message) == (0, ErrorCode.NONE, None)
    assert row.active_producers == (
        ProducerState(producer_id=1, producer_epoch=3, last_sequence=11, last_timestamp=5_000, coordinator_epoch=-1),
        ProducerState(
            producer_id=2,
            producer_epoch=4,
            last_sequence=1,
            last_timestamp=6_000,
            coordinator_epoch=-1,
            current_txn_start_offset=2,
        ),
        ProducerState(producer_id=3, producer_epoch=1, last_timestamp=7_000, coordinator_epoch=9),
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
async def test_what_cannot_be_described_has_an_error(
    tmp_path: Path, topic: str, partition: int, expected: ErrorCode
) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t")
        (row,) = await served.ask(describe, topic, partition)

    assert (row.error_code, row.active_producers) == (expected, ())
    assert (row.error_message is None) == (expected == ErrorCode.NONE)
