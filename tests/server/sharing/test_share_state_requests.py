"""Brokers' requests to a share coordinator: states over the wire, each row on its own, as Apache Kafka 4.3.1 answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    delete_share_group_state as delete,
)
from ottla.protocol.messages import (
    initialize_share_group_state as initialize,
)
from ottla.protocol.messages import (
    read_share_group_state as read,
)
from ottla.protocol.messages import (
    read_share_group_state_summary as summary,
)
from ottla.protocol.messages import (
    write_share_group_state as write,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.read_share_group_state import PartitionData
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.server.sharing.share_states import WRITTEN_MAX
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS

PARTITIONS = 3


class Coordinated:
    """A client, and a topic whose partitions a group shares."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.topic_id = create_topic(client, "t", PARTITIONS).topic_id
        self.find(0)

    def find(self, partition: int) -> Any:
        key = SharePartitionKey("g", self.topic_id, partition).text
        (found,) = self.client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))).coordinators
        return found

    def rows(self, request: Any) -> list[Any]:
        """Return the answer for each partition of the topic."""
        return [row for topic in self.client.ask(request).results for row in topic.partitions]

    def initialize(self, partition: int, **said: int) -> Any:
        data = initialize.PartitionData(partition=partition, **said)
        topic = initialize.InitializeStateData(topic_id=self.topic_id, partitions=(data,))
        return self.rows(initialize.InitializeShareGroupStateRequest(group_id="g", topics=(topic,)))[0]

    def write(self, partition: int, *batches: tuple[int, int, int, int], **said: int) -> Any:
        found = tuple(
            write.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in batches
        )
        data = write.PartitionData(partition=partition, state_batches=found, **said)
        topic = write.WriteStateData(topic_id=self.topic_id, partitions=(data,))
        return self.rows(write.WriteShareGroupStateRequest(group_id="g", topics=(topic,)))[0]

    def read(self, partition: int, leader_epoch: int = 0) -> Any:
        data = read.PartitionData(partition=partition, leader_epoch=leader_epoch)
        topic = read.ReadStateData(topic_id=self.topic_id, partitions=(data,))
        return self.rows(read.ReadShareGroupStateRequest(group_id="g", topics=(topic,)))[0]

    def summary(self, *partitions: int, topic_id: bytes | None = None) -> list[Any]:
        data = tuple(PartitionData(partition=partition) for partition in partitions)
        topic = summary.ReadStateSummaryData(topic_id=topic_id or self.topic_id, partitions=data)
        return self.rows(summary.ReadShareGroupStateSummaryRequest(group_id="g", topics=(topic,)))

    def delete(self, *partitions: int) -> list[Any]:
        data = tuple(delete.PartitionData(partition=partition) for partition in partitions)
        topic = delete.DeleteStateData(topic_id=self.topic_id, partitions=data)
        return self.rows(delete.DeleteShareGroupStateRequest(group_id="g", topics=(topic,)))


@pytest.fixture
def coordinated() -> Iterator[Coordinated]:
    with ottla.Broker(overrides=FEW_PARTITIONS) as broker, RawClient(*address(broker)) as client:
        yield Coordinated(client)


def test_a_state_is_begun_written_read_told_in_short_and_forgotten(coordinated: Coordinated) -> None:
    assert coordinated.initialize(1, start_offset=5).error_code == 0
    row = coordinated.write(1, (5, 7, 2, 1), (9, 9, 4, 3), start_offset=5, leader_epoch=0, delivery_complete_count=4)
    assert (row.partition, row.error_code, row.error_message) == (1, 0, None)
    found = coordinated.read(1, leader_epoch=2)
    batches = [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in found.state_batches
    ]
    assert (found.start_offset, batches) == (5, [(5, 7, 2, 1), (9, 9, 4, 3)])
    (short,) = coordinated.summary(1)
    assert (short.start_offset, short.delivery_complete_count, short.leader_epoch) == (5, 4, 2)
    assert coordinated.delete(1, 2) and coordinated.read(1).error_code == ErrorCode.INVALID_REQUEST


def test_what_never_began_has_a_summary_and_can_be_deleted(coordinated: Coordinated) -> None:
    (short,) = coordinated.summary(0)
    told = (short.error_code, short.start_offset, short.delivery_complete_count, short.leader_epoch, short.state_epoch)
    assert told == (0, -1, -1, 0, 0)
    assert [row.error_code for row in coordinated.delete(0)] == [0]


def test_each_row_is_refused_on_its_own(coordinated: Coordinated) -> None:
    coordinated.initialize(0)
    codes = {row.partition: row.error_code for row in coordinated.summary(0, PARTITIONS, -1)}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {0: 0, PARTITIONS: unknown, -1: ErrorCode.INVALID_REQUEST}
    assert [row.error_code for row in coordinated.summary(0, topic_id=bytes(range(16)))] == [unknown]
    assert coordinated.write(1).error_message == "Write operation on uninitialized share partition not allowed."


def test_who_is_late_is_told_so(coordinated: Coordinated) -> None:
    coordinated.initialize(0, state_epoch=4)
    coordinated.read(0, leader_epoch=6)
    late_leader = (
        ErrorCode.FENCED_LEADER_EPOCH,
        "The leader epoch in the request is older than the epoch on the broker.",
    )
    rejected = "The share coordinator rejected the request because the share-group state epoch did not match."
    for answer, said in (
        (coordinated.read(0, leader_epoch=5), late_leader),
        (coordinated.write(0, state_epoch=4, leader_epoch=5), late_leader),
        (coordinated.write(0, state_epoch=3, leader_epoch=6), (ErrorCode.FENCED_STATE_EPOCH, rejected)),
        (coordinated.initialize(0, state_epoch=3), (ErrorCode.FENCED_STATE_EPOCH, rejected)),
    ):
        assert (answer.error_code, answer.error_message) == said


def test_more_batches_than_records_can_be_in_flight_are_refused(coordinated: Coordinated) -> None:
    coordinated.initialize(0)
    many = [(2 * at, 2 * at, 2, 1) for at in range(WRITTEN_MAX + 1)]
    assert coordinated.write(0, *many).error_code == ErrorCode.INVALID_REQUEST
    assert coordinated.write(0, *many[1:]).error_code == 0
    assert coordinated.write(0, *((first + 1, last + 1, 2, 1) for first, last, _, __ in many[1:])).error_code == 0


def test_a_topic_without_rows_empties_the_answer(coordinated: Coordinated) -> None:
    coordinated.initialize(0)
    assert coordinated.summary() == []


@pytest.mark.parametrize(
    "key",
    [
        "",
        "g",
        "g:x:0",
        ":AAECAwQFBgcICQoLDA0ODw:0",
        "g:AAECAwQFBgcICQoLDA0ODw:zero",
        "g:AAECAwQFBgcICQoLDA0ODw:9999999999",
        "g:é:1",
    ],
)
def test_what_is_no_key_of_a_share_partition_has_no_coordinator(coordinated: Coordinated, key: str) -> None:
    (found,) = coordinated.client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_its_coordinator_is_found_whatever_its_group_is_called(coordinated: Coordinated) -> None:
    assert coordinated.find(0).error_code == 0
    assert SharePartitionKey.from_text("a:b:AAECAwQFBgcICQoLDA0ODw:+7:") == ("a:b", bytes(range(16)), 7)
    old = coordinated.client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=("g",)), version=5)
    assert old.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
