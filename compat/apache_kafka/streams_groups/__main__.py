"""Streams groups of Ottla and of Apache Kafka 4.3.1, asked the same: random lives of groups (KIP-1071).

Both brokers get each request and their answers are compared: StreamsGroupHeartbeat of members that join, stay, give up tasks, leave,
name wrong epochs, say they have what is not theirs, bring other topologies, ask for the end of the application; internal topics
that come into being; StreamsGroupDescribe, ListGroups, OffsetCommit. Which of two members with equally many tasks gets one is
chance in Apache Kafka (the order of a hash map), so each side is told that a member has what that side gave it, tasks are
counted, and no group has more than two members.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from ottla.server.client.connection import Client

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite

LIVES, LIVES_QUICK = 60, 6
STEPS = 50
# How long new topics take, on a busy machine, until Apache Kafka's coordinator knows of them.
TOPICS_CHANGE_S = 1.5
OVERRIDES = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "2",
    "offsets.topic.num.partitions": "2",
}
TOPICS = {"alpha": 4, "beta": 4, "gamma": 4, "delta": 3}
MISSING_INTERNAL_TOPICS = 3
Answer = tuple[Any, ...]


class Step(NamedTuple):
    kind: str
    group: str
    member: str = ""
    epoch: int | None = None
    """None: the one that the side has told the member, and `off` behind it."""
    off: int = 0
    says: str = "all"
    """What it says it has: all that it was given, nothing, some task that there is not, or not a word."""
    fields: Mapping[str, Any] = MappingProxyType({})


class Side:
    """One broker, and what it has told its members."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._client = Client(host, int(port))
        self.epochs: dict[str, int] = {}
        self.given: dict[str, dict[str, tuple[int, ...]]] = {}

    def prepare(self) -> None:
        while self._client.ask(FindCoordinatorRequest(key="g", key_type=0), 3).error_code:
            time.sleep(0.05)
        made = tuple(CreatableTopic(name=name, num_partitions=n, replication_factor=1) for name, n in TOPICS.items())
        self._client.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000))
        while self.ask(Step("look", "g"))[0] == "COORDINATOR_LOAD_IN_PROGRESS":
            time.sleep(0.05)
        time.sleep(3 * TOPICS_CHANGE_S)

    def ask(self, step: Step) -> Answer:
        return {"beat": self._beat, "look": self._look, "commit": self._commit}[step.kind](step)

    def _epoch(self, step: Step) -> int:
        return self.epochs.get(step.member, 0) + step.off if step.epoch is None else step.epoch

    def _beat(self, step: Step) -> Answer:
        has = self.given.get(step.member, {})
        rows = {
            "all": tuple(TaskIds(subtopology_id=key, partitions=one) for key, one in has.items()),
            "nothing": (),
            "nonsense": (TaskIds(subtopology_id="0", partitions=(77,)),),
            "not a word": None,
        }[step.says]
        others = None if rows is None else ()
        epoch = self._epoch(step)
        request = StreamsGroupHeartbeatRequest(
            group_id=step.group,
            member_id=step.member,
            member_epoch=epoch,
            **{"active_tasks": rows, "standby_tasks": others, "warmup_tasks": others, **step.fields},
        )
        answer = self._client.ask(request)
        if not answer.error_code:
            self.epochs[step.member] = max(0, answer.member_epoch)
            if answer.active_tasks is not None:
                self.given[step.member] = {one.subtopology_id: one.partitions for one in answer.active_tasks}
        if epoch < 0 or answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epochs.pop(step.member, None)
            self.given.pop(step.member, None)
        return (
            ErrorCode(answer.error_code).name,
            answer.error_message,
            answer.member_id,
            answer.member_epoch,
            answer.heartbeat_interval_ms,
            (answer.acceptable_recovery_lag, answer.task_offset_interval_ms),
            None
            if answer.status is None
            else [(one.status_code, _in_order(one.status_detail)) for one in answer.status],
            _counts(answer.active_tasks),
            _counts(answer.standby_tasks),
            _counts(answer.warmup_tasks),
            answer.endpoint_information_epoch,
            None
            if answer.partitions_by_user_endpoint is None
            else sorted(
                (
                    one.user_endpoint.host,
                    sorted((part.topic, len(part.partitions)) for part in one.active_partitions),
                    len(one.standby_partitions),
                )
                for one in answer.partitions_by_user_endpoint
            ),
        )

    def _look(self, step: Step) -> Answer:
        (found,) = self._client.ask(StreamsGroupDescribeRequest(group_ids=(step.group,))).groups
        topology = found.topology
        shown = None
        if topology is not None:
            shown = (
                topology.epoch,
                [
                    (
                        one.subtopology_id,
                        one.source_topics,
                        one.repartition_sink_topics,
                        [(topic.name, topic.partitions, topic.topic_configs) for topic in one.state_changelog_topics],
                        [(topic.name, topic.partitions) for topic in one.repartition_source_topics],
                    )
                    for one in topology.subtopologies or ()
                ],
            )
        members = sorted(
            (
                one.member_id,
                one.member_epoch,
                one.client_host,
                one.topology_epoch,
                one.process_id,
                one.user_endpoint and (one.user_endpoint.host, one.user_endpoint.port),
                sorted((tag.key, tag.value) for tag in one.client_tags),
                _counts(one.assignment.active_tasks),
                _counts(one.target_assignment.active_tasks),
            )
            for one in found.members
        )
        listed = self._client.ask(ListGroupsRequest(), 5).groups
        return (
            ErrorCode(found.error_code).name,
            found.error_message,
            found.group_state,
            found.group_epoch,
            found.assignment_epoch,
            shown,
            members,
            [(one.protocol_type, one.group_state, one.group_type) for one in listed if one.group_id == step.group],
        )

    def _commit(self, step: Step) -> Answer:
        has = self.given.get(step.member, {}).get("0", ())
        partition = OffsetCommitRequestPartition(
            partition_index=has[0] if has else 0, committed_offset=7, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=step.group,
            generation_id_or_member_epoch=self._epoch(step),
            member_id=step.member,
            topics=(OffsetCommitRequestTopic(name="alpha", partitions=(partition,)),),
        )
        return (ErrorCode(self._client.ask(request, 9).topics[0].partitions[0].error_code).name,)


