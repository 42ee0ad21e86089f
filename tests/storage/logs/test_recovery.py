"""Opening a partition's directory after a clean stop, a crash, a half-done swap, and damage."""

import random
from collections.abc import Callable

import pytest

from ottla.protocol.errors import CorruptRecordError, KafkaError
from ottla.storage.disk import paths
from ottla.storage.logs.log import Log
from ottla.storage.logs.log_parts import LogPlace, ShutdownState
from ottla.storage.logs.recovery import load_log
from ottla.storage.logs.swap import finish_swaps
from ottla.storage.segment.index import AbortedTxn
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, COMMIT, batch, old_message
from support.logs.make_log import TP, append, append_marker, contents, make_log
from support.noted import each_case

DIRECTORY = "/data/t-0"


def load(
    files: CrashFiles,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    now_ms: int = 0,
    notes: list[str] | None = None,
    config: LogConfig = LogConfig(),  # noqa: B008
) -> Log:
    return load_log(
        LogPlace(files, DIRECTORY, TP),
        config,
        ShutdownState(clean, recovery_point, log_start_offset),
        now_ms=now_ms,
        note=notes.append if notes is not None else lambda _: None,
    )


def written(*, every: int = 3, count: int = 9, **fields: int) -> CrashFiles:
    """Return the disk of a closed log with `count` one-record batches, rolled after every `every`."""
    files = CrashFiles()
    log = make_log(files, index_interval_bytes=0)
    for number in range(count):
        append(log, (f"k{number}", "v"), roll=number % every == every - 1, **fields)
    log.close(0)
    return files


def names(files: CrashFiles, kind: str = "") -> list[str]:
    return [name for name in files.list(DIRECTORY) if kind in name]


def change(files: CrashFiles, name: str, edit: Callable[[bytearray], object]) -> None:
    """Edit a file's bytes without the log's knowledge."""
    file = files.open(f"{DIRECTORY}/{name}", create=True)
    data = bytearray(file.read_at(0, file.size()))
    edit(data)
    file.truncate(0)
    file.append(data)


def make(files: CrashFiles, *new_names: str) -> None:
    for name in new_names:
        files.open(f"{DIRECTORY}/{name}", create=True)


def offsets(log: Log) -> list[int]:
    return [offset for offset, _, _ in contents(log)]


def log_name(base: int) -> str:
    return f"{base:020}.log"


# Leftovers of swaps and deletions


def seg(base: int, suffix: str = "") -> list[str]:
    return [f"{base:020}{kind}{suffix}" for kind in (".index", ".log", ".timeindex")]


SWAPS: list[tuple[str, list[str], list[str]]] = [
    ("nothing unusual", [*seg(0), *seg(5)], [*seg(0), *seg(5)]),
    ("while writing", [*seg(0), *seg(5), *seg(0, ".cleaned")], [*seg(0), *seg(5)]),
    (
        "some files renamed to .swap",
        [*seg(0), *seg(5), "00000000000000000000.log.swap", "00000000000000000000.index.cleaned"],
        [*seg(0), *seg(5)],
    ),
    ("all renamed to .swap", [*seg(0), *seg(5), *seg(9), *seg(0, ".swap")], [log_name(0), *seg(9)]),
    (
        "old ones renamed to .deleted",
        [*seg(0, ".deleted"), *seg(5, ".deleted"), *seg(9), *seg(0, ".swap")],
        [log_name(0), *seg(9)],
    ),
    (
        "index files with their final names, of the old segment or the new one",
        ["00000000000000000000.log.swap", "00000000000000000000.index", "00000000000000000000.txnindex"],
        [log_name(0)],
    ),
    (
        "part of .swap renamed to its final name",
        [log_name(0), "00000000000000000000.index.swap", "00000000000000000000.timeindex.swap", *seg(0, ".deleted")],
        seg(0),
    ),
    ("finished", [*seg(0), *seg(0, ".deleted"), *seg(5, ".deleted"), *seg(9)], [*seg(0), *seg(9)]),
    (
        "several new ones, the first not renamed yet",
        [*seg(0), *seg(9), *seg(0, ".cleaned"), *seg(4, ".swap")],
        [*seg(0), *seg(9)],
    ),
    (
        "a .cleaned of another pass below it",
        [*seg(0), *seg(0, ".cleaned"), *seg(8, ".swap"), *seg(8, ".deleted"), *seg(16)],
        [*seg(0), log_name(8), *seg(16)],
    ),
    (
        "a .cleaned of another pass below it, whose segment is gone",
        [*seg(0, ".cleaned"), *seg(8, ".swap"), *seg(8), *seg(16)],
        [log_name(8), *seg(16)],
    ),
    (
        "a .cleaned of its base, with the log still to be renamed",
        [*seg(0), *seg(8), log_name(0) + ".cleaned", "00000000000000000000.index.swap"],
        [*seg(0), *seg(8)],
    ),
    (
        "snapshots and the transaction index in the range of the new segment",
        [
            *seg(0),
            *seg(0, ".swap"),
            "00000000000000000000.txnindex",
            "00000000000000000005.snapshot",
            "00000000000000000008.snapshot",
        ],
        [log_name(0), "00000000000000000008.snapshot"],
    ),
    (
        "of several new ones only the second renamed to its final name",
        [*seg(0, ".deleted"), *seg(0, ".swap"), *seg(8), *seg(12, ".swap")],
        [log_name(0), *seg(8), log_name(12)],
    ),
    (
        "several new ones, none with the old one's base",
        [*seg(1), *seg(4, ".swap"), *seg(8, ".swap")],
        [log_name(4), log_name(8)],
    ),
    (
        "other files",
        ["leader-epoch-checkpoint", "notes.txt", *seg(0, ".deleted")],
        ["leader-epoch-checkpoint", "notes.txt"],
    ),
]


