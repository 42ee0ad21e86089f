"""Renames of a log's files in a worker thread while the owning thread reads: no read shows them."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from itertools import count

import pytest

from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.disk import paths
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.logs.log import Log
from ottla.storage.logs.retention import deletable_segments
from ottla.storage.segment.index import AbortedTxn, TransactionIndex
from ottla.storage.segment.segment import LogSegment
from ottla.storage.steps import to_the_end
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT
from support.logs.make_log import append, append_marker, make_log, reopen
from support.sizes import size

PATIENCE_S = 60


class WatchedFiles(CrashFiles):
    """A disk that calls back before and after each change of names that another thread may see."""

    def __init__(self) -> None:
        super().__init__()
        self.watch: Callable[[], None] = lambda: None

    def rename(self, old: str, new: str) -> None:
        self.watch()
        super().rename(old, new)
        self.watch()

    def sync_dir(self, path: str) -> None:
        super().sync_dir(path)
        self.watch()


def filled(timestamp: int) -> Log:
    """Return a log with sealed segments of two records each, the last one of an aborted transaction."""
    log = make_log(WatchedFiles(), index_interval_bytes=0, cleanup_policy=("compact", "delete"), retention_ms=10**15)
    for number in range(3):
        for key in ("k", "l"):
            append(log, (key, str(number)), timestamp=timestamp)
        log.roll(0)
    append(log, ("x", "y"), timestamp=timestamp, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append_marker(log, ABORT, 7)
    log.roll(0)
    return log


def answers(log: Log) -> list[object]:
    """Return the results of all queries to a log."""
    end = log.log_end_offset
    return [
        to_the_end(log.search_timestamp(2_000)),
        to_the_end(log.search_timestamp(0)),
        to_the_end(log.search_max_timestamp()),
        [log.aborted_transactions(offset, end) for offset in range(0, end, 2)],
        [log.read(offset, max_bytes=1, up_to=end).read() for offset in range(end)],
        [segment.largest_timestamp_ms for segment in log.segments],
        measure(log, 0, 5_000).cleanable_bytes,
        len(deletable_segments(log, 5_000)),
    ]


def copied(sources: Log, log: Log) -> LogSegment:
    """Return a cleaned segment in which nothing was superseded."""
    new = LogSegment.create(log.files, log.directory, 0, log.config, 0, paths.CLEANED)
    for segment in sources.segments.non_active():
        for _, batch in segment.batches():
            last, timestamp = batch.last_offset, batch.max_timestamp
            new.append(batch.view, last_offset=last, max_timestamp_ms=timestamp, max_timestamp_offset=last)
        for txn in segment.txn_index.entries():
            new.txn_index.append(txn)
    new.on_roll()
    return new


@pytest.mark.parametrize("timestamp", [-1, 1_000])
def test_a_log_answers_during_a_swap_as_before(timestamp: int) -> None:
    for chosen in count():  # the moment of the first read
        last = chosen + size(2, 10**9) if chosen else 10**9
        written = filled(timestamp)
        expected = answers(written)
        log = reopen(written)  # no index is in memory
        files, moments = log.files, 0
        assert isinstance(files, WatchedFiles)
        new = copied(written, log)

        def look(log: Log = log, expected: list[object] = expected, asked: range = range(chosen, last)) -> None:
            nonlocal moments
            if moments in asked:
                assert answers(log) == expected
            moments += 1

        files.watch = look
        old = log.segments.non_active()
        log.prepare_swap([new], old)
        files.watch = lambda: None
        log.commit_swap([new], old, 0)
        assert log.failure is None
        if chosen > moments:
            break
    assert chosen > 20


class SlowFiles(OsFiles):
    """A disk on which a lookup in the first thread waits until the second thread has renamed the file, or cannot."""

    def __init__(self) -> None:
        self.asked, self.renamed = threading.Event(), threading.Event()
        self.asking = threading.current_thread()

    def exists(self, path: str) -> bool:
        if threading.current_thread() is self.asking:
            self.asked.set()
            self.renamed.wait(0.1)
        return super().exists(path)


def test_an_index_renamed_while_it_loads_is_not_taken_for_empty(tmp_path: object) -> None:
    """Otherwise aborted records would be shown as committed."""
    path, txn = f"{tmp_path}/0.txnindex", AbortedTxn(7, 0, 1, 2)
    written = TransactionIndex(OsFiles(), path, 0)
    written.append(txn)
    written.flush(sync=False)
    files = SlowFiles()
    index = TransactionIndex(files, path, 0)

    def rename() -> None:
        assert files.asked.wait(PATIENCE_S)
        index.sanity_check()
        index.rename(f"{path}.deleted")
        files.renamed.set()

    renaming = threading.Thread(target=rename)
    renaming.start()
    found, _ = index.collect_aborted(0, 2)
    renaming.join(PATIENCE_S)
    assert list(found) == [txn] == index.entries()


def test_a_missing_name_takes_no_directory_offline() -> None:
    log = make_log()
    log.fail(FileNotFoundError(errno.ENOENT, "no such file"))
    assert log.failure is None
