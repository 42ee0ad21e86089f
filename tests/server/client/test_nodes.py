"""Retries of a client: which errors are retried, for how long, and which are not."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.client.nodes import BEING_MADE_S, NodeConnections, addresses
from ottla.server.client.values import UnreachableError
from ottla.server.handlers.metadata import HIDDEN_S


class Time:
    """A clock that advances only during pauses."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def elapsed_s(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


class Attempts:
    """A request that fails with each of `errors` in turn, with the last one for ever unless it has an `outcome`."""

    def __init__(self, *errors: Exception, outcome: str | None = None) -> None:
        self.errors = list(errors)
        self.outcome = outcome
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.count <= len(self.errors) or self.outcome is None:
            raise self.errors[min(self.count, len(self.errors)) - 1]
        return self.outcome


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def nodes(time: Time) -> NodeConnections:
    return NodeConnections("127.0.0.1:1", timeout_s=10, elapsed_s=time.elapsed_s, pause=time.pause)


@pytest.fixture
def acquainted(nodes: NodeConnections) -> NodeConnections:
    """Return connections of which one has been answered before."""
    nodes._nodes = {0: ("127.0.0.1", 1)}
    return nodes


def test_a_temporary_refusal_is_retried(nodes: NodeConnections) -> None:
    attempts = Attempts(
        KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), KafkaError(ErrorCode.NOT_COORDINATOR), outcome="done"
    )
    assert nodes.retrying(attempts) == "done"


def test_retries_end_at_the_time_limit(nodes: NodeConnections, time: Time) -> None:
    with pytest.raises(KafkaError, match=r"^LEADER_NOT_AVAILABLE: nobody$"):
        nodes.retrying(Attempts(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "nobody")))
    assert 9.5 < time.now_s <= 10


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ],
)
def test_permanent_errors_and_possible_writes_are_not_retried(nodes: NodeConnections, code: ErrorCode) -> None:
    attempts = Attempts(KafkaError(code))
    with pytest.raises(KafkaError):
        nodes.retrying(attempts)
    assert attempts.count == 1


def test_a_topic_under_creation_may_be_unknown_for_a_second(nodes: NodeConnections, time: Time) -> None:
    with pytest.raises(KafkaError):
        nodes.retrying(Attempts(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), unknown_s=BEING_MADE_S)
    assert 0.5 < time.now_s <= BEING_MADE_S


def test_a_topic_is_found_soon_after_its_creation(nodes: NodeConnections, time: Time) -> None:
    """With pauses that double, a topic that the broker hid for 36 ms was found after 75."""

    def ask() -> str:
        if time.now_s < HIDDEN_S:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return "done"

    assert nodes.retrying(ask, unknown_s=BEING_MADE_S) == "done"
    assert time.now_s < HIDDEN_S + 0.01


def test_a_missing_topic_is_requested_few_times(nodes: NodeConnections) -> None:
    attempts = Attempts(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    with pytest.raises(KafkaError):
        nodes.retrying(attempts, unknown_s=BEING_MADE_S)

    assert attempts.count < 40


def test_a_slow_first_connection_does_not_reduce_that_second(nodes: NodeConnections, time: Time) -> None:
    """A handshake on a busy machine took longer than the second, so the existing topic was not asked for again."""
    attempts = Attempts(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), outcome="done")

    def slowly() -> str:
        time.now_s += 2 * BEING_MADE_S
        return attempts()

    assert nodes.retrying(slowly, unknown_s=BEING_MADE_S) == "done"


def test_brokers_that_never_answered_are_not_waited_for(nodes: NodeConnections, time: Time) -> None:
    with pytest.raises(UnreachableError, match=r"^no broker answers at 127\.0\.0\.1:1: "):
        nodes.retrying(nodes.topics)
    assert time.now_s == 0


def test_a_broker_that_has_answered_may_be_unavailable_for_a_while(acquainted: NodeConnections) -> None:
    assert acquainted.retrying(Attempts(UnreachableError("away"), outcome="done"), repeatable=False) == "done"


@pytest.mark.parametrize(("repeatable", "attempts_made"), [(True, 2), (False, 1)])
def test_after_a_lost_response_only_repeatable_requests_are_retried(
    acquainted: NodeConnections, repeatable: bool, attempts_made: int
) -> None:
    attempts = Attempts(ConnectionResetError("lost"), outcome="done")
    if repeatable:
        assert acquainted.retrying(attempts, repeatable=True) == "done"
    else:
        with pytest.raises(ConnectionResetError):
            acquainted.retrying(attempts, repeatable=False)
    assert attempts.count == attempts_made


def test_bootstrap_addresses_may_be_several_and_include_ipv6() -> None:
    assert addresses("one:9092, [::1]:9093") == [("one", 9092), ("::1", 9093)]


@pytest.mark.parametrize("text", ["", "host", ":9092", "host:", "host:port", "host:0", "host:65536", "a:1,,b:2"])
def test_an_invalid_address_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"^invalid broker address '.*'; expected HOST:PORT, with a port from 1 to 65535$"
    ):
        addresses(text)
