"""Snapshot: a copy of all data directories of a broker, made while no broker has them open.

    DIR/ottla-snapshot.json     written last: the version, the node, and each file with its size and CRC-32C
    DIR/0/…  DIR/1/…            the broker's content of each data directory, in the order of log.dirs

It is made next to its place, as `DIR.<32 hex digits>.tmp`, and then renamed, so it is complete or does not exist. It shares no
file with the broker, whose appends would change it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...protocol.checksum import crc32c
from ..disk import paths
from ..disk.checkpoints import CorruptCheckpointError, read_meta_properties, read_text, write_atomically
from ..disk.files import Files
from .data_dir import OWNERS_ALONE
from .exchange import own_entries

VERSION = 1
COPY_BYTES = 1 << 20


class SnapshotError(Exception):
    """The path is not a snapshot, is incomplete, or belongs to another broker. One line; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Content of a snapshot's manifest."""

    path: str
    node_id: int
    """Node ID of the first node."""
    clock_ahead_ms: int
    """Milliseconds by which the broker's clock had been moved."""
    directories: tuple[Mapping[str, tuple[int, int]], ...] = field(repr=False)
    """For each data directory: path of a file in it -> (bytes, CRC-32C)."""

    @property
    def file_count(self) -> int:
        return sum(map(len, self.directories))

    @property
    def size_bytes(self) -> int:
        return sum(size_bytes for each in self.directories for size_bytes, _ in each.values())


def check_place(files: Files, path: str, data_dirs: Sequence[str]) -> None:
    """Refuse a place for a new snapshot that is taken, or in a data directory.

    Raises:
        SnapshotError, OSError
    """
    for each in data_dirs:
        if f"{path}/".startswith(f"{each.rstrip('/')}/"):
            raise SnapshotError(f"a snapshot must not be in the data directory {each}: {path}")
    if files.exists(path) and (not files.is_dir(path) or files.list(path)):
        raise SnapshotError(f"{path} already exists, and is not an empty directory")


def save(
    files: Files, data_dirs: Sequence[str], target_files: Files, path: str, unique_id: str, clock_ahead_ms: int
) -> Snapshot:
    """Copy the broker's content of closed data directories, whose locks the caller holds, to `path`. On disk on return.

    Args:
        target_files: File access for writing.
        unique_id: 32 hex digits, for the name of the temporary directory.

    Raises:
        SnapshotError: As for `check_place`, or the first directory has no owner.
        OSError: A disk refused; `path` is unchanged.
    """
    check_place(target_files, path, data_dirs)
    identity = read_meta_properties(files, data_dirs[0])
    if identity is None:
        raise SnapshotError(f"data directory {data_dirs[0]} has no {paths.META_PROPERTIES}: no broker has used it")
    temporary = f"{path}.{unique_id}{paths.TEMPORARY}"
    above = paths.parent(path)
    target_files.make_dir(above, mode=OWNERS_ALONE)
    target_files.make_dir(temporary, mode=OWNERS_ALONE)
    try:
        directories = tuple(
            _copied(files, each, own_entries(files, each), target_files, paths.join(temporary, str(index)))
            for index, each in enumerate(data_dirs)
        )
        snapshot = Snapshot(path, identity.node_id, clock_ahead_ms, directories)
        write_atomically(target_files, paths.join(temporary, paths.SNAPSHOT_FILE), _text(snapshot))
        target_files.sync_dir(above)
        target_files.rename(temporary, path)
        target_files.sync_dir(above)
    except BaseException:
        with suppress(OSError):
            target_files.remove_dir(temporary)
        raise
    return snapshot