def _in_order(detail: str) -> str:
    """Apache Kafka names topics in the order of a hash map."""
    words, colon, names = detail.partition("missing: ")
    return words + colon + ", ".join(sorted(names.split(", ")))


def _counts(rows: tuple[TaskIds, ...] | None) -> dict[str, int] | None:
    return None if rows is None else {one.subtopology_id: len(one.partitions) for one in rows}


def topologies(group: str) -> list[Topology]:
    """Of one group: most of its members bring the first."""
    config = (KeyValue(key="cleanup.policy", value="compact"),)
    kept = TopicInfo(name=f"{group}-kept", topic_configs=config)
    between = TopicInfo(name=f"{group}-between")
    plain = Subtopology(subtopology_id="0", source_topics=("alpha",))
    return [
        Topology(subtopologies=(plain,)),
        Topology(
            subtopologies=(
                Subtopology(subtopology_id="0", source_topics=("alpha",), repartition_sink_topics=(between.name,)),
                Subtopology(
                    subtopology_id="1",
                    repartition_source_topics=(between,),
                    source_topics=("beta",),
                    state_changelog_topics=(kept,),
                    copartition_groups=(CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,)),),
                ),
            )
        ),
        Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=("alpha", "omega")),)),
        Topology(
            subtopologies=(
                Subtopology(
                    subtopology_id="0",
                    source_topics=("alpha", "delta"),
                    copartition_groups=(CopartitionGroup(source_topics=(0, 1)),),
                ),
            )
        ),
        Topology(epoch=3, subtopologies=(plain, Subtopology(subtopology_id="2", source_topics=("gamma",)))),
        Topology(
            subtopologies=(
                Subtopology(subtopology_id="0", source_topics=("alpha",), repartition_source_topics=(between,)),
            )
        ),
        Topology(
            subtopologies=(
                Subtopology(
                    subtopology_id="0",
                    repartition_source_topics=(between,),
                    repartition_sink_topics=(between.name,),
                ),
            )
        ),
    ]


def _retold(step: Step, ours: Answer, theirs: Answer) -> Answer:
    """Our answer as it would be if we did not tell a member its tasks again that says it has others, as we mean to do
    (docs/differences.md): Apache Kafka does not, and a member whose answer got lost works at less for ever."""
    is_meant = step.kind == "beat" and step.says in ("nothing", "nonsense") and len(theirs) > 7 and theirs[7] is None
    return (*ours[:7], *theirs[7:10], *ours[10:]) if is_meant else ours


