"""One partition's directory, opened for reading: its segments, their readable end, and their division into splits.

Nothing is locked and nothing written, so it may belong to a running broker. Indexes are storage's own; if an index
file is missing, stale or preallocated, it is rebuilt in memory.

    log start          offsets wanted                    readable end: high watermark, whole batches
        |          from |           | up to                 |
    [segment 0     ][segment 50       ][segment 100    ][ ba|tch][torn
                    [split][split]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, RecordBatch
from ...storage.disk import paths
from ...storage.disk.files import File
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
from .reading_files import FileStatus, ReadingFiles, status_of
from .segment_files import (
    FoundSegments,
    find_segments,
    open_segment,
    pause_between_looks,
    source_errors,
)
from .segment_names import topic_id_in
from .txn_indexes import complete_txn_indexes


class LogPlace(NamedTuple):
    """A partition's directory, as all splits of its log know it."""

    of: TopicPartition
    directory: str
    topic_id: bytes | None
    """Id of the topic at the time; see `topic_id_in`."""
    files: ReadingFiles
    """Files with which a reader opens the log."""


class Split(NamedTuple):
    """A part of one segment, from one batch start to another: the work of one task."""

    place: LogPlace
    segment_base_offset: int
    segment_end_offset: int
    """Start of the next segment; OFFSET_MAX if this one is the last."""
    inode: int
    """Inode of the log file when the split was made; of an object its substitute (`objects.ranges.Status`)."""
    size_bytes: int
    """Size of the whole log file then."""
    changed_ns: int | None
    """Change time of the log file then; None for a log's last segment, which may still grow."""
    first_header: bytes
    """Header of the batch at `start` in a last segment, as an inode may have been reused; empty in others and in objects."""
    start: int
    end: int
    """Bytes of the log file: from inclusive, to exclusive."""
    from_offset: int
    up_to_offset: int
    """Offsets to read, from inclusive, to exclusive: this part's share of the wanted range."""

    @property
    def of(self) -> TopicPartition:
        return self.place.of

    @property
    def directory(self) -> str:
        return self.place.directory

    @property
    def topic_id(self) -> bytes | None:
        return self.place.topic_id

    @property
    def files(self) -> ReadingFiles:
        return self.place.files

    @property
    def log_path(self) -> str:
        return paths.log_path(self.directory, self.segment_base_offset)

    def is_of(self, status: FileStatus) -> bool:
        """Return whether this is still the log file that the split was made of, apart from `first_header`.

        Inodes are not compared where times suffice, as some mounts generate new ones.
        """
        if self.changed_ns is None:
            return status.st_ino == self.inode and status.st_size >= self.end
        return (status.st_size, status.st_ctime_ns) == (self.size_bytes, self.changed_ns)


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
        files: ReadingFiles | None = None,
        committed: bool = True,
        follows: bool = False,
        tail: Tail | None = None,
        from_offset: int = 0,
        pause: Callable[[], None] = pause_between_looks,
    ) -> None:
        """Find the segments and the end of the readable data.

        Args:
            log_start_offset: From the checkpoint; the first segment's base offset if that is higher.
            high_watermark: Records above it must not be read yet; None if every whole batch is committed.
            durable_end_offset: End of data known to be whole, with its indexes: a last segment that ends before it is
                damaged, not torn. None if unknown.
            committed: Set if the caller calls `transactions`.
            follows: Set if the caller reads `tail`, and not `undecided_offset`.
            tail: That of an earlier look.
            from_offset: The first offset to read: earlier segments are not looked at.
            pause: See `open_segments`, also for the errors.
        """
        self.directory = directory
        self.of = of
        self._files = ReadingFiles() if files is None else files
        self.topic_id = topic_id_in(self._files, directory)
        self._place = LogPlace(of, directory, self.topic_id, self._files)
        self._committed = committed
        self._follows = follows
        self._pause = pause
        self._producers: ProducerStates | None = None
        self._unwritten: tuple[AbortedTxn, ...] = ()
        looked, self._before = self._look(tail, from_offset)
        self._base_offsets, self._statuses, self.segments = looked[1:]
        self._durable_end_offset = durable_end_offset
        self.torn_bytes = 0
        """Size of an incompletely written batch at the end of the last segment."""
        try:
            self.log_end_offset = self._find_end(durable_end_offset or 0)
        except BaseException:
            self.close()
            raise
        """Offset after the last whole batch."""
        self.log_start_offset = max(log_start_offset, looked.first_base_offset)
        self.undecided_offset = self.log_end_offset
        """Start of the first transaction that is open at the log's end; set by `transactions`."""
        self.readable_end_offset = self.log_end_offset
        """End for `read_uncommitted` (exclusive)."""
        if high_watermark is not None:
            self.readable_end_offset = max(self.log_start_offset, min(high_watermark, self.log_end_offset))

    def _look(self, tail: Tail | None, from_offset: int) -> tuple[FoundSegments, Tail | None]:
        """Find the segments; returns them, and the tail if it is still in the log."""
        if tail is not None and tail.topic_id == self.topic_id:
            looked = self._find(min(from_offset, tail.last_offset), tail.last_offset)
            if tail.is_in(looked.opened):
                for segment in looked.opened:
                    tail.add_to_index(segment)
                return looked, tail
            for segment in looked.opened:
                segment.log_file.close()
        return self._find(from_offset, OFFSET_MAX), None

    def _find(self, from_offset: int, opens_from: int) -> FoundSegments:
        return find_segments(
            self._files,
            self.directory,
            from_offset=from_offset,
            opens_from=opens_from,
            opens_aborted=self._committed,
            pause=self._pause,
        )

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
        self._open_from(0)
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
            self._open_from(producers.end_offset)
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

    def _open_from(self, offset: int) -> None:
        """Open the segment with this offset and all later ones."""
        opened = {segment.base_offset for segment in self.segments}
        bases = self._base_offsets
        if bases[0] <= offset and opened.issuperset(bases[bisect_right(bases, offset) - 1 :]):
            return
        for segment in self._find(offset, offset).opened:
            if segment.base_offset in opened or segment.base_offset > bases[-1]:
                segment.log_file.close()
            else:
                self.segments.append(segment)
        self.segments.sort(key=lambda segment: segment.base_offset)

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
        opened = {segment.base_offset: segment for segment in self.segments}
        is_tiered = layout_of(self.directory) is not None  # segments of two leaders may overlap
        bases, place, log_end_offset = self._base_offsets, self._place, self.log_end_offset
        first_number, stop_number = max(0, bisect_right(bases, from_offset) - 1), bisect_left(bases, up_to_offset)
        followings = [*bases[first_number + 1 : stop_number + 1], OFFSET_MAX]
        for base_offset, following, status in zip(
            bases[first_number:stop_number], followings, self._statuses[first_number:stop_number], strict=False
        ):
            is_last = following == OFFSET_MAX
            end, size_bytes = OFFSET_MAX if is_tiered else following, status.st_size
            is_whole = size_bytes <= max_bytes and from_offset <= base_offset
            is_whole = is_whole and (following <= up_to_offset or log_end_offset <= up_to_offset)
            if is_whole and since_ms is None and not is_last:
                if size_bytes:
                    inode, changed_ns = status.st_ino, status.st_ctime_ns
                    yield Split(
                        place,
                        base_offset,
                        end,
                        inode,
                        size_bytes,
                        changed_ns,
                        b"",
                        0,
                        size_bytes,
                        base_offset,
                        following,
                    )
                continue
            first, stop = max(from_offset, base_offset), min(up_to_offset, following)
            segment = opened.get(base_offset) or self._reopened(base_offset, status)
            if segment is None:  # the reader looks these offsets up
                yield Split(place, base_offset, end, 0, 0, 0, b"", 0, max_bytes, first, stop)
                continue
            if segment.size_bytes and first < stop and (since_ms is None or not _is_earlier(segment, since_ms)):
                edges, until = [(0, first)], segment.size_bytes
                if not is_whole:
                    edges, until = self._edges(segment, first, stop, max_bytes)
                yield from self._segment_splits(segment, end, [*edges, (until, stop)], is_last=is_last)
            if base_offset not in opened:
                segment.log_file.close()

    def _reopened(self, base_offset: int, status: FileStatus) -> LogSegment | None:
        """Open a segment that was found; None if it was replaced since, and its offsets may end elsewhere."""
        try:
            segment = open_segment(self._files, self.directory, base_offset)
        except FileNotFoundError:
            return None
        now = status_of(segment.log_file)
        if (now.st_size, now.st_ctime_ns) == (status.st_size, status.st_ctime_ns):
            return segment
        segment.log_file.close()
        return None

    def _segment_splits(
        self, segment: LogSegment, segment_end: int, edges: Sequence[tuple[int, int]], *, is_last: bool
    ) -> Iterator[Split]:
        """Yield the parts of a segment between these positions and offsets."""
        file = segment.log_file
        status = status_of(file)
        for (start, from_offset), (until, up_to_offset) in pairwise(edges):
            header = file.read_at(start, HEADER_BYTES) if is_last and not is_address(self.directory) else b""
            yield Split(
                self._place,
                segment.base_offset,
                segment_end,
                status.st_ino,
                status.st_size,
                None if is_last else status.st_ctime_ns,
                header,
                start,
                until,
                from_offset,
                up_to_offset,
            )

    def _edges(self, segment: LogSegment, first: int, stop: int, max_bytes: int) -> tuple[list[tuple[int, int]], int]:
        """Return position and first offset of each part of a segment, and the end of the last part, by bisecting its index."""
        edges, size_bytes = [(0, first)], segment.size_bytes
        with suppress(CorruptRecordError):
            edges = [(segment.floor_position(first), first)]
            # Rebuilding an object's index would read all of it here, and the tasks read it again: it stays one task.
            if size_bytes - segment.offset_index.last_entry[1] > max_bytes and not is_address(self.directory):
                segment.rebuild_indexes()  # that of the last segment may be only in a broker's memory
                edges = [(segment.floor_position(first), first)]
        offsets, positions = segment.offset_index.columns
        at = bisect_right(positions, edges[0][0])
        # The batch at the first entry that reaches `stop` may begin below it; the one at the next entry cannot.
        until = min(len(positions), bisect_left(offsets, stop - segment.base_offset, at) + 1)
        end = positions[until] if until < len(positions) else size_bytes
        while end - edges[-1][0] > max_bytes:
            at = max(at, bisect_right(positions, edges[-1][0] + max_bytes, at) - 1)
            if at >= until:
                break
            base_offset = _base_offset(segment.log_file, positions[at], segment.base_offset + offsets[at])
            if base_offset is not None and edges[-1][1] < base_offset < stop:
                edges.append((positions[at], base_offset))
            at += 1
        return edges, end

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


def _base_offset(file: File, position: int, last_offset: int) -> int | None:
    """Return the base offset of the batch with this last offset, if it begins at `position`."""
    with suppress(CorruptRecordError):
        batch = RecordBatch(file.read_at(position, HEADER_BYTES))
        if batch.last_offset == last_offset:
            return batch.base_offset
    return None
