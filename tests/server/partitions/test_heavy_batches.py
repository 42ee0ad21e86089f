"""Batches that take long to check: in a worker thread, in order, and without delaying other clients."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import trio

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.partitions.appends import HEAVY_CHECKS_MAX
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.produce.record_checks import AT_ONCE_RECORDS
from support.broker.conversation import address, create_topic, fetch, produce, produce_request, records_of
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.left_behind import older_left_alone
from support.logs.batches import batch

MANY = [("k", "v")] * (AT_ONCE_RECORDS + 1)


def pipelined(client: RawClient, *requests: Any) -> list[Any]:
    """Send all requests, then read all answers; return the only partition of each."""
    for request in requests:
        client.send(request, 9)
    return [client.receive().responses[0].partition_responses[0] for _ in requests]


async def test_a_heavy_batch_waits_for_a_thread_and_blocks_only_its_connection(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles()) as served, trio.open_nursery() as nursery:
        await served.ask(create_topic, "t")
        threads = served.broker.services.appends.heavy_checks
        for taken in range(HEAVY_CHECKS_MAX):
            await threads.acquire_on_behalf_of(taken)
        answers: list[Any] = []
        with await trio.to_thread.run_sync(RawClient, *address(served.broker)) as other:

            async def produce_heavy_then_light() -> None:
                heavy = produce_request("t", batch(*MANY))
                light = produce_request("t", batch(("behind", "it")))
                answers.extend(await trio.to_thread.run_sync(pipelined, other, heavy, light))

            nursery.start_soon(produce_heavy_then_light)
            while threads.statistics().tasks_waiting == 0:
                await trio.lowlevel.checkpoint()
            assert (await served.ask(produce, "t", ("before", "it"))).base_offset == 0
            for taken in range(HEAVY_CHECKS_MAX):
                threads.release_on_behalf_of(taken)
            while len(answers) < 2:
                await trio.lowlevel.checkpoint()

        assert [answer.base_offset for answer in answers] == [1, 1 + len(MANY)]
        end = await served.ask(fetch, "t", 1 + len(MANY))
        assert records_of(end) == [(1 + len(MANY), b"behind", b"it")]


async def test_a_heavy_batch_is_refused_like_any_other(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t", cleanup_policy="compact")
        refused = await served.ask(produce, "t", *[(None, "v")] * len(MANY))
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert refused.record_errors[-1].batch_index == len(MANY) - 1
        assert (await served.ask(produce, "t", ("k", "v"))).base_offset == 0


async def test_a_refused_batch_is_freed_without_a_collection(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t", cleanup_policy="compact")
        gc.disable()
        try:
            with older_left_alone():
                refused = await served.ask(produce, "t", *[(None, "v")] * len(MANY))
                await served.ask(produce, "t", ("k", "v"))
                left = [type(each).__name__ for each in gc.get_objects() if isinstance(each, KafkaError)]
        finally:
            gc.enable()
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert left == []
