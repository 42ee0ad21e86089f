"""One rebalance of a classic group, from its cause to the assignment.

Called by `classic`, which decides what causes one. Three steps: members send JoinGroup and are parked
(PreparingRebalance); once all have, or the time is over, they are told the generation and the leader gets the list of
members (CompletingRebalance); the leader sends the assignment with its SyncGroup, and every SyncGroup is answered with
the member's part (Stable).

Differs from Apache Kafka: a parked request that can get no answer any more (its member was removed, or has sent the
request again) is answered with an error instead of left hanging.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..coordination.deadlines import Deadlines
from .group import ClassicGroup, GroupState, JoinReply, Member, SyncReply
from .settings import REJOIN_RETRY_MS, GroupSettings

log = logging.getLogger("ottla.groups")

Persist = Callable[[ClassicGroup, Mapping[str, bytes], int], None]
"""Write down (group, assignments by member id, now_ms). Raises KafkaError with a code fit for the client."""


class Rebalancing:
    """How groups get from one generation to the next; the state is all in the groups."""

    def __init__(self, settings: GroupSettings, deadlines: Deadlines, persist: Persist) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._persist = persist

    def start_or_complete(self, group: ClassicGroup, now_ms: int) -> None:
        """The group's membership changed: begin a rebalance, or end the one that runs if this was what it waited for."""
        if group.can_rebalance:
            self.start(group, now_ms)
        else:
            self.complete_if_all_joined(group, now_ms)

    def start(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin a rebalance in any state but PreparingRebalance; members learn of it by their next request."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._abandon_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._deadlines.clear(group.sync_by)
        is_initial = group.state is GroupState.EMPTY
        group.enter(GroupState.PREPARING_REBALANCE, now_ms)
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
        is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
        if is_rebalancing and group.previous_state is not GroupState.EMPTY and group.all_joined:
            self.complete(group, now_ms)

    def rejoin_time_is_over(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase; the initial delay is extended as long as members keep coming."""
        is_initial = group.previous_state is GroupState.EMPTY
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
        for member in tuple(group.members.values()):
            if member.join_reply is None and member.group_instance_id is None:
                log.info("group %s: member %s did not rejoin in time", group.group_id, member.member_id)
                self.remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none has come; their sessions will end one by one.
            self._deadlines.start(group.rejoin, max(group.rebalance_timeout_ms, REJOIN_RETRY_MS))
            return
        group.next_generation(now_ms)
        log.info("group %s: generation %d with %d members", group.group_id, group.generation, len(group.members))
        if not group.members:
            try:
                self._persist(group, {}, now_ms)
            except KafkaError as error:
                # After a restart the generation before comes back, and its members time out.
                log.warning("group %s: cannot write down that it is empty: %s", group.group_id, error)
            return
        for member in group.members.values():
            member.is_new = False
            group.pending_sync.add(member.member_id)
            self.keep_alive(member)
            if (reply := member.join_reply) is not None:
                group.await_join(member, None)
                is_leader = group.leader == member.member_id
                reply(current_generation(group, member, with_members=is_leader))
        self._deadlines.start(group.sync_by, group.rebalance_timeout_ms)

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
        if group.state is GroupState.STABLE:
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
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _take_assignment(self, group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> None:
        try:
            self._persist(group, assignments, now_ms)
        except KafkaError as error:
            log.warning("group %s: cannot write down the assignment: %s", group.group_id, error)
            self._abandon_assignment(group, error.code)
            self.start(group, now_ms)
            return
        group.enter(GroupState.STABLE, now_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        for member in group.members.values():
            self._answer_sync(member, _assignment(group, member))

    def _abandon_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(member, SyncGroupResponse(error_code=error))

    def _answer_sync(self, member: Member, answer: SyncGroupResponse) -> None:
        if (reply := member.sync_reply) is not None:
            member.sync_reply = None
            # Its session may have ended while it waited for us.
            self.keep_alive(member)
            reply(answer)

    def sync_time_is_over(self, group: ClassicGroup, now_ms: int) -> None:
        """Members that learned of the generation and never sent SyncGroup are out."""
        for member_id in tuple(group.pending_sync):
            log.info("group %s: member %s did not sync in time", group.group_id, member_id)
            self.remove(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        self.start(group, now_ms)

    # Members

    def keep_alive(self, member: Member) -> None:
        """The member showed a sign of life: its session starts anew."""
        self._deadlines.start(member.session, member.session_timeout_ms)

    def remove(self, group: ClassicGroup, member: Member, error: ErrorCode) -> None:
        """Remove a member; if a request of it is parked, `error` makes it look again if it is still there."""
        self.answer_parked(group, member, error, "")
        self._deadlines.clear(member.session)
        group.remove(member.member_id)

    def answer_parked(self, group: ClassicGroup, member: Member, error: ErrorCode, member_id: str) -> None:
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


def current_generation(
    group: ClassicGroup,
    member: Member,
    *,
    with_members: bool,
    skip_assignment: bool = False,
    leader: str | None = None,
) -> JoinGroupResponse:
    """What a member learns of the generation; only the leader is given the list of members."""
    members = (
        tuple(
            JoinGroupResponseMember(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                metadata=one.metadata(group.protocol_name),
            )
            for one in group.members.values()
        )
        if with_members
        else ()
    )
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=members,
    )


def _assignment(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
