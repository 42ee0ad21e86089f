"""Opening of a log in a data directory: at a start, and when its partition is made."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from ..disk import paths
from ..disk.files import Files
from ..disk.health import Health
from ..disk.paths import TopicPartition
from ..logs.log import Log
from ..logs.log_parts import LogPlace, ShutdownState
from ..logs.recovery import load_log, offline_log, unmade_log
from ..segment.batch_scan import OldFormatError
from ..topics.config import LogConfig
from .data_dir import DataDir


class LogOpener:
    """Opens logs with the settings that all logs of a broker share."""

    def __init__(
        self, files: Files, rng: random.Random, note: Callable[[str], None], producer_expiration_ms: int
    ) -> None:
        self.files = files
        self.rng = rng
        self.note = note
        """Called with one line for each thing that was found broken and what was done about it."""
        self.producer_expiration_ms = producer_expiration_ms
        """`producer.id.expiration.ms`, for logs that are opened from now on."""

    def open(
        self,
        data_dir: DataDir,
        topic_partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        elapsed_ms: int,
        shutdown_state: ShutdownState,
        *,
        topic_id: bytes | None,
    ) -> Log:
        """Open the log in a partition's existing directory. Errors as for `load_log`.

        A log of an old format is offline, and its files are left unchanged.
        """
        directory = paths.join(data_dir.path, paths.partition_dir_name(*topic_partition))
        place = LogPlace(self.files, directory, topic_partition, topic_id, data_dir.health)
        try:
            log = load_log(
                place,
                config,
                shutdown_state,
                now_ms=now_ms,
                producer_expiration_ms=self.producer_expiration_ms,
                rng=self.rng,
                note=self.note,
            )
        except OldFormatError as error:
            self.note(error.message)
            log = offline_log(replace(place, health=Health(error.message, leaves_alone=True)), config)
            data_dir.not_served[topic_partition] = shutdown_state.log_start_offset
        log.last_flush_ms = elapsed_ms
        return log

    def promise(
        self,
        data_dir: DataDir,
        topic_partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        elapsed_ms: int,
        *,
        topic_id: bytes,
    ) -> Log:
        """Return an empty log whose directory does not exist yet."""
        directory = paths.join(data_dir.path, paths.partition_dir_name(*topic_partition))
        log = unmade_log(
            LogPlace(self.files, directory, topic_partition, topic_id, data_dir.health),
            config,
            now_ms=now_ms,
            producer_expiration_ms=self.producer_expiration_ms,
            rng=self.rng,
        )
        log.last_flush_ms = elapsed_ms
        return log
