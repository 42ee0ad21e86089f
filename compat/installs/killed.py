"""A process that installs a plan and ends itself, as by `kill -9`, before one of its operations: `killed.py STAGING NUMBER`.

With NUMBER -1 it installs undisturbed, and prints the names of its operations, one a line.
"""

import os
import signal
import sys

from ottla.pipeline.compaction.staging import load_plan
from ottla.pipeline.install.install import install
from ottla.storage.disk.os_files import OsFile, OsFiles


class KillingFiles(OsFiles):
    """The operating system's files, up to an operation that never happens."""

    def __init__(self, number: int) -> None:
        self.done: list[str] = []
        self._number = number

    def _step(self, name: str) -> None:
        if len(self.done) == self._number:
            os.kill(os.getpid(), signal.SIGKILL)
        self.done.append(name)

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        if create:
            self._step("create")
        return super().open(path, create=create, truncate=truncate)

    def rename(self, old: str, new: str) -> None:
        self._step("rename")
        super().rename(old, new)

    def remove(self, path: str) -> None:
        if self.exists(path):
            self._step("remove")
        super().remove(path)

    def link(self, old: str, new: str) -> None:
        if self.exists(old) and not self.exists(new):
            self._step("link")
        super().link(old, new)

    def sync_dir(self, path: str) -> None:
        self._step("sync_dir")
        super().sync_dir(path)


def main() -> int:
    staging, number = sys.argv[1], int(sys.argv[2])
    files = KillingFiles(number)
    plan = load_plan(files, staging)
    result = install(plan, files, now_ms=plan.now_ms)
    print("\n".join(files.done))
    return 0 if result.is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
