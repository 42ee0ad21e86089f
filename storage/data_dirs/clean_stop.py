"""What a clean stop says of a data directory: that all of it is whole, and what its files were like.

    .kafka_cleanshutdown    {"version": 0, "brokerEpoch": -1, "logs": {"orders-0": {
                                "start": 17,                                      log start offset
                                "00000000000000000000.log": 1048403,              bytes
                                "00000000000000000000.index": 2048,
                                "00000000000000000000.timeindex": 3072,
                                "00000000000000000000.txnindex": [34, 2774871],   bytes, CRC-32C
                                "00000000000000004711.snapshot": [102, 991823],
                                "leader-epoch-checkpoint": [8, 310449]}, ...}}

What it is for that a start looks at the files of each log stands in `logs.stopped_log`.

That the mark is there is what counts, as in Apache Kafka, which reads the epoch alone and passes over the rest; one that
it has written says nothing of files. Who changes a log while no broker runs takes it out of the mark first (`forget`).
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
    """A mark that was found. False if there was none."""

    is_clean: bool
    logs: Mapping[str, Any] = NOTHING_SAID

    def __bool__(self) -> bool:
        return self.is_clean

    def log(self, directory_name: str) -> StoppedLog:
        """What it says of one."""
        said = self.logs.get(directory_name)
        return StoppedLog(said if isinstance(said, dict) else {})


def write(files: Files, data_dir: str, logs: Iterable[LogReader]) -> None:
    """Say that all logs of this directory were closed properly. The last write of a clean stop.

    Args:
        logs: Those in it, closed.
    """
    said = {
        str(log.topic_partition): StoppedLog.of(log.files, log.directory, log.log_start_offset).said for log in logs
    }
    # The epoch is a number that KRaft controllers compare; -1 is "unknown", as without one.
    _write(files, data_dir, {"version": 0, "brokerEpoch": -1, _LOGS: said})


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
