"""Records of consumer groups: the same as Apache Kafka's, in its order, and their meaning when read."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.messages import consumer_group_log as messages
from ottla.server.groups.records import read_record, write_record
from support.groups.consumer_groups import REBALANCE_MS, ConsumerGroups

KEYS = {key: number for number, (key, _) in messages.RECORD_TYPES.items()}


class Log:
    """The records that are appended to the partition of group "g" from a moment on."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self.groups = groups
        self.partition = groups.coordinator.partition_for("g")
        self.start = len(groups.store.batches(self.partition))

    def batches(self) -> list[list[tuple[Any, Any]]]:
        """Return key and value of the records, batch by batch."""
        return [
            [read_record(record.key, record.value) for record in batch.records()]  # type: ignore[misc]
            for batch in self.groups.store.batches(self.partition)[self.start :]
        ]

    def types(self) -> list[list[int]]:
        """Return types of the keys, below 0 for tombstones."""
        return [
            [KEYS[type(key)] * (1 if value is not None else -1) for key, value in batch] for batch in self.batches()
        ]


def test_a_join_is_one_batch_of_records() -> None:
    groups = ConsumerGroups(orders=2)
    log = Log(groups)
    groups.enter("a", instance_id="i", rack_id="north", server_assignor="range", client="app")
    orders = groups.topics.id_of("orders") or b""
    assert log.batches() == [
        [
            (
                messages.ConsumerGroupMemberMetadataKey(group_id="g", member_id="a"),
                messages.ConsumerGroupMemberMetadataValue(
                    instance_id="i",
                    rack_id="north",
                    client_id="app",
                    client_host="/host",
                    subscribed_topic_names=("orders",),
                    subscribed_topic_regex="",
                    rebalance_timeout_ms=REBALANCE_MS,
                    server_assignor="range",
                ),
            ),
            (
                messages.ConsumerGroupMetadataKey(group_id="g"),
                messages.ConsumerGroupMetadataValue(epoch=2, metadata_hash=groups.table().metadata_hash),
            ),
            (
                messages.ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="a"),
                messages.ConsumerGroupTargetAssignmentMemberValue(
                    topic_partitions=(messages.TopicPartition(topic_id=orders, partitions=(0, 1)),)
                ),
            ),
            (
                messages.ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
                messages.ConsumerGroupTargetAssignmentMetadataValue(
                    assignment_epoch=2, assignment_timestamp=groups.now_ms
                ),
            ),
            (
                messages.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"),
                messages.ConsumerGroupCurrentMemberAssignmentValue(
                    member_epoch=2,
                    previous_member_epoch=0,
                    state=0,
                    assigned_partitions=(
                        messages.TopicPartitions(topic_id=orders, partitions=(0, 1), assignment_epochs=(2, 2)),
                    ),
                ),
            ),
        ]
    ]
    assert groups.table().metadata_hash != 0


@pytest.mark.parametrize(
    "what, expected",
    [
        ("a second member joins", [[5, 3, 7, 7, 6, 8]]),
        ("leaves", [[-8, -7, -5, 3, 6]]),
        ("leaves temporarily", [[8]]),
        ("comes back", [[8], [-8, -7, -5, 5, 7, 8, 8]]),
        ("a regular expression", [[5, 8], [16, 3]]),
        ("a regular expression goes", [[5, 8], [16, 3], [-8, -7, -5, -16, 3]]),
        ("nothing new", []),
        ("another rack", [[5]]),
    ],
)
def test_each_event_writes_its_records(what: str, expected: list[list[int]]) -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a", instance_id="i")
    log = Log(groups)
    match what:
        case "a second member joins":
            groups.enter("b")
        case "leaves":
            groups.beat("a", -1)
        case "leaves temporarily":
            groups.beat("a", -2, instance_id="i")
        case "comes back":
            groups.beat("a", -2, instance_id="i")
            groups.enter("b", instance_id="i")
        case "a regular expression" | "a regular expression goes":
            groups.enter("b", subscribed_topic_regex="o.*")
            if "goes" in what:
                groups.beat("b", -1)
        case "nothing new":
            groups.beat("a", 2)
        case "another rack":
            groups.beat("a", 2, rack_id="south")
    assert log.types() == expected


