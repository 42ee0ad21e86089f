"""The segments of a partition's directory as a reader finds them: the one place that looks for them.

Nothing is locked, and nobody waits for anybody: what lies in the directory at one moment says what the log is, whoever is
at work there, or has died at work. The rules are those of a start (`storage.swap.outcome`), taken as done.

    at work                what is there beside segments with their final names        and it is read as
    an append, a roll      a new .log without indexes                                  found out from the log
    a pass, an install     .cleaned                                                    nothing
    a swap, its step 1     .swap beside .cleaned                                       nothing
                           .log.swap, all old ones still there                         in the place of the old ones
    its step 2             .log.swap, old ones gone one by one, log before indexes     the same
    its step 3             .log with its final name, indexes still .swap               a segment with these indexes
    retention, truncation  .deleted; an index whose log has gone before                nothing
    a deleted topic        no directory, or that of the topic made anew                SourceChangedError, see `topic_id_in`
    a crash                any of these, for as long as no server starts               the same

A directory cannot be listed and opened in one step. So files count as seen only if they have the names that they had
before they were opened: what was replaced meanwhile is looked at again, the rest is kept. An index that is read later is
believed only while the log file beside it is still the one that is open; else it is made anew from that.

A file shows the size that it had when it was opened, so a log that grows does not grow under its reader.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, RecordBatch
from ...storage.disk import paths
from ...storage.disk.checkpoints import CorruptCheckpointError, read_partition_metadata
from ...storage.disk.files import File, Files, OsFile
from ...storage.disk.paths import OFFSET_MAX
from ...storage.logs.replay import replayed
from ...storage.logs.swap import outcome
from ...storage.produce.producers import ProducerStates
from ...storage.segment.batch_scan import batch_steps
from ...storage.segment.index import AbortedTxn, CorruptIndexError, TransactionIndex
from ...storage.segment.segment import LogSegment
from ...storage.topics.config import LogConfig
from ..errors import CorruptSourceError, SourceChangedError, UsageError
from .reading_files import ReadingFiles

LOOKS_MAX = 150
"""At a directory that changes each time before all of it is open. Each opens only what was replaced since the one before."""

_PAUSE_S = 0.02


def pause_between_looks() -> None:
    """Wait for a moment."""
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


@dataclass(frozen=True, slots=True)
class SegmentNames:
    """Where the files of one segment are at one moment."""

    base_offset: int
    log: str
    """The log file's name: the final one, or with `.swap`."""
    indexes: Mapping[str, str]
    """INDEX, TIME_INDEX, TXN_INDEX -> a file's name, where there is one to be believed."""
    more_transactions: tuple[str, ...]
    """Transaction indexes that may be those of the replaced segments or the segment's own. What they say is true of the log
    either way."""
    identity: int
    """Of the log file; see `Files.identity`."""

    @property
    def suffix(self) -> str:
        """Of the log file."""
        return self.log.removeprefix(paths.segment_file_name(self.base_offset, paths.LOG))

    @property
    def is_settled(self) -> bool:
        """Whether all its files have their final names."""
        return not self.suffix and not any(name.endswith(paths.SWAP) for name in self.indexes.values())


def look(files: Files, directory: str) -> list[SegmentNames]:
    """The segments that a directory has now, in order.

    Raises:
        FileNotFoundError: It changes while it is looked at, or is not there.
        CorruptSourceError: The new segment of a swap is not batches to its end.
    """

    def next_offset_of(base_offset: int, suffix: str) -> int:
        segment = LogSegment.open(files, directory, base_offset, LogConfig(), 0, suffix)
        try:
            return segment.next_offset()
        except CorruptIndexError:
            segment.rebuild_indexes()
            return segment.next_offset()
        finally:
            segment.log_file.close()

    names = files.list(directory)
    try:
        found = outcome(names, next_offset_of)
    except CorruptRecordError as error:
        raise CorruptSourceError(error.message) from error
    gone = {name for step in found.removed for name in step}
    places = {name: name for name in names if (parsed := paths.parse_segment_name(name)) and not parsed.suffix}
    places = {name: name for name in places if name not in gone}
    places |= {name.removesuffix(paths.SWAP): name for name in found.renamed}
    logs = {name: parsed for name in places if (parsed := paths.parse_segment_name(name)) and parsed.kind == paths.LOG}
    segments = []
    for name, parsed in sorted(logs.items()):
        own = {kind: paths.segment_file_name(parsed.base_offset, kind) for kind in paths.SEGMENT_KINDS[1:]}
        of_old = (own[paths.TXN_INDEX], own[paths.TXN_INDEX] + paths.SWAP)
        segments.append(
            SegmentNames(
                parsed.base_offset,
                places[name],
                {kind: places[each] for kind, each in own.items() if each in places},
                tuple(each for each in of_old if each in names) if places[name] != name else (),
                files.identity(paths.join(directory, places[name])),
            )
        )
    return segments


