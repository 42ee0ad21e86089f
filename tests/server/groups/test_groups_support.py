"""The store in memory on which the group tests rely behaves as the real topic does."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.coordination.jobs import to_the_end
from ottla.server.groups.subscription import subscribed_topics
from support.groups.groups import MemoryStore, Reply, error_of, subscription


def test_the_store_gives_offsets_and_reads_back_from_any_of_them() -> None:
    store = MemoryStore(2)
    assert store.append(1, [(b"a", b"1"), (b"b", None)], 10) == 0
    assert store.append(1, [(b"a", b"2")], 20) == 2

    assert store.end_offset(1) == 3
    assert store.end_offset(0) == 0
    assert [(record.offset, record.key, record.value) for record in store.records(1)] == [
        (0, b"a", b"1"),
        (1, b"b", None),
        (2, b"a", b"2"),
    ]
    assert store.table(1) == {b"a": b"2"}
    assert len(store.read(1, 2)) < len(store.read(1, 1)) == len(store.read(1, 0))
    assert len(store.read(1, 3)) == 0


def test_the_store_fails_on_demand_and_keeps_nothing_then() -> None:
    store = MemoryStore()
    store.failure = ErrorCode.NOT_COORDINATOR

    assert error_of(lambda: store.append(0, [(b"a", b"1")], 10)) == ErrorCode.NOT_COORDINATOR
    assert store.records(0) == []


def test_a_reply_insists_on_one_answer() -> None:
    reply: Reply[int] = Reply()
    assert reply.is_parked
    reply(1)
    assert reply.answer == 1
    with pytest.raises(AssertionError):
        reply(2)


def test_error_of_returns_kafka_errors_only() -> None:
    def fail() -> None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    assert error_of(fail) == ErrorCode.INVALID_REQUEST
    assert error_of(lambda: None) == ErrorCode.NONE


SUBSCRIPTIONS = [
    ([subscription("a", "b"), subscription("b", "c")], {"a", "b", "c"}),
    ([subscription()], set()),
    ([subscription("a", version=3) + b"more fields of later versions"], {"a"}),
    ([], set()),
    ([subscription("a"), b""], None),
    ([subscription("a")[:-5]], None),
    ([b"\xff\xff" + subscription("a")[2:]], None),
    ([b"\0\0" + b"\x7f\xff\xff\xff"], None),
]


@pytest.mark.parametrize(("blobs", "topics"), SUBSCRIPTIONS)
def test_topics_are_read_from_members_metadata(blobs: list[bytes], topics: set[str] | None) -> None:
    assert to_the_end(subscribed_topics(blobs)) == (None if topics is None else frozenset(topics))
