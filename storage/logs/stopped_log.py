"""State of one log's files at a clean stop: the sizes of all, and the CRCs of the small ones.

After a clean stop nothing is scanned, so damage of the small files would not be noticed: an index of aborted transactions
that lost its entries makes their records look committed. So a start compares the files with what the stop has left, by size
alone where reading would take long. Files that differ are rebuilt from the log (`recovery`).

The mark of the stop contains one of these for each log; its format is described in `data_dirs.clean_stop`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ...protocol.checksum import crc32c
from ..disk import paths
from ..disk.files import Files

_START = "start"
_READ_WHOLE = (paths.TXN_INDEX, paths.SNAPSHOT)

Stamp = int | list[int]
"""Size of a file in bytes, or its size and CRC-32C."""


NOTHING_SAID: Mapping[str, Any] = MappingProxyType({})


class StoppedLog(NamedTuple):
    """State of a log's files at a clean stop; empty if not known."""

    said: Mapping[str, Any] = NOTHING_SAID
    """Parsed JSON of the mark; none of it is validated."""

    @classmethod
    def read(cls, files: Files, directory: str, log_start_offset: int) -> StoppedLog:
        """Read the state of a closed log. OSError: the disk refused."""
        return cls({_START: log_start_offset, **_stamps(files, directory, files.list(directory))})

    @property
    def log_start_offset(self) -> int:
        start = self.said.get(_START)
        return start if isinstance(start, int) and 0 <= start <= paths.OFFSET_MAX else 0

    def changed(self, files: Files, directory: str, names: Iterable[str]) -> set[str]:
        """Return the names of files that are missing, new or different; missing snapshots do no harm and do not count.

        Args:
            names: All names in the directory now.

        Raises:
            OSError: The disk refused.
        """
        if not self.said:
            return set()
        found = _stamps(files, directory, names)
        differing = {name for name in found.keys() | self.said.keys() if found.get(name) != self.said.get(name)}
        return {
            name for name in differing if _is_stamped(name) and (name in found or not name.endswith(paths.SNAPSHOT))
        }

    def has_left(self, files: Files, path: str, name: str) -> bool:
        """Whether the stop left a file of this name and size. OSError: the disk refused."""
        return name in self.said and self.said[name] == files.size(path)


def _stamps(files: Files, directory: str, names: Iterable[str]) -> dict[str, Stamp]:
    """Return the stamps of a log's files by name. Reads only files whose damage nothing else would reveal."""
    found: dict[str, Stamp] = {}
    for name in names:
        if _is_stamped(name):
            path = paths.join(directory, name)
            if name.endswith(_READ_WHOLE) or name == paths.LEADER_EPOCH_CHECKPOINT:
                file = files.open(path)
                try:
                    found[name] = [file.size(), crc32c(file.read_at(0, file.size()))]
                finally:
                    file.close()
            else:
                found[name] = files.size(path)
    return found


def _is_stamped(name: str) -> bool:
    parsed = paths.parse_segment_name(name)
    return not parsed.suffix if parsed else name == paths.LEADER_EPOCH_CHECKPOINT
