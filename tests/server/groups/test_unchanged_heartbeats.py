"""Heartbeats that change nothing are answered without searching for work; `conftest` searches anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.protocol.errors import KafkaError
from ottla.server.coordination.deadlines import Deadline
from ottla.server.groups.streams.configured import Problem, StatusCode
from support.groups.consumer_groups import SESSION_MS, ConsumerGroups
from support.groups.share_groups import ShareGroups
from support.groups.streams_groups import StreamsGroups

AnyGroups = ConsumerGroups | ShareGroups | StreamsGroups
KINDS: dict[str, type[AnyGroups]] = {"Consumer": ConsumerGroups, "Share": ShareGroups, "Streams": StreamsGroups}


def at_rest(kind: str) -> tuple[AnyGroups, int]:
    """Return a group of one member, which has its whole assignment; and its epoch."""
    groups = KINDS[kind](orders=2)
    epoch = groups.enter("a").member_epoch
    for _ in range(4):
        groups.advance(5_000)
        epoch = groups.beat("a", epoch).member_epoch
    return groups, epoch


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_with_its_complete_assignment_changes_nothing(kind: str, unchanged_heartbeats: list[str]) -> None:
    groups, epoch = at_rest(kind)
    unchanged_heartbeats.clear()
    written = groups.store.appends
    for _ in range(3):
        groups.advance(SESSION_MS - 1)
        assert groups.beat("a", epoch).member_epoch == epoch
    assert unchanged_heartbeats == [f"{kind}Protocol"] * 3
    assert groups.store.appends == written
    groups.advance(SESSION_MS + 1)
    assert not groups.table().members, "its session began with the last one"


@pytest.mark.parametrize("kind", KINDS)
def test_a_grown_topic_is_noticed(kind: str, unchanged_heartbeats: list[str]) -> None:
    groups, epoch = at_rest(kind)
    grow = groups.put_topic if isinstance(groups, ShareGroups) else groups.grow_topic
    grow("orders", 3)
    groups.advance(5_000)
    unchanged_heartbeats.clear()
    groups.beat("a", epoch)
    assert not unchanged_heartbeats
    assert groups.table().epoch > epoch


def going(groups: Any) -> None:
    groups.coordinator.shard_of("g").groups_going.add("g")


def older_topology(groups: Any) -> None:
    group = groups.table()
    group.members["a"] = replace(group.members["a"], topology_epoch=-1)


def with_problem(groups: Any) -> None:
    group = groups.table()
    group.configured = group.configured._replace(problem=Problem(StatusCode.MISSING_SOURCE_TOPICS, "gone"))


def standbys(groups: Any) -> None:
    groups.coordinator._settings.defaults |= {"streams.num.standby.replicas": 1}


def initializing(groups: Any) -> None:
    group = groups.table()
    group.set_states(replace(group.states, initializing=group.states.initialized))
    group.looked_for = (group.subscribed_topics, group.states, group.topics_known_to)


def unassigned(groups: Any) -> None:
    groups.table().set_target("a", {})


NEWS: list[tuple[str, Callable[[Any], object], dict[str, Any]]] = [
    *((kind, going, {}) for kind in KINDS),
    *((kind, lambda groups: None, {"client": "another"}) for kind in KINDS),
    ("Consumer", lambda groups: None, {"instance_id": "i"}),
    ("Consumer", lambda groups: None, {"owns": {"orders": [0, 1]}}),
    ("Consumer", lambda groups: groups.table().regex_subscribers.update({"o.*": 1}), {}),
    ("Share", lambda groups: None, {"topics": ["orders"]}),
    ("Share", lambda groups: setattr(groups.table(), "looked_for", None), {}),
    ("Share", initializing, {}),
    ("Share", unassigned, {}),
    ("Streams", older_topology, {}),
    ("Streams", with_problem, {}),
    ("Streams", standbys, {}),
    ("Streams", lambda groups: setattr(groups.table(), "initial_delay", Deadline(lambda _: None)), {}),
    ("Streams", lambda groups: setattr(groups.table(), "shutdown_by", "b"), {}),
    ("Streams", lambda groups: groups.table().untold.add("a"), {}),
    ("Streams", lambda groups: None, {"shutdown_application": True}),
    ("Streams", lambda groups: None, {"owns": {}}),
    ("Streams", lambda groups: None, {"endpoint_information_epoch": 7}),
]


@pytest.mark.parametrize("kind, befalls, fields", NEWS)
def test_every_possible_reason_for_work_is_examined(
    kind: str, befalls: Callable[[Any], object], fields: dict[str, Any], unchanged_heartbeats: list[str]
) -> None:
    groups, epoch = at_rest(kind)
    befalls(groups)
    unchanged_heartbeats.clear()
    try:
        groups.beat("a", epoch, **fields)
    except KafkaError:
        assert fields or befalls is going
    assert not unchanged_heartbeats
