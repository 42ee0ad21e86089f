"""Producing in transactions: requests to the transaction coordinator before an append, and the answers to clients of
each version.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.records import NO_PRODUCER_ID
from ottla.server.transactions import verification
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.broker.background_jobs import have_on_disk
from support.broker.conversation import create_topic, fetch, list_offset, produce_request, records_of
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.logs.batches import COMMIT, batch, marker, read_batches
from support.transactions.transactional_client import TransactionalClient

LATEST = -1
OLD, NEW = 0, 2


@asynccontextmanager
async def broker_with_topic(tmp_path: Path, **overrides: str) -> AsyncIterator[Served]:
    async with serving(tmp_path, OsFiles(), **overrides) as served:
        await served.ask(create_topic, "t", partitions=3)
        yield served


def producer_of(client: RawClient, version: int, transactional_id: str = "x") -> TransactionalClient:
    producer = TransactionalClient(client, transactional_id, version=version)
    producer.begin()
    return producer


# --- a transaction's course -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_committed_records_are_read_and_aborted_ones_are_not(tmp_path: Path, version: int) -> None:
    def conversation(client: RawClient) -> None:
        producer = producer_of(client, version)
        for value, commit in (("1", True), ("2", False), ("3", True)):
            producer.produce("t", ("k", value))
            hidden = list_offset(client, "t", LATEST, committed=True)
            producer.end(commit=commit)
            shown = list_offset(client, "t", LATEST, committed=True)
            # The record, and its marker.
            assert shown == (ErrorCode.NONE, hidden[1] + 2)

        everything = fetch(client, "t", 0, committed=True)
        assert [(one.producer_id, one.first_offset) for one in everything.aborted_transactions or ()] == [
            (producer.producer_id, 2)
        ]
        assert [value for _, _, value in records_of(everything) if value in (b"1", b"2", b"3")] == [b"1", b"2", b"3"]

    async with broker_with_topic(tmp_path) as served:
        await served.ask(conversation)


async def test_each_transaction_has_its_own_epoch_from_version_2(tmp_path: Path) -> None:
    def epochs(client: RawClient, version: int, topic_partition: int) -> list[int]:
        producer = producer_of(client, version, f"x{version}")
        for _ in range(2):
            producer.produce("t", ("k", "v"), partition=topic_partition)
            producer.end(commit=True)
        records = fetch(client, "t", 0, topic_partition).records
        assert isinstance(records, memoryview)
        return [each.producer_epoch for each in read_batches(records)]

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(epochs, OLD, 0) == [0, 0, 0, 0]
        assert await served.ask(epochs, NEW, 1) == [0, 1, 1, 2]


@pytest.mark.parametrize(("asked_at_once", "records"), [(1_000, 1), (2, 2), (1, 3)])
async def test_one_request_to_many_partitions_writes_one_coordinator_record_for_hundreds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_at_once: int, records: int
) -> None:
    monkeypatch.setattr(verification, "ASKED_AT_ONCE", asked_at_once)

    def conversation(client: RawClient) -> list[int]:
        producer = producer_of(client, NEW)
        places = [("t", index) for index in range(3)]
        request = producer.request({at: producer.records(("k", "v"), at=at) for at in places})
        answer = client.ask(request, 12)
        return [row.error_code for topic in answer.responses for row in topic.partition_responses]

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(conversation) == [ErrorCode.NONE] * 3
        coordinator = served.broker.services.coordinators.transactions.coordinator
        shard = coordinator.shard_of("x")
        assert shard.transactions["x"].partitions == {TopicPartition("t", index) for index in range(3)}
        state = served.broker.services.topics.partition("__transaction_state", shard.partition)
        # InitProducerId's record, and those of the partitions.
        assert state.log.log_end_offset == 1 + records


# --- producers that may not write -----------------------------------------------------------------------------------


async def test_a_partition_that_was_not_added_is_refused(tmp_path: Path) -> None:
    """Clients of transaction version 0 add partitions before they write."""
    told = {10: ErrorCode.INVALID_TXN_STATE, 11: ErrorCode.TRANSACTION_ABORTABLE, 12: ErrorCode.NONE}

    def conversation(client: RawClient, version: int) -> tuple[int, int]:
        producer = producer_of(client, OLD, f"x{version}")
        assert producer.add("t", 1) == ErrorCode.NONE
        row = producer.send("t", ("k", "v"), version=version)
        return row.error_code, row.log_start_offset

    async with broker_with_topic(tmp_path) as served:
        for version, expected in told.items():
            is_refused = expected != ErrorCode.NONE
            assert await served.ask(conversation, version) == (expected, -1 if is_refused else 0), version


async def test_partitions_of_an_ended_transaction_are_not_in_the_next(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> None:
        producer = producer_of(client, OLD)
        producer.produce("t", ("k", "v"))
        producer.end(commit=True)
        assert producer.send("t", ("k", "v")).error_code == ErrorCode.TRANSACTION_ABORTABLE
        assert list_offset(client, "t", LATEST, committed=True) == list_offset(client, "t", LATEST)

    async with broker_with_topic(tmp_path) as served:
        await served.ask(conversation)


@pytest.mark.parametrize("version", [3, 11, 12])
async def test_batches_of_a_transaction_need_a_transactional_id(tmp_path: Path, version: int) -> None:
    def conversation(client: RawClient) -> list[int]:
        producer = producer_of(client, NEW)
        batches = {
            ("t", 0): producer.records(("k", "v"), at=("t", 0)),
            ("t", 1): memoryview(batch(("k", "v"))),
            ("nowhere", 0): memoryview(batch(("k", "v"))),
        }
        answer = client.ask(producer.request(batches, transactional_id=None), version)
        assert list_offset(client, "t", LATEST, 1) == (ErrorCode.NONE, 0)
        return [row.error_code for topic in answer.responses for row in topic.partition_responses]

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(conversation) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 3


async def test_without_acknowledgement_the_connection_is_closed(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> bool:
        producer = producer_of(client, NEW)
        records = producer.records(("k", "v"), at=("t", 0))
        client.send_without_answer(producer.request({("t", 0): records}, transactional_id=None, acks=0), 12)
        return client.is_closed_by_peer()

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(conversation)


async def test_one_request_belongs_to_one_producer(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> list[int]:
        producer = producer_of(client, NEW)
        batches = {
            ("t", 0): producer.records(("k", "v"), at=("t", 0)),
            ("t", 1): producer.records(("k", "v"), at=("t", 1), producer_epoch=producer.epoch + 1),
        }
        answer = client.ask(producer.request(batches), 12)
        return [row.error_code for topic in answer.responses for row in topic.partition_responses]

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(conversation) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


async def test_batches_to_unknown_topics_do_not_count(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> list[int]:
        producer = producer_of(client, NEW)
        batches = {
            ("t", 0): producer.records(("k", "v"), at=("t", 0)),
            ("nowhere", 0): producer.records(("k", "v"), at=("nowhere", 0), producer_id=99),
        }
        answer = client.ask(producer.request(batches), 12)
        return [row.error_code for topic in answer.responses for row in topic.partition_responses]

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(conversation) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_plain_batch_next_to_a_transactional_one_needs_no_verification(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> list[int]:
        producer = producer_of(client, OLD)
        assert producer.add("t", 0) == ErrorCode.NONE
        batches = {
            ("t", 0): producer.records(("k", "v"), at=("t", 0)),
            ("t", 1): memoryview(batch(("k", "v"))),
        }
        answer = client.ask(producer.request(batches), 11)
        return [row.error_code for topic in answer.responses for row in topic.partition_responses]

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(conversation) == [ErrorCode.NONE, ErrorCode.NONE]


async def test_a_transactional_batch_without_producer_opens_nothing(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> None:
        producer = producer_of(client, NEW)
        row = producer.send("t", ("k", "v"), producer_id=NO_PRODUCER_ID, producer_epoch=-1, base_sequence=-1)
        assert row.error_code == ErrorCode.NONE
        assert list_offset(client, "t", LATEST, committed=True) == (ErrorCode.NONE, 1)

    async with broker_with_topic(tmp_path) as served:
        await served.ask(conversation)


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_fenced_producer_gets_invalid_producer_epoch(tmp_path: Path, version: int) -> None:
    def conversation(client: RawClient) -> None:
        zombie = producer_of(client, version)
        heir = producer_of(client, version)
        assert heir.epoch == zombie.epoch + 1
        assert zombie.send("t", ("k", "v")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        heir.produce("t", ("k", "v"))
        assert zombie.send("t", ("k", "v")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    async with broker_with_topic(tmp_path) as served:
        await served.ask(conversation)


async def test_an_unknown_transactional_id_has_no_producer_id(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> None:
        producer = producer_of(client, NEW)
        producer.transactional_id = "y"
        assert producer.send("t", ("k", "v")).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING

    async with broker_with_topic(tmp_path) as served:
        await served.ask(conversation)


# --- verification switched off --------------------------------------------------------------------------------------


async def test_without_verification_any_partition_is_written_to(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> int:
        return int(producer_of(client, OLD).send("t", ("k", "v")).error_code)

    async with broker_with_topic(tmp_path, transaction_partition_verification_enable="false") as served:
        assert await served.ask(conversation) == ErrorCode.NONE


async def test_producing_adds_partitions_although_verification_is_off(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> None:
        producer = producer_of(client, NEW)
        producer.produce("t", ("k", "v"))
        producer.end(commit=True)
        assert list_offset(client, "t", LATEST, committed=True) == (ErrorCode.NONE, 2)

    async with broker_with_topic(tmp_path, transaction_partition_verification_enable="false") as served:
        await served.ask(conversation)


# --- answers of the coordinator -------------------------------------------------------------------------------------


class Coordinator:
    """A replacement of the transaction coordinator: it answers with the given codes, one at a time, and then with success."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.asked: list[tuple[list[TopicPartition], bool]] = []

    def verify(
        self, _: object, __: str, ___: int, ____: int, partitions: Sequence[TopicPartition], *, add: bool
    ) -> dict[TopicPartition, KafkaError]:
        self.asked.append((list(partitions), add))
        if not self.codes:
            return {}
        error = KafkaError(self.codes.pop(0), "as told")
        return dict.fromkeys(partitions, error)


