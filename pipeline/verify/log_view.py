"""Reader of a log for `verify`: a sequence of segment files in any directories, read batch by batch.

Nothing is trusted: not the order of the segments' contents, not their indexes, not a header. Bytes that cannot be a batch are
reported once and end the segment, as the start of the next batch is unknown.

    after    [0 ……………………… 700) [700 ………)              a range is a segment of the log that is judged
    before   [0 …) [310 …) [550 …) [700 …)             and the segments of the originals that reach into it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ...protocol.errors import CorruptRecordError
from ...protocol.records import LOG_OVERHEAD_BYTES, MAGIC, MAGIC_POSITION, batch_size
from ...storage.disk import paths
from ...storage.disk.files import File, Files
from ..errors import SourceChangedError
from ..objects.addresses import is_address
from ..records.batch_window import BatchWindow, Damage, header_damage, no_batch, window_of, without
from ..records.columns import RecordColumns, decode, record_damage
from ..stores.reading_files import check_unchanged, status_of
from ..stores.segment_files import is_settled, open_segments
from .findings import Finding

WINDOW_BYTES = 8 << 20

Report = Callable[[Finding], None]

_HEADER_RULES = {
    "CRC-32C": "a batch has the CRC of its bytes",
    "a base offset": "offsets rise",
    "": "counts are not negative",
}
"""Start of the expectation in `header_damage` -> the rule."""


class SegmentRef(NamedTuple):
    """One segment's files."""

    directory: str
    base_offset: int
    end_offset: int
    """Upper bound of its offsets (exclusive): the next segment's base; OFFSET_MAX for the last."""
    is_active: bool = False
    """Whether it is the last segment of a log: its end may be torn, and its indexes may be only in a server's memory."""
    suffix: str = ""
    """Suffix of the log file, set during a swap, or after an unfinished one."""
    has_indexes: bool = True
    """Whether its indexes exist under their final names."""
    size_bytes: int | None = None
    """Size of the log file when it was found, to check that it is still that file: only an active segment grows."""
    object_identity: int | None = None
    """Identity of an object, which must be the same until the end."""

    @property
    def log_path(self) -> str:
        return paths.log_path(self.directory, self.base_offset, self.suffix)

    def check_is_there(self, files: Files) -> None:
        """Check that the segment is still the one that was found.

        Raises:
            SourceChangedError: It was replaced or deleted.
        """
        if self.size_bytes is None:
            return
        with suppress(FileNotFoundError):
            if self.object_identity is not None:
                if files.identity(self.log_path) == self.object_identity:
                    return
                raise SourceChangedError(f"{self.log_path} was replaced: the copy was changed while it was read")
            size_bytes = files.size(self.log_path)
            if size_bytes == self.size_bytes or (self.is_active and size_bytes > self.size_bytes):
                return
        raise SourceChangedError(f"{self.log_path} was replaced while it was read: a server is at work")


def segments_in(files: Files, directory: str) -> list[SegmentRef]:
    """Return the segments of a partition's directory, in order; errors as of `open_segments`."""
    segments = open_segments(files, directory)
    ends = [*(segment.base_offset for segment in segments[1:]), paths.OFFSET_MAX]
    found = [
        SegmentRef(
            directory,
            segment.base_offset,
            end,
            segment is segments[-1],
            segment.suffix,
            is_settled(segment),
            segment.size_bytes,
            status_of(segment.log_file).st_ino if is_address(directory) else None,
        )
        for segment, end in zip(segments, ends, strict=True)
    ]
    for segment in segments:
        segment.log_file.close()
    return found


