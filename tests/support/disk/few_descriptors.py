"""A disk without free descriptors: a sync is refused, but the log is not offline."""

from __future__ import annotations

import errno

from support.disk.crash_files import CrashFiles


class FewDescriptors(CrashFiles):
    """A disk on which, while `is_short`, no partition's directory can be opened to sync it."""

    is_short = False

    def sync_dir(self, path: str) -> None:
        if self.is_short and path.endswith("-0"):
            raise OSError(errno.EMFILE, "Too many open files", path)
        super().sync_dir(path)
