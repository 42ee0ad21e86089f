"""The folder of a snapshot, full or layered (`manifest`): written as a whole, and read as what its layers come to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ...storage.disk.checkpoints import write_atomically
from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ...storage.disk.paths import TopicPartition
from ..errors import UsageError
from ..stores.store import Store
from ..stores.stores import Stores
from .manifest import (
    MANIFEST,
    Manifest,
    PartitionSpan,
    check_age,
    check_goes_on,
    layer_directories,
    layer_directory,
    read_manifest,
)
from .snapshot_folder import FINISHED, UNFINISHED, remove_unfinished, replacing, sync_file, sync_folder
from .snapshot_rounds import End, RoundsDone

BATCH_ROWS = 10_000
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


class SnapshotResult(NamedTuple):
    """What was written."""

    path: str
    keys: int
    """With a row in it; of one that was made since another, that have changed since."""
    partitions: int
    parts: int
    since: str | None = None


class Since(NamedTuple):
    """An earlier snapshot, of which what has changed since is told."""

    path: str
    manifest: Manifest
    check_age: Callable[[], None]
    """UsageError once tombstones that have come since may be gone."""

    @property
    def ends(self) -> dict[TopicPartition, End]:
        return {
            tp: End(None if span.topic_id is None else bytes.fromhex(span.topic_id), span.end_offset)
            for tp, span in self.manifest.spans().items()
        }


def since_of(
    store: Store | Stores,
    path: str,
    topic: str,
    partition: int | None,
    *,
    now_ms: Callable[[], int],
    configs: Mapping[str, str] | None = None,
) -> Since:
    """The snapshot that a user names as the earlier one.

    Args:
        now_ms: Unix milliseconds, now: asked once more when what has changed is read.

    Raises:
        UsageError: There is none, or it cannot be gone on from; see `check_goes_on` and `check_age`.
    """
    if not os.path.isdir(path):
        raise UsageError(f"{path}: expected a snapshot to go on from, found none")
    manifest = read_manifest(OsFiles(), path)
    if manifest is None:
        raise UsageError(
            f"{path}: expected a snapshot with {MANIFEST} to go on from, found none in it: take a full one"
        )
    check_goes_on(path, manifest, topic, partition)
    delete_retention_ms = store.stores[0].home.config_of(topic, configs).delete_retention_ms

    def check() -> None:
        check_age(path, manifest, now_ms=now_ms(), delete_retention_ms=delete_retention_ms)

    check()
    return Since(os.path.realpath(path), manifest, check)


def write_snapshot(
    out: str,
    topic: str,
    run: Callable[[str], RoundsDone],
    schema: pa.Schema,
    *,
    overwrite: bool,
    since: Since | None,
    now_ms: int,
) -> SnapshotResult:
    """Make the folder `out`, whole or not at all.

    Args:
        run: Writes the rows into a folder.
        schema: Of a file without rows, where there are none.
        now_ms: When this began.

    Raises:
        UsageError: As `replacing`; or the earlier snapshot's files cannot be linked to, or it has become too old meanwhile.
            Nothing is left.
        Whatever `run` raises.
    """
    files = OsFiles()
    with replacing(out, overwrite=overwrite) as directory:
        target, layers = directory, 0
        if since is not None:
            layers = _link_layers(files, since, directory) + 1
            target = layer_directory(directory, layers - 1)
            files.make_dir(target)
        done = run(target)
        _finish(files, target, schema)
        if since is not None:
            since.check_age()
            sync_folder(files, os.path.dirname(target))
        write_atomically(files, os.path.join(directory, MANIFEST), _manifest_of(topic, done, layers, now_ms).to_json())
    partitions = len(done.first.ends)
    return SnapshotResult(out, done.keys, partitions, len(done.tasks), None if since is None else since.path)


def _manifest_of(topic: str, done: RoundsDone, layers: int, now_ms: int) -> Manifest:
    spans = {
        tp.partition: PartitionSpan(
            topic_id=None if end.topic_id is None else end.topic_id.hex(),
            log_start_offset=done.first.log_starts[tp],
            end_offset=end.offset,
        )
        for tp, end in done.first.ends.items()
    }
    return Manifest(topic=topic, taken_at_ms=now_ms, partitions=spans, layers=layers)


def _link_layers(files: Files, since: Since, directory: str) -> int:
    """Give the files of an earlier snapshot's layers names in the new one; returns how many layers there are."""
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
    """A folder without rows gets a file without rows."""
    remove_unfinished(files, target)
    if not any(name.endswith(FINISHED) for name in files.list(target)):
        unfinished = os.path.join(target, f"{UNFINISHED}00000")
        pq.write_table(schema.empty_table(), unfinished)
        sync_file(files, unfinished)
        files.rename(unfinished, os.path.join(target, f"part-00000{FINISHED}"))
    sync_folder(files, target)


class StoredSnapshot:
    """A snapshot, for reading in this process; or a file of one.

    Memory: about 150 bytes for each key that a later layer has changed.
    """

    def __init__(self, path: str) -> None:
        """
        Raises:
            UsageError: There is none.
            OSError, ValueError: As PyArrow.
        """
        self.manifest = read_manifest(OsFiles(), path) if os.path.isdir(path) else None
        self._layers = [ds.dataset(each, format="parquet") for each in layer_directories(path, self.manifest)]

    @property
    def names(self) -> list[str]:
        """Of its columns."""
        return [name for name in self._layers[0].schema.names]

    def partitions(self) -> set[int]:
        """Those that have rows."""
        return {
            number.as_py()
            for layer in self._layers
            for batch in layer.to_batches(columns=["partition"])
            for number in batch[0].unique()
        }

    def batches(self, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows that count, a row for each key."""
        if len(self._layers) == 1:
            yield from self._layers[0].to_batches(batch_size=batch_rows)
            return
        assert self.manifest is not None
        starts = {number: span.log_start_offset for number, span in self.manifest.partitions.items()}
        changed: set[tuple[int, bytes]] = set()
        for number, layer in reversed([*enumerate(self._layers)]):
            own: list[tuple[int, bytes]] = []
            for batch in layer.to_batches(batch_size=batch_rows):
                keys = [*zip(batch["partition"].to_pylist(), batch["key"].to_pylist(), strict=True)]
                offsets, has_value = batch["offset"].to_pylist(), batch["value"].is_valid().to_pylist()
                counts = [
                    is_there and offset >= starts.get(key[0], 0) and key not in changed
                    for key, offset, is_there in zip(keys, offsets, has_value, strict=True)
                ]
                own += keys if number else []
                yield batch.filter(pa.array(counts, pa.bool_()))
            changed.update(own)
