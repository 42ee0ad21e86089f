"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup for any kind of group: a classic one, a consumer group that accepts classic
members (KIP-848), or one without members, which a classic group may replace.

Every method needs an active shard, and raises KafkaError if the whole request fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ...protocol.messages.leave_group import MemberIdentity, MemberResponse
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..coordination.jobs import Job, to_the_end
from ..coordination.store import RecordStore
from .classic.group import ClassicGroup, JoinReply, SyncReply, size_of
from .classic.protocol import Caller, ClassicProtocol
from .classic.rebalance import refuse
from .classic.records import group_value
from .consumer.classic_members import ClassicMembers
from .consumer.group import ConsumerGroup
from .consumer.records import tombstones
from .records import group_key, write_record
from .settings import PROTOCOL_BATCHES_MAX, PROTOCOLS_MAX, GroupSettings
from .shard import AnyGroup, GroupShard
from .streams.group import StreamsGroup
from .streams.records import tombstones as streams_tombstones


class ClassicRequests:
    """
    Args:
        close: Job that ends a group that is no longer served.
    """

    def __init__(
        self,
        settings: GroupSettings,
        store: RecordStore,
        classic: ClassicProtocol,
        members: ClassicMembers,
        close: Callable[[AnyGroup, ErrorCode, int], Job],
    ) -> None:
        self._settings = settings
        self._store = store
        self._classic = classic
        self._classic_members = members
        self._close = close

    def check_session_timeout(self, request: JoinGroupRequest) -> None:
        """Raise KafkaError INVALID_SESSION_TIMEOUT unless the session time-out is within its bounds."""
        least_ms, most_ms = self._settings.group_min_session_timeout_ms, self._settings.group_max_session_timeout_ms
        if not least_ms <= request.session_timeout_ms <= most_ms:
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"session timeout {request.session_timeout_ms} ms is not between {least_ms} and {most_ms}",
            )

    def join(self, shard: GroupShard, request: JoinGroupRequest, caller: Caller, now_ms: int, reply: JoinReply) -> None:
        """See `GroupCoordinator.join`. The group must not be under deletion."""
        group = shard.groups.get(request.group_id)
        self._check_protocols(shard, group, request)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            try:
                reply(self._classic_members.join(shard, group, request, caller, now_ms))
            except KafkaError as error:
                refuse(reply, error.code, "")
            return
        replaceable = group is None or isinstance(group, ClassicGroup | ConsumerGroup)
        if not replaceable and not (isinstance(group, StreamsGroup) and group.is_empty):
            refuse(reply, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
            return
        if not isinstance(group, ClassicGroup):
            if request.member_id:
                reply(
                    JoinGroupResponse(
                        error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id, protocol_name=None
                    )
                )
                return
            new = self._classic.new_group(request.group_id, shard.partition, now_ms)
            replaced: Iterable[tuple[Any, Any]] = ()
            if isinstance(group, ConsumerGroup):
                replaced = tombstones(group.group_id, (), group.regexes)
            elif group is not None:
                replaced = streams_tombstones(group.group_id, ())
            # Apache Kafka writes the group even if this first member is then refused.
            made = group_key(new.group_id), group_value(new, {})
            self._store.append(shard.partition, [*(write_record(*change) for change in replaced), made], now_ms)
            if group is not None:
                to_the_end(self._close(group, ErrorCode.NONE, now_ms))  # It has no members.
            group = shard.groups[request.group_id] = new
        self._classic.join(group, request, caller, now_ms, reply)

    def _check_protocols(self, shard: GroupShard, group: object, request: JoinGroupRequest) -> None:
        """Limit the size of a member's protocols: they are kept as long as the member, and sent to leaders again and again."""
        if len(request.protocols) > PROTOCOLS_MAX:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"too many protocols of a member ({len(request.protocols)}, limit {PROTOCOLS_MAX})",
            )
        size_bytes = size_of(tuple((one.name, one.metadata) for one in request.protocols))
        if isinstance(group, ClassicGroup):
            known = group.members.get(request.member_id)
            size_bytes += group.protocol_bytes - (0 if known is None else size_of(known.protocols))
        most_bytes = PROTOCOL_BATCHES_MAX * self._store.max_batch_bytes(shard.partition)
        if size_bytes > most_bytes:
            # The same error as for a group that cannot be written.
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"protocols of all members too large ({size_bytes} bytes, limit {most_bytes})",
            )

    def sync(self, shard: GroupShard, request: SyncGroupRequest, now_ms: int, reply: SyncReply) -> None:
        """Handle a SyncGroup; `reply` is called exactly once, perhaps later (`Rebalancing.sync`,
        `ClassicMembers.sync`), unless KafkaError is raised."""
        match shard.groups.get(request.group_id):
            case ConsumerGroup() as group:
                reply(self._classic_members.sync(shard, group, request))
            case ClassicGroup() as group:
                self._classic.rebalancing.sync(group, request, now_ms, reply)
            case _:
                reply(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(
        self, shard: GroupShard, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Keep a member alive (`ClassicProtocol.heartbeat`, `ClassicMembers.heartbeat`)."""
        match shard.groups.get(group_id):
            case ConsumerGroup() as group:
                return self._classic_members.heartbeat(shard, group, member_id, instance_id, generation)
            case ClassicGroup() as group:
                return self._classic.heartbeat(group, member_id, instance_id, generation)
            case _:
                return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(
        self, shard: GroupShard, group_id: str, leaving: Sequence[MemberIdentity], now_ms: int
    ) -> tuple[MemberResponse, ...]:
        """`ClassicProtocol.leave` or `ClassicMembers.leave`. No member is known in a group that does not exist or is of another
        kind."""
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(shard, group, leaving, now_ms)
        if isinstance(group, ClassicGroup):
            return self._classic.leave(group, leaving, now_ms)
        return same_error(leaving, ErrorCode.UNKNOWN_MEMBER_ID)


def same_error(members: Sequence[MemberIdentity], error: ErrorCode) -> tuple[MemberResponse, ...]:
    """Return the same error for all these members."""
    return tuple(
        MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error)
        for one in members
    )