@asynccontextmanager
async def answering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: Iterable[ErrorCode], **overrides: str
) -> AsyncIterator[tuple[Served, Coordinator]]:
    coordinator = Coordinator(*codes)
    async with broker_with_topic(tmp_path, **overrides) as served:
        await served.broker.services.coordinators.transactions.ensure_topic()
        monkeypatch.setattr(served.broker.services.coordinators.transactions, "verify", coordinator.verify)
        have_on_disk(served.broker)  # a request that waits for that asks the coordinator again
        yield served, coordinator


def send(client: RawClient, *, sequence: int = 0, epoch: int = 0, version: int = 12, **options: Any) -> int:
    """Send one record of producer 7 for t-0, in a transaction."""
    producer = TransactionalClient(client, "x", version=NEW)
    producer.producer_id, producer.epoch = 7, epoch
    return int(producer.send("t", ("k", "v"), version=version, base_sequence=sequence, **options).error_code)


RETRIED = ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("code", "in_10", "in_11", "in_12"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, RETRIED, RETRIED, RETRIED),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, RETRIED, RETRIED, RETRIED),
        (ErrorCode.NOT_COORDINATOR, RETRIED, RETRIED, RETRIED),
        (ErrorCode.CONCURRENT_TRANSACTIONS, RETRIED, RETRIED, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.PRODUCER_FENCED, *[ErrorCode.INVALID_PRODUCER_EPOCH] * 3),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, *[ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.TRANSACTION_ABORTABLE,
        ),
    ],
)
async def test_the_coordinators_error_becomes_one_the_client_version_knows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: ErrorCode,
    in_10: ErrorCode,
    in_11: ErrorCode,
    in_12: ErrorCode,
) -> None:
    no_hold = {"add_partitions_to_txn_retry_backoff_max_ms": "0"}
    async with answering(tmp_path, monkeypatch, [code] * 3, **no_hold) as (served, coordinator):
        assert [await served.ask(send, version=version) for version in (10, 11, 12)] == [in_10, in_11, in_12]
        assert [add for _, add in coordinator.asked] == [False, False, True]
        assert await served.ask(list_offset, "t", LATEST) == (ErrorCode.NONE, 0)


