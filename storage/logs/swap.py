"""Swap of cleaned segments for the segments they were made from, and the completion of one that was interrupted.

`Log.prepare_swap` runs `swap_files` in a worker thread; `recovery.load_log` runs `finish_swaps` before anything else reads
the directory. Both change only names; the log changes its segment list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...protocol.errors import CorruptRecordError
from ..disk import paths
from ..disk.files import Files
from ..segment.segment import LogSegment
from . import record_counts

NextOffsetOf = Callable[[int, str], int]
"""Base offset and suffix of a segment -> the offset after its last record, for `finish_swaps`."""


def swap_files(
    files: Files, directory: str, new_segments: Sequence[LogSegment], old_segments: Sequence[LogSegment]
) -> None:
    """Replace `old_segments` by `new_segments` on disk; a power loss at any moment leaves one or the other.

    Segments 0, 310 and 550 become one; 700 is not touched (`.log` stands for the four files of a segment):

        0. written and synced          0.log.cleaned  0.log          310.log          550.log          700.log
        1. .cleaned -> .swap           0.log.swap     0.log          310.log          550.log          700.log
           sync_dir                    from here on the swap is finished after a crash, before it is undone
        2. old ones -> .deleted        0.log.swap     0.log.deleted  310.log.deleted  550.log.deleted  700.log
           sync_dir                    from here on no old file can come back next to the new one
                                       (a start does not remove one that begins after the new segment's last
                                       offset: each of these is gone from the disk before the next, log before indexes)
        3. .swap -> final              0.log          0.log.deleted  310.log.deleted  550.log.deleted  700.log
           sync_dir

    In 2, the producer snapshots of merged-away bases (310, 550) are renamed also: no segment begins there any more.

    Several new segments are renamed from the last to the first, each with its own sync_dir: as long as the first
    one is `.cleaned`, everything is undone. They come from one old segment, by which a start knows that they belong
    together: an unrelated `.cleaned` undoes nothing.

    The order is Apache Kafka's, which syncs the directory once, at the end. That is enough where directory
    operations reach the disk in order; POSIX promises no order, and any subset of them may be there after a power
    loss. The table counts all states of the disk that a power loss in two passes in a row may leave, and those that are wrong
    (`tests/support/lives/crash_lives.py`):

        sync_dir                      disks    wrong
        at the end only              21 973   14 458   records are lost, or superseded ones come back
        after 1 and 3                18 704    6 196   old segments next to the new one
        after 2 and 3                18 733   13 720   records are lost
        after 1 and 2                13 050        0   but 1 832 of them lose records where Apache Kafka is started, which
                                                       lets the next pass's `.cleaned` undo a swap that was finished
        after 1, 2 and 3 (here)       5 910        0   also if power fails again during recovery

    Args:
        new_segments: The new segments, in order; their files have the suffix `.cleaned`.
        old_segments: The segments that the new ones were made from, in order. Their files get the suffix `.deleted`, and
            stay open for readers; the caller removes them.

    Raises:
        OSError: The disk refused. After this, and any other exception, the directory is in one of the states above: in
            the first unless `is_begun`. Loading the log again finishes or undoes the swap.
    """
    for segment in new_segments:
        segment.flush()
    for segment in old_segments:
        segment.load_indexes()
    record_counts.remove(files, directory)  # on disk with the first sync_dir, before any segment goes
    for segment in reversed(new_segments):
        segment.change_suffix(paths.CLEANED, paths.SWAP)
        files.sync_dir(directory)
    new_bases = {segment.base_offset for segment in new_segments}
    new_end = max(new_segments[-1].next_offset(), new_segments[-1].base_offset + 1)
    for segment in old_segments:
        # A value must not outlive its tombstone, nor aborted records their index entry.
        segment.rename_deleted(log_first=segment.base_offset >= new_end)
        if segment.base_offset not in new_bases:
            snapshot = paths.snapshot_path(directory, segment.base_offset)
            if files.exists(snapshot):
                files.rename(snapshot, snapshot + paths.DELETED)
    files.sync_dir(directory)
    _take_final_names(files, directory, new_segments)


def _take_final_names(files: Files, directory: str, new_segments: Iterable[LogSegment]) -> None:
    for segment in new_segments:
        segment.change_suffix(paths.SWAP, "")
    files.sync_dir(directory)


def is_begun(new_segments: Iterable[LogSegment]) -> bool:
    """Whether `swap_files` has begun to rename these. From then on only a start may undo or finish the swap."""
    return any(segment.suffix != paths.CLEANED for segment in new_segments)


def finish_swaps(files: Files, directory: str, next_offset_of: NextOffsetOf) -> list[str]:
    """Remove or complete what a stop during cleaning, splitting, swapping or deleting has left.

    Treatment of each suffix:

        suffix        found                                         done
        .deleted      always                                        removed
        .cleaned      always                                        removed: it was not finished
        .swap         next to a .cleaned of its base, or of a lower removed: the renaming was not finished
                      one if one old segment holds both
        .log.swap     otherwise                                     takes its final name, after all that it replaces
                                                                    is gone: segments that begin in the range of its
                                                                    offsets, and one before it that reaches into them
        .index.swap   next to the .log.swap of its base             removed, and so are index files of that base with
        and the like                                                their final names: they may be the old segment's as
                                                                    well as the new one's. The loader rebuilds them
        .index.swap   otherwise                                     take their final names: the log file has its own
        and the like                                                already, so the old segments are gone
        none          otherwise                                     left alone

    Each step is on disk before the next begins, so a power loss during this call does not change the result.

    Args:
        next_offset_of: Returns the offset after the last record of the segment with that base offset and suffix;
            CorruptRecordError if its file contains anything but batches.

    Returns:
        The names that are in the directory afterwards.

    Source: KAFKA-6264 and Kafka's LogLoader, passes one to three. Those undo a .swap for any .cleaned at or below it, even
    if a failed pass left that .cleaned and the segments that the .swap replaces are already gone. They also take one range
    from the first to the last segment of a swap. If a split made three segments and only the second has its final name,
    that deletes the second. And a segment stays next to the new ones if none of them has its base.
    """
    names = files.list(directory)
    found = outcome(names, next_offset_of)
    for step in found.removed:
        for name in sorted(step):
            files.remove(paths.join(directory, name))
        if step:
            files.sync_dir(directory)
    for name in sorted(found.renamed):
        files.rename(paths.join(directory, name), paths.join(directory, name.removesuffix(paths.SWAP)))
    if found.renamed:
        files.sync_dir(directory)
    return files.list(directory) if found.renamed or any(found.removed) else names


class SwapOutcome(NamedTuple):
    """Changes that `finish_swaps` makes to a directory."""

    removed: tuple[Collection[str], ...] = ()
    """Names that are removed, by step."""
    renamed: Collection[str] = ()
    """Names with `.swap` that get their final names after that."""


def outcome(names: Iterable[str], next_offset_of: NextOffsetOf) -> SwapOutcome:
    """Compute the changes that `finish_swaps` makes for these names. A tool that only reads treats them as done.

    Errors are those of `next_offset_of`.
    """
    segment_files = {name: parsed for name in names if (parsed := paths.parse_segment_name(name))}
    if not any(file.suffix for file in segment_files.values()):
        return SwapOutcome()
    cleaned = {name for name, file in segment_files.items() if file.suffix == paths.CLEANED}
    swap = {name for name, file in segment_files.items() if file.suffix == paths.SWAP}
    deleted = {name for name, file in segment_files.items() if file.suffix == paths.DELETED}
    final = {name: file for name, file in segment_files.items() if not file.suffix}
    undone: set[str] = set()
    if swap:
        old_bases = sorted(file.base_offset for file in final.values() if file.kind == paths.LOG)
        bases = {segment_files[name].base_offset for name in cleaned}
        spans = [_span(base, old_bases, next_offset_of) for base in bases]
        undone = {name for name in swap if any(segment_files[name].base_offset in span for span in spans)}
    swap -= undone

    unfinished = sorted(segment_files[name].base_offset for name in swap if segment_files[name].kind == paths.LOG)
    doubtful = {name for name in swap if segment_files[name].base_offset in unfinished} - {
        paths.segment_file_name(base_offset, paths.LOG, paths.SWAP) for base_offset in unfinished
    }
    replaced: set[str] = set()
    for base_offset in unfinished:
        end = max(base_offset + 1, next_offset_of(base_offset, paths.SWAP))
        replaced |= {name for name, file in final.items() if base_offset <= file.base_offset < end}
    if (source := _segment_that_reaches(unfinished, final.values(), next_offset_of)) is not None:
        replaced |= {name for name, file in final.items() if file.base_offset == source}
    return SwapOutcome((undone, cleaned | deleted, replaced | doubtful), swap - doubtful)


def _span(cleaned: int, old_bases: Sequence[int], next_offset_of: NextOffsetOf) -> range:
    """Return the bases that segments made together with a `.cleaned` may have: from its own to the end of the old segment."""
    end = cleaned
    if at := bisect_right(old_bases, cleaned):
        with suppress(CorruptRecordError):  # a damaged one was not split
            end = next_offset_of(old_bases[at - 1], "")
    return range(cleaned, max(end, cleaned + 1))


def _segment_that_reaches(
    unfinished: Sequence[int], final: Iterable[paths.SegmentFile], next_offset_of: NextOffsetOf
) -> int | None:
    """Return the segment before the first unfinished one, if its offsets reach into that: the new ones were split off it."""
    before = [
        file.base_offset for file in final if file.kind == paths.LOG and file.base_offset < min(unfinished, default=0)
    ]
    if before:
        with suppress(CorruptRecordError):  # a damaged one was not split
            if next_offset_of(max(before), "") > min(unfinished):
                return max(before)
    return None
