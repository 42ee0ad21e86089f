"""Producer ids and epochs: which producer fences which, and the overflow after the last epoch (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.coordination.records import Producer
from ottla.server.transactions.metadata import MAX_EPOCH, TransactionState
from support.transactions.transactions import A0, A1, Marker, Transactions, code_of

ID = "x"
FENCED = ErrorCode.PRODUCER_FENCED


def at_epoch(transactions: Transactions, epoch: int) -> Producer:
    """Give the id's producer this epoch, as if it had been incremented one by one."""
    shard = transactions.coordinator.shard_of(ID)
    shard.put(replace(shard.transactions[ID], producer_epoch=epoch, last_producer_epoch=epoch - 1))
    return transactions.producer(ID)


def test_each_start_of_a_producer_gets_the_next_epoch() -> None:
    transactions = Transactions()
    assert [transactions.init(ID) for _ in range(3)] == [Producer(1000, 0), Producer(1000, 1), Producer(1000, 2)]
    assert transactions.init("y") == Producer(1001, 0)


def test_a_later_producer_fences_an_earlier_one() -> None:
    transactions = Transactions()
    first = transactions.init(ID)
    second = transactions.init(ID)
    for request in (
        lambda: transactions.add(ID, first, A0),
        lambda: transactions.end(ID, first, commit=True),
        lambda: transactions.init(ID, expected=first),
    ):
        assert code_of(request) is FENCED
    transactions.add(ID, second, A0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_earlier_producers_transaction_is_aborted(version: int) -> None:
    transactions = Transactions(version=version)
    first = transactions.init(ID)
    transactions.add(ID, first, A0)
    assert code_of(lambda: transactions.init(ID)) is ErrorCode.CONCURRENT_TRANSACTIONS
    (marker,) = transactions.markers.of(A0)
    assert marker == Marker(1000, 1, commit=False, transaction_version=transactions.client_version)
    assert transactions.state(ID) is TransactionState.COMPLETE_ABORT
    assert code_of(lambda: transactions.end(ID, first, commit=True)) in (FENCED, ErrorCode.INVALID_TXN_STATE)
    assert transactions.init(ID) == Producer(1000, 2)


@pytest.mark.parametrize("version, expected", [(0, FENCED), (2, ErrorCode.NONE)])
def test_a_producer_aborts_its_own_transaction_by_initializing_again(version: int, expected: ErrorCode) -> None:
    """Version 2 increments the epoch once, and the producer gets that epoch; below, the abort has fenced the producer."""
    transactions = Transactions(version=version)
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0)
    assert code_of(lambda: transactions.init(ID, expected=producer)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert code_of(lambda: transactions.init(ID, expected=producer)) is expected
    if expected is ErrorCode.NONE:
        assert transactions.producer(ID) == Producer(1000, 1)


def test_a_producer_that_names_itself_continues_and_may_retry() -> None:
    transactions = Transactions()
    producer = transactions.init(ID)
    following = transactions.init(ID, expected=producer)
    assert following == Producer(1000, 1)
    assert transactions.init(ID, expected=producer) == following, "the answer was lost"
    transactions.init(ID)
    assert code_of(lambda: transactions.init(ID, expected=producer)) is FENCED


def test_a_producer_with_a_forgotten_id_gets_a_new_one() -> None:
    assert Transactions().init(ID, expected=Producer(7, 3)) == Producer(1000, 0)


def test_a_new_producer_id_follows_the_last_epoch() -> None:
    transactions = Transactions()
    transactions.init(ID)
    last = at_epoch(transactions, MAX_EPOCH - 1)
    assert transactions.init(ID) == Producer(1001, 0)
    assert code_of(lambda: transactions.add(ID, last, A0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_at_its_last_epoch_continues_under_a_new_id() -> None:
    transactions = Transactions()
    transactions.init(ID)
    last = at_epoch(transactions, MAX_EPOCH - 1)
    assert transactions.init(ID, expected=last) == Producer(1001, 0)
    assert transactions.init(ID, expected=last) == Producer(1001, 0)
    transactions.init(ID)
    assert code_of(lambda: transactions.init(ID, expected=last)) is FENCED


def test_an_older_epoch_is_fenced_at_the_epoch_limit() -> None:
    transactions = Transactions()
    transactions.init(ID)
    last = at_epoch(transactions, MAX_EPOCH - 1)
    older = last._replace(producer_epoch=MAX_EPOCH - 5)
    assert code_of(lambda: transactions.init(ID, expected=older)) is FENCED
    assert transactions.producer(ID) == last


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_can_end_at_the_last_epoch(commit: bool) -> None:
    transactions = Transactions()
    transactions.init(ID)
    last = at_epoch(transactions, MAX_EPOCH - 1)
    transactions.add(ID, last, A0)
    assert transactions.end(ID, last, commit=commit) == Producer(1001, 0)
    assert transactions.markers.of(A0) == [Marker(1000, MAX_EPOCH, commit)]
    assert transactions.end(ID, last, commit=commit) == Producer(1001, 0), "the answer was lost"
    assert code_of(lambda: transactions.end(ID, last, commit=not commit)) is ErrorCode.INVALID_TXN_STATE
    transactions.add(ID, Producer(1001, 0), A1)


def test_the_response_names_the_new_producer_id_before_the_markers() -> None:
    transactions = Transactions()
    transactions.init(ID)
    last = at_epoch(transactions, MAX_EPOCH - 1)
    transactions.add(ID, last, A0)
    transactions.markers.refusing.add(A0)
    assert transactions.end(ID, last, commit=True) == Producer(1001, 0)
    later = Transactions(after=transactions)
    later.markers.refusing.clear()
    later.advance(1_000)
    assert later.producer(ID) == Producer(1001, 0), "and so it is after a restart"


@pytest.mark.parametrize("version", [0, 2])
def test_fencing_works_at_the_last_epoch(version: int) -> None:
    transactions = Transactions(version=version)
    transactions.init(ID)
    last = at_epoch(transactions, MAX_EPOCH - 1)
    transactions.add(ID, last, A0)
    assert code_of(lambda: transactions.init(ID)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert transactions.markers.of(A0)[0][:3] == (1000, MAX_EPOCH, False)
    # Version 2 uses a new producer id by then, which the second request gives its next epoch.
    assert transactions.init(ID) == Producer(1001, 1 if version == 2 else 0)


def test_epochs_follow_each_end() -> None:
    for version, expected in ((0, 0), (1, 0), (2, 2)):
        transactions = Transactions(version=version)
        producer = transactions.init(ID)
        for commit in (True, False):
            transactions.add(ID, producer, A0)
            producer = transactions.end(ID, producer, commit=commit)
        assert producer == Producer(1000, expected)
