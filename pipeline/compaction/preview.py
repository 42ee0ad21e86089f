"""A dry run: what a compaction would take out. Nothing is written.

Stage 3 as it is, into files that keep nothing but their sizes: tombstones and markers past their horizon, and aborted
data, show only when the filter has seen them. So the figures are those of the run, and the log is read as often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...storage.disk.files import File, Files
from ...storage.disk.size_only import SizeOnlyFile
from ..stores.reading_files import ReadingFiles
from .exchange import Blob
from .group_results import GroupResult
from .plan import CompactionPlan
from .rewrite import by_group, write_segment


def preview_groups(plan: CompactionPlan, blobs: Iterable[Blob], *, source_files: Files) -> Iterator[GroupResult]:
    """In the place of stage 3, for the groups of these blobs, of each of which all are here, in any order.

    The results are those of `rewrite_groups`, with no files. Errors as there.
    """
    for group, found in by_group(blobs):
        yield write_segment(plan, group, found, plan.staging, source_files=source_files, files=_Nowhere())


class _Nowhere(ReadingFiles):
    """Files that are made and written, and are not there."""

    def __init__(self) -> None:
        self._files: dict[str, SizeOnlyFile] = {}

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:  # type: ignore[override]
        return self._files.setdefault(path, SizeOnlyFile())

    def exists(self, path: str) -> bool:
        return False

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def sync_dir(self, path: str) -> None: ...
