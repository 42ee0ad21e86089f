"""Lock files of the operating system, of the same kind as Apache Kafka's."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading

from .own_files import open_file

# POSIX locks belong to the process: it may take one twice, and loses it when it closes *any* descriptor of that file.
# So this process has its own list, and checks it before it opens the file.
_held_lock_paths: set[str] = set()
_held_lock_guard = threading.Lock()


class OsLock:
    """A held lock file, of the kind that the JVM uses (`fcntl`, whole file)."""

    def __init__(self, path: str) -> None:
        above, name = os.path.split(path)
        self._path = os.path.join(os.path.realpath(above), name)
        with _held_lock_guard:
            if self._path in _held_lock_paths:
                raise BlockingIOError(f"{path} is held by another broker of this process")
            self._descriptor = open_file(self._path, create=True)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = _holder(self._descriptor)
                os.close(self._descriptor)
                if error.errno in (errno.EACCES, errno.EAGAIN):  # POSIX allows either for "taken"
                    raise BlockingIOError(f"{path} is held by another process{holder}") from None
                raise
            _held_lock_paths.add(self._path)

    def release(self) -> None:
        with _held_lock_guard:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
                _held_lock_paths.discard(self._path)


_NAME_BYTES_MAX = 64
_LINUX_FLOCK = struct.Struct("@hhqqi4x")
"""`struct flock`: type, whence, start, length, process ID; other systems have another order."""


def _holder(descriptor: int) -> str:
    """Describe the process that holds a lock file, as ` (PID 123, python3)`; empty if unknown.

    Its arguments are left out, as they may contain a password.
    """
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        return ""
    try:
        asked = _LINUX_FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        pid = _LINUX_FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[4]
        if pid <= 0:  # released since, or held by another container or machine
            return ""
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = file.read(_NAME_BYTES_MAX).decode(errors="replace")
    except (OSError, struct.error):
        return ""
    # A process may give itself any name, and a message goes to a terminal.
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in name.removesuffix("\n"))
    return f" (PID {pid}, {shown})"
