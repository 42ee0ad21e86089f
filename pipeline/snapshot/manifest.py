"""Manifest of a snapshot, and the layers of a layered one.

    <out>/part-00000.parquet …            a full snapshot: a row for each key
    <out>/_manifest.json                  its topic, end offsets and time

    <out>/_layers/00000/part-00000.parquet …    one that was made `--since` another: that one's files, hard links to them,
    <out>/_layers/00001/part-00000.parquet …    and the changes: a row for each key, without a value if it was deleted
    <out>/_manifest.json

A row of a layered snapshot counts if no later layer has a row for its key, it has a value, and it is at or above the log start.
Spark ignores names that begin with `_`: a reader without support for layers finds no rows, rather than wrong ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...storage.disk.checkpoints import CorruptCheckpointError, read_text
from ...storage.disk.files import Files
from ...storage.disk.paths import TopicPartition
from ..errors import UsageError

MANIFEST = "_manifest.json"
LAYERS = "_layers"
LAYERS_MAX = 64
"""Limit of layers, as readers need a join for each."""
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class PartitionSpan:
    """Span of one partition in a snapshot."""

    topic_id: str | None
    """Id in hexadecimal; None if the directory does not have it."""
    log_start_offset: int
    end_offset: int
    """End offset (exclusive). Some keys may have later records, if a cleaner removed their older ones during the job."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Contents of `_manifest.json`; see the module."""

    topic: str
    taken_at_ms: int
    """Start of the first look at the logs, Unix milliseconds by the clock of the job."""
    partitions: Mapping[int, PartitionSpan]
    layers: int = 0
    """Number of layers; 0 for a full snapshot."""
    files: tuple[tuple[str, ...], ...] = ()
    """Files of each layer in a store (`store_snapshot`), relative to the snapshot's address; empty on a disk."""

    def to_json(self) -> str:
        fields = {"version": VERSION, **asdict(self)}
        if not self.files:
            del fields["files"]
        return json.dumps(fields, indent=1) + "\n"

    def spans(self) -> dict[TopicPartition, PartitionSpan]:
        return {TopicPartition(self.topic, number): span for number, span in self.partitions.items()}


def read_manifest(files: Files, snapshot: str) -> Manifest | None:
    """Read the manifest of a snapshot; None for one of an earlier release, which is a full one.

    Raises:
        UsageError: It is invalid, or of a later release.
    """
    path = os.path.join(snapshot, MANIFEST)
    if not files.exists(path):
        return None
    try:
        text = read_text(files, path)
    except CorruptCheckpointError as error:
        raise UsageError(f"{path}: expected the manifest of a snapshot, found {error!r}") from error
    return parse_manifest(path, text)


def parse_manifest(path: str, text: str) -> Manifest:
    """Parse a manifest. Raises UsageError as `read_manifest`."""
    try:
        fields: dict[str, Any] = json.loads(text)
        if fields["version"] != VERSION:
            raise UsageError(f"{path}: expected version {VERSION}, found {fields['version']!r}")
        return Manifest(
            topic=fields["topic"],
            taken_at_ms=int(fields["taken_at_ms"]),
            partitions={int(number): PartitionSpan(**span) for number, span in fields["partitions"].items()},
            layers=int(fields["layers"]),
            files=tuple(tuple(str(each) for each in layer) for layer in fields.get("files", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: expected the manifest of a snapshot, found {error!r}") from error


def layer_directories(snapshot: str, manifest: Manifest | None) -> Sequence[str]:
    """Return the folders of the layers, the oldest first; a full snapshot has one."""
    if manifest is None or not manifest.layers:
        return [snapshot]
    return [layer_directory(snapshot, number) for number in range(manifest.layers)]


def layer_directory(snapshot: str, number: int) -> str:
    return os.path.join(snapshot, LAYERS, f"{number:05}")


def check_goes_on(since: str, earlier: Manifest, topic: str, partition: int | None) -> None:
    """Check that a snapshot, whatever its age, can have a layer over it.

    Raises:
        UsageError: It has another topic, other partitions, or LAYERS_MAX layers.
    """
    if earlier.topic != topic:
        raise UsageError(f"{since}: expected a snapshot of {topic}, found one of {earlier.topic}")
    if partition is not None and set(earlier.partitions) != {partition}:
        found = ", ".join(map(str, sorted(earlier.partitions)))
        raise UsageError(f"{since}: expected a snapshot of partition {partition}, found one of {found}")
    if earlier.layers >= LAYERS_MAX:
        raise UsageError(f"{since}: expected fewer than {LAYERS_MAX} layers, found {earlier.layers}: take a full one")


def check_age(since: str, earlier: Manifest, *, now_ms: int, delete_retention_ms: int) -> None:
    """Check that no tombstone written after a snapshot may have been removed: the deleted values would reappear.

    A pass removes none within `delete.retention.ms`. The check is repeated after everything was read.

    Raises:
        UsageError: The snapshot is too old, or has a time in the future.
    """
    age_ms = now_ms - earlier.taken_at_ms
    if age_ms >= delete_retention_ms or age_ms < 0:
        raise UsageError(
            f"{since}: expected a snapshot less than {delete_retention_ms} ms old (delete.retention.ms of {earlier.topic}), found"
            f" {age_ms} ms: tombstones since then may have been removed; take a full one"
        )
