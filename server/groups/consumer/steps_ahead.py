"""The step of a member that has thousands of topics, or is to have them, made in pieces before the heartbeat that takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import NamedTuple

from ....protocol.messages.consumer_group_heartbeat import (
    Assignment,
    TopicPartitions,
)
from ...coordination.jobs import AT_ONCE, Steps, in_order, to_the_end
from ..assigning.assignment import Assignment as Assigned
from ..records import ReadyChange
from . import records
from .group import ConsumerGroup
from .member import ConsumerMember, Owned
from .reconciliation import Claim, Target, stepping

PARTITIONS_AT_ONCE = 2_000
"""A millisecond."""


class PreparedHeartbeat(NamedTuple):
    """What a heartbeat may find made. With a group that has become another one meanwhile it is of no use."""

    claim: Claim = None
    """What the member says it owns."""
    member_id: str = ""
    """Of a member that has none."""
    made: tuple[ReadyChange, ...] = ()
    """Records of what the member says of itself, and of what it has when it comes back."""
    away: tuple[ConsumerMember, ReadyChange] | None = None
    """The record of what a static member has that leaves for a while; and the member, as it was."""
    step: StepAhead | None = None

    def told_of(self, member: ConsumerMember) -> Assignment:
        """What the member has, for the answer; made at once unless that is the step's outcome."""
        if self.step is not None and self.step.told is not None and self.step.after is member:
            return self.step.told
        return to_the_end(telling(member.assigned))


class StepAhead(NamedTuple):
    """
    Attributes:
        before: The member with its news, before its step.
        target: What it steps towards.
        version: Of the group, when the step began to be made.
        after: The member after its step; `before` itself where it waits for others.
        made: The record of that; None where nothing is to be written.
        told: What it has then, for the answer; None where that has not changed.
    """

    before: ConsumerMember
    target: Target
    version: int
    after: ConsumerMember
    made: ReadyChange | None = None
    told: Assignment | None = None

    def leads(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        epoch: int,
        assignment: Assigned,
        *,
        has_new_subscription: bool,
    ) -> bool:
        """Whether the group is still as it was, and this is the member's step towards its target. Topics that came or went
        meanwhile count with the next heartbeat."""
        target = self.target
        return (
            (self.version, target.epoch, target.has_new_subscription) == (group.version, epoch, has_new_subscription)
            and target.assignment == assignment
            and self.before == member
        )


def has_many(member: ConsumerMember, assignment: Mapping[bytes, Sized]) -> bool:
    """Whether a member has so many topics or partitions, or is to have, that its step is worth making ahead."""
    for one in (assignment, member.assigned, member.revoking):
        if len(one) > AT_ONCE or sum(map(len, one.values())) > PARTITIONS_AT_ONCE:
            return True
    return False


def step_ahead(group: ConsumerGroup, member: ConsumerMember, target: Target, claim: Claim) -> Steps[StepAhead]:
    """The member's step, a topic a piece.

    Raises:
        KafkaError: As `next_step`.
    """
    version = group.version
    after = yield from stepping(member, target, claim)
    if after == member:
        return StepAhead(member, target, version, member)
    made = yield from records.writing_current(group.group_id, after)
    return StepAhead(member, target, version, after, made, (yield from telling(after.assigned)))


def telling(assigned: Owned) -> Steps[Assignment]:
    """What a member has, in the form of an answer; a topic a piece."""
    topic_ids, rows = (yield from in_order(assigned)), list[TopicPartitions]()
    for topic_id in topic_ids:
        rows.append(TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(assigned[topic_id]))))
        yield
    return Assignment(topic_partitions=tuple(rows))
