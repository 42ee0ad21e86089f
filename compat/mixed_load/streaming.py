"""Members of streams groups (KIP-1071) over bare connections: they take the tasks that they are given, leave, or vanish."""

import time
import uuid
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from ottla.server.client.connection import Client

from ..support.clients.share_member import LEAVES, PAUSE_S, checked, client_of
from ..support.clients.steps import admin
from .load import Load, Scene
from .sharing import PATIENCE_S, delete
from .topics import KEPT, PARTITIONS

GROUP = "application"
MEAN_TURNS = 60
REBALANCE_MS = 5_000


def topology(group: str) -> Topology:
    """Return a topology that stores the contents of KEPT in a store of each task."""
    store = TopicInfo(name=changelog(group), topic_configs=(KeyValue(key="cleanup.policy", value="compact"),))
    return Topology(
        subtopologies=(Subtopology(subtopology_id="0", source_topics=(KEPT,), state_changelog_topics=(store,)),)
    )


def changelog(group: str) -> str:
    return f"{group}-store-changelog"


class StreamsMember:
    """A member that takes its assigned tasks at once, and gives up the others at once."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.client = client_of(bootstrap, PATIENCE_S)
        self.group, self.name, self.epoch = group, str(uuid.uuid4()), 0
        self.tasks: tuple[TaskIds, ...] = ()

    def beat(self) -> Any:
        """Join, or be alive. Raises KafkaError."""
        joining: dict[str, Any] = {
            "topology": topology(self.group),
            "rebalance_timeout_ms": REBALANCE_MS,
            "process_id": self.name,
            "client_tags": (),
        }
        answer = checked(
            self.client.ask(
                StreamsGroupHeartbeatRequest(
                    group_id=self.group,
                    member_id=self.name,
                    member_epoch=self.epoch,
                    active_tasks=self.tasks,
                    standby_tasks=(),
                    warmup_tasks=(),
                    **({} if self.epoch else joining),
                )
            )
        )
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks = answer.active_tasks
        return answer

    def join(self, partitions: int, timeout_s: float) -> None:
        """Send heartbeats until the member has at least `partitions` tasks. Raises TimeoutError."""
        deadline_s = time.monotonic() + timeout_s
        while sum(len(each.partitions) for each in self.tasks) < partitions:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{self.group} has only {self.tasks} within {timeout_s:.0f} s")
            self.beat()
            time.sleep(PAUSE_S)

    def leave(self) -> None:
        try:
            checked(
                self.client.ask(
                    StreamsGroupHeartbeatRequest(group_id=self.group, member_id=self.name, member_epoch=LEAVES)
                )
            )
        finally:
            self.close()

    def close(self) -> None:
        """Close without leaving the group."""
        self.client.close()


class Streamer(Load):
    """One place of an application."""

    every_s = 1.0

    def __init__(self, scene: Scene, number: int) -> None:
        super().__init__(scene, f"Streamer {number}")
        self.left = 0
        self.member: StreamsMember | None = None

    def turn(self) -> None:
        if self.member is None:
            self.member = StreamsMember(self.scene.bootstrap, GROUP)
            self.left = 5 + int(self.chance.expovariate(1 / MEAN_TURNS))
        self.left -= 1
        if self.left >= 0:
            self.member.beat()
        elif self.chance.random() < 0.3:
            self.again()
        else:
            self.close()

    def again(self) -> None:
        """Close without leaving the group."""
        member, self.member = self.member, None
        if member is not None:
            member.close()

    def close(self) -> None:
        member, self.member = self.member, None
        if member is not None:
            member.leave()


class PassingApplications(Load):
    """An application a turn: joins, has all tasks, is described, leaves; its group and its changelog are deleted."""

    every_s = 5.0
    name_of = "passing-application-"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client: Client | None = None

    def turn(self) -> None:
        if self.client is None:
            self.client = client_of(self.scene.bootstrap, PATIENCE_S)
        group = f"{self.name_of}{self.begun}"
        member = StreamsMember(self.scene.bootstrap, group)
        try:
            member.join(PARTITIONS, PATIENCE_S)
            (told,) = self.client.ask(StreamsGroupDescribeRequest(group_ids=(group,))).groups
            if checked(told).group_state != "Stable":
                raise RuntimeError(f"{group} is {told.group_state}")
            member.leave()
        finally:
            member.close()
        delete(self.client, group)
        self.delete_topics([changelog(group)])

    def delete_topics(self, names: list[str]) -> None:
        client = admin(self.scene.bootstrap)
        for done in client.delete_topics(names).values() if names else ():
            done.result(PATIENCE_S)

    def again(self) -> None:
        """Clean up after a failed turn."""
        self.close()
        self.client = client_of(self.scene.bootstrap, PATIENCE_S)
        answer = checked(self.client.ask(ListGroupsRequest(types_filter=("streams",))))
        for each in answer.groups:
            if each.group_id.startswith(self.name_of):
                delete(self.client, each.group_id, or_else=(ErrorCode.NON_EMPTY_GROUP,))
        found = admin(self.scene.bootstrap).list_topics(timeout=PATIENCE_S).topics
        self.delete_topics([name for name in found if name.startswith(self.name_of)])

    def close(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None
