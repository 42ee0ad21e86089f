"""Leases of partitions that another process compacts.

The cleaner is kept off them for a time, and that process installs new segments.

    pause      a lease: no pass touches the partition until it is released or expires
    install    under a lease: one staged segment replaces neighbours that are still as the caller says
    resume     the lease is released; the caller may report up to where the partition is clean now

During an install the partition is in progress, so truncation and deletion wait for its end, as for a pass of the
cleaner. During the rest of a lease it is paused, and nothing has to wait.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import trio

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk import paths
from ...storage.disk.files import DamagedFileError, SyncError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.logs.staged_segment import bring_in
from ...storage.segment.batch_scan import UNREADABLE
from ...storage.segment.segment import LogSegment
from ..partitions.waits import FetchWaits
from ..runtime.clock import Clock
from ..runtime.errors import ControlError, Kind
from ..runtime.nursery import Tasks
from ..runtime.threads import Work, in_thread
from .cleaning import Cleaning

LEASE_MS_MAX = 3_600_000
"""Longest lease. A longer one must be renewed, so a job that died keeps the cleaner off no longer than this."""


@dataclass(slots=True)
class Lease:
    """Lease of a partition."""

    lease_id: str
    log: Log
    """The leased log. A new topic may get the same name."""
    due_ms: int
    """When it expires, in elapsed time."""
    lock: trio.Lock = field(default_factory=trio.Lock)
    """Held during an operation under the lease: an install may outlive the lease."""


class CleaningLeases:
    """Leases of one broker. On Trio's thread."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        cleaning: Cleaning,
        waits: FetchWaits,
        clock: Clock,
        rng: random.Random,
        tasks: Tasks,
    ) -> None:
        self.clock = clock
        self._logs = logs
        self._cleaning = cleaning
        self._waits = waits
        self._rng = rng
        self._leases: dict[TopicPartition, Lease] = {}
        self._tasks = tasks

    def get(self, tp: TopicPartition) -> Lease | None:
        """Return the lease on a partition, None if it has none."""
        return self._leases.get(tp)

    async def pause(self, tp: TopicPartition, lease_ms: int, lease_id: str | None = None) -> Lease:
        """Keep the cleaner off a partition; return once no pass touches it.

        Args:
            lease_ms: Duration from now on.
            lease_id: ID of the lease to renew.

        Raises:
            ControlError: NOT_FOUND: unknown partition; CONFLICT: another process has a lease, or this one has expired.
        """
        log = self.log_of(tp)
        clock = self.clock
        due_ms = clock.elapsed_ms() + lease_ms
        if lease_id is not None:
            lease = self._held_lease(tp, lease_id)
            lease.due_ms = self._cleaning.leased_until_ms[tp] = due_ms
            return lease
        if (other := self._leases.get(tp)) is not None:
            until_ms = clock.wall_at(other.due_ms)
            raise ControlError(
                Kind.CONFLICT, f"{tp} is already leased until {until_ms} ms since 1970 by the broker's clock"
            )
        lease = Lease(f"{self._rng.getrandbits(64):016x}", log, due_ms)
        self._leases[tp] = lease
        self._cleaning.leased_until_ms[tp] = due_ms
        try:
            async with lease.lock:
                await self._cleaning.pause(tp)
        except BaseException:
            del self._leases[tp], self._cleaning.leased_until_ms[tp]
            raise
        self._tasks.start_soon(self._expire, tp, lease)
        return lease

    async def resume(self, tp: TopicPartition, lease_id: str, clean_up_to: int | None = None) -> None:
        """Release a lease.

        Args:
            clean_up_to: Written to the cleaner's checkpoint, unless that is higher already.

        Raises:
            ControlError: NOT_FOUND, CONFLICT as for `pause`; INVALID: `clean_up_to` is beyond the closed segments; FAILED: the disk
                refused. The lease stays in effect.
        """
        lease = self._held_lease(tp, lease_id)
        async with lease.lock:
            self._held_lease(tp, lease_id)
            if clean_up_to is not None:
                await self._write_checkpoint(self._log_under(lease, tp), clean_up_to)
            self._end(tp)

    async def install(
        self, tp: TopicPartition, lease_id: str, sources: Sequence[tuple[int, int]], staged: str, manifest_crc: int
    ) -> LogSegment:
        """Replace segments of the log by a staged segment; return that segment once it is in place.

        Args:
            sources: Base offset and size in bytes of each replaced segment: neighbours, in order.
            staged: The directory with the manifest, in the staging folder of the partition's data directory.
            manifest_crc: CRC-32C of the manifest.

        Raises:
            ControlError: NOT_FOUND, CONFLICT as for `pause`; also CONFLICT: the segments are different, the topic is not compacted, or
                the partition is about to be truncated or deleted; INVALID: the staged files are not complete, or in another place;
                FAILED: the disk refused. If that was in the swap, the partition's data directory is offline.
        """
        lease = self._held_lease(tp, lease_id)
        async with lease.lock:
            self._held_lease(tp, lease_id)
            log = self._log_under(lease, tp)
            if not log.config.is_compact:
                raise ControlError(
                    Kind.CONFLICT, f"{tp} is not compacted: cleanup.policy is {','.join(log.config.cleanup_policy)}"
                )
            old = _same_segments(log, sources)
            directory = _staged_directory(log, staged)
            manager = self._cleaning.manager
            manager.resume([tp])
            if manager.is_held(tp):
                manager.abort_and_pause(tp, lambda: None)
                raise ControlError(Kind.CONFLICT, f"{tp} is about to be truncated or deleted")
            manager.begin(tp)
            try:
                with trio.CancelScope(shield=True):
                    new = await self._swap(log, old, directory, manifest_crc)
            finally:
                manager.done_deleting([tp])
                manager.abort_and_pause(tp, lambda: None)
        return new

    def log_of(self, tp: TopicPartition) -> Log:
        """Return the log of a partition.

        Raises:
            ControlError: NOT_FOUND: unknown partition; FAILED: its data directory is offline.
        """
        log = self._logs.get(tp)
        if log is None:
            raise ControlError(Kind.NOT_FOUND, f"partition {tp} not found")
        if log.failure is not None:
            raise ControlError(Kind.FAILED, f"{tp} is offline: {log.failure}")
        return log

    def _held_lease(self, tp: TopicPartition, lease_id: str) -> Lease:
        lease = self._leases.get(tp)
        if lease is None or lease.lease_id != lease_id:
            raise ControlError(Kind.CONFLICT, f"lease {lease_id} of {tp} has expired or was released")
        return lease

    def _log_under(self, lease: Lease, tp: TopicPartition) -> Log:
        if (log := self.log_of(tp)) is not lease.log:
            raise ControlError(Kind.CONFLICT, f"{tp} was deleted and created again after the lease was granted")
        return log

    async def _expire(self, tp: TopicPartition, lease: Lease) -> None:
        clock = self.clock
        while self._leases.get(tp) is lease:
            await clock.sleep_until(lease.due_ms)
            async with lease.lock:
                if self._leases.get(tp) is lease and clock.elapsed_ms() >= lease.due_ms:
                    self._end(tp)

    def _end(self, tp: TopicPartition) -> None:
        del self._leases[tp], self._cleaning.leased_until_ms[tp]
        self._cleaning.resume(tp)

    async def _write_checkpoint(self, log: Log, clean_up_to: int) -> None:
        end = log.segments.active.base_offset
        if clean_up_to > end:
            raise ControlError(
                Kind.INVALID, f"clean_up_to: offset {clean_up_to} is after the end of the closed segments (limit {end})"
            )
        try:
            await in_thread(Work.CLEAN, data_dir_of(log), self._cleaning.manager.cleaned_elsewhere, log, clean_up_to)
        except OSError as error:
            raise ControlError(Kind.FAILED, f"cannot write the cleaner checkpoint: {error}") from error

    async def _swap(self, log: Log, old: Sequence[LogSegment], directory: str, manifest_crc: int) -> LogSegment:
        now_ms = self.clock.now_ms()
        following = log.segments.higher(old[-1].base_offset)
        assert following is not None  # the replaced segments are closed
        work = partial(
            bring_in,
            log,
            old,
            directory,
            manifest_crc,
            end_offset=following.base_offset,
            unsynced=log.begin_flush(),
            now_ms=now_ms,
        )
        try:
            new = await in_thread(Work.CLEAN, data_dir_of(log), work)
        except (DamagedFileError, *UNREADABLE) as error:
            raise ControlError(Kind.INVALID, str(error)) from error
        except SyncError as error:
            raise ControlError(Kind.FAILED, log.fail(error).message) from error
        except OSError as error:
            kind = Kind.INVALID if error.errno == errno.EXDEV else Kind.FAILED
            raise ControlError(kind, f"cannot install {directory}: {error}") from error
        try:
            await in_thread(Work.CLEAN, data_dir_of(log), log.prepare_swap, [new], old)
        except OSError as error:
            failure: KafkaError = log.fail(error)
            raise ControlError(Kind.FAILED, failure.message) from error
        log.commit_swap([new], old, self.clock.elapsed_ms())
        self._waits.replaced(log)
        return new


