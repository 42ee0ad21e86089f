"""Mark of a clean stop in a data directory: it means that all files are complete, and has their sizes and CRCs.

    .kafka_cleanshutdown    {"version": 0, "brokerEpoch": -1, "logs": {"orders-0": {
                                "start": 17,                                      log start offset
                                "00000000000000000000.log": 1048403,              bytes
                                "00000000000000000000.index": 2048,
                                "00000000000000000000.timeindex": 3072,
                                "00000000000000000000.txnindex": [34, 2774871],   bytes, CRC-32C
                                "00000000000000004711.snapshot": [102, 991823],
                                "leader-epoch-checkpoint": [8, 310449]}, ...}}

`logs.stopped_log` explains why a start checks the files of each log.

The existence of the mark is what counts, as in Apache Kafka. Kafka reads only the epoch and ignores the rest; a mark that
Kafka has written lists no files. A tool that changes a log while no broker runs first removes the log from the mark (`forget`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ..disk import paths
from ..disk.checkpoints import read_text, write_atomically
from ..disk.files import Files
from ..logs.log_reader import LogReader
from ..logs.stopped_log import NOTHING_SAID, StoppedLog

_LOGS = "logs"


class CleanStop(NamedTuple):
    """A mark as found by a start. False if the mark was missing."""

    is_clean: bool
    logs: Mapping[str, Any] = NOTHING_SAID

    def __bool__(self) -> bool:
        return self.is_clean

    def log(self, directory_name: str) -> StoppedLog:
        """Return the part of the mark for one log."""
        said = self.logs.get(directory_name)
        return StoppedLog(said if isinstance(said, dict) else {})


def write(files: Files, data_dir: str, logs: Iterable[LogReader]) -> None:
    """Write the mark: all logs of this directory were closed properly. The last write of a clean stop.

    Args:
        logs: The logs in the directory, closed.
    """
    said = {
        str(log.topic_partition): StoppedLog.read(log.files, log.directory, log.log_start_offset).said for log in logs
    }
    # The epoch is a number that KRaft controllers compare; -1 means "unknown", as without a controller.
    _write(files, data_dir, {"version": 0, "brokerEpoch": -1, _LOGS: said})


def _write(files: Files, data_dir: str, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, separators=(",", ":"))
    write_atomically(files, paths.join(data_dir, paths.CLEAN_SHUTDOWN_FILE), text)


def take(files: Files, data_dir: str) -> CleanStop:
    """Read and remove the mark: whether the last stop was clean. The next stop is not, unless it calls `write`.

    The removal is on disk on return: if the mark came back after a power loss, the next start would skip recovery.
    """
    path = paths.join(data_dir, paths.CLEAN_SHUTDOWN_FILE)
    if not files.exists(path):
        return CleanStop(False)
    logs = _read(files, path).get(_LOGS)
    files.remove(path)
    files.sync_dir(data_dir)
    return CleanStop(True, logs if isinstance(logs, dict) else {})


def forget(files: Files, data_dir: str, directory_name: str) -> None:
    """Remove a log from the mark before a tool changes its files, so that the next start accepts them.

    The caller holds the directory's lock.
    """
    path = paths.join(data_dir, paths.CLEAN_SHUTDOWN_FILE)
    if files.exists(path):
        content = _read(files, path)
        logs = content.get(_LOGS)
        if isinstance(logs, dict) and logs.pop(directory_name, None) is not None:
            _write(files, data_dir, content)


def _read(files: Files, path: str) -> dict[str, Any]:
    """Return the content of a mark; empty if it is invalid or cannot be read, e.g. as another user owns it."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(read_text(files, path))
        if isinstance(content, dict):
            return content
    return {}
