"""`Files` for a directory that goes with the process: nothing is made to survive a power loss.

All else is as with `OsFiles`. What another process, or the next life of a broker in this one, finds is the same: the
system has it.
"""

from __future__ import annotations

from .os_files import OsFile, OsFiles


class UnsyncedFile(OsFile):
    """An `OsFile` that is not synced."""

    __slots__ = ()

    def sync(self) -> None:
        self.fileno()  # a closed file is refused as ever


class UnsyncedFiles(OsFiles):
    """See the module."""

    file_type = UnsyncedFile

    def sync_dir(self, path: str) -> None:
        pass
