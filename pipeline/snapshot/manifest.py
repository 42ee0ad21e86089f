"""What a snapshot says of itself, and the layers that it is made of.

    <out>/part-00000.parquet …            a full snapshot: a row for each key
    <out>/_manifest.json                  of which topic, up to where, and when

    <out>/_layers/00000/part-00000.parquet …    one that was made `--since` another: that one's files, hard links to them,
    <out>/_layers/00001/part-00000.parquet …    and what has changed since: a row for each key, without a value where it was deleted
    <out>/_manifest.json

Of a layered one a row counts that no later layer has a row for, if it has a value, and lies above where the log begins now.
Names that begin with `_` are none of Spark's: a reader that knows nothing of layers finds no rows, rather than wrong ones.
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
"""Each is a join for who reads it."""
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class PartitionSpan:
    """What of one partition is in a snapshot."""

    topic_id: str | None
    """In hexadecimal; None if the directory does not say."""
    log_start_offset: int
    end_offset: int
    """Exclusive. Of some keys there may be later records: those that a cleaner left, while it was made."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """See the module."""

    topic: str
    taken_at_ms: int
    """When its first look at the logs began, Unix milliseconds by the clock of the job."""
    partitions: Mapping[int, PartitionSpan]
    layers: int = 0
    """0 of a full one."""
    files: tuple[tuple[str, ...], ...] = ()
    """Of each layer, in a store (`store_snapshot`), from the snapshot's address on; on a disk its folder says that."""

    def to_json(self) -> str:
        fields = {"version": VERSION, **asdict(self)}
        if not self.files:
            del fields["files"]
        return json.dumps(fields, indent=1) + "\n"

    def spans(self) -> dict[TopicPartition, PartitionSpan]:
        return {TopicPartition(self.topic, number): span for number, span in self.partitions.items()}


def read_manifest(files: Files, snapshot: str) -> Manifest | None:
    """The manifest of a snapshot; None of one that an earlier release has made, which is a full one.

    Raises:
        UsageError: It makes no sense, or is a later release's.
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
    """What a manifest says. UsageError as of `read_manifest`."""
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
    """Where the files of each layer are, the oldest first; of a full snapshot there is one."""
    if manifest is None or not manifest.layers:
        return [snapshot]
    return [layer_directory(snapshot, number) for number in range(manifest.layers)]


def layer_directory(snapshot: str, number: int) -> str:
    return os.path.join(snapshot, LAYERS, f"{number:05}")


def check_goes_on(since: str, earlier: Manifest, topic: str, partition: int | None) -> None:
    """Refuse a snapshot that is not to be gone on from, however young it is.

    Raises:
        UsageError: It is of another topic, or of other partitions; or it has LAYERS_MAX layers.
    """
    if earlier.topic != topic:
        raise UsageError(f"{since}: expected a snapshot of {topic}, found one of {earlier.topic}")
    if partition is not None and set(earlier.partitions) != {partition}:
        found = ", ".join(map(str, sorted(earlier.partitions)))
        raise UsageError(f"{since}: expected a snapshot of partition {partition}, found one of {found}")
    if earlier.layers >= LAYERS_MAX:
        raise UsageError(f"{since}: expected fewer than {LAYERS_MAX} layers, found {earlier.layers}: take a full one")


def check_age(since: str, earlier: Manifest, *, now_ms: int, delete_retention_ms: int) -> None:
    """Refuse a snapshot of which tombstones that have come since may be gone: what they deleted would come back.

    A pass takes none before `delete.retention.ms` is over. To be asked again when all is read.

    Raises:
        UsageError: It is too old, or younger than possible.
    """
    age_ms = now_ms - earlier.taken_at_ms
    if age_ms >= delete_retention_ms or age_ms < 0:
        raise UsageError(
            f"{since}: expected a snapshot less than {delete_retention_ms} ms old (delete.retention.ms of {earlier.topic}), found"
            f" {age_ms} ms: tombstones since may be gone; take a full one"
        )
