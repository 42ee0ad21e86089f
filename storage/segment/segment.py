"""One segment of a log: the record batches from a base offset on, and their indexes.

    <base>.log        batches back to back; offsets increase, with gaps where the cleaner removed records
    <base>.index      position of one batch in about every `index.interval.bytes` (see index.py)
    <base>.timeindex  largest timestamp up to each of those
    <base>.txnindex   aborted transactions whose marker is here

`Log` appends to the last segment and reads all; recovery rebuilds them; the cleaner writes new ones under `.cleaned`.
An append is one write to the log file. Indexes are kept in memory and written to the disk by `flush`, `on_roll` and `close`;
after any other stop `recover` rebuilds them from the log. Reads return positions, never bytes.

One thread owns a segment. Other threads may `flush` it while the owner appends, and read it once it is sealed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, LOG_OVERHEAD, LOG_OVERHEAD_BYTES, RecordBatch, batches
from ..disk import paths
from ..disk.files import Buffer, Files, WriteAhead
from ..topics.config import LogConfig
from .batch_scan import RECOVERY_CHUNK_BYTES, batch_walk, computed_crc
from .index import AbortedTxn
from .index_file import RELATIVE_OFFSET_MAX
from .leader_epochs import LeaderEpochs
from .segment_indexes import NewEntries
from .segment_reader import SegmentReader

# Python takes imported names for modules, and would make a method object for each call.
_unpack_overhead = LOG_OVERHEAD.unpack_from

WRITTEN_AT_ONCE = 20_000
"""Largest number of index entries that a roll writes at once, in a millisecond or two."""


class ProducerReplay(Protocol):
    """Receiver of the batches that recovery finds."""

    def replay(self, batch: RecordBatch) -> AbortedTxn | None:
        """Take in a batch, in log order.

        Returns the transaction that it ends, if it is an ABORT marker and the transaction has data in this partition.
        """


class LogSegment(SegmentReader):
    """A segment of a log. Made by `create` or `open`."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, config: LogConfig, now_ms: int, suffix: str
    ) -> None:
        super().__init__(files, directory, base_offset, config, now_ms, suffix)
        self.rolling_jitter_ms = 0
        """Time by which the segment rolls earlier than `segment.ms`; the owner draws it."""
        self.first_append_ms: int | None = None
        """Wall time when this run of the broker wrote the first batch; None if an earlier run did, or none. Set by the log."""
        self.is_ready = False
        """Whether an append reads nothing from the disk; see `get_ready`."""
        self._is_new = False
        self.is_preallocated = False
        """Whether the log file is longer than its batches."""

    @classmethod
    def create(
        cls, files: Files, directory: str, base_offset: int, config: LogConfig, now_ms: int, suffix: str = ""
    ) -> LogSegment:
        """Create a new, empty segment; existing files with its names are removed first.

        Args:
            suffix: `""`, or CLEANED for a segment of the cleaner.
            now_ms: Unix milliseconds; becomes `created_ms`.

        Its names survive a power loss after the first `flush`.

        Raises:
            OSError: The disk refused. EMFILE if almost no file descriptor is left. A segment of the cleaner may use the last
                ones, as a pass releases more than it needs.
        """
        if not suffix:
            files.check_descriptors()
        for kind in paths.SEGMENT_KINDS:
            files.remove(paths.segment_path(directory, base_offset, kind, suffix))
        files.open(paths.log_path(directory, base_offset, suffix), create=True).close()
        segment = cls(files, directory, base_offset, config, now_ms, suffix)
        segment._indexes.restart()
        segment.txn_index.reset()
        if config.preallocate:
            segment.log_file.preallocate(config.segment_bytes)
            segment.is_preallocated = True
        segment._is_new = segment.is_ready = True
        return segment

    # Writing

    def get_ready(self) -> None:
        """Read what the first append after `open` needs. In any thread."""
        self._indexes.grow()
        _ = self.first_batch_timestamp_ms
        self.is_ready = True

    def is_full_for(
        self, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int, config: LogConfig
    ) -> bool:
        """Whether a batch must go to a new segment, as this one is not empty and has no room or has been open too long.

        `config` is the log's, which may have changed since this segment was made.
        """
        have_bytes = self.log_file.size()
        if have_bytes == 0:
            return False
        # Record time is compared with record time, if any, as in Kafka: old records that arrive today do not make
        # a segment roll at once, and records of one and the same time never do.
        first_ms = self._first_batch_timestamp_ms
        if first_ms is None:
            first_ms = self.first_batch_timestamp_ms
        waited_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - self.created_ms
        return (
            have_bytes > config.segment_bytes - size_bytes
            or waited_ms > config.roll_after_ms - self.rolling_jitter_ms
            or self._indexes.is_full()
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def append(
        self,
        view: Buffer,
        last_offset: int,
        max_timestamp_ms: int,
        max_timestamp_offset: int,
        ahead: WriteAhead | None = None,
    ) -> None:
        """Write batches at the end, in one write.

        Args:
            view: One or more whole batches back to back, with their final offsets.
            last_offset: Last offset of the last batch.
            max_timestamp_ms: The largest max timestamp of these batches.
            max_timestamp_offset: The last offset of the first batch that has it.
            ahead: Result of `write_ahead` if `view` is one batch whose bytes have been written so.

        Raises:
            ValueError: An offset is more than 31 bits above the base. Nothing is written.
            OSError: The disk refused. The segment is unchanged, as after any other error.

        The batches are readable at once, and durable after the next `flush`.
        """
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise self._misfit(last_offset)
        indexes, log_file = self._indexes, self.log_file
        if not indexes.is_growing:
            indexes.grow()
        start = position = log_file.size()
        base_offset, length = _unpack_overhead(view)
        if ahead is None:
            log_file.append(view)
        else:
            log_file.append_ahead(ahead, view[:HEADER_BYTES])
        try:
            if position == 0:
                self._first_batch_timestamp_ms = max_timestamp_ms
            size_bytes = len(view)
            if LOG_OVERHEAD_BYTES + length == size_bytes:
                indexes.note(position, size_bytes, base_offset, last_offset, max_timestamp_ms, max_timestamp_offset)
                return
            for batch in batches(view):
                self._indexes.note_batch(position, batch)
                position += batch.size_bytes
        except BaseException:
            # E.g. out of memory. The caller treats these batches as not appended, and will assign their offsets again.
            try:
                self.log_file.truncate(start)
            except OSError as error:
                raise OSError(
                    errno.EIO, f"cannot remove batches of a failed append from the file: {error.strerror}"
                ) from error
            self._first_batch_timestamp_ms = None
            self._indexes.truncate_to(base_offset)
            raise

    def write_ahead(self, batch: memoryview) -> WriteAhead:
        """Begin the append of a large batch: another thread writes the bytes after the header, then `append` finishes it."""
        return self.log_file.write_ahead(batch, HEADER_BYTES)

    def append_cleaned(self, view: Buffer, found: NewEntries) -> None:
        """Append batches of the cleaner, which finds the index entries while it makes the batches.

        Errors as for `append`. The segment must be new, and gets no other appends until it is sealed.
        """
        if found.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise self._misfit(found.last_offset)
        self.log_file.append(view)
        self._indexes.take(found)

    def _misfit(self, last_offset: int) -> ValueError:
        return ValueError(f"offset {last_offset} is out of range for a segment with base offset {self.base_offset}")

    def on_roll(self, *, at_once: bool = False) -> None:
        """Seal the segment: add the final time index entry, write the indexes, release preallocated space.

        Nothing is synced; `flush` does that.

        Args:
            at_once: Do not block: leave long indexes to `flush` (those of a gigabyte take 20 ms). Recovery scans segments that
                were not flushed, and rebuilds their indexes.
        """
        self._seal()
        if not at_once or self._indexes.unwritten_count <= WRITTEN_AT_ONCE:
            self._indexes.flush(sync=False)

    def flush(self) -> None:
        """Make all batches and index entries so far survive a power loss, the file names included.

        May run in another thread than `append`; batches appended during the call may or may not be covered.

        Raises:
            OSError: The disk refused; what is durable is unknown.
        """
        self.log_file.sync()
        self._indexes.flush(sync=True)
        if self._is_new or any(index.is_new for index in self._indexes.all):
            self.files.sync_dir(self.directory)
            self._is_new = False
            for index in self._indexes.all:
                index.is_new = False

    def close(self) -> None:
        """Write the final time index entry and the indexes, sync the indexes, and close the log file.

        FileSlices of this segment can no longer be read. The log file is not synced: `flush` before a clean stop.
        """
        self._seal()
        self._indexes.flush(sync=True)
        self.log_file.close()

    def change_suffix(self, old: str, new: str, *, log_first: bool = False) -> None:
        """Rename the files: log, offset index, time index, transaction index.

        Args:
            old: The present suffix, as a check.
            new: `""`, CLEANED, SWAP or DELETED. Existing files of that name are replaced.
            log_first: Sync the directory after the log file. Otherwise it is not synced.

        Open FileSlices stay readable.
        """
        if old != self.suffix:
            raise ValueError(f"{self!r} does not have the suffix {old!r}")
        new_path = paths.log_path(self.directory, self.base_offset, new)
        self.files.rename(self._log_path, new_path)
        # From here on the segment has the new name, and a repeated call renames the indexes that are left.
        self.suffix, self._log_path = new, new_path
        if log_first:
            self.files.sync_dir(self.directory)
        for kind, index in zip(paths.SEGMENT_KINDS[1:], self._indexes.all, strict=True):
            index.rename(self._path(kind))

    def rename_deleted(self, *, log_first: bool = False) -> None:
        """Give the files the suffix `.deleted`, with which a start removes them. Open files stay readable.

        With `log_first` no power loss can bring the segment back without its transaction index.
        """
        self.change_suffix(self.suffix, paths.DELETED, log_first=log_first)

    def delete_files(self) -> None:
        """Remove the files. Existing FileSlices stay readable."""
        for path in self.file_paths():
            self.files.remove(path)

    # Another place

    def go_on_from(self, other: LogSegment) -> None:
        """Take over the times for rolling, and new aborted transactions, of the active segment that this one replaces."""
        self.created_ms, self.first_append_ms = other.created_ms, other.first_append_ms
        self.rolling_jitter_ms = other.rolling_jitter_ms
        if other._first_batch_timestamp_ms is not None:
            self._first_batch_timestamp_ms = other._first_batch_timestamp_ms
        for aborted in other.txn_index.entries(self.txn_index.entry_count):
            self.txn_index.append(aborted)

    def moved_to(self, directory: str) -> None:
        """Change the paths: the directory has, or is about to get, another name."""
        self.directory, self._log_path = (
            directory,
            paths.segment_path(directory, self.base_offset, paths.LOG, self.suffix),
        )
        for kind, index in zip(paths.SEGMENT_KINDS[1:], self._indexes.all, strict=True):
            index.path = self._path(kind)

    # Checking and rebuilding

    def rebuild_indexes(self) -> None:
        """Rebuild the offset index and time index from the batch headers, without checking the records.

        Raises:
            CorruptRecordError: Some bytes of the log file are not a batch; the indexes cover the batches before them.
        """
        self._indexes.rebuild()

    def recover(
        self,
        producers: ProducerReplay | None = None,
        epochs: LeaderEpochs | None = None,
        *,
        before_cut: Callable[[], None] | None = None,
    ) -> int:
        """Read the whole segment after an unclean stop: rebuild all indexes, and cut off what is not a batch.

        The log file is cut at the first batch that is incomplete, fails its CRC or does not follow the one before.

        Args:
            producers: Gets every batch. Its state must be that before this segment.
            epochs: Gets every new leader epoch.
            before_cut: Called before anything is cut off. It must delete the later segments, or a power loss in between
                would leave a log with a gap.

        Returns:
            The number of bytes cut off.

        Raises:
            OldFormatError: Whole records of format v0 or v1. Nothing is cut off.

        Nothing is synced; `flush` makes the result durable.
        """
        self._first_batch_timestamp_ms = None
        self._indexes.restart()
        self.txn_index.reset()
        valid_bytes, last_offset = 0, self.base_offset - 1
        batches_found = batch_walk(
            self.log_file,
            0,
            self._log_path,
            chunk_bytes=RECOVERY_CHUNK_BYTES,
            whole_bytes_max=RECOVERY_CHUNK_BYTES,
        )
        try:
            for position, batch in batches_found:
                if (
                    batch.last_offset_delta < 0
                    or not last_offset < batch.base_offset <= batch.last_offset < paths.OFFSET_MAX
                ):
                    break
                if computed_crc(self.log_file, position, batch) != batch.crc:
                    break
                if epochs is not None and batch.partition_leader_epoch > epochs.latest_epoch:
                    epochs.assign(batch.partition_leader_epoch, batch.base_offset)
                if producers is not None and (aborted := producers.replay(batch)):
                    self.txn_index.append(aborted)
                self._indexes.note_batch(position, batch)
                last_offset = batch.last_offset
                valid_bytes = position + batch.size_bytes
        except CorruptRecordError:
            pass  # The bytes from here on are not a batch, as after a torn write.
        cut_bytes = self.size_bytes - valid_bytes
        if cut_bytes:
            if before_cut is not None:
                before_cut()
            self.log_file.truncate(valid_bytes)
        self._indexes.finish()
        return cut_bytes

    # Inside

    def _seal(self) -> None:
        self.log_file.drop_ahead()
        self._indexes.finish()
        self._indexes.newest.clear()
        if self.is_preallocated:
            self.log_file.truncate(self.log_file.size())
            self.is_preallocated = False