class World:
    """Chooses requests that make sense, mostly."""

    def __init__(self, rng: random.Random, group: str) -> None:
        self.rng, self.group = rng, group
        self.members: list[str] = []
        self.names = 0
        self.topologies = topologies(group)
        self.usual = rng.choice((0, 0, 1, 1, 2, 3, 4))

    def next_step(self) -> Step:
        rng = self.rng
        kinds = ["join", "beat", "leave", "look", "commit", "bad"]
        kind = rng.choices(kinds, (12 if self.members else 200, 60, 5, 12, 6, 5))[0]
        member = rng.choice(self.members) if self.members and rng.random() < 0.97 else "stranger"
        match kind:
            case "join":
                return self._join()
            case "leave":
                if member in self.members:
                    self.members.remove(member)
                fields = {"shutdown_application": rng.random() < 0.1}
                return Step("beat", self.group, member, -1, says="not a word", fields=fields)
            case "look":
                return Step("look", self.group)
            case "commit":
                return Step("commit", self.group, member, off=rng.choice((0, 0, 0, -1, 1)))
            case "bad":
                return self._bad(member)
        says = rng.choices(("all", "not a word", "nothing", "nonsense"), (50, 30, 15, 1))[0]
        off = rng.choices((0, -1, 1), (40, 2, 1))[0]
        fields = {"shutdown_application": True} if rng.random() < 0.02 else {}
        return Step("beat", self.group, member, None, off, says, fields)

    def _join(self) -> Step:
        rng = self.rng
        if len(self.members) > 1 or (self.members and rng.random() < 0.25):
            member = rng.choice(self.members)
        else:
            self.names += 1
            member = f"{self.group}-m{self.names}"
            self.members.append(member)
        usual = rng.random() < 0.9
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": self.topologies[self.usual if usual else rng.randrange(len(self.topologies))],
            "process_id": f"p{rng.randrange(3)}",
            "client_tags": (KeyValue(key="zone", value="z"),) if rng.random() < 0.3 else (),
        }
        # Where topics are missing, Apache Kafka fails on members with endpoints.
        if self.usual in (0, 1) and usual and rng.random() < 0.2 and self.usual == 0:
            fields["user_endpoint"] = Endpoint(host=member, port=1)
        return Step("beat", self.group, member, 0, says="nothing", fields=fields)

    def _bad(self, member: str) -> Step:
        choices: tuple[dict[str, Any], ...] = (
            {"instance_id": "i"},
            {"rack_id": ""},
            {"task_offsets": ()},
            {"topology": self.topologies[0]},
            {"member_id": ""},
            {"active_tasks": (), "standby_tasks": None},
            {"member_epoch": -2},
            {"member_epoch": -3},
        )
        fields = dict(self.rng.choice(choices))
        epoch = fields.pop("member_epoch", None)
        if "member_id" in fields:
            return Step("beat", self.group, "", 1, says="not a word")
        return Step("beat", self.group, member, epoch, says="not a word", fields=fields)


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    with ExitStack() as stack:
        ottla = stack.enter_context(OttlaProcess(overrides=OVERRIDES))
        kafka = stack.enter_context(ApacheKafkaProcess(overrides=OVERRIDES))
        sides = Side(ottla.bootstrap), Side(kafka.bootstrap)
        for side in sides:
            side.prepare()
        count = LIVES_QUICK if options.quick else LIVES
        alike = sum(life(suite, number, *sides) for number in range(count))
        suite.check(f"{count} lives of {STEPS} requests", alike == count, f"{count - alike} differ")


def life(suite: Suite, number: int, ottla: Side, kafka: Side) -> bool:
    """One group from its first member on; ends at the first difference."""
    world = World(random.Random(number), f"g{number}")
    done: list[Step] = []
    for _ in range(STEPS):
        step = world.next_step()
        done.append(step)
        ours, theirs = ottla.ask(step), kafka.ask(step)
        if _retold(step, ours, theirs) != theirs:
            for one in done[-12:]:
                suite.note(str(one)[:400])
            return suite.check(
                f"life {number}, request {len(done)}: {str(step)[:200]}", False, f"{theirs} became {ours}"
            )
        statuses = ours[6] if step.kind == "beat" else None
        if any(code == MISSING_INTERNAL_TOPICS for code, _ in statuses or ()):
            time.sleep(TOPICS_CHANGE_S)
    return True


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.streams_groups", body, doc=__doc__))
