"""What the names in a partition's directory say at one moment: which segments the log has, and where their files are.

The rules are those of a start (`storage.logs.swap.outcome`), taken as done: whoever is at work in the directory, or has died at
work, a reader need not wait.

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
"""

from __future__ import annotations

from collections.abc import Mapping
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


def look(files: Files, directory: str, *, from_offset: int = 0) -> list[SegmentNames]:
    """The segments that a directory has now, in order.

    Args:
        from_offset: Only the one that holds this offset, and those behind it; nothing is asked of the others.

    Raises:
        FileNotFoundError: It changes while it is looked at, or is not there.
        CorruptSourceError: The new segment of a swap is not batches to its end.
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
    first = max((each.base_offset for each in logs.values() if each.base_offset <= from_offset), default=0)
    for name, parsed in sorted(logs.items()):
        if parsed.base_offset < first:
            continue
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


def first_base_offset(files: Files, directory: str) -> int:
    """Where the first segment of a directory begins, by its names alone; 0 if there is none."""
    parsed = (paths.parse_segment_name(name) for name in files.list(directory))
    logs = [each for each in parsed if each and each.kind == paths.LOG and each.suffix in ("", paths.SWAP)]
    return min((each.base_offset for each in logs), default=0)


def topic_id_in(files: Files, directory: str) -> bytes | None:
    """The topic whose directory it is; None if that is not known. A topic made anew takes the name of a deleted one."""
    with suppress(CorruptCheckpointError):
        return read_partition_metadata(files, directory)
    return None
