"""Heartbeats on the wire whose responses are held while the group is quiet: which are, and what ends the wait."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.server.groups import coordinator
from ottla.server.groups.settings import UNSETTLED_MS
from ottla.server.groups.streams.configured import StatusCode
from ottla.server.handlers import holding
from ottla.server.network.ready import IS_KNOWN
from ottla.storage.disk.paths import TopicPartition
from support.broker.background_jobs import eventually
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS
from support.groups.groups import subscription
from support.security.logging_in import log_in, secured

pytestmark = pytest.mark.skipif(not IS_KNOWN, reason="needs epoll")
NAMED = "apache-kafka-java"
VERY_LONG_MS = 1_800_000
"""A response that is held for a part of it comes later than a client waits for it."""
PART, NOTHING = bytes(5) + b"\1", bytes(6)
"""Starts of assignments: the version, and one topic or none."""
JOINING = {"rebalance_timeout_ms": VERY_LONG_MS, "subscribed_topic_names": ("t",), "topic_partitions": ()}
"""Fields of a request to join by the consumer protocol."""
KINDS = ("consumer", "share", "streams")
OVERRIDES = FEW_PARTITIONS | {
    "group.initial.rebalance.delay.ms": "0",
    **{f"group.{kind}.assignment.interval.ms": "0" for kind in KINDS},
    **{f"group.{kind}.{most}heartbeat.interval.ms": str(VERY_LONG_MS) for kind in KINDS for most in ("max.", "")},
    **{f"group.{kind}.{most}session.timeout.ms": str(2 * VERY_LONG_MS) for kind in KINDS for most in ("max.", "")},
}


@pytest.fixture(autouse=True)
def _held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "HOLD_MS_MAX", VERY_LONG_MS)
    monkeypatch.setattr(holding, "JOIN_S_MAX", VERY_LONG_MS / 1000)


class Member:
    """A client whose software the broker knows, unless it is None. It can be a member of a group of each protocol."""

    def __init__(self, broker: ottla.Broker, software: str | None = NAMED, client_id: str = "c") -> None:
        self.broker = broker
        self.client = RawClient(*address(broker), client_id=client_id)
        self.member_id, self.epoch = "", 0
        if software is not None:
            named = ApiVersionsRequest(client_software_name=software, client_software_version="1")
            assert self.client.ask(named, 3).error_code == 0

    def receive(self) -> Any:
        return self.client.receive()

    # The classic protocol

    def send_join(self) -> None:
        request = JoinGroupRequest(
            group_id="classic", session_timeout_ms=VERY_LONG_MS, rebalance_timeout_ms=VERY_LONG_MS,
            member_id=self.member_id, protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription("t")),),
        )  # fmt: skip
        self.client.send(request, 3)

    def sync(self, assignments: dict[str, bytes] | None = None) -> None:
        """Receive the generation, and ask for the assignment. The leader gives each member PART if nothing is given."""
        joined = self.receive()
        assert joined.error_code == 0
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        parts = {one.member_id: PART for one in joined.members} if assignments is None else assignments
        request = SyncGroupRequest(
            group_id="classic", generation_id=self.epoch, member_id=self.member_id,
            assignments=tuple(SyncGroupRequestAssignment(member_id=one, assignment=part) for one, part in parts.items()),
        )  # fmt: skip
        self.client.send(request, 3)

    def join(self) -> None:
        """Join a group without other members."""
        self.send_join()
        self.sync()
        assert self.receive().error_code == 0

    def send_heartbeat(self) -> None:
        self.client.send(HeartbeatRequest(group_id="classic", generation_id=self.epoch, member_id=self.member_id), 3)

    def send_commit(self) -> None:
        request = OffsetCommitRequest(
            group_id="classic", generation_id_or_member_epoch=self.epoch, member_id=self.member_id
        )
        self.client.send(request, 7)

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id="classic", members=(MemberIdentity(member_id=self.member_id),))
        assert self.client.ask(request, 3).error_code == 0

    # The consumer protocol

    def send_beat(self, **fields: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="consumer", member_id=self.member_id, member_epoch=self.epoch, **fields
        )
        self.client.send(request, 1)

    def heard(self) -> Any:
        """Receive the answer to a heartbeat of the consumer protocol, and note the epoch in it."""
        answer = self.receive()
        assert answer.error_code == 0, answer
        self.member_id, self.epoch = answer.member_id, answer.member_epoch
        return answer

    # Share and streams groups

    def send_share_beat(self, **fields: Any) -> None:
        self.client.send(
            ShareGroupHeartbeatRequest(group_id="share", member_id=self.member_id, member_epoch=self.epoch, **fields),
            1,
        )

    def send_streams_beat(self, **fields: Any) -> None:
        self.client.send(
            StreamsGroupHeartbeatRequest(
                group_id="streams", member_id=self.member_id, member_epoch=self.epoch, **fields
            ),
            0,
        )

    def settle(self, send: Callable[..., None], answer: Any, expected: Callable[[Any], bool]) -> Any:
        """Send heartbeats until the expected answer; return it."""

        def is_expected() -> bool:
            nonlocal answer
            if not expected(answer):
                send()
                answer = self.heard()
            return expected(answer)

        assert eventually(self.broker, is_expected)
        return answer

    # Rhythm

    def connection(self) -> Any:
        """Return the broker's side of the connection."""
        here = ":".join(map(str, self.client._socket.getsockname()))
        (connection,) = [each for each in self.broker.inner.connections if each.peer == here]
        return connection

    def let_time_pass(self) -> None:
        """Let the broker believe that the last heartbeat was long ago."""
        connection = self.connection()
        assert connection.heartbeat_s is not None
        connection.heartbeat_s -= 2 * VERY_LONG_MS / 1000

    def hold(self, send: Callable[[], None]) -> None:
        """Send a heartbeat, and wait until its response is held."""
        self.let_time_pass()
        send()
        assert eventually(self.broker, lambda: held_count(self.broker) == 1)


