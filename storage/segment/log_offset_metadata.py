"""Where an offset lies in a log: what bytes between two offsets are counted with."""

from __future__ import annotations

from typing import NamedTuple

from ..disk.files import FileSlice


class LogOffsetMetadata(NamedTuple):
    """An offset, and the place of the batch that holds or follows it. Holds until that segment is cut or replaced."""

    offset: int
    segment_base_offset: int
    position: int
    """In bytes, in the segment's log file."""


class FetchedRecords(NamedTuple):
    """What a read found."""

    records: FileSlice
    """Whole batches."""
    offered_bytes: int
    """With the part of a further batch up to the limit: what Apache Kafka gives, and counts against every limit."""
    start: LogOffsetMetadata
    """Where the offset lies that was asked for."""
