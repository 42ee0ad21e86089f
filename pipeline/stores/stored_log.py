"""One log of a store, opened as a server would load it, without any change on disk: the input of a plan.

    with open_log(store, tp, now_ms=…) as log:
        log.segments, log.config, log.cleaner_checkpoint, dirtiness_of(log, …)

The end of the cleanable range is computed by the server's own `storage.cleaning.dirtiness`. Three more limits apply, as
no server guarantees the data after them:

    the recovery point      unless the directory was stopped cleanly, segments above it may be damaged, and their
                            transaction indexes missing; a marker there may be lost by a power loss, so it decides nothing
    the high watermark      in Apache Kafka's directories, where a replica may lose the data above it
    the active segment      always, and only its end may be torn
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from ...protocol.errors import CorruptRecordError
from ...storage.disk import paths
from ...storage.disk.checkpoints import CorruptCheckpointError
from ...storage.disk.files import Files
from ...storage.disk.paths import TopicPartition
from ...storage.logs.record_counts import RecordCounter
from ...storage.logs.segments import SegmentList
from ...storage.produce import producer_snapshots
from ...storage.produce.producers import ProducerStates
from ...storage.segment.index import AbortedTxn
from ...storage.segment.leader_epochs import LeaderEpochs
from ...storage.segment.segment import LogSegment
from ...storage.topics.config import LogConfig
from ..errors import CorruptSourceError, SourceChangedError, UsageError
from .segment_files import LOOKS_MAX, is_settled, open_segments, pause_between_looks, source_errors
from .segment_names import topic_id_in
from .store import Store
from .txn_indexes import complete_txn_indexes


@dataclass(frozen=True, kw_only=True)
class StoredLog:
    """A log that was opened for a plan."""

    files: Files
    directory: str
    topic_partition: TopicPartition
    topic_id: bytes | None
    """Id of the topic; None if the directory does not have it."""
    config: LogConfig
    segments: SegmentList
    producers: ProducerStates
    """Producers as of the log's end."""
    log_start_offset: int
    log_end_offset: int
    """Offset after the last whole batch."""
    durable_end: int
    """End of the data that a server guarantees and decides; see the module."""
    cleaner_checkpoint: int | None
    """Offset up to which the log is clean; None if unknown."""

    @property
    def counter(self) -> RecordCounter:
        """A counter that knows nothing."""
        return RecordCounter(self.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        """End of the cleanable range (exclusive).

        Transactions that are open, or may be after the server's start, are above it.
        """
        end = min(self.durable_end, self.log_end_offset)
        if (unstable := self.producers.first_unstable_offset) is not None:
            end = min(end, unstable)
        return max(end, self.log_start_offset)

    def aborted_transactions(self, from_offset: int, up_to: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap these offsets, from inclusive, to exclusive."""
        found: list[AbortedTxn] = []
        # A marker comes after the data that it decides, maybe in a later segment.
        for segment in self.segments.between(from_offset, self.log_end_offset):
            if segment.txn_index.is_known_empty:  # usually all of them, out of possibly thousands
                continue
            own, is_complete = segment.txn_index.collect_aborted(from_offset, up_to)
            found += own
            if is_complete:
                break
        return found


@contextmanager
def open_log(
    store: Store,
    tp: TopicPartition,
    *,
    now_ms: int,
    config: LogConfig | None = None,
    producer_expiration_ms: int | None = None,
    pause: Callable[[], None] = pause_between_looks,
) -> Iterator[StoredLog]:
    """Open one log as it is now. The descriptors are closed at the end.

    Args:
        now_ms: Producers that have expired by then are forgotten, as in a running server.
        config: The default is `config_of` the topic.
        producer_expiration_ms: The default is that of the store.
        pause: Called between two looks at a directory in which a swap is in progress.

    Raises:
        UsageError: The log does not exist, or has no segments.
        CorruptSourceError: A segment or an index is damaged.
        SourceChangedError: Files were deleted during the call, as a server is at work. Or a swap did not end in time: code that
            changes the log finds its segments only by their final names.
    """
    directory = store.directory_of(tp)
    if not store.files.is_dir(directory):
        raise UsageError(f"{store.data_dir} has no log of {tp}")
    config = store.config_of(tp.topic) if config is None else config
    try:
        segments = _settled_segments(store.files, directory, config, now_ms, pause)
        try:
            log = _opened(store, tp, config, segments, now_ms, producer_expiration_ms)
        except BaseException:
            _close(segments)
            raise
    except CorruptCheckpointError as error:
        raise CorruptSourceError(str(error)) from error
    except FileNotFoundError as error:
        raise SourceChangedError(f"{error.filename} was deleted while {tp} was opened: a server is at work") from error
    try:
        yield log
    finally:
        _close(segments)


def _settled_segments(
    files: Files, directory: str, config: LogConfig, now_ms: int, pause: Callable[[], None]
) -> list[LogSegment]:
    path = directory
    for _ in range(LOOKS_MAX):
        segments = open_segments(files, directory, config=config, now_ms=now_ms, pause=pause)
        unsettled = [segment for segment in segments if not is_settled(segment)]
        if not unsettled:
            return segments
        path = unsettled[0].file_paths()[0]
        _close(segments)
        pause()
    raise SourceChangedError(
        f"{path}: a swap is in progress, or was left by a server that died during it; its next start finishes it"
    )


def _opened(
    store: Store,
    tp: TopicPartition,
    config: LogConfig,
    segments: list[LogSegment],
    now_ms: int,
    producer_expiration_ms: int | None,
) -> StoredLog:
    directory = store.directory_of(tp)
    expiration_ms = store.producer_expiration_ms() if producer_expiration_ms is None else producer_expiration_ms
    producers = ProducerStates(expiration_ms=expiration_ms)
    log_start_offset = max(store.checkpoint(paths.LOG_START_CHECKPOINT).get(tp, 0), segments[0].base_offset)
    log_end_offset = max(_end_of_active(segments[-1]), log_start_offset)
    durable_end = _durable_end(store, tp)
    with source_errors(segments):
        for segment, following in pairwise(segments):
            if following.base_offset <= durable_end and is_settled(segment):
                segment.sanity_check()
        # A running server has the newest index entries only in memory, and those above the recovery point may not have
        # survived a crash: aborted transactions there are found in the log.
        producer_snapshots.load_newest(
            store.files,
            directory,
            producers,
            log_start_offset=log_start_offset,
            log_end_offset=min(log_end_offset, durable_end),
            now_ms=now_ms,
            tidies=False,
        )
        first_undecided = None
        try:
            complete_txn_indexes(producers, segments, durable_end)
            first_undecided = producers.first_unstable_offset
            complete_txn_indexes(producers, segments)
        except CorruptRecordError:
            if store.is_clean or producers.end_offset < min(durable_end, log_end_offset):
                raise
            # The torn bytes are at the end of the active segment; what its last batches contain about producers is lost.
            if first_undecided is None:
                first_undecided = producers.first_unstable_offset
        producers.end_offset = log_end_offset
    producers.expire(now_ms)
    LeaderEpochs(
        store.files, paths.join(directory, paths.LEADER_EPOCH_CHECKPOINT)
    )  # a damaged checkpoint prevents an install
    return StoredLog(
        files=store.files,
        directory=directory,
        topic_partition=tp,
        topic_id=topic_id_in(store.files, directory),
        config=config,
        segments=SegmentList(segments),
        producers=producers,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        durable_end=durable_end if first_undecided is None else min(durable_end, first_undecided),
        cleaner_checkpoint=store.checkpoint(paths.CLEANER_CHECKPOINT).get(tp),
    )


def _durable_end(store: Store, tp: TopicPartition) -> int:
    end = paths.OFFSET_MAX
    if not store.is_clean:
        end = store.checkpoint(paths.RECOVERY_POINT_CHECKPOINT).get(tp, 0)
    if not store.is_ottlas:
        end = min(end, store.checkpoint(paths.REPLICATION_CHECKPOINT).get(tp, 0))
    return end


def _end_of_active(segment: LogSegment) -> int:
    """Return the offset after its last whole batch; a torn end does not count."""
    end = segment.base_offset
    try:
        for _, batch in segment.headers():
            end = batch.next_offset
    except CorruptRecordError:
        pass
    return end


def _close(segments: list[LogSegment]) -> None:
    for segment in segments:
        segment.log_file.close()
