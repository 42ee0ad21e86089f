"""A folder of Parquet files that takes the place of another one, or of none: at every moment one of them is there, whole.

    <out>                 the snapshot
    <out>.<pid>.part      a new one while it is written; what is left of an old one while it is removed. Never a snapshot
    <out>.replaced        the old one, whole, while the new one takes its name

    1. who writes a file syncs it, then it gets its name; the folder is synced
    2. <out> -> <out>.replaced      and its parent is synced, as after
    3. <out>.<pid>.part -> <out>
    4. <out>.replaced goes

A process that dies between 2 and 3 leaves no <out>: the next call gives it back, and until then it is <out>.replaced.
Only paths are written, as everywhere in the pipeline; where a file system knows no sync of directories, none is done.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ..errors import UsageError
from .manifest import LAYERS, MANIFEST

FINISHED = ".parquet"
UNFINISHED = ".part-"
"""How the name of a file begins that an attempt still writes, or that a dead one has left."""

REPLACED = ".replaced"
"""Behind the name of a snapshot: the old one, while the new one takes its name."""

_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def replacing(out: str, *, overwrite: bool, files: Files | None = None) -> Iterator[str]:
    """A folder beside `out` to write into; takes its name at the end, and is gone after an error. See the module.

    Raises:
        UsageError: `out` is there, and `overwrite` is not wanted; or it is no snapshot, or no path.
        OSError: The disk refused. `out` is the old snapshot, or the new one.
    """
    if "://" in out:
        raise UsageError(f"{out}: expected a path (of a mounted file system), found an address")
    files = OsFiles() if files is None else files
    given, out = out, os.path.realpath(out)
    parent, part, old = paths.parent(out), f"{out}.{os.getpid()}.part", f"{out}{REPLACED}"
    if files.exists(old):
        _give_back(files, out, old)
    if files.exists(out) and not overwrite:
        raise UsageError(f"{given}: expected no such folder, found one (--overwrite takes its place)")
    if files.exists(out) and not _is_snapshot(files, out):
        raise UsageError(f"{given}: expected a snapshot to take the place of, found something else")
    files.remove_dir(part)
    _make(files, part)
    try:
        yield part
        remove_unfinished(files, part)
        sync_folder(files, part)
        try:
            if files.exists(out):
                files.rename(out, old)
                sync_folder(files, parent)
            files.rename(part, out)
        except BaseException:
            if files.exists(old) and not files.exists(out):
                files.rename(old, out)
            raise
        sync_folder(files, parent)
        if files.exists(old):
            _give_back(files, out, old)
    finally:
        with suppress(OSError):
            files.remove_dir(part)


def sync_file(files: Files, path: str) -> None:
    """Have a file that is wholly written on disk: before it gets its name."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()


def _give_back(files: Files, out: str, old: str) -> None:
    """Put an old snapshot back where there is no new one; else it goes."""
    if not files.exists(out):
        files.rename(old, out)
        sync_folder(files, paths.parent(out))
        return
    junk = f"{out}.{os.getpid()}.part"
    with suppress(OSError):
        files.remove_dir(junk)
    files.rename(old, junk)  # its name is free at once, whatever keeps its files (on NFS: whoever reads them)
    with suppress(OSError):
        files.remove_dir(junk)


def _make(files: Files, directory: str) -> None:
    missing = [directory]
    while not files.exists(above := paths.parent(missing[-1])):
        missing.append(above)
    files.make_dir(directory)
    for each in reversed(missing):
        sync_folder(files, paths.parent(each))


def remove_unfinished(files: Files, folder: str) -> None:
    """Take away what attempts that died, or that Spark has given up, have left in a folder."""
    for name in files.list(folder):
        if name.startswith(UNFINISHED):
            files.remove(paths.join(folder, name))


def sync_folder(files: Files, directory: str) -> None:
    """Have the names of a folder on disk, where the file system knows how to do that."""
    try:
        files.sync_dir(directory)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _is_snapshot(files: Files, path: str) -> bool:
    """Whether there is nothing but what snapshots are made of."""
    return files.is_dir(path) and all(
        name.endswith(FINISHED) or name.startswith(UNFINISHED) or name in (MANIFEST, LAYERS)
        for name in files.list(path)
    )
