"""Loading of a data directory's logs at a start: opened, recovered if not closed, and checkpointed if recovery cut one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..disk import paths
from ..disk.health import DataDirectoryError
from ..disk.paths import MovingDir, TopicPartition
from ..logs.log_parts import ShutdownState
from ..topics.config import LogConfig
from .data_dir import DataDir
from .log_table import LogTable
from .opener import LogOpener
from .partition_dirs import topic_id_in

ConfigFor: TypeAlias = Callable[[TopicPartition], LogConfig | None]
"""Returns the configuration of a partition; None if its directory must be left alone."""


@dataclass(slots=True)
class Loading:
    """Loads all data directories at one start, one after the other."""

    opener: LogOpener
    logs: LogTable
    """The table of open logs, which gets the loaded ones."""
    config_for: ConfigFor
    now_ms: int
    elapsed_ms: int
    topic_id_of: Callable[[str], bytes] | None = None
    """Returns the ID of a topic by name, if the caller has checked that all its directories have it. None: read each one."""
    was_clean: bool = True
    """Whether the last stop of all directories so far was clean."""
    _copies: dict[TopicPartition, tuple[str, bytes | None]] = field(default_factory=dict)
    """Copies of interrupted moves: the data directory and the topic ID of each."""
    removable: list[str] = field(default_factory=list)
    """Directories of deleted partitions, and copies of interrupted moves."""

    def load(self, data_dir: DataDir) -> None:
        """Open every log of a directory.

        Raises:
            DataDirectoryError: A partition is in another directory also.
            OSError, KafkaError: A log cannot be read.
        """
        files, note, logs = self.opener.files, self.opener.note, self.logs
        stop = data_dir.take_clean_stop()
        self.was_clean = self.was_clean and bool(stop)
        recovery_points = data_dir.read_offsets(paths.RECOVERY_POINT_CHECKPOINT, note)
        log_starts = data_dir.read_offsets(paths.LOG_START_CHECKPOINT, note)
        loaded = []
        for name in files.list(data_dir.path):
            directory = paths.join(data_dir.path, name)
            found = paths.parse_partition_dir(name)
            if found is None or not files.is_dir(directory):
                continue
            if isinstance(found, MovingDir):
                self._pass_over(data_dir, directory, found)
                continue
            if found.topic == paths.CLUSTER_METADATA_TOPIC:
                continue
            if found in logs:
                raise DataDirectoryError(f"{found} is in both {logs[found].data_dir} and {data_dir.path}")
            config = self.config_for(found)
            if config is None:
                if found in log_starts:
                    data_dir.not_served[found] = log_starts[found]
                note(f"ignoring {directory}: not a log of a topic")
                continue
            log = self.opener.open(
                data_dir,
                found,
                config,
                self.now_ms,
                self.elapsed_ms,
                ShutdownState(bool(stop), recovery_points.get(found, 0), log_starts.get(found, 0), stop.log(name)),
                topic_id=topic_id_in(files, directory, note)
                if self.topic_id_of is None
                else self.topic_id_of(found.topic),
            )
            if log.needs_flush:
                # A process may have died before it synced these records. Consumers will read them, so they are synced now.
                log.flush(self.elapsed_ms)
            loaded.append(log)
        logs.add(loaded)
        if not stop or not all(
            recovery_points.get(log.topic_partition) == log.recovery_checkpoint
            and log_starts.get(log.topic_partition, log.segments.first.base_offset) == log.log_start_offset
            for log in loaded
            if not log.is_left_alone
        ):
            # If recovery has cut a log, the old checkpoint is beyond its end, and would later be wrong about the records
            # appended next.
            data_dir.checkpoint_recovery_points(logs)
            data_dir.checkpoint_log_starts(logs)

    def _pass_over(self, data_dir: DataDir, directory: str, found: MovingDir) -> None:
        is_known = self.config_for(found.topic_partition) is not None
        if found.role == "future" and is_known:
            topic_id = topic_id_in(self.opener.files, directory, self.opener.note)
            self._copies[found.topic_partition] = data_dir.path, topic_id
        if found.role == "delete" or (found.role == "future" and is_known):
            self.removable.append(directory)
        else:
            self.opener.note(f"ignoring {directory}: not a log of this broker ({found.role})")

    def interrupted_moves(self) -> dict[TopicPartition, str]:
        """Return partitions whose move to another data directory was interrupted, and the target. Call it after all loads.

        If a topic was deleted and created again, a copy of the old one does not count.
        """
        return {
            where: data_dir
            for where, (data_dir, topic_id) in self._copies.items()
            if (log := self.logs.get(where)) is None or topic_id is None or log.topic_id in {None, topic_id}
        }
