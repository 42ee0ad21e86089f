"""The step of a member that has thousands of topics, or is to have them, made in pieces before the heartbeat that takes it."""

from __future__ import annotations

from typing import NamedTuple

from ....protocol.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from ...coordination.jobs import AT_ONCE, Steps, in_order, to_the_end
from ..records import Ready
from . import records
from .group import ConsumerGroup
from .member import Member, Owned
from .reconciliation import Claim, Target, stepping


class Prepared(NamedTuple):
    """What a heartbeat may find made. With a group that has become another one meanwhile it is of no use."""

    news: Ready | None = None
    """The record of what the member says of itself."""
    step: StepAhead | None = None


NOTHING_PREPARED = Prepared()


class StepAhead(NamedTuple):
    """
    Attributes:
        before: The member with its news, before its step.
        target: What it steps towards.
        owners_version: Of the group, when the step began to be made.
        made: The member after its step, and the record of that.
        told: What it has then, for the answer.
    """

    before: Member
    target: Target
    owners_version: int
    made: Ready
    told: Assignment

    def leads(self, member: Member, target: Target, group: ConsumerGroup) -> bool:
        """Whether the group is still as it was, and this is the member's step towards its target."""
        return self.owners_version == group.owners_version and self.target == target and self.before == member


def step_ahead(group: ConsumerGroup, member: Member, target: Target, claim: Claim) -> Steps[StepAhead | None]:
    """The member's step, unless it is a small one, which is made where it is taken.

    Raises:
        KafkaError: As `next_step`.
    """
    if max(map(len, (target.assignment, member.assigned, member.revoking))) <= AT_ONCE:
        return None
    version = group.owners_version
    after = yield from stepping(member, target, claim)
    if after is member:
        return None
    made = yield from records.writing_current(group.group_id, after)
    return StepAhead(member, target, version, made, (yield from telling(after.assigned)))


def telling(assigned: Owned) -> Steps[Assignment]:
    """What a member has, in the form of an answer; a topic a piece."""
    topic_ids, rows = (yield from in_order(assigned)), list[TopicPartitions]()
    for topic_id in topic_ids:
        rows.append(TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(assigned[topic_id]))))
        yield
    return Assignment(topic_partitions=tuple(rows))


def told(assigned: Owned) -> Assignment:
    """`telling`, at once."""
    return to_the_end(telling(assigned))