def end_of(base: int, suffix: str) -> int:
    """Return the end offset of a segment in these cases: 8 offsets, or four if the cases have another four above."""
    return base + (4 if base in (4, 8, 12) else 8)


@pytest.mark.scenario(41, 123)
@each_case("before, after", [case[1:] for case in SWAPS], ids=[case[0] for case in SWAPS])
def test_a_partial_swap_is_completed_or_undone(before: list[str], after: list[str]) -> None:
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    for name in before:
        files.open(f"{DIRECTORY}/{name}", create=True)

    left = finish_swaps(files, DIRECTORY, end_of)

    assert left == names(files) == sorted(after)


def test_a_cleaned_file_below_an_unreadable_swap_undoes_nothing() -> None:
    """Passes fail on a damaged segment, which was therefore not split."""
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    make(files, *seg(0), *seg(0, ".cleaned"), *seg(8, ".swap"), *seg(8, ".deleted"))

    def next_offset_of(base: int, suffix: str) -> int:
        if base == 0:
            raise CorruptRecordError("damaged")
        return base + 8

    assert finish_swaps(files, DIRECTORY, next_offset_of) == sorted([*seg(0), log_name(8)])


def test_a_finished_swap_has_the_new_bytes() -> None:
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    for name, data in ((log_name(0), b"old"), (log_name(0) + ".swap", b"new")):
        files.open(f"{DIRECTORY}/{name}", create=True).append(data)
    finish_swaps(files, DIRECTORY, lambda base, _: 5)
    assert files.open(f"{DIRECTORY}/{log_name(0)}").read_at(0, 9) == b"new"


def test_an_empty_new_segment_removes_the_old_index_of_its_base() -> None:
    """Otherwise a transaction index of the old segment would be next to the new, empty log."""
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    make(files, log_name(0), "00000000000000000000.txnindex", log_name(5), log_name(0) + ".swap")
    assert finish_swaps(files, DIRECTORY, lambda base, _: base) == [log_name(0), log_name(5)]


def test_a_swap_is_completed_with_the_range_of_its_log() -> None:
    files = written(every=3, count=8)
    old = files.open(f"{DIRECTORY}/{log_name(0)}")
    swap = files.open(f"{DIRECTORY}/{log_name(0)}.swap", create=True)
    swap.append(old.read_at(0, old.size()))
    swap.append(batch(("k5", "v"), base_offset=5))
    log = load(files, clean=True)
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert offsets(log) == [0, 1, 2, 5, 6, 7]


# Scanning


@pytest.mark.scenario(110, 134)
def test_after_a_clean_stop_nothing_is_scanned() -> None:
    files = written()
    change(files, log_name(0), lambda data: data.__setitem__(-1, data[-1] ^ 1))
    notes: list[str] = []
    assert load(files, clean=True, notes=notes).log_end_offset == 9
    assert notes == []


