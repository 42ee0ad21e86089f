"""Descriptions of topologies: a member is asked for one, sends it, and administrators read it (KIP-1331)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_describe import DescribedGroup
from ottla.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from ottla.server.config.options.group_options import DESCRIPTIONS
from ottla.server.coordination.jobs import to_the_end
from ottla.server.groups.streams.description import NAMES_MAX, check_update
from support.groups.consumer_groups import raised
from support.groups.streams_groups import StreamsGroups, table_of, topology
from support.noted import each_case

NOT_REQUESTED, NOT_STORED, AVAILABLE = 0, 1, 3
Node = TopologyDescriptionNode
SOURCE = Node(name="in", node_type=1, source_topics=("orders",), successors=("count",))
PROCESSOR = Node(name="count", node_type=2, stores=("counts",), successors=("out",))
SINK = Node(name="out", node_type=3, sink_topic="words")


def described_as(*nodes: Node, stores: tuple[TopologyDescriptionGlobalStore, ...] = ()) -> TopologyDescription:
    subtopologies = (TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes),)
    return TopologyDescription(subtopologies=subtopologies, global_stores=stores)


DESCRIPTION = described_as(
    SOURCE, PROCESSOR, SINK, stores=(TopologyDescriptionGlobalStore(source=SOURCE, processor=PROCESSOR),)
)


def groups_with(plugin: str | None = DESCRIPTIONS) -> StreamsGroups:
    return StreamsGroups(orders=2, settings={"group_streams_topology_description_plugin_class": plugin})


def send(
    groups: StreamsGroups, description: TopologyDescription = DESCRIPTION, member: str = "a", **fields: Any
) -> None:
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        **{"group_id": "g", "topology_epoch": 3, "member_id": member, "topology_description": description, **fields}
    )
    shard = groups.coordinator.shard_for("g")
    to_the_end(groups.coordinator.describe_streams_topology(shard, request, lambda: groups.now_ms))


def described(groups: StreamsGroups) -> DescribedGroup:
    return to_the_end(groups.coordinator.describe_streams_group("g", with_description=True))


def is_asked(groups: StreamsGroups, epoch: int = 2, **fields: Any) -> bool:
    return groups.beat("a", epoch, **{"version": 1, **fields}).topology_description_required


def test_a_member_is_asked_until_it_has_sent_a_description() -> None:
    groups = groups_with()
    assert groups.enter("a", topology=topology(epoch=3), version=1).topology_description_required
    assert not is_asked(groups)
    send(groups)
    groups.advance(30_000)
    assert not is_asked(groups)
    found = described(groups)
    assert (found.topology_description_status, found.topology_description) == (AVAILABLE, DESCRIPTION)
    unasked = groups.described()
    assert (unasked.topology_description_status, unasked.topology_description) == (NOT_REQUESTED, None)


def test_the_request_is_repeated_after_half_a_minute_and_then_twice_as_late() -> None:
    groups = groups_with()
    groups.enter("a", topology=topology(epoch=3))
    waits_ms, since_ms = list[int](), 0
    for _ in range(22):
        is_slow_path = len(waits_ms) % 2
        if is_asked(groups, owns={"0": {0, 1}} if is_slow_path else None):
            waits_ms.append(since_ms)
            since_ms = 0
        groups.advance(15_000)
        since_ms += 15_000
    assert waits_ms == [0, 30_000, 60_000, 120_000]


def test_a_member_with_an_old_topology_or_client_is_not_asked() -> None:
    groups = groups_with()
    assert not groups.enter("a", topology=topology(epoch=3), version=0).topology_description_required
    assert not groups.enter("b", topology=topology(epoch=2), version=1).topology_description_required
    groups.beat("b", -1, version=1)
    assert is_asked(groups, groups.table().members["a"].epoch)
    without = groups_with(None)
    assert not without.enter("a", topology=topology(epoch=3), version=1).topology_description_required
    assert not is_asked(without)


def test_a_restart_keeps_what_was_stored_but_not_the_description() -> None:
    groups = groups_with()
    groups.enter("a", topology=topology(epoch=3))
    send(groups)
    groups.enter("b", topology=topology(epoch=3))
    groups.beat("b", -1)
    again = groups.restarted()
    assert again.table().described == (3, -1)
    assert table_of(again) == table_of(groups)
    assert described(again).topology_description_status == NOT_STORED
    assert not is_asked(again, 2)


def test_a_second_description_replaces_the_first_without_a_record() -> None:
    groups = groups_with()
    groups.enter("a", topology=topology(epoch=3))
    send(groups)
    before = groups.store.appends
    send(groups, described_as(SOURCE))
    assert described(groups).topology_description == described_as(SOURCE)
    assert groups.store.appends == before


def test_each_node_has_the_fields_of_its_type_and_each_name_once() -> None:
    groups = groups_with()
    groups.enter("a", topology=topology(epoch=3))
    every: dict[str, Any] = {
        "source_topics": ("t", "t"),
        "sink_topic": "s",
        "stores": ("x", "x"),
        "successors": ("n", "m", "n"),
    }
    send(groups, described_as(*(Node(name="n", node_type=kind, **every) for kind in (1, 2, 3))))
    found = described(groups).topology_description
    assert found == described_as(
        Node(name="n", node_type=1, source_topics=("t",), successors=("n", "m")),
        Node(name="n", node_type=2, stores=("x",), successors=("n", "m")),
        Node(name="n", node_type=3, sink_topic="s", successors=("n", "m")),
    )


TOO_MANY = "Too many names in the description (limit 10000, and 1048576 characters)."
MANY = tuple(map(str, range(NAMES_MAX)))
LONG = "x" * 32_767
STORE = "Global store must be composed of a source and a processor node."


@each_case(
    "fields, code, words",
    [
        ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND, "Group other not found."),
        ({"member": "b"}, ErrorCode.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."),
        (
            {"topology_epoch": 2},
            ErrorCode.INVALID_REQUEST,
            "Topology epoch 2 does not match the group's current topology epoch 3.",
        ),
        (
            {"description": described_as(Node(name="n", node_type=4))},
            ErrorCode.INVALID_REQUEST,
            "Unknown topology node type: 4",
        ),
        *(
            ({"description": too_large}, ErrorCode.INVALID_REQUEST, TOO_MANY)
            for too_large in (
                described_as(Node(name="n", node_type=2, successors=MANY)),
                described_as(*(Node(name="n", node_type=1, source_topics=(LONG,)) for _ in range(33))),
                described_as(stores=(TopologyDescriptionGlobalStore(source=replace(SOURCE, stores=MANY)),)),
                TopologyDescription(
                    subtopologies=(TopologyDescriptionSubtopology(subtopology_id="0"),) * (NAMES_MAX + 1)
                ),
            )
        ),
        *(
            ({"description": described_as(stores=(store,))}, ErrorCode.INVALID_REQUEST, STORE)
            for store in (
                TopologyDescriptionGlobalStore(source=PROCESSOR, processor=PROCESSOR),
                TopologyDescriptionGlobalStore(source=SOURCE, processor=SINK),
            )
        ),
    ],
)
def test_invalid_descriptions_are_refused(fields: dict[str, Any], code: ErrorCode, words: str) -> None:
    groups = groups_with()
    groups.enter("a", topology=topology(epoch=3))
    before = groups.store.appends
    assert raised(partial(send, groups, **fields)) == (code, words)
    assert groups.store.appends == before
    assert described(groups).topology_description_status == NOT_STORED


def test_a_description_that_cannot_be_written_is_not_stored() -> None:
    groups = groups_with()
    groups.enter("a", topology=topology(epoch=3))
    groups.store.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    assert raised(lambda: send(groups))[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert described(groups).topology_description_status == NOT_STORED


@each_case("fields, words", [({"group_id": ""}, "GroupId can't"), ({"member_id": ""}, "MemberId can't")])
def test_names_must_not_be_empty(fields: dict[str, Any], words: str) -> None:
    request = StreamsGroupTopologyDescriptionUpdateRequest(**{"group_id": "g", "member_id": "a", **fields})
    assert raised(lambda: check_update(request)) == (ErrorCode.INVALID_REQUEST, f"{words} be empty.")


def test_a_new_group_of_that_name_has_no_description() -> None:
    groups = groups_with()
    groups.enter("a", topology=topology(epoch=3))
    send(groups)
    groups.beat("a", -1)
    groups.join("g")
    groups.advance(10_000)
    assert groups.enter("a", topology=topology(epoch=3), version=1).topology_description_required
    assert described(groups).topology_description_status == NOT_STORED
