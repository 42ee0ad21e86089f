"""Update of producer states from record batches: after an append, and when a log is read again.

Used by `Log` for each append of a producer, and by recovery at start. The batches are already in the log, so nothing here
refuses one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from ...protocol.records import RecordBatch
from ..disk.files import Files
from ..disk.paths import OFFSET_MAX
from ..produce import producer_snapshots
from ..produce.producers import ProducerStates
from ..segment.index import AbortedTxn
from ..segment.segment import LogSegment


def update_producers(producers: ProducerStates, batch: RecordBatch) -> AbortedTxn | None:
    """Take in a batch that is in the log; returns the transaction index entry that it calls for, if any.

    The entry belongs in the index of the segment that contains the batch.
    """
    completed = producers.update(batch)
    if completed is None or not completed.aborted:
        return None
    return AbortedTxn(
        completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
    )


class Replay:
    """Receiver of the batches that `LogSegment.recover` finds."""

    def __init__(self, producers: ProducerStates) -> None:
        self._producers = producers

    def replay(self, batch: RecordBatch) -> AbortedTxn | None:
        """Take in any batch, in log order; returns what `update_producers` does."""
        aborted = update_producers(self._producers, batch) if batch.has_producer else None
        self._producers.end_offset = batch.next_offset
        return aborted


def load_producers(
    files: Files,
    directory: str,
    producers: ProducerStates,
    segments: Iterable[LogSegment],
    *,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    tidies: bool = True,
) -> None:
    """Bring `producers` to the state at `log_end_offset`: newest usable snapshot, then the log from there on.

    Snapshots that are damaged, beyond `log_end_offset` or not above `log_start_offset` are removed if it `tidies`.
    Batches are not checked again, and their transaction index entries are assumed to exist.

    Args:
        segments: The segments, in order; they end at `log_end_offset`.
    """
    producer_snapshots.load_newest(
        files,
        directory,
        producers,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        now_ms=now_ms,
        tidies=tidies,
    )
    if producers.end_offset >= log_end_offset:
        return
    for _ in replayed(producers, segments):
        pass
    producers.end_offset = log_end_offset


def replayed(
    producers: ProducerStates, segments: Iterable[LogSegment], up_to: int = OFFSET_MAX
) -> Iterator[tuple[LogSegment, AbortedTxn]]:
    """Take in the batches from `producers.end_offset` on that begin below `up_to`; `end_offset` follows them.

    Yields the transaction index entries that these batches call for, each with the segment whose index it belongs in. A
    running or crashed server may not have written them.

    Raises:
        CorruptRecordError: Some bytes are not a batch. The batches before them have been taken in.
    """
    known_up_to = producers.end_offset
    in_order = list(segments)
    for segment, following in zip_longest(in_order, in_order[1:]):
        if following is not None and following.base_offset <= known_up_to:
            continue
        for position, batch in segment.headers(segment.floor_position(known_up_to)):
            if batch.last_offset < known_up_to:
                continue
            if batch.base_offset >= up_to:
                return
            producers.end_offset = batch.next_offset
            if not batch.has_producer:
                continue
            if batch.is_control and not batch.is_whole:
                batch = RecordBatch(segment.log_file.read_at(position, batch.size_bytes))
            if (aborted := update_producers(producers, batch)) is not None:
                yield segment, aborted