@pytest.mark.scenario(190)
def test_after_a_crash_the_log_ends_before_the_first_damaged_byte() -> None:
    for at in (8, 16, 17, 21, 60, -1):
        files = written()
        change(files, log_name(3), lambda data, at=at: data.__setitem__(at, data[at] ^ 0x55))  # type: ignore[misc]
        notes: list[str] = []
        log = load(files, notes=notes)
        whole = 3 if at >= 0 else 5
        assert offsets(log) == list(range(whole)), at
        assert names(files, ".log") == [log_name(0), log_name(3)]
        assert len(notes) == 1 and "2 later segments" in notes[0]
        assert append(log, ("new", "v")) == whole


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("clean", [True, False], ids=["an index is missing", "after a crash"])
def test_records_of_an_old_format_are_refused_and_nothing_is_deleted(magic: int, clean: bool) -> None:
    files = written(every=3, count=6)
    log_file = f"{0:020}.log"
    change(files, log_file, lambda data: data.extend(old_message(magic, 3)))
    files.remove(f"{DIRECTORY}/{0:020}.index")
    logs = {path: data for path, data in files.snapshot().items() if path.endswith(".log")}
    with pytest.raises(KafkaError, match=f"record format v{magic}"):
        load(files, clean=clean)
    assert {path: data for path, data in files.snapshot().items() if path.endswith(".log")} == logs


@pytest.mark.parametrize("magic", [0, 1])
def test_a_torn_message_of_an_old_format_is_a_torn_tail(magic: int) -> None:
    files = written(every=9)
    whole = bytearray(files.snapshot()[f"{DIRECTORY}/{0:020}.log"])
    for cut in range(1, len(old_message(magic, 9))):
        change(files, f"{0:020}.log", lambda data: data.extend(old_message(magic, 9)[:-cut]))  # noqa: B023
        load(files)
        assert files.snapshot()[f"{DIRECTORY}/{0:020}.log"] == whole


def test_a_torn_tail_is_truncated_anywhere() -> None:
    whole = written(count=4)
    one = len(whole.snapshot()[f"{DIRECTORY}/{log_name(3)}"])
    for size in range(one):
        files = whole.copy()
        change(files, log_name(3), lambda data, size=size: data.__delitem__(slice(size, None)))  # type: ignore[misc]
        log = load(files, recovery_point=3)
        assert (log.log_end_offset, log.segments.active.size_bytes) == (3, 0)


@pytest.mark.scenario(137)
def test_records_below_the_recovery_point_are_not_scanned() -> None:
    def damaged() -> CrashFiles:
        files = written()
        change(files, log_name(0), lambda data: data.__setitem__(-1, data[-1] ^ 1))
        return files

    assert load(damaged(), recovery_point=3).log_end_offset == 9
    assert load(damaged(), recovery_point=2).log_end_offset == 2
    assert load(damaged(), recovery_point=9).recovery_point == 9
    assert load(damaged(), recovery_point=50).recovery_point == 9


def test_the_recovery_point_stays_until_a_flush() -> None:
    log = load(written(), recovery_point=4)
    assert log.recovery_point == 4
    log.flush(0)
    assert log.recovery_point == 9


@pytest.mark.scenario(124)
@each_case("seed", range(10))
def test_garbage_after_the_log_and_in_its_indexes_is_removed(seed: int) -> None:
    rng = random.Random(seed)
    files = written()
    for name in names(files):
        if name.endswith((".index", ".timeindex", ".txnindex")):
            change(files, name, lambda data: data.extend(rng.randbytes(rng.randrange(60))))
    change(files, log_name(9), lambda data: data.extend(rng.randbytes(1 + rng.randrange(200))))
    log = load(files)
    assert offsets(log) == list(range(9))
    for segment in log.segments.non_active():
        segment.sanity_check()


@pytest.mark.scenario(143, 144, 145)
def test_batches_with_gaps_and_emptied_batches_are_valid() -> None:
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    file = files.open(f"{DIRECTORY}/{log_name(0)}", create=True)
    file.append(batch(("a", "v"), base_offset=0, last_offset_delta=3, producer_id=1, base_sequence=0))
    file.append(batch(base_offset=10, last_offset_delta=1, producer_id=2, base_sequence=0, timestamp=()))
    log = load(files)
    assert log.log_end_offset == 12
    first, second = log.producers.get(1), log.producers.get(2)
    assert first is not None and second is not None
    assert (first.last_sequence, second.last_sequence) == (3, 1)
    log.close(0)
    log = load(files, clean=True)
    assert [(state.producer_id, state.last_sequence) for state in log.producers] == [(1, 3), (2, 1)]


