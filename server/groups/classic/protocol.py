"""The classic group protocol: the effects of joins, heartbeats, leaves and time-outs on a group.

`groups.coordinator` calls it with the group. Every call has `now_ms`; parked requests are answered through their callbacks, and
everything that must happen later is a deadline. This module decides what causes a rebalance; `rebalance` runs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.join_group import JoinGroupRequest
from ....protocol.messages.leave_group import MemberIdentity, MemberResponse
from ...coordination.deadlines import Deadline, Deadlines
from ...coordination.jobs import Job
from ..settings import MAX_PENDING_IDS, NAME_CHARS_IN_MEMBER_ID, NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from .group import ClassicGroup, ClassicMember, ClassicState, JoinReply, Protocols
from .rebalance import Persist, Rebalancing, StartJob, refuse

log = logging.getLogger("ottla.groups")

# The first version of JoinGroup in which a new member must join again with the id that it is given (KIP-394).
KNOWN_MEMBER_ID_VERSION = 4
# The first version of JoinGroup whose answer can ask the leader not to assign (KIP-814).
_SKIP_ASSIGNMENT_VERSION = 9


class Caller(NamedTuple):
    """Sender and version of a JoinGroup or heartbeat."""

    client_id: str
    client_host: str
    version: int
    sees: Callable[[str], bool] | None = None
    """Whether the client may know of the topic with this name; None: it may know of every topic."""


class Joining(NamedTuple):
    """A JoinGroup that is being handled, and the callback for its answer."""

    request: JoinGroupRequest
    protocols: Protocols
    caller: Caller
    now_ms: int
    reply: JoinReply


class ClassicProtocol:
    """The rules of classic groups over time. All state is in the groups.

    Args:
        is_served: Whether a group is still served. Groups that are not are closed one after the other; their deadlines have no
            effect until then.
    """

    def __init__(
        self,
        settings: GroupSettings,
        deadlines: Deadlines,
        persist: Persist,
        new_id: Callable[[], str],
        start_job: StartJob,
        is_served: Callable[[ClassicGroup], bool],
    ) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._persist = persist
        self._new_id = new_id
        self._is_served = is_served
        self.rebalancing = Rebalancing(settings, deadlines, persist, start_job)

    def new_group(self, group_id: str, partition: int, now_ms: int) -> ClassicGroup:
        """Return an empty group whose deadlines call this object."""
        group = ClassicGroup(
            group_id,
            now_ms,
            partition=partition,
            rejoin=Deadline(lambda at_ms: self._is_due(group, self.rebalancing.rejoin_time_is_over, at_ms)),
            sync_by=Deadline(lambda at_ms: self._is_due(group, self.rebalancing.sync_time_is_over, at_ms)),
        )
        return group

    def _is_due(self, group: ClassicGroup, act: Callable[[ClassicGroup, int], None], now_ms: int) -> None:
        if self._is_served(group):
            act(group, now_ms)

    def adopt(self, group: ClassicGroup, member: ClassicMember) -> ClassicMember:
        """Give a new or loaded member a session deadline that calls this object. The deadline is not set yet."""
        member.session = Deadline(lambda at_ms: self._session_is_over(group, member, at_ms))
        return member

    def loaded(self, group: ClassicGroup, now_ms: int) -> Job:
        """Take over a loaded group: its members have a full session time to send a request, unless they already have."""
        for member in tuple(group.members.values()):
            if group.members.get(member.member_id) is member and member.session.due_ms is None:
                self.rebalancing.keep_alive(member)
            yield
        if len(group.members) > self._settings.group_max_size and group.can_rebalance:
            self.rebalancing.start(group, now_ms)

    def take_up(self, group: ClassicGroup, now_ms: int) -> None:
        """Run `loaded`, at once if the group is small."""
        self.rebalancing.do(group, self.loaded(group, now_ms))

    def close(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> Job:
        """End a group that is deleted or no longer led by this broker, a member a piece. Parked requests are answered with
        `error`."""
        group.enter(ClassicState.DEAD, now_ms)
        self._deadlines.forget(group.rejoin)
        self._deadlines.forget(group.sync_by)
        for patience in group.pending.values():
            self._deadlines.forget(patience)
        for member in tuple(group.members.values()):
            self.rebalancing.remove(group, member, error)
            self._deadlines.forget(member.session)
            yield

    # JoinGroup

    def join(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, now_ms: int, reply: JoinReply
    ) -> None:
        """Handle a JoinGroup; `reply` is called exactly once, now or when the rebalance completes.

        The answer's error: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED (with the id to join with),
        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, or the error of writing the group's record.
        """
        member_id, instance_id = request.member_id, request.group_instance_id
        protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        joining = Joining(request, protocols, caller, now_ms, reply)
        if not self._has_room(group, member_id):
            self._forget(group, member_id)
            refuse(reply, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif not group.supports(request.protocol_type, protocols):
            refuse(reply, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not member_id:
            new_id = f"{(instance_id or caller.client_id)[:NAME_CHARS_IN_MEMBER_ID]}-{self._new_id()}"
            known_id = None if instance_id is None else group.static_members.get(instance_id)
            if known_id is not None:
                self._replace_static(group, group.members[known_id], new_id, joining)
            elif instance_id is None and caller.version >= KNOWN_MEMBER_ID_VERSION:
                if len(group.pending) >= MAX_PENDING_IDS:
                    self._forget(group, next(iter(group.pending)))
                patience = group.pending[new_id] = Deadline(partial(self._patience_is_over, group, new_id))
                self._deadlines.start(patience, request.session_timeout_ms)
                refuse(reply, ErrorCode.MEMBER_ID_REQUIRED, new_id)
            else:
                self._add(group, new_id, joining)
        elif member_id in group.pending:
            if instance_id is not None:
                # Ids are only given to dynamic members; Apache Kafka fails in the same place.
                refuse(reply, ErrorCode.UNKNOWN_SERVER_ERROR, "")
                return
            self._forget(group, member_id)
            self._add(group, member_id, joining)
        elif error := group.member_error(member_id, instance_id):
            refuse(reply, error, member_id)
        else:
            self._rejoin(group, group.members[member_id], joining)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether a join is within `group.max.size`.

        During a rebalance the limit counts the members that have joined, so the last members to rejoin a too large group must
        leave. Otherwise it counts all members, and present members may stay.
        """
        match group.state:
            case ClassicState.EMPTY | ClassicState.DEAD:
                return True
            case ClassicState.PREPARING_REBALANCE:
                member = group.members.get(member_id)
                has_joined = member is not None and member.join_reply is not None
                return has_joined or group.awaiting_join_count < self._settings.group_max_size
            case _:
                return member_id in group.members or len(group.members) < self._settings.group_max_size

    def _add(self, group: ClassicGroup, member_id: str, joining: Joining) -> None:
        request, protocols, caller, now_ms, reply = joining
        member = self.adopt(
            group,
            ClassicMember(
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
        if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
            group.new_member_added = True
        group.add(member, reply)
        self._deadlines.start(member.session, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalancing.start_or_complete(group, now_ms)

    def _rejoin(self, group: ClassicGroup, member: ClassicMember, joining: Joining) -> None:
        """Handle a JoinGroup of a present member. It causes a rebalance if the member has changed or leads a stable group."""
        request, protocols, _, now_ms, reply = joining
        has_news = member.protocols != protocols
        is_leader = group.leader == member.member_id
        if group.state is ClassicState.COMPLETING_REBALANCE and not has_news:
            # The member may not have received the coordinator's answer; the generation is still the same.
            self.rebalancing.answer_join_again(group, member, reply, with_members=is_leader)
        elif group.state is ClassicState.STABLE and not has_news and not is_leader:
            self.rebalancing.answer_join_again(group, member, reply, with_members=False)
        else:
            superseded = member.join_reply
            group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
            group.await_join(member, reply)
            if superseded is not None:
                refuse(superseded, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            self.rebalancing.start_or_complete(group, now_ms)

    def _replace_static(self, group: ClassicGroup, member: ClassicMember, new_id: str, joining: Joining) -> None:
        """Handle a static member that returned without its member id: it takes its old place under a new id, and a client that
        still uses the old id is fenced. A stable group needs no rebalance unless its protocol changes."""
        request, protocols, caller, now_ms, reply = joining
        old_id, old_leader = member.member_id, group.leader
        old_terms = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        self.rebalancing.answer_parked(group, member, ErrorCode.FENCED_INSTANCE_ID, old_id)
        group.rename(member, new_id)
        group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        group.await_join(member, reply)
        self.rebalancing.keep_alive(member)
        if group.state is ClassicState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id at this moment.
            self.rebalancing.start(group, now_ms)
        elif group.state is not ClassicState.STABLE:
            self.rebalancing.complete_if_all_joined(group, now_ms)
        elif group.select_protocol() != group.protocol_name:
            self.rebalancing.start(group, now_ms)
        else:
            group.await_join(member, None)
            try:
                self._persist(group, {one.member_id: one.assignment for one in group.members.values()}, now_ms)
            except KafkaError as error:
                log.warning("group %s: cannot replace the ID of static member %s: %s", group.group_id, old_id, error)
                group.update(member, *old_terms)
                group.rename(member, old_id)
                refuse(reply, error.code, "")
                return
            if caller.version >= _SKIP_ASSIGNMENT_VERSION:
                is_leader = group.leader == new_id
                self.rebalancing.answer_join_again(
                    group, member, reply, with_members=is_leader, skip_assignment=is_leader
                )
            else:
                # A leader of that version would assign again if it knew that it leads, and the coordinator would not use the
                # result.
                self.rebalancing.answer_join_again(group, member, reply, with_members=False, leader=old_leader)

    # Heartbeat, LeaveGroup, failures

    def heartbeat(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Keep a member alive. The answer REBALANCE_IN_PROGRESS asks it to join again."""
        if error := group.member_error(member_id, instance_id):
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.rebalancing.keep_alive(group.members[member_id])
        if group.state is ClassicState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def committed(self, group: ClassicGroup, member_id: str) -> None:
        """Count a commit as a sign of life, except when the member should be syncing."""
        if group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            self.rebalancing.keep_alive(group.members[member_id])

    def leave(self, group: ClassicGroup, leaving: Sequence[MemberIdentity], now_ms: int) -> tuple[MemberResponse, ...]:
        """Remove members at their own request, or static members by instance id at an administrator's request.

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
        if has_left and group.state is not ClassicState.EMPTY:
            self.rebalancing.start_or_complete(group, now_ms)
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
        self.rebalancing.remove(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        return ErrorCode.NONE

    def _session_is_over(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        if member.awaits_rebalance or not self._is_served(group):
            return
        log.info("group %s: member %s failed", group.group_id, member.member_id)
        self.rebalancing.remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is not ClassicState.PREPARING_REBALANCE:
            self.rebalancing.start(group, now_ms)
        elif group.all_joined:
            self.rebalancing.complete(group, now_ms)

    def _patience_is_over(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """Remove a member id that a client was given and never used."""
        if not self._is_served(group):
            return
        group.remove(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE and group.all_joined:
            self.rebalancing.complete(group, now_ms)

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member or pending member id, if one has this id."""
        if (patience := group.pending.get(member_id)) is not None:
            self._deadlines.clear(patience)
            group.remove(member_id)
        elif (member := group.members.get(member_id)) is not None:
            self.rebalancing.remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
