"""The common rules of consumer, share and streams groups: what is done with a group after a load and at its end, session
time-outs, and topic changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.deadlines import Deadline, Deadlines
from ..coordination.jobs import Job
from ..coordination.store import RecordStore
from .assigning.metadata_hash import MetadataHashes
from .assigning.topics import TopicChanges, TopicView
from .reconciled import ReconciledGroup
from .settings import ASSIGN_AGAIN_MS, UNSETTLED_HEARTBEATS_PER_S, UNSETTLED_MS, GroupSettings

if TYPE_CHECKING:
    from .shard import GroupShard

log = logging.getLogger("ottla.groups")

# If a member must be removed and the partition cannot be written, the removal is tried again after this time.
_RETRY_MS = 500


class Limited(Protocol):
    """A member with a rebalance time-out."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...


Group = TypeVar("Group", bound=ReconciledGroup[Any, Any])


class MemberTimers(Generic[Group]):
    """When members are given up: sessions that end, and rebalances that they do not follow in time. Sets the deadlines that the groups hold.

    Args:
        remove: Takes a member out of (shard, group, member id, now_ms). Raises KafkaError if that cannot be written down.
    """

    def __init__(self, deadlines: Deadlines, remove: Callable[[GroupShard, Group, str, int], None]) -> None:
        self._deadlines = deadlines
        self._remove = remove

    def keep_alive(self, shard: GroupShard, group: Group, member_id: str, timeout_ms: int) -> None:
        """Restart the member's session, as it has sent something."""
        session = group.sessions.get(member_id)
        if session is None:
            session = group.sessions[member_id] = Deadline(partial(self._session_is_over, shard, group, member_id))
        self._deadlines.start(session, timeout_ms)

    def limit(self, shard: GroupShard, group: Group, member: Limited) -> None:
        """Start the member's rebalance time-out, unless it runs already."""
        if member.member_id not in group.waits:
            wait = Deadline(partial(self._wait_is_over, shard, group, member.member_id, member.epoch))
            group.waits[member.member_id] = wait
            self._deadlines.start(wait, member.rebalance_timeout_ms)

    def unlimit(self, group: Group, member_id: str) -> None:
        """Stop the member's rebalance time-out, as the member has done its step."""
        if (wait := group.waits.pop(member_id, None)) is not None:
            self._deadlines.forget(wait)

    def stop(self, group: Group, member_id: str) -> None:
        """Stop the timers of a member that was removed."""
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
        # A static member may have left for a while since the start.
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


class ReconciledProtocol(Generic[Group]):
    """The rules of one kind of groups over time. All state is in the groups.

    Args:
        remove: Takes a member out of (shard, group, member id, now_ms). Raises KafkaError if that cannot be written down.
    """

    kind: ClassVar[str]
    """Start of the names of its group options."""

    def __init__(
        self,
        settings: GroupSettings,
        store: RecordStore,
        deadlines: Deadlines,
        topics: TopicView,
        remove: Callable[[GroupShard, Group, str, int], None],
    ) -> None:
        self.timers = MemberTimers[Group](deadlines, remove)
        self._elapsed_ms = deadlines.elapsed_ms
        self._settings = settings
        self._store = store
        self._topics = topics
        self._hashes = MetadataHashes(topics)
        self._changes = TopicChanges()

    def loaded(self, shard: GroupShard, group: Group, now_ms: int) -> Job:
        """Take over a loaded group: its members have a full session time to send a request, unless they already have.

        The age of a record can only be measured by the wall clock; if that was set back since, the age counts as 0.
        """
        if group.assignment_ms:
            group.assigned_at_ms = self._elapsed_ms() - max(0, now_ms - group.assignment_ms)
        for member_id in tuple(group.members):
            member = group.members.get(member_id)
            if member is not None and shard.groups.get(group.group_id) is group:
                if member_id not in group.sessions:
                    self.keep_alive(shard, group, member)
                if member_id not in group.waits:
                    self._await_revocation(shard, group, member)
            yield

    def close(self, group: Group) -> Job:
        """Stop the timers of a group that was deleted or is no longer served, a member a piece."""
        group.bell.ring()
        group.released.ring()
        for member_id in tuple(group.sessions):
            self.timers.stop(group, member_id)
            yield

    def keep_alive(self, shard: GroupShard, group: Group, member: Any) -> None:
        """Restart the member's session, as it has sent something."""
        timeout_ms = self._settings.of_group(group.group_id)[f"{self.kind}.session.timeout.ms"]
        self.timers.keep_alive(shard, group, member.member_id, timeout_ms)

    def is_quiet(self, group: Group, member: Any) -> bool:
        """Whether the member has its part of the newest target, so that it has nothing to do before the group changes. Called
        after its heartbeat, which looks up the topics if they have changed."""
        raise NotImplementedError

    def is_waiting(self, group: Group, member: Any) -> bool:
        """Whether the member lacks a part of its target that others must give up first, or the newest target is not made yet."""
        return group.assignment_epoch < group.epoch

    def heartbeat_interval_ms(self, group: Group, member: Any, options: Mapping[str, Any]) -> int:
        """Return the interval in which the member must send heartbeats: short where heartbeats are held and the member is not
        quiet, as its next step needs one.

        Args:
            options: The group's (`GroupSettings.of_group`).
        """
        interval_ms = int(options[f"{self.kind}.heartbeat.interval.ms"])
        if not self._settings.ottla_hold_heartbeats or self.is_quiet(group, member):
            return interval_ms
        return min(interval_ms, max(UNSETTLED_MS, 1000 * len(group.members) // UNSETTLED_HEARTBEATS_PER_S))

    def _await_revocation(self, shard: GroupShard, group: Group, member: Any) -> None:
        """Start the time-out for a member that must give up partitions or tasks. It restarts with each of the member's
        steps."""

    def topics_changed(self, names: Collection[str]) -> None:
        """Note topics that were created, deleted or got more partitions. The groups concerned use that at the next heartbeat of
        any member."""
        self._hashes.topics_changed(names)
        self._changes.add(names)


@contextmanager
def assigning(group: ReconciledGroup[Any, Any], elapsed_ms: Callable[[], int]) -> Iterator[None]:
    """Context in which a target assignment is made. A KafkaError ends it: the group keeps its target until the next one is
    due. If all members have left, the next member that joins does not wait for a target."""
    wait_ms, epoch = 0, group.epoch
    try:
        yield
    except KafkaError as error:
        log.warning("group %s: cannot make a new assignment: %s", group.group_id, error)
        if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:  # the target is too large: another try would fail again
            wait_ms = ASSIGN_AGAIN_MS
    finally:
        group.is_assigning = False
        if group.members and group.assignment_epoch <= epoch:
            group.assigned_at_ms = elapsed_ms() + wait_ms
