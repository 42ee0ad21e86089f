"""WriteTxnMarkers: transactions ended by request, as administrators do with hanging ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.server.broker.broker import Broker
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce.producers import LARGEST_EPOCH
from ottla.storage.produce.txn_markers import ABORT_MARKER, COMMIT_MARKER, read_marker
from support.broker.conversation import create_topic, fetch, list_offset
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.logs.batches import batch, read_batches
from support.transactions.transactional_client import TransactionalClient

TP = TopicPartition("t", 0)
LATEST = -1


@asynccontextmanager
async def broker_with_topic(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path, OsFiles(), log_retention_ms="-1") as served:
        await served.ask(create_topic, "t", partitions=2)
        yield served


def open_transaction(broker: Broker, *, producer_id: int = 7, epoch: int = 3, partition: int = 0) -> None:
    """Have a producer write one record in a transaction, as if the coordinator had allowed it."""
    records = batch(("k", "v"), producer_id=producer_id, producer_epoch=epoch, transactional=True)
    broker.services.appends.append_own(TopicPartition("t", partition), records)


def marker(
    *partitions: int,
    topic: str = "t",
    producer_id: int = 7,
    epoch: int = 3,
    commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=partitions),),
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


def write(client: RawClient, *markers: WritableTxnMarker, version: int = 2) -> WriteTxnMarkersResponse:
    answer: WriteTxnMarkersResponse = client.ask(WriteTxnMarkersRequest(markers=markers), version)
    return answer


def codes(answer: WriteTxnMarkersResponse) -> list[int]:
    return [one.error_code for marker in answer.markers for topic in marker.topics for one in topic.partitions]


async def last_marker(served: Served) -> tuple[int, int, int]:
    """Return kind, producer epoch and coordinator epoch of the marker after one record in t-0."""
    (last,) = read_batches((await served.ask(fetch, "t", 1)).records)
    found = read_marker(last)
    assert last.is_control and last.is_transactional and found is not None
    return found.kind, last.producer_epoch, found.coordinator_epoch


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [False, True])
async def test_a_transaction_is_ended_in_every_version(tmp_path: Path, version: int, commit: bool) -> None:
    async with broker_with_topic(tmp_path) as served:
        open_transaction(served.broker)
        assert await served.ask(list_offset, "t", LATEST, committed=True) == (0, 0)

        answer = await served.ask(write, marker(0, commit=commit, coordinator_epoch=9), version=version)

        assert codes(answer) == [ErrorCode.NONE]
        assert await served.ask(list_offset, "t", LATEST, committed=True) == (0, 2)
        assert await last_marker(served) == (COMMIT_MARKER if commit else ABORT_MARKER, 3, 9)


async def test_an_aborted_transaction_is_returned_to_committed_readers(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as served:
        open_transaction(served.broker)
        hidden = await served.ask(fetch, "t", 0, committed=True)
        assert (hidden.records, hidden.last_stable_offset, hidden.high_watermark) == (b"", 0, 1)

        await served.ask(write, marker(0))

        shown = await served.ask(fetch, "t", 0, committed=True)
        assert [(one.producer_id, one.first_offset) for one in shown.aborted_transactions] == [(7, 0)]
        assert (shown.last_stable_offset, shown.high_watermark) == (2, 2)


async def test_a_waiting_committed_reader_is_woken(tmp_path: Path) -> None:
    """The reader waits for a megabyte; the marker alone has 78 bytes, and makes a megabyte visible."""
    async with broker_with_topic(tmp_path) as served:
        records = batch(("k", "v" * 1_000_000), producer_id=7, producer_epoch=3, transactional=True)
        served.broker.services.appends.append_own(TP, records)
        waiting: list[object] = []

        async def wait() -> None:
            answer = await served.ask(
                fetch, "t", 0, committed=True, min_bytes=1_000_000, max_bytes=1 << 21, max_wait_ms=60_000
            )
            waiting.append(answer.records)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            while not served.broker.waits:
                await trio.lowlevel.checkpoint()
            async with another_client(served) as other:
                await trio.to_thread.run_sync(write, other, marker(0, commit=True))
        assert len(waiting[0]) > 1_000_000  # type: ignore[arg-type]


@asynccontextmanager
async def another_client(served: Served) -> AsyncIterator[RawClient]:
    host, _, port = served.broker.bootstrap.rpartition(":")
    with await trio.to_thread.run_sync(RawClient, host, int(port)) as client:
        yield client


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (marker(0, topic="nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (marker(2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (marker(0, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (marker(0, epoch=2, transaction_version=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (marker(0, epoch=3, transaction_version=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (marker(0, epoch=4, transaction_version=2), ErrorCode.NONE),
        (marker(0, epoch=LARGEST_EPOCH), ErrorCode.NONE),
        (marker(0, producer_id=-1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (marker(0, epoch=-1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (marker(0, transaction_version=-1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (marker(0, producer_id=8), ErrorCode.NONE),
    ],
)
async def test_a_marker_is_refused_by_the_partition(
    tmp_path: Path, wanted: WritableTxnMarker, expected: ErrorCode
) -> None:
    async with broker_with_topic(tmp_path) as served:
        open_transaction(served.broker)
        assert codes(await served.ask(write, wanted)) == [expected]


async def test_a_marker_of_a_replaced_coordinator_is_fenced(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as served:
        await served.ask(write, marker(0, coordinator_epoch=5))
        answer = await served.ask(write, marker(0, coordinator_epoch=4))
        assert codes(answer) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]


async def test_version_1_does_not_know_transaction_version_2(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as served:
        open_transaction(served.broker)
        assert codes(await served.ask(write, marker(0, transaction_version=2), version=1)) == [ErrorCode.NONE]


async def test_each_partition_of_each_producer_has_its_own_result(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as served:
        open_transaction(served.broker)
        open_transaction(served.broker, producer_id=8, partition=1)
        answer = await served.ask(
            write, marker(0, 5), marker(1, producer_id=8, epoch=2), marker(1, producer_id=8), marker(topic="t")
        )
        assert [
            (
                one.producer_id,
                [(each.partition_index, each.error_code) for topic in one.topics for each in topic.partitions],
            )
            for one in answer.markers
        ] == [
            (7, [(0, ErrorCode.NONE), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
            (8, [(1, ErrorCode.NONE)]),
        ]


async def test_a_request_without_partitions_gets_an_empty_response(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as served:
        assert (await served.ask(write)).markers == ()
        assert (await served.ask(write, marker(), WritableTxnMarker(producer_id=7))).markers == ()


async def test_no_marker_is_written_among_transactional_ids(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as served:
        await served.broker.services.coordinators.transactions.ensure_topic()
        state = served.broker.services.topics.partition("__transaction_state", 0)
        answer = await served.ask(write, marker(0, topic="__transaction_state"))
        assert codes(answer) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert state.log.log_end_offset == 0


async def test_a_hanging_transaction_among_the_offsets_is_ended(tmp_path: Path) -> None:
    async with broker_with_topic(tmp_path) as served:
        await served.broker.services.coordinators.groups.ensure_topic()
        answer = await served.ask(write, marker(0, topic="__consumer_offsets"))
        assert codes(answer) == [ErrorCode.NONE]


@pytest.mark.parametrize(
    "supersedes", [marker(0, producer_id=0, epoch=9), marker(0, producer_id=0, epoch=0, coordinator_epoch=9)]
)
async def test_a_partition_with_a_newer_epoch_does_not_block_the_id_forever(
    tmp_path: Path, supersedes: WritableTxnMarker
) -> None:
    async with broker_with_topic(tmp_path) as served:
        producer = TransactionalClient(served.client, "x", version=0)
        await served.ask(lambda _: producer.begin())
        assert (producer.producer_id, producer.epoch) == (0, 0)
        await served.ask(lambda _: producer.add("t", 0, 1))
        await served.ask(lambda _: producer.send("t", ("k", "v"), partition=1))
        assert codes(await served.ask(write, supersedes)) == [ErrorCode.NONE]
        await served.ask(lambda _: producer.end(commit=True))
        coordinator = served.broker.services.coordinators.transactions.coordinator
        assert coordinator.describe(coordinator.shard_of("x"), "x").transaction_state == "CompleteCommit"
        await served.ask(lambda _: producer.begin())
        log = served.broker.services.topics.partition("t", 1).log
        assert log.last_stable_offset == log.log_end_offset == 2
