"""Faults in Python: `with broker.fault(...) as fault`."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

import ottla
from ottla.server.runtime.errors import ControlError
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient

ERROR = "NOT_LEADER_OR_FOLLOWER"


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        with RawClient(*address(broker)) as client:
            create_topic(client, "t")
        yield broker


def ask(broker: ottla.Broker) -> int:
    with RawClient(*address(broker)) as client:
        code: int = produce(client, "t", ("k", "v")).error_code
        return code


def test_a_fault_reports_its_hits(broker: ottla.Broker) -> None:
    fault = broker.fault("Produce", topic="t", error=ERROR, count=2)
    assert repr(fault) == "<ottla fault 1 active, 0 hits>"
    assert [ask(broker) for _ in range(3)] == [6, 6, 0]
    fault.wait(2)
    assert (fault.id, fault.hits, fault.is_active, fault.declaration.topic) == (1, 2, False, "t")
    assert repr(fault) == "<ottla fault 1 spent, 2 hits>"
    assert [each.hits for each in broker.faults()] == [2]


def test_a_fault_ends_with_its_block(broker: ottla.Broker) -> None:
    with pytest.raises(ZeroDivisionError), broker.fault("Produce", error=ERROR, count=None) as fault:
        raise ZeroDivisionError
    assert ask(broker) == 0
    fault.remove()
    assert repr(fault) == "<ottla fault 1 removed, 0 hits>"


def test_a_timed_out_wait_reports_the_missing_hits(broker: ottla.Broker) -> None:
    fault = broker.fault("Produce", error=ERROR)
    with pytest.raises(TimeoutError, match=r"^fault 1: 0 hits within 0.001 s, expected 1$"):
        fault.wait(timeout=0.001)
    fault.remove()
    with pytest.raises(TimeoutError, match=r"^fault 1: 0 hits before it was removed, expected 1$"):
        fault.wait()


def test_a_wait_ends_with_the_broker(broker: ottla.Broker) -> None:
    fault = broker.fault("Produce", error=ERROR)
    waits, raised = threading.Event(), []

    def wait() -> None:
        waits.set()
        try:
            fault.wait(timeout=600)
        except Exception as error:  # noqa: BLE001
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait()
    broker.stop()
    thread.join(60)
    assert [type(error) for error in raised] == [RuntimeError]


def test_a_fault_reports_its_hits_after_the_stop(broker: ottla.Broker) -> None:
    fault = broker.fault("Produce", error=ERROR)
    assert ask(broker) == 6
    broker.stop()
    assert fault.hits == 1
    with pytest.raises(RuntimeError, match="the broker was stopped"):
        broker.fault("Produce", error=ERROR)


def test_a_block_whose_broker_was_stopped_ends_silently(broker: ottla.Broker) -> None:
    with broker.fault("Produce", error=ERROR), broker.fault("Fetch", error=ERROR):
        broker.stop()


def test_invalid_arguments_are_refused_in_one_line(broker: ottla.Broker) -> None:
    with pytest.raises(ControlError, match=r"^api: 'produces' not found; did you mean 'Produce'\?$"):
        broker.fault("produces", error=ERROR)
    with pytest.raises(TypeError, match="delay_ms"):
        broker.fault("Produce", delay_ms=1)  # type: ignore[call-arg]
    for delay in (math.nan, math.inf, "1", True):
        with pytest.raises(ControlError, match=r"^delay: expected seconds or a timedelta, found "):
            broker.fault("Produce", delay=delay)  # type: ignore[arg-type]
    assert broker.faults() == [] and broker.clear_faults() == 0


@pytest.mark.parametrize(("delay", "delay_ms"), [(7, 7_000), (0.25, 250), (0.0001, 1), (timedelta(hours=1), 3_600_000)])
def test_a_delay_is_seconds_or_a_timedelta(delay: float | timedelta, delay_ms: int, broker: ottla.Broker) -> None:
    with broker.fault("Produce", client="nobody", delay=delay) as fault:
        assert (fault.declaration.client_id, fault.declaration.delay_ms) == ("nobody", delay_ms)
