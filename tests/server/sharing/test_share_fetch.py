"""Members of a share group acquire records and acknowledge them: over the wire, on one broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import delete_share_group_state as delete
from ottla.protocol.messages import write_share_group_state as write
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.server.handlers import share_sessions
from ottla.server.sharing.acknowledging import ACCEPT, GAP, REJECT, RELEASE, RENEW
from support.broker.admin import delete_records
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS
from support.sharing.members import Member, acquired, initialize_share, offsets_of
from support.sizes import size

LOCK_MS = 30_000


class Shared:
    """A topic of two partitions that group g has from the beginning, and a client of each member."""

    def __init__(self, broker: ottla.Broker, clients: ExitStack) -> None:
        self.broker = broker
        self._clients = clients
        self.client = self.connect()
        self.topic_id: bytes = create_topic(self.client, "t", 2).topic_id
        initialize_share(self.client, "g", self.topic_id, 2)

    def connect(self) -> RawClient:
        return self._clients.enter_context(RawClient(*address(self.broker)))

    def member(self, name: str = "m", **options: Any) -> Member:
        return Member(self.connect(), self.topic_id, name, **options)

    def produce(self, count: int, partition: int = 0, **options: Any) -> None:
        produce(self.client, "t", *((f"k{n}", f"v{n}") for n in range(count)), partition=partition, **options)


@pytest.fixture
def shared() -> Iterator[Shared]:
    with ottla.Broker(overrides=FEW_PARTITIONS) as broker, ExitStack() as clients:
        yield Shared(broker, clients)


def test_a_member_acquires_existing_records_and_another_the_next(shared: Shared) -> None:
    shared.produce(3)
    one, two = shared.member("one"), shared.member("two")
    row = one.fetch(0)[0]
    assert (acquired(row), offsets_of(row)) == ([(0, 2, 1)], [0, 1, 2])
    assert two.got(0, max_wait_ms=0) == []
    shared.produce(2)
    assert two.got(max_wait_ms=5_000) == [(3, 4, 1)]


def test_accepted_records_are_finished_and_released_ones_return(shared: Shared) -> None:
    shared.produce(4)
    member = shared.member()
    assert member.got(0) == [(0, 3, 1)]
    assert member.said({0: [(0, 1, [ACCEPT]), (2, 3, [RELEASE, REJECT])]}) == {0: 0}
    assert member.got() == [(2, 2, 2)]
    assert member.got(says={0: [(2, 2, [GAP])]}) == []
    assert member.got(max_wait_ms=0) == []


def test_acknowledgements_come_with_the_next_fetch(shared: Shared) -> None:
    shared.produce(2)
    member = shared.member()
    member.fetch(0)
    row = member.fetch(says={0: [(0, 1, [RELEASE])]})[0]
    assert (row.acknowledge_error_code, acquired(row)) == (0, [(0, 1, 2)])
    row = member.fetch(says={0: [(7, 9, [ACCEPT])]}, max_wait_ms=0)[0]
    assert (row.error_code, row.acknowledge_error_code) == (0, ErrorCode.INVALID_REQUEST)


def test_locks_expire_in_time_and_renewals_extend_them(shared: Shared) -> None:
    shared.produce(2)
    member, other = shared.member("one"), shared.member("two")
    member.fetch(0)
    other.fetch(0, max_wait_ms=0)
    shared.broker.clock.advance(milliseconds=LOCK_MS - 1_000)
    answer = member.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True)
    assert (answer.acquisition_lock_timeout_ms, answer.responses[0].partitions[0].error_code) == (LOCK_MS, 0)
    shared.broker.clock.advance(milliseconds=2_000)
    assert other.got(max_wait_ms=5_000) == [(1, 1, 2)]
    assert member.said({0: [(0, 0, [ACCEPT])]}) == {0: 0}
    assert member.said({0: [(1, 1, [ACCEPT])]}) == {0: ErrorCode.INVALID_RECORD_STATE}


def test_the_next_request_ends_a_wait_for_records(shared: Shared) -> None:
    member = shared.member()
    member.fetch(0, max_wait_ms=0)
    for _ in range(3):
        member.client.send(member.request(max_wait_ms=600_000), 2)
        member.client.send(MetadataRequest(topics=()), 12)
        assert member.client.receive().error_code == 0
        member.epoch += 1
        assert isinstance(member.client.receive(), MetadataResponse)


def test_a_closed_connection_releases_its_members_records(shared: Shared) -> None:
    shared.produce(2)
    member, other = shared.member("one"), shared.member("two")
    member.fetch(0)
    other.fetch(0, max_wait_ms=0)
    member.client.close()
    assert other.got(max_wait_ms=10_000) == [(0, 1, 2)]


@pytest.mark.parametrize("is_fetch", [False, True])
def test_the_last_request_of_a_session_releases_remaining_records(shared: Shared, is_fetch: bool) -> None:
    shared.produce(3)
    member, other = shared.member("one"), shared.member("two")
    member.fetch(0)
    other.fetch(0, max_wait_ms=0)
    if is_fetch:
        (row,) = member.fetch(says={0: [(0, 0, [ACCEPT])]}, share_session_epoch=-1).values()
        assert (row.acknowledge_error_code, row.records) == (0, b"")
    else:
        assert member.said({0: [(0, 0, [ACCEPT])]}, share_session_epoch=-1) == {0: 0}
    assert other.got(max_wait_ms=5_000) == [(1, 2, 2)]
    assert member.acknowledge({}, share_session_epoch=5).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_acknowledgements_survive_a_kill_of_the_broker(shared: Shared) -> None:
    shared.produce(5)
    member = shared.member()
    member.fetch(0)
    assert member.said({0: [(0, 1, [ACCEPT]), (3, 3, [ACCEPT])]}) == {0: 0}
    shared.broker.crash()
    again = shared.member("again")
    assert again.got(0, max_wait_ms=10_000) == [(2, 2, 1), (4, 4, 1)]


def test_a_record_acquired_before_and_after_a_kill_is_accepted_once(shared: Shared) -> None:
    shared.produce(3)
    assert shared.member().got(0) == [(0, 2, 1)]
    shared.broker.crash()
    member = shared.member()
    assert member.got(0, max_wait_ms=10_000) == [(0, 2, 1)]
    for expected in (0, ErrorCode.INVALID_RECORD_STATE):  # of the first copy, of the second
        assert member.said({0: [(1, 2, [ACCEPT])]}) == {0: expected}
    assert member.said({0: [(0, 0, [ACCEPT])]}) == {0: 0}
    assert member.said({0: [(0, 2, [ACCEPT])]}) == {0: 0}  # finished records have no error, as in Apache Kafka
    assert member.got(max_wait_ms=0) == []


def test_the_number_of_deliveries_of_a_record_is_limited(shared: Shared) -> None:
    shared.produce(1)
    member = shared.member()
    assert member.got(0) == [(0, 0, 1)]
    counts = [member.got(says={0: [(0, 0, [RELEASE])]}) for _ in range(4)]
    assert counts == [[(0, 0, 2)], [(0, 0, 3)], [(0, 0, 4)], [(0, 0, 5)]]
    assert member.got(says={0: [(0, 0, [RELEASE])]}) == []


def test_records_deleted_from_the_log_are_not_delivered(shared: Shared) -> None:
    shared.produce(3)
    shared.produce(2)
    member = shared.member()
    delete_records(shared.client, "t", 3)
    assert member.got(0) == [(3, 4, 1)]


def test_a_record_limit_splits_a_batch(shared: Shared) -> None:
    shared.produce(6)
    member = shared.member()
    assert member.got(0, share_acquire_mode=1, max_records=2) == [(0, 1, 1)]
    assert member.got(share_acquire_mode=1, max_records=3) == [(2, 4, 1)]
    assert member.got(max_records=1) == [(5, 5, 1)]


def test_partitions_rotate_and_forgotten_ones_are_omitted(shared: Shared) -> None:
    shared.produce(2, 0)
    shared.produce(2, 1)
    member = shared.member()
    assert {
        index: acquired(row) for index, row in member.fetch(0, 1, max_records=1).items() if row.acquired_records
    } == {0: [(0, 1, 1)]}
    assert {index: acquired(row) for index, row in member.fetch(max_records=1).items() if row.acquired_records} == {
        1: [(0, 1, 1)]
    }
    shared.produce(1, 0)
    assert member.fetch(forgotten=(0,), max_wait_ms=0) == {}


REFUSED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "no group": ({"group_id": None}, ErrorCode.INVALID_REQUEST),
    "no member": ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
    "a member id that is too long": ({"member_id": "m" * 37}, ErrorCode.INVALID_REQUEST),
    "an epoch that is not due": ({"share_session_epoch": 4}, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    "a session that there is not": ({"member_id": "x", "share_session_epoch": 1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
    "the end of none": ({"member_id": "x", "share_session_epoch": -1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
    "a renewal that fetches": ({"is_renew_ack": True}, ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize(("options", "code"), REFUSED.values(), ids=REFUSED)
def test_invalid_requests_are_refused(shared: Shared, options: dict[str, Any], code: ErrorCode) -> None:
    member = shared.member()
    member.fetch(0, max_wait_ms=0)
    assert member.ask(**options).error_code == code


WRONG: dict[str, tuple[list[tuple[int, int, list[int]]], ErrorCode]] = {
    "out of order": ([(1, 1, [ACCEPT]), (0, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    "twice": ([(0, 1, [ACCEPT]), (1, 2, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),
    "the wrong way round": ([(2, 1, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    "no type": ([(0, 1, [])], ErrorCode.INVALID_REQUEST),
    "too few types": ([(0, 2, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
    "a type that there is not": ([(0, 0, [5])], ErrorCode.INVALID_REQUEST),
    "a renewal that is not announced": ([(0, 0, [RENEW])], ErrorCode.INVALID_REQUEST),
    "past what is in flight": ([(0, 9_999_999, [ACCEPT])], ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize(("batches", "code"), WRONG.values(), ids=WRONG)
def test_an_invalid_acknowledgement_has_no_effect(
    shared: Shared, batches: list[tuple[int, int, list[int]]], code: ErrorCode
) -> None:
    shared.produce(3)
    member = shared.member()
    member.fetch(0)
    assert member.said({0: batches}) == {0: code}
    assert member.said({0: [(0, 2, [ACCEPT])]}) == {0: 0}


AT_ONCE = [(1, 1), (1, 500), (1_000, 1)]
"""Types and runs. In a short run each of WRONG has one of these."""


@pytest.mark.parametrize(
    ("batches", "code", "types", "runs"),
    [
        pytest.param(*wrong, *at_once, id=f"{name}, {at_once}")
        for at, (name, wrong) in enumerate(WRONG.items())
        for at_once in size(AT_ONCE[at % 3 :][:1], AT_ONCE)
    ],
)
def test_an_acknowledgement_refused_over_many_slices_has_no_effect(
    shared: Shared,
    batches: list[tuple[int, int, list[int]]],
    code: ErrorCode,
    types: int,
    runs: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(share_sessions, "TYPES_AT_ONCE", types)
    monkeypatch.setattr(share_sessions, "RUNS_AT_ONCE", runs)
    test_an_invalid_acknowledgement_has_no_effect(shared, batches, code)


def test_renewals_need_version_two(shared: Shared) -> None:
    shared.produce(1)
    member = shared.member(version=1)
    member.fetch(0)
    assert member.said({0: [(0, 0, [RENEW])]}) == {0: ErrorCode.INVALID_REQUEST}


def test_partitions_that_cannot_be_fetched_get_individual_errors(shared: Shared) -> None:
    shared.produce(1)
    member = shared.member()
    rows = member.fetch(0, 7)
    assert (rows[7].error_code, acquired(rows[0])) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [(0, 0, 1)])
    assert member.said({7: [(0, 0, [ACCEPT])]}) == {7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    strange = Member(shared.connect(), bytes(range(16)), "strange")
    assert strange.fetch(0)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_deleted_topic_is_unknown_to_its_sessions(shared: Shared) -> None:
    shared.produce(1)
    member = shared.member()
    member.fetch(0)
    shared.client.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=5_000))
    assert member.fetch()[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert member.said({0: [(0, 0, [ACCEPT])]}) == {0: ErrorCode.UNKNOWN_TOPIC_ID}


AVAILABLE, ARCHIVED = 0, 4
EXTREMES: dict[str, tuple[int, list[tuple[int, int, int, int]]]] = {
    "the first offset": (-(2**63), []),
    "the last offset": (2**63 - 1, []),
    "the most deliveries": (0, [(0, 0, AVAILABLE, 2**15 - 1)]),
    "the fewest deliveries": (0, [(0, 0, AVAILABLE, -(2**15))]),
    "all offsets": (0, [(0, 2**63 - 1, ARCHIVED, 1)]),
    "all offsets, available": (0, [(0, 2**63 - 1, AVAILABLE, 1)]),
    "more that are over than a number has room for": (0, [(1, 2**40, ARCHIVED, 1)]),
}


@pytest.mark.parametrize(("start", "batches"), EXTREMES.values(), ids=EXTREMES)
def test_the_broker_survives_any_state_written_for_a_group(
    shared: Shared, start: int, batches: list[tuple[int, int, int, int]]
) -> None:
    shared.produce(1)
    initialize_share(shared.client, "x", shared.topic_id, start_offset=start)
    row = write.PartitionData(
        partition=0,
        start_offset=start,
        delivery_complete_count=2**31 - 1,
        state_batches=tuple(
            write.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in batches
        ),
    )
    topic = write.WriteStateData(topic_id=shared.topic_id, partitions=(row,))
    answer = shared.client.ask(write.WriteShareGroupStateRequest(group_id="x", topics=(topic,)))
    assert answer.results[0].partitions[0].error_code == 0
    names = (DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=(0,)),)
    groups = (DescribeShareGroupOffsetsRequestGroup(group_id="x", topics=names),)
    (group,) = shared.client.ask(DescribeShareGroupOffsetsRequest(groups=groups)).groups
    assert group.topics[0].partitions[0].start_offset == start
    with ExitStack() as clients:
        client = clients.enter_context(RawClient(*address(shared.broker)))
        member = Member(client, shared.topic_id, "x", group="x")
        member.ask(0, max_wait_ms=0)
        member.epoch = 1
        member.ask(max_wait_ms=0)
    other = shared.member("other")
    assert other.got(0) == [(0, 0, 1)]
    assert other.said({0: [(0, 0, [RELEASE])]}) == {0: 0}
    assert other.got(max_wait_ms=5_000) == [(0, 0, 2)]


def test_a_group_without_a_state_gets_no_records(shared: Shared) -> None:
    shared.produce(1)
    member = shared.member(group="unheard of")
    assert member.fetch(0, max_wait_ms=5_000)[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def forget_share(shared: Shared) -> None:
    topic = delete.DeleteStateData(
        topic_id=shared.topic_id,
        partitions=(
            delete.PartitionData(partition=0),
            delete.PartitionData(partition=1),
        ),
    )
    answer = shared.client.ask(delete.DeleteShareGroupStateRequest(group_id="g", topics=(topic,)))
    assert [row.error_code for row in answer.results[0].partitions] == [0, 0]


@pytest.mark.parametrize("is_open", [True, False], ids=["session open", "session closed"])
@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted before", "not deleted"])
@pytest.mark.parametrize("state_epoch", [0, 5], ids=["the same epoch", "another epoch"])
def test_a_leader_is_notified_at_once_of_a_restarted_state(
    shared: Shared, state_epoch: int, is_deleted: bool, is_open: bool
) -> None:
    shared.produce(4)
    member = shared.member()
    assert member.got(0) == [(0, 3, 1)]
    if not is_open:
        assert member.said({0: [(0, 3, [ACCEPT])]}, share_session_epoch=-1) == {0: 0}
    if is_deleted:
        forget_share(shared)
    initialize_share(shared.client, "g", shared.topic_id, 2, start_offset=1, state_epoch=state_epoch)
    if is_open:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert member.said({0: [(0, 3, [ACCEPT])]}) == {0: code}, "what it had is not its own any more"
    assert shared.member("other").got(0, max_wait_ms=5_000) == [(1, 3, 1)]


@pytest.mark.parametrize("is_open", [True, False], ids=["session open", "session closed"])
def test_a_leader_is_notified_at_once_of_a_deleted_state(shared: Shared, is_open: bool) -> None:
    shared.produce(2)
    member = shared.member()
    assert member.got(0, max_records=1, batch_size=1) == [(0, 1, 1)]
    if not is_open:
        assert member.said({0: [(0, 1, [RELEASE])]}, share_session_epoch=-1) == {0: 0}
    forget_share(shared)
    row = shared.member("other").fetch(0, max_wait_ms=5_000)[0]
    assert (row.error_code, acquired(row)) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
