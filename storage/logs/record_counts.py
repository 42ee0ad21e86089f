"""Numbers of records, live keys and tombstones in a log: exact below the end of the last clean pass, bounded above it.

A pass knows what it keeps, so counting costs it nothing. The file `ottla-records` in the partition's directory keeps the
figures across restarts. Any swap of segments removes it before it renames anything, so a stop at any moment leaves
figures that are true, or none. Apache Kafka ignores the file, and cleans without it: so figures count only if the size of the
segments that they are about is the same.

    log start               pass end                      opened at                    log end
    | counted by the pass   | at most one an offset       | one an offset, but markers |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..disk import paths
from ..disk.checkpoints import CorruptCheckpointError, number, read_entries, write_entries

if TYPE_CHECKING:
    from ..disk.files import Files
    from .segments import SegmentList


class CleanCounts(NamedTuple):
    """Numbers of records that a pass over a whole log has left. Transaction markers are not counted."""

    start_offset: int
    """Base offset of the first segment."""
    end_offset: int
    """First offset that is not counted: the base of a segment."""
    size_bytes: int
    """Size of the counted segments."""
    records: int
    tombstones: int
    oldest_ms: int = 0
    """Least timestamp of the counted records that may go for their age (`ottla.key.retention.ms`); the largest number: there are
    none; 0: it is unknown."""


def write(files: Files, directory: str, counts: CleanCounts) -> None:
    """Keep the counts for the next start, as `write_atomically`. OSError: the disk refused."""
    write_entries(files, paths.join(directory, paths.RECORDS_FILE), [" ".join(map(str, counts))])


def remove(files: Files, directory: str) -> None:
    """Remove the counts, since segments are about to change. The next sync of the directory makes it durable."""
    files.remove(paths.join(directory, paths.RECORDS_FILE))


def read(files: Files, directory: str, segments: SegmentList, log_end_offset: int) -> CleanCounts | None:
    """Read the counts of these segments; None if there are none, or if they are about other segments.

    Raises:
        CorruptCheckpointError: The file is invalid.
        OSError: The disk refused.
    """
    found = next(_parsed(files, paths.join(directory, paths.RECORDS_FILE)), None)
    if found is None or found.end_offset > log_end_offset:
        return None
    counted = segments.between(-1, found.end_offset)
    size_bytes = sum(segment.size_bytes for segment in counted)
    # Fewer segments may be what retention has left, but another program may have cleaned those as well.
    is_same = bool(counted) and counted[0].base_offset == found.start_offset and size_bytes == found.size_bytes
    return found if is_same else None


def _parsed(files: Files, path: str) -> Iterator[CleanCounts]:
    for line, fields in read_entries(files, path, len(CleanCounts._fields)):
        found = CleanCounts(*(number(path, line, each) for each in fields))
        span = found.end_offset - found.start_offset
        if not 0 <= found.tombstones <= found.records <= span or min(found) < 0:
            raise CorruptCheckpointError(path, line, f"out of range: {' '.join(fields)}")
        yield found


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCounts:
    """Numbers of records in a log, without transaction markers. Where both bounds are equal, the number is exact."""

    records_min: int
    records_max: int
    live_keys_min: int
    """Keys whose newest record has a value; only for compacted logs. Exact after a pass, and while nothing follows it."""
    live_keys_max: int
    tombstones_min: int
    tombstones_max: int

    @classmethod
    def total(cls, logs: Iterable[RecordCounts]) -> RecordCounts:
        """Return the sums for several logs."""
        sums = [0] * 6
        for counts in logs:
            for at, name in enumerate(cls.__dataclass_fields__):
                sums[at] += getattr(counts, name)
        return cls(**dict(zip(cls.__dataclass_fields__, sums, strict=True)))


class RecordCounter:
    """Knowledge about the number of records in one log. On the thread that owns the log."""

    def __init__(self, log_end_offset: int) -> None:
        """Begin to count in a log that was opened with this end."""
        self.clean: CleanCounts | None = None
        """Counts of the last pass. Set by the pass, or by the first survey of the log after a start."""
        self.aged_up_to_ms = 0
        """Records up to this timestamp that are still there were left by a pass for another reason; see `dirtiness`."""
        self._opened_at = self._dense_from = log_end_offset
        self._markers = self._markers_at_roll = 0

    @property
    def counts_up_to(self) -> int:
        """Largest end of counts that were written before the log was opened."""
        return self._opened_at

    def note_marker(self) -> None:
        """Note that a transaction marker was appended."""
        self._markers += 1

    def note_roll(self) -> None:
        """Note that a new active segment begins at the log end."""
        self._markers_at_roll = self._markers

    def note_swap(self, end_offset: int) -> None:
        """Note that segments below `end_offset` were replaced: from now on they may have gaps."""
        self.clean = None
        self._dense_from = max(self._dense_from, end_offset)

    def counts(self, log_start_offset: int, log_end_offset: int, active_base_offset: int) -> RecordCounts:
        """Return the bounds that follow from what is known."""
        clean_min = clean_max = live_min = live_max = tombstones_min = tombstones_max = 0
        begin, clean = log_start_offset, self.clean
        if clean is not None and clean.end_offset > log_start_offset:
            begin = clean.end_offset
            # The log start may have moved into what was counted.
            hidden, shown = max(0, log_start_offset - clean.start_offset), begin - log_start_offset
            live = clean.records - clean.tombstones
            clean_min, clean_max = max(0, clean.records - hidden), min(clean.records, shown)
            live_min, live_max = max(0, live - hidden), min(live, shown)
            tombstones_min, tombstones_max = max(0, clean.tombstones - hidden), min(clean.tombstones, shown)
        dense_from = min(max(begin, self._dense_from), log_end_offset)
        dense = log_end_offset - dense_from
        markers_min, markers_max = self._markers_from(dense_from, active_base_offset)
        above_max = dense_from - begin + dense - markers_min
        return RecordCounts(
            records_min=clean_min + max(0, dense - markers_max),
            records_max=clean_max + above_max,
            live_keys_min=max(0, live_min - above_max),
            live_keys_max=live_max + above_max,
            tombstones_min=tombstones_min,
            tombstones_max=tombstones_max + above_max,
        )

    def _markers_from(self, offset: int, active_base_offset: int) -> tuple[int, int]:
        """Return the bounds of the number of markers from `offset` on, where the log is dense."""
        active = self._markers - self._markers_at_roll
        if offset == active_base_offset:
            return active, active
        if offset == self._opened_at:
            return self._markers, self._markers
        return (active, self._markers) if offset < active_base_offset else (0, active)
