"""The table of `__share_group_state`: its records, its refusals, and that a load finds it unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError, ProtocolError
from ottla.protocol.messages.share_state_log import ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from ottla.server.sharing.share_records import Change, SharePartitionKey, read_record, write_batches, write_record
from ottla.server.sharing.share_states import NOT_SAID, ShareState, ShareStates, WrittenState
from ottla.server.sharing.state_batches import ShareStateBatch, are_merged, merged, merging, with_more
from support.noted import each_case
from support.sizes import size

KEY = SharePartitionKey("g", bytes(range(16)), 3)
OTHER = KEY._replace(partition=4)


class Log:
    """The records of the topic, with the table that they make."""

    def __init__(self, updates_per_snapshot: int = 2) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.records: list[tuple[bytes, bytes | None]] = []
        self.states = ShareStates(updates_per_snapshot)

    def append(self, change: Change | None) -> Change | None:
        if change is not None:
            self.records.append(write_record(*change))
            self._replay(self.states, len(self.records) - 1)
        return change

    def _replay(self, states: ShareStates, offset: int) -> None:
        said = read_record(*self.records[offset])
        assert said is not None
        states.replay(*said, offset)

    def loaded(self) -> ShareStates:
        """Return the table that another coordinator loads, after all that is not needed was deleted."""
        states = ShareStates(self.updates_per_snapshot)
        for offset in range(self.states.first_needed_offset() or 0, len(self.records)):
            self._replay(states, offset)
        return states

    def begin(self, key: SharePartitionKey = KEY, *, state_epoch: int = 0, start: int = 0, now_ms: int = 1) -> None:
        self.append(self.states.initialize(key, state_epoch, start, now_ms))

    def write(self, *batches: ShareStateBatch, key: SharePartitionKey = KEY, **said: int) -> Change | None:
        values = {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "delivery_complete_count": 0} | said
        return self.append(self.states.write(key, WrittenState(**values, batches=batches), now_ms=5))

    @property
    def state(self) -> ShareState:
        state = self.states.get(KEY)
        assert state is not None
        return state


def known_by_log(state: ShareState | None) -> ShareState | None:
    """Return the state without what may have been pruned."""
    return None if state is None else replace(state, updates=0, state_fence=0, leader_fence=0)


def test_bytes_equal_those_of_apache_kafka() -> None:
    """The bytes are those that a broker of 4.3.1 has written, except for the times."""
    log = Log()
    log.begin(state_epoch=7, start=100, now_ms=0x0102030405060708)
    log.write(
        ShareStateBatch(101, 109, 2, 1), start_offset=100, delivery_complete_count=9, state_epoch=7, leader_epoch=1
    )
    topic = bytes(range(16)).hex()
    assert [(key.hex(), value and value.hex()) for key, value in log.records] == [
        (
            f"0000000167{topic}00000003",
            "0000" + "00000000" + "00000007" + "00000000" + "0000000000000064" + "0102030405060708" * 2 + "01"
            "01" + "00" + "04" + "00000000",
        ),
        (
            f"0001000167{topic}00000003",
            "0000" + "00000000" + "00000000" + "0000000000000064"
            "02" + "0000000000000065" + "000000000000006d" + "02" + "0001" + "00" + "01" + "00" + "04" + "00000009",
        ),
    ]


def test_a_complete_snapshot_follows_a_number_of_updates() -> None:
    log = Log(updates_per_snapshot=2)
    log.begin()
    log.write(ShareStateBatch(0, 4, 2, 1))
    log.write(ShareStateBatch(7, 9, 0, 1), start_offset=5)
    change = log.write(ShareStateBatch(8, 8, 4, 2), start_offset=5, delivery_complete_count=1)
    assert change is not None and isinstance(change[1], ShareSnapshotValue)
    assert change[1].snapshot_epoch == 1
    assert log.state.batches == (ShareStateBatch(7, 7, 0, 1), ShareStateBatch(8, 8, 4, 2), ShareStateBatch(9, 9, 0, 1))
    assert log.states.first_needed_offset() == 3
    assert known_by_log(log.loaded().get(KEY)) == known_by_log(log.state)


def test_a_read_by_a_new_leader_fences_the_former() -> None:
    log = Log()
    log.begin()
    assert log.append(log.states.read(KEY, 3, 5)) is not None
    assert log.states.read(KEY, 3, 5) is None, "nothing is new"
    asks: tuple[Callable[[], object], ...] = (lambda: log.states.read(KEY, 2, 5), lambda: log.write(leader_epoch=2))
    for ask in asks:
        with pytest.raises(KafkaError) as refused:
            ask()
        assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert log.write(leader_epoch=3, start_offset=NOT_SAID)
    assert log.state.leader_epoch == 3 and log.state.start_offset == 0
    assert known_by_log(log.loaded().get(KEY)) == known_by_log(log.state)


def test_a_leader_stays_fenced_when_the_state_restarts() -> None:
    log = Log()
    log.begin()
    log.append(log.states.read(KEY, 3, 5))
    log.begin(state_epoch=1)
    assert log.state.leader_epoch == 0, "as Apache Kafka writes it"
    with pytest.raises(KafkaError) as refused:
        log.write(leader_epoch=2, state_epoch=1)
    assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_an_older_state_epoch_is_fenced() -> None:
    log = Log()
    log.begin(state_epoch=5)
    asks: tuple[Callable[[], object], ...] = (lambda: log.begin(state_epoch=4), lambda: log.write(state_epoch=4))
    for ask in asks:
        with pytest.raises(KafkaError) as refused:
            ask()
        assert refused.value.code is ErrorCode.FENCED_STATE_EPOCH
    log.write(ShareStateBatch(0, 1, 2, 1), state_epoch=5)
    log.begin(state_epoch=6, start=50)
    assert (log.state.snapshot_epoch, log.state.start_offset, log.state.batches) == (1, 50, ())


def test_a_negative_epoch_is_invalid() -> None:
    log = Log()
    asks: tuple[Callable[[], object], ...] = (
        lambda: log.begin(state_epoch=-1),
        lambda: log.write(state_epoch=-1),
        lambda: log.write(leader_epoch=-1, state_epoch=-1),
        lambda: log.states.read(KEY, -1, 5),
    )
    for ask, whose in zip(asks, ("state", "state", "leader", "leader"), strict=True):
        with pytest.raises(KafkaError) as refused:
            ask()
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert refused.value.message == f"The {whose} epoch cannot be a negative number."


@pytest.mark.parametrize("updates_per_snapshot", [0, 500])
def test_a_late_write_moves_nothing_back(updates_per_snapshot: int) -> None:
    log = Log(updates_per_snapshot)
    log.begin(start=10)
    for start, count, after in (
        (10, 4, (10, 4)),
        (10, 3, (10, 4)),
        (8, 7, (10, 4)),
        (NOT_SAID, NOT_SAID, (10, 4)),
        (12, 2, (12, 2)),
        (13, NOT_SAID, (13, NOT_SAID)),
    ):
        change = log.write(ShareStateBatch(5, 20, 2, 1), start_offset=start, delivery_complete_count=count)
        assert change is not None
        assert (change[1].start_offset, change[1].delivery_complete_count) == after
        assert (log.state.start_offset, log.state.delivery_complete_count) == after
        assert [each.first_offset for each in change[1].state_batches] == [after[0]]
        assert log.state.batches == (ShareStateBatch(after[0], 20, 2, 1),)


def test_an_uninitialized_state_cannot_be_read_or_written() -> None:
    states = ShareStates(2)
    asks: tuple[Callable[[], object], ...] = (
        lambda: states.read(KEY, 0, 5),
        lambda: states.write(KEY, WrittenState(0, 0, 0, 0, ()), 5),
    )
    for ask in asks:
        with pytest.raises(KafkaError) as refused:
            ask()
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert states.delete(KEY) is None


def test_an_unknown_start_offset_has_no_count() -> None:
    log = Log()
    log.begin(start=NOT_SAID)
    assert (log.state.start_offset, log.state.delivery_complete_count) == (NOT_SAID, NOT_SAID)


def test_a_deleted_state_is_forgotten_and_its_records_removed() -> None:
    log = Log()
    log.begin()
    log.begin(OTHER)
    log.append(log.states.delete(KEY))
    assert log.states.get(KEY) is None and log.states.first_needed_offset() == 1
    log.append(log.states.delete(OTHER))
    assert len(log.states) == 0 and log.states.first_needed_offset() == 3
    assert len(log.loaded()) == 0


def test_a_long_unwritten_state_gets_a_snapshot_so_the_log_shrinks() -> None:
    log = Log()
    log.begin(now_ms=0)
    log.begin(OTHER, now_ms=900)
    log.write(ShareStateBatch(0, 1, 2, 1))
    log.append(log.states.cold(KEY, 1_000, 1_000))
    assert log.states.cold(OTHER, 1_000, 1_000) is None
    assert log.states.first_needed_offset() == 1
    assert (log.state.snapshot_epoch, log.state.create_ms, log.state.write_ms) == (1, 0, 1_000)
    assert known_by_log(log.loaded().get(KEY)) == known_by_log(log.state)
    assert log.states.cold(KEY, 1_001, 1_000) is None


def test_a_clock_set_back_does_not_keep_the_log() -> None:
    log = Log()
    log.begin(now_ms=1_000_000)
    log.append(log.states.cold(KEY, 999_999, 1_000))
    assert log.state.write_ms == 999_999
    assert log.states.cold(KEY, 1_000_998, 1_000) is None


def test_an_update_without_its_snapshot_is_ignored() -> None:
    states = ShareStates(2)
    states.replay(ShareUpdateKey(group_id="g", topic_id=KEY.topic_id, partition=3), ShareUpdateValue(), 0)
    assert states.get(KEY) is None


def test_foreign_records_are_skipped_or_reported() -> None:
    assert read_record(b"\0\x09rest", b"") is None
    for key, value in ((None, None), (b"\0\0", None), (write_record(ShareUpdateKey(), None)[0], b"\0\1")):
        with pytest.raises(ProtocolError):
            read_record(key, value)


def test_overlapping_batches_are_merged_and_the_newer_counts() -> None:
    rng = Random(1)
    for _ in range(500):
        batches = [
            ShareStateBatch(first, first + rng.choice((0, 1, 4, 9)), rng.choice((0, 2, 4)), rng.randint(1, 3))
            for first in (rng.randint(0, 30) for _ in range(rng.randint(0, 8)))
        ]
        start = rng.choice((NOT_SAID, 0, 10))
        said: dict[int, tuple[int, int]] = {}
        for one in batches:
            for offset in range(max(one.first_offset, start), one.last_offset + 1):
                said[offset] = max(said.get(offset, one.rank), one.rank)
        found = merged(batches, start)
        assert {offset: one.rank for one in found for offset in range(one.first_offset, one.last_offset + 1)} == said
        for before, one in pairwise(found):
            assert before.last_offset + (before.rank == one.rank) < one.first_offset, "equal neighbours are one batch"


def test_merging_batches_in_parts_equals_merging_all_together() -> None:
    rng = Random(2)

    def some(most: int) -> list[ShareStateBatch]:
        return [
            ShareStateBatch(
                first,
                first + rng.choice((0, 0, 1, 9)) - rng.choice((0, 0, 0, 1)),
                rng.choice((0, 2, 4)),
                rng.randint(1, 3),
            )
            for first in (rng.randint(0, 40) for _ in range(rng.randint(0, most)))
        ]

    for _ in range(3_000):
        before, more, start = merged(some(20), rng.choice((NOT_SAID, 0, 10))), some(4), rng.choice((NOT_SAID, 0, 15))
        assert are_merged(before)
        assert with_more(before, more, start) == merged((*before, *more), start)


def test_the_accepted_batches_are_those_of_apache_kafka() -> None:
    """Equal neighbours are one batch after each update."""
    log = Log(updates_per_snapshot=500)
    log.begin(KEY, start=0)
    for batches, left in (
        ([ShareStateBatch(0, 15, 0, 1)], [(0, 15)]),
        ([ShareStateBatch(0, 8, 0, 2)], [(0, 8), (9, 15)]),
        ([ShareStateBatch(9, 15, 0, 2)], [(0, 15)]),
        ([ShareStateBatch(20, 23, 0, 1)], [(0, 15), (20, 23)]),
    ):
        log.append(log.states.write(KEY, WrittenState(0, 0, 0, 0, tuple(batches)), 0))
        state = log.states.get(KEY)
        assert state is not None and [one[:2] for one in state.batches] == left


def test_many_overlapping_batches_are_merged_in_bounded_time() -> None:
    batches = [ShareStateBatch(n, 2_000 + n, 0, 2_000 - n) for n in range(2_000)]
    steps, pieces = merging(batches, 0), 0
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
            pieces += 1
    looked = end.value.value
    assert looked == merged(batches, 0)
    assert pieces >= 2_000 // 200, "and in pieces, for a request may bring as many"
    assert looked[0] == ShareStateBatch(0, 2_000, 0, 2_000)
    assert looked[1:] == [ShareStateBatch(2_000 + n, 2_000 + n, 0, 2_000 - n) for n in range(1, 2_000)]


@pytest.mark.parametrize("wrong", [[(3, 4), (0, 1)], [(0, 3), (3, 5)], [(5, 4)], [(0, 3), (4, 5)]])
def test_a_snapshot_with_overlapping_or_unordered_batches_is_normalized(wrong: list[tuple[int, int]]) -> None:
    batches = [ShareStateBatch(first, last, 2, 1) for first, last in wrong]
    assert not are_merged(batches)
    log = Log()
    log.begin(KEY, start=0)
    change = log.states.cold(KEY, 10**12, 1)
    assert change is not None
    log.append((change[0], replace(change[1], state_batches=write_batches(batches))))
    state = log.states.get(KEY)
    assert state is not None and list(state.batches) == merged(batches, 0)


def test_ten_million_offsets_are_merged_as_fast_as_ten() -> None:
    batches = [ShareStateBatch(0, 9_999_999, 0, 1), ShareStateBatch(5, 9_999_990, 2, 1)]
    assert merged(batches, 3) == [
        ShareStateBatch(3, 4, 0, 1),
        ShareStateBatch(5, 9_999_990, 2, 1),
        ShareStateBatch(9_999_991, 9_999_999, 0, 1),
    ]


@each_case("seed", range(size(5, 50)))
def test_a_load_finds_the_stored_states(seed: int) -> None:
    rng = Random(seed)
    log = Log(updates_per_snapshot=rng.choice((0, 1, 3, 500)))
    keys = (KEY, OTHER, KEY._replace(group_id="h"))
    for step in range(60):
        key = rng.choice(keys)
        state = log.states.get(key)
        try:
            match rng.randrange(6):
                case 0:
                    log.begin(key, state_epoch=rng.randint(0, 2), start=rng.choice((NOT_SAID, 0, 5)), now_ms=step)
                case 1:
                    log.append(log.states.read(key, rng.randint(0, 3), step))
                case 2 if rng.random() < 0.2:
                    log.append(log.states.delete(key))
                case 3:
                    log.append(log.states.cold(key, step, 20))
                case _:
                    first = rng.randint(0, 20)
                    batch = ShareStateBatch(first, first + rng.randint(0, 5), rng.choice((0, 2, 4)), rng.randint(1, 4))
                    epochs = (0, 3) if state is None else (state.state_epoch, state.leader_epoch)
                    said = dict(zip(("state_epoch", "leader_epoch"), epochs, strict=True))
                    log.write(batch, key=key, start_offset=rng.randint(-1, 9), **said)
        except KafkaError:
            pass
        loaded = log.loaded()
        for one in keys:
            assert known_by_log(loaded.get(one)) == known_by_log(log.states.get(one))
