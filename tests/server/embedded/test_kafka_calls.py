"""Topics, records and groups of `ottla.Broker`."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import ottla


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as running:
        yield running


def test_records_can_be_used_without_a_client_library(broker: ottla.Broker) -> None:
    broker.create_topic("orders", 2, {"cleanup.policy": "compact"})
    broker.produce("orders", "new", key="1", headers={"by": "me"})
    broker.produce_all("orders", [("1", "paid"), ottla.NewRecord(None, key="1")])
    assert [(record.key, record.value) for record in broker.records("orders")] == [
        (b"1", b"new"),
        (b"1", b"paid"),
        (b"1", None),
    ]
    broker.commit("readers", {("orders", 0): 0})
    assert [(group.group_id, group.offsets) for group in broker.groups()] == [("readers", {("orders", 0): 0})]
    assert sorted(at.end for at in broker.offsets("orders").values()) == [0, 3]
    broker.set_configs("topic", "orders", {"cleanup.policy": None})
    broker.delete_topic("orders")
    assert broker.topics() == []


def test_records_have_the_brokers_time(broker: ottla.Broker) -> None:
    before = broker.produce("events", "before")
    broker.advance_clock(by_ms=1_000_000)
    after = broker.produce("events", "after")
    assert 1_000_000 <= after.timestamp_ms - before.timestamp_ms < 2_000_000


@pytest.mark.parametrize("change", ["restart", "crash"])
def test_calls_continue_after_the_next_run_has_started(broker: ottla.Broker, change: str) -> None:
    broker.produce("events", "before")
    getattr(broker, change)()
    broker.produce("events", "after")
    assert [record.value for record in broker.records("events")] == [b"before", b"after"]


def test_a_reset_forgets_everything(broker: ottla.Broker) -> None:
    broker.create_topic("events", 3)
    broker.produce("events", "before", partition=2)
    broker.reset()
    broker.create_topic("events")
    assert broker.produce("events", "after").offset == 0


def test_a_broker_that_does_not_run_reports_it() -> None:
    broker = ottla.Broker()
    with pytest.raises(RuntimeError, match=r"^the broker was not started; "):
        broker.topics()
    with broker:
        broker.produce("events", "value")
    with pytest.raises(RuntimeError, match=r"^the broker was stopped; "):
        broker.produce("events", "value")
    with broker:
        assert broker.produce("events", "value").offset == 0


def test_a_stop_does_not_wait_for_calls_of_other_threads(broker: ottla.Broker) -> None:
    """A call that is refused temporarily is retried for a while, but not on a broker that stops."""
    broker.create_topic("events")
    broker.produce("events", "value")
    kafka = broker._kafka
    assert kafka is not None
    kafka._nodes.timeout_s = 600  # far beyond the wait for the thread
    errors: list[BaseException] = []
    begun = threading.Event()

    def ask_for_ever() -> None:
        try:
            while True:
                kafka.topics()
                begun.set()
        except (OSError, ottla.KafkaError) as error:
            errors.append(error)

    thread = threading.Thread(target=ask_for_ever)
    thread.start()
    assert begun.wait(60)
    broker.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert errors
