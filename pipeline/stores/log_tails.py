"""Facts about a log's end, kept from one look to the next, for a stream that opens the log at each trigger.

A whole batch does not change until its segment is replaced. So a reader that knows where the last one began reads from there
on. It needs no earlier segment for the ends of the log, its open transactions, or the aborted ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES
from ...storage.disk.paths import OFFSET_MAX
from ...storage.produce.producers import ProducerStates
from ...storage.segment.batch_scan import batch_steps
from ...storage.segment.index import AbortedTxn
from ...storage.segment.segment import LogSegment


@dataclass(frozen=True, slots=True)
class Tail:
    """The last batch of a log, and what is known up to it."""

    topic_id: bytes | None
    base_offset: int
    """Base offset of the last segment."""
    last_offset: int
    position: int
    """Position of the batch in its segment."""
    header: bytes
    """Header of the batch. Its CRC identifies the batch."""
    producers: ProducerStates | None
    """Producers as of the readable end. A log that continues from this tail takes them over: they are used only once."""
    aborted: tuple[AbortedTxn, ...]
    """Aborted transactions that the broker may not have written to an index yet."""

    @classmethod
    def from_segments(
        cls,
        topic_id: bytes | None,
        segments: Sequence[LogSegment],
        producers: ProducerStates | None,
        aborted: Iterable[AbortedTxn],
        before: Tail | None,
    ) -> Tail | None:
        """Return the tail of a log that has these last segments; None if they contain no batch."""
        for segment in reversed(segments):  # the last one may be empty after a roll
            if (last := _last_batch(segment)) is not None:
                break
        else:
            return None
        position, last_offset = last
        # Aborted transactions of a segment that was closed since are now in its index.
        unwritten_from = segment.base_offset if before is None else before.base_offset
        return cls(
            topic_id,
            segment.base_offset,
            last_offset,
            position,
            segment.log_file.read_at(position, HEADER_BYTES),
            producers,
            tuple(txn for txn in aborted if txn.last_offset >= unwritten_from),
        )

    def is_in(self, segments: Sequence[LogSegment]) -> bool:
        """Return whether the batch is still in its place."""
        for segment in segments:
            if segment.base_offset == self.base_offset:
                return segment.log_file.read_at(self.position, HEADER_BYTES) == self.header
        return False

    def add_to_index(self, segment: LogSegment) -> None:
        """Add the batch to the offset index of its segment, in memory."""
        if segment.base_offset == self.base_offset:
            # ValueError: the batch does not continue the index, or the rebuilt index.
            with suppress(CorruptRecordError, ValueError):
                if segment.floor_position(OFFSET_MAX) < self.position:
                    segment.offset_index.append(self.last_offset, self.position)


def _last_batch(segment: LogSegment) -> tuple[int, int] | None:
    """Return position and last offset of a segment's last whole batch, None without one."""
    found = None
    with suppress(CorruptRecordError):
        for position, _, last_offset in batch_steps(segment.log_file, segment.floor_position(OFFSET_MAX), ""):
            found = position, last_offset
    return found
