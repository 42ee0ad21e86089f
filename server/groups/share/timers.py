"""When members of share groups are given up: sessions that end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ....protocol.errors import KafkaError
from ...coordination.deadlines import Deadline, Deadlines
from ...coordination.shard import ShardState
from ..settings import GroupSettings
from .group import ShareGroup

if TYPE_CHECKING:
    from ..shard import Shard

log = logging.getLogger("ottla.groups")

# When a member is to be removed and the partition cannot be written, it is tried again after this time.
_RETRY_MS = 500

Remove: TypeAlias = "Callable[[Shard, ShareGroup, str, int], None]"
"""Take a member out of (shard, group, member id, now_ms). Raises KafkaError if that cannot be written down."""


class Sessions:
    """Sets the deadlines that the groups hold."""

    def __init__(self, settings: GroupSettings, deadlines: Deadlines, remove: Remove) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._remove = remove

    def keep_alive(self, shard: Shard, group: ShareGroup, member_id: str) -> None:
        """The member showed a sign of life: its session starts anew."""
        session = group.sessions.get(member_id)
        if session is None:
            session = group.sessions[member_id] = Deadline(partial(self._session_is_over, shard, group, member_id))
        self._deadlines.start(session, self._settings.of_group(group.group_id, "share.session.timeout.ms"))

    def stop(self, group: ShareGroup, member_id: str) -> None:
        """The member is gone."""
        if (session := group.sessions.pop(member_id, None)) is not None:
            self._deadlines.forget(session)

    def _session_is_over(self, shard: Shard, group: ShareGroup, member_id: str, now_ms: int) -> None:
        # Groups that are not served any more are closed one after the other.
        if shard.state is not ShardState.ACTIVE or shard.groups.get(group.group_id) is not group:
            return
        log.info("group %s: member %s failed", group.group_id, member_id)
        try:
            self._remove(shard, group, member_id, now_ms)
        except KafkaError as error:
            log.warning("group %s: member %s stays for now: %s", group.group_id, member_id, error)
            self._deadlines.start(group.sessions[member_id], _RETRY_MS)
