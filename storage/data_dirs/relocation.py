"""Move of a partition from one data directory to another, during reads and appends (KIP-113).

    <target>/orders-0.<id>-future/      the copy, made in pieces while the log is used (`step`), and synced (`prepare`)
    <target>/orders-0/                  its name from `finish` on: the log uses it from then on, in the same turn
    <source>/orders-0.<id>-delete/      the old directory, renamed by `complete`

Sealed segments are copied file by file. The batches of the active one are appended to a new segment, which makes its indexes.
`finish` copies what was appended since the last sync, on the thread that owns the log: it is little, and no append can happen
in between. The caller keeps the cleaner and retention away from `begin` to `complete`.

`finish` does not wait for the disk. So a power loss may leave both directories with the name of a log, and the newer one may
lack some of what `finish` has copied. The file `ottla-moved` in the newer one decides at a start:

    from 4711 /d  the one with the higher end is the log: records made durable after `finish` are only in the newer one, and
                  only if all that was copied is there; segments below 4711 are complete in both
    complete      the newer one is the log

The file `ottla-moving` in the older one names the data directory of the newer one. If a start finds that the disk of the other
one has failed, it cannot know whether that has more records. The log is then offline until the disk is back, except a newer one

that is complete. Apache Kafka refuses to start with both of them, and the operator must delete one.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from ..disk import paths
from ..disk.checkpoints import read_text, write_atomically, write_partition_metadata
from ..disk.files import Files
from ..logs.log import Log
from ..logs.log_parts import LogPlace
from ..segment.batch_scan import RECOVERY_CHUNK_BYTES, UNREADABLE, batch_steps, batch_walk, computed_crc
from ..segment.leader_epochs import LeaderEpochs
from ..segment.segment import LogSegment
from .data_dir import DataDir
from .log_table import LogTable

CHUNK_BYTES = 1 << 20
_COMPLETE = "complete"
_FROM = re.compile(r"from ([0-9]{1,19}) (.+)")


class RelocationError(Exception):
    """The log has changed since it was copied, or one of the two disks refused; the copy is useless. One line."""


class Relocation:
    """One move. `begin`, `step`, `prepare`, `complete` and `discard` wait for the disk, and are for a worker thread.

    Each raises RelocationError; if a disk has failed, its directory is offline by then.
    """

    def __init__(
        self, files: Files, log: Log, source: DataDir, target: DataDir, logs: LogTable, unique_id: str, now_ms: int
    ) -> None:
        """
        Args:
            source: The data directory of the log.
            logs: All logs of the broker.
            unique_id: 32 hex digits, for the names of directories.
        """
        self.log = log
        self.target_dir = target.path
        self.copied_bytes = 0
        self.copied_up_to = log.segments.first.base_offset
        """All segments and batches below this offset are in the copy."""
        self.is_decided = False
        """Whether the log is in the target."""
        self._files, self._source, self._target, self._logs, self._now_ms = files, source, target, logs, now_ms
        name = log.topic_partition
        self._old_directory = log.directory
        self._future = paths.join(target.path, paths.future_dir_name(*name, unique_id))
        self._final = paths.join(target.path, paths.partition_dir_name(*name))
        self._aside = paths.join(source.path, paths.deleted_dir_name(*name, unique_id))
        self._discarded = paths.join(target.path, paths.deleted_dir_name(*name, unique_id))
        self._sealed: dict[int, tuple[LogSegment, LogSegment]] = {}
        """Base offset -> (copied segment, its copy)."""
        self._active: tuple[LogSegment, LogSegment] | None = None
        self._safe = 0
        self._marked_from = -1
        self._announcement = paths.join(self._old_directory, paths.MOVING_FILE)
        self._is_announced = False
        self._epochs: LeaderEpochs
        self._running = self._steps()
        next(self._running)

    def begin(self) -> None:
        """Make the directory of the copy."""
        with self._on(self._source):
            # The mark of an earlier move to here: with two marks a start could not decide which directory is the log.
            moved = paths.join(self._old_directory, paths.MOVED_FILE)
            if self._files.exists(moved):
                self._files.remove(moved)
                self._files.sync_dir(self._old_directory)
        with self._on(self._target):
            self._files.make_dir(self._future)
            if self.log.topic_id is not None:
                write_partition_metadata(self._files, self._future, self.log.topic_id)
            self._files.sync_dir(self.target_dir)

    def step(self, allowed_bytes: int) -> int:
        """Copy about `allowed_bytes`, at least some bytes; returns their number. 0 if nothing is left at the moment."""
        copied_bytes = self._running.send(allowed_bytes)
        self.copied_bytes += copied_bytes
        return copied_bytes

    def prepare(self) -> None:
        """Sync everything that `finish` relies on."""
        assert self._active is not None
        old, new = self._active
        with self._on(self._target):
            epochs = LeaderEpochs(self._files, paths.join(self._future, paths.LEADER_EPOCH_CHECKPOINT))
            epochs.take_over(self.log.leader_epochs)
            epochs.write()
            if not self._is_announced:
                with self._on(self._source):
                    write_atomically(self._files, self._announcement, f"{self.target_dir}\n")
                self._is_announced = True
            if self._marked_from != old.base_offset:
                write_atomically(
                    self._files,
                    paths.join(self._future, paths.MOVED_FILE),
                    f"from {old.base_offset} {self._source.path}\n",
                )
                self._marked_from = old.base_offset
                if self._files.exists(self._final):
                    raise RelocationError(f"{self._final} already exists: move it elsewhere")
                self._target.forget(self.log.topic_partition, self._logs)
                self._target.guests[self.log.topic_partition] = self.log
            safe = self.copied_up_to
            new.log_file.sync()
            self._files.sync_dir(self._future)
            self._target.checkpoint_log_starts(self._logs)
            self._epochs = LeaderEpochs(self._files, paths.join(self._final, paths.LEADER_EPOCH_CHECKPOINT))
        self._safe = safe

    def finish(self, at_once_bytes: int) -> bool:
        """Switch the log to the target; on the thread that owns it, after `prepare`.

        Returns:
            False if the log has rolled since, or more than `at_once_bytes` were appended. Nothing has changed then, and the
            caller continues with `step`.
        """
        log, files = self.log, self._files
        if log.failure is not None:
            raise RelocationError(f"{log.topic_partition} is offline: {log.failure}")
        assert self._active is not None
        old, new = self._active
        sealed = log.segments.non_active()
        if log.segments.active is not old or len(sealed) > len(self._sealed):
            return False
        left_bytes = old.size_bytes - new.size_bytes
        if left_bytes > at_once_bytes:
            return False
        self._check_same(sealed)
        with self._on(self._target):
            if left_bytes:
                self._append(old, new, left_bytes)
            files.rename(self._future, self._final)
        self.is_decided = True
        new.moved_to(self._final)
        self._source.guests[log.topic_partition] = log
        place = LogPlace(files, self._final, log.topic_partition, log.topic_id, self._target.health)
        log.relocate(place, [*(copy for _, copy in self._sealed.values()), new], self._epochs, self._safe)
        return True

    def complete(self) -> str:
        """Make the move durable; returns the new path of the old directory, which the caller removes.

        After an error the next start chooses the right one of the two directories.
        """
        assert self._active is not None
        files, name, marker = self._files, self.log.topic_partition, paths.join(self._final, paths.MOVED_FILE)
        _, new = self._active
        with self._on(self._target):
            self.log.leader_epochs.write()
            new.log_file.sync()
            files.sync_dir(self._final)
            files.sync_dir(self.target_dir)
            write_atomically(files, marker, f"{_COMPLETE}\n")
            self.log.is_place_on_disk = True
            self._target.checkpoint_log_starts(self._logs)
            self._target.guests.pop(name, None)
            self._target.checkpoint_recovery_points(self._logs)
        with self._on(self._source):
            if files.exists(self._old_directory):  # else an earlier call has done this
                files.rename(self._old_directory, self._aside)
            files.sync_dir(self._source.path)
            self._source.guests.pop(name, None)
            self._source.checkpoint_recovery_points(self._logs)
            self._source.checkpoint_log_starts(self._logs)
        with self._on(self._target):
            files.remove(marker)
            files.sync_dir(self._final)
        return self._aside

    def discard(self) -> str:
        """Give up the copy, before `finish`; returns the new path of its directory, which the caller removes."""
        self.release()
        try:
            with self._on(self._source):
                if self._files.exists(self._announcement):
                    self._files.remove(self._announcement)
                    self._files.sync_dir(self._old_directory)
        finally:
            with self._on(self._target):
                if self._target.guests.pop(self.log.topic_partition, None) is not None:
                    self._target.checkpoint_log_starts(self._logs)
                if self._files.exists(self._future):
                    self._files.rename(self._future, self._discarded)
                    self._files.sync_dir(self.target_dir)
        return self._discarded

    def release(self) -> None:
        """Release all files; before `finish` those of the copy are closed."""
        pairs = [*self._sealed.values(), *([self._active] if self._active else [])]
        if not self.is_decided:
            for _, copy in pairs:
                copy.log_file.close()
        self._running.close()
        self._sealed.clear()  # a reader may still use an old segment, whose file closes with its last reference
        self._active = None

    # Copying

    def _steps(self) -> Generator[int, int, None]:
        """Copy in steps: the caller sends the number of bytes allowed, and receives the number copied."""
        allowed_bytes = yield 0
        while True:
            for each in self.log.segments.non_active():
                if each.base_offset not in self._sealed:
                    allowed_bytes = yield from self._copy_sealed(each, allowed_bytes)
            active = self.log.segments.active
            if self._active is None or self._active[0] is not active:
                if any(each is active for each in self.log.segments.non_active()):
                    continue  # it was rolled just now
                self._active = self._begin_segment(active)
            old, new = self._active
            if new.size_bytes > old.size_bytes:
                raise RelocationError(f"{self.log.topic_partition} was truncated while it was copied")
            # Whole batches up to the present end of the file.
            left_bytes = old.size_bytes - new.size_bytes
            copied_bytes = 0
            if left_bytes:
                with self._on(self._source):
                    copied_bytes = self._append(old, new, min(left_bytes, max(allowed_bytes, 1), CHUNK_BYTES))
            allowed_bytes = yield copied_bytes

    def _copy_sealed(self, old: LogSegment, allowed_bytes: int) -> Generator[int, int, int]:
        if self._active is not None and self._active[0].base_offset == old.base_offset:
            self._active[1].log_file.close()
            self._active = None
        with self._on(self._source):
            old.flush()
            files = self._source_files(old.base_offset)
        for path in files:
            allowed_bytes = yield from self._copy_file(path, allowed_bytes)
        with self._on(self._target):
            self._files.check_descriptors()
            new = LogSegment.open(self._files, self._future, old.base_offset, self.log.config, self._now_ms)
            if self.log.is_surveyed:
                new.learn_age()
            new.moved_to(self._final)
        self._sealed[old.base_offset] = old, new
        following = self.log.segments.higher(old.base_offset)
        if following is not None:
            self.copied_up_to = following.base_offset
        return allowed_bytes

    def _source_files(self, base_offset: int) -> list[str]:
        kinds = (*paths.SEGMENT_KINDS, paths.SNAPSHOT)
        named = [paths.segment_path(self._old_directory, base_offset, kind) for kind in kinds]
        return [path for path in named if self._files.exists(path)]

    def _copy_file(self, path: str, allowed_bytes: int) -> Generator[int, int, int]:
        name = path.rpartition("/")[2]
        with self._on(self._source):
            old = self._files.open(path)
        try:
            with self._on(self._target):
                new = self._files.open(paths.join(self._future, name), create=True, truncate=True)
            try:
                while new.size() < old.size():
                    with self._on(self._source):
                        piece = old.read_at(new.size(), min(CHUNK_BYTES, max(allowed_bytes, 1)))
                    with self._on(self._target):
                        new.append(piece)
                    allowed_bytes = yield len(piece)
                with self._on(self._target):
                    new.sync()
            finally:
                new.close()
        finally:
            old.close()
        return allowed_bytes

    def _begin_segment(self, active: LogSegment) -> tuple[LogSegment, LogSegment]:
        """Return the active segment, and a new empty one for its batches."""
        snapshot = paths.snapshot_path(self._old_directory, active.base_offset)
        with self._on(self._source):
            content = None
            if self._files.exists(snapshot):
                file = self._files.open(snapshot)
                content = file.read_at(0, file.size())
                file.close()
        with self._on(self._target):
            if content is not None:
                write_atomically(self._files, paths.snapshot_path(self._future, active.base_offset), content)
            new = LogSegment.create(self._files, self._future, active.base_offset, self.log.config, self._now_ms)
        return active, new

    def _append(self, old: LogSegment, new: LogSegment, about_bytes: int) -> int:
        """Append batches of the active segment to its copy: as many as fit, one at least."""
        position = end = new.size_bytes
        last_offset = -1
        for _, next_end, last in batch_steps(old.log_file, position, repr(old)):
            if end > position and next_end - position > about_bytes:
                break
            end, last_offset = next_end, last
            if end - position >= about_bytes:
                break
        data = old.log_file.read_at(position, end - position)
        if len(data) != end - position:
            raise OSError(errno.EIO, f"read {len(data)} of {end - position} bytes at position {position}", repr(old))
        # The timestamp arguments count only for a single batch; of several, `append` reads each header.
        _, batch = next(old.headers(position))
        new.append(
            data, last_offset=last_offset, max_timestamp_ms=batch.max_timestamp, max_timestamp_offset=batch.last_offset
        )
        self.copied_up_to = last_offset + 1
        return len(data)

    def _check_same(self, sealed: tuple[LogSegment, ...]) -> None:
        for each in sealed:
            old, copy = self._sealed.get(each.base_offset, (None, None))
            if old is not each or copy is None or copy.size_bytes != each.size_bytes:
                raise RelocationError(f"{self.log.topic_partition} was changed while it was copied")
        if len(sealed) != len(self._sealed):
            raise RelocationError(f"{self.log.topic_partition} lost segments while it was copied")

    @contextmanager
    def _on(self, data_dir: DataDir) -> Iterator[None]:
        """Guard a use of one of the disks: errors become RelocationError, and are noted in the directory's health."""
        try:
            yield
        except (OSError, *UNREADABLE) as error:
            if isinstance(error, OSError):
                data_dir.health.note(error)
            raise RelocationError(
                f"cannot move {self.log.topic_partition} from {self._source.path} to {self.target_dir}: {error}"
            ) from error


