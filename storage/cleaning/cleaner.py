"""One clean pass over one log: learn the newest record of every key, then copy what is still worth keeping.

Called by the server for a log that the cleaner manager chose, in a worker thread: a pass reads sealed segments and
writes `.cleaned` ones, which no other thread touches, and hands both to `swap`. It knows no scheduling, throttling or
states; `checkpoint` is where those reach into it.

    [0 ...] [310 ...] [550 ...] [700 ...]  upper offset
     \\_______ group _________/  \\_ group _/
               |                    |
     0.log.cleaned                700.log.cleaned          each swapped in before the next begins

A pass that is stopped anywhere, by abort, crash or power loss, leaves each segment old or new, and a log that means the
same; the next pass starts again from the old checkpoint.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise

from ..disk import paths
from ..disk.files import AbortedError
from ..filter.batch_chunks import ChunkReader
from ..filter.clean_rules import BatchFilter
from ..filter.copy_group import copy_group
from ..filter.dead_bits import DeadBits
from ..filter.map_builder import DirtyMap, build_map, look_back
from ..filter.offset_map import BYTES_PER_SLOT, OffsetMap, TableMemory, entries_max
from ..filter.removed import RemovedRecords
from ..produce import producer_snapshots
from ..produce.producer_state import LastRecord
from ..segment.cleaned import discard, discard_cleaned, set_mtime
from ..segment.index import AbortedTxn
from ..segment.index_file import RELATIVE_OFFSET_MAX
from ..segment.segment import LogSegment
from ..segment.split import overflows, split_segment
from ..topics.config import LogConfig
from .clean_stats import CleanStats, GroupPreview
from .dirtiness import LogToClean
from .progress import GroupAt, PassProgress, Phase

__all__ = ["IO_BUFFER_BYTES_MIN", "CleanPass", "CleanStats", "Cleaner"]

IO_BUFFER_BYTES_MIN = 2 << 20
"""Smallest I/O buffer of a thread, even if `log.cleaner.io.buffer.size` is less. Reads and writes of 1 MiB cost least, and
one call of the kernel, which holds no GIL, should have that much to do."""

Swap = Callable[[Sequence[LogSegment], Sequence[LogSegment]], None]
Checkpoint = Callable[[int], None]


class Cleaner:
    """The memory that one cleaner thread may spend. A pass leaves nothing in it but the room for the next one's map."""

    def __init__(
        self, *, dedupe_buffer_bytes: int, load_factor: float, io_buffer_bytes: int, keeps_range_end: bool = False
    ) -> None:
        """
        Args:
            dedupe_buffer_bytes: This thread's share of `log.cleaner.dedupe.buffer.size`.
            load_factor: `log.cleaner.io.buffer.load.factor`.
            io_buffer_bytes: This thread's share of `log.cleaner.io.buffer.size`; half of it for reading.
            keeps_range_end: Keep the last batch of each cleaned range without its records, as Apache Kafka does up to 4.3.
                Otherwise only a batch that ends at the high watermark is kept.

        Raises:
            ValueError: The map would not hold two keys.
        """
        self.max_entries = entries_max(dedupe_buffer_bytes, load_factor)
        self._slots_max = dedupe_buffer_bytes // BYTES_PER_SLOT
        self.chunk_bytes = io_buffer_bytes // 2
        self._keeps_range_end = keeps_range_end
        self._table_memory = TableMemory()

    @property
    def keeps_memory(self) -> bool:
        """Whether `release_memory` would free anything."""
        return self._table_memory.size_bytes > 0

    def release_memory(self) -> None:
        """Keep nothing for the next pass: it will not come soon. May take a tenth of a millisecond for each megabyte."""
        self._table_memory.release()

    def clean(
        self,
        to_clean: LogToClean,
        now_ms: int,
        *,
        secret: bytes,
        swap: Swap,
        checkpoint: Checkpoint,
        on_map_built: Callable[[], None] = lambda: None,
        progress: PassProgress | None = None,
    ) -> tuple[int, CleanStats]:
        """Clean the log up to the end of its cleanable part, or to the last offset in the map.

        Args:
            now_ms: The time of the pass, for delete horizons.
            secret: `offset_map.SECRET_BYTES` random bytes, drawn for this pass.
            swap: Puts new segments in the place of old ones; `Log.replace_segments`, or the server's way to
                `prepare_swap` here and `commit_swap` on its own thread.
            checkpoint: Called before every chunk with the bytes read or written since the last call. May wait, or
                raise AbortedError.
            on_map_built: Called once, between the two halves of the pass.
            progress: A new object, which other threads may read during the pass.

        Returns:
            The next first dirty offset, and what was done.

        Raises:
            AbortedError: From `checkpoint`, or segments had to be split.
            CorruptRecordError: A batch or record cannot be read. Groups before it are swapped, its own is untouched.
            OSError: The disk refused.
            After any error no `.cleaned` file is left, if the disk allows that.
        """
        return CleanPass(
            to_clean,
            now_ms,
            self.new_map(to_clean, secret),
            kept_end_offset=self.kept_end_offset(to_clean),
            chunk_bytes=self.chunk_bytes,
            swap=swap,
            checkpoint=checkpoint,
            on_map_built=on_map_built,
            progress=progress,
        ).run()

    def kept_end_offset(self, to_clean: LogToClean) -> int:
        """Return the end, exclusive, of the batch that stays without its records, even if it has no producer."""
        return to_clean.upper_offset if self._keeps_range_end else to_clean.high_watermark

    def new_map(self, to_clean: LogToClean, secret: bytes) -> OffsetMap:
        """Return an empty map for a pass, in the memory of the one before."""
        return OffsetMap(
            to_clean.first_dirty_offset,
            to_clean.upper_offset,
            slots_max=self._slots_max,
            entries_max=self.max_entries,
            secret=secret,
            memory=self._table_memory,
            version_source=to_clean.log.config.version_source,
        )


