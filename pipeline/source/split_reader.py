"""Reader of one split: windows of whole batches, their checks, the choice of batches, and their records as Arrow batches.

    window     some MiB of the log file, whole batches, headers as columns
    checked    CRCs, counts, rising offsets: damage is passed to `on_damage`, which raises or tolerates it
    wanted     no control batches, no aborted data, only the split's offsets
    decoded    all records of the remaining batches at once, then Arrow batches

Between planning and reading a live broker may have cleaned or deleted the segment. If a file is not the planned one,
its offsets are looked up again, which cleaning never changes; but only in a log of the same topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...protocol.errors import CorruptRecordError
from ...protocol.records import CONTROL_BIT, TRANSACTIONAL_BIT, batch_size
from ...storage.segment.index import AbortedTxn
from ...storage.segment.segment import LogSegment
from ..errors import SourceChangedError
from ..objects.addresses import is_address
from ..records.arrow import record_batches
from ..records.batch_window import BatchWindow, Bools, Damage, header_damage, no_batch, window_of, without
from ..records.columns import RecordColumns, decode, record_damage, rows_of
from ..stores.log_files import PartitionLog, Split
from ..stores.reading_files import check_unchanged, status_of
from ..stores.segment_files import open_segment

WINDOW_BYTES = 8 << 20
"""Size of a window: many batches for each call, and still little memory compared to a Python worker."""

_LOOKS_MAX = 5

OnDamage = Callable[[Damage], None]


def fail_fast(damage: Damage) -> None:
    """Raise the damage; an `on_damage` that tolerates nothing.

    Raises:
        CorruptSourceError: The damage.
    """
    raise damage.error()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of a split's records."""

    schema: pa.Schema
    """Schema of the Arrow batches: a subset of `arrow.COLUMNS`."""
    aborted: Sequence[AbortedTxn] = ()
    """Transactions whose data is left out."""
    since_ms: int | None = None
    """Batches whose largest timestamp is lower are left out. Other batches may also contain earlier records."""


def read_split(split: Split, wanted: Wanted, *, on_damage: OnDamage = fail_fast) -> Iterator[pa.RecordBatch]:
    """Yield the wanted records of a split, in log order.

    Raises:
        SourceChangedError: The offsets are not in the log any more.
        Whatever `on_damage` raises.
    """
    for part, segment in _find_segments(split):
        for window in _checked_windows(part, segment, on_damage):
            for records in _decoded(_chosen(window, part, wanted), on_damage):
                inside = (records.offset >= part.from_offset) & (records.offset < part.up_to_offset)
                yield from record_batches(rows_of(records, inside), part.of, part.segment_base_offset, wanted.schema)


def damage_in(split: Split) -> list[Damage]:
    """Return all damage at which FAILFAST would stop, and which DROPMALFORMED skips."""
    found: list[Damage] = []
    for part, segment in _find_segments(split):
        for window in _checked_windows(part, segment, found.append):
            is_data = window.headers["attributes"] & CONTROL_BIT == 0
            for _ in _decoded(window.only(is_data), found.append):
                pass
    return found


def _find_segments(split: Split) -> Iterator[tuple[Split, LogSegment]]:
    """Yield the split with its segment, or the splits that have replaced it."""
    parts = [split]
    looks = 0
    while parts:
        part = parts.pop(0)
        segment = _opened(part)
        if segment is not None:
            yield part, segment
            check_unchanged(segment.log_file)
            segment.log_file.close()
            continue
        if is_address(split.directory):  # no server changes it in steps that could be followed
            raise SourceChangedError(
                f"{split.log_path} was replaced or deleted: the copy was changed while it was read"
            )
        looks += 1
        log = PartitionLog(split.directory, split.of, files=split.files, committed=False, from_offset=part.from_offset)
        try:
            if log.topic_id != split.topic_id:
                raise SourceChangedError(
                    f"{split.directory}: the topic was deleted and created again while it was read"
                )
            is_there = log.log_start_offset <= part.from_offset and part.up_to_offset <= log.log_end_offset
            if looks > _LOOKS_MAX or not is_there:
                raise SourceChangedError(
                    f"{split.log_path}: offsets {part.from_offset} to {part.up_to_offset} were deleted while they were"
                    f" read; the log begins at {log.log_start_offset} and ends at {log.log_end_offset}"
                )
            parts = [*log.splits(part.from_offset, part.up_to_offset, max_bytes=part.end - part.start), *parts]
        finally:
            log.close()


