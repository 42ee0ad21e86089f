"""The APIs of streams groups as clients see them: internal topics that are created, errors in Kafka's places, restarts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Topology,
)
from ottla.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from ottla.server.config.options.group_options import DESCRIPTIONS
from ottla.server.groups.streams.configured import StatusCode
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS
from support.groups.streams_groups import COUNTS, active, info, statuses, subtopology, topology

E = ErrorCode


def beat(client: RawClient, member: str, epoch: int, *, group: str = "g", **fields: Any) -> Any:
    return client.ask(StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields))


def join(client: RawClient, member: str, application: Topology = COUNTS, **fields: Any) -> Any:
    common: dict[str, Any] = {
        "active_tasks": (),
        "standby_tasks": (),
        "warmup_tasks": (),
        "client_tags": (),
        "process_id": member,
    }
    return beat(client, member, 0, topology=application, rebalance_timeout_ms=10_000, **common, **fields)


def described(client: RawClient, *groups: str) -> Any:
    return client.ask(StreamsGroupDescribeRequest(group_ids=groups, include_authorized_operations=True)).groups


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RawClient]]:
    """Start a broker and return a client at its last node."""
    with ExitStack() as stack:

        def start(**options: Any) -> RawClient:
            overrides = FEW_PARTITIONS | options.pop("overrides", {})
            broker = stack.enter_context(
                ottla.Broker(str(tmp_path / "data"), rng=random.Random(1), overrides=overrides, **options)
            )
            return stack.enter_context(RawClient(*address(broker, options.get("nodes", 1) - 1)))

        yield start


def test_an_application_receives_its_internal_topics_and_tasks(start: Callable[..., RawClient]) -> None:
    client = start(overrides={"group.streams.assignment.interval.ms": "0"})
    create_topic(client, "orders", partitions=2)
    joined = join(client, "a")
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (E.NONE, 2, 500)
    assert statuses(joined) == {StatusCode.MISSING_INTERNAL_TOPICS: "Internal topics are missing: counts, words"}
    there = {one.name: len(one.partitions) for one in client.ask(MetadataRequest(topics=None)).topics}
    assert {name: there[name] for name in ("counts", "words")} == {"counts": 2, "words": 2}
    configs = client.ask(
        DescribeConfigsRequest(
            resources=(
                DescribeConfigsResource(
                    resource_type=2, resource_name="counts", configuration_keys=("cleanup.policy",)
                ),
            )
        )
    )
    assert configs.results[0].configs[0].value == "compact"

    told = beat(client, "a", 2)
    assert (active(told), told.member_epoch) == ({"0": {0, 1}, "1": {0, 1}}, 3)
    assert [(one.error_code, one.error_message) for one in described(client, "g", "other", "", "g")] == [
        (E.NONE, None),
        (E.GROUP_ID_NOT_FOUND, "Group other not found."),
        (E.INVALID_GROUP_ID, "the group ID is empty"),
    ]
    group = described(client, "g")[0]
    assert (group.group_state, group.group_epoch, group.topology.epoch) == ("Stable", 3, 0)
    assert group.authorized_operations > 0
    assert group.members[0].client_host == "/127.0.0.1"
    assert client.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results[0].error_code == E.NON_EMPTY_GROUP
    assert beat(client, "a", -1).member_epoch == -1
    listed = client.ask(ListGroupsRequest(types_filter=("streams",)), 5).groups
    assert [(one.group_state, one.protocol_type) for one in listed] == [("Empty", "streams")]
    assert client.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results[0].error_code == E.NONE


def test_no_description_of_a_topology_is_stored(start: Callable[..., RawClient]) -> None:
    """Apache Kafka 4.4.0 answers the same without a plug-in that stores descriptions (KIP-1331)."""
    client = start()
    create_topic(client, "orders", partitions=2)
    first, later = join(client, "a", topology()), beat(client, "a", 2)
    for answer in (first, later):
        assert (answer.acceptable_recovery_lag, answer.task_offset_interval_ms) == (10_000, 60_000)
        assert not answer.topology_description_required
    old = client.ask(StreamsGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2), 0)
    assert (old.acceptable_recovery_lag_legacy, old.task_offset_interval_ms) == (0, 60_000)
    for version, is_wanted, expected in ((0, False, (0, None)), (1, False, (0, "sticky")), (1, True, (1, "sticky"))):
        request = StreamsGroupDescribeRequest(group_ids=("g", "other"), include_topology_description=is_wanted)
        group, other = client.ask(request, version).groups
        assert (group.topology_description_status, group.assignor_name) == expected
        assert (other.topology_description_status, other.assignor_name) == (0, None)
        assert group.topology_description is other.topology_description is None
    for name in ("g", "other", ""):
        update = StreamsGroupTopologyDescriptionUpdateRequest(group_id=name, member_id="a", topology_epoch=0)
        answer = client.ask(update)
        assert (answer.error_code, answer.error_message) == (
            E.UNSUPPORTED_VERSION,
            "The broker has no streams group topology description plugin configured.",
        )


def test_a_description_of_a_topology_is_stored_if_the_broker_has_the_plug_in(
    start: Callable[..., RawClient],
) -> None:
    client = start(overrides={"group.streams.topology.description.plugin.class": DESCRIPTIONS})
    create_topic(client, "orders", partitions=2)
    assert join(client, "a", topology()).topology_description_required
    node = TopologyDescriptionNode(name="in", node_type=1, source_topics=("orders",))
    description = TopologyDescription(
        subtopologies=(TopologyDescriptionSubtopology(subtopology_id="0", nodes=(node,)),)
    )
    for name, member, code, message in (
        ("g", "", E.INVALID_REQUEST, "MemberId can't be empty."),
        ("other", "a", E.GROUP_ID_NOT_FOUND, "Group other not found."),
        ("g", "a", E.NONE, None),
    ):
        update = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=name, member_id=member, topology_epoch=0, topology_description=description
        )
        answer = client.ask(update)
        assert (answer.error_code, answer.error_message) == (code, message)
    request = StreamsGroupDescribeRequest(group_ids=("g",), include_topology_description=True)
    (group,) = client.ask(request).groups
    assert (group.topology_description_status, group.topology_description) == (3, description)
    assert not beat(client, "a", 2).topology_description_required


def test_the_reason_for_an_uncreated_topic_is_reported(start: Callable[..., RawClient]) -> None:
    client = start()
    create_topic(client, "orders", partitions=2)
    application = topology(
        subtopology("0", "orders", changelogs=[info("kept", configs={"cleanup.policy": "nonsense"})])
    )
    (detail,) = statuses(join(client, "a", application)).values()
    assert detail.startswith("Internal topics are missing: kept; Creation failed: kept (Invalid value nonsense for")
    many = topology(subtopology("0", "orders", sinks=["r"]), subtopology("1", repartition=[info("r", 10_001)]))
    (detail,) = statuses(join(client, "a", many, group="many")).values()
    assert detail.endswith("Creation failed: too many partitions (10001, limit 10000).")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "__consumer_offsets",
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
def test_unusable_topics_are_refused_by_name(start: Callable[..., RawClient], name: str, words: str) -> None:
    client = start()
    for application in (
        topology(subtopology("0", name)),
        topology(subtopology("0", "orders", sinks=[name])),
        topology(subtopology("0", "orders", repartition=[info(name)])),
        topology(subtopology("0", "orders", changelogs=[info(name)])),
    ):
        answer = join(client, "a", application)
        assert (answer.error_code, answer.error_message) == (E.STREAMS_INVALID_TOPOLOGY, words)


@pytest.mark.parametrize(
    "options",
    [
        {"features": {"streams.version": 0}},
        {"overrides": {"group.coordinator.rebalance.protocols": "classic,consumer"}},
    ],
)
def test_without_the_protocol_both_apis_are_unsupported(start: Callable[..., RawClient], options: Any) -> None:
    client = start(**options)
    answer = join(client, "a")
    assert (answer.error_code, answer.error_message) == (E.UNSUPPORTED_VERSION, None)
    assert [(one.group_id, one.error_code) for one in described(client, "g")] == [("g", E.UNSUPPORTED_VERSION)]


def test_an_endpoint_is_returned_to_other_members(start: Callable[..., RawClient]) -> None:
    client = start()
    create_topic(client, "orders", partitions=2)
    one = topology(subtopology("0", "orders"))
    join(client, "a", one, user_endpoint=Endpoint(host="h", port=8080))
    told = join(client, "b", one)
    (row,) = told.partitions_by_user_endpoint or (None,)
    assert row is None or (row.user_endpoint.host, row.user_endpoint.port) == ("h", 8080)
    (row,) = beat(client, "b", told.member_epoch, endpoint_information_epoch=-1).partitions_by_user_endpoint
    assert [(part.topic, part.partitions) for part in row.active_partitions] == [("orders", (0, 1))]


def test_only_the_partitions_leader_knows_the_group(start: Callable[..., RawClient]) -> None:
    client = start(nodes=3, overrides={"offsets.topic.num.partitions": "3"})
    create_topic(client, "orders", partitions=3)
    names = tuple(f"g{number}" for number in range(20))
    one = topology(subtopology("0", "orders"))
    assert {join(client, "a", one, group=name).error_code for name in names} == {E.NONE, E.NOT_COORDINATOR}
    assert {row.error_code for row in described(client, *names)} == {E.NONE, E.NOT_COORDINATOR}


def test_a_group_is_restored_after_a_restart(tmp_path: Path) -> None:
    one = topology(subtopology("0", "orders"))
    for epoch in (0, 2):
        with ottla.Broker(str(tmp_path / "data")) as broker, RawClient(*address(broker)) as client:
            if epoch == 0:
                create_topic(client, "orders", partitions=2)
                assert active(join(client, "a", one)) == {"0": {0, 1}}
            else:
                told = beat(client, "a", epoch)
                assert (told.active_tasks, told.member_epoch) == (None, 2)
