"""Disk faults: a disk that is full, slow or failed because of a declared fault.

`DiskFiles` are the operating system's files. Each data directory has a class for its open files, which is empty without
faults, so no operation is slower. With a fault, the class gets methods that refuse or wait, also for files that are
open already.

    full     operations that need space are refused (ENOSPC): appends, new files, reserved space
    slow     operations that wait for the disk wait longer: syncs, and reads of data that is not in memory. At first none
             is; data that was waited for once is. Trio's thread never waits.
    failed   every operation is refused (EIO). The broker takes the data directory offline at the first error of a log,
             until the next start, even if the fault ends before. A response in progress ends with its connection.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

import trio

from ...storage.disk.files import Buffer, Files, SyncError, WouldWaitError, WriteAhead
from ...storage.disk.os_files import OsFile, OsFiles, UnsyncedFiles, open_descriptor
from .table import DeclaredFault, Faults

WARM_MAX = 10_000
"""Maximum number of remembered reads of a slow disk; beyond it all are forgotten."""

Methods = dict[str, Callable[..., Any]]


class Disk:
    """One data directory. Faults start and end on Trio's thread, and take effect on any thread."""

    def __init__(self, files: OsFiles) -> None:
        self.sound = files.file_type
        """The class of files without faults."""
        self.file_class: type[OsFile] = type("DiskFile", (self.sound,), {"__slots__": ()})
        self.troubles: dict[str, DeclaredFault] = {}
        """Faults by kind."""
        self._is_quick = threading.Event()
        self._warm: set[tuple[int, int]] = set()
        self._trio_thread = 0
        self._token: trio.lowlevel.TrioToken | None = None

    def set_faults(self, faults: Sequence[DeclaredFault]) -> None:
        """Put these faults into effect, and end all others."""
        for name in _FULL.keys() | _SLOW.keys() | _FAILED.keys():
            if name in vars(self.file_class):
                delattr(self.file_class, name)
        self._warm.clear()
        self.troubles = {fault.declaration.disk: fault for fault in reversed(faults) if fault.declaration.disk}
        # In this order: a thread that finds the new event finds the new faults also; other threads are woken.
        before, self._is_quick = self._is_quick, threading.Event()
        before.set()
        if self.troubles:
            self._trio_thread = threading.get_ident()
            self._token = trio.lowlevel.current_trio_token()
        # Of several faults the most severe applies.
        for trouble, methods in (("slow", _SLOW), ("full", _FULL), ("failed", _FAILED)):
            if trouble in self.troubles:
                for name, method in methods.items():
                    setattr(self.file_class, name, _bound(method, self))

    def refuse(self, trouble: str, error: type[OSError] = OSError) -> NoReturn:
        """Raise the error of a full or a failed disk."""
        self._hit(trouble)
        number = errno.ENOSPC if trouble == "full" else errno.EIO
        raise error(number, os.strerror(number))

    def refuse_if_failed(self) -> None:
        if "failed" in self.troubles:
            self.refuse("failed")

    def refuse_if_there_is_no_room(self) -> None:
        self.refuse_if_failed()
        if "full" in self.troubles:
            self.refuse("full")

    def wait(self) -> None:
        """Wait for the extra time of a slow disk; return early once it is no longer slow. Trio's thread does not wait."""
        is_quick = self._is_quick
        fault = self.troubles.get("slow")
        if fault is None or threading.get_ident() == self._trio_thread:
            return
        self._hit("slow")
        is_quick.wait(fault.declaration.delay_ms / 1000)

    def is_cold(self, file: OsFile, position: int) -> bool:
        return (file.fileno(), position) not in self._warm

    def warm(self, file: OsFile, position: int) -> None:
        """Wait, and count these bytes as in memory from now on."""
        self.wait()
        if len(self._warm) >= WARM_MAX:
            self._warm.clear()
        self._warm.add((file.fileno(), position))

    def _hit(self, trouble: str) -> None:
        fault, token = self.troubles.get(trouble), self._token
        if fault is None or token is None:
            return
        if threading.get_ident() == self._trio_thread:
            fault.hit()
        else:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(fault.hit)


def _bound(method: Callable[..., Any], disk: Disk) -> Callable[..., Any]:
    def call(file: OsFile, *arguments: Any) -> Any:
        return method(disk, file, *arguments)

    return call


# Full


def _refuse_append(disk: Disk, file: OsFile, _data: Buffer) -> None:
    with suppress(OSError):
        file.drop_ahead()
    disk.refuse("full")


def _refuse_ahead(disk: Disk, file: OsFile, _ahead: WriteAhead, _head: Buffer) -> None:
    with suppress(OSError):
        file.drop_ahead()
    disk.refuse("full")


def _refuse_space(disk: Disk, file: OsFile, size_bytes: int) -> None:
    if size_bytes > file.size():
        disk.refuse("full")


_FULL: Methods = {"append": _refuse_append, "append_ahead": _refuse_ahead, "preallocate": _refuse_space}


# Slow


def _sync_late(disk: Disk, file: OsFile) -> None:
    disk.wait()
    disk.sound.sync(file)


def _read_late(disk: Disk, file: OsFile, position: int, size_bytes: int) -> bytes:
    if disk.is_cold(file, position):
        disk.warm(file, position)
    return disk.sound.read_at(file, position, size_bytes)


