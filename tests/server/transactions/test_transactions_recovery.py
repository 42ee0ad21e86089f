"""Restarts at every moment of a transaction, partitions that are offline for a while, and damaged logs."""

from __future__ import annotations

from contextlib import suppress

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import ErrorCode
from ottla.server.coordination.jobs import to_the_end
from ottla.server.coordination.records import Producer
from ottla.server.coordination.shard import ShardState
from ottla.server.transactions.listing import TransactionFilter
from ottla.server.transactions.metadata import TransactionState
from ottla.server.transactions.records import transaction_key
from ottla.server.transactions.settings import MARKER_RETRY_MS
from support.noted import each_case
from support.transactions.transaction_checks import check_written
from support.transactions.transactions import A0, A1, B0, SWEEP_MS, Marker, Power, PowerLossError, Transactions, code_of

ID = "x"


def live(transactions: Transactions) -> None:
    """Run transactions of all kinds: a commit, an abort, a fenced producer, a transaction that takes too long."""
    producer = transactions.init_until_done(ID)
    transactions.add(ID, producer, A0)
    transactions.add(ID, producer, A1, B0)
    producer = transactions.end(ID, producer, commit=True)
    transactions.add(ID, producer, A0)
    producer = transactions.end(ID, producer, commit=False)
    transactions.add(ID, producer, B0)
    producer = transactions.init_until_done(ID)
    transactions.add(ID, producer, A0, A1)
    transactions.advance(60_000 + SWEEP_MS)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_restart_after_any_write_completes_decided_transactions(version: int) -> None:
    whole = Transactions(version=version)
    live(whole)
    check_written(whole, [ID])
    steps = whole.store.power.used
    assert steps > 15
    for survived in range(steps):
        transactions = Transactions(version=version, power=Power(survived))
        with pytest.raises(PowerLossError):
            live(transactions)
        later = Transactions(version=version, after=transactions, power=Power())
        assert code_of(lambda: later.init(ID)) in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)  # noqa: B023
        live(later)
        check_written(later, [ID])


@pytest.mark.parametrize("version", [0, 2])
def test_a_second_restart_may_interrupt_the_completion(version: int) -> None:
    for survived in range(1, 25):
        transactions = Transactions(version=version, power=Power(survived))
        with suppress(PowerLossError):
            live(transactions)
        for steps in range(5):
            try:
                later = Transactions(version=version, after=transactions, power=Power(steps))
                live(later)
            except PowerLossError:
                continue
        last = Transactions(version=version, after=transactions, power=Power())
        live(last)
        check_written(last, [ID])


@pytest.mark.parametrize("commit", [True, False])
def test_an_absent_partition_gets_its_marker_later(commit: bool) -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0, A1, B0)
    transactions.markers.refusing = {A0, A1}
    following = transactions.end(ID, producer, commit=commit)
    assert following == Producer(1000, 1)
    assert [len(transactions.markers.of(one)) for one in (A0, A1, B0)] == [0, 0, 1]
    assert transactions.metadata(ID).partitions == {A0, A1}, "what is left to do"
    assert code_of(lambda: transactions.add(ID, following, A0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    transactions.markers.refusing = {A1}
    transactions.advance(MARKER_RETRY_MS)
    assert transactions.metadata(ID).partitions == {A1}
    transactions.markers.refusing = set()
    transactions.advance(MARKER_RETRY_MS)
    assert transactions.state(ID) in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    for partition in (A0, A1, B0):
        assert transactions.markers.of(partition) == [Marker(1000, 1, commit)]
    transactions.add(ID, following, A0)
    assert transactions.end(ID, following, commit=True) == Producer(1000, 2)
    check_written(transactions, [ID])


@each_case("flushes", [False, True])
@each_case("first_at", ["the request", "a load"])
@each_case("writes", range(3))
def test_an_unexpected_failure_after_the_decision_is_retried(writes: int, first_at: str, flushes: bool) -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0, B0)
    if first_at == "a load":
        transactions.store.power = transactions.markers.power = Power(1)
        with pytest.raises(PowerLossError):
            transactions.end(ID, producer, commit=True)
        transactions = Transactions(after=transactions, power=Power(writes, ZeroDivisionError))
    else:
        transactions.flushes.is_asked_for = flushes
        transactions.store.power = transactions.markers.power = Power(1 + writes, ZeroDivisionError)
        transactions.end(ID, producer, commit=True)
        while transactions.flushes.waiting:
            transactions.flushes.done(transactions.now_ms)
    assert transactions.state(ID) is TransactionState.PREPARE_COMMIT
    transactions.store.power = transactions.markers.power = Power()
    transactions.flushes.is_asked_for = False
    transactions.advance(MARKER_RETRY_MS)
    assert transactions.state(ID) is TransactionState.COMPLETE_COMMIT
    check_written(transactions, [ID])


def test_a_partition_with_an_unexpectedly_failing_marker_does_not_block_others() -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0, B0)
    transactions.markers.broken = {A0}
    transactions.end(ID, producer, commit=True)
    assert [len(transactions.markers.of(one)) for one in (A0, B0)] == [0, 1]


def test_a_partition_that_was_deleted_needs_no_marker() -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0, B0)
    transactions.markers.refusing = {A0}
    transactions.end(ID, producer, commit=True)
    transactions.markers.deleted = {A0}
    transactions.advance(MARKER_RETRY_MS)
    assert transactions.state(ID) is TransactionState.COMPLETE_COMMIT
    check_written(transactions, [ID])


