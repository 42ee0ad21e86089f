"""The data directory of an embedded broker: a temporary one, unless one is named."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ...storage.disk.unsynced_files import UnsyncedFiles
from ..config.data_paths import refuse_comma


@contextmanager
def data_directory(named: str | None) -> Iterator[tuple[str, Files]]:
    """Where to keep logs, and the files to do it with.

    A temporary directory is removed at the end. As it never outlives the process, nothing in it is made to survive a
    power loss, which would be most of a start's time.

    Raises:
        ConfigError: Temporary directories are where a comma is in the path.
        OSError: None can be made.
    """
    if named is not None:
        yield named, OsFiles()
        return
    refuse_comma("TMPDIR", tempfile.gettempdir())
    made = tempfile.mkdtemp(prefix="ottla-")
    try:
        yield made, UnsyncedFiles()
    finally:
        shutil.rmtree(made, ignore_errors=True)
