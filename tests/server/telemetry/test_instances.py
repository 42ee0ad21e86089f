"""Telemetry subscriptions: the metrics that each client must push, and the times at which it may push them."""

from __future__ import annotations

import random
from functools import partial

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import ZERO_UUID
from ottla.server.telemetry import instances
from ottla.server.telemetry.instances import LISTS_MAX, RESERVED, Instance, Instances
from support.sizes import size

INTERVAL_MS = 300_000
FACTS: dict[str, str | None] = {"client_id": "orders-1", "client_software_name": "apache-kafka-java"}
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Connection:
    """A connection, which only has an identity."""


class Clients:
    """Instances, a connection, and a time that advances."""

    def __init__(self, **subscriptions: dict[str, str]) -> None:
        self.instances = Instances(random.Random(1))
        self.subscribe(subscriptions)
        self.connection = Connection()
        self.now_ms = 1_000.0

    def subscribe(self, subscriptions: dict[str, dict[str, str]]) -> None:
        trio.run(self.instances.subscribe, subscriptions)

    def ask(self, instance_id: bytes = ZERO_UUID, **facts: str | None) -> tuple[bytes, Instance | ErrorCode]:
        return trio.run(self.instances.ask, instance_id, FACTS | facts, self.connection, self.now_ms)

    def subscribed(self, instance_id: bytes = ZERO_UUID, **facts: str | None) -> tuple[bytes, Instance]:
        found, instance = self.ask(instance_id, **facts)
        assert isinstance(instance, Instance)
        return found, instance

    def push(
        self, instance_id: bytes, subscription_id: int, *, codec: int = 4, size: int = 9, ends: bool = False
    ) -> ErrorCode:
        pushed = partial(
            self.instances.push,
            instance_id,
            FACTS,
            self.connection,
            self.now_ms,
            subscription_id=subscription_id,
            is_terminating=ends,
            codec=codec,
            size_bytes=size,
            size_bytes_max=100,
        )
        return trio.run(pushed)


def test_a_client_pushes_metrics_of_all_subscriptions_at_the_shortest_interval() -> None:
    clients = Clients(
        a={"metrics": "b,a", "interval.ms": "2000"},
        b={"metrics": "c", "interval.ms": "1000", "match": "client_id=orders-.*,client_software_name=apache.*"},
        c={"metrics": "d", "interval.ms": "100", "match": "client_id=orders"},
        d={"metrics": "e", "interval.ms": "100", "match": "client_source_port=.*"},
    )
    _, instance = clients.subscribed()
    assert (instance.metrics, instance.interval_ms) == (("a", "b", "c"), 1000)


def test_all_metrics_are_one_asterisk() -> None:
    assert Clients(a={"metrics": "b"}, b={"metrics": "*"}).subscribed()[1].metrics == ("*",)


def test_without_subscriptions_clients_ask_every_five_minutes_for_nothing() -> None:
    _, instance = Clients().subscribed()
    assert (instance.metrics, instance.interval_ms) == ((), INTERVAL_MS)


def test_a_new_client_gets_an_id_and_a_known_one_keeps_it() -> None:
    clients = Clients()
    first, second = clients.subscribed()[0], clients.subscribed()[0]
    assert len({first, second, ZERO_UUID}) == 3
    clients.now_ms += INTERVAL_MS
    assert clients.subscribed(first)[0] == first


def test_an_early_request_is_throttled_unless_subscriptions_or_connection_changed() -> None:
    clients = Clients()
    instance_id, before = clients.subscribed()
    assert clients.ask(instance_id)[1] is THROTTLED
    clients.subscribe({"a": {"metrics": "b"}})
    _, after = clients.subscribed(instance_id)
    assert before.subscription_id != after.subscription_id
    assert clients.ask(instance_id)[1] is THROTTLED
    clients.connection = Connection()
    clients.subscribed(instance_id)


