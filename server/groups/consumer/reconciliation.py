"""Reconciliation of a member with its target assignment: one step at each heartbeat.

First the member gives up the partitions that are not in its target, and confirms that by naming the partitions that it still
owns. Only then it enters the target's epoch, and gets the partitions that are free. It gets the others later, once their owners
have given them up.

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
"""Topic id -> partitions that a member says it owns; None if the member did not say."""

_NONE: Mapping[int, int] = {}
_NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Target:
    """
    Attributes:
        epoch: Epoch of the target assignment.
        assignment: The member's target partitions.
        subscribes_to: Whether the member now subscribes to the topic with this id; partitions of other topics are revoked in
            any case.
        has_new_subscription: Whether the member subscribes to other topics than before.
        is_free: Whether a partition has no owner, not even one that must give it up.
    """

    epoch: int
    assignment: Assignment
    subscribes_to: Callable[[bytes], bool]
    has_new_subscription: bool
    is_free: Callable[[bytes, int], bool]


def next_step(member: ConsumerMember, target: Target, claim: Claim) -> ConsumerMember:
    """Return the member after one step; it may be unchanged.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH if this coordinator does not know the member's state, and the member still has
            partitions.
    """
    return to_the_end(stepping(member, target, claim))


def stepping(member: ConsumerMember, target: Target, claim: Claim) -> Steps[ConsumerMember]:
    """`next_step`, a topic a piece. No partition may be assigned or given up during it."""
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
    """Revoke at once the partitions of topics that the member no longer subscribes to, without waiting for the next target."""
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
    """Advance the member towards its target; its epoch stays `epoch` as long as it has partitions to give up."""
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
        if has.keys() == wanted:  # true of most topics of a member that has thousands
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
"""Partitions that take about a millisecond."""


class PreparedHeartbeat(NamedTuple):
    """Work prepared for a heartbeat. It is of no use if the group changes before the heartbeat."""

    claim: Claim = None
    """Partitions that the member claims to own."""
    member_id: str = ""
    """New id for a member that has none."""
    made: tuple[ReadyChange, ...] = ()
    """Records of the member's metadata, and of the partitions of a member that returned."""
    away: tuple[ConsumerMember, ReadyChange] | None = None
    """A static member that leaves for a while, as it was before, and the record of its partitions then."""
    step: PrecomputedStep | None = None

    def answer_for(self, member: ConsumerMember) -> Answered:
        """Return the member's partitions for the answer; computed here unless the member is the result of the prepared step."""
        if self.step is not None and self.step.told is not None and self.step.after is member:
            return self.step.told
        return to_the_end(make_answer(member.assigned))


class PrecomputedStep(NamedTuple):
    """
    Attributes:
        before: The member with its changes, before its step.
        target: The target of the step.
        version: Version of the group when the preparation began.
        after: The member after its step; `before` itself if it waits for others.
        made: The record of the step; None if nothing must be written.
        told: The member's partitions after the step, for the answer; None if they have not changed.
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
        """Whether the group is unchanged, and this is the member's step towards its target. Topics that were created or deleted
        since then count at the next heartbeat."""
        target = self.target
        return (
            (self.version, target.epoch, target.has_new_subscription) == (group.version, epoch, has_new_subscription)
            and target.assignment == assignment
            and self.before == member
        )


def has_many(member: ConsumerMember, assignment: Mapping[bytes, Sized]) -> bool:
    """Whether a member has or will have enough topics or partitions to prepare its step ahead."""
    for one in (assignment, member.assigned, member.revoking):
        if len(one) > AT_ONCE or sum(map(len, one.values())) > PARTITIONS_AT_ONCE:
            return True
    return False


def precomputed_step(
    group: ConsumerGroup, member: ConsumerMember, target: Target, claim: Claim
) -> Steps[PrecomputedStep]:
    """Return the member's step, made a topic a piece.

    Raises:
        KafkaError: As `next_step`.
    """
    version = group.version
    after = yield from stepping(member, target, claim)
    if after == member:
        return PrecomputedStep(member, target, version, member)
    made = yield from records.writing_current(group.group_id, after)
    return PrecomputedStep(member, target, version, after, made, (yield from make_answer(after.assigned)))


def make_answer(assigned: Owned) -> Steps[Answered]:
    """Return a member's partitions in the form of an answer; a topic a piece."""
    topic_ids, rows = (yield from in_order(assigned)), list[TopicPartitions]()
    for topic_id in topic_ids:
        rows.append(TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(assigned[topic_id]))))
        yield
    return Answered(topic_partitions=tuple(rows))
