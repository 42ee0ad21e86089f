"""Records of some keys in one log file. Every batch is checked and unpacked; what cannot be read is reported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from ...protocol.errors import CorruptRecordError
from ...protocol.records import RecordBatch, wrapped
from ..cleaning.key_history import may_hold
from ..disk.files import File
from ..segment.batch_scan import RECOVERY_CHUNK_BYTES, UNREADABLE, batch_walk

BATCH_BYTES_MAX = 128 << 20
"""Maximum size of a batch that is read whole."""
LOOKED_FOR_MAX = 8
"""Largest number of keys whose bytes are looked for before the records of a batch are read one by one."""

OnProblem = Callable[[str], None]


class Match(NamedTuple):
    """A record of one of the keys."""

    key: bytes
    offset: int
    has_value: bool
    timestamp_ms: int
    """-1: none."""


def checked_batches(
    file: File, path: str, on_problem: OnProblem, end: int | None = None
) -> Iterator[tuple[RecordBatch, bool]]:
    """Yield each batch of a log file, and whether it is whole and valid; only then may its records be read.

    Args:
        on_problem: Called with a sentence for each batch that cannot be searched, and for bytes that are not a batch. Zeros at the
            end are none: Apache Kafka reserves space with them.
        end: Bytes from here on are left out; None: none are.
    """
    at = 0
    end = file.size() if end is None else end
    try:
        for position, batch in batch_walk(
            file, 0, path, chunk_bytes=RECOVERY_CHUNK_BYTES, whole_bytes_max=BATCH_BYTES_MAX
        ):
            if position >= end:
                return
            at = position + batch.size_bytes
            is_valid = batch.is_whole and batch.is_crc_valid()
            if not batch.is_whole:
                on_problem(
                    f"the batch at byte {position} was not searched: it has {batch.size_bytes} bytes"
                    f" (limit {BATCH_BYTES_MAX})"
                )
            elif not is_valid:
                on_problem(f"the batch at byte {position} was not searched: its CRC is wrong")
            yield batch, is_valid
    except UNREADABLE as error:
        if at < end and not _is_zero(file, at, end):
            on_problem(f"the last {end - at} bytes were not searched, as they are not batches: {error.message}")


def matches(batch: RecordBatch, keys: Collection[bytes], on_problem: OnProblem) -> Iterator[Match]:
    """Yield the records of these keys in a whole batch."""
    try:
        if len(keys) <= LOOKED_FOR_MAX and not may_hold(batch, keys):
            return
        append_time = batch.max_timestamp if batch.is_log_append_time else None
        for span in batch.spans():
            if span.key in keys:
                assert span.key is not None
                timestamp_ms = wrapped(batch.base_timestamp + span.timestamp_delta)
                yield Match(span.key, span.offset, span.has_value, timestamp_ms if append_time is None else append_time)
    except CorruptRecordError as error:
        on_problem(f"the batch of offset {batch.base_offset} was not searched completely: {error.message}")


def _is_zero(file: File, at: int, end: int) -> bool:
    while at < end:
        piece = file.read_at(at, min(RECOVERY_CHUNK_BYTES, end - at))
        if not piece or piece.count(0) != len(piece):
            return False
        at += len(piece)
    return True
