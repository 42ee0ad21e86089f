"""How a member gets from what it has to what it should have: one step at each heartbeat.

First it gives up what it should not have any more, and says so by naming what it still owns; only then it goes on to
the target's epoch, and gets what nobody else has. What others have not given up yet, it gets later.

    STABLE ──► UNREVOKED_PARTITIONS ──► UNRELEASED_PARTITIONS ──► STABLE
       └──────────────────────────────────────▲─────────────────────▲
              nothing to give up              nothing to wait for ──┘
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import Assignment as Answered
from ....protocol.messages.consumer_group_heartbeat import TopicPartitions
from ...coordination.jobs import AT_ONCE, Steps, in_order, to_the_end
from ..assigning.assignment import Assignment
from ..records import ReadyChange
from . import records
from .group import ConsumerGroup
from .member import ConsumerMember, ConsumerMemberState, Owned

Claim: TypeAlias = Mapping[bytes, AbstractSet[int]] | None
"""Topic id -> partitions that a member says it owns; None: it did not say."""

_NONE: Mapping[int, int] = {}
_NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Target:
    """
    Attributes:
        epoch: Of the target assignment.
        assignment: What the member should have.
        subscribes_to: Whether the member subscribes to the topic of an id now; others are taken from it in any case.
        has_new_subscription: It subscribes to other topics than before.
        is_free: Whether nobody has a partition, not even to give it up.
    """

    epoch: int
    assignment: Assignment
    subscribes_to: Callable[[bytes], bool]
    has_new_subscription: bool
    is_free: Callable[[bytes, int], bool]


def next_step(member: ConsumerMember, target: Target, claim: Claim) -> ConsumerMember:
    """The member after one step, which may be the same.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH if its state is unknown to us and it still has partitions.
    """
    return to_the_end(stepping(member, target, claim))


def stepping(member: ConsumerMember, target: Target, claim: Claim) -> Steps[ConsumerMember]:
    """`next_step`, a topic a piece; nobody is to get or give up a partition meanwhile."""
    match member.state:
        case ConsumerMemberState.STABLE if member.epoch != target.epoch:
            return (yield from _advance(member, member.epoch, target, claim))
        case ConsumerMemberState.UNREVOKED_PARTITIONS if not _owns_any(claim, member.revoking):
            return (yield from _advance(member, member.epoch, target, claim))
        case ConsumerMemberState.STABLE | ConsumerMemberState.UNREVOKED_PARTITIONS if target.has_new_subscription:
            return (yield from _unsubscribe(member, target.subscribes_to, claim))
        case ConsumerMemberState.UNRELEASED_PARTITIONS:
            return (yield from _advance(member, member.epoch, target, claim))
        case ConsumerMemberState.UNKNOWN:
            if claim is None or claim:
                message = (
                    f"The state of member {member.member_id} is unknown. It must abandon its partitions and rejoin."
                )
                raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, message)
            return (yield from _advance(member, target.epoch, target, claim))
    return member


def _owns_any(claim: Claim, revoking: Owned) -> bool:
    if claim is None:
        return True
    return any(not partitions.isdisjoint(revoking.get(topic_id, ())) for topic_id, partitions in claim.items())


def _enter(
    member: ConsumerMember, epoch: int, state: ConsumerMemberState, assigned: Owned, revoking: Owned
) -> ConsumerMember:
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoking=revoking)


def _unsubscribe(member: ConsumerMember, subscribes_to: Callable[[bytes], bool], claim: Claim) -> Steps[ConsumerMember]:
    """Take away at once what the member subscribes to no longer, without waiting for the next target."""
    assigned: dict[bytes, Mapping[int, int]] = {}
    revoking: dict[bytes, Mapping[int, int]] = dict(member.revoking)
    for topic_id, epochs in member.assigned.items():
        yield
        if subscribes_to(topic_id):
            assigned[topic_id] = epochs
        else:
            revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
    if len(assigned) == len(member.assigned):
        return member
    if _owns_any(claim, revoking):
        return _enter(member, member.epoch, ConsumerMemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    return _enter(member, member.epoch, member.state, assigned, member.revoking)


def _advance(member: ConsumerMember, epoch: int, target: Target, claim: Claim) -> Steps[ConsumerMember]:
    """Go on towards the target; `epoch` is kept as long as there is something to give up."""
    kept: dict[bytes, Mapping[int, int]] = {}
    granted: dict[bytes, Mapping[int, int]] = {}
    revoking: dict[bytes, Mapping[int, int]] = {}
    must_wait = False
    for topic_id in member.assigned.keys() | target.assignment.keys():
        yield
        has = member.assigned.get(topic_id, _NONE)
        wanted = target.assignment.get(topic_id, _NOTHING)
        if wanted and not target.subscribes_to(topic_id):
            wanted = _NOTHING
        if has.keys() == wanted:  # so it is with most topics of a member that has thousands
            if has:
                kept[topic_id] = has
            continue
        missing = wanted - has.keys()
        own = member.revoking.get(topic_id, _NONE)
        gets = {index: target.epoch for index in missing if index in own or target.is_free(topic_id, index)}
        must_wait = must_wait or len(gets) < len(missing)
        if has:
            if keeps := {index: since for index, since in has.items() if index in wanted}:
                kept[topic_id] = keeps
            if gives_up := {index: since for index, since in has.items() if index not in wanted}:
                revoking[topic_id] = gives_up
        if gets:
            granted[topic_id] = gets
    if revoking and _owns_any(claim, revoking):
        return _enter(member, epoch, ConsumerMemberState.UNREVOKED_PARTITIONS, kept, revoking)
    assigned = kept | {
        topic_id: {**kept[topic_id], **gets} if topic_id in kept else gets for topic_id, gets in granted.items()
    }
    state = ConsumerMemberState.UNRELEASED_PARTITIONS if must_wait else ConsumerMemberState.STABLE
    return _enter(member, target.epoch, state, assigned, {})


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

    def told_of(self, member: ConsumerMember) -> Answered:
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
    told: Answered | None = None

    def leads(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        epoch: int,
        assignment: Assignment,
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


def telling(assigned: Owned) -> Steps[Answered]:
    """What a member has, in the form of an answer; a topic a piece."""
    topic_ids, rows = (yield from in_order(assigned)), list[TopicPartitions]()
    for topic_id in topic_ids:
        rows.append(TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(assigned[topic_id]))))
        yield
    return Answered(topic_partitions=tuple(rows))