def read(files: Files, path: str) -> Snapshot:
    """Read the manifest of the snapshot in `path`, and check that all files exist with their sizes.

    Raises:
        SnapshotError: It is not a snapshot, of a newer version, or incomplete.
        OSError: The disk refused.
    """
    manifest = paths.join(path, paths.SNAPSHOT_FILE)
    if not files.exists(manifest):
        what = "directory not found" if not files.exists(path) else f"{paths.SNAPSHOT_FILE} not found"
        raise SnapshotError(f"{path} is not a snapshot: {what}")
    try:
        said = json.loads(read_text(files, manifest))
        version = said["version"]
        if version != VERSION:
            raise SnapshotError(
                f"{path}: unsupported snapshot version {version}, expected {VERSION}; it may be from a newer Ottla"
            )
        found = Snapshot(
            path,
            int(said["node_id"]),
            int(said["clock_ahead_ms"]),
            tuple(
                {name: (int(stamp[0]), int(stamp[1])) for name, stamp in each.items()} for each in said["directories"]
            ),
        )
    except (
        CorruptCheckpointError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
    ) as error:
        raise SnapshotError(f"{path} is not a snapshot: invalid {paths.SNAPSHOT_FILE}: {error}") from None
    for index, each in enumerate(found.directories):
        for name, (size_bytes, _) in each.items():
            _check_name(path, name)
            file_path = paths.join(paths.join(path, str(index)), name)
            if not files.exists(file_path):
                raise SnapshotError(f"snapshot {path} is incomplete: {index}/{name} is missing")
            if files.size(file_path) != size_bytes:
                raise SnapshotError(
                    f"snapshot {path} is incomplete: {index}/{name} has {files.size(file_path)} bytes, expected"
                    f" {size_bytes}"
                )
    return found


def copy_out(files: Files, snapshot: Snapshot, target_files: Files, targets: Sequence[str]) -> None:
    """Copy the content of `snapshot` into empty directories, one for each of its own. On disk on return.

    Raises:
        SnapshotError: A file has changed since the snapshot was made.
        OSError: A disk refused. What was copied stays.
    """
    for index, (wanted, target) in enumerate(zip(snapshot.directories, targets, strict=True)):
        source = paths.join(snapshot.path, str(index))
        directories = {target}
        for name, stamp in wanted.items():
            to_path = paths.join(target, name)
            directories.add(paths.parent(to_path))
            target_files.make_dir(paths.parent(to_path))
            if _copy(files, paths.join(source, name), target_files, to_path) != stamp:
                raise SnapshotError(f"snapshot {snapshot.path} is damaged: {index}/{name} was changed")
        for each in sorted(directories, reverse=True):
            target_files.sync_dir(each)


def _copied(
    files: Files, data_dir: str, names: Sequence[str], target_files: Files, target: str
) -> dict[str, tuple[int, int]]:
    """Copy these entries to `target`, directories with their files; returns the stamps of all files."""
    target_files.make_dir(target)
    found = {}
    for name in names:
        path = paths.join(data_dir, name)
        if files.is_dir(path):
            target_files.make_dir(paths.join(target, name))
            for each in files.list(path):
                if not each.endswith((paths.DELETED, paths.TEMPORARY)) and not files.is_dir(paths.join(path, each)):
                    inner = paths.join(name, each)
                    found[inner] = _copy(files, paths.join(data_dir, inner), target_files, paths.join(target, inner))
            target_files.sync_dir(paths.join(target, name))
        else:
            found[name] = _copy(files, path, target_files, paths.join(target, name))
    target_files.sync_dir(target)
    return found


def _copy(files: Files, path: str, target_files: Files, target: str) -> tuple[int, int]:
    """Copy a file; returns its size and CRC-32C."""
    source = files.open(path)
    try:
        copy = target_files.open(target, create=True, truncate=True)
        try:
            crc, position = 0, 0
            while data := source.read_at(position, COPY_BYTES):
                copy.append(data)
                crc = crc32c(data, crc)
                position += len(data)
            copy.sync()
        finally:
            copy.close()
    finally:
        source.close()
    # Retention uses it if records have no timestamps.
    target_files.set_mtime_ms(target, files.mtime_ms(path))
    return position, crc


def _check_name(path: str, name: str) -> None:
    """Refuse a name that does not lead to a file in a data directory."""
    parts = name.split("/")
    if len(parts) > 2 or not all(part and part not in (".", "..") and "\0" not in part for part in parts):
        raise SnapshotError(f"{path} is not a snapshot: invalid file name {name!r}")


def _text(snapshot: Snapshot) -> str:
    said: dict[str, Any] = {
        "version": VERSION,
        "node_id": snapshot.node_id,
        "clock_ahead_ms": snapshot.clock_ahead_ms,
        "directories": [dict(each) for each in snapshot.directories],
    }
    return json.dumps(said, indent=1) + "\n"
