"""Replacement of a folder of Parquet files: at every moment the old or the new one exists, whole.

    <out>                 the snapshot
    <out>.<own>.part      a new one during the write; the rest of an old one during its deletion. Never a snapshot
    <out>.replaced        the old one, whole, while the new one takes its name

`own` is the start of the job, in milliseconds, and a random number, as process ids in containers may be equal. Of two jobs at
once each writes its own folder, and the last one remains. Folders of dead jobs are deleted by a job that begins more than
LEFT_MS later.

    1. a file is synced before it gets its name; then the folder is synced
    2. <out> -> <out>.replaced      and its parent is synced, also after each step below
    3. <out>.<own>.part -> <out>
    4. <out>.replaced is deleted

A process that dies between 2 and 3 leaves no <out>: the next call restores it, and until then it is <out>.replaced.
As everywhere in the pipeline, only paths are written. Syncs are skipped on file systems that cannot sync directories.
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
from .manifest import MANIFEST

FINISHED = ".parquet"
UNFINISHED = ".part-"
"""Prefix of a file that an attempt still writes, or that a dead one has left."""

REPLACED = ".replaced"
"""Suffix of the old snapshot while the new one takes its name."""

LEFT_MS = 24 * 3_600_000
"""Age from which a job is taken for dead. A job that is still alive then finds its folder deleted, and fails."""
_OWN = re.compile(r"\.([0-9]{13,})-[0-9a-f]+\.part")

_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def replacing(out: str, *, overwrite: bool, now_ms: int, files: Files | None = None) -> Iterator[str]:
    """Yield a folder next to `out` to write into. It takes the name of `out` at the end, and is deleted on an error.

    Args:
        now_ms: Unix milliseconds.

    Raises:
        UsageError: `out` exists and `overwrite` is not set, or it is not a snapshot, or not a path.
        OSError: The disk failed. `out` is the old snapshot, or the new one.
    """
    if "://" in out:
        raise UsageError(
            f"{out}: expected a path (of a mounted file system), found an address: copy the folder there, or let Spark write"
            " the frame of `ottla.pipeline.latest`"
        )
    files = OsFiles() if files is None else files
    given, out = out, os.path.realpath(out)
    parent, old = paths.parent(out), f"{out}{REPLACED}"
    part, junk = (f"{out}.{now_ms:013}-{secrets.token_hex(4)}.part" for _ in range(2))
    if files.exists(old):
        _give_back(files, out, old, junk)
    if files.exists(out) and not overwrite:
        raise UsageError(f"{given}: expected a new folder, found an existing one (--overwrite replaces it)")
    if files.exists(out) and not _is_snapshot(files, out):
        raise UsageError(f"{given}: expected a snapshot to replace, found something else")
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
    """Sync a complete file to disk before it gets its name."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()


def _remove_left(files: Files, out: str, now_ms: int) -> None:
    """Delete the folders of dead jobs next to `out`."""
    parent, name = paths.parent(out), out.rpartition("/")[2]
    if not files.exists(parent):
        return
    for each in files.list(parent):
        own = _OWN.fullmatch(each.removeprefix(name)) if each.startswith(name) else None
        if own is not None and int(own[1]) < now_ms - LEFT_MS:
            with suppress(OSError):
                files.remove_dir(paths.join(parent, each))


def _give_back(files: Files, out: str, old: str, junk: str) -> None:
    """Restore an old snapshot if no new one exists. Otherwise delete it, by way of `junk`, an unused name."""
    if not files.exists(out):
        files.rename(old, out)
        sync_folder(files, paths.parent(out))
        return
    with suppress(OSError):
        files.remove_dir(junk)
    files.rename(old, junk)  # frees its name at once, even if its files stay (on NFS while a client reads them)
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
    """Delete the files of dead or abandoned attempts in a folder."""
    for name in files.list(folder):
        if name.startswith(UNFINISHED):
            files.remove(paths.join(folder, name))


def sync_folder(files: Files, directory: str) -> None:
    """Sync the names of a folder to disk, if the file system supports that."""
    try:
        files.sync_dir(directory)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _is_snapshot(files: Files, path: str) -> bool:
    """Return whether a folder contains only files of snapshots."""
    return files.is_dir(path) and all(
        name.endswith(FINISHED) or name.startswith(UNFINISHED) or name == MANIFEST for name in files.list(path)
    )