class WindowCursor:
    """Batches of some segments, in the order of the log, as windows. Problems with them are reported."""

    def __init__(
        self,
        files: Files,
        segments: Sequence[SegmentRef],
        report: Report,
        *,
        checks_crc: bool = True,
    ) -> None:
        """
        Args:
            report: Called for bytes that are not a batch, a wrong CRC, and offsets out of bounds.
        """
        self._files = files
        self._report = report
        self._checks_crc = checks_crc
        self._windows = self._read_segments(segments)
        self._next: BatchWindow | None = None
        self.batches = self.bytes = self.torn_bytes = 0
        """Counts so far."""

    def below(self, offset: int) -> Iterator[BatchWindow]:
        """Yield the batches that begin below `offset` and were not returned yet."""
        while (window := self._take()) is not None:
            begins_below = window.base_offsets < offset
            if not begins_below.all():
                self._next = window.only(~begins_below)
                window = window.only(begins_below)
            if len(window):
                yield window
            if self._next is not None:
                return

    def __iter__(self) -> Iterator[BatchWindow]:
        while (window := self._take()) is not None:
            yield window

    def _take(self) -> BatchWindow | None:
        window, self._next = self._next, None
        return next(self._windows, None) if window is None else window

    def _read_segments(self, segments: Sequence[SegmentRef]) -> Iterator[BatchWindow]:
        for segment in segments:
            try:
                file = self._files.open(segment.log_path)
            except FileNotFoundError:
                segment.check_is_there(self._files)
                self._report(
                    Finding("segments are there", segment.log_path, None, segment.base_offset, "a file", "none")
                )
                continue
            try:
                segment.check_is_there(self._files)
                yield from self._windows_of(segment, file)
                check_unchanged(file)
            finally:
                file.close()

    def _windows_of(self, segment: SegmentRef, file: File) -> Iterator[BatchWindow]:
        position, size_bytes = 0, file.size()
        last_offset, wanted_bytes = segment.base_offset - 1, WINDOW_BYTES
        while position < size_bytes:
            data = memoryview(file.read_at(position, min(wanted_bytes, size_bytes - position)))
            window = window_of(data, file=segment.log_path, position=position)
            if not len(window):
                damage = no_batch(data, size_bytes - position, file=segment.log_path, position=position)
                if damage is None:
                    wanted_bytes = batch_size(data)
                    continue
                if segment.is_active and _may_be_torn(data, size_bytes - position):
                    self.torn_bytes += size_bytes - position
                else:
                    self._report(_finding("a segment is whole batches to its end", damage))
                return
            wanted_bytes = WINDOW_BYTES
            self.batches += len(window)
            self.bytes += int(window.ends[-1])
            position += int(window.ends[-1])
            before = last_offset
            last_offset = max(last_offset, int(window.last_offsets.max()))
            if self._checks_crc:
                damages = header_damage(window, before)
                for damage in damages:
                    rule = next(rule for start, rule in _HEADER_RULES.items() if damage.expected.startswith(start))
                    self._report(_finding(rule, damage))
                window = without(window, damages)
            window = self._in_segment(segment, window)
            if len(window):
                yield window

    def _in_segment(self, segment: SegmentRef, window: BatchWindow) -> BatchWindow:
        outside = (window.base_offsets < segment.base_offset) | (window.last_offsets >= segment.end_offset)
        for row in np.flatnonzero(outside).tolist() if self._checks_crc else ():
            expected = f"offsets from {segment.base_offset} to {segment.end_offset - 1}"
            actual = f"{window.base_offsets[row]} to {window.last_offsets[row]}"
            self._report(_finding("a segment has its own offsets only", window.damage(row, expected, actual)))
        return window.only(~outside)


def decoded(window: BatchWindow, report: Report) -> Iterator[RecordColumns]:
    """Yield the records of all batches that can be decoded, and report the others."""
    if not len(window):
        return
    try:
        found = list(decode(window))
    except CorruptRecordError:
        damages = record_damage(window)
        for damage in damages:
            report(_finding("records can be read, and are as many as announced", damage))
        if not damages:
            raise
        found = []
        rest = without(window, damages)
        if len(rest):
            found = list(decode(rest))
    yield from found


def record_key(files: Files, segments: Sequence[SegmentRef], offset: int) -> tuple[str, int | None, bytes | None]:
    """Return file, position of the batch, and key of the record at `offset`; None for what cannot be read any more."""
    for segment in segments:
        if segment.base_offset <= offset < segment.end_offset:
            with suppress(FileNotFoundError, CorruptRecordError):
                for window in WindowCursor(files, [segment], lambda _: None):
                    for row in np.flatnonzero((window.base_offsets <= offset) & (offset <= window.last_offsets)):
                        chosen = np.zeros(len(window), np.bool_)
                        chosen[row] = True
                        one = window.only(chosen)
                        for columns in decode(one):
                            for at in np.flatnonzero(columns.offset == offset):
                                start, length = int(columns.key_at[at]), int(columns.key_length[at])
                                key = None if length < 0 else columns.data[start : start + length].tobytes()
                                return segment.log_path, one.position + int(one.starts[0]), key
            return segment.log_path, None, None
    return "", None, None


def _finding(rule: str, damage: Damage) -> Finding:
    return Finding(rule, damage.file, damage.position, damage.offset, damage.expected, damage.actual)


def _may_be_torn(data: memoryview, left_bytes: int) -> bool:
    """Return whether an unfinished write can leave this: a truncated batch, or zeros from preallocation."""
    if left_bytes < LOG_OVERHEAD_BYTES or not any(data[: MAGIC_POSITION + 1]):
        return True
    return (len(data) <= MAGIC_POSITION or data[MAGIC_POSITION] == MAGIC) and batch_size(data) > left_bytes
