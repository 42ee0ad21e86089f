"""Records of a share partition from the log to a member: what there is for it, and what it gets.

To read and to acquire is one turn of the thread, so no two members read the same records, which Apache Kafka has a fetch lock for.
Records are slices of files; nothing of them is looked at but the headers of batches.
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
from .acquiring import Acquired, AcquireWish, OffsetRange, acquire
from .share_partition import SharePartition, Update

# Batches of one partition that are looked at for one member: some milliseconds. More of them than records it may have at once there
# are only where the log was compacted.
BATCHES_AT_ONCE = 1_000


class Offered(NamedTuple):
    """What there is in a partition, as far as the log knows it.

    Attributes:
        fetch_offset: Where the share partition goes on.
        size_bytes: How many bytes count.
    """

    fetch_offset: int
    records: FileSlice
    size_bytes: int
    wanted: WantedPartition


class Taken(NamedTuple):
    records: FileSlice | None
    acquired: list[Acquired]


NOTHING = Taken(None, [])


class _Batch(NamedTuple):
    position: int
    size_bytes: int
    offsets: OffsetRange
    producer_id: int
    is_data_of_transaction: bool


def offered(
    log: LogReader, share: SharePartition, max_bytes: int, *, first: bool, committed: bool, at_once: bool
) -> Offered:
    """What a fetch would find now.

    Args:
        first: Its first batch is given however large it is.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
        WouldWaitError: Only if `at_once`.
    """
    offset = share.next_fetch_offset()
    up_to = log.last_stable_offset if committed else log.high_watermark
    end = log.locate(up_to, at_once=at_once)
    if offset > log.log_end_offset:  # It has lost some, and says nothing until it has been there again.
        nothing = FileSlice(log.segments.active.log_file, 0, 0)
        return Offered(offset, nothing, 0, WantedPartition(log, end._replace(offset=offset), end, max_bytes))
    records, size_bytes, start = log.fetch(
        offset, max_bytes=max_bytes, end=end, first_batch_whole=first, at_once=at_once
    )
    return Offered(offset, records, size_bytes, WantedPartition(log, start, end, max_bytes))


def take(
    share: SharePartition,
    found: Offered,
    wish: AcquireWish,
    elapsed_ms: int,
    carry_out: Callable[[Update], object],
    *,
    committed: bool,
    at_once: bool,
) -> Taken:
    """Give a member what it may have of what was `offered` in this very turn.

    Args:
        carry_out: As for `acquire`.

    Raises:
        KafkaError, WouldWaitError: As `offered`, and what `carry_out` raises. No member has anything more then.
    """
    if not found.records or wish.max_records <= 0:
        return NOTHING
    log = found.wanted.log
    batches = _batches(log, found, share.end_offset, min(wish.max_records, share.limits.in_flight), at_once)
    aborted: Sequence[OffsetRange] = ()
    if committed and any(batch.is_data_of_transaction for batch in batches):
        aborted = _aborted(log, batches, at_once)
    fetched = [batch.offsets for batch in batches]
    acquired = acquire(share, wish, found.fetch_offset, fetched, elapsed_ms, aborted, carry_out)
    if not acquired:
        return NOTHING
    first = max(bisect_right(batches, acquired[0].first_offset, key=lambda batch: batch.offsets.first) - 1, 0)
    last = max(bisect_right(batches, acquired[-1].last_offset, key=lambda batch: batch.offsets.first) - 1, first)
    begin, end = batches[first].position, batches[last].position + batches[last].size_bytes
    return Taken(FileSlice(found.records.file, begin, end - begin), acquired)


def _batches(log: LogReader, found: Offered, end_offset: int, enough: int, at_once: bool) -> list[_Batch]:
    """Those of a slice, up to the one that has so many offsets behind what is in flight, or behind where they begin."""
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
    """Batches of transactions that were aborted."""
    first, last = batches[0].offsets.first, batches[-1].offsets.last
    aborted: dict[int, list[AbortedTxn]] = {}
    for one in log.overlapping_aborted(first, last + 1, at_once=at_once):
        aborted.setdefault(one.producer_id, []).append(one)
    found: list[OffsetRange] = []
    for batch in batches:
        of_producer = aborted.get(batch.producer_id) if batch.is_data_of_transaction else None
        if of_producer is not None:  # one after the other
            at = bisect_right(of_producer, batch.offsets.first, key=lambda one: one.first_offset)
            if at and batch.offsets.first <= of_producer[at - 1].last_offset:
                found.append(batch.offsets)
    return found
