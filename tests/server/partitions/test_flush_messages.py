"""`flush.messages` for the broker's own writes: which requests wait, for how many syncs, and the cost of a failed sync."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.server.runtime import time_slices
from support.broker.background_jobs import have_on_disk
from support.broker.conversation import fetch_request
from support.broker.in_process_broker import InProcessClient, pass_time, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.disk.few_descriptors import FewDescriptors
from support.lives.server_crashes import FLUSHED
from support.lives.server_life import Ledger, Life, Transactions, offset, transaction

OFFSETS_LOG = "/data/__consumer_offsets-0/00000000000000000000.log"


@asynccontextmanager
async def living(files: CrashFiles, **options: str) -> AsyncIterator[Life]:
    """Run a broker with topic `a` of one partition."""
    async with running(files, **options) as (broker, client):
        life = Life(broker, client, Ledger())
        await life.create("a", 1)
        yield life


def syncs_of(files: CrashFiles, path: str) -> int:
    return files.operations.count(("sync", path))


def refuse_syncs_of(files: CrashFiles, path: str) -> None:
    def refuse(operation: str, at: str, _: int) -> None:
        if (operation, at) == ("sync", path):
            raise OSError(errno.EIO, "Input/output error")

    files.refuse = refuse


async def offset_of(client: InProcessClient, group: str) -> ErrorCode | int:
    """Return the offset that the group has committed in `a`, or the error."""
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    (answer,) = (await client.ask(OffsetFetchRequest(groups=(asked,)), 8)).groups
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return int(answer.topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize("flush_messages, syncs_max", [("1", 3), ("1000000", 0)])
def test_concurrent_commits_share_a_sync(flush_messages: str, syncs_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # They arrive in one scheduler pass, however busy the machine is.
    monkeypatch.setattr(time_slices, "perf_counter", lambda: 0.0)
    files = CrashFiles()

    async def work() -> None:
        async with living(files, log_flush_interval_messages=flush_messages) as life:
            await life.commit("group", "a", 1, 0)
            before = syncs_of(files, OFFSETS_LOG)
            async with trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(life.commit, f"group-{number}", "a", 1, number)
            assert syncs_of(files, OFFSETS_LOG) - before <= syncs_max
            assert await offset_of(life.client, "group-49") == 49

    run_in_order(work)


def test_a_commit_whose_sync_fails_is_refused_and_invisible() -> None:
    files = CrashFiles()

    async def work() -> None:
        async with living(files, **FLUSHED) as life:
            assert await life.commit("group", "a", 1, 1)
            refuse_syncs_of(files, OFFSETS_LOG)
            assert not await life.commit("group", "a", 1, 2)
            assert life.ledger.owed[offset("group", "a", 1)] == frozenset({1, 2})
            files.refuse = None
            assert await offset_of(life.client, "group") is ErrorCode.NOT_COORDINATOR
            (described,) = (await life.client.ask(DescribeGroupsRequest(groups=("group",)), 5)).groups
            assert described.error_code == ErrorCode.NOT_COORDINATOR
            assert not await life.commit("group", "a", 1, 3)

    run_in_order(work)


def test_a_temporarily_refused_flush_is_repeated() -> None:
    files = FewDescriptors()

    async def work() -> None:
        async with living(files, **FLUSHED) as life:
            have_on_disk(life.broker)
            log = life.broker.services.topics.partition("a", 0).log
            log.leader_epochs.assign(0, 0)  # so that the flush is refused
            files.is_short = True
            assert not await life.produce("a", 1, "v")
            assert (log.log_end_offset, log.high_watermark, log.failure) == (1, 0, None)
            files.is_short = False
            await pass_time(life.broker, 2_000)
            assert log.high_watermark == 1

    run_in_order(work)


def test_a_decision_whose_sync_fails_leaves_no_marker_before_the_restart() -> None:
    files = CrashFiles()

    async def work() -> None:
        async with living(files, **FLUSHED) as life:
            producer = Transactions(life, "x")
            await producer.begin()
            seen = life.broker.services.topics.partition("a", 0).log

            def refuse(operation: str, path: str, _: int) -> None:
                # The second sync of that log is the decision's: the record of the partition comes first.
                is_decision = seen.log_end_offset == 1 and "__transaction_state" in path
                if operation == "sync" and is_decision:
                    raise OSError(errno.EIO, "Input/output error")

            files.refuse = refuse
            assert not await producer.run(1, {"a": 1}, commit=True)
            assert (seen.log_end_offset, seen.last_stable_offset) == (1, 0)
            assert life.ledger.owed[transaction(1)] == frozenset({None, True})

    run_in_order(work)


def test_an_administrators_marker_is_answered_after_its_sync() -> None:
    files = CrashFiles()

    async def work() -> None:
        async with living(files, **FLUSHED) as life:
            log = life.broker.services.topics.partition("a", 0).log

            async def mark() -> int:
                marker = WritableTxnMarker(
                    producer_id=7,
                    producer_epoch=0,
                    transaction_result=False,
                    topics=(WritableTxnMarkerTopic(name="a", partition_indexes=(0,)),),
                )
                (answer,) = (await life.client.ask(WriteTxnMarkersRequest(markers=(marker,)), 1)).markers
                return int(answer.topics[0].partitions[0].error_code)

            assert (await mark(), log.recovery_point) == (ErrorCode.NONE, 1)
            refuse_syncs_of(files, "/data/a-0/00000000000000000000.log")
            assert (await mark(), log.recovery_point) == (ErrorCode.KAFKA_STORAGE_ERROR, 1)

    run_in_order(work)


def test_a_reader_gets_records_after_their_sync() -> None:
    files = CrashFiles()

    async def work() -> None:
        async with living(files, **FLUSHED) as life:
            answers: list[FetchResponse] = []
            early: list[int] = []

            def look(operation: str, path: str, _: int) -> None:
                if (operation, path) == ("sync", "/data/a-0/00000000000000000000.log"):
                    early.append(len(answers) + life.broker.services.topics.partition("a", 0).log.high_watermark)

            async def read() -> None:
                answers.append(await life.client.ask(fetch_request("a", 0, max_wait_ms=600_000), 12))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                files.refuse = look
                assert await life.produce("a", 1, "v")
                files.refuse = None
            assert early[0] == 0
            assert len(answers[0].responses[0].partitions[0].records or b"") > 0

    run_in_order(work)


def test_a_reader_gets_records_whose_producer_disconnected_before_the_sync() -> None:
    files = CrashFiles()

    async def work() -> None:
        async with living(files, **FLUSHED) as life:
            answers: list[FetchResponse] = []
            scope = trio.CancelScope()

            def leave(operation: str, path: str, _: int) -> None:
                if path == "/data/a-0/00000000000000000000.log":
                    scope.cancel()

            async def read() -> None:
                answers.append(await life.client.ask(fetch_request("a", 0, max_wait_ms=600_000), 12))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                files.refuse = leave
                with scope:
                    await life.produce("a", 1, "v")
                files.refuse = None
                assert scope.cancelled_caught
                await pass_time(life.broker, 2_000)
                assert len(answers) == 1
            assert len(answers[0].responses[0].partitions[0].records or b"") > 0

    run_in_order(work)
