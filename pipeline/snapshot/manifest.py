"""Manifest of a snapshot.

    <out>/part-00000.parquet …            a row for each key
    <out>/_manifest.json                  its topic, end offsets and time

Spark ignores names that begin with `_`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...storage.disk.checkpoints import CorruptCheckpointError, read_text
from ...storage.disk.files import Files
from ..errors import UsageError

MANIFEST = "_manifest.json"
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

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n"


def read_manifest(files: Files, snapshot: str) -> Manifest | None:
    """Read the manifest of a snapshot; None for Parquet files without one.

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
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: expected the manifest of a snapshot, found {error!r}") from error
