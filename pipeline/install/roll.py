"""Rolling the active segment of a log in which no server works, so that a plan may include it.

After a clean stop everything is there that a roll leaves: whole indexes, and a snapshot of the producers at the log's end. So a
roll is an empty segment more, in a log that the clean stop then says nothing of.
"""

from __future__ import annotations

from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.disk.paths import TopicPartition
from ...storage.topics.config import LogConfig
from ..errors import UsageError
from ..stores.store import Store
from ..stores.stored_log import open_log
from .install import give, locked, take_out_of_mark


def roll(files: Files, store: Store, tp: TopicPartition, now_ms: int) -> int:
    """Close the active segment of `tp`, if it has records; returns the base offset of the one that is active then.

    Raises:
        StoreLockedError: A server holds the directory.
        UsageError: The server that was here last did not stop cleanly; only its next start knows where the log ends.
        PipelineError: As `open_log`.
        OSError: The disk refused; the log is as it was.
    """
    with locked(files, store.data_dir):
        if not store.is_clean:
            raise UsageError(
                f"{store.data_dir} was not stopped cleanly: --include-active wants that; start the server and stop it"
            )
        with open_log(store, tp, now_ms=now_ms, config=LogConfig()) as log:
            active = log.segments.active
            if active.size_bytes == 0:
                return active.base_offset
            end = log.log_end_offset
            owned = files.ownership(active.file_paths()[0])
        take_out_of_mark(files, store.data_dir, tp)
        path = paths.log_path(store.directory_of(tp), end)
        files.open(path, create=True).close()
        give(files, path, owned)
        files.sync_dir(store.directory_of(tp))
        return end