def test_the_first_push_is_immediate_and_the_next_after_the_interval() -> None:
    clients = Clients(a={"metrics": "*", "interval.ms": "1000"})
    instance_id, instance = clients.subscribed()
    assert clients.push(instance_id, instance.subscription_id) is ErrorCode.NONE
    assert clients.push(instance_id, instance.subscription_id) is THROTTLED
    clients.now_ms += 999
    assert clients.push(instance_id, instance.subscription_id) is THROTTLED
    clients.now_ms += 1
    assert clients.push(instance_id, instance.subscription_id) is ErrorCode.NONE


def test_the_last_push_may_come_at_any_time_and_ends_pushing() -> None:
    clients = Clients()
    instance_id, instance = clients.subscribed()
    assert clients.push(instance_id, instance.subscription_id) is ErrorCode.NONE
    assert clients.push(instance_id, instance.subscription_id, ends=True) is ErrorCode.NONE
    clients.now_ms += INTERVAL_MS
    assert clients.push(instance_id, instance.subscription_id) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("reserved", RESERVED)
def test_reserved_ids_cannot_push(reserved: bytes) -> None:
    assert Clients().push(reserved, 0) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"codec": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"codec": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": 101}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"size": 100}, ErrorCode.NONE),
        ({"codec": 0}, ErrorCode.NONE),
    ],
)
def test_codecs_and_sizes_are_limited(more: dict[str, int], code: ErrorCode) -> None:
    clients = Clients()
    instance_id, instance = clients.subscribed()
    assert clients.push(instance_id, instance.subscription_id, **more) is code  # type: ignore[arg-type]


def test_a_push_for_an_older_subscription_is_refused() -> None:
    clients = Clients()
    instance_id, instance = clients.subscribed()
    clients.subscribe({"a": {"metrics": "b"}})
    assert clients.push(instance_id, instance.subscription_id) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def test_silent_clients_are_forgotten_and_remembered_ones_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "INSTANCES_MAX", 100)
    clients = Clients(a={"interval.ms": "100"})
    for _ in range(110):
        clients.subscribed()
    assert len(clients.instances) == 100
    clients.now_ms += 60_001
    clients.subscribed()
    assert len(clients.instances) == 1


def test_cached_lists_of_metrics_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    lists_max, letters = size((100, "abcdefgh"), (LISTS_MAX, "abcdefghijk"))
    monkeypatch.setattr("ottla.server.telemetry.instances.LISTS_MAX", lists_max)
    clients = Clients(**{each: {"metrics": each, "match": f"client_id=.*{each}.*"} for each in letters})
    for number in range(1 << len(letters)):
        client_id = "".join(each for at, each in enumerate(letters) if number >> at & 1)
        assert clients.subscribed(client_id=client_id)[1].metrics == tuple(client_id)
    assert len(clients.instances._metrics) <= lists_max


def test_an_invalid_stored_subscription_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    clients = Clients(good={"metrics": "a"}, bad={"interval.ms": "7"}, worse={"zork": "1"})
    assert clients.subscribed()[1].metrics == ("a",)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "stored client metrics subscription bad ignored",
        "stored client metrics subscription worse ignored",
    ]


def test_other_tasks_run_while_many_subscriptions_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.runtime.time_slices.SLICE_S", 0.0)
    clients = Clients()
    wanted = {f"s{number}": {"metrics": f"m{number}", "match": "client_id=.*"} for number in range(50)}
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async def ask() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            for work in (
                partial(clients.instances.subscribe, wanted),
                partial(clients.instances.ask, ZERO_UUID, FACTS, clients.connection, clients.now_ms),
            ):
                before = passes
                await work()
                assert passes - before >= len(wanted) - 5
            nursery.cancel_scope.cancel()

    trio.run(ask)


def test_clients_with_the_same_metrics_share_the_list() -> None:
    clients = Clients(a={"metrics": "b,a"})
    assert clients.subscribed()[1].metrics is clients.subscribed()[1].metrics
