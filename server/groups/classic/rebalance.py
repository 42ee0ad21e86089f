"""One rebalance of a classic group, from its cause to the assignment.

`protocol` decides what causes one. It has three steps. Members send JoinGroup and are parked (PreparingRebalance). Once all
have joined, or the time has expired, the answers contain the generation, and the leader's the list of members
(CompletingRebalance). The leader sends the assignment with its SyncGroup, and every SyncGroup is answered with the member's
part (Stable).

In a group of hundreds the members are answered one after the other, with other requests in between. A member whose JoinGroup is
not answered when the next rebalance begins has joined that one. All answers contain the assignment that was valid when they
began.

Differs from Apache Kafka: a parked request that can no longer be answered (its member was removed, or has sent the request
again) gets an error instead of no answer.
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
"""Function that writes the record of (group, assignments by member id, now_ms). Raises KafkaError with a code fit for the
client."""

StartJob = Callable[[ClassicGroup, Job], None]
"""Function that runs a job of the group, as long as the group's partition is served."""


class Rebalancing:
    """Transitions of groups from one generation to the next. All state is in the groups."""

    def __init__(self, settings: GroupSettings, deadlines: Deadlines, persist: Persist, start_job: StartJob) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._persist = persist
        self._start_job = start_job

    def do(self, group: ClassicGroup, steps: Job) -> None:
        """Run the steps at once in a group of few members, else piece by piece."""
        if len(group.members) <= MEMBERS_A_PIECE:
            to_the_end(steps)
        else:
            self._start_job(group, steps)

    def start_or_complete(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin a rebalance, as the group's members changed, or end the present one if this was what it waited for."""
        if group.can_rebalance:
            self.start(group, now_ms)
        else:
            self.complete_if_all_joined(group, now_ms)

    def start(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin a rebalance in any state except PreparingRebalance; members learn of it by their next request."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._abandon_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._deadlines.clear(group.sync_by)
        is_initial = group.state is ClassicState.EMPTY
        group.enter(ClassicState.PREPARING_REBALANCE, now_ms)
        if is_initial:
            # The first member of a group is seldom the only one: wait for the others.
            group.new_member_added = False
            group.delay_ms = self._settings.group_initial_rebalance_delay_ms
            group.delay_left_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
            self._deadlines.start(group.rejoin, group.delay_ms)
        elif group.all_joined:
            self.complete(group, now_ms)
        else:
            self._deadlines.start(group.rejoin, group.rebalance_timeout_ms)

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase if no member is missing. The initial delay of a group always lasts its full time."""
        is_rebalancing = group.state is ClassicState.PREPARING_REBALANCE
        if is_rebalancing and group.previous_state is not ClassicState.EMPTY and group.all_joined:
            self.complete(group, now_ms)

    def rejoin_time_is_over(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase; the initial delay is extended while members keep joining."""
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
        """End the joining phase: members that have not joined are removed (static members stay), the others get the
        generation."""
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
            # Only static members are left and none has joined; their sessions will expire one by one.
            self._deadlines.start(group.rejoin, max(group.rebalance_timeout_ms, REJOIN_RETRY_MS))
            return
        group.next_generation(now_ms)
        log.info("group %s: generation %d with %d members", group.group_id, group.generation, len(group.members))
        if not group.members:
            yield from group.read_subscriptions()
            try:
                self._persist(group, {}, now_ms)
            except KafkaError as error:
                # After a restart the previous generation returns, and its members time out.
                log.warning("group %s: cannot persist that the group is empty: %s", group.group_id, error)
            return
        group.pending_sync.update(group.members)
        generation = group.generation
        yield from self._answer_joins(group, tuple(group.members.values()))
        if group.generation == generation and group.pending_sync:
            self._deadlines.start(group.sync_by, group.rebalance_timeout_ms)
        yield from group.read_subscriptions()

    def _answer_joins(self, group: ClassicGroup, members: Collection[ClassicMember]) -> Job:
        """Answer the members' JoinGroups with the generation; only the leader gets the list of members."""
        generation = group.generation
        for member in members:
            if group.is_current_generation(generation) and group.has(member):
                if member.join_reply is not None and group.leader == member.member_id:
                    yield from self._answer_leader(group, member)
                elif (reply := member.join_reply) is not None:
                    group.await_join(member, None)
                    reply(_generation(group, member))
                member.is_new = False
                self.keep_alive(member)
                make_ready(member, group.protocol_name)  # The assignment will be written for all members at once.
            yield

    def _answer_leader(self, group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False) -> Job:
        generation, reply = group.generation, member.join_reply
        listed = yield from _listed(group)
        # Otherwise the member has joined the next generation, or sent the request again.
        if reply is not None and reply is member.join_reply and group.is_current_generation(generation):
            group.await_join(member, None)
            reply(_generation(group, member, members=listed, skip_assignment=skip_assignment))

    def answer_join_again(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        reply: JoinReply,
        *,
        with_members: bool,
        skip_assignment: bool = False,
        leader: str | None = None,
    ) -> None:
        """Answer a JoinGroup for a generation that began earlier."""
        if not with_members:
            reply(_generation(group, member, leader=leader))
            return
        superseded = member.join_reply
        group.await_join(member, reply)
        if superseded is not None:
            refuse(superseded, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        self.do(group, self._answer_leader(group, member, skip_assignment=skip_assignment))

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int, reply: SyncReply) -> None:
        """Handle a SyncGroup; `reply` is called exactly once, now or when the leader's assignment is written.

        The answer's error: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
        REBALANCE_IN_PROGRESS, or the error of writing the group's record.
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
        """Answer every parked SyncGroup with the member's assignment at this moment, or with the error."""
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
            # Otherwise the member was removed, and has an answer.
            if member.sync_reply is reply:
                member.sync_reply = None
                # Its session may have expired while it waited for the answer.
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
        """Remove the members that got the generation and never sent SyncGroup."""
        self.do(group, self._remove_silent(group, group.generation, now_ms))

    def _remove_silent(self, group: ClassicGroup, generation: int, now_ms: int) -> Job:
        for member_id in tuple(group.pending_sync):
            if group.generation == generation and member_id in group.pending_sync:
                log.info("group %s: member %s did not sync in time", group.group_id, member_id)
                self.remove(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
            yield
        if group.is_current_generation(generation):
            self.start(group, now_ms)

    # Members

    def keep_alive(self, member: ClassicMember) -> None:
        """Restart the member's session after a sign of life."""
        self._deadlines.start(member.session, member.session_timeout_ms)

    def remove(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode) -> None:
        """Remove a member. If it has a parked request, that is answered with `error`, so the client checks whether it is still
        a member."""
        self.answer_parked(group, member, error, "")
        self._deadlines.clear(member.session)
        group.remove(member.member_id)

    def answer_parked(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode, member_id: str) -> None:
        """Answer the member's parked requests with an error; `member_id` is part of the answer to a join."""
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
    """Return the members with their metadata for the chosen protocol."""
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
    """Return the answer that contains the generation for one member."""
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
