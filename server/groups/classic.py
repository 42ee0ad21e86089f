"""The classic group protocol: what joins, syncs, heartbeats, leaves and time-outs do to a group.

Called by `coordinator` with a group already found; `now_ms` comes in with every call, parked answers go out through
the callbacks that came with the requests. Anything that must happen later is a deadline.

A rebalance in three steps: members send JoinGroup and are parked (PreparingRebalance); once all have, or the time is
over, they are told the generation and the leader gets the list of members (CompletingRebalance); the leader sends the
assignment with its SyncGroup, and every SyncGroup is answered with the member's part (Stable).

Differs from Apache Kafka: a parked request that can get no answer any more (its member was removed, or has sent the
request again) is answered with an error instead of left hanging.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ...protocol.messages.leave_group import MemberIdentity, MemberResponse
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from .deadlines import Deadline, Deadlines
from .group import ClassicGroup, GroupState, JoinReply, Member, Protocols, SyncReply
from .settings import (
    CLIENT_ID_CHARS_IN_MEMBER_ID,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    REJOIN_RETRY_MS,
    GroupSettings,
)

log = logging.getLogger("ottla.groups")

Persist = Callable[[ClassicGroup, Mapping[str, bytes], int], None]
"""Write down (group, assignments by member id, now_ms). Raises KafkaError with a code fit for the client."""

# The first version of JoinGroup that makes a new member come back with the id it is given (KIP-394).
_KNOWN_MEMBER_ID_VERSION = 4
# The first version of JoinGroup in which the leader can be told not to assign (KIP-814).
_SKIP_ASSIGNMENT_VERSION = 9


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a JoinGroup, and in which version."""

    client_id: str
    client_host: str
    version: int


