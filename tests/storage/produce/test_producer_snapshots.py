"""Producer snapshots: Apache Kafka's bytes, snapshots worth reading after a crash, files that stay."""

from copy import copy

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.records import RecordBatch
from ottla.storage.disk import paths
from ottla.storage.disk.files import DamagedFileError, Files
from ottla.storage.produce import producer_snapshots
from ottla.storage.produce.producer_snapshots import decode, encode
from ottla.storage.produce.producer_state import BatchMetadata, ProducerState
from ottla.storage.produce.producers import UNPACKED_MAX, Duplicate, ProducerStates
from ottla.storage.produce.validation import AppendOrigin
from support.calls import calls_of
from support.disk.crash_files import CrashFiles
from support.logs.batches import COMMIT, batch, broken, marker
from support.noted import each_case

# Written by Apache Kafka 4.3.1: an idempotent producer, one with an open transaction, one with a committed transaction.
FROM_KAFKA = bytes.fromhex(
    "0001 0c21cfde 00000003"
    "0000000000000005 0000 0000000b 0000000000000025 00000001 000001a1fdea2ba8 ffffffff ffffffffffffffff"
    "0000000000000006 0000 00000012 0000000000000026 00000000 000001a1fdea2be0 00000000 0000000000000026"
    "0000000000000007 0000 00000000 0000000000000003 00000000 000001a1fdea2b39 00000000 ffffffffffffffff"
)

I16, I32, I64 = st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**62)


@st.composite
def states(draw: st.DrawFn) -> list[ProducerState]:
    found = []
    for producer_id in draw(st.lists(I64, unique=True, max_size=5)):
        timestamp = draw(st.integers(-1, 2**62))
        newest = BatchMetadata(draw(I32), draw(I64), draw(I32), timestamp)
        found.append(
            ProducerState(
                producer_id,
                draw(I16),
                coordinator_epoch=draw(st.integers(-1, 2**31 - 1)),
                last_timestamp=timestamp,
                current_txn_first_offset=draw(st.none() | I64),
                batches=[newest] if draw(st.booleans()) else [],
            )
        )
    return found


def seen(state: ProducerState) -> tuple[object, ...]:
    return tuple(getattr(state, name) for name in ProducerState.__slots__ if name != "entry")


@settings(deadline=None)
@given(states())
def test_snapshots_read_back_as_written(written: list[ProducerState]) -> None:
    assert [seen(state) for state in decode(encode(written))] == [seen(state) for state in written]


def test_a_snapshot_of_apache_kafka_is_read_and_rewritten_byte_for_byte() -> None:
    found = decode(FROM_KAFKA)

    assert [seen(state) for state in found] == [
        seen(
            ProducerState(
                5,
                0,
                last_timestamp=1_795_261_344_680,
                batches=[BatchMetadata(11, 37, 1, 1_795_261_344_680)],
            )
        ),
        seen(
            ProducerState(
                6,
                0,
                coordinator_epoch=0,
                last_timestamp=1_795_261_344_736,
                current_txn_first_offset=38,
                batches=[BatchMetadata(18, 38, 0, 1_795_261_344_736)],
            )
        ),
        seen(
            ProducerState(
                7,
                0,
                coordinator_epoch=0,
                last_timestamp=1_795_261_344_569,
                batches=[BatchMetadata(0, 3, 0, 1_795_261_344_569)],
            )
        ),
    ]
    assert encode(found) == FROM_KAFKA


def test_only_the_newest_batch_of_a_producer_is_kept() -> None:
    (state,) = decode(encode([ProducerState(1, 0, batches=[BatchMetadata(0, 5, 0, 1), BatchMetadata(1, 6, 0, 2)])]))

    assert [batch.last_offset for batch in state.batches] == [6]


@pytest.mark.scenario(195)
@each_case("length", range(len(FROM_KAFKA)))
def test_a_snapshot_cut_short_anywhere_is_corrupt(length: int) -> None:
    with pytest.raises(DamagedFileError):
        decode(FROM_KAFKA[:length])


def test_a_snapshot_with_any_byte_changed_or_added_is_corrupt() -> None:
    for at in range(len(FROM_KAFKA)):
        with pytest.raises(DamagedFileError):
            decode(bytes(broken(FROM_KAFKA, at, flip=1)))
    with pytest.raises(DamagedFileError):
        decode(FROM_KAFKA + b"\0")


