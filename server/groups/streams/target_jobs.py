"""Target assignments of streams groups that are not made in the turn of a heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from ...coordination.deadlines import Deadline, Deadlines
from ...coordination.jobs import Job
from ...coordination.store import RecordStore
from ..reconciled_protocol import assigning
from ..records import write_record
from ..settings import GroupSettings
from . import records, targets
from .group import StreamsGroup

if TYPE_CHECKING:
    from ..shard import GroupShard


class TargetJobs:
    """Targets that are not made in the turn of a heartbeat: those of large groups, and of groups that have waited for more members.

    Args:
        start_job: Function that starts a job of a shard, which ends when the shard is unloaded.
    """

    def __init__(
        self,
        settings: GroupSettings,
        store: RecordStore,
        deadlines: Deadlines,
        start_job: Callable[[GroupShard, Job], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._deadlines = deadlines
        self._elapsed_ms = deadlines.elapsed_ms
        self._start_job = start_job

    def await_members(self, shard: GroupShard, group: StreamsGroup) -> None:
        """Start the wait for more members of a group that has its first member, unless it waits already."""
        delay_ms = self._settings.of_group(group.group_id)["streams.initial.rebalance.delay.ms"]
        if delay_ms > 0 and group.initial_delay is None:
            group.initial_delay = Deadline(partial(self._delay_is_over, shard, group))
            self._deadlines.start(group.initial_delay, delay_ms)

    def stop_waiting(self, group: StreamsGroup) -> None:
        """Stop the wait of a group that was deleted."""
        if group.initial_delay is not None:
            self._deadlines.forget(group.initial_delay)
            group.initial_delay = None

    def _delay_is_over(self, shard: GroupShard, group: StreamsGroup, now_ms: int) -> None:
        """End the wait of a group for more members. If its last target is too young, it had members before and gets no target
        yet."""
        group.initial_delay = None
        if not shard.serves(group) or not group.members:
            return
        since_ms = inf if group.assigned_at_ms is None else self._elapsed_ms() - group.assigned_at_ms
        if since_ms >= self._settings.of_group(group.group_id)["streams.assignment.interval.ms"]:
            self.start(shard, group, now_ms)

    def start(self, shard: GroupShard, group: StreamsGroup, now_ms: int) -> None:
        if not group.is_assigning and group.assignment_epoch < group.epoch:
            group.is_assigning = True
            self._start_job(shard, self._assign(shard, group, now_ms))

    def _assign(self, shard: GroupShard, group: StreamsGroup, now_ms: int) -> Job:
        """Make a target assignment for the group in its present state; members get their parts at their next heartbeats.

        Any change of the group during the job brings it to a later epoch, for which another target is made.
        """
        epoch, members, configured = group.epoch, dict(group.members), group.configured
        offsets = dict(group.task_offsets)
        with assigning(group, self._elapsed_ms):
            # The group was reloaded before the job ran, and the next heartbeat looks up the topics. Or the last member has
            # left, and the next member that joins brings the group to its next epoch.
            if configured is None or not members:
                return
            found = yield from targets.new_targets(members, offsets, configured, dict(group.assignment_configs))
            whole = yield from targets.target_records(group, found, self._store.max_batch_bytes(shard.partition))
            # If all members have left during the job, the group is in a later epoch, in which nothing is left to assign.
            if shard.groups.get(group.group_id) is group and group.assignment_epoch < epoch:
                targets.amended(group, whole, found, members)
                last = records.target_metadata(group.group_id, epoch, now_ms)
                whole.records.add(write_record(*last))
                self._store.append(shard.partition, whole.records, now_ms)
                group.targets.update(whole.given)
                shard.apply([last])