# At a start


def chosen(files: Files, first: str, second: str) -> str | None:
    """Decide which of two directories of one partition, left by a move, is the log; None if neither is from a move."""
    moved = [directory for directory in (first, second) if files.exists(paths.join(directory, paths.MOVED_FILE))]
    if len(moved) != 1:
        return None
    (newer,) = moved
    older = second if newer == first else first
    text = read_text(files, paths.join(newer, paths.MOVED_FILE)).strip()
    if text == _COMPLETE:
        return newer
    if not files.exists(paths.join(older, paths.MOVING_FILE)):
        return older  # the move was given up, though a rename that raised an error took effect
    found = _FROM.fullmatch(text)
    from_offset = int(found[1]) if found else 0
    return newer if valid_end(files, newer, from_offset) >= valid_end(files, older, from_offset) else older


def marks(files: Files, directory: str) -> list[str]:
    """List the files with which a move has marked a directory of a partition."""
    named = [paths.join(directory, name) for name in (paths.MOVING_FILE, paths.MOVED_FILE)]
    return [path for path in named if files.exists(path)]


def other_place(files: Files, directory: str) -> str | None:
    """Return the data directory that may have more of a log than this directory; None if this one has all of it."""
    if target := read_text(files, paths.join(directory, paths.MOVING_FILE)).strip():
        return target
    found = _FROM.fullmatch(read_text(files, paths.join(directory, paths.MOVED_FILE)).strip())
    return found[2] if found else None


def valid_end(files: Files, directory: str, from_offset: int) -> int:
    """Find the end of a log, after its last valid batch; segments from base `from_offset` on may be damaged."""
    bases = sorted(
        found.base_offset
        for name in files.list(directory)
        if (found := paths.parse_segment_name(name)) and found.kind == paths.LOG and not found.suffix
    )
    end = from_offset
    for base_offset in bases:
        if base_offset == end:
            end, is_whole = _end_of(files, paths.log_path(directory, base_offset), base_offset)
            if not is_whole:
                break
    return end


def _end_of(files: Files, path: str, base_offset: int) -> tuple[int, bool]:
    end, file = base_offset, files.open(path)
    try:
        walked = batch_walk(file, 0, path, chunk_bytes=RECOVERY_CHUNK_BYTES, whole_bytes_max=RECOVERY_CHUNK_BYTES)
        for position, batch in walked:
            if batch.base_offset < end or computed_crc(file, position, batch) != batch.crc:
                return end, False
            end = batch.last_offset + 1
    except UNREADABLE:
        return end, False
    finally:
        file.close()
    return end, True