def _read_into_late(disk: Disk, file: OsFile, position: int, buffer: memoryview) -> int:
    if disk.is_cold(file, position):
        disk.warm(file, position)
    return disk.sound.read_into(file, position, buffer)


def _read_later(disk: Disk, file: OsFile, position: int, size_bytes: int) -> Buffer:
    if disk.is_cold(file, position):
        raise WouldWaitError(partial(disk.warm, file, position))
    return disk.sound.read_now(file, position, size_bytes)


def _cached_later(disk: Disk, file: OsFile, position: int, size_bytes: int) -> int:
    return 0 if disk.is_cold(file, position) else disk.sound.cached_bytes(file, position, size_bytes)


def _read_ahead_late(disk: Disk, file: OsFile, position: int, size_bytes: int) -> None:
    disk.warm(file, position)
    disk.sound.read_ahead(file, position, size_bytes)


_SLOW: Methods = {
    "sync": _sync_late,
    "read_at": _read_late,
    "read_into": _read_into_late,
    "read_now": _read_later,
    "cached_bytes": _cached_later,
    "read_ahead": _read_ahead_late,
}


# Failed


def _fail(disk: Disk, _file: OsFile, *_arguments: Any) -> NoReturn:
    disk.refuse("failed")


def _fail_append(disk: Disk, file: OsFile, *_arguments: Any) -> NoReturn:
    with suppress(OSError):
        disk.sound.drop_ahead(file)
    disk.refuse("failed")


def _fail_sync(disk: Disk, _file: OsFile) -> NoReturn:
    disk.refuse("failed", SyncError)


_FAILED: Methods = {
    "append": _fail_append,
    "append_ahead": _fail_append,
    "sync": _fail_sync,
    "write_ahead": _fail,
    "read_at": _fail,
    "read_into": _fail,
    "read_now": _fail,
    "cached_bytes": _fail,
    "read_ahead": _fail,
    "truncate": _fail,
    "preallocate": _fail,
}


def with_faults(files: Files, data_dirs: Sequence[str]) -> Files:
    """Return `files` with support for disk faults if they are the operating system's, else `files` unchanged."""
    return DiskFiles(files, data_dirs) if type(files) in (OsFiles, UnsyncedFiles) else files  # type: ignore[arg-type]


class DiskFiles(OsFiles):
    """Files with support for disk faults.

    Args:
        files: The files without faults.
        data_dirs: Each has a disk of its own; other paths have no faults.
    """

    def __init__(self, files: OsFiles, data_dirs: Sequence[str]) -> None:
        self.data_dirs = tuple(data_dirs)
        self._files = files
        self._disks = {os.path.join(directory, ""): Disk(files) for directory in data_dirs}

    def set_faults(self, faults: Faults) -> None:
        """Put the declared disk faults into effect, and end all others."""
        active = [fault for fault in faults.active() if fault.declaration.disk is not None]
        for directory, disk in zip(self.data_dirs, self._disks.values(), strict=True):
            its = [fault for fault in active if fault.declaration.data_dir in (None, directory)]
            if its or disk.troubles:
                disk.set_faults(its)

    def _disk(self, path: str) -> Disk | None:
        """Return the disk of a path, if it has a fault."""
        for directory, disk in self._disks.items():
            if disk.troubles and (path.startswith(directory) or path == directory[:-1]):
                return disk
        return None

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        of_path = next((disk for directory, disk in self._disks.items() if path.startswith(directory)), None)
        if of_path is None:
            return self._files.open(path, create=create, truncate=truncate)
        of_path.refuse_if_failed()
        if create and not os.path.exists(path):
            of_path.refuse_if_there_is_no_room()
        return of_path.file_class(open_descriptor(path, create=create, truncate=truncate))

    def rename(self, old: str, new: str) -> None:
        self._refuse_if_failed(old)
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._refuse_if_failed(path)
        super().remove(path)

    def link(self, old: str, new: str) -> None:
        self._refuse_if_failed(old)
        super().link(old, new)

    def list(self, directory: str) -> list[str]:
        self._refuse_if_failed(directory)
        return super().list(directory)

    def make_dir(self, path: str, *, mode: int | None = None) -> None:
        if (disk := self._disk(path)) is not None and not os.path.isdir(path):
            disk.refuse_if_there_is_no_room()
        super().make_dir(path, mode=mode)

    def remove_dir(self, path: str) -> None:
        self._refuse_if_failed(path)
        super().remove_dir(path)

    def sync_dir(self, path: str) -> None:
        if (disk := self._disk(path)) is not None:
            if "failed" in disk.troubles:
                disk.refuse("failed", SyncError)
            disk.wait()
        self._files.sync_dir(path)

    def disk_total_and_free(self, path: str) -> tuple[int, int]:
        disk = self._disk(path)
        if disk is None:
            return super().disk_total_and_free(path)
        disk.refuse_if_failed()
        total_bytes, free_bytes = super().disk_total_and_free(path)
        return total_bytes, 0 if "full" in disk.troubles else free_bytes

    def _refuse_if_failed(self, path: str) -> None:
        if (disk := self._disk(path)) is not None:
            disk.refuse_if_failed()
