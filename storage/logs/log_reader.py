"""Read side of one partition: its contents, and the position of a given offset or timestamp.

The state of a log, and all operations that do not change it. `durable_log` adds flushing, `log.Log` the rest: appends,
deletions, swaps. Reads return slices of the segment files; no record byte passes through here.

      log start             recovery point      high watermark = log end (LEO)
          |                       |                          |
    [segment][segment ...][segment][      active segment     ]
                                              |
                                       last stable offset: the first open transaction, else the LEO

Nothing is replicated: the high watermark is the LEO, unless `flush.messages` demands a sync. Records since the last sync are
then above the high watermark, unseen until they are on disk. Apache Kafka has the same effect: it syncs within the append.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import NamedTuple, TypeAlias

from ...protocol.errors import ErrorCode, KafkaError
from ..disk import paths
from ..disk.files import FileSlice, WouldWaitError
from ..disk.health import Health
from ..segment.index import AbortedTxn
from ..segment.segment import LogSegment
from ..steps import Steps
from ..topics.config import LogConfig
from . import record_counts
from .log_parts import LogContents, LogPlace
from .record_counts import RecordCounter, RecordCounts
from .segments import SegmentList


class LogOffsetMetadata(NamedTuple):
    """An offset, and the place of the batch that holds or follows it, to count the bytes between two offsets.

    It is valid until that segment is cut or replaced.
    """

    offset: int
    segment_base_offset: int
    position: int
    """In bytes, in the segment's log file."""


class FetchedRecords(NamedTuple):
    """Result of a read."""

    records: FileSlice
    """Whole batches."""
    offered_bytes: int
    """Size including the part of one more batch up to the limit. Apache Kafka returns that part, and counts it in every limit."""
    start: LogOffsetMetadata
    """Place of the requested offset."""


class FoundOffset(NamedTuple):
    """The record that a search by timestamp found."""

    timestamp: int
    offset: int
    leader_epoch: int


Search: TypeAlias = Steps[FoundOffset | None]
"""A search that yields after every step of about a millisecond, or one batch that it unpacks. The caller may abandon it at any
step, and run each step in another thread."""


