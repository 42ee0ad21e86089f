"""The logs found in a data directory, their limit for cleaning, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.pipeline.errors import CorruptSourceError, PipelineError, SourceChangedError, UsageError
from ottla.pipeline.source import reading
from ottla.pipeline.stores.reading_files import ReadingFiles
from ottla.pipeline.stores.store import Store
from ottla.pipeline.stores.stored_log import StoredLog, open_log
from ottla.storage.cleaning.dirtiness import dirtiness_of
from ottla.storage.data_dirs import clean_stop
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import MetaProperties, OffsetCheckpoint, write_meta_properties
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.topics.catalog import Catalog
from ottla.storage.topics.catalog_file import CLUSTER_DEFAULT, CatalogState, PartitionEntry, TopicEntry
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles
from support.logs.make_log import DAY_MS, TP, Producer, append, flush_sealed, make_log

DATA_DIR = "/data"
NOW_MS = 2_000


def stopped(*, catalog: bool = True, is_clean: bool = True, open_txn: bool = False) -> CrashFiles:
    """Return a directory with a log of batches at offsets 0 to 3, a segment each, after a stop; the last one is active."""
    files = CrashFiles()
    log = make_log(files)
    for number in range(4):
        if open_txn and number == 1:
            Producer(log, 1, transactional=True).write("k")
            log.roll(NOW_MS)
        else:
            append(log, ("k", str(number)), roll=number < 3)
    log.close(NOW_MS)
    if catalog:
        put_catalog(files, {"cleanup.policy": "compact"})
    if is_clean:
        clean_stop.write(files, DATA_DIR, [])
    return files


def put_catalog(files: CrashFiles, configs: dict[str, str], broker: dict[str, str] | None = None) -> None:
    entry = TopicEntry(TP.topic, bytes(range(16)), (PartitionEntry((0,), 0),), configs)
    Catalog.create(files, DATA_DIR, CatalogState("c", {TP.topic: entry}, {CLUSTER_DEFAULT: broker or {}}))


def put_checkpoint(files: CrashFiles, name: str, offset: int) -> None:
    OffsetCheckpoint(files, f"{DATA_DIR}/{name}").write({TP: offset})


@contextmanager
def opened(files: CrashFiles) -> Iterator[StoredLog]:
    with open_log(Store(DATA_DIR, files), TP, now_ms=NOW_MS, pause=lambda: None) as log:
        yield log


def upper(files: CrashFiles) -> int:
    """Return the end of a pass."""
    with opened(files) as log:
        return dirtiness_of(log, 0, NOW_MS).upper_offset


def test_a_log_is_found_as_the_server_left_it() -> None:
    files = stopped()
    put_checkpoint(files, paths.CLEANER_CHECKPOINT, 2)
    put_checkpoint(files, paths.LOG_START_CHECKPOINT, 1)
    before = files.snapshot()
    with opened(files) as log:
        assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3]
        assert (log.log_start_offset, log.log_end_offset, log.cleaner_checkpoint) == (1, 4, 2)
        assert log.config.is_compact
        descriptors = [segment.log_file for segment in log.segments]
    assert files.snapshot() == before
    for file in descriptors:
        with pytest.raises(OSError):
            file.read_at(0, 1)


def test_producers_come_from_newest_snapshot_and_later_records_without_cleanup() -> None:
    files = stopped(open_txn=True)
    damaged = paths.snapshot_path(f"{DATA_DIR}/{TP}", 4)
    files.open(damaged).append(b"\0")
    with opened(files) as log:
        assert {state.producer_id: state.last_data_offset for state in log.producers} == {1: 1}
    assert files.exists(damaged)


def test_a_pass_ends_below_the_unconfirmed_records() -> None:
    assert upper(stopped()) == 3
    assert upper(stopped(open_txn=True)) == 1
    crashed = stopped(is_clean=False)
    assert upper(crashed) == 0
    put_checkpoint(crashed, paths.RECOVERY_POINT_CHECKPOINT, 2)
    lose_index(crashed, 2)
    assert upper(crashed) == 2
    kafkas = stopped(catalog=False)
    put_checkpoint(kafkas, paths.REPLICATION_CHECKPOINT, 2)
    assert upper(kafkas) == 2


def test_configs_combine_caller_topic_and_broker_in_this_order() -> None:
    files = CrashFiles()
    files.make_dir(DATA_DIR)
    put_catalog(
        files, {"cleanup.policy": "compact"}, {"log.retention.hours": "2", "log.cleaner.delete.retention.ms": "5"}
    )
    config = Store(DATA_DIR, files).config_of(TP.topic, {"segment.bytes": "2000000"})
    assert (config.cleanup_policy, config.segment_bytes) == (("compact",), 2_000_000)
    assert (config.retention_ms, config.delete_retention_ms) == (2 * 3_600_000, 5)


EXPIRATION = "producer.id.expiration.ms"
EXPIRATIONS: dict[str, tuple[dict[str, dict[str, str]], dict[str, str], int]] = {
    "the default": ({}, {}, DAY_MS),
    "all nodes'": ({CLUSTER_DEFAULT: {EXPIRATION: "5000"}}, {}, 5_000),
    "the node's own": ({CLUSTER_DEFAULT: {EXPIRATION: "5000"}, "3": {EXPIRATION: "6000"}}, {}, 6_000),
    "another node's": ({"4": {EXPIRATION: "6000"}}, {}, DAY_MS),
    "one that no server takes": ({CLUSTER_DEFAULT: {EXPIRATION: "0"}}, {}, DAY_MS),
    "the caller's": ({CLUSTER_DEFAULT: {EXPIRATION: "5000"}}, {EXPIRATION: "7000"}, 7_000),
}


@pytest.mark.parametrize("name", EXPIRATIONS)
def test_producers_expire_as_in_the_server(name: str) -> None:
    """A plan keeps for producers what a pass of the server would keep at that time."""
    stored, given, expected = EXPIRATIONS[name]
    files = CrashFiles()
    log = make_log(files, producer_expiration_ms=expected)
    Producer(log, 7).write("k")
    append(log, ("k", "2"), roll=True)
    Producer(log, 8, now_ms=4_000).write("z")
    log.roll(4_000)
    entry = TopicEntry(TP.topic, bytes(range(16)), (PartitionEntry((0,), 0),), {"cleanup.policy": "compact"})
    Catalog.create(files, DATA_DIR, CatalogState("c", {TP.topic: entry}, stored))
    write_meta_properties(files, DATA_DIR, MetaProperties(cluster_id="c", node_id=3, directory_id=None))
    put_checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT, log.log_end_offset)
    store = Store(DATA_DIR, files)
    expiration_ms = store.producer_expiration_ms(given)
    assert expiration_ms == expected
    assert store.config_of(TP.topic, given).is_compact
    for now_ms in (0, 5_000, 1_000 + expected - 1, 1_000 + expected, 4_000 + expected):
        with open_log(store, TP, now_ms=now_ms, producer_expiration_ms=expiration_ms) as found:
            log.producers.expire(now_ms)
            assert found.producers.last_records() == log.producers.last_records()


def test_an_invalid_expiration_is_refused() -> None:
    with pytest.raises(UsageError, match=r"producer\.id\.expiration\.ms: expected a number from 1 .*, found 'soon'"):
        Store(DATA_DIR, stopped()).producer_expiration_ms({EXPIRATION: "soon"})


def test_a_torn_tail_is_legal_in_the_last_segment() -> None:
    files = stopped(is_clean=False)
    put_checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT, 3)
    files.open(paths.log_path(f"{DATA_DIR}/{TP}", 3)).append(b"\0" * 70)
    with opened(files) as log:
        assert log.log_end_offset == 4


def test_a_running_pass_is_not_damage() -> None:
    files = stopped(is_clean=False)
    put_checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT, 4)
    for kind in paths.SEGMENT_KINDS:
        files.open(paths.segment_path(f"{DATA_DIR}/{TP}", 0, kind, paths.CLEANED), create=True)
    assert upper(files) == 3


def test_jobs_on_a_log_wait_for_a_running_swap() -> None:
    files = stopped()
    path = paths.log_path(f"{DATA_DIR}/{TP}", 0)
    leave_swap(files)
    pauses = []

    def pause() -> None:
        pauses.append(1)
        if len(pauses) == 3:
            files.rename(path + paths.SWAP, path)

    with open_log(Store(DATA_DIR, files), TP, now_ms=NOW_MS, pause=pause) as log:
        assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3]
    assert len(pauses) == 3


def leave_swap(files: CrashFiles) -> None:
    path = paths.log_path(f"{DATA_DIR}/{TP}", 0)
    files.rename(path, path + paths.SWAP)


def lose_index(files: CrashFiles, base_offset: int = 1) -> None:
    files.remove(paths.offset_index_path(f"{DATA_DIR}/{TP}", base_offset))


def break_catalog(files: CrashFiles) -> None:
    files.open(f"{DATA_DIR}/{paths.CATALOG_FILE}").append(b"}")


def break_checkpoint(files: CrashFiles) -> None:
    files.open(f"{DATA_DIR}/{paths.LOG_START_CHECKPOINT}", create=True).append(b"7\n")


def break_epochs(files: CrashFiles) -> None:
    files.open(f"{DATA_DIR}/{TP}/leader-epoch-checkpoint", create=True, truncate=True).append(b"7\n0\n")


def lose_segments(files: CrashFiles) -> None:
    for base in range(4):
        files.remove(paths.log_path(f"{DATA_DIR}/{TP}", base))


REFUSED: tuple[tuple[Callable[[CrashFiles], None], type[PipelineError], str], ...] = (
    (
        leave_swap,
        SourceChangedError,
        f"{DATA_DIR}/{TP}/{0:020}.log.swap: a swap is in progress, or was left by a server",
    ),
    (lose_index, CorruptSourceError, f"{DATA_DIR}/{TP}/{1:020}.index is missing"),
    (break_catalog, CorruptSourceError, f"{DATA_DIR}/ottla.json: invalid catalog"),
    (break_epochs, CorruptSourceError, f"{DATA_DIR}/{TP}/leader-epoch-checkpoint, line 1: "),
    (break_checkpoint, CorruptSourceError, f"{DATA_DIR}/log-start-offset-checkpoint, line 1: unknown version"),
    (lose_segments, UsageError, f"{DATA_DIR}/{TP} has no segments"),
)


@pytest.mark.parametrize(("damage", "error", "text"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_an_unreadable_directory_is_refused(
    damage: Callable[[CrashFiles], None], error: type[PipelineError], text: str
) -> None:
    files = stopped()
    damage(files)
    with pytest.raises(error) as raised, opened(files):
        pass
    assert text in str(raised.value)


def test_a_missing_directory_is_reported() -> None:
    files = stopped()
    store = Store(DATA_DIR, files)
    assert store.topic_partitions() == store.topic_partitions(TP.topic) == [TP]
    with pytest.raises(UsageError, match=r"^/data has no log of t-7$"):
        store.topic_partitions(TP.topic, 7)
    with (
        pytest.raises(UsageError, match=r"^/data has no log of other-0$"),
        open_log(store, TopicPartition("other", 0), now_ms=0),
    ):
        pass
    with pytest.raises(UsageError, match=r"is not a directory$"):
        Store("/nowhere", files)


def test_files_opened_for_reading_cannot_be_changed(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    Path(path).write_bytes(b"x")
    files = ReadingFiles()
    file = files.open(path)
    assert file.read_at(0, 9) == b"x"
    for change in (
        lambda: file.append(b"y"),
        lambda: files.open(path, create=True),
        lambda: files.rename(path, path + "2"),
        lambda: files.remove(path),
        lambda: files.link(path, path + "2"),
        lambda: files.make_dir(path + "2"),
        lambda: files.remove_dir(str(tmp_path)),
        lambda: files.set_mtime_ms(path, 0),
    ):
        with pytest.raises(OSError):
            change()
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def live(*, marks: Callable[[Producer], int], flushes: bool) -> tuple[CrashFiles, Log]:
    """Return a running server's directory.

    A transaction in the second of three sealed segments has its marker in the active one.
    """
    files = CrashFiles()
    log = make_log(files)
    append(log, ("k", "committed"), roll=True)
    producer = Producer(log, 7, transactional=True)
    producer.write(("k", "undecided"))
    log.roll(NOW_MS)
    append(log, ("z", "1"), roll=True)
    flush_sealed(log, 0)
    marks(producer)
    if flushes:
        log.flush(0)
    append(log, ("z", "2"))
    put_catalog(files, {"cleanup.policy": "compact"})
    put_checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT, log.recovery_point)
    return files, log


@pytest.mark.parametrize("is_torn", [False, True])
@pytest.mark.parametrize("marks", [Producer.abort, Producer.commit])
def test_aborted_transactions_indexed_only_in_a_servers_memory_are_found(
    marks: Callable[[Producer], int], is_torn: bool
) -> None:
    """An aborted value must not supersede a committed one: a plan has the same aborted transactions as the server."""
    files, log = live(marks=marks, flushes=True)
    if is_torn:
        files.open(log.segments.active.file_paths()[0]).append(b"torn")
    assert upper(files) == 3
    with opened(files) as found:
        assert found.aborted_transactions(0, 3) == log.aborted_transactions(0, 3)
        assert len(found.aborted_transactions(0, 3)) == (marks is Producer.abort)


@pytest.mark.parametrize("marks", [Producer.abort, Producer.commit])
def test_a_marker_that_a_power_loss_may_delete_decides_nothing(marks: Callable[[Producer], int]) -> None:
    assert upper(live(marks=marks, flushes=False)[0]) == 1


def test_aborted_transactions_of_unconfirmed_segments_are_found_without_their_indexes() -> None:
    files = stopped(is_clean=False)
    log = make_log(files, recovery_point=0)
    producer = Producer(log, 7, transactional=True)
    producer.write("k")
    log.roll(NOW_MS)
    producer.abort()
    log.roll(NOW_MS)
    append(log, ("z", "2"))
    expected = log.aborted_transactions(0, 100)
    assert expected
    put_checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT, 4)
    files.remove(paths.txn_index_path(log.directory, 5))
    with opened(files) as found:
        assert found.aborted_transactions(0, 100) == expected


def second_directory() -> CrashFiles:
    """Return one of a running server's two data directories: the other one has the catalog."""
    files = stopped(catalog=False)
    one, other = bytes(range(16)), bytes(range(1, 17))
    write_meta_properties(
        files, DATA_DIR, MetaProperties(cluster_id="c", node_id=1, directory_id=one, catalog_id=other)
    )
    put_checkpoint(files, paths.REPLICATION_CHECKPOINT, 2)  # of a minute ago
    return files


def test_complete_batches_count_as_committed_in_every_directory_of_our_server(tmp_path: Path) -> None:
    """The checkpoint of high watermarks lags behind a running server: acknowledged records would be missing."""
    files = second_directory()
    with open_log(Store(DATA_DIR, files), TP, now_ms=NOW_MS, config=LogConfig(cleanup_policy=("compact",))) as log:
        assert dirtiness_of(log, 0, NOW_MS).upper_offset == 3
    for path, data in files.snapshot().items():
        target = tmp_path / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    with reading.LogReader(Store(str(tmp_path / "data")), committed=True).opened(TP) as read:
        assert read.end_offset == 4


def test_configs_in_another_data_directory_must_be_given() -> None:
    store = Store(DATA_DIR, second_directory())
    with pytest.raises(UsageError, match=r"ottla\.json is in another one of the server's data directories"):
        store.config_of(TP.topic, {"delete.retention.ms": "5"})
    given = store.config_of(TP.topic, {"cleanup.policy": "compact", "delete.retention.ms": "5"})
    assert (given.is_compact, given.delete_retention_ms) == (True, 5)
