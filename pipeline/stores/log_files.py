"""One partition's directory, opened for reading: its segments, their readable end, and their division into splits.

Nothing is locked and nothing written, so it may belong to a running broker. Indexes are storage's own; if an index
file is missing, stale or preallocated, it is rebuilt in memory.

    log start          offsets wanted                    readable end: high watermark, whole batches
        |          from |           | up to                 |
    [segment 0     ][segment 50       ][segment 100    ][ ba|tch][torn
                    [split][split]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, RecordBatch
from ...storage.disk import paths
from ...storage.disk.files import File, Files
from ...storage.disk.paths import OFFSET_MAX, TopicPartition
from ...storage.produce import producer_snapshots
from ...storage.produce.producers import ProducerStates
from ...storage.segment.batch_scan import batch_steps
from ...storage.segment.index import AbortedTxn
from ...storage.segment.segment import LogSegment
from ..errors import SourceChangedError
from ..objects.addresses import is_address
from ..objects.tiered import layout_of
from .log_tails import Tail
from .reading_files import ReadingFiles, status_of, told_apart_by
from .segment_files import open_segments, pause_between_looks, source_errors
from .segment_names import first_base_offset, topic_id_in
from .txn_indexes import complete_txn_indexes


@dataclass(frozen=True, slots=True)
class Split:
    """A part of one segment, from one batch start to another: the work of one task."""

    of: TopicPartition
    directory: str
    segment_base_offset: int
    segment_end_offset: int
    """Start of the next segment; OFFSET_MAX if this one is the last."""
    topic_id: bytes | None
    """Id of the topic at the time; see `topic_id_in`."""
    inode: int
    """Inode of the log file when the split was made; for an object its substitute (`objects.ranges.Status`)."""
    first_header: bytes
    """Header of the batch at `start`, as an inode may have been reused for another file since."""
    start: int
    end: int
    """Bytes of the log file: from inclusive, to exclusive."""
    from_offset: int
    up_to_offset: int
    """Offsets to read, from inclusive, to exclusive: this part's share of the wanted range."""
    files: Files = field(default_factory=ReadingFiles, compare=False, repr=False)
    """Files with which the reader opens the log."""

    @property
    def log_path(self) -> str:
        return paths.log_path(self.directory, self.segment_base_offset)


