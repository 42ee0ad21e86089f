"""Sequences, epochs, duplicates and open transactions of a partition's producers."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ottla.protocol.records import RecordBatch
from ottla.storage.produce.producer_state import CompletedTxn, LastRecord
from ottla.storage.produce.producers import LARGEST_EPOCH, PRODUCER_ID_EXPIRATION_MS_DEFAULT, Duplicate, ProducerStates
from ottla.storage.produce.txn_markers import Marker, build_marker, read_marker
from ottla.storage.produce.validation import AppendOrigin
from support.logs.batches import ABORT, COMMIT, batch, marker

CLIENT, COORDINATOR = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR
SEQUENCE_MAX = 2**31 - 1


def data(
    sequence: int,
    count: int = 1,
    *,
    at: int = 0,
    epoch: int = 0,
    producer_id: int = 1,
    transactional: bool = False,
    timestamp: int = 1_000,
) -> RecordBatch:
    return RecordBatch(
        batch(
            *[("k", "v")] * count,
            base_offset=at,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
            timestamp=timestamp,
        )
    )


def ending(kind: int, *, at: int, epoch: int = 0, producer_id: int = 1, coordinator_epoch: int = 0) -> RecordBatch:
    return RecordBatch(
        marker(kind, producer_id=producer_id, producer_epoch=epoch, base_offset=at, coordinator_epoch=coordinator_epoch)
    )


def knowing(*batches: RecordBatch) -> ProducerStates:
    producers = ProducerStates()
    for each in batches:
        producers.update(each)
    return producers


def code(
    producers: ProducerStates, each: RecordBatch, origin: AppendOrigin = CLIENT, transaction_version: int = 0
) -> ErrorCode:
    """Return the error code that refuses a batch; NONE if the batch can be appended."""
    try:
        assert producers.check(each, origin, transaction_version) is None, "a duplicate"
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


# --- sequences --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequence", [0, 1, 1_000, SEQUENCE_MAX])
def test_an_unknown_producer_may_start_anywhere(sequence: int) -> None:
    assert code(ProducerStates(), data(sequence)) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        (13, ErrorCode.NONE),
        (14, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (11, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_the_next_batch_continues_the_sequence(sequence: int, expected: ErrorCode) -> None:
    assert code(knowing(data(10, 3)), data(sequence, at=3)) == expected


@pytest.mark.scenario(195)
def test_the_sequence_continues_at_zero_after_the_largest_int() -> None:
    assert code(knowing(data(SEQUENCE_MAX)), data(0, at=1)) == ErrorCode.NONE
    assert code(knowing(data(SEQUENCE_MAX - 1, 2)), data(0, at=2)) == ErrorCode.NONE
    assert code(knowing(data(SEQUENCE_MAX, 3)), data(2, at=3)) == ErrorCode.NONE
    assert code(knowing(data(SEQUENCE_MAX, 3)), data(3, at=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_checking_changes_nothing() -> None:
    producers = knowing(data(0))
    producers.check(data(1, at=1), CLIENT)

    assert code(producers, data(1, at=1)) == ErrorCode.NONE
    assert code(producers, data(2, at=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producers_are_independent_of_each_other() -> None:
    producers = knowing(data(0), data(7, producer_id=2, at=1))

    assert code(producers, data(1, at=2)) == ErrorCode.NONE
    assert code(producers, data(8, producer_id=2, at=2)) == ErrorCode.NONE


def test_coordinators_write_without_sequences() -> None:
    producers = knowing(data(-1), data(-1, at=1))

    assert code(producers, data(-1, at=2), COORDINATOR) == ErrorCode.NONE


# --- epochs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", AppendOrigin)
def test_an_older_epoch_is_fenced(origin: AppendOrigin) -> None:
    producers = knowing(data(5, epoch=3))

    assert code(producers, data(6, epoch=2, at=1), origin) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(producers, data(0, epoch=2, at=1), origin) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_sequence_0() -> None:
    producers = knowing(data(5, epoch=3))

    assert code(producers, data(0, epoch=4, at=1)) == ErrorCode.NONE
    assert code(producers, data(6, epoch=4, at=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.update(data(0, epoch=4, at=1))
    assert code(producers, data(1, epoch=4, at=2)) == ErrorCode.NONE
    assert code(producers, data(6, epoch=3, at=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.scenario(195)
def test_a_marker_with_a_higher_epoch_starts_it_without_data() -> None:
    producers = knowing(data(0, transactional=True), ending(COMMIT, at=1, epoch=1))

    assert code(producers, data(1, at=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(producers, data(1, epoch=1, at=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(producers, data(0, epoch=1, at=2)) == ErrorCode.NONE
    assert producers.last_records()[1] == LastRecord(None, 1)


def test_a_marker_of_the_same_epoch_keeps_the_sequence() -> None:
    producers = knowing(data(0, transactional=True), ending(COMMIT, at=1))

    assert code(producers, data(1, at=2)) == ErrorCode.NONE
    assert producers.last_records()[1] == LastRecord(0, 0)


# --- duplicates -------------------------------------------------------------------------------------------------


@pytest.mark.scenario(165)
def test_the_last_five_batches_are_recognised_and_the_sixth_is_not() -> None:
    batches = [data(2 * at, 2, at=2 * at, timestamp=at) for at in range(6)]
    producers = knowing(*batches)

    for at in range(1, 6):
        assert producers.check(data(2 * at, 2, at=12), CLIENT) == Duplicate(2 * at, 2 * at + 1, at)
    assert code(producers, data(0, 2, at=12)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.scenario(165)
def test_a_duplicate_has_the_same_range_of_sequences_and_the_same_epoch() -> None:
    producers = knowing(data(4, 2, epoch=1))

    assert producers.check(data(4, 2, epoch=1), CLIENT) is not None
    assert code(producers, data(4, 1, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(producers, data(5, 1, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(producers, data(4, 2, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_duplicates_are_recognised_across_the_wrap() -> None:
    producers = knowing(data(SEQUENCE_MAX, 2, at=10))

    assert producers.check(data(SEQUENCE_MAX, 2, at=12), CLIENT) == Duplicate(10, 11, 1_000)


def test_duplicates_are_recognised_only_for_clients() -> None:
    producers = knowing(data(-1))

    assert producers.check(data(-1, at=1), COORDINATOR) is None


def test_a_batch_without_producer_leaves_no_state() -> None:
    plain = RecordBatch(batch(("k", "v")))
    producers = ProducerStates()

    assert producers.check(plain, CLIENT) is None
    assert producers.update(plain) is None
    assert len(producers) == 0


def test_emptied_batches_are_remembered_like_full_ones() -> None:
    emptied = RecordBatch(batch(base_offset=3, last_offset_delta=4, producer_id=1, base_sequence=3))

    assert knowing(emptied).check(data(3, 5, at=8), CLIENT) == Duplicate(3, 7, -1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.integers(0, 9)), max_size=30))
def test_a_client_that_retries_gets_the_first_offsets(steps: list[tuple[int, bool, int]]) -> None:
    """The answers are compared with a model: a list of everything written, of which the last five may be sent again."""
    producers = ProducerStates()
    sequence, offset = SEQUENCE_MAX - 10, 100
    written: deque[tuple[int, int, int]] = deque(maxlen=5)
    for count, again, which in steps:
        if again and written:
            known_sequence, known_count, known_offset = written[which % len(written)]
            answer = producers.check(data(known_sequence, known_count, at=offset), CLIENT)
            assert answer == Duplicate(known_offset, known_offset + known_count - 1, 1_000)
        else:
            fresh = data(sequence, count, at=offset)
            assert producers.check(fresh, CLIENT) is None
            producers.update(fresh)
            written.append((sequence, count, offset))
            sequence, offset = (sequence + count) % 2**31, offset + count


# --- transactions -----------------------------------------------------------------------------------------------


def test_the_first_open_transaction_holds_the_last_stable_offset() -> None:
    producers = ProducerStates()
    assert producers.first_unstable_offset is None

    producers.update(data(0, at=10, transactional=True))
    producers.update(data(0, at=11, producer_id=2, transactional=True))
    producers.update(data(1, at=12, transactional=True))
    assert producers.first_unstable_offset == 10

    assert producers.update(ending(COMMIT, at=13)) == CompletedTxn(1, 10, 13, 11, aborted=False)
    assert producers.first_unstable_offset == 11

    assert producers.update(ending(ABORT, at=14, producer_id=2)) == CompletedTxn(2, 11, 14, 15, aborted=True)
    assert producers.first_unstable_offset is None


def test_the_last_stable_offset_stays_at_an_older_open_transaction() -> None:
    producers = knowing(data(0, at=0, transactional=True), data(0, at=1, producer_id=2, transactional=True))

    assert producers.update(ending(ABORT, at=2, producer_id=2)) == CompletedTxn(2, 1, 2, 0, aborted=True)
    assert producers.first_unstable_offset == 0


@pytest.mark.scenario(195)
def test_a_marker_without_data_completes_nothing() -> None:
    producers = knowing(data(0))

    assert producers.update(ending(ABORT, at=1)) is None
    assert producers.update(ending(ABORT, at=2, producer_id=9)) is None
    assert producers.last_records()[9] == LastRecord(None, 0)


def test_a_producer_has_consecutive_transactions() -> None:
    producers = knowing(data(0, transactional=True), ending(ABORT, at=1), data(1, at=2, transactional=True))

    assert producers.first_unstable_offset == 2
    assert producers.update(ending(COMMIT, at=3)) == CompletedTxn(1, 2, 3, 4, aborted=False)


def test_plain_writes_into_an_open_transaction_are_refused() -> None:
    producers = knowing(data(0, transactional=True))

    assert code(producers, data(1, at=1)) == ErrorCode.INVALID_TXN_STATE
    assert code(producers, data(1, at=1, transactional=True)) == ErrorCode.NONE


@pytest.mark.scenario(195)
def test_a_marker_of_a_replaced_coordinator_is_fenced() -> None:
    producers = knowing(data(0, transactional=True), ending(ABORT, at=1, coordinator_epoch=5))

    for coordinator_epoch, expected in [
        (4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (5, ErrorCode.NONE),
        (6, ErrorCode.NONE),
    ]:
        assert code(producers, ending(ABORT, at=2, coordinator_epoch=coordinator_epoch), COORDINATOR) == expected


def emptied_marker(*, epoch: int, max_timestamp: int = 3_000) -> RecordBatch:
    return RecordBatch(
        build_batch(
            [],
            base_offset=1,
            producer_id=1,
            producer_epoch=epoch,
            transactional=True,
            control=True,
            max_timestamp=max_timestamp,
        )
    )


@pytest.mark.scenario(195)
def test_an_emptied_marker_ends_nothing() -> None:
    producers = knowing(data(0, transactional=True))
    emptied = emptied_marker(epoch=7)

    assert producers.check(emptied, COORDINATOR) is None
    assert producers.update(emptied) is None
    assert producers.first_unstable_offset == 0
    assert producers.last_records()[1] == LastRecord(0, 0)


def test_an_emptied_marker_still_fences_older_epochs() -> None:
    producers = knowing(emptied_marker(epoch=7))

    assert code(producers, data(0, epoch=6)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(producers, data(0, epoch=7)) == ErrorCode.NONE
    assert producers.expire(3_000 + PRODUCER_ID_EXPIRATION_MS_DEFAULT - 1) == 0
    assert producers.expire(3_000 + PRODUCER_ID_EXPIRATION_MS_DEFAULT) == 1


def test_an_emptied_marker_of_a_known_epoch_changes_nothing() -> None:
    producers = knowing(data(0, epoch=7, timestamp=5_000), emptied_marker(epoch=7), emptied_marker(epoch=6))
    state = producers.get(1)

    assert state is not None
    assert (state.producer_epoch, state.last_timestamp, state.last_data_offset) == (7, 5_000, 0)


# --- markers of transaction version 2 ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transaction_version", "epoch", "expected"),
    [
        (0, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, 5, ErrorCode.NONE),
        (0, 6, ErrorCode.NONE),
        (1, 5, ErrorCode.NONE),
        (2, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 6, ErrorCode.NONE),
        (2, 9, ErrorCode.NONE),
    ],
)
def test_a_marker_of_version_2_has_a_later_epoch_than_its_transaction(
    transaction_version: int, epoch: int, expected: ErrorCode
) -> None:
    producers = knowing(data(0, epoch=5, transactional=True))

    assert code(producers, ending(COMMIT, at=1, epoch=epoch), COORDINATOR, transaction_version) == expected


def test_a_marker_of_version_2_may_be_written_again() -> None:
    producers = knowing(data(0, epoch=5, transactional=True), ending(COMMIT, at=1, epoch=6))

    assert code(producers, ending(COMMIT, at=2, epoch=6), COORDINATOR, 2) == ErrorCode.NONE
    assert code(producers, ending(COMMIT, at=2, epoch=5), COORDINATOR, 2) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_after_the_largest_epoch_has_the_same_epoch() -> None:
    producers = knowing(data(0, epoch=LARGEST_EPOCH, transactional=True))

    assert code(producers, ending(ABORT, at=1, epoch=LARGEST_EPOCH), COORDINATOR, 2) == ErrorCode.NONE


def test_a_version_2_marker_restarts_the_sequence_and_fences_the_old_epoch() -> None:
    producers = knowing(data(0, 3, epoch=5, transactional=True), ending(COMMIT, at=3, epoch=6))

    assert code(producers, data(3, at=4, epoch=5, transactional=True)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(producers, data(3, at=4, epoch=6, transactional=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(producers, data(0, at=4, epoch=6, transactional=True)) == ErrorCode.NONE


# --- batches that wait for the transaction coordinator -------------------------------------------------------------


def asked(producers: ProducerStates, sequence: int, *, epoch: int = 0, bumps_epoch: bool = False, now: int = 0) -> bool:
    """Return whether the coordinator must verify a batch of producer 1."""
    return producers.begin_verification(1, epoch, sequence, bumps_epoch=bumps_epoch, elapsed_ms=now)


def test_the_coordinator_is_called_until_the_transaction_is_open() -> None:
    producers = ProducerStates()
    assert asked(producers, 0)
    assert asked(producers, 0)

    producers.update(data(0, transactional=True))
    assert not asked(producers, 1)
    assert asked(producers, 0, epoch=1)

    producers.update(ending(COMMIT, at=1))
    assert asked(producers, 1)


def test_a_plain_batch_opens_no_transaction() -> None:
    assert asked(knowing(data(0)), 1)


def test_an_old_epoch_is_refused_without_a_verification() -> None:
    producers = knowing(data(0, epoch=3))

    with pytest.raises(KafkaError) as refused:
        asked(producers, 1, epoch=2)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_no_batch_overtakes_the_one_under_verification() -> None:
    producers = knowing(data(0, 5, transactional=True), ending(COMMIT, at=5))
    asked(producers, 7)
    asked(producers, 5)
    asked(producers, 9)

    assert code(producers, data(7, at=6, transactional=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(producers, data(5, 2, at=6, transactional=True)) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("bumps_epoch", "expected"), [(False, ErrorCode.NONE), (True, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]
)
def test_a_transaction_that_bumps_the_epoch_starts_with_sequence_0(bumps_epoch: bool, expected: ErrorCode) -> None:
    producers = ProducerStates()
    asked(producers, 7, bumps_epoch=bumps_epoch)

    assert code(producers, data(7, transactional=True)) == expected
    assert code(producers, data(0, transactional=True)) == ErrorCode.NONE


def test_a_newer_epoch_restarts_the_sequence() -> None:
    producers = ProducerStates()
    asked(producers, 2)
    asked(producers, 9, epoch=1)
    asked(producers, 1)

    assert code(producers, data(9, epoch=1, transactional=True)) == ErrorCode.NONE
    assert code(producers, data(10, epoch=1, transactional=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_verification_is_forgotten_after_a_batch_is_written() -> None:
    producers = ProducerStates()
    asked(producers, 0)
    producers.update(data(0, 3, transactional=True))

    assert code(producers, data(3, at=3, transactional=True)) == ErrorCode.NONE


def test_a_final_refusal_is_forgotten() -> None:
    producers = ProducerStates()
    asked(producers, 0)
    producers.end_verification(1)

    assert code(producers, data(7, transactional=True)) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("bumps_epoch", "marker_epoch", "expected"),
    [
        (False, 1, ErrorCode.NONE),
        (True, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (True, 2, ErrorCode.NONE),
    ],
)
def test_the_marker_of_the_earlier_transaction_lets_no_batch_overtake(
    bumps_epoch: bool, marker_epoch: int, expected: ErrorCode
) -> None:
    """The verification is for epoch 1, before the marker of epoch 0's transaction is written."""
    producers = knowing(data(0, transactional=True))
    asked(producers, 0, epoch=1, bumps_epoch=bumps_epoch)
    producers.update(ending(COMMIT, at=1, epoch=marker_epoch))
    producers.update(data(0, at=2, epoch=marker_epoch))

    assert code(producers, data(1, at=3, epoch=marker_epoch, transactional=True)) == expected


