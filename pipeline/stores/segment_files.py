"""The segments of a partition's directory, opened as they were at one moment: the one place that opens them for readers.

Nothing is locked, and nobody waits for anybody: what lies in the directory at one moment says what the log is
(`segment_names`).

A directory cannot be listed and opened in one step. So files count as seen only if they have the names that they had
before they were opened: what was replaced meanwhile is looked at again, the rest is kept. An index that is read later is
believed only while the log file beside it is still the one that is open; else it is made anew from that.

A file shows the size that it had when it was opened, so a log that grows does not grow under its reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ...protocol.errors import CorruptRecordError
from ...storage.disk import paths
from ...storage.disk.files import DamagedFileError, File, Files
from ...storage.segment.index import TransactionIndex
from ...storage.segment.segment import LogSegment
from ...storage.topics.config import LogConfig
from ..errors import CorruptSourceError, SourceChangedError, UsageError
from .reading_files import ReadingFiles
from .segment_names import SegmentNames, look

LOOKS_MAX = 150
"""At a directory that changes each time before all of it is open. Each opens only what was replaced since the one before."""

_PAUSE_S = 0.02


def pause_between_looks() -> None:
    """Wait for a moment."""
    time.sleep(_PAUSE_S)


def open_segments(
    files: Files,
    directory: str,
    *,
    config: LogConfig | None = None,
    now_ms: int = 0,
    from_offset: int = 0,
    pause: Callable[[], None] = pause_between_looks,
) -> list[LogSegment]:
    """All segments, in order, as they were at one moment; `is_settled` and `was_replaced` tell more of each.

    Args:
        from_offset: As of `look`.
        pause: Called between two looks at a directory that was changed meanwhile.

    Raises:
        UsageError: There are none.
        CorruptSourceError: As `look`.
        SourceChangedError: The directory went away, or changes faster than it can be opened.
    """
    held: dict[int, tuple[SegmentNames, LogSegment]] = {}
    try:
        with closed_on_error(held):
            for _ in range(LOOKS_MAX):
                try:
                    there = look(files, directory, from_offset=from_offset)
                    if there and _is_held(there, held):
                        return [held[names.base_offset][1] for names in there]
                    _follow(there, held, files, directory, config or LogConfig(), now_ms)
                    if not there and not any(name.endswith(paths.DELETED) for name in files.list(directory)):
                        raise UsageError(f"{directory} has no segments")
                    if there:
                        continue  # looked at once more, at once
                except FileNotFoundError:
                    if not files.is_dir(directory):
                        raise
                pause()
            if not held:
                raise UsageError(f"{directory} has no segments")
            raise SourceChangedError(f"{directory} was changed each of {LOOKS_MAX} times that it was opened")
    except FileNotFoundError as error:
        raise gone(directory) from error


def gone(directory: str) -> SourceChangedError:
    """The refusal of a log that is not there any more."""
    return SourceChangedError(
        f"{directory} went away while it was opened: it was moved to another data directory, or its topic was deleted"
    )


Held = dict[int, tuple[SegmentNames, LogSegment]]


@contextmanager
def closed_on_error(held: Held) -> Iterator[None]:
    """Give the descriptors back if this ends with an error."""
    try:
        yield
    except BaseException:
        for _, segment in held.values():
            segment.log_file.close()
        raise


def _is_held(there: list[SegmentNames], held: Held) -> bool:
    """Whether what is there now is what is open. Of the last segment, indexes may have come since."""
    return len(held) == len(there) and all(
        names.base_offset in held and _is_same(held[names.base_offset][0], names, is_last=names is there[-1])
        for names in there
    )


def _is_same(one: SegmentNames, other: SegmentNames, *, is_last: bool) -> bool:
    return (one.log, one.identity) == (other.log, other.identity) and (is_last or one == other)


def _follow(
    there: list[SegmentNames], held: Held, files: Files, directory: str, config: LogConfig, now_ms: int
) -> None:
    """Open what is not open yet, close what is no longer there."""
    wanted = {names.base_offset: names for names in there}
    for base_offset, (names, segment) in list(held.items()):
        now = wanted.get(base_offset)
        if now is None or not _is_same(names, now, is_last=now is there[-1]):
            segment.log_file.close()
            del held[base_offset]
    for names in there:
        if names.base_offset not in held:
            held[names.base_offset] = names, _open(names, files, directory, config, now_ms)


def _open(names: SegmentNames, files: Files, directory: str, config: LogConfig, now_ms: int) -> LogSegment:
    own = SegmentsOwnFiles(files, directory, names)
    segment = LogSegment.open(own, directory, names.base_offset, config, now_ms, names.suffix)
    try:
        with suppress(DamagedFileError):  # a reader of aborted transactions gets this error again
            segment.txn_index.sanity_check()
            known = {txn.last_offset: txn for txn in segment.txn_index.entries()}
            for name in names.more_transactions:
                more = TransactionIndex(files, paths.join(directory, name), names.base_offset)
                known |= {txn.last_offset: txn for txn in more.entries()}
            if names.more_transactions:
                segment.txn_index.reset()
                for _, txn in sorted(known.items()):
                    segment.txn_index.append(txn)
    except BaseException:
        segment.log_file.close()
        raise
    return segment


def open_segment(files: Files, directory: str, base_offset: int) -> LogSegment:
    """One segment by its final names, as those of `open_segments`. Reads nothing.

    Raises:
        FileNotFoundError: There is none.
    """
    own = {kind: paths.segment_file_name(base_offset, kind) for kind in paths.SEGMENT_KINDS}
    log = own.pop(paths.LOG)
    names = SegmentNames(base_offset, log, own, (), files.identity(paths.join(directory, log)))
    return LogSegment.open(SegmentsOwnFiles(files, directory, names), directory, base_offset, LogConfig(), 0)


def was_replaced(segment: LogSegment) -> bool:
    """Whether a segment of `open_segments` no longer has the place at which it was found."""
    return _own_files(segment).was_replaced()


def is_settled(segment: LogSegment) -> bool:
    """Whether the files of a segment of `open_segments` all had their final names."""
    return _own_files(segment).names.is_settled


def _own_files(segment: LogSegment) -> SegmentsOwnFiles:
    if not isinstance(segment.files, SegmentsOwnFiles):
        raise TypeError(f"{segment} was opened by somebody else, who knows nothing of its names")
    return segment.files


class SegmentsOwnFiles(ReadingFiles):
    """What one segment sees of its directory: the files that were its own when it was found.

    Raises DamagedFileError for an index that can no longer be told from the index of the segment's successor.
    """

    def __init__(self, files: Files, directory: str, names: SegmentNames) -> None:
        super().__init__()
        self._files = files
        self.names = names
        self._places = {
            paths.segment_path(directory, names.base_offset, kind, names.suffix): paths.join(directory, name)
            for kind, name in names.indexes.items()
        }
        self._log_path = paths.log_path(directory, names.base_offset, names.suffix)
        self._mtime_ms = files.mtime_ms(self._log_path)

    def was_replaced(self) -> bool:
        with suppress(FileNotFoundError):
            return self._files.identity(self._log_path) != self.names.identity
        return True

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:  # type: ignore[override]
        if create or truncate:
            self._refuse(path)
        if path == self._log_path:
            return self._files.open(path)
        try:
            file = self._files.open(self._places.get(path, path))
        except FileNotFoundError as error:
            raise DamagedFileError(f"{path} went away") from error
        # An index leaves after its log and comes after its log, so it is that of the log file which is there now.
        if self.was_replaced():
            file.close()
            raise DamagedFileError(f"{path}: the log file beside it is another one now")
        return file

    def exists(self, path: str) -> bool:
        return path == self._log_path or (path in self._places and self._files.exists(self._places[path]))

    def size(self, path: str) -> int:
        try:
            return self._files.size(self._places.get(path, path))
        except FileNotFoundError:
            return 0

    def mtime_ms(self, path: str) -> int:
        return self._mtime_ms if path == self._log_path else self._files.mtime_ms(self._places.get(path, path))


@contextmanager
def source_errors(segments: list[LogSegment]) -> Iterator[None]:
    """What reading indexes and headers of segments of `open_segments` raises, as errors of a job.

    Raises:
        SourceChangedError: An index is missing or makes no sense, and it was replaced meanwhile.
        CorruptSourceError: Otherwise.
    """
    try:
        yield
    except CorruptRecordError as error:
        raise CorruptSourceError(error.message) from error
    except DamagedFileError as error:
        if any(was_replaced(segment) for segment in segments):
            raise SourceChangedError(f"{error}: a server is at work") from error
        raise CorruptSourceError(str(error)) from error
