"""A directory that changes while it is read: every access finds it some steps later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.pipeline.stores.reading_files import ReadingFiles
from ottla.storage.disk.files import File
from support.disk.crash_files import CrashFiles


def moments(files: CrashFiles, work: Callable[[], object]) -> list[CrashFiles]:
    """Return the disk before each operation of `work`, and after the last one."""
    found: list[CrashFiles] = []
    files.before_step = lambda: found.append(files.copy())
    try:
        work()
    finally:
        files.before_step = None
    return [*found, files.copy()]


class MovingFiles(ReadingFiles):
    """A disk as it was at successive moments; open files keep their content.

    Attributes:
        looks: How often the disk was accessed.
    """

    def __init__(self, found: Sequence[CrashFiles], moment_of_look: Callable[[int], int]) -> None:
        """Make the disk from its moments.

        Args:
            moment_of_look: The number of an access, from 0 on -> the index of the disk that it finds; beyond the end, the last.
        """
        super().__init__()
        self._moments = found
        self._moment_of_look = moment_of_look
        self.looks = 0

    def _now(self) -> CrashFiles:
        moment = min(self._moment_of_look(self.looks), len(self._moments) - 1)
        self.looks += 1
        return self._moments[moment]

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:  # type: ignore[override]
        if create or truncate:
            self._refuse(path)
        return self._now().open(path)

    def list(self, directory: str) -> list[str]:
        return self._now().list(directory)

    def exists(self, path: str) -> bool:
        return self._now().exists(path)

    def is_dir(self, path: str) -> bool:
        return self._now().is_dir(path)

    def is_file(self, path: str) -> bool:
        return self._now().is_file(path)

    def size(self, path: str) -> int:
        return self._now().size(path)

    def identity(self, path: str) -> int:
        # Each moment is a copy of the disk: only the content of a file shows that it is a different one.
        disk = self._now()
        return hash(disk.open(path).read_at(0, disk.size(path)))

    def mtime_ms(self, path: str) -> int:
        return self._now().mtime_ms(path)
