"""Offsets committed in transactions: who may commit, pending offsets, and the effect of the transaction's end."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.schema import ZERO_UUID
from ottla.server.groups.offset_table import Place
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.broker.conversation import create_topic
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import TOPIC_IDS, Groups, error_of
from support.transactions.transactional_client import TransactionalClient
from support.transactions.txn_commits import ALICE, BOB
from support.transactions.txn_commits import commit_in_transaction as commit
from support.transactions.txn_commits import end_transaction as end

P0, P1, BILL = ("orders", 0), ("orders", 1), ("bills", 0)
WEEK_MS = 7 * 86_400_000


def is_unstable(groups: Groups, place: Place, group: str = "g") -> bool:
    (stable,) = groups.fetch(place[0], place[1], group=group, stable=True)
    return stable.error == ErrorCode.UNSTABLE_OFFSET_COMMIT


# --- pending, and after ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_committed", "expected"), [(True, {P0: 42, P1: 7, BILL: 3}), (False, {P0: 1})])
def test_offsets_count_once_their_transaction_is_committed(is_committed: bool, expected: dict[Place, int]) -> None:
    groups = Groups()
    groups.commit({P0: 1})

    assert commit(groups, {P0: 42, P1: 7, BILL: 3}) == {}
    for each in (groups, groups.restarted()):
        assert each.committed() == {P0: 1}
        assert [is_unstable(each, place) for place in (P0, P1, BILL)] == [True, True, True]

    end(groups, commit=is_committed)
    for each in (groups, groups.restarted()):
        assert each.committed() == expected
        assert not is_unstable(each, P0)


def test_a_commit_keeps_its_metadata_and_topic_id() -> None:
    groups = Groups()
    commit(groups, {P0: 42}, metadata="note")
    end(groups, commit=True)

    (found,) = groups.fetch("orders", 0)
    assert found.committed is not None
    assert found.committed[:4] == (42, 5, "note", groups.now_ms)
    assert found.committed.topic_id == TOPIC_IDS["orders"]


def test_all_offsets_of_a_request_are_one_transactional_batch() -> None:
    groups = Groups()
    commit(groups, {P0: 1, P1: 2}, epoch=3)

    (batch,) = groups.store.batches(groups.coordinator.partition_for("g"))
    assert (batch.is_transactional, batch.producer_id, batch.producer_epoch, batch.record_count) == (True, ALICE, 3, 2)


def test_the_last_commit_of_a_transaction_counts() -> None:
    groups = Groups()
    commit(groups, {P0: 42})
    commit(groups, {P0: 41})
    end(groups, commit=True)
    assert groups.committed() == groups.restarted().committed() == {P0: 41}


def test_a_plain_commit_after_the_transactional_one_stays() -> None:
    groups = Groups()
    commit(groups, {P0: 42})
    groups.commit({P0: 50})
    end(groups, commit=True)
    assert groups.committed() == groups.restarted().committed() == {P0: 50}


def test_the_later_of_two_transactional_commits_counts_in_any_end_order() -> None:
    groups = Groups()
    commit(groups, {P0: 10}, producer=ALICE)
    commit(groups, {P0: 20}, producer=BOB)

    end(groups, producer=BOB, commit=True)
    assert is_unstable(groups, P0)
    end(groups, producer=ALICE, commit=True)

    assert not is_unstable(groups, P0)
    assert groups.committed() == groups.restarted().committed() == {P0: 20}


def test_one_transaction_commits_for_several_groups() -> None:
    groups = Groups()
    same_partition = next(
        name
        for name in map(str, range(100))
        if groups.coordinator.partition_for(name) == groups.coordinator.partition_for("g")
    )
    commit(groups, {P0: 1}, group="g")
    commit(groups, {P0: 2}, group=same_partition)
    end(groups, commit=True)
    assert groups.committed(group="g") == {P0: 1}
    assert groups.committed(group=same_partition) == {P0: 2}


def test_the_end_of_a_transaction_without_offsets_changes_nothing() -> None:
    groups = Groups()
    groups.commit({P0: 1})
    commit(groups, {P1: 2}, producer=BOB)
    end(groups, producer=ALICE, commit=True)
    assert groups.committed() == {P0: 1}
    assert is_unstable(groups, P1)


def test_the_end_of_a_transaction_on_an_unknown_partition_is_ignored() -> None:
    Groups().coordinator.transaction_ended(99, ALICE, commit=True)


def test_a_commit_that_cannot_be_written_is_not_pending() -> None:
    groups = Groups()
    groups.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_of(partial(commit, groups, {P0: 1})) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.store.failure = None
    assert not is_unstable(groups, P0)
    assert groups.list_groups(range(4), (), ()) == []


# --- expiry and deletion --------------------------------------------------------------------------------------------


def test_pending_offsets_prevent_expiry_of_offsets_and_group() -> None:
    groups = Groups()
    groups.commit({P0: 1, P1: 1})
    commit(groups, {P0: 2})
    groups.advance(2 * WEEK_MS)
    assert groups.committed() == {P0: 1}

    end(groups, commit=False)
    groups.advance(WEEK_MS)
    assert groups.committed() == {}
    assert groups.state() == "Dead"


def test_a_group_with_only_pending_offsets_may_be_deleted_with_them() -> None:
    groups = Groups()
    commit(groups, {P0: 1})
    assert groups.state() == "Empty"

    groups.delete_group("g", groups.now_ms)
    end(groups, commit=True)

    assert groups.committed() == groups.restarted().committed() == {}
    assert groups.state() == "Dead"


def test_deleted_offsets_do_not_return_with_the_transaction() -> None:
    groups = Groups()
    commit(groups, {P0: 1, P1: 2})
    assert groups.delete_offsets("g", [P0], groups.now_ms) == [ErrorCode.NONE]
    end(groups, commit=True)
    assert groups.committed() == groups.restarted().committed() == {P1: 2}


# --- rights to commit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generation", "member", "version", "expected"),
    [
        (-1, "", 5, ErrorCode.NONE),
        (-1, "m", 5, ErrorCode.NONE),
        (0, "", 5, ErrorCode.ILLEGAL_GENERATION),
        (5, "m", 5, ErrorCode.ILLEGAL_GENERATION),
        (-1, "m", 6, ErrorCode.NONE),
        (5, "m", 6, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_an_unknown_group_may_commit_transactionally(
    generation: int, member: str, version: int, expected: ErrorCode
) -> None:
    groups = Groups()
    attempt = partial(commit, groups, {P0: 1}, generation=generation, member=member, version=version)
    assert error_of(attempt) == expected
    assert groups.state() == ("Dead" if expected else "Empty")


def test_members_of_a_classic_group_are_checked() -> None:
    groups = Groups()
    (member, _), generation = groups.stable(2)
    rows: list[tuple[str, int, ErrorCode]] = [
        (member, generation, ErrorCode.NONE),
        # Producers before KIP-447 name no member, whatever the group's state is.
        ("", -1, ErrorCode.NONE),
        (member, generation - 1, ErrorCode.ILLEGAL_GENERATION),
        (member, generation + 1, ErrorCode.ILLEGAL_GENERATION),
        (member, -1, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", generation, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", generation, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for name, claimed, expected in rows:
        assert error_of(partial(commit, groups, {P0: 1}, member=name, generation=claimed)) == expected, (name, claimed)


def test_static_members_of_a_classic_group_are_checked() -> None:
    groups = Groups()
    join = groups.join(instance="i")
    groups.advance(0)
    member, generation = join.answer.member_id, join.answer.generation_id
    groups.sync(member, generation, {member: b""}, instance="i")
    rows: list[tuple[str, str, ErrorCode]] = [
        (member, "i", ErrorCode.NONE),
        ("older", "i", ErrorCode.FENCED_INSTANCE_ID),
        (member, "j", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for name, instance, expected in rows:
        attempt = partial(commit, groups, {P0: 1}, member=name, generation=generation, instance=instance)
        assert error_of(attempt) == expected, (name, instance)


def test_a_rebalance_does_not_hold_back_transactional_commits() -> None:
    """Transactional commits differ from plain ones: the offsets belong to the records of the transaction."""
    groups = Groups()
    join = groups.join()
    groups.advance(0)
    member, generation = join.answer.member_id, join.answer.generation_id
    assert groups.state() == "CompletingRebalance"
    assert error_of(partial(commit, groups, {P0: 1}, member=member, generation=generation)) == ErrorCode.NONE


def test_members_of_a_consumer_group_are_checked() -> None:
    groups = ConsumerGroups(orders=2, bills=1)
    groups.enter("a")
    epoch = groups.enter("b").member_epoch
    rows: list[tuple[str, int, int, ErrorCode]] = [
        ("b", epoch, 5, ErrorCode.NONE),
        ("", -1, 5, ErrorCode.NONE),
        # Before version 6, transactional producers only know generations, so no epoch is stale.
        ("b", epoch + 1, 5, ErrorCode.ILLEGAL_GENERATION),
        ("b", -1, 5, ErrorCode.ILLEGAL_GENERATION),
        ("unknown", epoch, 5, ErrorCode.UNKNOWN_MEMBER_ID),
        ("b", epoch, 6, ErrorCode.NONE),
        ("b", epoch + 1, 6, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", -1, 6, ErrorCode.STALE_MEMBER_EPOCH),
        ("unknown", epoch, 6, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for name, claimed, version, expected in rows:
        attempt = partial(commit, groups, {P0: 1}, member=name, generation=claimed, version=version)
        assert error_of(attempt) == expected, (name, claimed, version)


def test_the_size_of_metadata_is_limited() -> None:
    groups = Groups(offset_metadata_max_bytes=4)
    assert commit(groups, {P0: 1}, metadata="12345") == {P0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(groups, {P0: 1}, metadata="1234") == {}
    assert commit(groups, {P1: 1}, metadata=None) == {}
    assert groups.store.end_offset(groups.coordinator.partition_for("g")) == 2


# --- over the wire --------------------------------------------------------------------------------------------------


def wire_commit(
    producer: TransactionalClient,
    *offsets: tuple[str, int, int],
    group: str = "g",
    version: int | None = None,
    **fields: object,
) -> list[int]:
    """Send TxnOffsetCommit of (topic, partition, offset); return the error of each."""
    request = TxnOffsetCommitRequest(
        **{  # type: ignore[arg-type]
            "transactional_id": producer.transactional_id,
            "group_id": group,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "topics": tuple(
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=(TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset),),
                )
                for topic, index, offset in offsets
            ),
            **fields,
        }
    )
    answer = producer.client.ask(request, producer.commit_version if version is None else version)
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def position(client: RawClient, group: str = "g", *, stable: bool = False) -> tuple[int, int]:
    """Send OffsetFetch for t-0; return error and offset."""
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=group, topics=topics),), require_stable=stable
    )
    (row,) = client.ask(request, 9).groups[0].topics[0].partitions
    return row.error_code, row.committed_offset


def begun(client: RawClient, version: int) -> TransactionalClient:
    producer = TransactionalClient(client, f"x{version}", version=version)
    producer.begin()
    return producer


async def test_offsets_are_committed_in_every_version(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> None:
        create_topic(client, "t")
        for version in range(6):
            group = f"g{version}"
            producer = begun(client, 2 if version == 5 else 0)
            for offset, is_committed in ((1, True), (2, False), (3, True)):
                if version < 5:
                    assert producer.add_group(group) == ErrorCode.NONE, version
                codes = wire_commit(producer, ("t", 0, offset), group=group, version=version)
                assert codes == [ErrorCode.NONE], version
                producer.end(commit=is_committed)
            assert position(client, group) == (ErrorCode.NONE, 3), version

    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(conversation)


async def test_offsets_and_records_of_one_transaction_share_its_outcome(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> None:
        create_topic(client, "t")
        for version in (0, 2):
            producer = begun(client, version)
            group = f"g{version}"
            for is_committed in (False, True):
                producer.produce("t", ("k", "v"))
                if version < 2:
                    assert producer.add_group(group) == ErrorCode.NONE
                assert wire_commit(producer, ("t", 0, 42), group=group) == [ErrorCode.NONE]
                assert position(client, group) == (ErrorCode.NONE, -1)
                assert position(client, group, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
                producer.end(commit=is_committed)
            assert position(client, group) == (ErrorCode.NONE, 42)

    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(conversation)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.NONE),
    ],
)
async def test_a_group_outside_the_transaction_is_refused(tmp_path: Path, version: int, expected: ErrorCode) -> None:
    def conversation(client: RawClient) -> list[int]:
        create_topic(client, "t")
        producer = begun(client, 0)
        producer.produce("t", ("k", "v"))
        return wire_commit(producer, ("t", 0, 1), version=version)

    async with serving(tmp_path, OsFiles()) as served:
        assert await served.ask(conversation) == [expected]
        partition = served.broker.services.coordinators.groups.coordinator.partition_for("g")
        log = served.broker.services.topics.partition("__consumer_offsets", partition).log
        assert log.log_end_offset == (1 if expected == ErrorCode.NONE else 0)
        transaction = served.broker.services.coordinators.transactions.coordinator.shard_of("x0").transactions["x0"]
        is_added = TopicPartition("__consumer_offsets", partition) in transaction.partitions
        assert is_added == (expected == ErrorCode.NONE)


async def test_invalid_requests_are_refused(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> None:
        create_topic(client, "t")
        zombie = begun(client, 2)
        producer = begun(client, 2)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert wire_commit(producer, ("t", 0, 1), group="") == [ErrorCode.INVALID_GROUP_ID]
        assert wire_commit(producer, ("t", 0, 1), producer_id=-1) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert wire_commit(producer, ("t", 0, 1), producer_id=99) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert wire_commit(producer, ("t", 0, 1), transactional_id="y") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert wire_commit(zombie, ("t", 0, 1)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert wire_commit(producer, ("t", 0, 1), generation_id_or_member_epoch=3) == [ErrorCode.ILLEGAL_GENERATION]
        assert wire_commit(producer, ("t", 1, 1), ("u", 0, 1), ("t", -1, 1)) == [missing] * 3
        assert wire_commit(producer, ("t", 0, 1), ("u", 0, 1), group="") == [ErrorCode.INVALID_GROUP_ID, missing]
        assert wire_commit(producer, ("t", 0, 5), ("u", 0, 1)) == [ErrorCode.NONE, missing]
        producer.end(commit=True)
        assert position(client) == (ErrorCode.NONE, 5)

    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(conversation)


async def test_topics_may_be_known_by_their_ids(tmp_path: Path) -> None:
    def conversation(client: RawClient) -> None:
        topic_id = create_topic(client, "t").topic_id
        producer = begun(client, 2)

        def commit_by_id(*places: tuple[bytes, int], **fields: object) -> list[tuple[bytes, str, int]]:
            topics = tuple(
                TxnOffsetCommitRequestTopic(
                    topic_id=each, partitions=(TxnOffsetCommitRequestPartition(partition_index=at, committed_offset=5),)
                )
                for each, at in places
            )
            request = TxnOffsetCommitRequest(
                **{  # type: ignore[arg-type]
                    "transactional_id": producer.transactional_id,
                    "group_id": "g",
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.epoch,
                    "topics": topics,
                    **fields,
                }
            )
            answer = client.ask(request, 6)
            return [(each.topic_id, each.name, each.partitions[0].error_code) for each in answer.topics]

        assert commit_by_id((topic_id, 0), (b"?" * 16, 0), (ZERO_UUID, 0), (topic_id, 1)) == [
            (topic_id, "", ErrorCode.NONE),
            (b"?" * 16, "", ErrorCode.UNKNOWN_TOPIC_ID),
            (ZERO_UUID, "", ErrorCode.UNKNOWN_TOPIC_ID),
            (topic_id, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        refused = commit_by_id((topic_id, 0), (b"?" * 16, 0), group_id="other", generation_id_or_member_epoch=3)
        assert refused == [
            (topic_id, "", ErrorCode.GROUP_ID_NOT_FOUND),
            (b"?" * 16, "", ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        producer.end(commit=True)
        assert position(client) == (ErrorCode.NONE, 5)

    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(conversation)


async def test_pending_offsets_survive_a_restart(tmp_path: Path) -> None:
    def before(client: RawClient) -> TransactionalClient:
        create_topic(client, "t")
        producer = begun(client, 2)
        assert wire_commit(producer, ("t", 0, 7)) == [ErrorCode.NONE]
        return producer

    def after(client: RawClient, producer: TransactionalClient) -> None:
        producer.client = client
        assert position(client) == (ErrorCode.NONE, -1)
        producer.end(commit=True)
        assert position(client) == (ErrorCode.NONE, 7)

    async with serving(tmp_path, OsFiles()) as served:
        producer = await served.ask(before)
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(after, producer)