def _same_segments(log: Log, sources: Sequence[tuple[int, int]]) -> list[LogSegment]:
    """Return the closed segments that `sources` lists; ControlError CONFLICT if they are not neighbours of these sizes."""
    closed = log.segments.non_active()
    bases = {base_offset for base_offset, _ in islice(sources, len(closed) + 1)}
    slots = [at for at, segment in enumerate(closed) if segment.base_offset in bases]
    found = list(closed[slots[0] : slots[-1] + 1]) if slots else []
    there = [(segment.base_offset, segment.size_bytes) for segment in found]
    if not there or there != list(sources):
        raise ControlError(
            Kind.CONFLICT, f"{log.topic_partition}: expected closed segments {list(sources)[:10]}, found {there[:10]}"
        )
    following = log.segments.higher(found[-1].base_offset)
    if following is None or following.base_offset > log.last_stable_offset:
        raise ControlError(Kind.CONFLICT, f"{log.topic_partition}: segment {there[-1][0]} has open transactions")
    return found


def _staged_directory(log: Log, staged: str) -> str:
    """Return `staged` without links; ControlError INVALID unless it is below the staging folder of the log's data directory."""
    root = os.path.realpath(paths.staging_root(os.path.realpath(paths.parent(log.directory))))
    found = os.path.realpath(staged)
    if not (os.path.isabs(staged) and found.startswith(root + "/")):
        raise ControlError(Kind.INVALID, f"staged: expected a directory in {root}, found {staged[:300]!r}")
    return found
