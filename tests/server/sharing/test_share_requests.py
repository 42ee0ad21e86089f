"""Members of share groups over the wire: acquired records, acknowledgements, and records that come back when members leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import share_acknowledge, share_fetch
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.records import batches
from ottla.server.config.features import UpgradeType
from ottla.server.services.share_persister import SharePersister
from ottla.server.sharing.in_flight import State
from ottla.server.sharing.share_records import SharePartitionKey
from ottla.server.sharing.share_sessions import FINAL_EPOCH
from ottla.server.sharing.state_batches import ShareStateBatch
from support.broker.background_jobs import eventually
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS
from support.transactions.transactional_client import TransactionalClient

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
LOCK_MS = 30_000
FIRST_WAIT_MS = 500
"""The wait of the first fetch, which loads the state of the share partition."""


class Member:
    """One connection, and the session of one member on it."""

    def __init__(self, broker: ottla.Broker, name: str, topic_id: bytes, node: int = 0) -> None:
        self.client = RawClient(*address(broker, node))
        self.name, self.topic_id = name, topic_id
        self.epoch = 0
        self.group = "g"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def request(self, partitions: Sequence[int], said: Any = (), **options: Any) -> ShareFetchRequest:
        rows = tuple(
            share_fetch.FetchPartition(
                partition_index=index,
                acknowledgement_batches=tuple(
                    share_fetch.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=tuple(types)
                    )
                    for first, last, *types in said
                ),
            )
            for index in partitions
        )
        given = {
            "max_wait_ms": 0 if self.epoch else FIRST_WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        }
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch,
            topics=(share_fetch.FetchTopic(topic_id=self.topic_id, partitions=rows),) if rows else (),
            **(given | options),
        )

    def whole(self, *partitions: int, **options: Any) -> Any:
        """Return the answer to a fetch."""
        answer = self.client.ask(self.request(partitions or (0,), **options))
        if not answer.error_code:
            self.epoch += 1
        return answer

    def fetch(self, *partitions: int, **options: Any) -> list[tuple[int, int, int]]:
        """Return the acquired records: first and last offset, delivery count."""
        answer = self.whole(*partitions, **options)
        assert answer.error_code == 0, answer
        found = []
        for topic in answer.responses:
            for row in topic.partitions:
                assert (row.error_code, row.acknowledge_error_code) == (0, 0), row
                acquired = [(one.first_offset, one.last_offset, one.delivery_count) for one in row.acquired_records]
                sent = [batch for batch in batches(row.records)] if row.records else []
                if acquired:
                    assert sent[0].base_offset <= acquired[0][0] and sent[-1].last_offset >= acquired[-1][1]
                found += acquired
        return found

    def acknowledge(self, *said: tuple[int, ...], epoch: int | None = None, renews: bool = False) -> Any:
        """Return the answer for the first partition, or the whole one if it has none."""
        row = share_acknowledge.AcknowledgePartition(
            partition_index=0,
            acknowledgement_batches=tuple(
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
                for first, last, *types in said
            ),
        )
        answer = self.client.ask(
            ShareAcknowledgeRequest(
                group_id="g",
                member_id=self.name,
                share_session_epoch=self.epoch if epoch is None else epoch,
                is_renew_ack=renews,
                topics=(share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=(row,)),),
            )
        )
        if not answer.error_code and epoch is None:
            self.epoch += 1
        return answer if answer.error_code else answer.responses[0].partitions[0]


class Queue:
    """A topic of two partitions, shared from its beginning by the group g."""

    def __init__(self, broker: ottla.Broker) -> None:
        self.broker = broker
        with RawClient(*address(broker)) as client:
            self.topic_id = create_topic(client, "t", 2, len(broker.inner.nodes)).topic_id
        for partition in range(2):
            self.begin("g", partition)

    def begin(self, group: str, partition: int, offset: int = 0) -> None:
        """Initialize the state, as the coordinator of the group does."""

        async def initialize() -> None:
            states = self.broker.inner.services.coordinators.share_states
            assert not await SharePersister(states).initialize(group, 0, {self.topic_id: {partition: offset}})

        self.broker.run(initialize)

    def has_written(self, *batches: ShareStateBatch) -> bool:
        """Return whether a new leader of partition 0 would read these batches."""

        async def read() -> tuple[ShareStateBatch, ...]:
            states = self.broker.inner.services.coordinators.share_states
            state = states.coordinator.summary(SharePartitionKey("g", self.topic_id, 0))
            assert state is not None
            return state.batches

        return self.broker.run(read) == batches

    def configure(self, group: str, name: str, value: str) -> None:
        change = AlterableConfig(name=name, value=value)
        resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=(change,))
        with RawClient(*address(self.broker)) as client:
            (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
        assert row.error_code == 0, row.error_message

    def member(self, name: str = "a", node: int = 0) -> Member:
        return Member(self.broker, name, self.topic_id, node)

    def produce(self, *counts: int, partition: int = 0, node: int = 0) -> None:
        """Produce batches with these numbers of records."""
        with RawClient(*address(self.broker, node)) as client:
            for count in counts:
                pairs = [(None, b"v")] * count
                assert (
                    produce(client, "t", *pairs, partition=partition, timestamp=self.broker.clock.now_ms()).error_code
                    == 0
                )

    def delete_before(self, offset: int) -> None:
        """Delete the records of partition 0 before an offset."""
        row = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name="t", partitions=(row,))
        with RawClient(*address(self.broker)) as client:
            (told,) = client.ask(DeleteRecordsRequest(topics=(topic,), timeout_ms=1_000)).topics[0].partitions
        assert (told.error_code, told.low_watermark) == (0, offset)


@contextmanager
def shared(data_dir: Path | None = None, overrides: dict[str, str] | None = None, **options: Any) -> Iterator[Queue]:
    few = FEW_PARTITIONS | (overrides or {})
    with ottla.Broker(None if data_dir is None else str(data_dir), overrides=few, **options) as broker:
        yield Queue(broker)


@pytest.fixture
def queue() -> Iterator[Queue]:
    with shared() as queue:
        yield queue


def test_one_members_records_are_unavailable_to_others_until_released(queue: Queue) -> None:
    queue.produce(5, 5)
    with queue.member("a") as a, queue.member("b") as b:
        assert a.fetch(max_records=1) == [(0, 4, 1)], "a whole batch"
        assert b.fetch() == [(5, 9, 1)]
        assert a.fetch() == b.fetch() == []
        assert a.acknowledge((0, 1, ACCEPT), (2, 4, RELEASE)).error_code == 0
        assert b.fetch() == [(2, 4, 2)]
        assert a.acknowledge((2, 2, ACCEPT)).error_code == ErrorCode.INVALID_RECORD_STATE


def test_a_record_limit_bounds_the_delivery(queue: Queue) -> None:
    queue.produce(5)
    with queue.member("a") as a, queue.member("b") as b:
        assert a.fetch(max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
        assert b.fetch() == [(2, 4, 1)]


def test_an_unknown_mode_is_refused_if_records_are_requested(queue: Queue) -> None:
    """Apache Kafka 4.3.1 does the same, and applies acknowledgements before that."""
    queue.produce(3)
    with queue.member() as a:
        assert a.fetch() == [(0, 2, 1)]
        assert a.whole(said=[(0, 0, ACCEPT)], share_acquire_mode=2).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        a.epoch += 1
        renewing = {"is_renew_ack": True, "max_bytes": 0, "min_bytes": 0, "max_records": 0}
        assert a.fetch(said=[(1, 1, RENEW)], share_acquire_mode=2, **renewing) == []
        assert a.acknowledge((1, 2, RELEASE)).error_code == 0
        assert a.fetch(share_acquire_mode=1) == [(1, 2, 2)]


def test_acknowledgements_may_be_sent_with_a_fetch(queue: Queue) -> None:
    queue.produce(3, 3)
    with queue.member() as a:
        assert a.fetch(max_records=3) == [(0, 2, 1)]
        assert a.fetch(said=[(0, 2, ACCEPT)]) == [(3, 5, 1)]
        answer = a.whole(said=[(0, 9, ACCEPT)])
        (row,) = answer.responses[0].partitions
        assert (row.error_code, row.acknowledge_error_code) == (0, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("how", ["the connection ends", "the session ends", "the time of its locks"])
def test_a_members_records_become_available_in_each_way(how: str) -> None:
    with shared() as queue:
        queue.produce(4)
        with queue.member("a") as a, queue.member("b") as b:
            assert a.fetch() == [(0, 3, 1)]
            assert b.fetch() == []
            if how == "the connection ends":
                a.client.close()
            elif how == "the session ends":
                assert a.acknowledge((3, 3, ACCEPT), epoch=FINAL_EPOCH).error_code == 0
            else:
                queue.broker.advance_clock(LOCK_MS)
            left = (0, 2, 2) if how == "the session ends" else (0, 3, 2)
            assert b.fetch(max_wait_ms=60_000) == [left]


def test_a_member_may_renew_its_locks() -> None:
    with shared() as queue:
        queue.produce(4)
        with queue.member("a") as a, queue.member("b") as b:
            a.fetch()
            b.fetch()
            queue.broker.advance_clock(LOCK_MS // 2)
            assert a.acknowledge((0, 0, RENEW)).error_code == ErrorCode.INVALID_REQUEST, "it must say so"
            assert a.acknowledge((0, 0, RENEW), renews=True).error_code == 0
            queue.broker.advance_clock(LOCK_MS // 2)
            assert b.fetch(max_wait_ms=60_000) == [(1, 3, 2)]
            assert a.whole(is_renew_ack=True).error_code == ErrorCode.INVALID_REQUEST
            assert a.fetch(is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0, said=[(0, 0, RENEW)]) == []


def test_the_number_of_deliveries_is_limited(queue: Queue) -> None:
    queue.produce(1)
    with queue.member() as a:
        for delivery in range(1, 6):
            assert a.fetch() == [(0, 0, delivery)]
            assert a.acknowledge((0, 0, RELEASE)).error_code == 0
        assert a.fetch() == []
        queue.produce(1)
        assert a.fetch() == [(1, 1, 1)]


@pytest.mark.parametrize("what", ["records come", "others give some back", "there is room again"])
def test_a_fetch_waits_for_an_event(what: str) -> None:
    with shared(overrides={"group.share.partition.max.record.locks": "100"}) as queue:
        queue.produce(100)
        with queue.member("a") as a, queue.member("b") as b:
            if what == "records come":
                assert a.fetch() == [(0, 99, 1)]
                assert a.acknowledge((0, 99, ACCEPT)).error_code == 0
            else:
                assert a.fetch() == [(0, 99, 1)]
            if what == "there is room again":
                queue.produce(1)
            b.client.send(b.request((0,), max_wait_ms=60_000))
            if what == "records come":
                queue.produce(1)
            elif what == "others give some back":
                assert a.acknowledge((5, 5, RELEASE)).error_code == 0
            else:
                assert a.acknowledge((0, 99, ACCEPT)).error_code == 0
            answer = b.client.receive()
            (row,) = answer.responses[0].partitions
            expected = (5, 5, 2) if what == "others give some back" else (100, 100, 1)
            (one,) = row.acquired_records
            assert (one.first_offset, one.last_offset, one.delivery_count) == expected


def test_after_a_restart_acknowledged_records_are_finished_and_others_offered_again(tmp_path: Path) -> None:
    with shared(tmp_path) as queue:
        queue.produce(10)
        with queue.member() as a:
            assert a.fetch() == [(0, 9, 1)]
            assert a.acknowledge((0, 2, ACCEPT), (5, 5, REJECT), (7, 7, RELEASE)).error_code == 0
        topic_id = queue.topic_id
    with ottla.Broker(str(tmp_path)) as broker, Member(broker, "b", topic_id) as b:
        found = b.fetch()
        offsets = {offset: count for first, last, count in found for offset in range(first, last + 1)}
        assert set(offsets) == {3, 4, 6, 7, 8, 9}
        assert offsets[7] == 2


def test_locks_that_expire_together_are_one_batch_for_a_new_leader(tmp_path: Path) -> None:
    """Apache Kafka, which writes an update for each of them, leaves the last one apart (compat/apache_kafka/DIFFERENCES.md)."""
    with shared(tmp_path) as queue:
        queue.produce(4, 4)
        with queue.member() as a:
            for delivery in 1, 2:
                assert a.fetch(batch_size=1, max_wait_ms=60_000) == [(0, 3, delivery), (4, 7, delivery)]
                queue.broker.advance_clock(LOCK_MS)
                is_released = partial(queue.has_written, ShareStateBatch(0, 7, State.AVAILABLE, delivery))
                assert eventually(queue.broker, is_released)
        topic_id = queue.topic_id
    with ottla.Broker(str(tmp_path)) as broker, Member(broker, "b", topic_id) as b:
        assert b.fetch(max_records=1) == [(0, 7, 3)]


@pytest.mark.parametrize(
    ("reset", "found"), [("latest", []), ("earliest", [(0, 2, 1)]), ("by_duration:PT1H", [(2, 2, 1)])]
)
def test_a_group_starts_at_the_configured_offset(queue: Queue, reset: str, found: list[tuple[int, int, int]]) -> None:
    queue.produce(1, 1)
    queue.broker.advance_clock(2 * 3_600_000)
    queue.produce(1)
    queue.begin("new", 0, -1)
    queue.configure("new", "share.auto.offset.reset", reset)
    with queue.member() as a:
        a.group = "new"
        assert a.fetch() == found


def test_a_group_does_not_start_without_a_young_enough_record(queue: Queue) -> None:
    queue.produce(1)
    queue.broker.advance_clock(2 * 3_600_000)
    queue.begin("new", 0, -1)
    queue.configure("new", "share.auto.offset.reset", "by_duration:PT1H")
    with queue.member() as a:
        a.group = "new"
        (row,) = a.whole().responses[0].partitions
        assert (row.error_code, row.error_message) == (ErrorCode.OFFSET_NOT_AVAILABLE, None)
        queue.produce(2)
        assert a.fetch(max_wait_ms=FIRST_WAIT_MS) == [(1, 2, 1)]


def test_records_of_a_forgotten_partition_stay_acquired_until_disconnection(queue: Queue) -> None:
    queue.produce(3)
    with queue.member("a") as a, queue.member("b") as b:
        assert a.fetch() == [(0, 2, 1)]
        gone = share_fetch.ForgottenTopic(topic_id=queue.topic_id, partitions=(0,))
        whole = a.request((), forgotten_topics_data=(gone,))
        assert a.client.ask(whole).error_code == 0
        a.epoch += 1
        assert a.client.ask(replace(a.request(()), share_session_epoch=FINAL_EPOCH)).error_code == 0
        assert b.fetch() == [], "a session ended, with nothing in it"
        assert b.client.ask(replace(b.request(()), share_session_epoch=FINAL_EPOCH)).error_code == 0
    leaders = queue.broker.inner.services.coordinators.share_leaders
    assert eventually(queue.broker, lambda: not len(leaders)), "it is let go of with the connections"
    with queue.member("c") as c:
        assert c.fetch() == [(0, 2, 1)], "nothing was kept of the group, nor written of these records"


def test_a_partition_next_to_a_refused_acknowledgement_is_answered(queue: Queue) -> None:
    queue.produce(3)
    with queue.member() as a:
        assert a.fetch(max_wait_ms=30_000) == [(0, 2, 1)]
        rows = tuple(
            share_fetch.FetchPartition(
                partition_index=index,
                acknowledgement_batches=(
                    share_fetch.AcknowledgementBatch(first_offset=7, last_offset=7, acknowledge_types=(ACCEPT,)),
                )[index:],
            )
            for index in range(2)
        )
        topic = share_fetch.FetchTopic(topic_id=queue.topic_id, partitions=rows)
        for _ in range(2):  # The answer contains a partition that is new to a session in any case.
            request = replace(a.request((), max_records=0), topics=(topic,))
            answer = a.client.ask(request)
            a.epoch += 1
        told = {row.partition_index: row.acknowledge_error_code for row in answer.responses[0].partitions}
        assert told == {0: ErrorCode.INVALID_REQUEST, 1: ErrorCode.NONE}


def test_compacted_offsets_count_like_records(queue: Queue) -> None:
    again = [b"x"]
    kept = [[b"a", *again * 7], again * 12, [b"b", *again * 7], again * 8, [b"c", *again]]
    with RawClient(*address(queue.broker)) as client:
        topic_id = create_topic(client, "c", cleanup_policy="compact").topic_id
        for keys in kept:
            produce(client, "c", *((key, b"v") for key in keys))
        queue.broker.compact("c", force=True)

    async def initialize() -> None:
        states = queue.broker.inner.services.coordinators.share_states
        assert not await SharePersister(states).initialize("g", 0, {topic_id: {0: 0}})

    queue.broker.run(initialize)
    with Member(queue.broker, "a", topic_id) as a:
        assert a.fetch(max_records=1, max_wait_ms=FIRST_WAIT_MS) == [(0, 7, 1)]
        row = a.whole(max_records=10).responses[0].partitions[0]
        assert [(one.first_offset, one.last_offset) for one in row.acquired_records] == [(20, 29)]
        assert [batch.base_offset for batch in batches(row.records)] == [20], "no batch that nothing was acquired of"


REFUSED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "no group": ({"group_id": None}, ErrorCode.INVALID_REQUEST),
    "no member": ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
    "a member id that is too long": ({"member_id": 37 * "m"}, ErrorCode.INVALID_REQUEST),
    "a session that never began": ({"share_session_epoch": 1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
    "the end of one": ({"share_session_epoch": -1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_fetch_is_refused_for_invalid_fields(queue: Queue, name: str) -> None:
    changes, code = REFUSED[name]
    request = ShareFetchRequest(**({"group_id": "g", "member_id": "m"} | changes))
    with queue.member() as a:
        assert a.client.ask(request).error_code == code


def test_a_session_counts_its_requests(queue: Queue) -> None:
    with queue.member() as a:
        a.fetch()
        a.epoch = 7
        assert a.whole().error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert a.acknowledge((0, 0, ACCEPT)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert a.acknowledge((0, 0, ACCEPT), epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        a.epoch = 0
        assert a.whole(said=[(0, 0, ACCEPT)]).error_code == ErrorCode.INVALID_REQUEST


def test_each_partition_is_refused_separately(queue: Queue) -> None:
    queue.produce(1)
    with queue.member() as a:
        answer = a.whole(0, 7)
        codes = {row.partition_index: row.error_code for row in answer.responses[0].partitions}
        assert codes == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        a.topic_id = bytes(range(16))
        (row,) = a.whole(0).responses[-1].partitions
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_number_of_sessions_is_limited() -> None:
    with shared(overrides={"group.share.max.share.sessions": "1"}) as queue, queue.member("a") as a:
        a.fetch()
        with queue.member("b") as b:
            assert b.whole().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_client_that_found_no_room_for_its_session_is_answered_when_another_session_ends() -> None:
    with shared(overrides={"group.share.max.share.sessions": "1"}) as queue, queue.member("b") as b:
        with queue.member("a") as a:
            a.fetch()
            b.client.send(b.request((0,), max_wait_ms=600_000))
            (sessions,) = queue.broker.inner.services.coordinators.share_leaders.sessions.values()
            assert eventually(queue.broker, lambda: bool(sessions._waiting)), "it comes before the other leaves"
        assert b.client.receive().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert b.whole().error_code == 0


def test_deleted_records_are_finished(queue: Queue) -> None:
    queue.produce(5, 5)
    with queue.member() as a:
        assert a.fetch(max_records=5) == [(0, 4, 1)]
        queue.delete_before(7)
        assert a.acknowledge((0, 4, ACCEPT)).error_code in (0, ErrorCode.INVALID_REQUEST)
        assert a.fetch() == [(7, 9, 1)]


def test_a_batch_across_the_log_start_delivers_no_deleted_records(tmp_path: Path) -> None:
    """Apache Kafka gives the whole batch if something older was in flight (compat/apache_kafka/DIFFERENCES.md)."""
    with shared(tmp_path) as queue:
        queue.produce(7)
        with queue.member() as a:
            assert a.fetch() == [(0, 6, 1)]
            assert a.acknowledge((0, 6, RELEASE)).error_code == 0
        queue.produce(27)
        queue.delete_before(29)
        topic_id = queue.topic_id
    with ottla.Broker(str(tmp_path)) as broker, Member(broker, "b", topic_id) as b:
        assert b.fetch() == [(29, 33, 1)]


def test_a_new_leader_continues_from_the_written_state() -> None:
    with shared(nodes=2) as queue:
        leader = queue.broker.inner.services.topics.partition("t", 0).leader
        other = next(node.node_id for node in queue.broker.inner.nodes if node.node_id != leader)
        queue.produce(4, node=leader)
        with queue.member("a", leader) as a, queue.member("b", other) as b:
            assert a.fetch() == [(0, 3, 1)]
            assert a.acknowledge((0, 1, ACCEPT)).error_code == 0
            row = b.whole().responses[0].partitions[0]
            assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader)
            queue.broker.move_leader("t", 0, other)
            assert a.acknowledge((2, 2, ACCEPT)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert b.fetch(max_wait_ms=FIRST_WAIT_MS) == [(2, 3, 1)]


def test_a_session_with_the_former_leader_releases_nothing_at_the_new() -> None:
    with shared(nodes=2) as queue:
        leader = queue.broker.inner.services.topics.partition("t", 0).leader
        other = next(node.node_id for node in queue.broker.inner.nodes if node.node_id != leader)
        queue.produce(2, node=leader)
        with queue.member("a", leader) as before, queue.member("a", other) as after, queue.member("b", other) as b:
            assert before.fetch(max_records=1) == [(0, 1, 1)]
            queue.broker.move_leader("t", 0, other)
            assert after.fetch() == [(0, 1, 1)]
            end = ShareAcknowledgeRequest(group_id="g", member_id="a", share_session_epoch=FINAL_EPOCH)
            assert before.client.ask(end).error_code == 0
            assert b.fetch() == []
            assert after.acknowledge((0, 1, ACCEPT)).error_code == 0


@pytest.mark.parametrize("is_forgotten", [True, False])
def test_a_state_restarted_in_the_same_epoch_keeps_nothing(queue: Queue, *, is_forgotten: bool) -> None:
    queue.produce(4)
    with queue.member() as a:
        assert a.fetch() == [(0, 3, 1)]
        if is_forgotten:
            persister = SharePersister(queue.broker.inner.services.coordinators.share_states)
            queue.broker.run(lambda: persister.delete("g", {queue.topic_id: frozenset({0})}))
        queue.begin("g", 0, 2)
        assert a.acknowledge((0, 3, ACCEPT)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert a.fetch(max_wait_ms=FIRST_WAIT_MS) == [(2, 3, 1)]


def test_disabling_the_feature_ends_sessions_and_releases_records(queue: Queue) -> None:
    queue.produce(2)
    with queue.member() as a, queue.member("b") as b:
        assert a.fetch() == [(0, 1, 1)]
        set_share_version(a.client, 0)
        assert a.acknowledge((0, 1, ACCEPT)).error_code == ErrorCode.UNSUPPORTED_VERSION
        set_share_version(a.client, 1)
        assert a.acknowledge((0, 1, ACCEPT)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert b.fetch() == [(0, 1, 1)]


def set_share_version(client: RawClient, level: int) -> None:
    kind = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature="share.version", max_version_level=level, upgrade_type=kind)
    assert client.ask(UpdateFeaturesRequest(feature_updates=(update,), timeout_ms=1_000)).error_code == 0


@pytest.mark.parametrize("committed", [False, True])
def test_a_committed_reader_gets_no_records_of_open_or_aborted_transactions(queue: Queue, *, committed: bool) -> None:
    queue.produce(2)
    with RawClient(*address(queue.broker)) as client:
        producer = TransactionalClient(client, "x", version=2)
        producer.begin()
        producer.produce("t", *[("k", "v")] * 3)
        producer.end(commit=False)
        queue.produce(1)
        producer.produce("t", ("k", "v"))
    if committed:
        queue.configure("g", "share.isolation.level", "read_committed")
    with queue.member() as a:
        offsets = [offset for first, last, _ in a.fetch() for offset in range(first, last + 1)]
        seen = [0, 1, 5, 6] if committed else [0, 1, 2, 3, 4, 5, 6, 7]
        assert offsets == seen