def test_decreasing_offsets_end_the_log() -> None:
    files = written(count=2)
    change(files, log_name(0), lambda data: data.extend(batch(("k", "v"), base_offset=1)))
    assert load(files).log_end_offset == 2


# Indexes


INDEX_DAMAGE: list[tuple[str, Callable[[bytearray], object]]] = [
    ("empty", lambda data: data.clear()),
    ("zeros", lambda data: data.__setitem__(slice(None), bytes(len(data)))),
    ("preallocated as by Apache Kafka", lambda data: data.extend(bytes(10 << 10))),
    ("garbage", lambda data: data.__setitem__(slice(None), random.Random(1).randbytes(len(data)))),
    ("half an entry", lambda data: data.__delitem__(slice(-3, None))),
]


@pytest.mark.scenario(120, 190)
@each_case("edit", [case[1] for case in INDEX_DAMAGE], ids=[case[0] for case in INDEX_DAMAGE])
@each_case("kind", [paths.INDEX, paths.TIME_INDEX])
def test_a_damaged_index_is_restored_by_recovery(kind: str, edit: Callable[[bytearray], object]) -> None:
    files = written()
    before = files.snapshot()
    for base in (0, 3, 6):
        change(files, f"{base:020}{kind}", edit)
    log = load(files, config=LogConfig(index_interval_bytes=0))
    log.close(0)
    assert {path: data for path, data in files.snapshot().items() if kind in path} == {
        path: data for path, data in before.items() if kind in path
    }


@pytest.mark.scenario(118)
@pytest.mark.parametrize("clean", [True, False])
def test_missing_indexes_are_rebuilt(clean: bool) -> None:
    files = written()
    before = files.snapshot()
    for name in names(files, "index"):
        files.remove(f"{DIRECTORY}/{name}")
    notes: list[str] = []
    log = load(files, clean=clean, notes=notes, config=LogConfig(index_interval_bytes=0))
    assert all("missing" in note for note in notes) and len(notes) == (4 if clean else 0)
    log.close(0)
    after = files.snapshot()
    assert {path: data for path, data in after.items() if "index" in path} == {
        path: data for path, data in before.items() if "index" in path
    }
    assert [segment.read(segment.base_offset, max_bytes=1) is not None for segment in log.segments][:3] == [True] * 3


@pytest.mark.scenario(190)
def test_transaction_indexes_are_rebuilt() -> None:
    files = CrashFiles()
    log = make_log(files)
    append(log, ("k", "v"), producer_id=1, transactional=True)
    append(log, ("k", "v"), producer_id=2, transactional=True, roll=True)
    append_marker(log, ABORT, 1)
    append(log, ("k", "v"), roll=True)
    append_marker(log, ABORT, 2)
    append(log, ("k", "v"), producer_id=3, transactional=True)
    append_marker(log, COMMIT, 3)
    expected = [AbortedTxn(1, 0, 2, 1), AbortedTxn(2, 1, 4, 5)]
    assert log.aborted_transactions(0, 9) == expected
    log.close(0)

    for damage in ("missing", "damaged"):
        for clean in (False, True):
            copy = files.copy()
            for name in names(copy, ".txnindex"):
                if damage == "damaged":
                    change(copy, name, lambda data: data.__setitem__(0, 9))
                elif not clean:
                    copy.remove(f"{DIRECTORY}/{name}")
            assert load(copy, clean=clean).aborted_transactions(0, 9) == expected, (damage, clean)


def test_a_segment_whose_index_is_rebuilt_is_truncated_at_its_damage() -> None:
    files = written()
    files.remove(f"{DIRECTORY}/{3:020}.index")
    change(files, log_name(3), lambda data: data.__delitem__(-1))
    notes: list[str] = []
    assert offsets(load(files, clean=True, notes=notes)) == [0, 1, 2, 3, 4, 6, 7, 8]
    assert len(notes) == 2 and "truncating" in notes[1]


@pytest.mark.scenario(121)
def test_index_files_without_a_log_are_removed() -> None:
    files = written()
    make(files, "00000000000000000777.index", "00000000000000000777.timeindex", "00000000000000000777.txnindex")
    notes: list[str] = []
    load(files, clean=True, notes=notes)
    assert names(files, "777") == []
    assert len(notes) == 3


def test_foreign_files_are_left_alone() -> None:
    files = written()
    make(files, "notes.txt", "1.log", "remote_log_snapshot")
    load(files)
    assert {"notes.txt", "1.log", "remote_log_snapshot"} <= set(names(files))


# Producers


def snapshots(files: CrashFiles) -> list[int]:
    return [int(name[:20]) for name in names(files, ".snapshot")]


