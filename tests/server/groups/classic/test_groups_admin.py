"""Listing, describing and deleting classic groups."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.server.groups.records import group_key
from support.groups.groups import Groups, error_of
from support.noted import each_case


def some_groups() -> Groups:
    """Return groups that are stable, completing, preparing, empty and simple."""
    groups = Groups()
    groups.stable(1, group="stable")
    groups.join(group="completing")
    groups.advance(0)
    groups.stable(2, group="preparing")
    groups.leave(groups.members("preparing")[0], group="preparing")
    (member,), _ = groups.stable(1, group="empty", protocol_type="connect")
    groups.leave(member, group="empty")
    groups.commit({("orders", 0): 1}, group="simple")
    return groups


STATES = {
    "stable": ("Stable", "consumer"),
    "completing": ("CompletingRebalance", "consumer"),
    "preparing": ("PreparingRebalance", "consumer"),
    "empty": ("Empty", "connect"),
    "simple": ("Empty", ""),
}
ALL = set(STATES)

FILTERS = [
    ((), (), ALL),
    (("Stable",), (), {"stable"}),
    (("stable", " EMPTY "), (), {"stable", "empty", "simple"}),
    (("preparingrebalance", "CompletingRebalance"), (), {"preparing", "completing"}),
    (("Dead",), (), set()),
    (("nonsense",), (), set()),
    ((), ("classic",), ALL),
    ((), ("Classic", "consumer"), ALL),
    ((), ("consumer",), set()),
    ((), ("nonsense",), set()),
    (("Stable",), ("CLASSIC",), {"stable"}),
]


@each_case("states, types, expected", FILTERS)
def test_groups_are_listed_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], expected: set[str]
) -> None:
    listed = some_groups().list_groups(range(4), states, types)
    assert {one.group_id for one in listed} == expected
    for one in listed:
        assert (one.group_state, one.protocol_type) == STATES[one.group_id]
        assert one.group_type == "classic"


def test_only_the_asked_partitions_are_listed() -> None:
    groups = some_groups()
    partition = groups.coordinator.partition_for("stable")
    listed = {one.group_id for one in groups.list_groups([partition], (), ())}
    assert listed == {one for one in ALL if groups.coordinator.partition_for(one) == partition}


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    groups = Groups()
    groups.join(client="a", protocols=[("range", b"meta"), ("other", b"x")])
    groups.join(instance="i", version=5)
    groups.advance(0)
    groups.sync("i-2", 1)
    groups.sync("a-1", 1, {"a-1": b"mine", "i-2": b"yours"})

    assert groups.describe_group("g", 6) == DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=(
            DescribedGroupMember(
                member_id="a-1", client_id="a", client_host="/host", member_metadata=b"meta", member_assignment=b"mine"
            ),
            DescribedGroupMember(
                member_id="i-2", group_instance_id="i", client_id="c", client_host="/host", member_assignment=b"yours"
            ),
        ),
    )


def test_metadata_of_an_unstable_group_is_not_described() -> None:
    groups = Groups()
    groups.join(protocols=[("range", b"meta")])
    described = groups.describe_group("g", 6)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert described.members[0].member_metadata == b""


def test_an_unknown_group_is_dead_and_an_error_from_version_6() -> None:
    groups = Groups()
    assert groups.describe_group("g", 5) == DescribedGroup(group_id="g", group_state="Dead")
    assert groups.describe_group("g", 6) == DescribedGroup(
        group_id="g", group_state="Dead", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="Group g not found."
    )


DELETIONS = [
    ("stable", ErrorCode.NON_EMPTY_GROUP),
    ("completing", ErrorCode.NON_EMPTY_GROUP),
    ("preparing", ErrorCode.NON_EMPTY_GROUP),
    ("empty", ErrorCode.NONE),
    ("simple", ErrorCode.NONE),
    ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
]


@pytest.mark.parametrize(("group", "error"), DELETIONS)
def test_only_empty_groups_are_deleted(group: str, error: ErrorCode) -> None:
    groups = some_groups()
    assert error_of(lambda: groups.delete_group(group, groups.now_ms)) == error
    left = {one.group_id for one in groups.list_groups(range(4), (), ())}
    assert left == (ALL if error else ALL - {group})


def test_a_deleted_group_leaves_only_tombstones() -> None:
    groups = Groups()
    (member,), generation = groups.stable(1)
    groups.commit({("orders", n): n for n in range(1_200)}, member=member, generation=generation)
    groups.leave(member)

    groups.delete_group("g", groups.now_ms)

    assert groups.committed() == {}
    assert groups.store.table(groups.coordinator.partition_for("g")) == {}
    assert groups.restarted().list_groups(range(4), (), ()) == []


def test_a_group_that_cannot_be_deleted_stays() -> None:
    groups = Groups()
    groups.commit({("orders", 0): 1})
    groups.store.failure = ErrorCode.NOT_COORDINATOR
    assert error_of(lambda: groups.delete_group("g", groups.now_ms)) == ErrorCode.NOT_COORDINATOR
    assert groups.committed() == {("orders", 0): 1}


def test_a_member_with_an_id_from_before_the_deletion_must_restart() -> None:
    groups = Groups()
    member_id = groups.join(version=4).answer.member_id
    groups.delete_group("g", groups.now_ms)
    assert groups.join(member=member_id, version=4).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    groups.advance(100_000)
    assert error_of(lambda: groups.delete_group("g", groups.now_ms)) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_without_members_and_offsets_is_deleted_by_the_expiry_check() -> None:
    groups = Groups(offsets_retention_check_interval_ms=60_000)
    (member,), _ = groups.stable(1, session_ms=1_000_000)
    groups.advance(60_000)
    assert groups.state() == "Stable"
    groups.leave(member)
    groups.advance(60_000)
    assert groups.list_groups(range(4), (), ()) == []
    assert group_key("g") not in groups.store.table(groups.coordinator.partition_for("g"))
