"""Records of a share partition on their way from the log to a member: offering and acquiring.

Reading and acquiring are one step of the thread, so no two members read the same records; Apache Kafka has a fetch lock for
that. Records are slices of files; only the headers of batches are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.files import FileSlice
from ...storage.logs.log_reader import LogReader
from ...storage.segment.index import AbortedTxn
from ..partitions.waits import WantedPartition
from .acquiring import Acquired, AcquireRequest, OffsetRange, acquire
from .share_partition import SharePartition, Update

# Maximum number of batches of one partition that are read for one member: some milliseconds. Only a compacted log has more
# batches than the member may get records at once.
BATCHES_AT_ONCE = 1_000


class OfferedRecords(NamedTuple):
    """Records that a partition's log has for an acquisition.

    Attributes:
        fetch_offset: Offset at which the share partition continues.
        size_bytes: Number of bytes that count towards the minimum of the fetch.
    """

    fetch_offset: int
    records: FileSlice
    size_bytes: int
    wanted: WantedPartition


class AcquiredSlice(NamedTuple):
    records: FileSlice | None
    acquired: list[Acquired]


NOTHING = AcquiredSlice(None, [])


class _Batch(NamedTuple):
    position: int
    size_bytes: int
    offsets: OffsetRange
    producer_id: int
    is_data_of_transaction: bool


def offer(
    log: LogReader, share: SharePartition, max_bytes: int, *, first: bool, committed: bool, at_once: bool
) -> OfferedRecords:
    """Return the records that a fetch would find now.

    Args:
        first: Whether the first batch is returned whatever its size.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
        WouldWaitError: Only if `at_once`.
    """
    offset = share.next_fetch_offset()
    up_to = log.last_stable_offset if committed else log.high_watermark
    end = log.locate(up_to, at_once=at_once)
    if offset > log.log_end_offset:  # The log has lost records, and has none for members before this offset.
        nothing = FileSlice(log.segments.active.log_file, 0, 0)
        return OfferedRecords(offset, nothing, 0, WantedPartition(log, end._replace(offset=offset), end, max_bytes))
    records, size_bytes, start = log.fetch(
        offset, max_bytes=max_bytes, end=end, first_batch_whole=first, at_once=at_once
    )
    return OfferedRecords(offset, records, size_bytes, WantedPartition(log, start, end, max_bytes))


def acquire_offered(
    share: SharePartition,
    found: OfferedRecords,
    request: AcquireRequest,
    elapsed_ms: int,
    carry_out: Callable[[Update], object],
    *,
    committed: bool,
    at_once: bool,
) -> AcquiredSlice:
    """Acquire for a member the records that it may have, that `offer` has found in this same step.

    Args:
        carry_out: Argument of `acquire`.

    Raises:
        KafkaError, WouldWaitError: As `offer`, and the errors of `carry_out`. Then no records were acquired.
    """
    if not found.records or request.max_records <= 0:
        return NOTHING
    log = found.wanted.log
    batches = _batches(log, found, share.end_offset, min(request.max_records, share.limits.in_flight), at_once)
    aborted: Sequence[OffsetRange] = ()
    if committed and any(batch.is_data_of_transaction for batch in batches):
        aborted = _aborted(log, batches, at_once)
    fetched = [batch.offsets for batch in batches]
    acquired = acquire(share, request, found.fetch_offset, fetched, elapsed_ms, aborted, carry_out)
    if not acquired:
        return NOTHING
    first = max(bisect_right(batches, acquired[0].first_offset, key=lambda batch: batch.offsets.first) - 1, 0)
    last = max(bisect_right(batches, acquired[-1].last_offset, key=lambda batch: batch.offsets.first) - 1, first)
    begin, end = batches[first].position, batches[last].position + batches[last].size_bytes
    return AcquiredSlice(FileSlice(found.records.file, begin, end - begin), acquired)


def _batches(log: LogReader, found: OfferedRecords, end_offset: int, enough: int, at_once: bool) -> list[_Batch]:
    """Return the batches of a slice. The last one has the `enough`-th offset after the records in flight, or after the first
    batch's start."""
    records = found.records
    segments = log.segments.between(found.fetch_offset, log.log_end_offset)
    segment = next((each for each in segments if each.log_file is records.file), None)
    if segment is None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.topic_partition}: segment was deleted")
    batches: list[_Batch] = []
    for position, batch in segment.headers(records.position, at_once=at_once):
        if position >= records.position + records.size_bytes:
            break
        is_data = batch.is_transactional and not batch.is_control
        offsets = OffsetRange(batch.base_offset, batch.last_offset)
        batches.append(_Batch(position, batch.size_bytes, offsets, batch.producer_id, is_data))
        if batch.last_offset >= max(end_offset, batches[0].offsets.first) + enough or len(batches) == BATCHES_AT_ONCE:
            break
    return batches


def _aborted(log: LogReader, batches: list[_Batch], at_once: bool) -> list[OffsetRange]:
    """Return the batches of aborted transactions."""
    first, last = batches[0].offsets.first, batches[-1].offsets.last
    aborted: dict[int, list[AbortedTxn]] = {}
    for one in log.overlapping_aborted(first, last + 1, at_once=at_once):
        aborted.setdefault(one.producer_id, []).append(one)
    found: list[OffsetRange] = []
    for batch in batches:
        of_producer = aborted.get(batch.producer_id) if batch.is_data_of_transaction else None
        if of_producer is not None:  # a producer's transactions follow each other
            at = bisect_right(of_producer, batch.offsets.first, key=lambda one: one.first_offset)
            if at and batch.offsets.first <= of_producer[at - 1].last_offset:
                found.append(batch.offsets)
    return found