def _opened(split: Split) -> LogSegment | None:
    """Open the segment; None if its log file is not the one that was planned."""
    try:
        segment = open_segment(split.files, split.directory, split.segment_base_offset)
    except FileNotFoundError:
        return None
    file = segment.log_file
    if split.is_of(status_of(file)) and file.read_at(split.start, len(split.first_header)) == split.first_header:
        return segment
    file.close()
    return None


def _checked_windows(split: Split, segment: LogSegment, on_damage: OnDamage) -> Iterator[BatchWindow]:
    """Yield the undamaged batches of a split, a window at a time."""
    position, last_offset, wanted_bytes = split.start, segment.base_offset - 1, WINDOW_BYTES
    while position < split.end:
        asked_bytes = min(wanted_bytes, split.end - position)
        data = memoryview(segment.log_file.read_at(position, asked_bytes))
        if len(data) < asked_bytes:
            raise SourceChangedError(
                f"{split.log_path}: truncated to {position + len(data)} bytes since the read was planned"
            )
        window = window_of(data, file=split.log_path, position=position)
        if not len(window):
            damage = no_batch(data, split.end - position, file=split.log_path, position=position)
            if damage is None:
                wanted_bytes = batch_size(data)
                continue
            resumed = min(_known_start(segment, position) or split.end, split.end)
            on_damage(damage._replace(size_bytes=resumed - position))
            position = resumed
            continue
        wanted_bytes = WINDOW_BYTES
        following = position + int(window.ends[-1])
        damages = header_damage(window, last_offset, split.segment_end_offset)
        for number, damage in enumerate(damages):
            # If the index has a batch inside the damaged one, the length is damaged.
            known = _known_start(segment, damage.position)
            if known is not None and known < damage.position + damage.size_bytes:
                damages[number:] = [damage._replace(size_bytes=known - damage.position)]
                window = window.only(window.starts <= damage.position - position)
                following = known
                break
        for damage in damages:
            on_damage(damage)
        window = without(window, damages)
        position = following
        if len(window):
            last_offset = int(window.last_offsets[-1])
            yield window
            if last_offset >= split.up_to_offset - 1:
                return


def _known_start(segment: LogSegment, position: int) -> int | None:
    """Return the first position after `position` at which a batch begins according to the offset index."""
    with suppress(CorruptRecordError):
        segment.floor_position(segment.base_offset)  # rebuilds an invalid index
    return next((at for _, at in segment.offset_index.entries() if at > position), None)


def _chosen(window: BatchWindow, split: Split, wanted: Wanted) -> BatchWindow:
    """Return the batches that may contain wanted records."""
    attributes, base_offsets, last_offsets = window.headers["attributes"], window.base_offsets, window.last_offsets
    chosen: Bools = attributes & CONTROL_BIT == 0
    chosen &= (last_offsets >= split.from_offset) & (base_offsets < split.up_to_offset)
    if wanted.since_ms is not None:
        chosen &= window.column("max_timestamp") >= wanted.since_ms
    if wanted.aborted and len(window):
        transactional: Bools = attributes & TRANSACTIONAL_BIT != 0
        producers = window.column("producer_id")
        low, high = base_offsets[0], base_offsets[-1]
        for txn in wanted.aborted:
            if txn.first_offset <= high and txn.last_offset >= low:
                own = transactional & (producers == txn.producer_id)
                chosen &= ~(own & (base_offsets >= txn.first_offset) & (base_offsets < txn.last_offset))
    return window.only(chosen)


def _decoded(window: BatchWindow, on_damage: OnDamage) -> Iterator[RecordColumns]:
    """Yield the records of all batches that can be decoded."""
    if not len(window):
        return
    last_offset = -1
    try:
        for records in decode(window):
            yield records
            last_offset = int(records.offset[-1]) if len(records) else last_offset
    except CorruptRecordError:
        damages = record_damage(window)
        if not damages:
            raise
        for damage in damages:
            on_damage(damage)
        for records in decode(without(window, damages)):
            yield rows_of(records, np.asarray(records.offset > last_offset))
