"""The logs of a data directory at a stop: all closed that can be, checkpoints, and the mark of a clean stop."""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.errors import KafkaError
from ..disk.files import OfEach
from ..logs.log import Log
from .data_dir import DataDir
from .log_table import LogTable


def close_dir(data_dir: DataDir, logs: LogTable, now_ms: int, of_each: OfEach, note: Callable[[str], None]) -> None:
    """Close what can be closed: a log that cannot must cost the others no more than the mark of a clean stop."""

    def close(log: Log) -> bool:
        if data_dir.health.failure is not None:
            return False
        try:
            log.close(now_ms)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this log's
            note(f"cannot close {log.topic_partition}: {_text(error)}")
            return False
        return True

    mine = [log for log in logs.values() if log.data_dir == data_dir.path and not log.is_left_alone]
    is_clean = all(list(of_each(close, mine)))
    if data_dir.health.failure is not None:
        return
    try:
        data_dir.checkpoint_recovery_points(logs)
        data_dir.checkpoint_log_starts(logs)
        data_dir.checkpoint_high_watermarks(logs)
        if is_clean:
            data_dir.mark_clean(logs)
    except Exception as error:  # noqa: BLE001 - the other directories are to be closed, and all to be given back
        note(f"cannot close data directory {data_dir.path}: {_text(error)}")


def _text(error: Exception) -> str:
    return error.message if isinstance(error, KafkaError) else str(error) or type(error).__name__
