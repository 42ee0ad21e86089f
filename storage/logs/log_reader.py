"""One partition as those see it who read it: what it holds, and where a given offset or timestamp lies.

The state of a log, and the questions about it that change nothing. `durable_log` is about flushing, `log.Log` the rest:
appending, cutting, swapping. Reading hands out slices of the segment files; no record byte passes through here.

      log start             recovery point      high watermark = log end (LEO)
          |                       |                          |
    [segment][segment ...][segment][      active segment     ]
                                              |
                                       last stable offset: the first open transaction, else the LEO

Nothing is replicated: the high watermark is the LEO, unless `flush.messages` asks for a sync. What was appended since the
last one is behind it then, unseen until it is on disk, as in Apache Kafka, which syncs within the append.
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
from ..segment.log_offset_metadata import FetchedRecords, LogOffsetMetadata
from ..segment.segment import LogSegment
from ..steps import Steps
from ..topics.config import LogConfig
from .log_parts import LogContents, LogPlace
from .segments import SegmentList


class FoundOffset(NamedTuple):
    """The record that a search by timestamp found."""

    timestamp: int
    offset: int
    leader_epoch: int


Search: TypeAlias = Steps[FoundOffset | None]
"""A search that yields after every step of about a millisecond, or one batch that it unpacks. May be given up at any of them,
and each may be taken by another thread."""


class LogReader:
    """State of a partition and all ways to look at it."""

    def __init__(self, place: LogPlace, config: LogConfig, contents: LogContents) -> None:
        self.files = place.files
        self.directory = place.directory
        self.data_dir = paths.parent(place.directory)
        """The data directory that it lies in."""
        self.topic_partition = place.topic_partition
        self.topic_id = place.topic_id
        self.config = config
        """Replaceable at any time; holds from the next append, retention or clean pass on."""
        self.segments = SegmentList(contents.segments)
        self.producers = contents.producers
        self.leader_epochs = contents.leader_epochs
        self.log_start_offset = contents.log_start_offset
        self.log_end_offset = contents.log_end_offset
        self.high_watermark = contents.log_end_offset
        """The end of what consumers may read (exclusive)."""
        self.recovery_point = contents.recovery_point
        """See `LogContents`."""
        self.is_surveyed = len(self.segments) == 1
        """Whether `survey` has nothing to read any more."""
        self._health = place.health
        # The active segment, which nearly all appends and reads want.
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
        """Why the log is offline, every call answering KAFKA_STORAGE_ERROR; None while it works."""
        return self._health.failure

    @property
    def is_left_alone(self) -> bool:
        """Whether its records are of a format that this broker does not read: its files, and what is noted of it, stay as they are."""
        return self._health.leaves_alone

    def survey(self) -> None:
        """Have in memory what the cleaner asks about all sealed segments. In any thread; once after a start.

        What cannot be read is asked for again by who wants to know it, and raises there.
        """
        with suppress(Exception):
            for segment in self.segments.non_active():
                segment.learn_age()
        self.is_surveyed = True

    def fail(self, error: OSError, health: Health | None = None) -> KafkaError:
        """The system refused something: the error to raise.

        Args:
            health: Of the directory that the error came from, where that may be another one by now.

        If the disk has failed (see `health`), the log and all others of its data directory are offline now. Otherwise this
        call alone is refused.
        """
        (health or self._health).note(error)
        if self._health.failure is not None:
            return self._offline()
        return KafkaError(self._health.code, f"{self.topic_partition}: {error}")

    def retire(self, health: Health) -> None:
        """Answer every later call as `health` says; the other logs of the directory work on. For a deleted partition."""
        self._health = health
        Health.note_change()

    def give_up(self, reason: str) -> None:
        """Take this log alone offline until the next start, which finds out what its files are. Any thread.

        For a change of them that can be neither finished nor undone.
        """
        if self._health.failure is None:
            self.retire(Health(reason))

    @contextmanager
    def _working(self) -> Iterator[None]:
        """For the body of every call that touches the disk: not at all while offline; an OSError becomes what `fail` says."""
        self._check_online()
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    def _check_online(self) -> None:
        if self._health.failure is not None:
            raise self._offline()

    def _offline(self) -> KafkaError:
        return KafkaError(self._health.code, f"{self.topic_partition} cannot be used: {self._health.failure}")

    def locate(self, offset: int, *, at_once: bool = False) -> LogOffsetMetadata:
        """Where `offset` lies, or for the LEO where the next batch will; at most the LEO.

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
        """As `fetch`, up to the offset `up_to` (exclusive), which is at most the LEO: the batches alone."""
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
        """The batches from the one that contains `offset` on, or that follows it if it lies in a gap.

        Whole batches of one segment, untouched; the first may begin below `offset`. Costs no copy.

        Args:
            max_bytes: Of batches to give at most.
            end: Only batches below it: what `locate` says of the high watermark or of the last stable offset.
            first_batch_whole: Give the first batch even if it alone exceeds `max_bytes`.
            at_once: Others wait for this thread: it must not wait for the disk.

        Returns:
            Without records if there is nothing between `offset` and `end`, or the first batch is too large.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE below the log start or above the LEO; KAFKA_STORAGE_ERROR.
            WouldWaitError: As `locate`.
        """
        if self._health.failure is not None:
            raise self._offline()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition}, which has {self.log_start_offset} to {self.log_end_offset}",
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
        """The first record at or above the log start whose timestamp is at least `timestamp_ms`; None if there is none.

        For a worker thread: it may read the indexes of all segments, and unpacks a batch. The log may change meanwhile. In
        steps, as a gigabyte of small batches takes half a minute.

        Looks into the first segment with such a timestamp only. A clean pass may have removed the record whose
        timestamp is meant, and kept the timestamp: then the answer is None though later segments match, as in
        Apache Kafka.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; CORRUPT_MESSAGE: a batch that may hold it cannot be read.
        """
        with self._working():
            for segment in self.segments:
                if segment.largest_timestamp_ms >= timestamp_ms:
                    found = yield from segment.search_timestamp(timestamp_ms, self.log_start_offset)
                    return self._found(found)
                yield
        return None

    def search_max_timestamp(self) -> Search:
        """The first record with the largest timestamp of the log; None if no record has one. Otherwise as `search_timestamp`."""
        with self._working():
            latest = self.segments.first
            for segment in self.segments:
                if segment.max_timestamp_ms > latest.max_timestamp_ms:
                    latest = segment
                yield
            if latest.max_timestamp_ms < 0:
                return None
            found = yield from latest.search_timestamp(latest.max_timestamp_ms, self.log_start_offset)
            return self._found(found)

    def _found(self, found: tuple[int, int] | None) -> FoundOffset | None:
        if found is None:
            return None
        epoch = self.leader_epochs.epoch_for_offset(found[1])
        return FoundOffset(*found, -1 if epoch is None else epoch)

    def aborted_transactions(self, from_offset: int, up_to: int) -> list[AbortedTxn]:
        """All that `overlapping_aborted` gives."""
        return list(self.overlapping_aborted(from_offset, up_to))

    def overlapping_aborted(
        self, from_offset: int, up_to: int, records: FileSlice | None = None, *, at_once: bool = False
    ) -> Iterator[AbortedTxn]:
        """The aborted transactions that overlap a range: what a `read_committed` consumer must know to skip their records.

        They come one by one, as there may be very many: as they are now, whatever comes. To find the next one takes some
        milliseconds at most.

        Args:
            from_offset: Where the range begins.
            up_to: Its end (exclusive).
            records: What `read` gave for it. Transactions that begin behind are left out, so that reading through a log
                does not tell all that is to come with every fetch. None: everything up to `up_to`.

        Raises:
            KafkaError, WouldWaitError: As `locate`, and here, none later.
        """
        with self._working():
            if records is not None:
                up_to = min(up_to, self._end_offset_of(records, from_offset, at_once))
            parts: list[Iterator[AbortedTxn]] = []
            # A marker comes after the data that it decides, maybe in a later segment.
            for segment in self.segments.between(from_offset, self.log_end_offset):
                index = segment.txn_index
                if index.is_known_empty:  # mostly all of them, and of thousands each is to cost next to nothing
                    continue
                if at_once and not index.is_loaded:
                    raise WouldWaitError(index.sanity_check)
                found, is_complete = index.collect_aborted(from_offset, up_to)
                parts.append(found)
                if is_complete:
                    break
            return chain.from_iterable(parts)

    def _end_offset_of(self, records: FileSlice, from_offset: int, at_once: bool) -> int:
        """A bound above the last offset in a slice that was read from `from_offset` on."""
        segments = self.segments.between(from_offset, self.log_end_offset)
        segment = next(each for each in segments if each.log_file is records.file)
        following = next(segment.headers(records.position + records.size_bytes, at_once=at_once), None)
        if following is not None:
            return following[1].base_offset
        higher = self.segments.higher(segment.base_offset)
        return self.log_end_offset if higher is None else higher.base_offset