class CleanPass:
    """One pass: `Cleaner.clean`, and with nothing written `dry_run`."""

    def __init__(
        self,
        to_clean: LogToClean,
        now_ms: int,
        offsets: OffsetMap,
        *,
        kept_end_offset: int,
        chunk_bytes: int,
        swap: Swap,
        checkpoint: Checkpoint,
        on_map_built: Callable[[], None],
        progress: PassProgress | None = None,
    ) -> None:
        self._to_clean = to_clean
        self._log = to_clean.log
        self._config = to_clean.log.config
        self._now_ms = now_ms
        self._offsets = offsets
        self._kept_end_offset = kept_end_offset
        self._chunk_bytes = chunk_bytes
        self._reader = ChunkReader(chunk_bytes)
        self._swap = swap
        self._on_map_built = on_map_built
        self._stats = stats = CleanStats()
        self._progress = progress = progress or PassProgress()

        def on_mapped(size_bytes: int) -> None:
            progress.map_bytes_read += size_bytes
            progress.map_offset = offsets.latest_offset + 1
            checkpoint(size_bytes)

        def on_read(size_bytes: int) -> None:
            progress.bytes_read += size_bytes
            checkpoint(size_bytes)

        def on_written(size_bytes: int) -> None:
            stats.bytes_written += size_bytes
            progress.bytes_written += size_bytes
            checkpoint(size_bytes)

        # Nothing here may refer back to the pass: its buffers and files must be freed with it, in its thread. The garbage
        # collector would free them later, in the owner's thread, and block that thread.
        self._on_mapped, self._on_read, self._on_written = on_mapped, on_read, on_written
        segments = to_clean.segments
        self._ends = {segment.base_offset: following.base_offset for segment, following in pairwise(segments)}
        if segments:
            self._ends[segments[-1].base_offset] = to_clean.upper_offset

    def run(self) -> tuple[int, CleanStats]:
        last_records = self._to_clean.last_records
        if last_records is None:
            raise ValueError("a clean pass requires `LogToClean.for_worker()`")
        self._prepare()
        dirty = self._build_map()
        self._on_map_built()
        rules = self._new_rules(dirty.dead_bits(), last_records)
        segments = [segment for segment in self._to_clean.segments if segment.base_offset < dirty.end_offset]
        groups, progress = group_segments(segments, self._to_clean.upper_offset, self._config), self._progress
        progress.group_count = len(groups)
        progress.bytes_to_read = sum(segment.size_bytes for segment in segments)
        progress.phase = Phase.GROUPS
        for number, group in enumerate(groups, start=1):
            self._rewrite(number, group, rules)
        stats = self._stats
        stats.removed = rules.removed
        stats.records_read = rules.records_read
        stats.records_written = stats.records_read - stats.removed.total
        stats.tombstones_written, stats.markers_written = rules.tombstones_kept, rules.markers_kept
        stats.oldest_kept_ms, stats.aged_up_to_ms = rules.oldest_kept_ms, self._config.aged_up_to_ms(self._now_ms)
        return dirty.end_offset, stats

    def _prepare(self) -> None:
        """Sync and delete what must be on disk, or must not be, before a record may be removed."""
        discard_cleaned(self._log.files, self._log.directory)  # what an earlier pass could not remove
        # An old value must not be removed for a newer one that a power loss could still destroy, or whose commit marker it
        # could destroy: the marker may be in the active segment.
        if unsynced := self._log.begin_flush():
            unsynced.sync()
        self._split_overflowing()
        producer_snapshots.remove_undecided(self._log.files, self._log.directory, self._to_clean.upper_offset)

    def _new_rules(self, bits: DeadBits, last_records: Mapping[int, LastRecord]) -> BatchFilter:
        return BatchFilter(
            bits,
            last_records=last_records,
            kept_end_offset=self._kept_end_offset,
            now_ms=self._now_ms,
            delete_retention_ms=self._config.delete_retention_ms,
            record_bytes_max=self._config.max_decompressed_message_bytes,
            chunk_bytes=self._chunk_bytes,
            aged_up_to_ms=self._config.aged_up_to_ms(self._now_ms),
            on_written=self._on_written,
        )

    def _overflowing(self) -> list[LogSegment]:
        """Return the segments whose offsets do not fit into a new segment with the same base."""
        return [each for each in self._to_clean.segments if overflows(each, self._ends[each.base_offset])]

    def _split_overflowing(self) -> None:
        """Split such segments, and leave the rest to the next pass."""
        found = self._overflowing()
        for segment in found:
            self._swap(split_segment(segment, self._now_ms), [segment])
        if found:
            raise AbortedError(f"split {len(found)} segments because their offsets are out of range")

    def _build_map(self) -> DirtyMap:
        start, upper = self._to_clean.first_dirty_offset, self._to_clean.upper_offset
        segments = [segment for segment in self._to_clean.segments if self._ends[segment.base_offset] > start]
        # A record of the clean part may have a higher version than those of the dirty part.
        looks_back = self._offsets.versions is not None and bool(segments)
        below = [each for each in self._to_clean.segments if looks_back and each.base_offset < start]
        self._progress.map_bytes = sum(segment.size_bytes for segment in [*segments, *below])
        self._progress.map_offset = start
        self._progress.phase = Phase.MAP
        dirty = build_map(
            self._offsets,
            segments,
            start,
            upper,
            aborted=self._log.aborted_transactions(start, upper),
            reader=self._reader,
            record_bytes_max=self._config.max_decompressed_message_bytes,
            checkpoint=self._on_mapped,
        )
        self._offsets.end_retention(self._to_clean.erased_keys)
        self._stats.map_bytes_read = dirty.bytes_read + self._look_back(below)
        self._stats.map_record_count = dirty.offsets.keys.records
        self._stats.map_entry_count = dirty.offsets.keys.entries
        self._stats.map_utilization = dirty.offsets.utilization
        return dirty

    def _look_back(self, segments: Sequence[LogSegment]) -> int:
        """Let these segments, below the dirty part, compete with the map; returns the bytes read."""
        start = self._to_clean.first_dirty_offset
        if not segments:
            return 0
        return look_back(
            self._offsets,
            segments,
            self._to_clean.log_start_offset,
            start,
            aborted=self._log.aborted_transactions(segments[0].base_offset, start),
            reader=self._reader,
            record_bytes_max=self._config.max_decompressed_message_bytes,
            checkpoint=self._on_mapped,
        )

    def _rewrite(self, number: int, group: Sequence[LogSegment], rules: BatchFilter) -> None:
        """Clean a group, and record the progress before and after it."""
        removed, records_read = asdict(rules.removed), rules.records_read
        source_bytes = tuple(segment.size_bytes for segment in group)
        size_bytes, base_offset = sum(source_bytes), group[0].base_offset
        end_offset, progress = self._ends[group[-1].base_offset], self._progress
        progress.group = GroupAt(number, base_offset, end_offset, size_bytes, progress.bytes_read)
        bytes_after = self._clean_group(group, rules)
        progress.bytes_read = progress.group.begun_at_bytes + size_bytes  # a chunk's end may have been read twice
        progress.done.append(
            GroupPreview(
                base_offset=base_offset,
                end_offset=end_offset,
                source_base_offsets=tuple(segment.base_offset for segment in group),
                source_bytes=source_bytes,
                bytes_before=size_bytes,
                bytes_after=bytes_after,
                records_before=rules.records_read - records_read,
                removed=RemovedRecords(
                    **{name: count - removed[name] for name, count in asdict(rules.removed).items()}
                ),
            )
        )

    def _clean_group(self, group: Sequence[LogSegment], rules: BatchFilter) -> int:
        """Copy what stays of a group to a new segment and swap that in. Returns its bytes."""
        files, directory = self._log.files, self._log.directory
        new: list[LogSegment] = []
        try:
            cleaned = LogSegment.create(
                files, directory, group[0].base_offset, self._config, self._now_ms, suffix=paths.CLEANED
            )
            new.append(cleaned)
            self._copy(group, cleaned, rules)
            set_mtime(cleaned, files.mtime_ms(group[-1].file_paths()[0]))
            if self._config.ottla_key_retention_ms >= 0:
                cleaned.learn_age()  # the next measurement asks for it, in the owner's thread
        except BaseException:
            discard(files, directory, new)
            raise
        size_bytes = cleaned.size_bytes
        self._swap([cleaned], group)
        return size_bytes

    def _copy(self, group: Sequence[LogSegment], cleaned: LogSegment, rules: BatchFilter) -> None:
        """Fill `cleaned` with what stays of a group."""
        self._stats.bytes_read += copy_group(
            group,
            cleaned,
            rules,
            reader=self._reader,
            aborted_in=self._aborted_in,
            checkpoint=self._on_read,
        )
        self._stats.segments_before += len(group)
        self._stats.segments_after += 1

    def _aborted_in(self, segment: LogSegment) -> list[AbortedTxn]:
        return self._log.aborted_transactions(segment.base_offset, self._ends[segment.base_offset])


