"""Steps of a transaction when `flush.messages` requires syncs: each waits for the one before."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.coordination.coordinator import partition_of
from ottla.server.partitions.internal_topics import TRANSACTIONS_TOPIC
from ottla.server.transactions.metadata import TransactionState
from ottla.server.transactions.settings import MARKER_RETRY_MS
from ottla.storage.disk.paths import TopicPartition
from support.transactions.transactions import A0, A1, Transactions, code_of

ID = "x"


@pytest.fixture
def transactions() -> Transactions:
    """Return a coordinator with a decision that is not flushed."""
    made = Transactions()
    producer = made.init(ID)
    made.add(ID, producer, A0, A1)
    made.flushes.is_asked_for = True
    made.end(ID, producer, commit=True)
    return made


def waits_for(transactions: Transactions) -> list[set[TopicPartition]]:
    return [set(partitions) for partitions, _ in transactions.flushes.waiting]


def home(transactions: Transactions) -> TopicPartition:
    return TopicPartition(TRANSACTIONS_TOPIC, partition_of(ID, len(transactions.store.partitions)))


def test_no_marker_is_written_before_the_decision_is_on_disk(transactions: Transactions) -> None:
    assert (transactions.state(ID), transactions.markers.written) == (TransactionState.PREPARE_COMMIT, [])
    assert waits_for(transactions) == [{home(transactions)}]
    transactions.flushes.done(0)
    assert len(transactions.markers.written) == 2


def test_no_transaction_is_closed_before_its_markers_are_on_disk(transactions: Transactions) -> None:
    transactions.flushes.done(0)
    assert (transactions.state(ID), waits_for(transactions)) == (TransactionState.PREPARE_COMMIT, [{A0, A1}])
    transactions.flushes.done(0)
    assert (transactions.state(ID), waits_for(transactions)) == (TransactionState.COMPLETE_COMMIT, [])


def test_no_retry_runs_during_the_flush(transactions: Transactions) -> None:
    other = transactions.init("y")
    transactions.add("y", other, A0)
    transactions.markers.refusing.add(A0)
    transactions.end("y", other, commit=True)
    transactions.flushes.waiting.reverse()
    transactions.flushes.done(0)  # so a transaction exists that is retried repeatedly
    transactions.advance(10 * MARKER_RETRY_MS)
    assert transactions.markers.written == []
    assert code_of(lambda: transactions.init(ID)) == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_decision_that_cannot_be_flushed_gets_no_markers_from_this_process(transactions: Transactions) -> None:
    transactions.flushes.done(0, failed=[home(transactions)])
    transactions.coordinator.lose(home(transactions).partition, 0)
    transactions.advance(10 * MARKER_RETRY_MS)
    assert transactions.markers.written == []
    assert code_of(lambda: transactions.init(ID)) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("step", [0, 1], ids=["the decision", "the markers"])
def test_a_flush_that_ends_after_its_shard_was_reloaded_changes_nothing(transactions: Transactions, step: int) -> None:
    for _ in range(step):
        transactions.flushes.done(0)
    late = transactions.flushes.waiting.pop()
    written = list(transactions.markers.written)
    transactions.coordinator.reload(home(transactions).partition, ErrorCode.NOT_COORDINATOR, 0)
    transactions.load(home(transactions).partition)
    late[1]((), 0)
    assert (transactions.state(ID), transactions.markers.written) == (TransactionState.PREPARE_COMMIT, written)
    transactions.flushes.done(0)
    transactions.flushes.done(0)
    assert transactions.state(ID) is TransactionState.COMPLETE_COMMIT


def test_a_marker_that_cannot_be_flushed_keeps_its_transaction_open(transactions: Transactions) -> None:
    transactions.flushes.done(0)
    transactions.flushes.done(0, failed=[A1])
    assert transactions.metadata(ID).partitions == {A1}
    transactions.markers.refusing.add(A1)  # its log is offline
    transactions.advance(10 * MARKER_RETRY_MS)
    assert transactions.state(ID) is TransactionState.PREPARE_COMMIT
    assert len(transactions.markers.of(A0)) == 1


def test_a_decision_found_at_a_load_waits_for_the_disk(transactions: Transactions) -> None:
    transactions.flushes.waiting.clear()
    partition = home(transactions).partition
    transactions.coordinator.reload(partition, ErrorCode.NOT_COORDINATOR, 0)
    transactions.load(partition)
    assert (waits_for(transactions), transactions.markers.written) == ([{home(transactions)}], [])
