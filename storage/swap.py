"""How cleaned segments take the place of the segments they were made from, and how a half-done swap is finished.

`Log.prepare_swap` runs `swap_files` in a worker thread; `recovery.load_log` runs `finish_swaps` before anything
else looks at the directory. Both know only names: the segment list is the log's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import paths
from .files import Files
from .index import CorruptIndexError
from .segment import LogSegment


def swap_files(
    files: Files, directory: str, new_segments: Sequence[LogSegment], old_segments: Sequence[LogSegment]
) -> None:
    """Put `new_segments` in the place of `old_segments` on disk; a power loss at any moment leaves one or the other.

    Segments 0, 310 and 550 become one; 700 is not touched (`.log` stands for the four files of a segment):

        0. written and synced          0.log.cleaned  0.log          310.log          550.log          700.log
        1. .cleaned -> .swap           0.log.swap     0.log          310.log          550.log          700.log
           sync_dir                    from here on the swap is finished after a crash, before it is undone
        2. old ones -> .deleted        0.log.swap     0.log.deleted  310.log.deleted  550.log.deleted  700.log
           sync_dir                    from here on no old file can come back beside the new one
        3. .swap -> final              0.log          0.log.deleted  310.log.deleted  550.log.deleted  700.log
           sync_dir

    In 2, the producer snapshots of merged-away bases (310, 550) go too: no segment begins there any more.

    Several new segments are renamed from the last to the first, each with its own sync_dir: as long as the first
    one is `.cleaned`, everything is undone.

    The order is Apache Kafka's, which syncs the directory once, at the end. That is enough where directory
    operations reach the disk in order; POSIX promises no order, and any subset of them may be there after a power
    loss. What `tests/storage/test_crash.py` finds on all disks that may be left then, and after recovery:

        sync_dir                      disks    records lost    old files beside the new segment
        at the end only              14 745           5 184    4 608
        after 1 and 3                 2 465               0      768   superseded values come back
        after 2 and 3                 2 472           1 456        0
        after 1, 2 and 3 (here)       1 814               0        0   the power lost in recovery, too

    Args:
        new_segments: In order; their files carry `.cleaned`.
        old_segments: In order; those that the new ones were made from. Their files end up as `.deleted`, still open
            for those who read them; removing them is the caller's business.

    Raises:
        OSError: The disk refused. The directory is in one of the states above; loading the log again sorts it out.
    """
    for segment in new_segments:
        segment.flush()
    for segment in reversed(new_segments):
        segment.change_suffix(paths.CLEANED, paths.SWAP)
        files.sync_dir(directory)
    new_bases = {segment.base_offset for segment in new_segments}
    for segment in old_segments:
        _load_indexes(segment)
        segment.rename_deleted()
        if segment.base_offset not in new_bases:
            snapshot = paths.snapshot_path(directory, segment.base_offset)
            if files.exists(snapshot):
                files.rename(snapshot, snapshot + paths.DELETED)
    files.sync_dir(directory)
    for segment in new_segments:
        segment.change_suffix(paths.SWAP, "")
    files.sync_dir(directory)


def _load_indexes(segment: LogSegment) -> None:
    """Have the indexes in memory before their files go: the owner's thread may be looking something up meanwhile."""
    for index in (segment.offset_index, segment.time_index, segment.txn_index):
        try:
            index.sanity_check()
        except CorruptIndexError:
            index.reset()  # lookups then scan the segment from its start


def finish_swaps(files: Files, directory: str, next_offset_of: Callable[[int], int]) -> list[str]:
    """Clear away what a stop in the midst of cleaning, swapping or deleting left behind.

    What a name's suffix means here:

        suffix      found                                         done
        .deleted    always                                        removed
        .cleaned    always                                        removed: it was not finished
        .swap       beside a .cleaned with a base at or below     removed: the renaming had not come to its end
        .swap       otherwise                                     takes its final name, after every other segment
                                                                  or snapshot file in the range of its offsets is gone
        none                                                      left alone

    Each step is on disk before the next begins, so a power loss in here changes nothing about the outcome.

    Args:
        next_offset_of: Gives the offset after the last record of the segment `<base offset>.log.swap`.

    Returns:
        The names that are in the directory afterwards.

    Source: KAFKA-6264 and Kafka's LogLoader, passes one to three. Kafka leaves old files of the base offset itself
    when the new segment is empty; here they go, or an index of the old segment could end up beside the new log.
    """
    names = files.list(directory)
    segment_files = {name: parsed for name in names if (parsed := paths.parse_segment_name(name))}
    if not any(file.suffix for file in segment_files.values()):
        return names
    cleaned = {name for name, file in segment_files.items() if file.suffix == paths.CLEANED}
    swap = {name for name, file in segment_files.items() if file.suffix == paths.SWAP}
    deleted = {name for name, file in segment_files.items() if file.suffix == paths.DELETED}
    undone = set()
    if cleaned:
        smallest = min(segment_files[name].base_offset for name in cleaned)
        undone = {name for name in swap if segment_files[name].base_offset >= smallest}
    swap -= undone

    ranges = []
    for name in swap:
        base_offset, kind, _ = segment_files[name]
        if kind == paths.LOG:
            ranges.append((base_offset, max(base_offset + 1, next_offset_of(base_offset))))
    replaced = set()
    if ranges:
        start, end = min(first for first, _ in ranges), max(last for _, last in ranges)
        replaced = {name for name, file in segment_files.items() if not file.suffix and start <= file.base_offset < end}

    for step in (undone, cleaned | deleted, replaced):
        for name in step:
            files.remove(paths.join(directory, name))
        if step:
            files.sync_dir(directory)
    for name in sorted(swap):
        files.rename(paths.join(directory, name), paths.join(directory, name.removesuffix(paths.SWAP)))
    if swap:
        files.sync_dir(directory)
    return files.list(directory)
