"""What a clean stop says of a data directory: that all of it is whole, and what its files were like.

    .kafka_cleanshutdown    {"version": 0, "brokerEpoch": -1, "logs": {"orders-0": {
                                "start": 17,                                      log start offset
                                "00000000000000000000.log": 1048403,              bytes
                                "00000000000000000000.index": 2048,
                                "00000000000000000000.timeindex": 3072,
                                "00000000000000000000.txnindex": [34, 2774871],   bytes, CRC-32C
                                "00000000000000004711.snapshot": [102, 991823],
                                "leader-epoch-checkpoint": [8, 310449]}, ...}}

After a clean stop nothing is scanned, and what the small files say cannot be seen in the log: an index of aborted
transactions that lost its entries makes their records look committed. So a start looks whether the files still are what
the stop has left; sizes alone where reading would take long. What differs is made anew from the log.

That the mark is there is what counts, as in Apache Kafka, which reads the epoch alone and passes over the rest; one that
it has written says nothing of files. Who changes a log while no broker runs takes it out of the mark first (`forget`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c

from ..disk import paths
from ..disk.checkpoints import read_text, write_atomically
from ..disk.files import Files
from .log_reader import LogReader

_LOGS = "logs"
_START = "start"
_READ_WHOLE = (paths.TXN_INDEX, paths.SNAPSHOT)

Stamp = int | list[int]
"""Bytes of a file, or bytes and CRC-32C."""


@dataclass(frozen=True, slots=True)
class StoppedLog:
    """What a log was like at a clean stop. Says nothing if it is not known."""

    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def log_start_offset(self) -> int:
        start = self.said.get(_START)
        return start if isinstance(start, int) and 0 <= start <= paths.OFFSET_MAX else 0

    def changed(self, files: Files, directory: str, names: Iterable[str]) -> set[str]:
        """Names of files that are missing, new, or not what they were; snapshots that are gone do no harm.

        Args:
            names: All that are in the directory now.

        Raises:
            OSError: The disk refused.
        """
        if not self.said:
            return set()
        found = stamps(files, directory, names)
        differing = {name for name in found.keys() | self.said.keys() if found.get(name) != self.said.get(name)}
        return {
            name for name in differing if _is_stamped(name) and (name in found or not name.endswith(paths.SNAPSHOT))
        }


@dataclass(frozen=True, slots=True)
class CleanStop:
    """A mark that was found. False if there was none."""

    is_clean: bool
    logs: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.is_clean

    def log(self, directory_name: str) -> StoppedLog:
        """What it says of one."""
        said = self.logs.get(directory_name)
        return StoppedLog(said if isinstance(said, dict) else {})


def stamps(files: Files, directory: str, names: Iterable[str]) -> dict[str, Stamp]:
    """What the files of a log are like, by name. Reads those whose content nothing else can tell."""
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


def write(files: Files, data_dir: str, logs: Iterable[LogReader], broker_epoch: int = -1) -> None:
    """Say that all logs of this directory were closed properly. The last write of a clean stop.

    Args:
        logs: Those in it, closed.
        broker_epoch: A number that KRaft controllers compare; -1 is "unknown", as without one.
    """
    said = {str(log.topic_partition): _said_of(log) for log in logs}
    _write(files, data_dir, {"version": 0, "brokerEpoch": broker_epoch, _LOGS: said})


def _said_of(log: LogReader) -> dict[str, Stamp]:
    return {_START: log.log_start_offset, **stamps(log.files, log.directory, log.files.list(log.directory))}


def _write(files: Files, data_dir: str, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, separators=(",", ":"))
    write_atomically(files, paths.join(data_dir, paths.CLEAN_SHUTDOWN_FILE), text)


def take(files: Files, data_dir: str) -> CleanStop:
    """Whether the last stop was clean; from now on, until the next `write`, it is not.

    The removal of the mark is on disk on return: one that came back after a power loss would make the next start skip
    recovery.
    """
    path = paths.join(data_dir, paths.CLEAN_SHUTDOWN_FILE)
    if not files.exists(path):
        return CleanStop(False)
    logs = _read(files, path).get(_LOGS)
    files.remove(path)
    files.sync_dir(data_dir)
    return CleanStop(True, logs if isinstance(logs, dict) else {})


def forget(files: Files, data_dir: str, directory_name: str) -> None:
    """Whoever changes this log now does so on purpose: the next start is not to wonder. Under the directory's lock."""
    path = paths.join(data_dir, paths.CLEAN_SHUTDOWN_FILE)
    if files.exists(path):
        content = _read(files, path)
        logs = content.get(_LOGS)
        if isinstance(logs, dict) and logs.pop(directory_name, None) is not None:
            _write(files, data_dir, content)


def _read(files: Files, path: str) -> dict[str, Any]:
    """What a mark holds; nothing if that makes no sense, or it is another user's."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(read_text(files, path))
        if isinstance(content, dict):
            return content
    return {}