def test_a_verification_expires_like_a_producer() -> None:
    producers = ProducerStates()
    producers.expiration_ms = 50
    asked(producers, 0, now=100)

    producers.expire_verifications(149)
    assert code(producers, data(7, transactional=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.expire_verifications(150)
    assert code(producers, data(7, transactional=True)) == ErrorCode.NONE


# --- batches that are not valid markers ----------------------------------------------------------------------------


def test_a_marker_reads_back_as_built() -> None:
    built = build_marker(producer_id=5, producer_epoch=6, coordinator_epoch=7, commit=True, now_ms=8)

    assert built == marker(COMMIT, producer_id=5, producer_epoch=6, coordinator_epoch=7, timestamp=8)
    assert read_marker(RecordBatch(built)) == Marker(COMMIT, coordinator_epoch=7, timestamp=8)


def control(key: bytes | None, value: bytes | None) -> RecordBatch:
    return RecordBatch(
        build_batch([(1, 1, key, value, ())], producer_id=1, producer_epoch=0, transactional=True, control=True)
    )


def test_control_records_of_other_types_are_skipped() -> None:
    producers = knowing(data(0, transactional=True))

    assert producers.update(control(b"\0\0\0\x02", b"leader change")) is None
    assert producers.first_unstable_offset == 0


@pytest.mark.parametrize(
    ("key", "value"), [(None, bytes(6)), (b"\0\0\0", bytes(6)), (b"\0\0\0\1", None), (b"\0\0\0\1", bytes(5))]
)
def test_an_invalid_marker_is_corrupt_and_changes_nothing(key: bytes | None, value: bytes | None) -> None:
    producers = knowing(data(0, transactional=True))
    with pytest.raises(CorruptRecordError):
        producers.update(control(key, value))

    assert producers.first_unstable_offset == 0


# --- forgetting -------------------------------------------------------------------------------------------------


@pytest.mark.scenario(166, 195)
def test_idle_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    producers = knowing(
        data(0, timestamp=100), data(0, producer_id=2, timestamp=101), data(0, producer_id=3, transactional=True)
    )
    producers.expiration_ms = 50

    assert producers.expire(149) == 0
    assert producers.expire(150) == 1
    assert [state.producer_id for state in producers] == [2, 3]
    assert producers.expire(10**9) == 1
    assert producers.first_unstable_offset == 0


def test_a_forgotten_producer_restarts() -> None:
    producers = knowing(data(0))
    producers.expire(PRODUCER_ID_EXPIRATION_MS_DEFAULT + 1_000)

    assert code(producers, data(77, at=1)) == ErrorCode.NONE
    assert 1 not in producers.last_records()


def test_a_producers_timestamp_is_that_of_its_last_batch_or_marker() -> None:
    producers = knowing(data(0, timestamp=1_000))
    producers.update(ending(ABORT, at=1))
    state = producers.get(1)
    assert state is not None and state.last_timestamp == 1_000

    producers.update(data(1, at=2, timestamp=5_000))
    assert state.last_timestamp == 5_000


def test_the_last_records_are_a_copy_for_other_threads() -> None:
    producers = knowing(data(0, 3), data(0, at=3, producer_id=2))
    seen = producers.last_records()
    producers.update(data(3, at=4))

    assert seen == {1: LastRecord(2, 0), 2: LastRecord(3, 0)}
    assert producers.last_records()[1] == LastRecord(4, 0)


def test_reset_forgets_everything() -> None:
    producers = knowing(data(0, transactional=True))
    producers.reset(42)

    assert (len(producers), producers.first_unstable_offset, producers.end_offset) == (0, None, 42)