class PartitionLog:
    """Snapshot of a partition's log; see the module. Later appends are not visible."""

    def __init__(
        self,
        directory: str,
        of: TopicPartition,
        *,
        log_start_offset: int = 0,
        high_watermark: int | None = None,
        durable_end_offset: int | None = None,
        files: Files | None = None,
        follows: bool = False,
        tail: Tail | None = None,
        from_offset: int = 0,
        pause: Callable[[], None] = pause_between_looks,
    ) -> None:
        """Open the segments and find the end of the readable data.

        Args:
            log_start_offset: From the checkpoint; the first segment's base offset if that is higher.
            high_watermark: Records above it must not be read yet; None if every whole batch is committed.
            durable_end_offset: End of data known to be whole, with its indexes: a last segment that ends before it is
                damaged, not torn. None if unknown.
            follows: Set if the caller reads `tail`, and not `undecided_offset`.
            tail: That of an earlier look. If it is still in the log, segments are opened only as far back as it and
                `from_offset` need.
            from_offset: The first offset to read.
            pause: See `open_segments`, also for the errors.
        """
        self.directory = directory
        self.of = of
        self._files: Files = ReadingFiles() if files is None else files
        self.topic_id = topic_id_in(self._files, directory)
        self._follows = follows
        self._producers: ProducerStates | None = None
        self._unwritten: tuple[AbortedTxn, ...] = ()
        self.segments, self._before = self._opened(tail, from_offset, pause)
        self._durable_end_offset = durable_end_offset
        self.torn_bytes = 0
        """Size of an incompletely written batch at the end of the last segment."""
        try:
            first = self.segments[0].base_offset if self._before is None else first_base_offset(self._files, directory)
            self.log_end_offset = self._find_end(durable_end_offset or 0)
        except BaseException:
            self.close()
            raise
        """Offset after the last whole batch."""
        self.log_start_offset = max(log_start_offset, first)
        self.undecided_offset = self.log_end_offset
        """Start of the first transaction that is open at the log's end; set by `transactions`."""
        self.readable_end_offset = self.log_end_offset
        """End for `read_uncommitted` (exclusive)."""
        if high_watermark is not None:
            self.readable_end_offset = max(self.log_start_offset, min(high_watermark, self.log_end_offset))

    def _opened(
        self, tail: Tail | None, from_offset: int, pause: Callable[[], None]
    ) -> tuple[list[LogSegment], Tail | None]:
        """Open the segments; returns them, and the tail if it is still in the log."""
        if tail is not None and tail.topic_id == self.topic_id:
            from_offset = min(from_offset, tail.last_offset)
            segments = open_segments(self._files, self.directory, from_offset=from_offset, pause=pause)
            if tail.is_in(segments):
                for segment in segments:
                    tail.add_to_index(segment)
                return segments, tail
            for segment in segments:
                segment.log_file.close()
        return open_segments(self._files, self.directory, pause=pause), None

    @property
    def tail(self) -> Tail | None:
        """Tail for the next look, if the log `follows`. After a call of `transactions` it includes their state."""
        aborted = [] if self._producers is None else self._aborted()
        return Tail.from_segments(self.topic_id, self.segments, self._producers, aborted, self._before)

    def close(self) -> None:
        """Close the descriptors."""
        for segment in self.segments:
            segment.log_file.close()

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """Return the first offset from the log start on whose record is not earlier, as ListOffsets; None if none is.

        Raises:
            CorruptSourceError: A batch before that offset cannot be read.
        """
        with source_errors(self.segments):
            for segment in self.segments:
                if segment.largest_timestamp_ms >= timestamp_ms:
                    found = segment.find_offset_by_timestamp(timestamp_ms, self.log_start_offset)
                    return None if found is None else found[1]
        return None

    def transactions(self) -> tuple[int, list[AbortedTxn]]:
        """Return the last stable offset, and every aborted transaction of which records may be left.

        Index entries of the last segment may be only in a broker's memory, and those above the recovery point may not have
        survived a power loss. So transactions after the newest producer snapshot below that point are read from the batches'
        headers.

        Raises:
            CorruptSourceError: There are bytes that are not a batch after that snapshot, or an index is damaged.
        """
        with source_errors(self.segments):
            return self._transactions()

    def _transactions(self) -> tuple[int, list[AbortedTxn]]:
        if layout_of(self.directory) is not None:  # decided before the upload
            return self.readable_end_offset, self._aborted()
        before = self._before
        if before is not None and before.producers is not None:
            producers, self._unwritten = before.producers, before.aborted
        else:
            producers = ProducerStates()
            end = self._durable_end_offset
            producer_snapshots.load_newest(
                self._files,
                self.directory,
                producers,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.readable_end_offset if end is None else min(end, self.readable_end_offset),
                now_ms=None,
                tidies=False,
            )
        # A marker above the high watermark decides nothing yet.
        complete_txn_indexes(producers, self.segments, self.readable_end_offset)
        unstable = producers.first_unstable_offset
        if self._follows:
            self._producers = producers
        else:
            complete_txn_indexes(producers, self.segments)
            if producers.first_unstable_offset is not None:
                self.undecided_offset = producers.first_unstable_offset
        stable_end = self.readable_end_offset if unstable is None else min(unstable, self.readable_end_offset)
        return max(stable_end, self.log_start_offset), self._aborted()

    def _aborted(self) -> list[AbortedTxn]:
        aborted = {txn.last_offset: txn for txn in self._unwritten}
        aborted |= {txn.last_offset: txn for segment in self.segments for txn in segment.txn_index.entries()}
        return [aborted[offset] for offset in sorted(aborted)]

    def splits(
        self, from_offset: int, up_to_offset: int, *, max_bytes: int, since_ms: int | None = None
    ) -> Iterator[Split]:
        """Yield the parts of an offset range, each of at most about `max_bytes`.

        It reads the indexes and one header per split. Damage inside a split is found by its reader.

        Args:
            since_ms: Segments whose largest timestamp is lower may be left out.
        """
        for segment, following in zip(self.segments, [*self.segments[1:], None], strict=True):
            segment_end = OFFSET_MAX if following is None else following.base_offset
            first, stop = max(from_offset, segment.base_offset), min(up_to_offset, segment_end)
            if first >= stop or segment.size_bytes == 0:
                continue
            if since_ms is not None and _is_earlier(segment, since_ms):
                continue
            yield from self._segment_splits(segment, segment_end, first, stop, max_bytes)

    def _segment_splits(
        self, segment: LogSegment, segment_end: int, first: int, stop: int, max_bytes: int
    ) -> Iterator[Split]:
        file = segment.log_file
        is_whole = first <= segment.base_offset and stop >= min(segment_end, self.log_end_offset)
        if is_whole and segment.size_bytes <= max_bytes:  # without reading its index
            yield self._split(segment, segment_end, 0, segment.size_bytes, first, stop)
            return
        start = 0
        with suppress(CorruptRecordError):
            start = segment.floor_position(first)
            # Rebuilding an object's index would read all of it here, and the tasks read it again: it stays one task.
            if segment.size_bytes - segment.offset_index.last_entry[1] > max_bytes and not is_address(self.directory):
                segment.rebuild_indexes()  # that of the last segment may be only in a broker's memory
                start = segment.floor_position(first)
        entries = [(offset, at) for offset, at in segment.offset_index.entries() if at > start]
        # The batch at the first entry that reaches `stop` may begin below it; the one at the next entry cannot.
        beyond = [at for offset, at in entries if offset >= stop]
        end = beyond[1] if len(beyond) > 1 else segment.size_bytes
        edges = [(start, first)]
        for (offset, at), following in pairwise((*entries, None)):  # type: ignore[misc]
            next_at = end if following is None else following[1]
            if at >= end or next_at - edges[-1][0] <= max_bytes:
                continue
            base_offset = _base_offset(file, at, last_offset=offset)
            if base_offset is not None and edges[-1][1] < base_offset < stop:
                edges.append((at, base_offset))
        for (at, from_offset), (until, up_to_offset) in pairwise((*edges, (end, stop))):
            yield self._split(segment, segment_end, at, until, from_offset, up_to_offset)

    def _split(
        self, segment: LogSegment, segment_end: int, start: int, end: int, from_offset: int, up_to_offset: int
    ) -> Split:
        return Split(
            self.of,
            self.directory,
            segment.base_offset,
            segment_end if layout_of(self.directory) is None else OFFSET_MAX,  # segments of two leaders may overlap
            self.topic_id,
            status_of(segment.log_file).st_ino,
            told_apart_by(segment.log_file, start),
            start,
            end,
            from_offset,
            up_to_offset,
            self._files,
        )

    def _find_end(self, durable_end_offset: int) -> int:
        segment = self.segments[-1]
        end, last_offset = _whole_batches(segment)
        left_bytes = segment.size_bytes - end
        if left_bytes and last_offset + 1 >= durable_end_offset and _may_be_torn(segment, end):
            self.torn_bytes = left_bytes
            segment.log_file.truncate(end)
        if last_offset + 1 < durable_end_offset and is_address(self.directory):
            raise SourceChangedError(
                f"{self.directory}: the log ends at {last_offset + 1}, and {paths.RECOVERY_POINT_CHECKPOINT} guarantees it up to"
                f" {durable_end_offset}: it was copied while its server ran, or is damaged: copy it again, or leave that file out"
            )
        return last_offset + 1