@pytest.mark.scenario(116)
def test_snapshots_without_a_segment_are_removed_except_the_newest() -> None:
    files = written(producer_id=1, every=3, count=0)
    log = make_log(files)
    for number in range(7):
        append(log, ("k", "v"), producer_id=1, base_sequence=number, roll=number % 3 == 2)
    log.close(0)
    assert snapshots(files) == [3, 6, 7]
    for stray in (2, 5):
        files.link(f"{DIRECTORY}/{3:020}.snapshot", f"{DIRECTORY}/{stray:020}.snapshot")
    log = load(files, clean=True)
    assert snapshots(files) == [3, 6, 7]
    state = log.producers.get(1)
    assert state is not None and state.last_sequence == 6


@pytest.mark.parametrize("damaged", [[7], [6, 7], [3, 6, 7]])
def test_a_damaged_snapshot_is_replaced_by_replay(damaged: list[int]) -> None:
    files = CrashFiles()
    log = make_log(files)
    for number in range(7):
        append(log, ("k", "v"), producer_id=1, base_sequence=number, roll=number % 3 == 2)
    log.close(0)
    for offset in damaged:
        change(files, f"{offset:020}.snapshot", lambda data: data.__setitem__(-1, data[-1] ^ 1))
    state = load(files, clean=True).producers.get(1)
    assert state is not None and (state.last_sequence, state.last_data_offset) == (6, 6)


@each_case("size", range(3_900, 4_100, 20))
def test_a_marker_is_replayed_at_any_position_of_the_file(size: int) -> None:
    """Headers are read in chunks; a marker may lie across the end of one."""
    files = CrashFiles()
    log = make_log(files)
    append(log, ("k", "v" * size), producer_id=1, transactional=True)
    append_marker(log, ABORT, 1)
    log.close(0)
    for offset in snapshots(files):
        files.remove(f"{DIRECTORY}/{offset:020}.snapshot")
    log = load(files, clean=True)
    assert log.last_stable_offset == 2 and len(log.producers) == 1


@pytest.mark.scenario(149)
def test_snapshots_beyond_the_end_of_a_truncated_log_are_removed() -> None:
    files = CrashFiles()
    log = make_log(files)
    for number in range(7):
        append(log, ("k", "v"), producer_id=1, base_sequence=number, roll=number % 3 == 2)
    log.close(0)
    change(files, log_name(3), lambda data: data.__setitem__(-1, data[-1] ^ 1))
    log = load(files)
    assert log.log_end_offset == 5
    assert snapshots(files) == [3]
    state = log.producers.get(1)
    assert state is not None and state.last_sequence == 4


@pytest.mark.scenario(114)
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_start_within_a_segment_keeps_the_producers_below_it(clean: bool) -> None:
    files = CrashFiles()
    log = make_log(files)
    append(log, ("k", "v"), producer_id=1)
    append(log, ("k", "v"), producer_id=2)
    log.advance_log_start(1)
    if clean:
        log.close(0)
    assert {state.producer_id for state in load(files, clean=clean, log_start_offset=1).producers} == {1, 2}


def test_idle_producers_are_forgotten_at_load() -> None:
    files = CrashFiles()
    log = make_log(files)
    append(log, ("k", "v"), producer_id=1, timestamp=0)
    append(log, ("k", "v"), producer_id=2, timestamp=50_000_000)
    log.close(0)
    for clean in (True, False):
        log = load(files.copy(), clean=clean, now_ms=100_000_000)
        assert [state.producer_id for state in log.producers] == [2]


# The ends of the log


def test_an_empty_directory_is_an_empty_log() -> None:
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    log = load(files)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 0, 0)
    assert names(files) == [log_name(0)]


def test_an_empty_directory_with_a_log_start_starts_there() -> None:
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    log = load(files, log_start_offset=40)
    assert append(log, ("k", "v")) == 40


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "indexes", [(), (paths.INDEX, paths.TIME_INDEX)], ids=["alone", "with indexes of another stop"]
)
def test_a_log_without_appends_opens_and_closes_without_disk_operations(clean: bool, indexes: tuple[str, ...]) -> None:
    files = CrashFiles()
    load_at_first(files).close(0)
    for kind in indexes:
        files.open(paths.segment_path(DIRECTORY, 0, kind), create=True).close()
    before, notes = files.snapshot(), list[str]()
    refusing = files.copy(fail_at=0)
    log = load(refusing, clean=clean, notes=notes)
    log.close(0)
    assert (log.log_end_offset, log.recovery_point, notes) == (0, 0, [])
    assert refusing.snapshot() == before