def test_a_static_member_returning_under_another_id_restarts_at_epoch_0() -> None:
    groups = ConsumerGroups(orders=1)
    groups.enter("a", instance_id="i")
    groups.beat("a", -2, instance_id="i")
    log = Log(groups)
    groups.enter("b", instance_id="i")
    written = [
        value
        for batch in log.batches()
        for key, value in batch
        if key.member_id == "b" and "Current" in type(key).__name__
    ]
    assert [(value.member_epoch, value.previous_member_epoch) for value in written] == [(0, 0), (2, 0)]


def test_a_deleted_group_leaves_no_record() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a", subscribed_topic_regex="o.*")
    groups.commit({("orders", 0): 5}, member="a", generation=1, version=9)
    groups.beat("a", -1)
    log = Log(groups)
    groups.delete_group("g", groups.now_ms)
    assert groups.store.table(log.partition) == {}
    assert groups.list_groups(range(4), (), ()) == []
    again = groups.restarted()
    assert again.list_groups(range(4), (), ()) == []
    assert again.committed() == {}


def test_an_empty_classic_group_is_replaced() -> None:
    groups = ConsumerGroups(orders=2)
    groups.commit({("orders", 0): 5})
    log = Log(groups)
    groups.enter("a")
    assert [type(key).__name__ for key, _ in log.batches()[0]][:2] == [
        "GroupMetadataKey",
        "ConsumerGroupMemberMetadataKey",
    ]
    assert groups.committed() == {("orders", 0): 5}
    again = groups.restarted()
    assert again.described().group_state == "Stable"
    assert again.committed() == {("orders", 0): 5}


def test_an_empty_consumer_group_is_replaced_by_a_classic_one() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.commit({("orders", 0): 5}, member="a", generation=2, version=9)
    groups.beat("a", -1)
    joined = groups.join()
    groups.advance(0)
    assert joined.answer.generation_id == 1
    assert groups.state() == "CompletingRebalance"
    assert groups.committed() == {("orders", 0): 5}
    assert [one.group_type for one in groups.restarted().list_groups(range(4), (), ())] == ["classic"]


class TestWhatOthersHaveWritten:
    def loaded(self, *changes: tuple[Any, Any]) -> ConsumerGroups:
        groups = ConsumerGroups(orders=2)
        partition = groups.coordinator.partition_for("g")
        rows = [(at, 0, *write_record(*change), ()) for at, change in enumerate(changes)]
        groups.store.append_batch(partition, build_batch(rows))
        return groups.restarted()

    def test_partitions_without_epochs_are_owned_since_the_member_epoch(self) -> None:
        """Brokers before 4.3 wrote such records."""
        topic = messages.TopicPartitions(topic_id=b"\1" * 16, partitions=(0, 1))
        value = messages.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=7, previous_member_epoch=6, assigned_partitions=(topic,)
        )
        key = messages.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
        assert self.loaded((key, value)).table().members["a"].assigned == {b"\1" * 16: {0: 7, 1: 7}}

    def test_the_old_metadata_record_is_deleted_at_the_next_topic_refresh(self) -> None:
        """This record is older than the metadata hash (KIP-1101)."""
        key = messages.ConsumerGroupPartitionMetadataKey(group_id="g")
        groups = self.loaded((key, messages.ConsumerGroupPartitionMetadataValue()))
        log = Log(groups)
        groups.enter("a")
        assert -4 in log.types()[0]
        assert not groups.table().has_old_metadata
        assert not groups.restarted().table().has_old_metadata

    @pytest.mark.parametrize("key", [key for key, _ in messages.RECORD_TYPES.values()])
    def test_a_tombstone_of_something_unknown_does_nothing(self, key: Any) -> None:
        groups = self.loaded((key(group_id="g"), None))
        assert groups.list_groups(range(4), (), ()) == []
        groups.enter("a")

    def test_members_of_a_loaded_group_have_new_session_and_rebalance_timeouts(self) -> None:
        groups = ConsumerGroups(orders=2)
        groups.enter("a")
        groups.enter("b")
        groups.beat("a", 2)
        groups.advance(REBALANCE_MS - 1)
        groups = groups.restarted()
        groups.advance(REBALANCE_MS - 1)
        assert set(groups.table().members) == {"a", "b"}
        groups.advance(1)
        assert set(groups.table().members) == {"b"}, "it did not give up in time"
        groups.advance(100_000)
        assert groups.table().members == {}
