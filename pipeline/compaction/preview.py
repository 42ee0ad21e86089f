"""A dry run: what a compaction would take out. Nothing is written.

Stage 3 as it is, into files that keep nothing but their sizes: tombstones and markers past their horizon, and aborted
data, show only when the filter has seen them. So the figures are those of the run, and the log is read as often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...storage.disk.files import Buffer, File, Files, WriteAhead
from ..stores.reading_files import ReadingFiles
from .exchange import Blob
from .plan import CompactionPlan
from .rewrite import GroupResult, by_group, write_segment


def preview_groups(plan: CompactionPlan, blobs: Iterable[Blob], *, source_files: Files) -> Iterator[GroupResult]:
    """In the place of stage 3, for the groups of these blobs, of each of which all are here, in any order.

    The results are those of `rewrite_groups`, with no files. Errors as there.
    """
    for group, found in by_group(blobs):
        yield write_segment(plan, group, found, plan.staging, source_files=source_files, files=_Nowhere())


class _SizeOnly:
    """A file that is told what it has, and forgets it."""

    def __init__(self) -> None:
        self._size_bytes = 0

    def append(self, data: Buffer) -> None:
        self._size_bytes += len(data)

    def write_ahead(self, data: memoryview, head_bytes: int) -> WriteAhead:
        raise NotImplementedError

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        raise NotImplementedError

    def drop_ahead(self) -> None: ...

    def truncate(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes

    def size(self) -> int:
        return self._size_bytes

    def read_at(self, position: int, size_bytes: int) -> bytes:
        raise NotImplementedError

    def read_into(self, position: int, buffer: memoryview) -> int:
        raise NotImplementedError

    def read_now(self, position: int, size_bytes: int) -> bytes:
        raise NotImplementedError

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        raise NotImplementedError

    def read_ahead(self, position: int, size_bytes: int) -> None:
        raise NotImplementedError

    def mtime_ms(self) -> int:
        raise NotImplementedError

    def fileno(self) -> int:
        raise NotImplementedError

    def preallocate(self, size_bytes: int) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class _Nowhere(ReadingFiles):
    """Files that are made and written, and are not there."""

    def __init__(self) -> None:
        self._files: dict[str, _SizeOnly] = {}

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:  # type: ignore[override]
        return self._files.setdefault(path, _SizeOnly())

    def exists(self, path: str) -> bool:
        return False

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def sync_dir(self, path: str) -> None: ...
