"""When members of reconciled groups are given up: sessions that end, and rebalances that they do not follow in time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ...protocol.errors import KafkaError
from ..coordination.deadlines import Deadline, Deadlines
from .reconciled import ReconciledGroup

if TYPE_CHECKING:
    from .shard import GroupShard

log = logging.getLogger("ottla.groups")

# When a member is to be removed and the partition cannot be written, it is tried again after this time.
_RETRY_MS = 500


class Limited(Protocol):
    """A member that has some time to follow a rebalance."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...


Group = TypeVar("Group", bound=ReconciledGroup[Any, Any])


class MemberTimers(Generic[Group]):
    """Sets the deadlines that the groups hold.

    Args:
        remove: Takes a member out of (shard, group, member id, now_ms). Raises KafkaError if that cannot be written down.
    """

    def __init__(self, deadlines: Deadlines, remove: Callable[[GroupShard, Group, str, int], None]) -> None:
        self._deadlines = deadlines
        self._remove = remove

    def keep_alive(self, shard: GroupShard, group: Group, member_id: str, timeout_ms: int) -> None:
        """The member has sent something: its session starts again."""
        session = group.sessions.get(member_id)
        if session is None:
            session = group.sessions[member_id] = Deadline(partial(self._session_is_over, shard, group, member_id))
        self._deadlines.start(session, timeout_ms)

    def limit(self, shard: GroupShard, group: Group, member: Limited) -> None:
        """Give the member its rebalance time-out to do what it was told; a time that runs already stays."""
        if member.member_id not in group.waits:
            wait = Deadline(partial(self._wait_is_over, shard, group, member.member_id, member.epoch))
            group.waits[member.member_id] = wait
            self._deadlines.start(wait, member.rebalance_timeout_ms)

    def unlimit(self, group: Group, member_id: str) -> None:
        """The member did what it was told."""
        if (wait := group.waits.pop(member_id, None)) is not None:
            self._deadlines.forget(wait)

    def stop(self, group: Group, member_id: str) -> None:
        """The member is gone."""
        self.unlimit(group, member_id)
        if (session := group.sessions.pop(member_id, None)) is not None:
            self._deadlines.forget(session)

    def _session_is_over(self, shard: GroupShard, group: Group, member_id: str, now_ms: int) -> None:
        if shard.serves(group):
            log.info("group %s: member %s failed", group.group_id, member_id)
            self._try_to_remove(shard, group, member_id, group.sessions[member_id], now_ms)

    def _wait_is_over(self, shard: GroupShard, group: Group, member_id: str, epoch: int, now_ms: int) -> None:
        if not shard.serves(group):
            return
        wait = group.waits.pop(member_id)
        # A static member may have left for a while since.
        if group.members[member_id].epoch == epoch:
            log.info("group %s: member %s exceeded the rebalance timeout", group.group_id, member_id)
            group.waits[member_id] = wait
            self._try_to_remove(shard, group, member_id, wait, now_ms)

    def _try_to_remove(self, shard: GroupShard, group: Group, member_id: str, deadline: Deadline, now_ms: int) -> None:
        try:
            self._remove(shard, group, member_id, now_ms)
        except KafkaError as error:
            log.warning("group %s: cannot remove member %s yet: %s", group.group_id, member_id, error)
            self._deadlines.start(deadline, _RETRY_MS)
