"""Folder of a snapshot, full or layered (`manifest`), written as a whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...storage.disk.checkpoints import write_atomically
from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ...storage.disk.paths import TopicPartition
from ..errors import UsageError
from .manifest import (
    MANIFEST,
    Manifest,
    PartitionSpan,
    layer_directories,
    layer_directory,
)
from .snapshot_folder import FINISHED, UNFINISHED, remove_unfinished, replacing, sync_file, sync_folder
from .snapshot_rounds import RoundEnd, RoundsDone
from .targets import DiskTarget, SnapshotTarget

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


class SnapshotResult(NamedTuple):
    """Result of a snapshot."""

    path: str
    keys: int
    """Number of keys with a row; for a snapshot made with `since`, of keys that have changed."""
    partitions: int
    parts: int
    since: str | None = None


class Since(NamedTuple):
    """An earlier snapshot, over which only changes are written."""

    path: str
    manifest: Manifest
    check_age: Callable[[], None]
    """Raise UsageError if tombstones written after the earlier snapshot may have been removed."""

    @property
    def ends(self) -> dict[TopicPartition, RoundEnd]:
        return {
            tp: RoundEnd(None if span.topic_id is None else bytes.fromhex(span.topic_id), span.end_offset)
            for tp, span in self.manifest.spans().items()
        }


class Order(NamedTuple):
    """Description of a snapshot to write, on disk or in a store."""

    topic: str
    run: Callable[[SnapshotTarget], RoundsDone]
    """Write the rows to a target."""
    schema: pa.Schema
    """Schema of the file for a snapshot without rows."""
    overwrite: bool
    since: Since | None
    now_ms: int
    """Start of this job, Unix milliseconds."""

    def result(self, out: str, done: RoundsDone) -> SnapshotResult:
        since = None if self.since is None else self.since.path
        return SnapshotResult(out, done.keys, len(done.first.ends), len(done.tasks), since)


def write_snapshot(out: str, order: Order) -> SnapshotResult:
    """Write the folder `out`, whole or not at all.

    Raises:
        UsageError: As `replacing`; or the earlier snapshot's files cannot be linked to, or it has become too old in the
            meantime. No files are left.
        Whatever the order's `run` raises.
    """
    files, since = OsFiles(), order.since
    with replacing(out, overwrite=order.overwrite, now_ms=order.now_ms) as directory:
        target, layers = directory, 0
        if since is not None:
            layers = _link_layers(files, since, directory) + 1
            target = layer_directory(directory, layers - 1)
            files.make_dir(target)
        done = order.run(DiskTarget(target))
        _finish(files, target, order.schema)
        if since is not None:
            since.check_age()
            sync_folder(files, os.path.dirname(target))
        manifest = manifest_of(order.topic, done, layers, order.now_ms)
        write_atomically(files, os.path.join(directory, MANIFEST), manifest.to_json())
    return order.result(out, done)


def manifest_of(
    topic: str, done: RoundsDone, layers: int, now_ms: int, files: tuple[tuple[str, ...], ...] = ()
) -> Manifest:
    """Return the manifest of a written snapshot."""
    spans = {
        tp.partition: PartitionSpan(
            topic_id=None if end.topic_id is None else end.topic_id.hex(),
            log_start_offset=done.first.log_starts[tp],
            end_offset=end.offset,
        )
        for tp, end in done.first.ends.items()
    }
    return Manifest(topic=topic, taken_at_ms=now_ms, partitions=spans, layers=layers, files=files)


def _link_layers(files: Files, since: Since, directory: str) -> int:
    """Link the files of an earlier snapshot's layers into the new one, and return the number of layers."""
    layers = layer_directories(since.path, since.manifest)
    for number, old in enumerate(layers):
        new = layer_directory(directory, number)
        files.make_dir(new)
        for name in files.list(old):
            if not name.endswith(FINISHED):
                continue
            try:
                files.link(os.path.join(old, name), os.path.join(new, name))
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                raise UsageError(
                    f"{directory}: expected hard links to {old} to be possible ({error.strerror}): the new snapshot must be on"
                    " the file system of the earlier one; take a full one"
                ) from error
        sync_folder(files, new)
    return len(layers)


def _finish(files: Files, target: str, schema: pa.Schema) -> None:
    """Put a file without rows into a folder without files."""
    remove_unfinished(files, target)
    if not any(name.endswith(FINISHED) for name in files.list(target)):
        unfinished = os.path.join(target, f"{UNFINISHED}00000")
        pq.write_table(schema.empty_table(), unfinished)
        sync_file(files, unfinished)
        files.rename(unfinished, os.path.join(target, f"part-00000{FINISHED}"))
    sync_folder(files, target)
