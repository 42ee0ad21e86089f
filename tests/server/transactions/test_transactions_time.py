"""Transactions that take too long, and transactional ids that are no longer used."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.server.coordination.log_store import LogStore
from ottla.server.coordination.records import Producer
from ottla.server.partitions.internal_topics import TRANSACTIONS_TOPIC
from ottla.server.transactions.metadata import MAX_EPOCH, TransactionMetadata, TransactionState
from ottla.server.transactions.records import transaction_key, transaction_value
from ottla.server.transactions.settings import MARKER_RETRY_MS
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.broker.conversation import create_topic
from support.broker.served import serving
from support.groups.settings import transaction_settings
from support.transactions.transactions import A0, A1, SWEEP_MS, Marker, Power, Transactions, code_of

ID = "x"
EXPIRATION_MS = 604_800_000
EXPIRY_CHECK_MS = 3_600_000


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_transaction_that_takes_too_long_is_aborted_under_the_next_epoch(version: int) -> None:
    transactions = Transactions(version=version)
    producer = transactions.init(ID, timeout_ms=25_000)
    transactions.add(ID, producer, A0, A1)
    transactions.advance(25_000)
    assert transactions.state(ID) is TransactionState.ONGOING
    transactions.advance(SWEEP_MS)
    assert transactions.state(ID) is TransactionState.COMPLETE_ABORT
    for partition in (A0, A1):
        assert transactions.markers.of(partition)[0][:3] == (1000, 1, False)
    # Version 2 assumes that the producer has lost an answer, and answers that nothing can be committed.
    refused = ErrorCode.INVALID_TXN_STATE if version == 2 else ErrorCode.PRODUCER_FENCED
    assert code_of(lambda: transactions.end(ID, producer, commit=True)) is refused
    assert code_of(lambda: transactions.add(ID, producer, A0)) is ErrorCode.PRODUCER_FENCED
    assert transactions.init(ID, expected=producer if version == 2 else None).producer_id == 1000


def test_time_counts_from_the_first_partition() -> None:
    transactions = Transactions()
    producer = transactions.init(ID, timeout_ms=25_000)
    transactions.advance(60_000)
    transactions.add(ID, producer, A0)
    transactions.advance(20_000)
    transactions.add(ID, producer, A1)
    transactions.advance(5_000)
    assert transactions.state(ID) is TransactionState.ONGOING
    transactions.advance(SWEEP_MS)
    assert transactions.state(ID) is TransactionState.COMPLETE_ABORT


def test_each_transaction_has_its_own_time() -> None:
    transactions = Transactions()
    for name, timeout_ms in (("short", 5_000), ("long", 45_000)):
        transactions.add(name, transactions.init(name, timeout_ms), A0)
    transactions.advance(SWEEP_MS)
    assert transactions.state("short") is TransactionState.COMPLETE_ABORT
    assert transactions.state("long") is TransactionState.ONGOING
    transactions.advance(40_000)
    assert transactions.state("long") is TransactionState.COMPLETE_ABORT


def test_timeouts_continue_over_a_restart() -> None:
    transactions = Transactions()
    transactions.add(ID, transactions.init(ID, timeout_ms=5_000), A0)
    later = Transactions(after=transactions)
    later.advance(SWEEP_MS)
    assert later.markers.of(A0) == [Marker(1000, 1, commit=False)]


def test_nothing_wakes_the_coordinator_for_transactions_that_are_closed() -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    idle_ms = transactions.coordinator.next_deadline_ms()
    transactions.add(ID, producer, A0)
    assert transactions.coordinator.next_deadline_ms() == transactions.now_ms + SWEEP_MS
    transactions.end(ID, producer, commit=True)
    transactions.advance(SWEEP_MS)
    assert transactions.coordinator.next_deadline_ms() == idle_ms


def test_an_abort_that_the_log_refuses_is_retried() -> None:
    transactions = Transactions()
    transactions.add(ID, transactions.init(ID, timeout_ms=5_000), A0)
    transactions.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    transactions.advance(3 * SWEEP_MS)
    assert transactions.state(ID) is TransactionState.ONGOING
    transactions.store.failure = None
    transactions.advance(SWEEP_MS)
    assert transactions.producer(ID) == Producer(1000, 1)
    assert transactions.state(ID) is TransactionState.COMPLETE_ABORT


def test_the_interval_is_configurable() -> None:
    settings = transaction_settings(transaction_abort_timed_out_transaction_cleanup_interval_ms=50)
    transactions = Transactions(settings=settings)
    transactions.add(ID, transactions.init(ID, timeout_ms=100), A0)
    transactions.advance(150)
    assert transactions.state(ID) is TransactionState.COMPLETE_ABORT


def test_unused_ids_are_forgotten_after_their_time() -> None:
    transactions = Transactions()
    transactions.init("empty")
    for name, commit in (("committed", True), ("aborted", False)):
        producer = transactions.init(name)
        transactions.add(name, producer, A0)
        transactions.end(name, producer, commit=commit)
    transactions.advance(EXPIRATION_MS - EXPIRY_CHECK_MS)
    transactions.init("used")
    transactions.advance(2 * EXPIRY_CHECK_MS)
    for name in ("empty", "committed", "aborted"):
        assert not transactions.knows(name)
        assert transactions.store.history(name)[-1] is None
    assert transactions.knows("used")
    later = Transactions(after=transactions)
    assert [later.knows(name) for name in ("empty", "committed", "aborted", "used")] == [False, False, False, True]


def test_an_id_with_an_open_or_undecided_transaction_is_kept() -> None:
    settings = transaction_settings(
        transactional_id_expiration_ms=100_000, transaction_remove_expired_transaction_cleanup_interval_ms=1_000
    )
    transactions = Transactions(settings=settings)
    transactions.add("open", transactions.init("open", timeout_ms=500_000), A0)
    producer = transactions.init("prepared")
    transactions.add("prepared", producer, A1)
    transactions.markers.refusing.add(A1)
    transactions.end("prepared", producer, commit=True)
    transactions.advance(200_000)
    assert transactions.state("open") is TransactionState.ONGOING
    assert transactions.state("prepared") is TransactionState.PREPARE_COMMIT


def test_a_forgotten_id_restarts() -> None:
    transactions = Transactions()
    first = transactions.init(ID)
    transactions.advance(EXPIRATION_MS + EXPIRY_CHECK_MS)
    assert code_of(lambda: transactions.add(ID, first, A0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert transactions.init(ID) == Producer(1001, 0)


def test_many_ids_are_forgotten_in_batches_and_refused_ones_kept() -> None:
    transactions = Transactions(settings=transaction_settings(transactional_id_expiration_ms=1_000))
    names = [f"{number:0>200}" for number in range(400)]
    for name in names:
        transactions.init(name)
    transactions.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    transactions.advance(EXPIRY_CHECK_MS)
    assert all(map(transactions.knows, names))
    transactions.store.failure = None
    transactions.store.batch_bytes_max = 16_000
    transactions.advance(EXPIRY_CHECK_MS)
    assert not any(map(transactions.knows, names))
    sizes = [len(batch.view) for partition in range(4) for batch in transactions.store.batches(partition)]
    assert 15_000 < max(sizes) <= 16_000


async def test_a_transaction_at_its_last_epoch_is_aborted_after_a_restart(tmp_path: Path) -> None:
    """The abort needs a new producer id, and no client has requested one since the start."""
    async with serving(tmp_path, OsFiles()) as served:
        broker = served.broker
        await served.ask(create_topic, "t")
        await broker.services.coordinators.transactions.ensure_topic()
        now_ms = broker.clock.now_ms()
        open_one = TransactionMetadata(
            transactional_id=ID,
            producer_id=7,
            producer_epoch=MAX_EPOCH - 1,
            timeout_ms=1_000,
            state=TransactionState.ONGOING,
            partitions=frozenset({TopicPartition("t", 0)}),
            start_ms=now_ms,
            updated_ms=now_ms,
        )
        store = LogStore(broker.services.topics, broker.services.appends, TRANSACTIONS_TOPIC, base_sequence=-1)
        partition = broker.services.coordinators.transactions.coordinator.partition_for(ID)
        store.append(partition, [(transaction_key(ID), transaction_value(open_one, 2))], now_ms)
    async with serving(tmp_path, OsFiles()) as served:
        broker = served.broker
        fetched = trio.Event()
        take = broker.services.cluster.catalog.take_producer_ids

        def watched() -> range:
            taken = take()
            trio.from_thread.run_sync(fetched.set)
            return taken

        broker.services.cluster.catalog.take_producer_ids = watched  # type: ignore[method-assign]
        log = broker.services.topics.partition("t", 0).log
        with trio.fail_after(60):
            broker.clock.advance(60_000)
            await fetched.wait()
            await broker.services.producer_ids.have_some()
            broker.clock.advance(60_000)
            while not log.log_end_offset:
                await trio.lowlevel.checkpoint()
        coordinator = broker.services.coordinators.transactions.coordinator
        assert coordinator.describe(coordinator.shard_of(ID), ID).transaction_state == "CompleteAbort"


@pytest.mark.parametrize("refused", ["store", "markers"])
def test_an_unexpectedly_failing_timeout_check_is_repeated(refused: str) -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0)
    transactions.add("late", transactions.init("late", timeout_ms=5_000), A1)
    transactions.markers.refusing = {A0}
    transactions.end(ID, producer, commit=True)
    transactions.markers.refusing = set()
    getattr(transactions, refused).power = Power(0, ZeroDivisionError)
    transactions.advance(2 * (SWEEP_MS + MARKER_RETRY_MS))
    getattr(transactions, refused).power = Power()
    transactions.advance(SWEEP_MS + MARKER_RETRY_MS)
    assert transactions.state(ID) is TransactionState.COMPLETE_COMMIT
    assert transactions.state("late") is TransactionState.COMPLETE_ABORT


def test_the_check_for_unused_ids_continues_after_an_unexpected_failure() -> None:
    transactions = Transactions()
    transactions.init(ID)
    transactions.advance(EXPIRATION_MS - EXPIRY_CHECK_MS // 2)
    transactions.store.power = Power(0, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        transactions.advance(EXPIRY_CHECK_MS)
    transactions.store.power = Power()
    transactions.advance(EXPIRY_CHECK_MS)
    assert not transactions.knows(ID)
