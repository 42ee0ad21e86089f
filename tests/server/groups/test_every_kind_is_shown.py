"""A group of each kind, with a member that has all of topic `t`, in each way in which groups are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import ottla
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.server.client.values import Group
from ottla.server.commands.kafka.groups import KINDS as KINDS_OF_THE_COMMAND
from ottla.server.control.groups import KINDS as KINDS_OF_THE_CONTROL
from ottla.server.groups.descriptions import KINDS
from ottla.server.groups.subscription import write_assignment
from support.broker.admin_calls import AdminCalls
from support.broker.background_jobs import eventually
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS
from support.commands.command_runs import run_command
from support.groups.groups import subscription

ALL = sorted(kind.type_name for kind in KINDS)
OVERRIDES = FEW_PARTITIONS | {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}


def classic(client: RawClient) -> str:
    protocols = (JoinGroupRequestProtocol(name="range", metadata=subscription("t")),)
    joined = client.ask(
        JoinGroupRequest(
            group_id="classic", session_timeout_ms=30_000, rebalance_timeout_ms=30_000, member_id="",
            protocol_type="consumer", protocols=protocols,
        ),
        3,
    )  # fmt: skip
    mine = SyncGroupRequestAssignment(
        member_id=joined.member_id, assignment=write_assignment(subscription("t"), {"t": (0, 1)})
    )
    ready = SyncGroupRequest(
        group_id="classic", generation_id=joined.generation_id, member_id=joined.member_id, assignments=(mine,)
    )
    assert client.ask(ready, 3).error_code == 0
    return str(joined.member_id)


def heard(client: RawClient, broker: ottla.Broker, joining: Any, staying: Callable[[int], Any], has: str) -> str:
    """Send heartbeats until the member has its assignment."""
    answer = client.ask(joining)

    def is_given() -> bool:
        nonlocal answer
        assert answer.error_code == 0, answer
        told = getattr(answer, has)
        is_done = bool(told if has == "active_tasks" else told and told.topic_partitions)
        if not is_done:
            answer = client.ask(staying(answer.member_epoch))
        return is_done

    assert eventually(broker, is_given)
    return "m"


def consumer(client: RawClient, broker: ottla.Broker) -> str:
    def beat(epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(group_id="consumer", member_id="m", member_epoch=epoch, **fields)

    joining = beat(0, rebalance_timeout_ms=9_000, subscribed_topic_names=("t",), topic_partitions=())
    return heard(client, broker, joining, beat, "assignment")


def share(client: RawClient, broker: ottla.Broker) -> str:
    def beat(epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(group_id="share", member_id="m", member_epoch=epoch, **fields)

    return heard(client, broker, beat(0, subscribed_topic_names=("t",)), beat, "assignment")


def streams(client: RawClient, broker: ottla.Broker) -> str:
    def beat(epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(group_id="streams", member_id="m", member_epoch=epoch, **fields)

    topology = Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=("t",)),))
    nothing: Any = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": ()}
    joining = beat(0, rebalance_timeout_ms=9_000, process_id="p", topology=topology, **nothing)
    return heard(client, broker, joining, beat, "active_tasks")


JOINING: dict[str, Callable[[RawClient, ottla.Broker], str]] = {
    "classic": lambda client, _broker: classic(client),
    "consumer": consumer,
    "share": share,
    "streams": streams,
}


class Way(NamedTuple):
    """A way to show groups: all of them, or one, as (id, kind, state), with member ids and perhaps their assignments."""

    all: Callable[[ottla.Broker], list[tuple[str, str, str]]]
    one: Callable[[ottla.Broker, str], tuple[tuple[str, str, str], dict[str, Any]]] | None


def page(broker: ottla.Broker, path: str) -> str:
    status, html = AdminCalls.of(broker).ask("GET", path, Accept="text/html")
    assert status == 200
    return str(html)


def row(group: Any) -> tuple[str, str, str]:
    return group["group_id"], group["kind"], group["state"]


def by_http(broker: ottla.Broker, group_id: str) -> tuple[tuple[str, str, str], dict[str, Any]]:
    found = AdminCalls.of(broker).get(f"/v1/groups/{group_id}")
    return row(found["group"]), {each["member_id"]: each["assigned"] for each in found["members"]}


def by_command(broker: ottla.Broker, group_id: str) -> tuple[tuple[str, str, str], dict[str, Any]]:
    found = json.loads(run_command("groups", "describe", group_id, "--json", "--bootstrap", broker.bootstrap).out)
    members = {
        each["member_id"]: [f"{topic}-{index}" for topic, index in each["partitions"]] for each in found["members"]
    }
    return (found["group"], found["type"], found["state"]), members


def listed_by_command(broker: ottla.Broker) -> list[tuple[str, str, str]]:
    found = json.loads(run_command("groups", "list", "--json", "--bootstrap", broker.bootstrap).out)
    return [(each["group"], each["type"], each["state"]) for each in found]


def embedded(group: Group) -> tuple[str, str, str]:
    return group.group_id, group.type, group.state


WAYS = {
    "HTTP": Way(lambda broker: [row(each) for each in AdminCalls.of(broker).get("/v1/groups")["groups"]], by_http),
    "command": Way(listed_by_command, by_command),
    "embedded": Way(lambda broker: [embedded(each) for each in broker.groups()], None),
}


@pytest.fixture(scope="module")
def shown() -> Iterator[tuple[ottla.Broker, dict[str, str]]]:
    """Yield a broker with a group of each kind, whose id is its kind; and the id of each one's member."""
    with ottla.Broker(admin="0", overrides=OVERRIDES) as broker, RawClient(*address(broker)) as client:
        broker.create_topic("t", partitions=2)
        for kind in ALL:
            asking = FindCoordinatorRequest(key=kind, key_type=0)
            assert eventually(broker, lambda asking=asking: not client.ask(asking, 3).error_code)  # type: ignore[misc]
        yield broker, {kind: JOINING[kind](client, broker) for kind in ALL}


def test_every_table_contains_every_type() -> None:
    assert sorted(JOINING) == sorted(KINDS_OF_THE_CONTROL) == sorted(KINDS_OF_THE_COMMAND.keys() - {""}) == ALL


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ALL)
def test_every_command_shows_a_groups_type(kind: str, way: str, shown: tuple[ottla.Broker, dict[str, str]]) -> None:
    broker, members = shown
    assert (kind, kind, "Stable") in WAYS[way].all(broker)
    if (one := WAYS[way].one) is not None:
        told, found = one(broker, kind)
        assert told == (kind, kind, "Stable")
        decide_themselves = kind == "classic" and way == "HTTP"
        assert found == {members[kind]: None if decide_themselves else ["t-0", "t-1"]}


@pytest.mark.parametrize("kind", ALL)
def test_the_page_shows_a_groups_type(kind: str, shown: tuple[ottla.Broker, dict[str, str]]) -> None:
    broker, members = shown
    for path in "/groups", f"/groups/{kind}":
        html = page(broker, path)
        assert "Stable" in html and kind in html and "Dead" not in html
    assert members[kind] in html


@pytest.mark.parametrize("kind", ALL)
def test_descriptions_of_types_name_each(kind: str, shown: tuple[ottla.Broker, dict[str, str]]) -> None:
    document = AdminCalls.of(shown[0]).get("/v1/openapi.json")
    assert f"`{kind}`" in document["components"]["schemas"]["GroupState"]["properties"]["kind"]["description"]
    assert f'"{kind}"' in (Group.__doc__ or "")