def test_an_impossible_count_is_corrupt_even_with_a_valid_crc() -> None:
    whole = encode([ProducerState(1, 0)])
    for count in (0, 2, -1, 2**31 - 1):
        body = count.to_bytes(4, "big", signed=True) + whole[10:]
        with pytest.raises(DamagedFileError, match="entries, found"):
            decode(whole[:2] + crc32c(body).to_bytes(4, "big") + body)


# --- files ------------------------------------------------------------------------------------------------------

DIRECTORY = "/t-0"


def disk(*offsets: int) -> CrashFiles:
    """Return a partition directory with a snapshot at each of these offsets, each with one more producer."""
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    for count, offset in enumerate(offsets, 1):
        take(files, offset, count)
    return files


def take(files: Files, offset: int, producer_count: int, *, sync: bool = False) -> None:
    producers = ProducerStates(end_offset=offset)
    for producer_id in range(producer_count):
        producers.update(RecordBatch(batch(("k", "v"), producer_id=producer_id)))
    producer_snapshots.take(files, DIRECTORY, producers, sync=sync)


def damage(files: Files, offset: int) -> None:
    file = files.open(paths.snapshot_path(DIRECTORY, offset), create=True, truncate=True)
    file.append(b"\0" * 60)
    file.close()


def load(files: Files, *, log_start_offset: int = 0, log_end_offset: int = 100, now_ms: int = 0) -> ProducerStates:
    producers = ProducerStates()
    producer_snapshots.load_newest(
        files,
        DIRECTORY,
        producers,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        now_ms=now_ms,
    )
    return producers


@pytest.mark.scenario(112)
def test_the_newest_snapshot_is_loaded_and_gives_the_replay_start() -> None:
    files = disk(10, 20, 30)
    found = load(files)

    assert (found.end_offset, len(found)) == (30, 3)
    assert producer_snapshots.offsets(files, DIRECTORY) == [10, 20, 30]
    assert found.check(RecordBatch(batch(("k", "v"), producer_id=2)), AppendOrigin.CLIENT) == Duplicate(0, 0, 1_000)


def test_without_a_snapshot_the_log_is_replayed_from_its_start() -> None:
    found = load(disk(), log_start_offset=7)

    assert (found.end_offset, len(found)) == (7, 0)


def test_loading_a_snapshot_forgets_earlier_state() -> None:
    producers = ProducerStates()
    producers.update(RecordBatch(batch(("k", "v"), producer_id=77, transactional=True)))
    producer_snapshots.load_newest(disk(), DIRECTORY, producers, log_start_offset=0, log_end_offset=9, now_ms=0)

    assert (len(producers), producers.first_unstable_offset) == (0, None)


@pytest.mark.scenario(149)
def test_snapshots_outside_the_log_are_removed() -> None:
    files = disk(10, 20, 30)
    found = load(files, log_start_offset=10, log_end_offset=29)

    assert (found.end_offset, len(found)) == (20, 2)
    assert producer_snapshots.offsets(files, DIRECTORY) == [20]


@pytest.mark.scenario(195)
def test_a_damaged_snapshot_is_removed_and_the_next_older_one_used() -> None:
    files = disk(10, 20)
    damage(files, 30)
    found = load(files)

    assert (found.end_offset, len(found)) == (20, 2)
    assert producer_snapshots.offsets(files, DIRECTORY) == [10, 20]


def test_when_all_are_damaged_the_log_is_replayed_from_its_start() -> None:
    files = disk()
    damage(files, 10)
    damage(files, 20)

    assert load(files).end_offset == 0
    assert producer_snapshots.offsets(files, DIRECTORY) == []


def test_expired_producers_are_omitted() -> None:
    assert len(load(disk(10, 20), now_ms=10**12)) == 0


@pytest.mark.scenario(195)
def test_open_transactions_are_restored_in_order() -> None:
    files = disk()
    producers = ProducerStates(end_offset=9)
    for producer_id, offset in ((2, 8), (1, 5), (3, 6)):
        producers.update(
            RecordBatch(batch(("k", "v"), producer_id=producer_id, base_offset=offset, transactional=True))
        )
    producer_snapshots.take(files, DIRECTORY, producers, sync=True)

    assert load(files, now_ms=10**15).first_unstable_offset == 5


def test_an_existing_snapshot_is_not_rewritten() -> None:
    files = disk(10)
    before = files.snapshot()
    take(files, 10, 5)

    assert files.snapshot() == before


