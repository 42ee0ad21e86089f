"""Maintenance of the groups of a partition without requests: ends of transactions, deleted topics, and expiry. It is done by
jobs, as the number of groups and offsets is not limited. A shard has one job of each kind at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...protocol.wire import ZERO_UUID
from ..coordination.deadlines import Deadlines
from ..coordination.jobs import Job, for_each
from ..partitions.internal_topics import OFFSETS_TOPIC
from .assigning.topics import TopicView
from .offset_commits import Commits
from .offset_table import TopicId
from .settings import GroupSettings
from .shard import AnyGroup, GroupShard
from .share.group import ShareGroup
from .share.protocol import ShareProtocol


class GroupMaintenance:
    """
    Args:
        start_job: Function that starts a job of a shard, which ends when the shard is unloaded.
        drop: Function that forgets a group without members.
    """

    def __init__(
        self,
        settings: GroupSettings,
        deadlines: Deadlines,
        topics: TopicView,
        commits: Commits,
        share: ShareProtocol,
        start_job: Callable[[GroupShard, Job], None],
        drop: Callable[[GroupShard, AnyGroup, int], None],
    ) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._topics = topics
        self._commits = commits
        self._share = share
        self._start_job = start_job
        self._drop = drop

    # Transactions

    def settle(self, shard: GroupShard) -> None:
        """Start a job that applies the ended transactions, if any are left."""
        if not shard.offsets.is_settled and not shard.is_settling:
            shard.is_settling = True
            self._start_job(shard, self._settle_each(shard))

    @staticmethod
    def _settle_each(shard: GroupShard) -> Job:
        while not shard.offsets.is_settled:
            shard.offsets.settle_some()
            yield
        shard.is_settling = False

    # Deleted topics

    def forget_gone(self, shard: GroupShard, now_ms: int) -> None:
        """Forget the offsets of topics that were deleted while this partition could not be written: the process had died, or
        the partition was loading, had no leader or was refused by the disk."""
        gone = {
            (name, topic_id)
            for name, topic_id in shard.topics_seen
            if (present := self._topics.id_of(name)) is None or topic_id not in (present, ZERO_UUID)
        }
        shard.topics_seen.clear()
        self.forget(shard, gone, now_ms)

    def forget(self, shard: GroupShard, gone: Collection[TopicId], now_ms: int) -> None:
        """Forget the offsets, and the states of share groups, in these topics."""
        shard.topics_gone.update(gone)
        # All topics that are deleted during the job are handled by one further pass over the groups.
        if shard.topics_gone and not shard.is_forgetting:
            shard.is_forgetting = True
            self._start_job(shard, self._forget_each(shard, now_ms))

    def _forget_each(self, shard: GroupShard, now_ms: int) -> Job:
        while shard.topics_gone:
            gone, shard.topics_gone = frozenset(shard.topics_gone), set()
            yield from for_each(
                tuple(shard.offsets.groups()),
                lambda group_id, gone=gone: self._commits.forget(shard, group_id, gone, now_ms),  # type: ignore[misc]
                f"cannot delete offsets of deleted topics in {OFFSETS_TOPIC}-{shard.partition}",
            )
            yield from for_each(
                [group for group in shard.groups.values() if isinstance(group, ShareGroup)],
                lambda group, gone=gone: self._forget_states(shard, group, gone, now_ms),  # type: ignore[misc]
                f"cannot remove deleted topics from share groups in {OFFSETS_TOPIC}-{shard.partition}",
            )
        shard.is_forgetting = False

    def _forget_states(self, shard: GroupShard, group: ShareGroup, gone: Collection[TopicId], now_ms: int) -> Job:
        """Remove the states in these topics from a share group; the share coordinator forgets them by itself."""
        if shard.groups.get(group.group_id) is group:
            self._share.forget_topics(shard, group, {topic_id for _, topic_id in gone}, now_ms)
        yield

    # Expiry

    def expire(self, shard: GroupShard, now_ms: int) -> None:
        """Remove expired offsets, and groups that are left without members and offsets, and schedule the next time."""
        self.repeat_expiry(shard)

        def expire(group: AnyGroup) -> Job:
            if (yield from self._commits.expire(shard, group, now_ms)):
                self._drop(shard, group, now_ms)

        failing = f"cannot expire offsets in {OFFSETS_TOPIC}-{shard.partition}"
        self._start_job(shard, for_each(tuple(shard.groups.values()), expire, failing))

    def repeat_expiry(self, shard: GroupShard) -> None:
        """Schedule the next expiry of offsets."""
        self._deadlines.start(shard.expiry, self._settings.offsets_retention_check_interval_ms)
