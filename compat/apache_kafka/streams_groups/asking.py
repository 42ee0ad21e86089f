"""One broker that gets the steps, and the answers that its members received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds
from ottla.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ottla.server.client.connection import Client

from .answers import ROLES, Answer, HeartbeatResult, Roles, code_name, described, heard
from .descriptions import DESCRIPTIONS
from .offsets import Offsets
from .other_protocols import OtherProtocols
from .steps import (
    Beat,
    Classic,
    Commit,
    Configure,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Look,
    OtherBeat,
    Read,
    Step,
    Topic,
)
from .surroundings import Surroundings
from .topologies import TOPOLOGIES

TIMEOUT_S = 60.0

NO_TASKS: Roles = {role: {} for role in ROLES}


def _less(has: Roles) -> Roles:
    """Return all but one active task of each subtopology."""
    return has | {"active": {key: some[1:] for key, some in has["active"].items() if some[1:]}}


CLAIMS: dict[str, Callable[[Roles, Roles], Roles | None]] = {
    "all": lambda has, _: has,
    "nothing": lambda _has, _had: NO_TASKS,
    "what it had": lambda _, had: had,
    "less": lambda has, _: _less(has),
    "a task that there is not": lambda _has, _had: NO_TASKS | {"active": {"0": (77,)}},
    "a subtopology that there is not": lambda _has, _had: NO_TASKS | {"standby": {"nine": (0,)}},
    "not a word": lambda _has, _had: None,
}
"""The tasks that a member claims to have, from its last assignment and the one before it."""


class Side:
    """One broker.

    Attributes:
        epochs: Member -> the epoch in its last answer.
        given: Member -> the tasks in its last assignment, by role.
        had: Member -> the previous, different assignment.
    """

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._client = Client(host, int(port), timeout_s=TIMEOUT_S)
        self.surroundings = Surroundings(self._client)
        self.epochs: dict[str, int] = {}
        self.given: dict[str, Roles] = {}
        self.had: dict[str, Roles] = {}
        self._endpoint_epochs: dict[str, int] = {}
        offsets = Offsets(self._client, self._epoch, lambda member: self.given.get(member, NO_TASKS)["active"])
        others = OtherProtocols(self._client)
        self._how: dict[type[Any], Callable[[Any], Answer]] = {
            Beat: self._beat,
            Look: self._look,
            Describe: self._describe,
            Commit: offsets.commit,
            Read: offsets.read,
            DeleteOffsets: offsets.delete,
            Configure: self.surroundings.configure,
            Topic: self.surroundings.topic,
            DeleteGroup: self._delete,
            OtherBeat: others.beat,
            Classic: others.classic,
        }

    def ask(self, step: Step) -> Answer:
        return self._how[type(step)](step)

    def close(self) -> None:
        self._client.close()

    def _epoch(self, member: str, epoch: int | None, off: int) -> int:
        return self.epochs.get(member, 0) + off if epoch is None else epoch

    def _beat(self, step: Beat) -> HeartbeatResult:
        claim = CLAIMS[step.says](self.given.get(step.member, NO_TASKS), self.had.get(step.member, NO_TASKS))
        request = StreamsGroupHeartbeatRequest(
            group_id=step.group,
            member_id=step.member,
            member_epoch=self._epoch(step.member, step.epoch, step.off),
            endpoint_information_epoch=self._endpoint_epochs.get(step.member, 0) if step.knows_endpoints else -1,
            **{
                "topology": None if step.brings is None else TOPOLOGIES[step.brings](step.group),
                **{f"{role}_tasks": _rows(claim, role) for role in ROLES},
                **step.fields,
            },
        )
        answer = heard(self._client.ask(request, step.version))
        self._learn(step.member, request.member_epoch, answer)
        return answer

    def _learn(self, member: str, epoch: int, answer: HeartbeatResult) -> None:
        if answer.is_well and epoch >= 0:
            self.epochs[member] = answer.epoch
            self._endpoint_epochs[member] = answer.endpoint_epoch
            now, before = answer.roles, self.given.get(member, NO_TASKS)
            if now is not None and now != before:
                self.had[member], self.given[member] = before, now
        elif answer.has_no_member or (answer.is_well and epoch < 0):
            for table in (self.epochs, self.given, self.had, self._endpoint_epochs):
                table.pop(member, None)

    def _look(self, step: Look) -> Answer:
        named = (step.group,)
        (found,) = self._client.ask(
            StreamsGroupDescribeRequest(
                group_ids=named, include_authorized_operations=True, include_topology_description=True
            )
        ).groups
        (classic,) = self._client.ask(DescribeGroupsRequest(groups=named), 6).groups
        (consumer,) = self._client.ask(ConsumerGroupDescribeRequest(group_ids=named), 1).groups
        (share,) = self._client.ask(ShareGroupDescribeRequest(group_ids=named)).groups
        listed = self._client.ask(ListGroupsRequest(), 5).groups
        return (
            described(found),
            (code_name(classic.error_code), classic.error_message, classic.group_state, classic.protocol_type),
            len(classic.members),
            (code_name(consumer.error_code), consumer.error_message, consumer.group_state),
            (code_name(share.error_code), share.error_message, share.group_state),
            [(one.protocol_type, one.group_state, one.group_type) for one in listed if one.group_id == step.group],
        )

    def _describe(self, step: Describe) -> Answer:
        request = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=step.group,
            member_id=step.member,
            topology_epoch=step.topology_epoch,
            topology_description=DESCRIPTIONS[step.says],
        )
        answer = self._client.ask(request)
        return code_name(answer.error_code), answer.error_message

    def _delete(self, step: DeleteGroup) -> Answer:
        (answer,) = self._client.ask(DeleteGroupsRequest(groups_names=(step.group,)), 2).results
        return (code_name(answer.error_code),)


def _rows(claim: Roles | None, role: str) -> tuple[TaskIds, ...] | None:
    if claim is None:
        return None
    return tuple(TaskIds(subtopology_id=key, partitions=some) for key, some in claim[role].items())
