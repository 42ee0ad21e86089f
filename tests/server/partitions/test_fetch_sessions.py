"""Fetch sessions (KIP-227): what a client must repeat, what a response repeats, and refusals."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.server.partitions.fetch_sessions import (
    EVICTION_AGE_MS,
    PARTITIONS_A_SLOT,
    FetchItem,
    FetchSession,
    FetchSessions,
    Reader,
)
from ottla.storage.steps import to_the_end

READER = Reader("client", "10.0.0.1", "10.0.0.1:1")


def request(
    session_id: int, epoch: int, *offsets: tuple[str, int, int], forget: tuple[str, int] | None = None
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=tuple(
            FetchTopic(
                topic=topic,
                partitions=(FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100),),
            )
            for topic, index, offset in offsets
        ),
        forgotten_topics_data=(ForgottenTopic(topic=forget[0], partitions=(forget[1],)),) if forget else (),
    )


def begin(
    sessions: FetchSessions, asked: FetchRequest, by_topic_id: bool, elapsed_ms: int
) -> tuple[FetchSession | None, list[FetchItem]]:
    return to_the_end(sessions.begin(asked, by_topic_id, lambda: elapsed_ms, lambda: READER))


def opened(sessions: FetchSessions, *offsets: tuple[str, int, int]) -> FetchSession:
    session, _ = begin(sessions, request(0, 0, *offsets), False, 0)
    assert session is not None
    return session


def wanted(sessions: FetchSessions, asked: FetchRequest, now_ms: int = 0) -> list[tuple[object, int, int]]:
    _, items = begin(sessions, asked, False, now_ms)
    return [(item.topic, item.partition, item.fetch_offset) for item in items]


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(2, random.Random(1))


def test_a_later_fetch_repeats_only_changes(sessions: FetchSessions) -> None:
    session = opened(sessions, ("a", 0, 0), ("b", 0, 5))
    later = request(session.session_id, 1, ("a", 0, 7), ("c", 1, 0))
    assert wanted(sessions, later) == [("a", 0, 7), ("b", 0, 5), ("c", 1, 0)]


def test_a_forgotten_partition_is_not_read_again(sessions: FetchSessions) -> None:
    session = opened(sessions, ("a", 0, 0), ("b", 0, 5))
    assert wanted(sessions, request(session.session_id, 1, forget=("a", 0))) == [("b", 0, 5)]


def test_a_fetch_without_a_session_is_not_remembered(sessions: FetchSessions) -> None:
    session, items = begin(sessions, request(0, -1, ("a", 0, 3)), False, 0)
    assert session is None and len(items) == 1 and len(sessions) == 0


def test_a_full_fetch_ends_the_session_it_names(sessions: FetchSessions) -> None:
    session = opened(sessions, ("a", 0, 0))
    begin(sessions, request(session.session_id, -1, ("a", 0, 0)), False, 0)
    assert len(sessions) == 0


@pytest.mark.parametrize(
    ("epoch", "by_topic_id", "known", "code"),
    [
        (1, False, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (2, False, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, True, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_wrong_session_is_refused(
    sessions: FetchSessions, epoch: int, by_topic_id: bool, known: bool, code: ErrorCode
) -> None:
    session = opened(sessions, ("a", 0, 0))
    with pytest.raises(KafkaError) as refused:
        begin(sessions, request(session.session_id if known else session.session_id ^ 1, epoch), by_topic_id, 0)
    assert refused.value.code is code


def test_when_the_table_is_full_only_an_idle_session_makes_room(sessions: FetchSessions) -> None:
    first = opened(sessions, ("a", 0, 0))
    opened(sessions, ("b", 0, 0))
    assert begin(sessions, request(0, 0, ("c", 0, 0)), False, EVICTION_AGE_MS)[0] is None
    assert begin(sessions, request(0, 0, ("c", 0, 0)), False, EVICTION_AGE_MS + 1)[0] is not None
    with pytest.raises(KafkaError):
        begin(sessions, request(first.session_id, 1), False, 0)


def test_the_epoch_wraps_to_one(sessions: FetchSessions) -> None:
    session = opened(sessions, ("a", 0, 0))
    session.next_epoch = 2**31 - 1
    begin(sessions, request(session.session_id, 2**31 - 1), False, 0)
    assert session.next_epoch == 1


def test_a_partition_is_returned_with_records_an_error_or_new_offsets(sessions: FetchSessions) -> None:
    item = next(iter(opened(sessions, ("a", 0, 0)).items.values()))

    def news(high_watermark: int = 10, log_start_offset: int = 0, error: int = 0, records: bytes = b"") -> bool:
        return item.has_news(
            PartitionData(
                partition_index=0,
                error_code=error,
                high_watermark=high_watermark,
                log_start_offset=log_start_offset,
                records=records,
            )
        )

    assert news()
    assert not news()
    assert news(records=b"x")
    assert news(high_watermark=11)
    assert news(high_watermark=11, log_start_offset=5)
    assert news(high_watermark=-1, log_start_offset=-1, error=6)
    assert news(high_watermark=11, log_start_offset=5)
    assert not news(high_watermark=11, log_start_offset=5)


def test_partitions_that_sent_records_move_to_the_end(sessions: FetchSessions) -> None:
    session = opened(sessions, ("a", 0, 0), ("b", 0, 0))
    FetchSessions.move_to_end(session, session.items["a", 0])
    assert list(session.items) == [("b", 0), ("a", 0)]


def many(count: int, first: int = 0) -> tuple[tuple[str, int, int], ...]:
    return tuple(("t", first + number, 0) for number in range(count))


def test_the_total_number_of_remembered_partitions_is_limited() -> None:
    sessions = FetchSessions(10, random.Random(1))
    most = 10 * PARTITIONS_A_SLOT
    opened(sessions, *many(most - 10))
    assert sessions.partition_count == most - 10

    refused, items = begin(sessions, request(0, 0, *many(11)), False, EVICTION_AGE_MS)

    assert (refused, len(items)) == (None, 11)
    small = opened(sessions, *many(10))
    assert (len(sessions), sessions.partition_count) == (2, most)
    begin(sessions, request(small.session_id, -1), False, 0)
    assert sessions.partition_count == most - 10
    # The large one has been idle for long: it is evicted for others, but not for one that is too large in any case.
    assert begin(sessions, request(0, 0, *many(most + 1)), False, 2 * EVICTION_AGE_MS)[0] is None
    assert len(sessions) == 1
    assert begin(sessions, request(0, 0, *many(most)), False, 2 * EVICTION_AGE_MS)[0] is not None
    assert (len(sessions), sessions.partition_count) == (1, most)
    sessions.clear()
    assert sessions.partition_count == 0


def test_a_session_ignores_invalid_topic_names(sessions: FetchSessions) -> None:
    """A partition takes 700 B, a name up to 32 KiB; a session remembers fifty thousand of them."""
    long = ("t" * 250, 0, 0)
    session, items = begin(sessions, request(0, 0, ("t" * 249, 0, 0), long), False, 0)
    assert (session, len(items), len(sessions)) == (None, 2, 0)
    session = opened(sessions, ("t" * 249, 0, 0))
    with pytest.raises(KafkaError) as refused:
        begin(sessions, request(session.session_id, 1, long), False, 0)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_a_session_that_outgrows_the_limit_is_removed() -> None:
    sessions = FetchSessions(2, random.Random(1))
    other = opened(sessions, *many(PARTITIONS_A_SLOT))
    session = opened(sessions, *many(PARTITIONS_A_SLOT))
    grown = request(session.session_id, 1, *many(1, first=PARTITIONS_A_SLOT))
    with pytest.raises(KafkaError) as refused:
        begin(sessions, grown, False, 0)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partition_count) == (1, PARTITIONS_A_SLOT)

    session = opened(sessions, *many(PARTITIONS_A_SLOT))
    forgetting = request(session.session_id, 1, *many(1, first=PARTITIONS_A_SLOT), forget=("t", 0))
    assert begin(sessions, forgetting, False, 0)[0] is session
    assert sessions.partition_count == 2 * PARTITIONS_A_SLOT

    # The other one was idle for long, and is evicted instead.
    growing = request(session.session_id, 2, *many(1, first=PARTITIONS_A_SLOT + 1))
    begin(sessions, growing, False, EVICTION_AGE_MS + 1)
    assert len(sessions) == 1
    with pytest.raises(KafkaError):
        begin(sessions, request(other.session_id, 1), False, 0)


def test_partial_changes_of_an_aborted_request_are_counted() -> None:
    """A connection may be closed while its request with many partitions is processed."""
    sessions = FetchSessions(10, random.Random(1))
    session = opened(sessions, *many(1))
    steps = sessions.begin(request(session.session_id, 1, *many(200)), False, lambda: 0, lambda: READER)
    for _ in range(50):
        next(steps)
    steps.close()
    assert sessions.partition_count == len(session.items) > 1
    begin(sessions, request(session.session_id, -1), False, 0)
    assert sessions.partition_count == 0
