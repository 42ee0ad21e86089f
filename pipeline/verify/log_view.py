"""A log as `verify` looks at it: a row of segment files, wherever each of them lies, read batch by batch.

Nothing is believed: not the order of the segments' contents, not their indexes, not a header. What cannot be a batch is
reported once and ends the segment, for nobody can tell where the next one would begin.

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
"""What `header_damage` expects, and the rule that it comes from."""


class SegmentRef(NamedTuple):
    """One segment's files."""

    directory: str
    base_offset: int
    end_offset: int
    """No offset of it may reach this one: the next segment's base; OFFSET_MAX for the last."""
    is_active: bool = False
    """The last segment of a log: its end may be torn, and its indexes may be in a server's memory."""
    suffix: str = ""
    """Of the log file: a swap may be under way, or have been left unfinished."""
    has_indexes: bool = True
    """They are there under their final names."""
    size_bytes: int | None = None
    """Of the log file when it was found, where it must still be that file: an active segment only grows."""
    object_identity: int | None = None
    """Of an object, which must be the same to the end."""

    @property
    def log_path(self) -> str:
        return paths.log_path(self.directory, self.base_offset, self.suffix)

    def check_is_there(self, files: Files) -> None:
        """
        Raises:
            SourceChangedError: The segment is no longer the one that was found.
        """
        if self.size_bytes is None:
            return
        with suppress(FileNotFoundError):
            if self.object_identity is not None:
                if files.identity(self.log_path) == self.object_identity:
                    return
                raise SourceChangedError(
                    f"{self.log_path} is another object now: the copy was changed while it was looked at"
                )
            size_bytes = files.size(self.log_path)
            if size_bytes == self.size_bytes or (self.is_active and size_bytes > self.size_bytes):
                return
        raise SourceChangedError(f"{self.log_path} was replaced while it was looked at: a server is at work")


def segments_in(files: Files, directory: str) -> list[SegmentRef]:
    """The segments of a partition's directory, in order; errors as of `open_segments`."""
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
    """The batches of some segments, in the order of the log, as windows; and what is wrong with them."""

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
            report: Is told of what is no batch, has another CRC, or another offset than may be.
        """
        self._files = files
        self._report = report
        self._checks_crc = checks_crc
        self._windows = self._all(segments)
        self._next: BatchWindow | None = None
        self.batches = self.bytes = self.torn_bytes = 0
        """Read so far."""

    def below(self, offset: int) -> Iterator[BatchWindow]:
        """The batches that begin below `offset` and were not given out yet."""
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

    def _all(self, segments: Sequence[SegmentRef]) -> Iterator[BatchWindow]:
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
    """The records of all batches that can be decoded; of the others `report` is told."""
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
    """(file, position of the batch, key) of the record at `offset`; None where it cannot be read any more."""
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
    """Whether an unfinished write leaves this: a batch cut short, or zeros of a file that was made larger."""
    if left_bytes < LOG_OVERHEAD_BYTES or not any(data[: MAGIC_POSITION + 1]):
        return True
    return (len(data) <= MAGIC_POSITION or data[MAGIC_POSITION] == MAGIC) and batch_size(data) > left_bytes