class ClassicProtocol:
    """The rules of classic groups over time; the state is all in the groups."""

    def __init__(
        self, settings: GroupSettings, deadlines: Deadlines, persist: Persist, new_id: Callable[[], str]
    ) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._persist = persist
        self._new_id = new_id

    def new_group(self, group_id: str, partition: int, now_ms: int) -> ClassicGroup:
        """An empty group whose deadlines lead here."""
        group = ClassicGroup(
            group_id,
            now_ms,
            partition=partition,
            rejoin=Deadline(lambda at_ms: self._rejoin_time_is_over(group, at_ms)),
            sync_by=Deadline(lambda at_ms: self._sync_time_is_over(group, at_ms)),
        )
        return group

    def adopt(self, group: ClassicGroup, member: Member) -> Member:
        """Let the session deadline of a new or loaded member lead here. It is not set yet."""
        member.session = Deadline(lambda at_ms: self._session_is_over(group, member, at_ms))
        return member

    def loaded(self, group: ClassicGroup, now_ms: int) -> None:
        """Take up a group as it was written down: its members have a full session time to show up."""
        for member in group.members.values():
            self._keep_alive(member, now_ms)
        if len(group.members) > self._settings.group_max_size:
            self._prepare_rebalance(group, now_ms)

    def close(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        """End a group that is deleted or no longer ours; parked requests are answered with `error`."""
        for member in tuple(group.members.values()):
            self._remove(group, member, error)
        for patience in group.pending.values():
            self._deadlines.clear(patience)
        self._deadlines.clear(group.rejoin)
        self._deadlines.clear(group.sync_by)
        group.enter(GroupState.DEAD, now_ms)

    # JoinGroup

    def join(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, now_ms: int, reply: JoinReply
    ) -> None:
        """Handle a JoinGroup; `reply` is called exactly once, now or when the rebalance completes.

        The answer's error: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED (with the id to
        come back with), UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, or what writing down the group failed with.
        """
        member_id, instance_id = request.member_id, request.group_instance_id
        protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        if not self._has_room(group, member_id):
            self._forget(group, member_id)
            _refuse(reply, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif not group.supports(request.protocol_type, protocols):
            _refuse(reply, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not member_id:
            new_id = f"{instance_id or caller.client_id[:CLIENT_ID_CHARS_IN_MEMBER_ID]}-{self._new_id()}"
            known_id = None if instance_id is None else group.static_members.get(instance_id)
            if known_id is not None:
                self._replace_static(group, group.members[known_id], new_id, request, protocols, caller, now_ms, reply)
            elif instance_id is None and caller.version >= _KNOWN_MEMBER_ID_VERSION:
                patience = group.pending[new_id] = Deadline(partial(self._patience_is_over, group, new_id))
                self._deadlines.set(patience, now_ms + request.session_timeout_ms)
                _refuse(reply, ErrorCode.MEMBER_ID_REQUIRED, new_id)
            else:
                self._add(group, new_id, request, protocols, caller, now_ms, reply)
        elif member_id in group.pending:
            if instance_id is not None:
                # Ids are only handed out to dynamic members; Apache Kafka fails in the same place.
                _refuse(reply, ErrorCode.UNKNOWN_SERVER_ERROR, member_id)
                return
            self._forget(group, member_id)
            self._add(group, member_id, request, protocols, caller, now_ms, reply)
        elif error := group.member_error(member_id, instance_id):
            _refuse(reply, error, member_id)
        else:
            self._rejoin(group, group.members[member_id], request, protocols, now_ms, reply)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether a join is within `group.max.size`.

        During a rebalance the members that have joined count, so that the last to rejoin of a group that is too
        large must leave; afterwards all members count, and those that are in may stay.
        """
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                member = group.members.get(member_id)
                has_joined = member is not None and member.join_reply is not None
                return has_joined or group.awaiting_join_count < self._settings.group_max_size
            case _:
                return member_id in group.members or len(group.members) < self._settings.group_max_size

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        protocols: Protocols,
        caller: Caller,
        now_ms: int,
        reply: JoinReply,
    ) -> None:
        member = self.adopt(
            group,
            Member(
                member_id,
                group_instance_id=request.group_instance_id,
                client_id=caller.client_id,
                client_host=caller.client_host,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                session_timeout_ms=request.session_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=protocols,
            ),
        )
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, reply)
        self._deadlines.set(member.session, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance(group, now_ms)

    def _rejoin(
        self,
        group: ClassicGroup,
        member: Member,
        request: JoinGroupRequest,
        protocols: Protocols,
        now_ms: int,
        reply: JoinReply,
    ) -> None:
        """A member joins again: with news, or as leader of a stable group, it causes a rebalance."""
        has_news = member.protocols != protocols
        is_leader = group.leader == member.member_id
        if group.state is GroupState.COMPLETING_REBALANCE and not has_news:
            # It may not have received our answer; the generation is still the same.
            reply(_current_generation(group, member, with_members=is_leader))
        elif group.state is GroupState.STABLE and not has_news and not is_leader:
            reply(_current_generation(group, member, with_members=False))
        else:
            superseded = member.join_reply
            group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
            group.await_join(member, reply)
            if superseded is not None:
                _refuse(superseded, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            self._rebalance(group, now_ms)

    def _replace_static(
        self,
        group: ClassicGroup,
        member: Member,
        new_id: str,
        request: JoinGroupRequest,
        protocols: Protocols,
        caller: Caller,
        now_ms: int,
        reply: JoinReply,
    ) -> None:
        """A static member came back without its member id: it takes its old place under a new id, and whoever
        still uses the old id is fenced off. A stable group goes on without rebalance unless its protocol changes."""
        old_id, old_leader = member.member_id, group.leader
        old_terms = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        self._answer_parked(group, member, ErrorCode.FENCED_INSTANCE_ID, old_id)
        group.rename(member, new_id)
        group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        group.await_join(member, reply)
        self._keep_alive(member, now_ms)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id just now.
            self._prepare_rebalance(group, now_ms)
        elif group.state is not GroupState.STABLE:
            self._complete_join_if_all_joined(group, now_ms)
        elif group.select_protocol() != group.protocol_name:
            self._prepare_rebalance(group, now_ms)
        else:
            group.await_join(member, None)
            try:
                self._persist(group, {one.member_id: one.assignment for one in group.members.values()}, now_ms)
            except KafkaError as error:
                log.warning("group %s: static member %s keeps its old id: %s", group.group_id, old_id, error)
                group.update(member, *old_terms)
                group.rename(member, old_id)
                _refuse(reply, error.code, "")
                return
            if caller.version >= _SKIP_ASSIGNMENT_VERSION:
                is_leader = group.leader == new_id
                reply(_current_generation(group, member, with_members=is_leader, skip_assignment=is_leader))
            else:
                # Told that it leads, a leader of that version would assign anew, and nobody would ask for it.
                reply(_current_generation(group, member, with_members=False, leader=old_leader))

    # The rebalance

    def _rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        if group.can_rebalance:
            self._prepare_rebalance(group, now_ms)
        else:
            self._complete_join_if_all_joined(group, now_ms)

    def _prepare_rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._abandon_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        group.pending_sync.clear()
        self._deadlines.clear(group.sync_by)
        is_initial = group.state is GroupState.EMPTY
        group.enter(GroupState.PREPARING_REBALANCE, now_ms)
        if is_initial:
            # The first member of a group is seldom the only one: give the others time to come.
            group.new_member_added = False
            group.delay_ms = self._settings.group_initial_rebalance_delay_ms
            group.delay_left_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
            self._deadlines.set(group.rejoin, now_ms + group.delay_ms)
        elif group.all_joined:
            self._complete_join(group, now_ms)
        else:
            self._deadlines.set(group.rejoin, now_ms + group.rebalance_timeout_ms)

    def _complete_join_if_all_joined(self, group: ClassicGroup, now_ms: int) -> None:
        is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
        if is_rebalancing and group.previous_state is not GroupState.EMPTY and group.all_joined:
            self._complete_join(group, now_ms)

    def _rejoin_time_is_over(self, group: ClassicGroup, now_ms: int) -> None:
        is_initial = group.previous_state is GroupState.EMPTY
        if is_initial and group.new_member_added and group.delay_left_ms:
            group.new_member_added = False
            next_delay_ms = min(self._settings.group_initial_rebalance_delay_ms, group.delay_left_ms)
            group.delay_left_ms = max(group.delay_left_ms - group.delay_ms, 0)
            group.delay_ms = next_delay_ms
            self._deadlines.set(group.rejoin, now_ms + next_delay_ms)
        else:
            self._complete_join(group, now_ms)

    def _complete_join(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase: who has not joined is out (static members stay), the others learn the generation."""
        self._deadlines.clear(group.rejoin)
        for member in tuple(group.members.values()):
            if member.join_reply is None and member.group_instance_id is None:
                log.info("group %s: member %s did not rejoin in time", group.group_id, member.member_id)
                self._remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none has come; their sessions will end one by one.
            self._deadlines.set(group.rejoin, now_ms + max(group.rebalance_timeout_ms, REJOIN_RETRY_MS))
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
            self._keep_alive(member, now_ms)
            if (reply := member.join_reply) is not None:
                group.await_join(member, None)
                is_leader = group.leader == member.member_id
                reply(_current_generation(group, member, with_members=is_leader))
        self._deadlines.set(group.sync_by, now_ms + group.rebalance_timeout_ms)

    # SyncGroup

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
            self._abandon_assignment(group, error.code, now_ms)
            self._prepare_rebalance(group, now_ms)
            return
        group.enter(GroupState.STABLE, now_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        for member in group.members.values():
            self._answer_sync(member, _assignment(group, member), now_ms)

    def _abandon_assignment(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(member, SyncGroupResponse(error_code=error), now_ms)

    def _answer_sync(self, member: Member, answer: SyncGroupResponse, now_ms: int) -> None:
        if (reply := member.sync_reply) is not None:
            member.sync_reply = None
            # Its session may have ended while it waited for us.
            self._keep_alive(member, now_ms)
            reply(answer)

    def _sync_time_is_over(self, group: ClassicGroup, now_ms: int) -> None:
        """Members that learned of the generation and never sent SyncGroup are out."""
        for member_id in tuple(group.pending_sync):
            log.info("group %s: member %s did not sync in time", group.group_id, member_id)
            self._remove(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        self._prepare_rebalance(group, now_ms)

    # Heartbeat, LeaveGroup, failures

    def heartbeat(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> ErrorCode:
        """Keep a member alive; REBALANCE_IN_PROGRESS tells it to join again."""
        if error := group.member_error(member_id, instance_id):
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._keep_alive(group.members[member_id], now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def committed(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """A commit is a sign of life too, but while the member should be busy syncing."""
        if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._keep_alive(group.members[member_id], now_ms)

    def leave(self, group: ClassicGroup, leaving: Sequence[MemberIdentity], now_ms: int) -> tuple[MemberResponse, ...]:
        """Remove members at their own wish, or static ones by their instance id at an administrator's.

        Returns:
            One answer per member: NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        answers = []
        has_left = False
        for identity in leaving:
            error = self._leave_one(group, identity.member_id, identity.group_instance_id)
            has_left = has_left or not error
            answers.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        if has_left and group.state is not GroupState.EMPTY:
            self._rebalance(group, now_ms)
        return tuple(answers)

    def _leave_one(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        if not member_id:
            known_id = None if instance_id is None else group.static_members.get(instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known_id
        elif member_id in group.pending:
            self._forget(group, member_id)
            return ErrorCode.NONE
        elif error := group.member_error(member_id, instance_id):
            return error
        log.info("group %s: member %s leaves", group.group_id, member_id)
        self._remove(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        return ErrorCode.NONE

    def _session_is_over(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        if member.awaits_rebalance:
            return
        log.info("group %s: member %s failed", group.group_id, member.member_id)
        self._remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is not GroupState.PREPARING_REBALANCE:
            self._prepare_rebalance(group, now_ms)
        elif group.all_joined:
            self._complete_join(group, now_ms)

    def _patience_is_over(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """Somebody asked for a member id and never used it."""
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            self._complete_join(group, now_ms)

    def _keep_alive(self, member: Member, now_ms: int) -> None:
        self._deadlines.set(member.session, now_ms + member.session_timeout_ms)

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member or pending id, if it is one."""
        if (patience := group.pending.get(member_id)) is not None:
            self._deadlines.clear(patience)
            group.remove(member_id)
        elif (member := group.members.get(member_id)) is not None:
            self._remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)

    def _remove(self, group: ClassicGroup, member: Member, error: ErrorCode) -> None:
        """Remove a member; if a request of it is parked, `error` makes it look again if it is still there."""
        self._answer_parked(group, member, error, "")
        self._deadlines.clear(member.session)
        group.remove(member.member_id)

    def _answer_parked(self, group: ClassicGroup, member: Member, error: ErrorCode, member_id: str) -> None:
        if (join_reply := member.join_reply) is not None:
            group.await_join(member, None)
            _refuse(join_reply, error, member_id)
        if (sync_reply := member.sync_reply) is not None:
            member.sync_reply = None
            sync_reply(SyncGroupResponse(error_code=error))


def _refuse(reply: JoinReply, error: ErrorCode, member_id: str) -> None:
    reply(JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None))


def _current_generation(
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
