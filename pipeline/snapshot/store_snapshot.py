"""Snapshot in a store, which has no folders and no renames: a file counts if the newest complete manifest names it.

    <out>/_parts/<id>/part-00000.<attempt>.parquet     output of one job; `id` begins with its start, in milliseconds
    <out>/_manifest.<number>.<id>.json                 the rows' files by layers, the oldest first; written last

A number is one more than that of the manifest before. Readers use the complete manifest with the highest number, so at every
moment one snapshot exists: the old one until the new one is complete. Then the old manifest and the files that only it names
    are
deleted. A job that dies leaves parts without a manifest: a job that begins more than LEFT_MS later deletes them.

Of two concurrent jobs at least one sees the other's manifest next to its own, in a store that lists all written names (all
supported ones do). A job that sees another one withdraws its own and ends with SourceChangedError; the other continues.

Made `--since` the existing snapshot, a new one names that one's files as its older layers: nothing is copied. So both must have
the same address: the files of another snapshot could be deleted with it.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..errors import PipelineError, SourceChangedError, UsageError
from ..objects.addresses import is_address, normalize
from ..objects.object_files import ObjectFiles
from ..objects.uploads import put, remove
from .layers import Order, SnapshotResult, manifest_of
from .manifest import MANIFEST, Manifest, layer_directories, parse_manifest
from .snapshot_folder import FINISHED, LEFT_MS
from .targets import StoreTarget

PARTS = "_parts"
_MANIFEST_NAME = re.compile(r"_manifest\.([0-9]{8})\.([0-9]{13,}-[0-9a-f]+)\.json")


class FoundSnapshot(NamedTuple):
    """A snapshot that was found in a store."""

    manifest: Manifest | None
    """Manifest; None for files without one."""
    layers: Sequence[Sequence[str]]
    """Addresses of files, the oldest layer first."""
    number: int = 0
    name: str | None = None
    """Name of the manifest, if it has a number."""


def find(objects: ObjectFiles, address: str) -> FoundSnapshot | None:
    """Return the snapshot at an address, written there or copied from a folder; None if the address is empty.

    Raises:
        UsageError: Something else is there, or a manifest of a later release.
    """
    address = normalize(address)
    try:
        names = objects.list(address)
    except FileNotFoundError:
        return None
    for name in sorted((name for name in names if _MANIFEST_NAME.fullmatch(name)), reverse=True):
        data = _read(objects, f"{address}/{name}")
        with suppress(ValueError):
            if data is None or not isinstance(json.loads(data), dict):
                continue
            manifest = parse_manifest(f"{address}/{name}", data)
            layers = [[f"{address}/{each}" for each in layer] for layer in manifest.files]
            return FoundSnapshot(manifest, layers, int(name.split(".")[1]), name)
    if all(name == PARTS or _MANIFEST_NAME.fullmatch(name) for name in names):  # of a dead or running job
        return None
    copied = _read(objects, f"{address}/{MANIFEST}") if MANIFEST in names else None
    manifest_of_copy = None if copied is None else parse_manifest(f"{address}/{MANIFEST}", copied)
    layers = [
        [f"{directory}/{name}" for name in objects.list(directory) if name.endswith(FINISHED)]
        for directory in layer_directories(address, manifest_of_copy)
    ]
    if not any(layers):
        raise UsageError(f"{address}: expected a snapshot, found something else")
    return FoundSnapshot(manifest_of_copy, layers)


def _read(objects: ObjectFiles, address: str) -> str | None:
    """Read an object; None if it was deleted, as a newer one has replaced it."""
    try:
        file = objects.open(address)
        return file.read_at(0, file.size()).decode(errors="replace")
    except (FileNotFoundError, SourceChangedError):
        return None


def check_place(out: str, since: str | None) -> None:
    """Raise UsageError for an earlier snapshot that the new one cannot refer to."""
    if since is None or not (is_address(out) or is_address(since)):
        return
    if not is_address(out) or not is_address(since) or normalize(out) != normalize(since):
        raise UsageError(
            f"--since {since}: expected {out} itself (with --overwrite), as a store has no links to files of another snapshot"
        )


def write_to_store(out: str, order: Order, objects: ObjectFiles) -> SnapshotResult:
    """Write a snapshot to an address; see the module.

    The old snapshot stays on an error. Files of the new one are deleted if possible.

    Raises:
        UsageError: A snapshot exists, and `overwrite` is not set; or something else is there; or the earlier one has become
            too old.
        SourceChangedError: Another job wrote a snapshot there at the same time.
        ServiceFailedError: The store does not answer. If that happened at the manifest's upload, the new snapshot may exist.
        Whatever the order's `run` raises.
    """
    address, since, now_ms = normalize(out), order.since, order.now_ms
    before = find(objects, address)
    if before is not None and not order.overwrite:
        raise UsageError(f"{out}: expected no snapshot there, found one (--overwrite replaces it)")
    if before is not None and before.name is None:
        raise UsageError(f"{out}: expected a snapshot that was written there to replace, found a copy of one")
    if since is not None and (before is None or before.manifest is None or before.manifest != since.manifest):
        raise SourceChangedError(f"{out}: another snapshot was written there since")
    own = f"{now_ms:013}-{secrets.token_hex(4)}"
    target = StoreTarget(f"{address}/{PARTS}/{own}", objects)
    name = f"_manifest.{(0 if before is None else before.number) + 1:08}.{own}.json"
    try:
        done = order.run(target)
        if not target.finished():
            target.finish(0, target.write(0, "none", order.schema, [order.schema.empty_table()]))
        if since is not None:
            since.check_age()
        older = [] if since is None or before is None else [*before.layers]
        layers = [*older, [*target.finished().values()]]
        relative = tuple(tuple(each.removeprefix(f"{address}/") for each in layer) for layer in layers)
        manifest = manifest_of(order.topic, done, len(layers) if older else 0, now_ms, relative)
        _check_alone(objects, address, None if before is None else before.name)
    except BaseException:
        _remove_parts(objects, target.address, keep=())
        raise
    # From here on the manifest may exist even after an error, so its files stay.
    put(objects, f"{address}/{name}", manifest.to_json().encode())
    try:
        _check_alone(objects, address, None if before is None else before.name, name)
    except SourceChangedError:
        remove(objects, [f"{address}/{name}"])
        if name not in objects.list(address):
            _remove_parts(objects, target.address, keep=())
        raise
    with suppress(PipelineError, OSError):  # it is complete; remains of others only cost space
        _tidy(objects, address, name, {each for layer in layers for each in layer}, now_ms)
    return order.result(out, done)


def _check_alone(objects: ObjectFiles, address: str, before: str | None, own: str | None = None) -> None:
    try:
        names = objects.list(address)
    except FileNotFoundError:
        names = []
    others = [name for name in names if _MANIFEST_NAME.fullmatch(name) and name != own and name > (before or "")]
    if others or (before is not None and before not in names):
        raise SourceChangedError(f"{address}: another snapshot was written there since")


def _tidy(objects: ObjectFiles, address: str, name: str, named: set[str], now_ms: int) -> None:
    """Delete older manifests, the files that only they named, and the files of dead jobs."""
    olds = [each for each in objects.list(address) if _MANIFEST_NAME.fullmatch(each) and each < name]
    was_named = set()
    for each in olds:
        with suppress(ValueError, UsageError):
            data = _read(objects, f"{address}/{each}") or ""
            was_named |= {part.rpartition("/")[0] for layer in parse_manifest(each, data).files for part in layer}
    remove(objects, (f"{address}/{each}" for each in olds))
    own = name.split(".")[2]
    for folder in objects.list(f"{address}/{PARTS}"):
        began_ms = folder.partition("-")[0]
        is_left = began_ms.isdecimal() and int(began_ms) < now_ms - LEFT_MS
        if folder == own or is_left or f"{PARTS}/{folder}" in was_named:
            _remove_parts(objects, f"{address}/{PARTS}/{folder}", keep=named)


def _remove_parts(objects: ObjectFiles, folder: str, *, keep: Sequence[str] | set[str]) -> None:
    def list_addresses() -> Iterator[str]:
        for each in objects.list(folder):
            if f"{folder}/{each}" not in keep:
                yield f"{folder}/{each}"

    with suppress(FileNotFoundError, PipelineError):
        remove(objects, list_addresses())