def test_after_a_power_loss_synced_snapshots_are_whole_and_unsynced_are_verified() -> None:
    for sync in (True, False):
        files = disk(10)
        files.sync_all()
        take(files, 20, 2, sync=sync)
        files.sync_dir(DIRECTORY)
        ends = {load(crashed).end_offset for crashed in files.after_crash(ordered=False, every_cut=True)}
        assert ends == ({20} if sync else {10, 20})


def test_other_files_are_not_snapshots() -> None:
    files = disk(10)
    for name in ("00000000000000000020.log", "00000000000000000030.snapshot.deleted", "x.snapshot"):
        files.open(f"{DIRECTORY}/{name}", create=True).close()

    assert producer_snapshots.offsets(files, DIRECTORY) == [10]


@pytest.mark.scenario(195)
@pytest.mark.parametrize(
    ("segments", "left"),
    [
        ([0, 10, 20], [10, 20, 40]),
        ([0, 10, 40], [10, 40]),
        ([0, 10, 50], [10]),
        ([0], [40]),
    ],
)
def test_snapshots_without_a_segment_are_removed_except_the_newest(segments: list[int], left: list[int]) -> None:
    files = disk(10, 20, 30, 40)
    producer_snapshots.remove_stray(files, DIRECTORY, segments, last_base_offset=segments[-1])

    assert producer_snapshots.offsets(files, DIRECTORY) == left


def test_an_emptied_log_keeps_no_snapshot() -> None:
    files = disk(10, 20)
    producer_snapshots.remove_all(files, DIRECTORY)

    assert producer_snapshots.offsets(files, DIRECTORY) == []


# --- many producers ---------------------------------------------------------------------------------------------


def fresh(state: ProducerState) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        coordinator_epoch=state.coordinator_epoch,
        last_timestamp=state.last_timestamp,
        current_txn_first_offset=state.current_txn_first_offset,
        batches=state.batches,
    )


CHANGES = st.tuples(
    st.integers(0, 4), st.integers(0, 2), st.sampled_from(["data", "open", "commit", "snapshot", "expire"])
)


@settings(deadline=None)
@given(st.lists(CHANGES, max_size=40), st.integers(1, 4))
def test_state_kept_for_a_snapshot_follows_every_change(changes: list[tuple[int, int, str]], unpacked_max: int) -> None:
    producers = ProducerStates(expiration_ms=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ottla.storage.produce.producers.UNPACKED_MAX", unpacked_max)
        for at, (producer_id, epoch, what) in enumerate(changes):
            if what == "snapshot":
                encode(producers)
            elif what == "expire":
                producers.expire(at + 3)
            elif what == "commit":
                producers.update(
                    RecordBatch(
                        marker(COMMIT, producer_id=producer_id, producer_epoch=epoch, base_offset=at, timestamp=at)
                    )
                )
            else:
                made = batch(
                    ("k", "v"),
                    base_offset=at,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    base_sequence=at,
                    transactional=what == "open",
                    timestamp=at,
                )
                producers.update(RecordBatch(made))
            assert encode(map(fresh, producers)) == producer_snapshots.encode(map(copy, producers))


def test_a_snapshot_of_many_producers_is_built_quickly() -> None:
    producers = ProducerStates()
    for producer_id in range(2 * UNPACKED_MAX):
        made = batch(("k", "v"), base_offset=producer_id, producer_id=producer_id, base_sequence=0)
        producers.update(RecordBatch(made))
    packing = calls_of(lambda: encode(map(fresh, list(producers)[:UNPACKED_MAX])))
    assert calls_of(lambda: encode(producers)) <= packing
    assert calls_of(lambda: encode(producers)) < 20
    loaded = decode(encode(producers))
    assert calls_of(lambda: encode(loaded)) < 20


def test_searching_open_transactions_allocates_no_object_per_producer() -> None:
    files, count = CrashFiles(), 1_000
    files.make_dir("/d")
    decided = [ProducerState(each, 0, batches=[BatchMetadata(0, each, 0, 0)]) for each in range(count)]
    for offset, found in {1: decided, 2: [*decided, ProducerState(count, 0, current_txn_first_offset=0)]}.items():
        file = files.open(paths.snapshot_path("/d", offset), create=True)
        file.append(encode(found))
        file.close()
    assert calls_of(lambda: producer_snapshots.remove_undecided(files, "/d", 3)) < 3 * count
    assert producer_snapshots.offsets(files, "/d") == [1]
