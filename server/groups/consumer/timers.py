"""When members of consumer groups are given up: sessions that end, rebalances that they do not follow in time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ....protocol.errors import KafkaError
from ...coordination.deadlines import Deadline, Deadlines
from ...coordination.shard import ShardState
from ..settings import GroupSettings
from .group import ConsumerGroup
from .member import Member, MemberState

if TYPE_CHECKING:
    from ..shard import Shard

log = logging.getLogger("ottla.groups")

# When a member is to be removed and the partition cannot be written, it is tried again after this time.
_RETRY_MS = 500

Remove: TypeAlias = "Callable[[Shard, ConsumerGroup, list[Member], int], None]"
"""Take members out of (shard, group, members, now_ms). Raises KafkaError if that cannot be written down."""


class MemberTimers:
    """Sets the deadlines that the groups hold."""

    def __init__(self, settings: GroupSettings, deadlines: Deadlines, remove: Remove) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._remove = remove

    def keep_alive(self, shard: Shard, group: ConsumerGroup, member: Member) -> None:
        """The member showed a sign of life: its session starts anew."""
        session = group.sessions.get(member.member_id)
        if session is None:
            session = Deadline(partial(self._session_is_over, shard, group, member.member_id))
            group.sessions[member.member_id] = session
        classic = member.classic
        own = self._settings.of_group(group.group_id, "consumer.session.timeout.ms")
        timeout_ms = own if classic is None else classic.session_timeout_ms
        self._deadlines.start(session, timeout_ms)

    def await_revocation(self, shard: Shard, group: ConsumerGroup, member: Member) -> None:
        """Give a member its time to give up partitions, if it has to; the time begins anew with each of its steps."""
        self._clear(group.waits, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            self.limit(shard, group, member)

    def limit(self, shard: Shard, group: ConsumerGroup, member: Member) -> None:
        """Give the member its rebalance time-out to do what it was told; a time that runs already stays."""
        if member.member_id not in group.waits:
            wait = Deadline(partial(self._wait_is_over, shard, group, member.member_id, member.epoch))
            group.waits[member.member_id] = wait
            self._deadlines.start(wait, member.rebalance_timeout_ms)

    def unlimit(self, group: ConsumerGroup, member_id: str) -> None:
        """The member did what it was told."""
        self._clear(group.waits, member_id)

    def stop(self, group: ConsumerGroup, member_id: str) -> None:
        """The member is gone."""
        self._clear(group.sessions, member_id)
        self._clear(group.waits, member_id)

    def _clear(self, deadlines: dict[str, Deadline], member_id: str) -> None:
        if (deadline := deadlines.pop(member_id, None)) is not None:
            self._deadlines.forget(deadline)

    @staticmethod
    def _is_served(shard: Shard, group: ConsumerGroup) -> bool:
        """Whether the group is still there: those that are not are closed one after the other."""
        return shard.state is ShardState.ACTIVE and shard.groups.get(group.group_id) is group

    def _session_is_over(self, shard: Shard, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        if not self._is_served(shard, group):
            return
        log.info("group %s: member %s failed", group.group_id, member_id)
        self._try_to_remove(shard, group, member_id, group.sessions[member_id], now_ms)

    def _wait_is_over(self, shard: Shard, group: ConsumerGroup, member_id: str, epoch: int, now_ms: int) -> None:
        if not self._is_served(shard, group):
            return
        wait = group.waits.pop(member_id)
        # A static member may have left for a while since.
        if group.members[member_id].epoch == epoch:
            log.info("group %s: member %s did not do in time what the rebalance asks", group.group_id, member_id)
            group.waits[member_id] = wait
            self._try_to_remove(shard, group, member_id, wait, now_ms)

    def _try_to_remove(
        self, shard: Shard, group: ConsumerGroup, member_id: str, deadline: Deadline, now_ms: int
    ) -> None:
        try:
            self._remove(shard, group, [group.members[member_id]], now_ms)
        except KafkaError as error:
            log.warning("group %s: member %s stays for now: %s", group.group_id, member_id, error)
            self._deadlines.start(deadline, _RETRY_MS)