def held_count(broker: ottla.Broker) -> int:
    """Return the number of held responses."""
    shards = broker.inner.services.coordinators.groups.coordinator.shards
    groups = [group for shard in shards for group in shard.groups.values()]
    return sum(len(group.bell) + len(getattr(group, "released", ())) for group in groups)


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[ottla.Broker]:
    with ottla.Broker(overrides=OVERRIDES | getattr(request, "param", {})) as running:
        with RawClient(*address(running)) as client:
            create_topic(client, "t", partitions=2)
            # The first request of each kind waits for its handler, and is not held.
            client.ask(HeartbeatRequest(group_id="classic", member_id="m"), 3)
            for message in (ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest, StreamsGroupHeartbeatRequest):
                client.ask(message(group_id="g", member_id="m", member_epoch=1), 1)
        yield running


@pytest.fixture
def joined(broker: ottla.Broker) -> Iterator[Callable[..., Member]]:
    """Return a function that makes members, and closes them at the end."""
    with ExitStack() as stack:

        def made(*arguments: Any, **options: Any) -> Member:
            member = Member(broker, *arguments, **options)
            stack.enter_context(member.client)
            return member

        yield made


def test_a_classic_member_learns_at_once_that_another_one_joins_or_leaves(joined: Callable[..., Member]) -> None:
    one, two = rebalancing(joined)
    for member in (one, two):
        member.sync()
    assert (one.receive().error_code, two.receive().error_code) == (0, 0)
    one.hold(one.send_heartbeat)
    two.leave()
    assert one.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def rebalancing(joined: Callable[..., Member]) -> tuple[Member, Member]:
    """Return a member of a classic group and a new one, which have both sent their requests to join its second generation."""
    one, two = joined(), joined()
    one.join()
    one.hold(one.send_heartbeat)
    two.send_join()
    assert one.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    one.send_join()
    return one, two


@pytest.mark.parametrize("nothing", [NOTHING, b""])
def test_a_classic_member_without_partitions_learns_at_once_of_the_next_generation(
    broker: ottla.Broker, joined: Callable[..., Member], monkeypatch: pytest.MonkeyPatch, nothing: bytes
) -> None:
    """With a cooperative assignor others give up its part and join again."""
    monkeypatch.setattr(holding, "SYNC_MS", VERY_LONG_MS)
    one, two = rebalancing(joined)
    one.sync({one.member_id: PART})
    two.sync({two.member_id: nothing})
    assert one.receive().assignment == PART
    assert eventually(broker, lambda: held_count(broker) == 1)
    one.send_join()
    assert two.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    two.send_join()
    for member in (one, two):
        member.sync()
    assert (one.receive().assignment, two.receive().assignment) == (PART, PART)


def test_a_classic_member_without_partitions_waits_for_a_moment(joined: Callable[..., Member]) -> None:
    one, two = rebalancing(joined)
    one.sync({one.member_id: PART})
    two.sync({})
    assert (one.receive().assignment, two.receive().assignment) == (PART, b"")


