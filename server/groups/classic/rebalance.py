"""One rebalance of a classic group, from its cause to the assignment.

Called by `protocol`, which decides what causes one. Three steps: members send JoinGroup and are parked
(PreparingRebalance); once all have, or the time is over, they are told the generation and the leader gets the list of
members (CompletingRebalance); the leader sends the assignment with its SyncGroup, and every SyncGroup is answered with
the member's part (Stable).

In a group of hundreds the members are told one after the other, with others' requests in between. Who has not been told
of a generation when the next rebalance begins has joined that one; an assignment is the one that there was when the
answers began.

Differs from Apache Kafka: a parked request that can get no answer any more (its member was removed, or has sent the
request again) is answered with an error instead of left hanging.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ...coordination.deadlines import Deadlines
from ...coordination.jobs import Job, Steps, to_the_end
from ..settings import MEMBERS_A_PIECE, REJOIN_RETRY_MS, GroupSettings
from .group import ClassicGroup, ClassicMember, ClassicState, JoinReply, SyncReply
from .records import make_ready

log = logging.getLogger("ottla.groups")

Persist = Callable[[ClassicGroup, Mapping[str, bytes], int], None]
"""Write down (group, assignments by member id, now_ms). Raises KafkaError with a code fit for the client."""

StartJob = Callable[[ClassicGroup, Job], None]
"""Have a job of the group done, as far as its partition is served."""


class Rebalancing:
    """How groups get from one generation to the next; the state is all in the groups."""

    def __init__(self, settings: GroupSettings, deadlines: Deadlines, persist: Persist, start_job: StartJob) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._persist = persist
        self._start_job = start_job

    def do(self, group: ClassicGroup, steps: Job) -> None:
        """At once in a group of few members, else piece by piece."""
        if len(group.members) <= MEMBERS_A_PIECE:
            to_the_end(steps)
        else:
            self._start_job(group, steps)

    def start_or_complete(self, group: ClassicGroup, now_ms: int) -> None:
        """The group's membership changed: begin a rebalance, or end the one that runs if this was what it waited for."""
        if group.can_rebalance:
            self.start(group, now_ms)
        else:
            self.complete_if_all_joined(group, now_ms)

    def start(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin a rebalance in any state but PreparingRebalance; members learn of it by their next request."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._abandon_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._deadlines.clear(group.sync_by)
        is_initial = group.state is ClassicState.EMPTY
        group.enter(ClassicState.PREPARING_REBALANCE, now_ms)
        if is_initial:
            # The first member of a group is seldom the only one: give the others time to come.
            group.new_member_added = False
            group.delay_ms = self._settings.group_initial_rebalance_delay_ms
            group.delay_left_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
            self._deadlines.start(group.rejoin, group.delay_ms)
        elif group.all_joined:
            self.complete(group, now_ms)
        else:
            self._deadlines.start(group.rejoin, group.rebalance_timeout_ms)

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase if nobody is missing; the first one of a group lasts its time in any case."""
        is_rebalancing = group.state is ClassicState.PREPARING_REBALANCE
        if is_rebalancing and group.previous_state is not ClassicState.EMPTY and group.all_joined:
            self.complete(group, now_ms)

    def rejoin_time_is_over(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase; the initial delay is extended as long as members keep coming."""
        is_initial = group.previous_state is ClassicState.EMPTY
        if is_initial and group.new_member_added and group.delay_left_ms:
            group.new_member_added = False
            next_delay_ms = min(self._settings.group_initial_rebalance_delay_ms, group.delay_left_ms)
            group.delay_left_ms = max(group.delay_left_ms - group.delay_ms, 0)
            group.delay_ms = next_delay_ms
            self._deadlines.start(group.rejoin, next_delay_ms)
        else:
            self.complete(group, now_ms)

    def complete(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase: who has not joined is out (static members stay), the others learn the generation."""
        self._deadlines.clear(group.rejoin)
        if not group.is_completing:
            group.is_completing = True
            self.do(group, self._complete(group, now_ms))

    def _complete(self, group: ClassicGroup, now_ms: int) -> Job:
        try:
            for member in tuple(group.members.values()):
                if group.state is not ClassicState.PREPARING_REBALANCE:
                    return
                if member.join_reply is None and member.group_instance_id is None and group.has(member):
                    log.info("group %s: member %s did not rejoin in time", group.group_id, member.member_id)
                    self.remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
                yield
            if group.state is not ClassicState.PREPARING_REBALANCE:
                return
        finally:
            group.is_completing = False
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none has come; their sessions will end one by one.
            self._deadlines.start(group.rejoin, max(group.rebalance_timeout_ms, REJOIN_RETRY_MS))
            return
        group.next_generation(now_ms)
        log.info("group %s: generation %d with %d members", group.group_id, group.generation, len(group.members))
        if not group.members:
            yield from group.read_subscriptions()
            try:
                self._persist(group, {}, now_ms)
            except KafkaError as error:
                # After a restart the generation before comes back, and its members time out.
                log.warning("group %s: cannot persist that the group is empty: %s", group.group_id, error)
            return
        group.pending_sync.update(group.members)
        generation = group.generation
        yield from self._tell(group, tuple(group.members.values()))
        if group.generation == generation and group.pending_sync:
            self._deadlines.start(group.sync_by, group.rebalance_timeout_ms)
        yield from group.read_subscriptions()

    def _tell(self, group: ClassicGroup, members: Collection[ClassicMember]) -> Job:
        """Let members learn of the generation; only the leader is given the list of them all."""
        generation = group.generation
        for member in members:
            if group.is_told_of(generation) and group.has(member):
                if member.join_reply is not None and group.leader == member.member_id:
                    yield from self._tell_leader(group, member)
                elif (reply := member.join_reply) is not None:
                    group.await_join(member, None)
                    reply(_generation(group, member))
                member.is_new = False
                self.keep_alive(member)
                make_ready(member, group.protocol_name)  # The assignment will be written for all at once.
            yield

    def _tell_leader(self, group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False) -> Job:
        generation, reply = group.generation, member.join_reply
        listed = yield from _listed(group)
        # Else it has joined the next one, or asked again.
        if reply is not None and reply is member.join_reply and group.is_told_of(generation):
            group.await_join(member, None)
            reply(_generation(group, member, members=listed, skip_assignment=skip_assignment))

    def tell_again(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        reply: JoinReply,
        *,
        with_members: bool,
        skip_assignment: bool = False,
        leader: str | None = None,
    ) -> None:
        """Answer a JoinGroup in a generation that has begun before."""
        if not with_members:
            reply(_generation(group, member, leader=leader))
            return
        superseded = member.join_reply
        group.await_join(member, reply)
        if superseded is not None:
            refuse(superseded, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        self.do(group, self._tell_leader(group, member, skip_assignment=skip_assignment))

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int, reply: SyncReply) -> None:
        """Handle a SyncGroup; `reply` is called exactly once, now or when the leader's assignment is written down.

        The answer's error: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
        REBALANCE_IN_PROGRESS, or what writing down the group failed with.
        """
        error = self._sync_error(group, request)
        if error:
            reply(SyncGroupResponse(error_code=error))
            return
        member = group.members[request.member_id]
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._deadlines.clear(group.sync_by)
        if group.state is ClassicState.STABLE:
            reply(_assignment(group, member))
            return
        superseded, member.sync_reply = member.sync_reply, reply
        if superseded is not None:
            superseded(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        if group.leader == member.member_id:
            self._take_assignment(group, {one.member_id: one.assignment for one in request.assignments}, now_ms)

    def _sync_error(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
        if error := group.member_error(request.member_id, request.group_instance_id):
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol_name,
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is ClassicState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _take_assignment(self, group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> None:
        try:
            self._persist(group, assignments, now_ms)
        except KafkaError as error:
            log.warning("group %s: cannot persist the assignment: %s", group.group_id, error)
            self._abandon_assignment(group, error.code)
            self.start(group, now_ms)
            return
        group.enter(ClassicState.STABLE, now_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._answer_syncs(group, ErrorCode.NONE)

    def _abandon_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, error)

    def _answer_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer every SyncGroup that is parked: with what the member is assigned now, or the error."""
        parked = [
            (member, reply, member.assignment)
            for member in group.members.values()
            if (reply := member.sync_reply) is not None
        ]
        self.do(group, self._answer_each(parked, group.protocol_type, group.protocol_name, error))

    def _answer_each(
        self,
        parked: Collection[tuple[ClassicMember, SyncReply, bytes]],
        protocol_type: str | None,
        protocol_name: str | None,
        error: ErrorCode,
    ) -> Job:
        for member, reply, assignment in parked:
            # Else it is out, and knows.
            if member.sync_reply is reply:
                member.sync_reply = None
                # Its session may have ended while it waited for us.
                self.keep_alive(member)
                if error:
                    reply(SyncGroupResponse(error_code=error))
                else:
                    reply(
                        SyncGroupResponse(
                            protocol_type=protocol_type, protocol_name=protocol_name, assignment=assignment
                        )
                    )
            yield

    def sync_time_is_over(self, group: ClassicGroup, now_ms: int) -> None:
        """Members that learned of the generation and never sent SyncGroup are out."""
        self.do(group, self._remove_silent(group, group.generation, now_ms))

    def _remove_silent(self, group: ClassicGroup, generation: int, now_ms: int) -> Job:
        for member_id in tuple(group.pending_sync):
            if group.generation == generation and member_id in group.pending_sync:
                log.info("group %s: member %s did not sync in time", group.group_id, member_id)
                self.remove(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
            yield
        if group.is_told_of(generation):
            self.start(group, now_ms)

    # Members

    def keep_alive(self, member: ClassicMember) -> None:
        """The member showed a sign of life: its session starts anew."""
        self._deadlines.start(member.session, member.session_timeout_ms)

    def remove(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode) -> None:
        """Remove a member; if a request of it is parked, `error` makes it look again if it is still there."""
        self.answer_parked(group, member, error, "")
        self._deadlines.clear(member.session)
        group.remove(member.member_id)

    def answer_parked(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode, member_id: str) -> None:
        """Answer what the member has parked with an error; `member_id` goes into the answer to a join."""
        if (join_reply := member.join_reply) is not None:
            group.await_join(member, None)
            refuse(join_reply, error, member_id)
        if (sync_reply := member.sync_reply) is not None:
            member.sync_reply = None
            sync_reply(SyncGroupResponse(error_code=error))


def refuse(reply: JoinReply, error: ErrorCode, member_id: str) -> None:
    """Answer a JoinGroup with an error."""
    reply(JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None))


def _listed(group: ClassicGroup) -> Steps[tuple[JoinGroupResponseMember, ...]]:
    """The members with what they offer for the protocol that was chosen."""
    listed = []
    for one in tuple(group.members.values()):
        metadata = one.metadata(group.protocol_name)
        listed.append(
            JoinGroupResponseMember(member_id=one.member_id, group_instance_id=one.group_instance_id, metadata=metadata)
        )
        yield
    return tuple(listed)


def _generation(
    group: ClassicGroup,
    member: ClassicMember,
    *,
    members: tuple[JoinGroupResponseMember, ...] = (),
    skip_assignment: bool = False,
    leader: str | None = None,
) -> JoinGroupResponse:
    """What a member learns of the generation."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=members,
    )


def _assignment(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
