"""When members of streams groups are given up: sessions that end, tasks that are not given up in time; and how long a new group
waits for more members."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ....protocol.errors import KafkaError
from ...coordination.deadlines import Deadline, Deadlines
from ...coordination.shard import ShardState
from ..settings import GroupSettings
from .group import StreamsGroup
from .member import Member, MemberState

if TYPE_CHECKING:
    from ..shard import Shard

log = logging.getLogger("ottla.groups")

# When a member is to be removed and the partition cannot be written, it is tried again after this time.
_RETRY_MS = 500

Remove: TypeAlias = "Callable[[Shard, StreamsGroup, Member, int], None]"
"""Take a member out of (shard, group, member, now_ms). Raises KafkaError if that cannot be written down."""
Assign: TypeAlias = "Callable[[Shard, StreamsGroup, int], None]"
"""Give the members of (shard, group, now_ms) their tasks, if it is time."""


class MemberTimers:
    """Sets the deadlines that the groups hold."""

    def __init__(self, settings: GroupSettings, deadlines: Deadlines, remove: Remove, assign: Assign) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._remove = remove
        self._assign = assign

    def keep_alive(self, shard: Shard, group: StreamsGroup, member: Member) -> None:
        """The member showed a sign of life: its session starts anew."""
        session = group.sessions.get(member.member_id)
        if session is None:
            session = Deadline(partial(self._session_is_over, shard, group, member.member_id))
            group.sessions[member.member_id] = session
        self._deadlines.start(session, self._settings.of_group(group.group_id, "streams.session.timeout.ms"))

    def await_revocation(self, shard: Shard, group: StreamsGroup, member: Member) -> None:
        """Give a member its time to give up tasks, if it has to; the time begins anew with each of its steps."""
        self._clear(group.waits, member.member_id)
        if member.state is MemberState.UNREVOKED_TASKS:
            wait = Deadline(partial(self._wait_is_over, shard, group, member.member_id, member.epoch))
            group.waits[member.member_id] = wait
            self._deadlines.start(wait, member.rebalance_timeout_ms)

    def await_members(self, shard: Shard, group: StreamsGroup) -> None:
        """A group without members has one now: others may follow, unless that is being waited for already."""
        delay_ms = self._settings.of_group(group.group_id, "streams.initial.rebalance.delay.ms")
        if delay_ms > 0 and group.initial_delay is None:
            group.initial_delay = Deadline(partial(self._delay_is_over, shard, group))
            self._deadlines.start(group.initial_delay, delay_ms)

    def stop(self, group: StreamsGroup, member_id: str) -> None:
        """The member is gone."""
        self._clear(group.sessions, member_id)
        self._clear(group.waits, member_id)

    def stop_waiting(self, group: StreamsGroup) -> None:
        """The group is gone."""
        if group.initial_delay is not None:
            self._deadlines.forget(group.initial_delay)
            group.initial_delay = None

    def _clear(self, deadlines: dict[str, Deadline], member_id: str) -> None:
        if (deadline := deadlines.pop(member_id, None)) is not None:
            self._deadlines.forget(deadline)

    @staticmethod
    def _is_served(shard: Shard, group: StreamsGroup) -> bool:
        """Whether the group is still there: those that are not are closed one after the other."""
        return shard.state is ShardState.ACTIVE and shard.groups.get(group.group_id) is group

    def _delay_is_over(self, shard: Shard, group: StreamsGroup, now_ms: int) -> None:
        group.initial_delay = None
        if self._is_served(shard, group) and group.members:
            self._assign(shard, group, now_ms)

    def _session_is_over(self, shard: Shard, group: StreamsGroup, member_id: str, now_ms: int) -> None:
        if self._is_served(shard, group):
            log.info("group %s: member %s failed", group.group_id, member_id)
            self._try_to_remove(shard, group, member_id, group.sessions[member_id], now_ms)

    def _wait_is_over(self, shard: Shard, group: StreamsGroup, member_id: str, epoch: int, now_ms: int) -> None:
        if self._is_served(shard, group) and group.members[member_id].epoch == epoch:
            log.info("group %s: member %s did not give up its tasks in time", group.group_id, member_id)
            self._try_to_remove(shard, group, member_id, group.waits[member_id], now_ms)

    def _try_to_remove(
        self, shard: Shard, group: StreamsGroup, member_id: str, deadline: Deadline, now_ms: int
    ) -> None:
        try:
            self._remove(shard, group, group.members[member_id], now_ms)
        except KafkaError as error:
            log.warning("group %s: member %s stays for now: %s", group.group_id, member_id, error)
            self._deadlines.start(deadline, _RETRY_MS)