async def test_the_coordinator_is_called_once_per_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(tmp_path, monkeypatch, []) as (served, coordinator):
        for sequence in range(3):
            assert await served.ask(send, sequence=sequence) == ErrorCode.NONE
        assert coordinator.asked == [([TopicPartition("t", 0)], True)]


async def test_a_request_waits_while_the_earlier_transaction_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    patient = {"add_partitions_to_txn_retry_backoff_max_ms": "3600000", "add_partitions_to_txn_retry_backoff_ms": "1"}
    async with answering(tmp_path, monkeypatch, codes, **patient) as (served, coordinator):
        assert await served.ask(send) == ErrorCode.NONE
        assert len(coordinator.asked) == 4


async def test_a_wait_ends_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    patient = {"add_partitions_to_txn_retry_backoff_max_ms": "60000", "add_partitions_to_txn_retry_backoff_ms": "60000"}
    answers: list[int] = []
    async with answering(tmp_path, monkeypatch, codes, **patient) as (served, coordinator):

        async def ask() -> None:
            answers.append(await served.ask(send))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not coordinator.asked:
                await trio.lowlevel.checkpoint()
            served.broker.clock.advance(60_000)
        assert answers == [ErrorCode.CONCURRENT_TRANSACTIONS]


@pytest.mark.parametrize("version", [11, 12])
async def test_no_batch_overtakes_one_that_must_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A client has five requests in flight: the first must be sent again, and so must all after it."""
    no_hold = {"add_partitions_to_txn_retry_backoff_max_ms": "0"}
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS]
    first_answer = RETRIED if version == 11 else ErrorCode.CONCURRENT_TRANSACTIONS
    async with answering(tmp_path, monkeypatch, codes, **no_hold) as (served, _):
        assert await served.ask(send, sequence=0, version=version) == first_answer
        assert await served.ask(send, sequence=1, version=version) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await served.ask(send, sequence=2, version=version) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for sequence in range(3):
            assert await served.ask(send, sequence=sequence, version=version) == ErrorCode.NONE


async def test_a_final_refusal_leaves_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(tmp_path, monkeypatch, [ErrorCode.INVALID_PRODUCER_ID_MAPPING]) as (served, _):
        assert await served.ask(send, version=11) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await served.ask(send, sequence=5, version=11) == ErrorCode.NONE


async def test_a_batch_checked_in_a_worker_thread_is_verified_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction may end while the thread works: the earlier answer is no longer valid."""
    codes = [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    many = [(f"k{number}", "v") for number in range(50_000)]

    class Changing(Coordinator):
        def verify(self, *arguments: Any, **options: Any) -> dict[TopicPartition, KafkaError]:
            answer = super().verify(*arguments, **options)
            return {key: error for key, error in answer.items() if error.code != ErrorCode.NONE}

    def heavy(client: RawClient) -> int:
        producer = TransactionalClient(client, "x", version=NEW)
        producer.producer_id, producer.epoch = 7, 0
        return int(producer.send("t", *many).error_code)

    coordinator = Changing(*codes)
    async with broker_with_topic(tmp_path) as served:
        await served.broker.services.coordinators.transactions.ensure_topic()
        monkeypatch.setattr(served.broker.services.coordinators.transactions, "verify", coordinator.verify)
        assert await served.ask(heavy) == ErrorCode.TRANSACTION_ABORTABLE
        assert len(coordinator.asked) == 2
        assert await served.ask(list_offset, "t", LATEST) == (ErrorCode.NONE, 0)


async def test_clients_cannot_write_markers(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> int:
        producer = producer_of(client, NEW)
        records = marker(COMMIT, producer_id=producer.producer_id, producer_epoch=producer.epoch)
        answer = client.ask(producer.request({("t", 0): memoryview(records)}), 12)
        return int(answer.responses[0].partition_responses[0].error_code)

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(conversation) == ErrorCode.INVALID_RECORD


async def test_plain_requests_are_unchanged(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> int:
        answer = client.ask(produce_request("t", memoryview(batch(("k", "v")))), 12)
        return int(answer.responses[0].partition_responses[0].error_code)

    async with broker_with_topic(tmp_path) as served:
        assert await served.ask(conversation) == ErrorCode.NONE


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_partition_of_an_internal_topic_is_not_added(tmp_path: Path, topic: str, is_first: bool) -> None:
    """The partition's marker would be among records that the next load must read."""

    def conversation(client: RawClient) -> None:
        producer = producer_of(client, NEW)
        places = [(topic, 0), ("t", 0)] if is_first else [("t", 0), (topic, 0)]
        answer = client.ask(producer.request({at: producer.records(("k", "v"), at=at) for at in places}), 12)
        codes = {one.name: one.partition_responses[0].error_code for one in answer.responses}
        assert codes == {topic: ErrorCode.INVALID_TOPIC_EXCEPTION, "t": ErrorCode.NONE}
        described = client.ask(DescribeTransactionsRequest(transactional_ids=("x",))).transaction_states[0]
        assert [one.topic for one in described.topics] == ["t"]
        producer.end(commit=True)

    async with broker_with_topic(tmp_path, transaction_state_log_num_partitions="1") as served:
        await served.broker.services.coordinators.groups.ensure_topic()
        await served.ask(conversation)
        assert all(not one.is_control for one in read_batches((await served.ask(fetch, topic, 0)).records))
