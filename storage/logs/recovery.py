"""Opening of one partition's directory, however the last run ended.

Called by the LogManager at start, and whenever a partition is created. It treats each file as follows:

    <base>.log                      a segment
    <base>.index/.timeindex/        rebuilt where missing, damaged or doubtful; removed where <base>.log is missing
        .txnindex
    <offset>.snapshot               start of the producer replay; removed where no segment begins, except the newest
    *.deleted  *.cleaned  *.swap    see `swap.finish_swaps`
    leader-epoch-checkpoint         truncated to the log; if damaged, rebuilt from what is scanned
    partition.metadata              the manager's
    anything else                   left alone

After a clean stop all files are valid, and nothing is scanned. After any other stop everything below the recovery point is
on disk. The rest is read batch by batch, with CRCs, and the log ends before the first byte that is not part of a valid
batch. The caller says which kind of stop it was.

Segments with offsets more than 31 bits above their base, which old brokers made, are split (see `split`).

Power may also fail during recovery. Each of its steps leaves a directory that the next recovery brings to the same result.
In particular, segments after a damaged place are gone from the disk before the log is cut there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

from ...protocol.errors import CorruptRecordError
from ..disk import paths
from ..disk.checkpoints import CorruptCheckpointError
from ..disk.files import DamagedFileError
from ..disk.size_only import SizeOnlyFiles
from ..produce import producer_snapshots
from ..produce.producers import PRODUCER_ID_EXPIRATION_MS_DEFAULT, ProducerStates
from ..segment.batch_scan import refuse_old_format
from ..segment.leader_epochs import LeaderEpochs
from ..segment.segment import LogSegment
from ..segment.split import overflows, split_segment
from ..topics.config import LogConfig
from .log import Log
from .log_parts import LogContents, LogPlace, ShutdownState
from .replay import Replay, load_producers
from .swap import finish_swaps, swap_files

Note = Callable[[str], None]

_NO_STOP = ShutdownState()


def load_log(
    place: LogPlace,
    config: LogConfig,
    shutdown_state: ShutdownState = _NO_STOP,
    *,
    now_ms: int,
    producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS_DEFAULT,
    rng: random.Random | None = None,
    note: Note = lambda _: None,
) -> Log:
    """Open the log in a directory that exists; an empty directory becomes an empty log.

    Args:
        last_stop: What is known of the last stop. Derived files that differ from it are rebuilt from the log. A log file that
            differs is scanned, and ends before the first byte that is not a batch; segments after it stay.
        rng: Random numbers for `segment.jitter.ms`.
        note: Called with one line for each thing that was found broken and what was done about it.

    Returns:
        The log, ready for appends. After a clean stop its recovery point is the LEO, else at most the one given.

    Raises:
        OldFormatError: The records have format v0 or v1. If a segment begins with one, nothing has been changed.
        OSError: The disk refused, or a file cannot be read.
    """
    producers = ProducerStates(expiration_ms=producer_expiration_ms)
    contents = _Loader(place, config, shutdown_state, now_ms, producers, note).load()
    return Log(place, config, contents, rng or random.Random())


def offline_log(place: LogPlace, config: LogConfig) -> Log:
    """Return a log that cannot be read, for the reason in `place.health`: it is empty, and every call is refused."""
    nothing: Any = SizeOnlyFiles()
    segment = LogSegment.create(nothing, place.directory, 0, config, 0, paths.CLEANED)
    epochs = LeaderEpochs(nothing, paths.join(place.directory, paths.LEADER_EPOCH_CHECKPOINT))
    contents = LogContents([segment], ProducerStates(), epochs, 0, 0, recovery_point=0)
    return Log(place, config, contents, random.Random(0))


def unmade_log(
    place: LogPlace, config: LogConfig, *, now_ms: int, producer_expiration_ms: int, rng: random.Random
) -> Log:
    """Return an empty log that has nothing on disk yet. `make` creates its directory; the first append calls that."""
    nothing: Any = SizeOnlyFiles()
    segment = LogSegment.create(nothing, place.directory, 0, config, now_ms, paths.CLEANED)
    producers = ProducerStates(expiration_ms=producer_expiration_ms)
    epochs = LeaderEpochs(place.files, paths.join(place.directory, paths.LEADER_EPOCH_CHECKPOINT))
    return Log(place, config, LogContents([segment], producers, epochs, 0, 0, recovery_point=0, is_on_disk=False), rng)


class _Loader:
    """State of one call of `load_log`: its arguments and what it has found so far."""

    def __init__(
        self,
        place: LogPlace,
        config: LogConfig,
        shutdown_state: ShutdownState,
        now_ms: int,
        producers: ProducerStates,
        note: Note,
    ) -> None:
        self.files = place.files
        self.directory = place.directory
        self.topic_partition = place.topic_partition
        self.config = config
        self.recovery_point = shutdown_state.recovery_point
        self.log_start_offset = shutdown_state.log_start_offset
        self.clean_shutdown = shutdown_state.is_clean
        self.stopped = shutdown_state.stopped
        self.now_ms = now_ms
        self.producers = producers
        self._note = note

    def note(self, what: str) -> None:
        self._note(f"{self.topic_partition}: {what}")

    def load(self) -> LogContents:
        self._refuse_old_formats()
        names = finish_swaps(self.files, self.directory, self._next_offset_of)
        doubtful = self._compare(names)
        if not doubtful and self._is_unused(names):
            return self._unused(names)
        segments = self._open_segments(names)
        epochs = self._open_epochs()
        if paths.LEADER_EPOCH_CHECKPOINT in doubtful:
            self._find_epochs(epochs, segments)
        if self.clean_shutdown:
            unflushed: list[LogSegment] = []
        else:
            first_unflushed = max((s.base_offset for s in segments if s.base_offset <= self.recovery_point), default=-1)
            unflushed = [segment for segment in segments if segment.base_offset >= first_unflushed]
        for segment in segments[: len(segments) - len(unflushed)]:
            self._check_indexes(segment, segments, doubtful)
        if unflushed:
            segments = self._recover(segments, unflushed[0].base_offset, epochs)

        log_end_offset = segments[-1].next_offset() if segments else self.log_start_offset
        segments = self._split_overflowing(segments, log_end_offset)
        if segments and log_end_offset < self.log_start_offset:
            self.note(f"log end {log_end_offset} is below log start {self.log_start_offset}: deleting all segments")
            self._delete(segments)
            segments = []
            log_end_offset = self.log_start_offset
            epochs.clear()
            producer_snapshots.remove_all(self.files, self.directory)
            self.producers.reset(log_end_offset)
        if not segments:
            segments = [LogSegment.create(self.files, self.directory, log_end_offset, self.config, self.now_ms)]
        log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        epochs.truncate_from_end(log_end_offset)
        epochs.truncate_from_start(log_start_offset)
        epochs.write()
        producer_snapshots.remove_stray(
            self.files,
            self.directory,
            {segment.base_offset for segment in segments},
            last_base_offset=segments[-1].base_offset,
        )
        if unflushed:
            # The scan has brought the producers up to the end, and has removed all snapshots that it did not confirm.
            # Those contradict later appends: they must not come back.
            self.producers.end_offset = log_end_offset
            self.producers.expire(self.now_ms)
            if any(name.endswith(paths.SNAPSHOT) for name in names):
                self.files.sync_dir(self.directory)
        else:
            load_producers(
                self.files,
                self.directory,
                self.producers,
                segments,
                log_start_offset=log_start_offset,
                log_end_offset=log_end_offset,
                now_ms=self.now_ms,
            )
        return LogContents(
            segments,
            self.producers,
            epochs,
            log_start_offset,
            log_end_offset,
            recovery_point=log_end_offset if self.clean_shutdown else min(self.recovery_point, log_end_offset),
        )

    def _refuse_old_formats(self) -> None:
        """Raise OldFormatError, before anything is changed, if a segment begins with a record of format v0 or v1.

        Segments that our own clean stop has left are not read.
        """
        for name in self.files.list(self.directory):
            found = paths.parse_segment_name(name)
            path = paths.join(self.directory, name)
            if (
                found
                and found.kind == paths.LOG
                and found.suffix in ("", paths.SWAP)
                and not self.stopped.has_left(self.files, path, name)
            ):
                file = self.files.open(path)
                try:
                    refuse_old_format(file, 0, path)
                finally:
                    file.close()

    def _is_unused(self, names: Sequence[str]) -> bool:
        """Whether nothing was ever appended, so nothing has to be read or synced, however the last run ended."""
        if self.recovery_point or self.log_start_offset or paths.LEADER_EPOCH_CHECKPOINT in names:
            return False
        for name in names:
            file = paths.parse_segment_name(name)
            if file and (file.base_offset or self.files.size(paths.join(self.directory, name))):
                return False
        return True

    def _unused(self, names: Sequence[str]) -> LogContents:
        if paths.segment_file_name(0, paths.LOG) in names:
            segment = self._open_segment(0)
        else:
            segment = LogSegment.create(self.files, self.directory, 0, self.config, self.now_ms)
        return LogContents([segment], self.producers, self._open_epochs(), 0, 0, recovery_point=0)

    def _compare(self, names: Sequence[str]) -> set[str]:
        """Return the names of files that differ from what a clean stop has left, and delete the snapshots among them."""
        changed = self.stopped.changed(self.files, self.directory, names)
        if not any(name.endswith(paths.LOG) for name in changed):
            # The start offset of the log that was stopped. If a user has replaced its log files, older records count.
            self.log_start_offset = max(self.log_start_offset, self.stopped.log_start_offset)
        if not changed:
            return changed
        self.note(f"{', '.join(sorted(changed))}: changed since the last clean stop")
        parsed = {name: file for name in changed if (file := paths.parse_segment_name(name))}
        for name, file in parsed.items():
            if file.kind == paths.SNAPSHOT:
                self.files.remove(paths.join(self.directory, name))
        logs = [
            file.base_offset for name in names if (file := paths.parse_segment_name(name)) and file.kind == paths.LOG
        ]
        for file in parsed.values():
            if file.kind == paths.LOG and file.base_offset in logs:
                # The segments after it were whole at the stop, and must not be deleted for the damage of this one.
                changed.add(paths.segment_file_name(file.base_offset, paths.INDEX))
                if file.base_offset == max(logs):
                    self.clean_shutdown = False
                    self.recovery_point = file.base_offset
        return changed

    def _find_epochs(self, epochs: LeaderEpochs, segments: Sequence[LogSegment]) -> None:
        """Learn the leader epochs from the batches, except epochs whose batches were all compacted away."""
        epochs.clear()
        with suppress(CorruptRecordError):
            for segment in segments:
                for _, batch in segment.headers():
                    if batch.partition_leader_epoch > epochs.latest_epoch:
                        epochs.assign(batch.partition_leader_epoch, batch.base_offset)

    def _open_segments(self, names: Sequence[str]) -> list[LogSegment]:
        """Segments for all log files, in order; index files without one are removed."""
        found = [file for name in names if (file := paths.parse_segment_name(name)) and not file.suffix]
        bases = {file.base_offset for file in found if file.kind == paths.LOG}
        for file in found:
            if file.kind not in (paths.LOG, paths.SNAPSHOT) and file.base_offset not in bases:
                self.note(f"removing {paths.segment_file_name(*file)}: no segment found for it")
                self.files.remove(paths.segment_path(self.directory, *file))
        return [self._open_segment(base) for base in sorted(bases)]

    def _open_segment(self, base_offset: int, suffix: str = "") -> LogSegment:
        return LogSegment.open(self.files, self.directory, base_offset, self.config, self.now_ms, suffix)

    def _next_offset_of(self, base_offset: int, suffix: str) -> int:
        segment = self._open_segment(base_offset, suffix)
        try:
            return segment.next_offset()
        finally:
            segment.log_file.close()

    def _open_epochs(self) -> LeaderEpochs:
        path = paths.join(self.directory, paths.LEADER_EPOCH_CHECKPOINT)
        try:
            return LeaderEpochs(self.files, path)
        except CorruptCheckpointError as error:
            self.note(f"{error}; starting with an empty one")
            self.files.remove(path)
            return LeaderEpochs(self.files, path)

    def _check_indexes(self, segment: LogSegment, segments: Sequence[LogSegment], doubtful: AbstractSet[str]) -> None:
        """Rebuild the indexes of a segment that need not be scanned, if they are missing, damaged or `doubtful`."""
        try:
            segment.sanity_check()
            names = [paths.segment_file_name(segment.base_offset, kind) for kind in paths.SEGMENT_KINDS[1:]]
            if not doubtful.isdisjoint(names):
                raise DamagedFileError(f"indexes of segment {segment.base_offset} differ from those at the last stop")
        except DamagedFileError as error:
            self.note(f"{error}; rebuilding the indexes")
            # A segment with offset index is assumed to have its transaction index also. So the offset index is removed
            # before the others are touched, and is written after them.
            self.files.remove(segment.offset_index.path)
            self.files.sync_dir(self.directory)
            # Later snapshots stay: they contain producers whose batches retention has deleted since.
            self._load_producers_up_to(segment, segments, tidies=False)
            cut_bytes = segment.recover(Replay(self.producers))
            if cut_bytes:
                self.note(
                    f"truncating {cut_bytes} bytes at the end of segment {segment.base_offset}: not valid batches"
                )
            segment.txn_index.flush(sync=True)
            self.files.sync_dir(self.directory)
            segment.on_roll()
            segment.flush()

    def _recover(self, segments: list[LogSegment], from_base: int, epochs: LeaderEpochs) -> list[LogSegment]:
        """Scan the segments from `from_base` on and rebuild their indexes; returns the segments that are left."""
        slot = next(at for at, segment in enumerate(segments) if segment.base_offset == from_base)
        self._load_producers_up_to(segments[slot], segments)
        replay = Replay(self.producers)
        for at, segment in enumerate(segments[slot:], slot + 1):
            self.producers.end_offset = segment.base_offset
            if segment.base_offset > segments[0].base_offset:
                producer_snapshots.take(self.files, self.directory, self.producers, sync=False)
            later = segments[at:]

            def delete_later(later: list[LogSegment] = later) -> None:
                self._delete(later)

            cut_bytes = segment.recover(replay, epochs, before_cut=delete_later)
            if later:
                segment.on_roll()
            if cut_bytes:
                self.note(
                    f"truncating {cut_bytes} bytes from offset {segment.next_offset()}: not valid batches"
                    + (f", and deleting {len(later)} later segments" if later else "")
                )
                segment.flush()
                return [other for other in segments if other.base_offset <= segment.base_offset]
        return segments

    def _split_overflowing(self, segments: Sequence[LogSegment], log_end_offset: int) -> list[LogSegment]:
        """Replace each segment whose offsets are too far above its base by several; returns all segments."""
        found: list[LogSegment] = []
        ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
        for segment, end_offset in zip(segments, ends, strict=False):  # no segment, one end
            try:
                if not overflows(segment, end_offset):
                    found.append(segment)
                    continue
                new = split_segment(segment, self.now_ms)
            except CorruptRecordError as error:
                self.note(f"{error}; offsets are out of range for the segment, which cannot be split")
                found.append(segment)
                continue
            swap_files(self.files, self.directory, new, [segment])
            for path in (
                *segment.file_paths(),
                paths.snapshot_path(self.directory, segment.base_offset, paths.DELETED),
            ):
                self.files.remove(path)
            self.note(f"offsets of segment {segment.base_offset} are out of range: split into {len(new)} segments")
            found += new
        return found

    def _load_producers_up_to(
        self, segment: LogSegment, segments: Sequence[LogSegment], *, tidies: bool = True
    ) -> None:
        load_producers(
            self.files,
            self.directory,
            self.producers,
            [other for other in segments if other.base_offset < segment.base_offset],
            log_start_offset=min(self.log_start_offset, segment.base_offset),
            log_end_offset=segment.base_offset,
            now_ms=self.now_ms,
            tidies=tidies,
        )

    def _delete(self, segments: Sequence[LogSegment]) -> None:
        """Delete the files of segments, the last segment first, and sync the directory."""
        for segment in reversed(segments):
            segment.delete_files()
        self.files.sync_dir(self.directory)