class LogReader:
    """State of a partition and all operations that only read it."""

    def __init__(self, place: LogPlace, config: LogConfig, contents: LogContents) -> None:
        self.files = place.files
        self.directory = place.directory
        self.data_dir = paths.parent(place.directory)
        """The data directory that contains the log."""
        self.topic_partition = place.topic_partition
        self.topic_id = place.topic_id
        self.config = config
        """Replaceable at any time; takes effect from the next append, retention or clean pass on."""
        self.segments = SegmentList(contents.segments)
        self.producers = contents.producers
        self.leader_epochs = contents.leader_epochs
        self.log_start_offset = contents.log_start_offset
        self.log_end_offset = contents.log_end_offset
        self.high_watermark = contents.log_end_offset
        """The end of what consumers may read (exclusive)."""
        self.recovery_point = contents.recovery_point
        """Everything below it survives a power loss; see `LogContents`."""
        self.counter = RecordCounter(contents.log_end_offset)
        self.is_surveyed = len(self.segments) == 1
        """Whether `survey` has been done or has nothing to read."""
        self._health = place.health
        # The active segment, which nearly all appends and reads use.
        self._active = self.segments.active

    def __repr__(self) -> str:
        name, start, end = type(self).__name__, self.log_start_offset, self.log_end_offset
        return f"{name}({self.topic_partition}, offsets {start} to {end}, {len(self.segments)} segments)"

    @property
    def last_stable_offset(self) -> int:
        """The end of what `read_committed` consumers may read (exclusive): below the first open transaction."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of record batches in all segments."""
        return self.segments.size_bytes

    @property
    def failure(self) -> str | None:
        """Reason why the log is offline, and every call raises KAFKA_STORAGE_ERROR; None while it works."""
        return self._health.failure

    @property
    def is_left_alone(self) -> bool:
        """Whether its records have a format that this broker cannot read: its files and checkpoint entries stay unchanged."""
        return self._health.leaves_alone

    def survey(self) -> None:
        """Load into memory what the cleaner needs of all sealed segments, and the counts of its last pass.

        In any thread; once after a start.

        An error is ignored here: the cleaner reads the same again, and it raises there.
        """
        with suppress(Exception):
            for segment in self.segments.non_active():
                segment.learn_age()
        counts = None
        with suppress(Exception):
            counts = record_counts.read(self.files, self.directory, self.segments, self.counter.counts_up_to)
        if not self.is_surveyed:  # otherwise a pass may have begun since
            self.counter.clean = counts
            self.is_surveyed = True

    @property
    def counts(self) -> RecordCounts:
        """Bounds of the numbers of records, without reading the log. Counts of the last pass are known after a `survey`."""
        return self.counter.counts(self.log_start_offset, self.log_end_offset, self._active.base_offset)

    def fail(self, error: OSError, health: Health | None = None) -> KafkaError:
        """Record an error of the system, and return the error to raise.

        Args:
            health: Health of the directory that the error came from, if the log may have moved since.

        If the disk has failed (see `health`), the log and all others of its data directory are offline now. Otherwise this
        call alone is refused.
        """
        (health or self._health).note(error)
        if self._health.failure is not None:
            return self._offline()
        return KafkaError(self._health.code, f"{self.topic_partition}: {error}")

    def retire(self, health: Health) -> None:
        """Refuse every later call as `health` says; other logs of the directory are not affected. For a deleted partition."""
        self._health = health
        Health.note_change()

    def give_up(self, reason: str) -> None:
        """Take only this log offline until the next start, which examines its files. Any thread.

        For a change of the files that can be neither finished nor undone.
        """
        if self._health.failure is None:
            self.retire(Health(reason))

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Guard the body of a call that touches the disk: refuse it while offline, and turn an OSError into that of `fail`."""
        self._check_online()
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    def _check_online(self) -> None:
        if self._health.failure is not None:
            raise self._offline()

    def _offline(self) -> KafkaError:
        return KafkaError(self._health.code, f"{self.topic_partition} is unavailable: {self._health.failure}")

    def locate(self, offset: int, *, at_once: bool = False) -> LogOffsetMetadata:
        """Find the position of `offset`, or for the LEO that of the next batch. `offset` is at most the LEO.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
            WouldWaitError: Only if `at_once`: a file has to be read that is not in memory.
        """
        segment = self._active
        if offset < self.log_end_offset:
            with self._working():
                for segment in self.segments.between(offset, self.log_end_offset):
                    position = segment.position_of(offset, at_once=at_once)
                    if position is not None:
                        return LogOffsetMetadata(offset, segment.base_offset, position)
        return LogOffsetMetadata(offset, segment.base_offset, segment.log_file.size())

    def read(self, offset: int, *, max_bytes: int, up_to: int) -> FileSlice:
        """Fetch batches up to the offset `up_to` (exclusive, at most the LEO). Errors as for `fetch`."""
        return self.fetch(offset, max_bytes=max_bytes, end=self.locate(up_to)).records

    def fetch(
        self,
        offset: int,
        *,
        max_bytes: int,
        end: LogOffsetMetadata,
        first_batch_whole: bool = True,
        at_once: bool = False,
    ) -> FetchedRecords:
        """Fetch batches, from the one that contains `offset` on, or from the next one if `offset` is in a gap.

        Whole batches of one segment, unchanged; the first may begin below `offset`. Nothing is copied.

        Args:
            max_bytes: Largest size of the returned batches.
            end: Return only batches below it: what `locate` returns for the high watermark or the last stable offset.
            first_batch_whole: Return the first batch even if it alone exceeds `max_bytes`.
            at_once: Do not wait for the disk.

        Returns:
            The batches. Empty if nothing is between `offset` and `end`, or the first batch is too large.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE below the log start or above the LEO; KAFKA_STORAGE_ERROR.
            WouldWaitError: As `locate`.
        """
        if self._health.failure is not None:
            raise self._offline()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is out of range for {self.topic_partition}, which has {self.log_start_offset} to"
                f" {self.log_end_offset}",
            )
        start = end
        if offset > end.offset:
            start = self.locate(offset, at_once=at_once)
        elif offset < end.offset:
            segment: LogSegment | None = self._active
            if offset < self._active.base_offset:
                segment = self.segments.floor(offset) or self.segments.first
            try:
                while segment is not None and segment.base_offset <= end.segment_base_offset:
                    limit = end.position if segment.base_offset == end.segment_base_offset else segment.size_bytes
                    found = segment.read(offset, max_bytes=max_bytes, max_position=limit, at_once=at_once)
                    if found is not None:
                        start = LogOffsetMetadata(offset, segment.base_offset, found.position)
                        if found.size_bytes <= max_bytes:
                            return FetchedRecords(found, min(max_bytes, limit - found.position), start)
                        if first_batch_whole:
                            return FetchedRecords(found, found.size_bytes, start)
                        break
                    segment = self.segments.higher(segment.base_offset)
            except OSError as error:
                raise self.fail(error) from error
        return FetchedRecords(FileSlice(self._active.log_file, 0, 0), 0, start)

    def search_timestamp(self, timestamp_ms: int) -> Search:
        """Find the first record at or above the log start whose timestamp is at least `timestamp_ms`; None if none is.

        For a worker thread: it may read the indexes of all segments, and unpacks a batch. The log may change during the
        search. It runs in steps, as a gigabyte of small batches takes half a minute.

        Searches only the first segment with such a timestamp. A clean pass may have removed the record that has the
        timestamp, and kept the timestamp. The result is then None even if later segments match, as in Apache Kafka.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; CORRUPT_MESSAGE: a batch that may hold it cannot be read; INVALID_RECORD: a record
                before it, in a compressed batch that may hold it, is larger than `max.decompressed.message.bytes`.
        """
        with self._working():
            bytes_max = self.config.max_decompressed_message_bytes
            for segment in self.segments:
                if segment.largest_timestamp_ms >= timestamp_ms:
                    found = yield from segment.search_timestamp(timestamp_ms, self.log_start_offset, bytes_max)
                    return self._found_offset(found)
                yield
        return None

    def search_max_timestamp(self) -> Search:
        """Find the first record with the log's largest timestamp; None if no record has one. See `search_timestamp`."""
        with self._working():
            latest = self.segments.first
            for segment in self.segments:
                if segment.max_timestamp_ms > latest.max_timestamp_ms:
                    latest = segment
                yield
            if latest.max_timestamp_ms < 0:
                return None
            found = yield from latest.search_timestamp(
                latest.max_timestamp_ms, self.log_start_offset, self.config.max_decompressed_message_bytes
            )
            return self._found_offset(found)

    def _found_offset(self, found: tuple[int, int] | None) -> FoundOffset | None:
        if found is None:
            return None
        epoch = self.leader_epochs.epoch_for_offset(found[1])
        return FoundOffset(*found, -1 if epoch is None else epoch)

    def aborted_transactions(self, from_offset: int, up_to: int) -> list[AbortedTxn]:
        """List the result of `overlapping_aborted`."""
        return list(self.overlapping_aborted(from_offset, up_to))

    def overlapping_aborted(
        self, from_offset: int, up_to: int, records: FileSlice | None = None, *, at_once: bool = False
    ) -> Iterator[AbortedTxn]:
        """Iterate over the transactions that a `read_committed` consumer needs to skip the aborted records of a fetch.

        There may be very many. They are the transactions of now; later changes do not count. Each step takes a few
        milliseconds at most.

        Args:
            from_offset: Offset at which the fetch began.
            up_to: The end of what the fetch may contain (exclusive).
            records: The slice that the fetch returned. Transactions that begin after it are left out, so that a consumer that
                reads the whole log does not get all later ones with every fetch. None: everything up to `up_to`.

        Raises:
            KafkaError, WouldWaitError: As `locate`. All errors are raised by the call, none by the iterator.
        """
        with self._working():
            if records is not None:
                up_to = min(up_to, self._end_offset_of(records, from_offset, at_once))
            parts: list[Iterator[AbortedTxn]] = []
            # A marker comes after the data that it decides, maybe in a later segment.
            for segment in self.segments.between(from_offset, self.log_end_offset):
                index = segment.txn_index
                if index.is_known_empty:  # true for most segments, and thousands of them must cost next to nothing
                    continue
                if at_once and not index.is_loaded:
                    raise WouldWaitError(index.sanity_check)
                found, is_complete = index.collect_aborted(from_offset, up_to)
                parts.append(found)
                if is_complete:
                    break
            return chain.from_iterable(parts)

    def _end_offset_of(self, records: FileSlice, from_offset: int, at_once: bool) -> int:
        """Return a bound above the last offset in a slice that was read from `from_offset` on."""
        segments = self.segments.between(from_offset, self.log_end_offset)
        segment = next(each for each in segments if each.log_file is records.file)
        following = next(segment.headers(records.position + records.size_bytes, at_once=at_once), None)
        if following is not None:
            return following[1].base_offset
        higher = self.segments.higher(segment.base_offset)
        return self.log_end_offset if higher is None else higher.base_offset