def test_a_transaction_is_completed_when_the_log_is_writable() -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0)
    transactions.markers.refusing = {A0}
    transactions.end(ID, producer, commit=True)
    transactions.markers.refusing = set()
    transactions.store.failure = ErrorCode.NOT_COORDINATOR
    transactions.advance(3 * MARKER_RETRY_MS)
    assert transactions.state(ID) is TransactionState.PREPARE_COMMIT
    transactions.store.failure = None
    transactions.advance(MARKER_RETRY_MS)
    assert transactions.state(ID) is TransactionState.COMPLETE_COMMIT
    assert transactions.markers.of(A0) == [Marker(1000, 1, commit=True)]


def test_a_waiting_transaction_does_not_delay_another() -> None:
    transactions = Transactions()
    for name, partition in (("x", A0), ("y", B0)):
        transactions.add(name, transactions.init(name), partition)
    transactions.markers.refusing = {A0}
    for name in ("x", "y"):
        transactions.end(name, transactions.producer(name), commit=True)
    assert transactions.state("y") is TransactionState.COMPLETE_COMMIT
    transactions.advance(10 * MARKER_RETRY_MS)
    assert transactions.state("x") is TransactionState.PREPARE_COMMIT


def test_a_new_leader_of_a_partition_completes_under_its_epoch() -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0)
    transactions.markers.refusing = {A0}
    transactions.end(ID, producer, commit=True)
    partition = transactions.coordinator.partition_for(ID)
    transactions.coordinator.unload(partition, ErrorCode.NOT_COORDINATOR, transactions.now_ms)
    assert code_of(lambda: transactions.init(ID)) is ErrorCode.NOT_COORDINATOR
    transactions.markers.refusing = set()
    transactions.advance(10 * MARKER_RETRY_MS)
    assert transactions.markers.of(A0) == [], "nobody coordinates it"
    transactions.store.leader_epochs[partition] = 7
    transactions.coordinator.reload(partition, ErrorCode.NOT_COORDINATOR, transactions.now_ms)
    assert code_of(lambda: transactions.init(ID)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    transactions.load(partition)
    assert transactions.markers.of(A0) == [Marker(1000, 1, commit=True, coordinator_epoch=7)]
    assert transactions.init(ID) == Producer(1000, 2)


def test_nothing_is_listed_while_a_partition_is_loading() -> None:
    transactions = Transactions()
    transactions.init(ID)
    loading = transactions.coordinator.partition_for(ID)
    transactions.coordinator.reload(loading, ErrorCode.NOT_COORDINATOR, transactions.now_ms)
    others = [partition for partition in range(4) if partition != loading]

    def listed(partitions: list[int]) -> ErrorCode:
        listing = transactions.coordinator.list_transactions(partitions, TransactionFilter(), transactions.now_ms)
        return code_of(lambda: to_the_end(listing))

    assert listed([loading, *others]) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert listed(others) is ErrorCode.NONE
    transactions.load(loading)
    assert listed([loading, *others]) is ErrorCode.NONE


@pytest.mark.parametrize(
    "key, value",
    [
        (transaction_key(ID), b"\0\0\1"),
        (transaction_key(ID), b"\0"),
        (transaction_key(ID)[:-1], b"\0\0"),
        (transaction_key(ID) + b"!", b"\0\0"),
        (None, b"\0\0"),
    ],
    ids=["value cut off", "no version", "key cut off", "key too long", "no key"],
)
def test_an_invalid_record_is_skipped_and_reported(
    key: bytes | None, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    transactions = Transactions()
    transactions.init(ID)
    partition = transactions.coordinator.partition_for(ID)
    transactions.store.append_batch(partition, build_batch([(0, 0, key, value, ())]))
    assert Transactions(after=transactions).init(ID) == Producer(1000, 1)
    assert f"__transaction_state-{partition}: ignored the record at offset 1:" in caplog.text


def test_damaged_bytes_stop_only_their_partition(caplog: pytest.LogCaptureFixture) -> None:
    transactions = Transactions()
    transactions.init(ID)
    damaged = transactions.coordinator.partition_for(ID)
    other = next(name for name in map(str, range(100)) if transactions.coordinator.partition_for(name) != damaged)
    transactions.init(other)
    transactions.store.partitions[damaged][-1] ^= 1
    later = Transactions(after=transactions)
    assert later.coordinator.shards[damaged].state is ShardState.FAILED
    assert f"cannot load __transaction_state-{damaged}" in caplog.text
    assert "invalid checksum of the batch at offset 0" in caplog.text
    assert code_of(lambda: later.init(ID)) is ErrorCode.NOT_COORDINATOR
    assert later.init(other) == Producer(1001, 1)


@pytest.mark.parametrize(
    "key, value", [(b"\0\1newer", b"\0\0"), (transaction_key(ID), b"\0\2newer")], ids=["key", "value"]
)
def test_records_of_a_newer_broker_are_skipped(key: bytes, value: bytes) -> None:
    transactions = Transactions()
    transactions.init(ID)
    transactions.store.append_batch(transactions.coordinator.partition_for(ID), build_batch([(0, 0, key, value, ())]))
    assert Transactions(after=transactions).init(ID) == Producer(1000, 1)