def topic_id_in(files: Files, directory: str) -> bytes | None:
    """The topic whose directory it is; None if that is not known. A topic made anew takes the name of a deleted one."""
    with suppress(CorruptCheckpointError):
        return read_partition_metadata(files, directory)
    return None


def open_segments(
    files: Files,
    directory: str,
    *,
    config: LogConfig | None = None,
    now_ms: int = 0,
    pause: Callable[[], None] = pause_between_looks,
) -> list[LogSegment]:
    """All segments, in order, as they were at one moment; `is_settled` and `was_replaced` tell more of each.

    Args:
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
                    there = look(files, directory)
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
        raise SourceChangedError(f"{directory} went away while it was opened: its topic was deleted") from error


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
        with suppress(CorruptIndexError):  # whoever asks for aborted transactions meets that again
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
    assert isinstance(segment.files, SegmentsOwnFiles)
    return segment.files.was_replaced()


def is_settled(segment: LogSegment) -> bool:
    """Whether the files of a segment of `open_segments` all had their final names."""
    assert isinstance(segment.files, SegmentsOwnFiles)
    return segment.files.names.is_settled


class SegmentsOwnFiles(ReadingFiles):
    """What one segment sees of its directory: the files that were its own when it was found.

    Raises CorruptIndexError for an index that can no longer be told from the index of the segment's successor.
    """

    def __init__(self, files: Files, directory: str, names: SegmentNames) -> None:
        self._files = files
        self._directory = directory
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
            raise CorruptIndexError(f"{path} went away") from error
        # An index leaves after its log and comes after its log, so it is that of the log file which is there now.
        if self.was_replaced():
            file.close()
            raise CorruptIndexError(f"{path}: the log file beside it is another one now")
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
    except CorruptIndexError as error:
        if any(was_replaced(segment) for segment in segments):
            raise SourceChangedError(f"{error}: a server is at work") from error
        raise CorruptSourceError(str(error)) from error


def complete_txn_indexes(producers: ProducerStates, segments: list[LogSegment], up_to: int = OFFSET_MAX) -> None:
    """Replay a log (see `replayed`), and give its transaction indexes, in memory, the entries that they lack.

    Raises:
        CorruptRecordError: Something there is no batch. What lies before it counts.
        CorruptIndexError: An index makes no sense, and the replay does not tell all that was in it.
    """
    begins = producers.end_offset
    found: dict[int, dict[int, AbortedTxn]] = {
        segment.base_offset: {} for segment in segments if segment.base_offset >= begins
    }
    try:
        for segment, txn in replayed(producers, segments, up_to):
            found.setdefault(segment.base_offset, {})[txn.last_offset] = txn
    finally:
        for segment in segments:
            if (own := found.get(segment.base_offset)) is not None:
                _add(segment, own, is_all=begins <= segment.base_offset < up_to)


def _add(segment: LogSegment, txns: Mapping[int, AbortedTxn], *, is_all: bool) -> None:
    """Put these, by their last offsets, into a segment's index, in memory; `is_all` if it can have no others."""
    index = segment.txn_index
    try:
        known = {txn.last_offset: txn for txn in index.entries()}
    except CorruptIndexError:
        if not is_all:
            raise
        known = {}
    if known.keys() >= txns.keys() and known:
        return
    index.reset()
    for _, txn in sorted((known | dict(txns)).items()):
        index.append(txn)


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
