"""Segments of a partition's directory, opened as of one moment. All readers open segments with this module.

Nothing is locked, and readers wait for no other process: the names in the directory at one moment define the log
(`segment_names`).

A directory cannot be listed and opened in one step. So files count only if they have the same names after they were opened as
before. Replaced files are opened again, and the rest is kept. An index that is read later is valid only while the log file next
to it is still the one that is open; otherwise it is rebuilt from that.

A file shows the size that it had when it was opened, so a growing log does not grow for its reader.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ...protocol.errors import CorruptRecordError
from ...storage.disk import paths
from ...storage.disk.files import DamagedFileError, File, Files
from ...storage.segment.index import TransactionIndex
from ...storage.segment.segment import LogSegment
from ...storage.topics.config import LogConfig
from ..errors import CorruptSourceError, SourceChangedError, UsageError
from .reading_files import FileStatus, ReadingFiles, status_of
from .segment_names import SegmentNames, list_segments, settled_logs

LOOKS_MAX = 150
"""Limit of attempts for a directory that changes before all of it is open. Each opens only the files replaced since the last
one."""

_PAUSE_S = 0.02
_QUICK_LOOKS = 3


def pause_between_looks() -> None:
    """Wait for a moment."""
    time.sleep(_PAUSE_S)


def open_segments(
    files: Files,
    directory: str,
    *,
    config: LogConfig | None = None,
    now_ms: int = 0,
    pause: Callable[[], None] = pause_between_looks,
) -> list[LogSegment]:
    """Open all segments, in order, as of one moment; `is_settled` and `was_replaced` describe each of them.

    Args:
        pause: Called between two looks at a directory that has changed.

    Raises:
        UsageError: There are none.
        CorruptSourceError: As `list_segments`.
        SourceChangedError: The directory was deleted, or changes faster than it can be opened.
    """
    held: dict[int, tuple[SegmentNames, LogSegment]] = {}
    try:
        with closed_on_error(held):
            for _ in range(LOOKS_MAX):
                try:
                    there = list_segments(files, directory)
                    if there and _is_held(there, held):
                        return [held[names.base_offset][1] for names in there]
                    _follow(there, held, files, directory, config or LogConfig(), now_ms)
                    if not there and not any(name.endswith(paths.DELETED) for name in files.list(directory)):
                        raise UsageError(f"{directory} has no segments")
                    if there:
                        continue  # look again without a pause
                except FileNotFoundError:
                    if not files.is_dir(directory):
                        raise
                pause()
            if not held:
                raise UsageError(f"{directory} has no segments")
            raise SourceChangedError(f"{directory} was changed in each of {LOOKS_MAX} attempts to open it")
    except FileNotFoundError as error:
        raise deleted_log_error(directory) from error


class FoundSegments(NamedTuple):
    """Segments of a directory as of one moment, of which few are open."""

    first_base_offset: int
    base_offsets: list[int]
    """Segments from the wanted offset on, in order."""
    statuses: Sequence[FileStatus]
    """Statuses of their log files."""
    opened: list[LogSegment]
    """Open segments among them, at least the last one."""


def find_segments(
    files: ReadingFiles,
    directory: str,
    *,
    from_offset: int,
    opens_from: int,
    opens_aborted: bool,
    pause: Callable[[], None] = pause_between_looks,
) -> FoundSegments:
    """Find the segments without opening them: a system call each.

    Args:
        from_offset: Leave out the segments before the one with this offset.
        opens_from: Open the segment with this offset, and later ones. At least the last one is opened.
        opens_aborted: Also open segments with an index of aborted transactions.
        pause: See `open_segments`, also for the errors.
    """
    for _ in range(_QUICK_LOOKS):
        opened: list[LogSegment] = []
        is_done = False
        try:
            changed_ns = files.changed_ns(directory)
            names = files.list(directory)
            if not (logs := settled_logs(names)):
                break
            bases = [int(name.removesuffix(paths.LOG)) for name in logs]
            first = max(0, bisect_right(bases, from_offset) - 1)
            wanted = bases[first:]
            own = set(wanted[max(0, bisect_right(wanted, opens_from) - 1) :])
            if opens_aborted and paths.TXN_INDEX in "\n".join(names):
                known = set(names)
                own |= {base for base in wanted if paths.segment_file_name(base, paths.TXN_INDEX) in known}
            statuses = files.statuses(directory, logs[first:])
            for base_offset in sorted(own):
                opened.append(open_segment(files, directory, base_offset))
            is_done = changed_ns is not None and files.changed_ns(directory) == changed_ns
            is_done = is_done or settled_logs(files.list(directory))[: len(logs)] == logs
            if is_done:
                return FoundSegments(bases[0], wanted, statuses, opened)
        except FileNotFoundError:
            continue
        finally:
            if not is_done:
                for segment in opened:
                    segment.log_file.close()
    opened = open_segments(files, directory, pause=pause)
    first_base_offset = opened[0].base_offset
    del opened[: max(0, bisect_right([each.base_offset for each in opened], from_offset) - 1)]
    statuses = [status_of(segment.log_file) for segment in opened]
    return FoundSegments(first_base_offset, [segment.base_offset for segment in opened], statuses, opened)


def deleted_log_error(directory: str) -> SourceChangedError:
    """Return the error for a log that was deleted."""
    return SourceChangedError(
        f"{directory} was deleted while it was opened: it was moved to another data directory, or its topic was deleted"
    )


Held = dict[int, tuple[SegmentNames, LogSegment]]


@contextmanager
def closed_on_error(held: Held) -> Iterator[None]:
    """Close the descriptors if the block raises."""
    try:
        yield
    except BaseException:
        for _, segment in held.values():
            segment.log_file.close()
        raise


def _is_held(there: list[SegmentNames], held: Held) -> bool:
    """Return whether the open files are the current ones. Indexes of the last segment may have been added since."""
    return len(held) == len(there) and all(
        names.base_offset in held and _is_same(held[names.base_offset][0], names, is_last=names is there[-1])
        for names in there
    )


def _is_same(one: SegmentNames, other: SegmentNames, *, is_last: bool) -> bool:
    return (one.log, one.identity) == (other.log, other.identity) and (is_last or one == other)


def _follow(
    there: list[SegmentNames], held: Held, files: Files, directory: str, config: LogConfig, now_ms: int
) -> None:
    """Open the segments that are not open yet, close those that no longer exist."""
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
        with suppress(DamagedFileError):  # reading aborted transactions raises this error again
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
    """Open one segment by its final names, as one of `open_segments`. Reads nothing.

    Raises:
        FileNotFoundError: It does not exist.
    """
    own = {kind: paths.segment_file_name(base_offset, kind) for kind in paths.SEGMENT_KINDS}
    log = own.pop(paths.LOG)
    names = SegmentNames(base_offset, log, own, (), files.identity(paths.join(directory, log)))
    return LogSegment.open(SegmentsOwnFiles(files, directory, names), directory, base_offset, LogConfig(), 0)


def was_replaced(segment: LogSegment) -> bool:
    """Return whether a segment of `open_segments` no longer has its file at the same place."""
    return _own_files(segment).was_replaced()


def is_settled(segment: LogSegment) -> bool:
    """Return whether the files of a segment of `open_segments` all had their final names."""
    return _own_files(segment).names.is_settled


def _own_files(segment: LogSegment) -> SegmentsOwnFiles:
    if not isinstance(segment.files, SegmentsOwnFiles):
        raise TypeError(f"{segment} was not opened by open_segments, so its names are unknown")
    return segment.files


class SegmentsOwnFiles(ReadingFiles):
    """Files of one segment in its directory: those that it had when it was found.

    Raises DamagedFileError for an index that may now be the one of the segment's successor.
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
            raise DamagedFileError(f"{path} was deleted") from error
        # An index is deleted and created after its log, so it belongs to the current log file.
        if self.was_replaced():
            file.close()
            raise DamagedFileError(f"{path}: the log file next to it was replaced")
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
    """Convert errors of reading indexes and headers of segments of `open_segments`.

    Raises:
        SourceChangedError: An index is missing or invalid, and its segment was replaced.
        CorruptSourceError: It is missing or invalid for another reason.
    """
    try:
        yield
    except CorruptRecordError as error:
        raise CorruptSourceError(error.message) from error
    except DamagedFileError as error:
        if any(was_replaced(segment) for segment in segments):
            raise SourceChangedError(f"{error}: a server is at work") from error
        raise CorruptSourceError(str(error)) from error
