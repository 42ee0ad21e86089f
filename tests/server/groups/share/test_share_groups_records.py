"""Records of share groups: their effect on a load, and other kinds of requests to such a group."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import share_group_log as log
from ottla.server.groups.records import Change, KindRecord, read_record, write_record
from ottla.server.groups.share import records
from ottla.server.groups.share.group import ShareGroup
from ottla.server.groups.share.member import ShareMember
from ottla.server.groups.share.states import StateTable, TopicStates
from support.groups.consumer_groups import ConsumerGroups, raised
from support.groups.groups import MemoryStore, error_of

ORDERS, LATE = b"\1" * 16, b"\2" * 16
MEMBER = ShareMember(
    "m", 3, 2, rack_id="north", client_id="c", client_host="/h", topic_names=frozenset({"orders", "late"}),
    assigned={ORDERS: frozenset({0, 2})},
)  # fmt: skip
STATES = StateTable(
    {LATE: TopicStates("late", frozenset({1}))}, {ORDERS: TopicStates("orders", frozenset({0, 2}))}, {b"\3" * 16: "old"}
)
WHOLE = [
    records.member_metadata("g", MEMBER),
    records.group_epoch("g", 4, -7),
    records.target("g", "m", {ORDERS: frozenset({0, 2})}),
    records.target_metadata("g", 3, 1_000),
    records.current_assignment("g", MEMBER),
    records.state_partitions("g", STATES),
]


def loaded(*changes: Change) -> ConsumerGroups:
    """Return a coordinator that finds these records, and has not looked at the topics yet."""
    store = MemoryStore(1)
    for change in changes:
        key, value = write_record(*change)
        store.append_batch(0, build_batch([(0, 0, key, value, ())]))
    groups = ConsumerGroups(store, loads=False, orders=3)
    groups.load_only()
    return groups


def table(groups: ConsumerGroups) -> ShareGroup:
    found = groups.coordinator.shard_of("g").groups["g"]
    assert isinstance(found, ShareGroup)
    return found


@pytest.mark.parametrize("change", WHOLE, ids=[type(key).__name__ for key, _ in WHOLE])
def test_a_record_reads_back_as_written(change: Change) -> None:
    assert read_record(*write_record(*change)) == KindRecord(*change)


def test_each_record_type_occurs() -> None:
    assert {type(key) for key, _ in WHOLE} == {key for key, _ in log.RECORD_TYPES.values()}


def test_a_group_follows_from_its_records() -> None:
    group = table(loaded(*WHOLE))
    assert group.members == {"m": MEMBER}
    assert (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_ms) == (4, -7, 3, 1_000)
    assert group.targets == {"m": {ORDERS: frozenset({0, 2})}}
    assert group.states == STATES
    assert group.subscribed_topics == {"orders", "late"}
    assert group.state_name == "Stable"


@pytest.mark.parametrize("first", range(len(WHOLE)))
def test_any_record_except_a_tombstone_creates_a_group(first: int) -> None:
    key, _ = WHOLE[first]
    assert table(loaded(WHOLE[first])).group_id == "g"
    assert not loaded((key, None)).coordinator.shard_of("g").groups


def test_tombstones_delete_a_member_and_a_group() -> None:
    left = table(loaded(*WHOLE, *records.member_tombstones("g", "m")))
    assert (left.members, left.targets, left.subscribed_topics, left.state_name) == ({}, {}, frozenset(), "Empty")
    assert left.states == STATES
    gone = loaded(*WHOLE, *records.tombstones("g", ["m"]))
    assert not gone.coordinator.shard_of("g").groups


def test_a_groups_tombstones_cover_all_its_records() -> None:
    keys = {write_record(*change)[0] for change in WHOLE}
    assert set(table(loaded(*WHOLE)).tombstone_keys()) == keys


@pytest.mark.parametrize(
    "states, topics, target, is_news",
    [
        ({ORDERS: {0, 1}}, {"orders"}, {ORDERS: {0, 1}}, False),
        ({ORDERS: {0, 1}}, {"orders"}, {ORDERS: {0}}, True),
        ({ORDERS: {0}}, {"orders"}, {ORDERS: {0, 1}}, True),
        ({ORDERS: {0}}, {"orders"}, {}, True),
        ({ORDERS: {0}}, {"other"}, {}, False),
        ({}, {"orders"}, {}, False),
    ],
)
def test_initialized_and_subscribed_partitions_must_be_assigned(
    states: dict[bytes, set[int]], topics: set[str], target: dict[bytes, set[int]], is_news: bool
) -> None:
    initialized = {topic_id: TopicStates("orders", frozenset(one)) for topic_id, one in states.items()}
    group = table(
        loaded(
            records.member_metadata("g", ShareMember("m", topic_names=frozenset(topics))),
            records.target("g", "m", {topic_id: frozenset(one) for topic_id, one in target.items()}),
            records.state_partitions("g", StateTable(initialized=initialized)),
        )
    )
    assert group.has_unassigned_states is is_news


REQUESTS: dict[str, tuple[Any, ErrorCode]] = {
    "a consumer that joins": (lambda groups: groups.enter("a"), ErrorCode.GROUP_ID_NOT_FOUND),
    "a consumer that stays": (lambda groups: groups.beat("a", 1), ErrorCode.GROUP_ID_NOT_FOUND),
    "a commit": (lambda groups: groups.commit({("orders", 0): 5}), ErrorCode.GROUP_ID_NOT_FOUND),
    "a deletion of offsets": (
        lambda groups: groups.delete_offsets("g", [("orders", 0)], groups.now_ms),
        ErrorCode.GROUP_ID_NOT_FOUND,
    ),
    "a deletion": (
        lambda groups: groups.delete_group("g", groups.now_ms),
        ErrorCode.NON_EMPTY_GROUP,
    ),
}


@pytest.mark.parametrize("request_, code", REQUESTS.values(), ids=REQUESTS)
def test_requests_of_consumers_are_refused(request_: Any, code: ErrorCode) -> None:
    groups = loaded(*WHOLE)
    assert raised(lambda: request_(groups))[0] is code
    assert table(groups).members == {"m": MEMBER}


def test_members_of_the_classic_protocol_are_refused() -> None:
    groups = loaded(*WHOLE)
    assert groups.join().answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.heartbeat("m", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.sync("m", 3).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.leave("m") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_the_group_is_listed_but_not_described_as_classic() -> None:
    groups = loaded(*WHOLE)
    for states, types, is_there in (
        ((), (), True),
        (("STABLE",), ("Share",), True),
        (("empty",), (), False),
        ((), ("consumer", "classic"), False),
    ):
        listed = groups.list_groups([0], states, types)
        assert [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in listed] == (
            [("g", "share", "Stable", "share")] if is_there else []
        )
    described = groups.describe_group("g", 6)
    assert (described.group_state, described.error_code, described.error_message) == (
        "Dead", ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group.",
    )  # fmt: skip


def test_a_share_group_has_no_committed_offsets() -> None:
    groups = loaded(*WHOLE)
    groups.coordinator.check_fetch(groups.coordinator.shard_for("g"), "g", None, -1)
    assert not groups.coordinator.positions(groups.coordinator.shard_of("g"), "g", stable=True).committed


def test_epochs_have_a_maximum() -> None:
    assert error_of(lambda: records.group_epoch("g", 2**31, 0)) is ErrorCode.UNKNOWN_SERVER_ERROR
