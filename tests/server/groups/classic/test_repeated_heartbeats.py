"""A heartbeat that repeats the last one in a group that has not changed needs no look-ups; `conftest` does them anyway."""

from __future__ import annotations

import gc
from collections.abc import Callable
from weakref import ref

import pytest

from ottla.protocol.errors import ErrorCode
from support.groups.groups import Groups, error_of

NOT_HERE = ErrorCode.NOT_COORDINATOR


def unload(groups: Groups, partition: int) -> None:
    groups.coordinator.unload(partition, NOT_HERE, groups.now_ms)


def reload(groups: Groups, partition: int) -> None:
    groups.coordinator.reload(partition, NOT_HERE, groups.now_ms)


def lose(groups: Groups, partition: int) -> None:
    groups.coordinator.lose(partition, groups.now_ms)


def forget(groups: Groups, _partition: int) -> None:
    groups.coordinator.forget(NOT_HERE, groups.now_ms)


def test_a_repeated_heartbeat_keeps_its_member(repeated_heartbeats: list[str]) -> None:
    groups = Groups()
    (member,), generation = groups.stable(1, session_ms=10_000)
    for _ in range(4):
        assert groups.heartbeat(member, generation) == ErrorCode.NONE
        groups.advance(9_000)
    assert repeated_heartbeats == [member] * 3
    groups.advance(2_000)
    assert groups.heartbeat(member, generation) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("go", [unload, reload, lose, forget])
def test_a_group_that_is_still_to_be_closed_is_not_served(
    go: Callable[[Groups, int], None], repeated_heartbeats: list[str]
) -> None:
    """The groups of a partition that another node leads are closed one after the other, later."""
    groups = Groups()
    (member,), generation = groups.stable(1)
    assert groups.heartbeat(member, generation) == ErrorCode.NONE
    quiet = groups.coordinator.quiet("g", member)
    assert quiet is not None
    assert groups.coordinator.keep_alive(quiet, member)
    go(groups, groups.coordinator.partition_for("g"))
    assert not groups.coordinator.keep_alive(quiet, member)
    assert error_of(lambda: groups.heartbeat(member, generation)) != ErrorCode.NONE


def test_a_client_that_stays_connected_does_not_keep_a_group_that_is_gone() -> None:
    groups = Groups()
    (member,), generation = groups.stable(1)
    assert groups.heartbeat(member, generation) == ErrorCode.NONE
    quiet = groups.coordinator.quiet("g", member)
    assert quiet is not None
    group = ref(groups.coordinator.shard_of("g").groups["g"])
    assert groups.leave(member) == [ErrorCode.NONE]
    groups.delete_group("g", groups.now_ms)
    groups.advance(60_000)
    gc.collect()
    assert group() is None
    assert not groups.coordinator.keep_alive(quiet, member)
