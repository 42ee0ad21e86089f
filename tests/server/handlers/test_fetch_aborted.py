"""A fetch of committed records lists all aborted transactions, however many, without delaying other clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio

from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.records import RecordBatch
from ottla.server.handlers import fetch
from ottla.server.runtime import time_slices
from ottla.storage.logs.log import Log
from ottla.storage.produce.validation import AppendOrigin
from support.broker.conversation import fetch_request
from support.broker.in_process_broker import NOW_MS, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.lives.server_life import Ledger, Life
from support.logs.batches import ABORT, batch, marker, read_batches

ABORTED = 30


@pytest.mark.parametrize("at_once", [1, ABORTED - 1, ABORTED, ABORTED + 1])
def test_all_aborted_transactions_are_returned_in_time_slices(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "ABORTED_AT_ONCE", at_once)
    monkeypatch.setattr(time_slices, "SLICE_S", 0.0)

    async def work() -> None:
        async with running(CrashFiles()) as (broker, client):
            await Life(broker, client, Ledger()).create("a", 1)
            log = broker.services.topics.partition("a", 0).log
            for producer_id in range(ABORTED):
                sent = batch((b"k", b"v"), producer_id=producer_id, transactional=True)
                log.append(memoryview(sent), now_ms=NOW_MS)
            for producer_id in range(ABORTED):
                ended = marker(ABORT, producer_id=producer_id)
                log.append(memoryview(ended), now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
            answer = await client.ask(fetch_request("a", 0, committed=True), 12)
            (row,) = answer.responses[0].partitions
            assert [(txn.producer_id, txn.first_offset) for txn in row.aborted_transactions] == [
                (each, each) for each in range(ABORTED)
            ]
            assert len(row.records) == log.size_bytes

    run_in_order(work)


def abort_one_after_the_other(log: Log) -> None:
    for producer_id in range(ABORTED):
        log.append(memoryview(batch(("k", "v"), producer_id=producer_id, transactional=True)), now_ms=NOW_MS)
        ended = memoryview(marker(ABORT, producer_id=producer_id))
        log.append(ended, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def of_two_topics(request: FetchRequest) -> FetchRequest:
    (topic,) = request.topics
    return replace(request, topics=(topic, replace(topic, topic="b")))


def batches_of(row: Any) -> list[RecordBatch]:
    return read_batches(row.records.read()) if row.records else []


def check_named(row: Any) -> None:
    """Check that the listed transactions are those that overlap the records, if only with their end."""
    named = {txn.producer_id: txn.first_offset for txn in row.aborted_transactions or ()}
    assert named == {each.producer_id: each.base_offset - each.is_control for each in batches_of(row)}


def test_many_aborted_transactions_reduce_the_records_per_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "ABORTED_AT_ONCE", 5)
    monkeypatch.setattr(fetch, "MANY_ABORTED_BYTES", 1_000, raising=False)
    monkeypatch.setattr(fetch, "ABORTED_MAX", 6, raising=False)

    async def work() -> None:
        async with running(CrashFiles()) as (broker, client):
            life = Life(broker, client, Ledger())
            for name in ("a", "b"):
                await life.create(name, 1)
            logs = [broker.services.topics.partition(name, 0).log for name in ("a", "b")]
            for log in logs:
                abort_one_after_the_other(log)
            offset = 0
            seen: list[int] = []
            while offset < logs[0].log_end_offset - 20:
                begun_s = trio.current_time()
                request = fetch_request("a", offset, committed=True, min_bytes=1 << 20, max_wait_ms=60_000)
                answer = await client.ask(of_two_topics(request), 12)
                assert trio.current_time() - begun_s < 1, "it waits for what is there"
                rows = [row for topic in answer.responses for row in topic.partitions]
                assert sum(len(row.aborted_transactions) for row in rows) <= 6 + 1_000 // 69
                for row in rows:
                    check_named(row)
                assert len(rows[0].records) <= 1_000 and not rows[1].records
                seen += [each.base_offset for each in batches_of(rows[0])]
                offset = seen[-1] + 1
            assert seen == list(range(offset))

    run_in_order(work)
