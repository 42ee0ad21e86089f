"""Result of a group of segments, in its manifest in the staging directory.

It has kilobytes per group. Reading the progress of a plan needs only these, wherever the segments were made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...storage.disk import paths
from ...storage.disk.checkpoints import read_text
from ...storage.disk.files import Files
from ...storage.logs.staged_segment import MANIFEST_FILE, size_and_crc
from .plan import CompactionPlan
from .staging import group_directory, is_installed


@dataclass(frozen=True, kw_only=True)
class GroupResult:
    """Result of a group; `to_json` is its manifest."""

    group: int
    base_offset: int
    source_base_offsets: tuple[int, ...]
    files: Mapping[str, tuple[int, int]]
    """Name -> bytes, CRC-32C."""
    bytes_read: int
    bytes_written: int
    records_read: int
    removed: Mapping[str, int]
    """Number of records that were removed, by reason: the fields of `clean_rules.RemovedRecords`."""

    @property
    def records_written(self) -> int:
        return self.records_read - sum(self.removed.values())

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> GroupResult:
        """Parse a manifest. Raises ValueError, KeyError or TypeError if it is invalid."""
        fields: dict[str, Any] = json.loads(text)
        fields["source_base_offsets"] = tuple(fields["source_base_offsets"])
        fields["files"] = {name: tuple(found) for name, found in fields["files"].items()}
        return cls(**fields)


def finished_group(plan: CompactionPlan, group: int, files: Files) -> GroupResult | None:
    """Return the result that is staged or was installed, None if the group is not finished.

    It is not finished if the files' sizes differ from the manifest's. Their contents are not read.
    """
    directory = group_directory(plan, group)
    try:
        found = GroupResult.from_json(read_text(files, paths.join(directory, MANIFEST_FILE)))
        whole = is_installed(files, plan, group) or all(
            files.size(paths.join(directory, name)) == size_bytes for name, (size_bytes, _) in found.files.items()
        )
    except (ValueError, KeyError, TypeError, FileNotFoundError):
        return None
    return found if whole and found.group == group else None


def check_finished_group(plan: CompactionPlan, group: int, files: Files) -> GroupResult | None:
    """Return as `finished_group`, but None also if the files' contents differ from the manifest.

    Reads every byte of a group that is not installed yet.
    """
    found = finished_group(plan, group, files)
    if found is None or is_installed(files, plan, group):
        return found
    directory = group_directory(plan, group)
    try:
        is_whole = all(size_and_crc(files, paths.join(directory, name)) == said for name, said in found.files.items())
    except FileNotFoundError:  # installed or discarded during the check
        return finished_group(plan, group, files)
    return found if is_whole else None