def test_a_power_loss_after_stopping_a_log_without_appends_leaves_it_empty() -> None:
    files = CrashFiles()
    load_at_first(files).close(0)
    for after in files.after_crash(ordered=False):
        after.make_dir(DIRECTORY)
        log = load(after, clean=True)
        assert append(log, ("k", "v")) == 0
        log.close(0)
        assert offsets(load(after, clean=True)) == [0]


def test_a_log_truncated_to_nothing_stays_empty_after_a_power_loss() -> None:
    files = CrashFiles()
    append(load_at_first(files), ("k", "v"))
    files.sync_all()
    change(files, log_name(0), lambda data: data.__setitem__(20, data[20] ^ 1))
    log = load(files)
    assert log.log_end_offset == 0
    log.close(0)
    assert {load(after, clean=True).log_end_offset for after in files.after_crash(ordered=False)} == {0}


def test_a_preallocated_log_frees_its_space_at_the_stop() -> None:
    files = CrashFiles()
    log = load_at_first(files, LogConfig(preallocate=True, segment_bytes=4_096))
    log.close(0)
    assert files.size(f"{DIRECTORY}/{log_name(0)}") == 0


def load_at_first(files: CrashFiles, config: LogConfig = LogConfig()) -> Log:  # noqa: B008
    files.make_dir(DIRECTORY)
    return load(files, config=config)


@pytest.mark.scenario(139)
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_ends_below_its_start_restarts_at_its_start(clean: bool) -> None:
    files = written(producer_id=1, count=0)
    log = make_log(files)
    for number in range(4):
        append(log, ("k", "v"), producer_id=1, base_sequence=number, roll=True)
    log.close(0)
    notes: list[str] = []
    log = load(files, clean=clean, log_start_offset=100, notes=notes)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (100, 100, 1)
    assert len(log.producers) == 0 and log.leader_epochs.entries == ()
    assert names(files) == [log_name(100), "leader-epoch-checkpoint"]
    assert len(notes) == 1 and "below log start 100" in notes[0]
    assert append(log, ("k", "v")) == 100


def test_the_log_start_is_the_maximum_of_checkpoint_and_first_segment() -> None:
    files = written()
    for base in (0, 3):
        for kind in paths.SEGMENT_KINDS:
            files.remove(paths.segment_path(DIRECTORY, base, kind))
    assert load(files.copy(), log_start_offset=2).log_start_offset == 6
    assert load(files.copy(), log_start_offset=7).log_start_offset == 7


@pytest.mark.scenario(141)
def test_an_empty_active_segment_is_continued() -> None:
    files = written(every=3, count=3)
    log = load(files, clean=True)
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert append(log, ("k3", "v"), roll=True) == 3
    log.close(0)
    assert offsets(load(files, clean=True)) == [0, 1, 2, 3]


def epochs(files: CrashFiles) -> Log:
    log = make_log(files)
    for epoch in range(5):
        log.append(memoryview(batch(("k", "v"))), now_ms=0, leader_epoch=epoch)
    return log


@pytest.mark.scenario(135)
def test_leader_epochs_are_truncated_to_the_log() -> None:
    files = CrashFiles()
    epochs(files)
    change(files, log_name(0), lambda data: data.__delitem__(-1))
    assert load(files, log_start_offset=2).leader_epochs.entries == ((2, 2), (3, 3))


@pytest.mark.scenario(135, 190)
def test_broken_leader_epochs_are_rebuilt_from_the_scan() -> None:
    files = CrashFiles()
    epochs(files).close(0)
    change(files, paths.LEADER_EPOCH_CHECKPOINT, lambda data: data.extend(b"what?\n"))
    notes: list[str] = []
    assert load(files.copy(), notes=notes).leader_epochs.entries == tuple((epoch, epoch) for epoch in range(5))
    assert len(notes) == 1 and "leader-epoch-checkpoint" in notes[0]
    assert load(files.copy(), clean=True).leader_epochs.entries == ()


def test_a_disk_that_refuses_is_an_error_and_not_an_empty_log() -> None:
    files = written()
    files.remove(f"{DIRECTORY}/{0:020}.index")

    def refuse(operation: str, path: str, _: int) -> None:
        raise PermissionError(f"{operation} {path}")

    files.refuse = refuse
    with pytest.raises(PermissionError):
        load(files)
