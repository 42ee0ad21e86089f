"""The files of segments, opened to be read while a broker may be at work on them.

A file shows the size that it had when it was opened, so a log that grows does not grow under its reader; and one that a
swap has replaced can be told from the new one of its name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from ..protocol.errors import CorruptRecordError
from ..protocol.records import HEADER_BYTES, RecordBatch
from ..storage import paths
from ..storage.batch_scan import batch_steps
from ..storage.config import LogConfig
from ..storage.files import OsFile
from ..storage.paths import OFFSET_MAX
from ..storage.segment import LogSegment
from .errors import CorruptSourceError, SourceChangedError, UsageError
from .store import ReadingFiles

LOOKS_MAX = 150
"""At a directory in which a swap is under way: a broker renames its files within a few disk syncs, and what takes longer
was left by one that died."""

_PAUSE_S = 0.02


def pause_in_swap() -> None:
    """Wait between two such looks."""
    time.sleep(_PAUSE_S)


class LogFile(OsFile):
    """A file opened for reading. It shows the size that it had then, less when it was "truncated": the disk keeps all."""

    @property
    def inode(self) -> int:
        """Tells this file from one that took its name later."""
        return os.fstat(self.fileno()).st_ino

    def truncate(self, size_bytes: int) -> None:
        self._size = min(self._size, size_bytes)


class LogFiles(ReadingFiles):
    """`ReadingFiles` that open `LogFile`s."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> LogFile:
        if create or truncate:
            self._refuse(path)
        return LogFile(os.open(path, os.O_RDONLY))


def open_segments(files: LogFiles, directory: str, pause: Callable[[], None]) -> list[LogSegment]:
    """All segments, in order. A list that a swap changes while it is read is read again."""
    trouble: Exception = UsageError(f"{directory} has no segments")
    for _ in range(LOOKS_MAX):
        names = [name for each in files.list(directory) if (name := paths.parse_segment_name(each)) is not None]
        swap = next((name for name in names if name.suffix == paths.SWAP and name.kind == paths.LOG), None)
        bases = sorted(name.base_offset for name in names if name.kind == paths.LOG and not name.suffix)
        if swap is not None:
            trouble = CorruptSourceError.at(
                paths.segment_path(directory, *swap),
                None,
                None,
                expected="no unfinished swap (starting and stopping the server finishes it)",
                actual="a file of one",
            )
        elif not bases:
            break
        else:
            try:
                return [LogSegment.open(files, directory, base, LogConfig(), now_ms=0) for base in bases]
            except FileNotFoundError as error:
                trouble = SourceChangedError(f"{error.filename} went away while {directory} was opened")
        pause()
    raise trouble


def whole_batches(segment: LogSegment) -> tuple[int, int]:
    """Where the whole batches of a segment end, and their last offset; one below the base offset if there is none."""
    position = 0
    with suppress(CorruptRecordError):
        position = segment.floor_position(OFFSET_MAX)
    for start in dict.fromkeys((position, 0)):  # an index entry that points to no batch is not believed
        end, last_offset = start, segment.base_offset - 1
        with suppress(CorruptRecordError):
            for _, end, last_offset in batch_steps(segment.log_file, start, ""):  # noqa: B007 - the last one counts
                pass
        if end > start:
            return end, last_offset
    return 0, segment.base_offset - 1


def may_be_torn(segment: LogSegment, position: int) -> bool:
    """Whether the bytes from `position` on can be what an unfinished write leaves, or a file that was made larger."""
    head = segment.log_file.read_at(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return True
    if not any(head):
        return True
    try:
        return RecordBatch(head).size_bytes > segment.size_bytes - position
    except CorruptRecordError:
        return False
