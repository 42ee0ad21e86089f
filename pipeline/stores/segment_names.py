"""Interpretation of the names in a partition's directory at one moment: the log's segments, and their files.

The rules are those of a start (`storage.logs.swap.outcome`), without changing anything. So a reader need not wait for another
process in the directory, or for repair after a crash.

    at work                files in addition to segments with their final names        and it is read as
    an append, a roll      a new .log without indexes                                  computed from the log
    a pass, an install     .cleaned                                                    nothing
    a swap, its step 1     .swap next to .cleaned                                      nothing
                           .log.swap, all old ones still there                         replacement of the old ones
    its step 2             .log.swap, old ones deleted one by one, log before indexes  the same
    its step 3             .log with its final name, indexes still .swap               a segment with these indexes
    retention, truncation  .deleted; an index whose log was deleted before             nothing
    a deleted topic        no directory, or that of the recreated topic                SourceChangedError, see `topic_id_in`
    a crash                any of these, until a server starts                         the same
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...protocol.errors import CorruptRecordError
from ...storage.disk import paths
from ...storage.disk.checkpoints import CorruptCheckpointError, read_partition_metadata
from ...storage.disk.files import DamagedFileError, Files
from ...storage.logs.swap import outcome
from ...storage.segment.segment import LogSegment
from ...storage.topics.config import LogConfig
from ..errors import CorruptSourceError

_DIGITS = 20


@dataclass(frozen=True, slots=True)
class SegmentNames:
    """File names of one segment at one moment."""

    base_offset: int
    log: str
    """Name of the log file: the final one, or with `.swap`."""
    indexes: Mapping[str, str]
    """INDEX, TIME_INDEX, TXN_INDEX -> a file's name, if a valid one exists."""
    more_transactions: tuple[str, ...]
    """Transaction indexes of the replaced segments or of the segment itself. Their entries are true for the log in either
    case."""
    identity: int
    """Identity of the log file; see `Files.identity`."""

    @property
    def suffix(self) -> str:
        """Suffix of the log file."""
        return self.log.removeprefix(paths.segment_file_name(self.base_offset, paths.LOG))

    @property
    def is_settled(self) -> bool:
        """Whether all its files have their final names."""
        return not self.suffix and not any(name.endswith(paths.SWAP) for name in self.indexes.values())


def list_segments(files: Files, directory: str) -> list[SegmentNames]:
    """Return the segments that a directory has now, in order.

    Raises:
        FileNotFoundError: It changes during the look, or does not exist.
        CorruptSourceError: The new segment of a swap does not consist of batches to its end.
    """

    def next_offset_of(base_offset: int, suffix: str) -> int:
        segment = LogSegment.open(files, directory, base_offset, LogConfig(), 0, suffix)
        try:
            return segment.next_offset()
        except DamagedFileError:
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


def settled_logs(names: Sequence[str]) -> list[str]:
    """Return the names of log files, in order like the names of the directory; none if a swap is in progress."""
    if paths.SWAP in "\n".join(names):
        return []
    return [name for name in names if name[_DIGITS:] == paths.LOG and name[:_DIGITS].isdecimal()]


def topic_id_in(files: Files, directory: str) -> bytes | None:
    """Return the id of the directory's topic; None if unknown. A recreated topic takes the name of the deleted one."""
    with suppress(CorruptCheckpointError):
        return read_partition_metadata(files, directory)
    return None
