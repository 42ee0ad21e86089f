"""A folder of Parquet files that takes the place of another one, or of none: at every moment one of them is there, whole.

    <out>                 the snapshot
    <out>.<own>.part      a new one while it is written; what is left of an old one while it is removed. Never a snapshot
    <out>.replaced        the old one, whole, while the new one takes its name

`own` is when the job began, in milliseconds, and something at random: of two jobs at once, which may have the same process id in containers, each
writes its own, and the last one stands. What dead ones have left goes once a job begins more than LEFT_MS later.

    1. who writes a file syncs it, then it gets its name; the folder is synced
    2. <out> -> <out>.replaced      and its parent is synced, as after
    3. <out>.<own>.part -> <out>
    4. <out>.replaced goes

A process that dies between 2 and 3 leaves no <out>: the next call gives it back, and until then it is <out>.replaced.
Only paths are written, as everywhere in the pipeline; where a file system knows no sync of directories, none is done.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
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

LEFT_MS = 24 * 3_600_000
"""A job that began longer ago is taken for dead; one that is not finds its folder gone, and fails."""
_OWN = re.compile(r"\.([0-9]{13,})-[0-9a-f]+\.part")

_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def replacing(out: str, *, overwrite: bool, now_ms: int, files: Files | None = None) -> Iterator[str]:
    """A folder beside `out` to write into; takes its name at the end, and is gone after an error. See the module.

    Args:
        now_ms: Unix milliseconds.

    Raises:
        UsageError: `out` is there, and `overwrite` is not wanted; or it is no snapshot, or no path.
        OSError: The disk refused. `out` is the old snapshot, or the new one.
    """
    if "://" in out:
        raise UsageError(f"{out}: expected a path (of a mounted file system), found an address")
    files = OsFiles() if files is None else files
    given, out = out, os.path.realpath(out)
    parent, old = paths.parent(out), f"{out}{REPLACED}"
    part, junk = (f"{out}.{now_ms:013}-{secrets.token_hex(4)}.part" for _ in range(2))
    if files.exists(old):
        _give_back(files, out, old, junk)
    if files.exists(out) and not overwrite:
        raise UsageError(f"{given}: expected no such folder, found one (--overwrite takes its place)")
    if files.exists(out) and not _is_snapshot(files, out):
        raise UsageError(f"{given}: expected a snapshot to take the place of, found something else")
    _remove_left(files, out, now_ms)
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
            _give_back(files, out, old, junk)
    finally:
        for each in part, junk:
            with suppress(OSError):
                files.remove_dir(each)


def sync_file(files: Files, path: str) -> None:
    """Have a file that is wholly written on disk: before it gets its name."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()


def _remove_left(files: Files, out: str, now_ms: int) -> None:
    """Take away what jobs that have died have left beside `out`."""
    parent, name = paths.parent(out), out.rpartition("/")[2]
    if not files.exists(parent):
        return
    for each in files.list(parent):
        own = _OWN.fullmatch(each.removeprefix(name)) if each.startswith(name) else None
        if own is not None and int(own[1]) < now_ms - LEFT_MS:
            with suppress(OSError):
                files.remove_dir(paths.join(parent, each))


def _give_back(files: Files, out: str, old: str, junk: str) -> None:
    """Put an old snapshot back where there is no new one; else it goes, by way of `junk`, a name that nobody has."""
    if not files.exists(out):
        files.rename(old, out)
        sync_folder(files, paths.parent(out))
        return
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