def test_the_only_member_of_a_group_waits_for_no_others(
    joined: Callable[..., Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "SYNC_MS", VERY_LONG_MS)
    one = joined()
    one.send_join()
    one.sync({})
    assert one.receive().error_code == ErrorCode.NONE


def test_news_end_the_fetch_of_that_client_alone(broker: ottla.Broker, joined: Callable[..., Member]) -> None:
    one, two, of_one, of_another = joined(), joined(), joined(), joined(client_id="another")
    one.join()
    for fetching in (of_one, of_another):
        row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        topics = (FetchTopic(topic="t", partitions=(row,)),)
        fetching.client.send(FetchRequest(max_wait_ms=VERY_LONG_MS, min_bytes=1, topics=topics), 4)
    assert eventually(broker, lambda: len(broker.inner.services.waits.readers(TopicPartition("t", 0))) == 2)
    one.hold(one.send_heartbeat)
    two.send_join()
    assert one.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert of_one.receive().responses[0].partitions[0].error_code == 0
    (reader,) = broker.inner.services.waits.readers(TopicPartition("t", 0))
    assert reader.client_id == "another"


def test_the_next_request_on_the_connection_ends_the_wait(joined: Callable[..., Member]) -> None:
    one = joined()
    one.join()
    for _ in range(3):
        one.hold(one.send_heartbeat)
        one.send_commit()
        assert one.receive().error_code == ErrorCode.NONE
        assert isinstance(one.receive(), OffsetCommitResponse)


def test_a_member_whose_session_ends_is_notified(broker: ottla.Broker, joined: Callable[..., Member]) -> None:
    one = joined()
    one.join()
    one.hold(one.send_heartbeat)
    broker.clock.advance(milliseconds=VERY_LONG_MS + 1)
    assert one.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_nothing_is_kept_of_a_client_that_disconnects(broker: ottla.Broker, joined: Callable[..., Member]) -> None:
    one = joined()
    one.join()
    for _ in range(2):
        one.hold(one.send_heartbeat)
        one.send_commit()
        assert [one.receive().error_code, isinstance(one.receive(), OffsetCommitResponse)] == [ErrorCode.NONE, True]
    one.hold(one.send_heartbeat)
    connection = weakref.ref(one.connection())
    one.client.close()
    assert eventually(broker, lambda: (connection(), held_count(broker)) == (None, 0))


def test_a_repeated_heartbeat_keeps_its_member_alive(broker: ottla.Broker, joined: Callable[..., Member]) -> None:
    one = joined()
    one.join()
    for _ in range(4):
        one.hold(one.send_heartbeat)
        broker.clock.advance(milliseconds=VERY_LONG_MS // 2)
        one.client.send(ApiVersionsRequest(client_software_name=NAMED, client_software_version="1"), 3)
        assert [one.receive().error_code for _ in range(2)] == [ErrorCode.NONE] * 2
    broker.clock.advance(milliseconds=VERY_LONG_MS)
    one.send_heartbeat()
    assert one.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_of_another_generation_is_not_the_same(joined: Callable[..., Member]) -> None:
    one = joined()
    one.join()
    one.hold(one.send_heartbeat)
    one.send_commit()
    assert [one.receive().error_code, isinstance(one.receive(), OffsetCommitResponse)] == [ErrorCode.NONE, True]
    one.epoch += 1
    one.send_heartbeat()
    assert one.receive().error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_heartbeat_that_came_before_the_end_of_its_login_is_answered_after_it() -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(secured(**OVERRIDES, **{"connections.max.reauth.ms": "60000"}))

        def logged_in() -> Member:
            member = Member(broker)
            stack.enter_context(member.client)
            assert log_in(member.client).error_code == ErrorCode.NONE
            return member

        one = logged_in()
        one.join()
        one.send_heartbeat()  # the first one waits for its handler
        assert one.receive().error_code == ErrorCode.NONE
        one.hold(one.send_heartbeat)
        broker.clock.advance(milliseconds=60_001)
        logged_in().send_join()
        assert one.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
        one.send_heartbeat()
        assert one.client.is_closed_by_peer()


def test_a_broker_that_stops_does_not_wait(broker: ottla.Broker, joined: Callable[..., Member]) -> None:
    one = joined()
    one.join()
    one.hold(one.send_heartbeat)
    broker.restart()
    with suppress(OSError):  # the connection was closed before
        assert one.receive().error_code in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize(
    ("software", "client_id", "is_held"),
    [
        ("apache-kafka-java", "c", True),
        ("librdkafka", "c", True),
        ("confluent-kafka-python", "c", True),
        ("kgo", "c", True),
        ("kafkajs", "c", False),
        ("sarama", "aiokafka", False),
        ("unknown", "c", False),
        (None, "aiokafka-0.12.0", True),
        (None, "kafkajs", False),
    ],
)
def test_clients_that_might_wait_for_the_response_get_it(
    broker: ottla.Broker,
    joined: Callable[..., Member],
    software: str | None,
    client_id: str,
    is_held: bool,
) -> None:
    one = joined(software, client_id)
    one.join()
    one.let_time_pass()
    one.send_heartbeat()
    if is_held:
        assert eventually(broker, lambda: held_count(broker) == 1)
        one.send_commit()
    assert one.receive().error_code == ErrorCode.NONE


def test_nothing_is_held_before_the_rhythm_is_known_or_if_it_is_fast(
    broker: ottla.Broker, joined: Callable[..., Member]
) -> None:
    one, again = joined(), joined()
    one.join()
    again.member_id, again.epoch = one.member_id, one.epoch
    again.send_heartbeat()
    assert again.receive().error_code == ErrorCode.NONE
    again.hold(again.send_heartbeat)


@pytest.mark.parametrize("broker", [{"ottla.hold.heartbeats": "false"}], indirect=True)
def test_nothing_is_held_without_the_option(joined: Callable[..., Member]) -> None:
    one = joined()
    one.join()
    for _ in range(3):
        one.send_heartbeat()
        assert one.receive().error_code == ErrorCode.NONE


def test_a_member_of_the_consumer_protocol_learns_at_once_of_its_new_target(joined: Callable[..., Member]) -> None:
    one, two = joined(), joined()
    one.member_id, two.member_id = "one", "two"
    one.send_beat(**JOINING)
    answer = one.heard()
    (both,) = answer.assignment.topic_partitions
    assert (both.partitions, answer.heartbeat_interval_ms) == ((0, 1), VERY_LONG_MS)
    one.hold(one.send_beat)
    two.send_beat(**JOINING)
    answer = one.heard()
    (left,) = answer.assignment.topic_partitions
    assert (len(left.partitions), answer.heartbeat_interval_ms) == (1, UNSETTLED_MS)
    assert eventually(one.broker, lambda: held_count(one.broker) == 1), "the other one gets its part first"
    one.send_beat(topic_partitions=(TopicPartitions(topic_id=left.topic_id, partitions=left.partitions),))
    assert one.heard().heartbeat_interval_ms == VERY_LONG_MS
    answer = two.heard()
    assert {*answer.assignment.topic_partitions[0].partitions, *left.partitions} == {0, 1}
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (one.epoch, VERY_LONG_MS)
    one.hold(one.send_beat)
    two.epoch = -1
    two.send_beat()
    two.heard()
    assert one.heard().assignment.topic_partitions == (both,)


def test_claims_of_a_held_heartbeat_do_not_count_after_a_change(
    joined: Callable[..., Member],
) -> None:
    """Its member might be about to take over what it did not own yet, so the other one must wait."""
    one, two = joined(), joined()
    one.member_id, two.member_id = "one", "two"
    one.send_beat(**JOINING)
    one.heard()
    one.hold(lambda: one.send_beat(topic_partitions=()))
    two.send_beat(**JOINING)
    (left,) = one.heard().assignment.topic_partitions
    two.client.send(ApiVersionsRequest(client_software_name=NAMED, client_software_version="1"), 3)
    assert two.heard().assignment.topic_partitions == (), "its next request ended the wait"
    assert two.receive().error_code == ErrorCode.NONE
    two.send_beat()
    assert two.heard().assignment is None
    one.send_beat(topic_partitions=(TopicPartitions(topic_id=left.topic_id, partitions=left.partitions),))
    one.heard()
    two.send_beat()
    assert {*two.heard().assignment.topic_partitions[0].partitions, *left.partitions} == {0, 1}


def pair(joined: Callable[..., Member], software: str | None = NAMED) -> tuple[Member, Member]:
    """Return a member with all partitions of a group of the consumer protocol, and one that has sent its request to join."""
    one, two = joined(), joined(software)
    one.member_id, two.member_id = "one", "two"
    one.send_beat(**JOINING)
    one.heard()
    one.hold(one.send_beat)
    two.send_beat(**JOINING)
    assert len(one.heard().assignment.topic_partitions[0].partitions) == 1
    return one, two


def test_a_member_that_joins_waits_no_longer_if_the_one_with_its_part_leaves(joined: Callable[..., Member]) -> None:
    one, two = pair(joined)
    one.epoch = -1
    one.send_beat()
    one.heard()
    assert two.heard().assignment.topic_partitions[0].partitions


@pytest.mark.parametrize("software", ["unknown", None])
def test_only_known_clients_wait_when_they_join(joined: Callable[..., Member], software: str | None) -> None:
    _, two = pair(joined, software)
    answer = two.heard()
    assert (answer.assignment.topic_partitions, answer.heartbeat_interval_ms) == ((), UNSETTLED_MS)


def test_members_that_join_do_not_wait_if_many_do(
    joined: Callable[..., Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "WAITING_MAX", 0)
    _, two = pair(joined)
    answer = two.heard()
    assert (answer.assignment.topic_partitions, answer.heartbeat_interval_ms) == ((), UNSETTLED_MS)


def test_a_member_that_joins_waits_half_a_second_at_most(
    joined: Callable[..., Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "JOIN_S_MAX", holding.HOLD_MS_MIN / 1000)
    _, two = pair(joined)
    answer = two.heard()
    assert (answer.assignment.topic_partitions, answer.heartbeat_interval_ms) == ((), UNSETTLED_MS)


def test_a_change_that_gives_a_joining_member_nothing_does_not_end_its_wait(joined: Callable[..., Member]) -> None:
    one, two = pair(joined)
    three = joined()
    three.member_id = "three"
    three.send_beat(**JOINING)
    assert three.heard().assignment.topic_partitions == (), "there are two partitions"
    assert eventually(one.broker, lambda: held_count(one.broker) == 1)
    one.send_beat(topic_partitions=())
    one.heard()
    assert two.heard().assignment.topic_partitions[0].partitions


def test_a_new_epoch_is_not_held(joined: Callable[..., Member]) -> None:
    """Without it, the member's commits would be refused."""
    one, two = joined(), joined()
    one.member_id, two.member_id = "one", "two"
    joining = {"rebalance_timeout_ms": VERY_LONG_MS, "topic_partitions": ()}
    one.send_beat(subscribed_topic_names=("t",), **joining)
    one.heard()
    two.send_beat(subscribed_topic_names=("other",), **joining)
    two.heard()
    one.let_time_pass()
    one.send_beat()
    before, answer = one.epoch, one.heard()
    assert (answer.member_epoch, answer.assignment) == (before + 1, None)
    one.hold(one.send_beat)


def partitions_of(answer: Any) -> list[int]:
    """Return the partitions in the answer to a heartbeat of a share group."""
    told = answer.assignment
    return sorted(index for topic in told.topic_partitions for index in topic.partitions) if told else []


def test_a_member_of_a_share_group_learns_at_once_of_its_new_target(joined: Callable[..., Member]) -> None:
    one, two = joined(), joined()
    one.member_id, two.member_id = "one", "two"
    one.send_share_beat(subscribed_topic_names=("t",))
    one.settle(one.send_share_beat, one.heard(), lambda answer: partitions_of(answer) == [0, 1])
    one.hold(one.send_share_beat)
    two.send_share_beat(subscribed_topic_names=("t",))
    assert len(partitions_of(two.heard())) == 1
    assert len(partitions_of(one.heard())) == 1
    one.hold(one.send_share_beat)
    two.epoch = -1
    two.send_share_beat()
    two.heard()
    assert partitions_of(one.heard()) == [0, 1]


def test_a_member_of_a_streams_group_learns_at_once_of_its_new_target_and_of_a_shutdown(
    joined: Callable[..., Member],
) -> None:
    one, two = joined(), joined()
    one.member_id, two.member_id = "one", "two"
    joining = {
        "rebalance_timeout_ms": VERY_LONG_MS, "active_tasks": (), "standby_tasks": (), "warmup_tasks": (),
        "process_id": "p", "client_tags": (),
        "topology": Topology(epoch=0, subtopologies=(Subtopology(subtopology_id="0", source_topics=("t",)),)),
    }  # fmt: skip
    one.send_streams_beat(**joining)
    one.settle(one.send_streams_beat, one.heard(), lambda answer: bool(answer.active_tasks))
    one.hold(one.send_streams_beat)
    two.send_streams_beat(**joining | {"process_id": "q"})
    answer = one.heard()
    assert (len(answer.active_tasks[0].partitions), answer.heartbeat_interval_ms) == (1, UNSETTLED_MS)
    assert eventually(one.broker, lambda: held_count(one.broker) == 1), "the other one gets its part first"
    one.send_streams_beat(active_tasks=answer.active_tasks, standby_tasks=(), warmup_tasks=())
    assert one.heard().heartbeat_interval_ms == VERY_LONG_MS
    assert len(two.heard().active_tasks[0].partitions) == 1
    one.hold(one.send_streams_beat)
    two.send_streams_beat(shutdown_application=True)
    two.heard()
    assert one.heard().status[0].status_code == StatusCode.SHUTDOWN_APPLICATION
