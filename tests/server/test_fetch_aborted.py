"""A fetch of committed records names all aborted transactions, however many, and keeps nobody waiting for it."""

from __future__ import annotations

import pytest

from ottla.server import turns
from ottla.server.handlers import fetch
from ottla.storage.validation import AppendOrigin
from support.batches import ABORT, batch, marker
from support.conversation import fetch_request
from support.crash_files import CrashFiles
from support.in_process_broker import NOW_MS, run_in_order, running
from support.server_life import Ledger, Life

ABORTED = 30


@pytest.mark.parametrize("at_once", [1, ABORTED - 1, ABORTED, ABORTED + 1])
def test_all_aborted_transactions_are_named_in_turns(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "ABORTED_AT_ONCE", at_once)
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def work() -> None:
        async with running(CrashFiles()) as (broker, client):
            await Life(broker, client, Ledger()).create("a", 1)
            log = broker.topics.partition("a", 0).log
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
