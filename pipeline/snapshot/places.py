"""Snapshots on disk (`layers`) or in a store (`store_snapshot`), found for a new layer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from ...storage.disk.os_files import OsFiles
from ..errors import UsageError
from ..objects.addresses import is_address
from ..stores.reading_files import objects_of, resolved
from ..stores.store import Store
from ..stores.stores import Stores
from .layers import Since
from .manifest import MANIFEST, check_age, check_goes_on, read_manifest
from .store_snapshot import find


def since_of(
    store: Store | Stores,
    path: str,
    topic: str,
    partition: int | None,
    *,
    now_ms: Callable[[], int],
    configs: Mapping[str, str] | None = None,
) -> Since:
    """Return the snapshot that a user names as the earlier one.

    Args:
        now_ms: Returns the current time, Unix milliseconds; called again after the changes were read.

    Raises:
        UsageError: It does not exist, or cannot have a layer over it; see `check_goes_on` and `check_age`.
    """
    if is_address(path):
        there = find(objects_of(store.stores[0].files), path)
        is_there, manifest = there is not None, None if there is None else there.manifest
    else:
        is_there = os.path.isdir(path)
        manifest = read_manifest(OsFiles(), path) if is_there else None
    if not is_there:
        raise UsageError(f"{path}: expected an earlier snapshot, found none")
    if manifest is None:
        raise UsageError(f"{path}: expected an earlier snapshot with {MANIFEST}, found none: take a full one")
    check_goes_on(path, manifest, topic, partition)
    delete_retention_ms = store.stores[0].home.config_of(topic, configs).delete_retention_ms
    earlier = manifest

    def check() -> None:
        check_age(path, earlier, now_ms=now_ms(), delete_retention_ms=delete_retention_ms)

    check()
    return Since(resolved(path), manifest, check)
