"""New segments that no log has yet: their files carry `.cleaned`, and a start removes whatever carries that.

The cleaner, a split and an install make them; `logs.swap` gives them their final names. Here is what else becomes of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ..disk import paths
from ..disk.files import Files
from .segment import LogSegment


def set_mtime(segment: LogSegment, mtime_ms: int) -> None:
    """Make a new segment as old as its data: retention looks at that where records have no timestamps."""
    files = segment.files
    for path in segment.file_paths():
        if files.exists(path):
            files.set_mtime_ms(path, mtime_ms)


def discard_cleaned(files: Files, directory: str) -> None:
    """Remove every `.cleaned` file: what a pass, a split or an install that failed has left. None of them may be at work.

    Nothing is synced: the swap that comes next syncs the directory before it renames anything. Where a swap was cut off,
    which a `.swap` tells, nothing is touched: there a `.cleaned` may say that it is to be undone.

    Raises:
        OSError: The disk refused.
    """
    names = files.list(directory)
    if not any(name.endswith(paths.SWAP) for name in names):
        for name in names:
            if name.endswith(paths.CLEANED) and paths.parse_segment_name(name):
                files.remove(paths.join(directory, name))


def discard(files: Files, directory: str, new_segments: Iterable[LogSegment]) -> None:
    """Leave nothing of segments that will not be swapped in: close them, and discard all `.cleaned` files.

    For the way out of something that has failed, so it raises no OSError. What the disk would not remove is left to the
    next pass or start; it does no harm there.
    """
    for segment in new_segments:
        segment.log_file.close()
    with suppress(OSError):
        discard_cleaned(files, directory)