def _whole_batches(segment: LogSegment) -> tuple[int, int]:
    """Return the end of a segment's whole batches, and their last offset; one below the base offset if it has none."""
    position = 0
    with suppress(CorruptRecordError):
        position = segment.floor_position(OFFSET_MAX)
    for start in dict.fromkeys((position, 0)):  # an index entry that does not point to a batch is ignored
        end, last_offset = start, segment.base_offset - 1
        with suppress(CorruptRecordError):
            for _, end, last_offset in batch_steps(segment.log_file, start, ""):  # noqa: B007 - the last one counts
                pass
        if end > start:
            return end, last_offset
    return 0, segment.base_offset - 1


def _may_be_torn(segment: LogSegment, position: int) -> bool:
    """Return whether the bytes from `position` on can come from an unfinished write, or from preallocation."""
    head = segment.log_file.read_at(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return True
    if not any(head):
        return True
    try:
        return RecordBatch(head).size_bytes > segment.size_bytes - position
    except CorruptRecordError:
        return False


def _is_earlier(segment: LogSegment, timestamp_ms: int) -> bool:
    try:
        return segment.max_timestamp_ms < timestamp_ms
    except CorruptRecordError:
        return False


def _base_offset(file: File, position: int, *, last_offset: int) -> int | None:
    """Return the base offset of the batch with this last offset, if it begins at `position`."""
    with suppress(CorruptRecordError):
        batch = RecordBatch(file.read_at(position, HEADER_BYTES))
        if batch.last_offset == last_offset:
            return batch.base_offset
    return None
