"""What is known of a log's end from the last time it was opened, for who opens it again and again: a stream, at each trigger.

A batch that was whole stays as it is while its segment has not been replaced. So who knows where the last one began reads from there
on, and needs no segment before it: neither the ends of the log, nor which transactions are open, nor what was aborted.
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
    """Of the last segment."""
    last_offset: int
    position: int
    """Of the batch."""
    header: bytes
    """Of the batch, with its CRC: another one is not taken for it."""
    producers: ProducerStates | None
    """Those as of the readable end. Whoever goes on from this tail has them for himself: no other log does."""
    aborted: tuple[AbortedTxn, ...]
    """Which the broker may not have written into an index yet."""

    @classmethod
    def of(
        cls,
        topic_id: bytes | None,
        segments: Sequence[LogSegment],
        producers: ProducerStates | None,
        aborted: Iterable[AbortedTxn],
        before: Tail | None,
    ) -> Tail | None:
        """The tail of a log whose last segments these are; None if there is no batch in them."""
        for segment in reversed(segments):  # the last one may have just been rolled
            if (last := _last_batch(segment)) is not None:
                break
        else:
            return None
        position, last_offset = last
        # Those of a segment that was closed since are in its index by now.
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
        """Whether the batch is where it was."""
        for segment in segments:
            if segment.base_offset == self.base_offset:
                return segment.log_file.read_at(self.position, HEADER_BYTES) == self.header
        return False

    def tell(self, segment: LogSegment) -> None:
        """Give its segment's offset index, in memory, the entry that leads to the batch."""
        if segment.base_offset == self.base_offset:
            # ValueError: it does not continue the index, or what the index is made from again does not.
            with suppress(CorruptRecordError, ValueError):
                if segment.floor_position(OFFSET_MAX) < self.position:
                    segment.offset_index.append(self.last_offset, self.position)


def _last_batch(segment: LogSegment) -> tuple[int, int] | None:
    """Position and last offset of a segment's last whole batch."""
    found = None
    with suppress(CorruptRecordError):
        for position, _, last_offset in batch_steps(segment.log_file, segment.floor_position(OFFSET_MAX), ""):
            found = position, last_offset
    return found
