"""ListOffsets by timestamp must read records, and indexes that are not in memory: no other client waits for that."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from support.broker.admin import delete
from support.broker.conversation import address, create_topic, list_offset, produce
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.disk.cold_files import ColdFiles

MAX_TIMESTAMP = -3
QUIET = {"log_retention_ms": "-1", "log_cleaner_backoff_ms": str(10**9)}
"""Options under which nothing is deleted, however old it is and however long a test takes."""
T0_MS = 1_700_000_000_000
PATIENCE_S = 60


async def filled(served: Served, topic: str = "t") -> None:
    """Write ten batches, the records of each with one timestamp, and each batch except the last in a segment of its own."""
    await served.ask(create_topic, topic, internal_segment_bytes=200, compression_type="zstd")
    for at in range(10):
        await served.ask(produce, topic, *[("key", "value" * 20)] * 2, timestamp=T0_MS + at)


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(T0_MS + 5, 10), (MAX_TIMESTAMP, 18)], ids=["by timestamp", "the latest"]
)
async def test_other_requests_continue_while_a_disk_reads_records(tmp_path: Path, timestamp: int, offset: int) -> None:
    files = ColdFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await filled(served)
    async with serving(tmp_path, files, **QUIET) as served, trio.open_nursery() as nursery:
        files.evict("t-0")
        files.hang()
        found: list[tuple[int, int]] = []

        async def search() -> None:
            found.append(await served.ask(list_offset, "t", timestamp))

        nursery.start_soon(search)
        with trio.fail_after(PATIENCE_S):
            await trio.to_thread.run_sync(files.wait_until_asked)
            with await trio.to_thread.run_sync(RawClient, *address(served.broker)) as other:
                earliest = await trio.to_thread.run_sync(list_offset, other, "t", -2)
        assert (earliest, found) == ((ErrorCode.NONE, 0), [])
        files.go_on()
    assert found == [(ErrorCode.NONE, offset)]
    assert files.held == []


async def test_a_topic_deleted_during_the_search_is_reported(tmp_path: Path) -> None:
    files = ColdFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await filled(served)
    async with serving(tmp_path, files, **QUIET) as served, trio.open_nursery() as nursery:
        files.evict("t-0")
        files.hang()
        answers: list[tuple[int, int]] = []

        async def search() -> None:
            answers.append(await served.ask(list_offset, "t", T0_MS + 5))

        nursery.start_soon(search)
        with trio.fail_after(PATIENCE_S):
            await trio.to_thread.run_sync(files.wait_until_asked)
            with await trio.to_thread.run_sync(RawClient, *address(served.broker)) as other:
                await trio.to_thread.run_sync(delete, other, "t")
        files.go_on()
    assert answers[0] in [(ErrorCode.NONE, 10), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


async def test_each_partition_of_a_request_has_its_own_result(tmp_path: Path) -> None:
    async with serving(tmp_path, ColdFiles(), **QUIET) as served:
        await filled(served, "t")
        await filled(served, "u")
        timestamps = [T0_MS + 3, -1, T0_MS + 99, -2, MAX_TIMESTAMP, -7]

        def ask(client: RawClient) -> list[tuple[str, int, int]]:
            topics = [
                ListOffsetsTopic(name=name, partitions=(ListOffsetsPartition(partition_index=index, timestamp=at),))
                for at in timestamps
                for name, index in (("t", 0), ("none", 0), ("u", 0), ("u", 9))
            ]
            told = []
            for first in range(0, len(topics), 4):
                request = ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=0,
                    topics=(ListOffsetsTopic(name="x", partitions=()), *topics[first : first + 4]),
                )
                answer = client.ask(request, 11)
                told += [
                    (topic.name, row.error_code, row.offset) for topic in answer.topics for row in topic.partitions
                ]
            return told

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        offsets = [(0, 6), (0, 20), (0, -1), (0, 0), (0, 18), (ErrorCode.UNSUPPORTED_VERSION, -1)]
        assert await served.ask(ask) == [
            row
            for found in offsets
            for row in (("t", *found), ("none", unknown, -1), ("u", *found), ("u", unknown, -1))
        ]
