"""A slow disk, and a page cache that knows which pages it does not hold."""

from __future__ import annotations

import os
import threading
from functools import partial

from ottla.storage.disk.files import WouldWaitError
from ottla.storage.disk.os_files import OsFile, OsFiles

PAGE_BYTES = 4096
PATIENCE_S = 45


class ColdFile(OsFile):
    """A file whose reads wait for the disk where its pages are cold."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: ColdFiles, path: str, descriptor: int) -> None:
        super().__init__(descriptor)
        self._files, self._path = files, path

    def read_at(self, position: int, size_bytes: int) -> bytes:
        size_bytes = max(0, min(size_bytes, self.size() - position))
        self._files.bring(self._path, position, size_bytes)
        return super().read_at(position, size_bytes)

    def read_into(self, position: int, buffer: memoryview) -> int:
        self._files.bring(self._path, position, len(buffer))
        return super().read_into(position, buffer)

    def read_now(self, position: int, size_bytes: int) -> bytes:
        size_bytes = max(0, min(size_bytes, self.size() - position))
        if self.cached_bytes(position, size_bytes) < size_bytes:
            raise WouldWaitError(partial(self.read_ahead, position, size_bytes))
        return super().read_at(position, size_bytes)

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        cold = self._files.cold_pages(self._path, position, size_bytes)
        return min(size_bytes, max(0, cold[0] * PAGE_BYTES - position)) if cold else size_bytes

    def read_ahead(self, position: int, size_bytes: int) -> None:
        self._files.bring(self._path, position, size_bytes)


class ColdFiles(OsFiles):
    """`OsFiles` on a disk that delivers nothing while it `hangs`."""

    def __init__(self) -> None:
        self.held: list[str] = []
        """Files for which the thread that created this waited."""
        self._asked = threading.Semaphore(0)
        self._thread = threading.get_ident()
        self._cold: set[str] = set()
        self._from_page = 0
        self._warm: set[tuple[str, int]] = set()
        self._works = threading.Event()
        self._works.set()

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        flags = os.O_RDWR | (os.O_CREAT if create else 0) | (os.O_TRUNC if truncate else 0)
        return ColdFile(self, path, os.open(path, flags, 0o644))

    def evict(self, *at: str, from_page: int = 0) -> None:
        """Evict all pages from a page number on, of all files that have one of `at` in their paths."""
        self._cold, self._from_page = set(at), from_page
        self._warm.clear()

    def hang(self) -> None:
        self._works.clear()

    @property
    def has_been_asked(self) -> bool:
        """Return whether any thread except the creating one has waited for the disk."""
        return self._asked.acquire(blocking=False)

    def wait_until_asked(self) -> None:
        """Wait until another thread waits for the disk; each time counts once."""
        assert self._asked.acquire(timeout=PATIENCE_S), "nobody waits for the disk but the thread that must not"

    def go_on(self) -> None:
        self._works.set()

    def cold_pages(self, path: str, position: int, size_bytes: int) -> list[int]:
        if size_bytes <= 0 or not any(at in path for at in self._cold):
            return []
        pages = range(max(self._from_page, position // PAGE_BYTES), (position + size_bytes - 1) // PAGE_BYTES + 1)
        return [page for page in pages if (path, page) not in self._warm]

    def bring(self, path: str, position: int, size_bytes: int) -> None:
        """Wait for the disk, if these bytes are not in the page cache."""
        cold = self.cold_pages(path, position, size_bytes)
        if not cold:
            return
        if threading.get_ident() == self._thread:
            self.held.append(path)
        else:
            self._asked.release()
            assert self._works.wait(PATIENCE_S), "the disk hangs for ever"
        self._warm.update((path, page) for page in cold)
