"""Operations on new segments that are in no log yet: their files have the suffix `.cleaned`, and a start removes such files.

The cleaner, a split and an install make them; `logs.swap` gives them their final names.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ..disk import paths
from ..disk.files import Files
from .segment import LogSegment


def set_mtime(segment: LogSegment, mtime_ms: int) -> None:
    """Set the modification time of a new segment to that of its data, which retention uses if records have no timestamps."""
    files = segment.files
    for path in segment.file_paths():
        if files.exists(path):
            files.set_mtime_ms(path, mtime_ms)


def discard_cleaned(files: Files, directory: str) -> None:
    """Remove every `.cleaned` file that a failed pass, split or install has left. None of these may be running.

    Nothing is synced: the next swap syncs the directory before it renames anything. If a `.swap` file shows that a swap was
    interrupted, nothing is removed: a `.cleaned` file may mean that the swap must be undone.

    Raises:
        OSError: The disk refused.
    """
    names = files.list(directory)
    if not any(name.endswith(paths.SWAP) for name in names):
        for name in names:
            if name.endswith(paths.CLEANED) and paths.parse_segment_name(name):
                files.remove(paths.join(directory, name))


def discard(files: Files, directory: str, new_segments: Iterable[LogSegment]) -> None:
    """Close segments that will not be swapped in, and discard all `.cleaned` files.

    For error handling, so it raises no OSError. Files that cannot be removed do no harm; the next pass or start removes
    them.
    """
    for segment in new_segments:
        segment.log_file.close()
    with suppress(OSError):
        discard_cleaned(files, directory)
