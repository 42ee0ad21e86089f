"""The table of owners is ready without a heartbeat of the consumer protocol: classic members ask for it at once."""

from __future__ import annotations

import pytest

from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.server.groups.classic.protocol import Caller
from ottla.server.groups.consumer import group as tables
from ottla.server.groups.consumer.member import ConsumerMember
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import FakeTopics


@pytest.mark.parametrize("change", ["a session ends", "a load"])
def test_changes_of_many_topics_are_brought_into_the_table_by_a_job(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = ConsumerGroups(orders=2, bills=2)
    for _ in range(3):
        for member in ("a", "b"):
            groups.enter(member, "orders", "bills")
    assert len(groups.table().owners.table) == 2
    monkeypatch.setattr(tables, "AT_ONCE", 0)
    if change == "a load":
        groups = groups.restarted()
        groups.advance(0)
    else:
        groups.advance(60_000)
        assert not groups.table().members
    assert list(groups.table().owners.apply_waiting()) == []
    assert len(groups.table().owners.table) == (2 if change == "a load" else 0)


def test_the_heartbeat_of_a_member_with_few_partitions_settles_those_of_others_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"t{number}" for number in range(20)]
    groups = ConsumerGroups(topics=FakeTopics(few=1, **dict.fromkeys(names, 1)))
    groups.enter("many", *names)
    epoch = groups.enter("one", "few").member_epoch
    monkeypatch.setattr(tables, "AT_ONCE", 0)
    table = groups.table()
    table.owners = tables.PartitionOwners()
    for member in table.members.values():
        table.owners.note(ConsumerMember(member.member_id), member)
    assert not table.owners.is_settled
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="one", member_epoch=epoch, topic_partitions=())
    shard = groups.coordinator.shard_for("g")
    steps = groups.coordinator.consumer_heartbeat(shard, request, Caller("c", "/host", 1), lambda: groups.now_ms)
    unsettled = 0
    for _ in steps:
        unsettled += not table.owners.is_settled
    assert unsettled >= len(names)
    assert table.owners.is_settled
