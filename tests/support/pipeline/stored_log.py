"""The server's log as the pipeline opens it, after the server has stopped cleanly."""

from __future__ import annotations

from ottla.pipeline.stores.stored_log import StoredLog
from ottla.storage.disk.paths import OFFSET_MAX
from ottla.storage.logs.log import Log


def stored(log: Log, *, cleaner_checkpoint: int | None = None) -> StoredLog:
    return StoredLog(
        files=log.files,
        directory=log.directory,
        topic_partition=log.topic_partition,
        topic_id=log.topic_id,
        config=log.config,
        segments=log.segments,
        producers=log.producers,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        durable_end=OFFSET_MAX,
        cleaner_checkpoint=cleaner_checkpoint,
    )
