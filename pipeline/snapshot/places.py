"""A snapshot wherever it is, in a folder of a disk (`layers`) or in a store (`store_snapshot`): gone on from, read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from ...storage.disk.os_files import OsFiles
from ..errors import UsageError
from ..objects.addresses import is_address
from ..objects.object_files import ObjectFiles
from ..stores.reading_files import objects_of, resolved
from ..stores.store import Store
from ..stores.stores import Stores
from .layers import Since
from .manifest import MANIFEST, check_age, check_goes_on, layer_directories, read_manifest
from .parquet_files import opened
from .snapshot_folder import FINISHED
from .store_snapshot import find

BATCH_ROWS = 10_000


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
    if is_address(path):
        there = find(objects_of(store.stores[0].files), path)
        is_there, manifest = there is not None, None if there is None else there.manifest
    else:
        is_there = os.path.isdir(path)
        manifest = read_manifest(OsFiles(), path) if is_there else None
    if not is_there:
        raise UsageError(f"{path}: expected a snapshot to go on from, found none")
    if manifest is None:
        raise UsageError(
            f"{path}: expected a snapshot with {MANIFEST} to go on from, found none in it: take a full one"
        )
    check_goes_on(path, manifest, topic, partition)
    delete_retention_ms = store.stores[0].home.config_of(topic, configs).delete_retention_ms
    earlier = manifest

    def check() -> None:
        check_age(path, earlier, now_ms=now_ms(), delete_retention_ms=delete_retention_ms)

    check()
    return Since(resolved(path), manifest, check)


class StoredSnapshot:
    """A snapshot, for reading in this process; or a file of one.

    Memory: about 150 bytes for each key that a later layer has changed.
    """

    def __init__(self, path: str, objects: ObjectFiles | None = None) -> None:
        """
        Raises:
            UsageError: There is none.
            OSError, ValueError: As PyArrow.
        """
        self._objects = ObjectFiles() if objects is None else objects
        if is_address(path):
            found = find(self._objects, path)
            if found is None:
                raise UsageError(f"{path}: expected a snapshot, found none")
            self.manifest, self._layers = found.manifest, found.layers
        else:
            self.manifest = read_manifest(OsFiles(), path) if os.path.isdir(path) else None
            self._layers = [_files_in(each) for each in layer_directories(path, self.manifest)]
        with opened(self._layers[0][0], self._objects) as file:
            self.names: list[str] = list(file.schema_arrow.names)
            """Of its columns."""

    def partitions(self) -> set[int]:
        """Those that have rows."""
        return {
            number.as_py()
            for layer in self._layers
            for batch in self._batches(layer, ["partition"])
            for number in batch.column(0).unique()
        }

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that count, a row for each key."""
        if len(self._layers) == 1:
            yield from self._batches(self._layers[0])
            return
        assert self.manifest is not None
        starts = {number: span.log_start_offset for number, span in self.manifest.partitions.items()}
        changed: set[tuple[int, bytes]] = set()
        for number, layer in reversed([*enumerate(self._layers)]):
            own: list[tuple[int, bytes]] = []
            for batch in self._batches(layer):
                keys = [*zip(batch["partition"].to_pylist(), batch["key"].to_pylist(), strict=True)]
                offsets, has_value = batch["offset"].to_pylist(), batch["value"].is_valid().to_pylist()
                counts = [
                    is_there and offset >= starts.get(key[0], 0) and key not in changed
                    for key, offset, is_there in zip(keys, offsets, has_value, strict=True)
                ]
                own += keys if number else []
                yield batch.filter(pa.array(counts, pa.bool_()))
            changed.update(own)

    def _batches(self, layer: Sequence[str], columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        for path in layer:
            with opened(path, self._objects) as file:
                yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)


def _files_in(path: str) -> Sequence[str]:
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(FINISHED)]
    if not found:
        raise FileNotFoundError(2, "it has no Parquet files", path)
    return found