def group_segments(segments: Sequence[LogSegment], upper_offset: int, config: LogConfig) -> list[list[LogSegment]]:
    """Group neighbouring segments, as many as fit into one segment before cleaning.

    A group keeps to `segment.bytes`, its offset index and its time index each to `segment.index.bytes`, and its last
    offset to 31 bits above its base. The next segment's base (for the last one `upper_offset`) is taken as the end of a
    segment that is not empty. A segment that exceeds a limit by itself is a group by itself.
    """
    ends = [segment.base_offset for segment in segments[1:]] + [upper_offset]
    groups: list[list[LogSegment]] = []
    log_bytes = offset_index_bytes = time_index_bytes = 0
    for segment, end in zip(segments, ends, strict=False):  # no segment, one end
        log_bytes += segment.size_bytes
        offset_index_bytes += segment.offset_index.size_bytes
        time_index_bytes += segment.time_index.size_bytes
        if (
            groups
            and log_bytes <= config.segment_bytes
            and offset_index_bytes <= config.segment_index_bytes
            and time_index_bytes <= config.segment_index_bytes
            # Empty segments join whatever they span, or there would stay one for every 2**31 offsets.
            and (segment.size_bytes == 0 or end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            log_bytes = segment.size_bytes
            offset_index_bytes = segment.offset_index.size_bytes
            time_index_bytes = segment.time_index.size_bytes
    return groups
