"""Time and compaction of `ottla.Broker`, as the author of a test uses them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server.runtime.clock import wall_time_ms
from ottla.server.runtime.errors import ControlError

DAY_MS = 86_400_000


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(overrides={"log.cleaner.backoff.ms": "15000"}) as running:
        yield running


def write_100_records(broker: ottla.Broker) -> None:
    broker.create_topic("orders", configs={"cleanup.policy": "compact"})
    for number in range(100):
        broker.produce("orders", str(number), key=f"k{number % 10}")


# The story: a hundred records, eight days, one more record


def test_after_eight_days_one_call_shows_the_topic_compacted(broker: ottla.Broker) -> None:
    write_100_records(broker)
    broker.clock.advance(days=8)
    broker.produce("orders", "one more", key="k0")
    (done,) = broker.compact("orders").partitions
    assert done.first_dirty_offset == 100
    assert [record.offset for record in broker.records("orders")] == list(range(90, 101))


def test_an_early_compact_reports_its_obstacle_and_force_ignores_it(broker: ottla.Broker) -> None:
    write_100_records(broker)
    (done,) = broker.compact("orders").partitions
    assert (done.passes, done.waits_for) == (0, "active_segment")
    assert "active segment" in done.explanation
    (done,) = broker.compact("orders", force=True).partitions
    assert done.records_removed.superseded == 90
    assert len(broker.records("orders")) == 10


def test_explain_proposes_calls_that_work(broker: ottla.Broker) -> None:
    write_100_records(broker)
    (told,) = broker.explain("orders").partitions
    calls = {call for remedy in told.remedies for call in remedy.calls}
    assert "broker.roll('orders')" in calls
    advance = next(call for call in calls if call.startswith("broker.clock.advance(milliseconds="))
    eval(advance, {"broker": broker})
    broker.compact("orders")
    assert len(broker.records("orders")) == 10


# Waiting, rolling, retention


def test_roll_wait_and_retention_work_together(broker: ottla.Broker) -> None:
    write_100_records(broker)
    assert broker.roll("orders").partitions[0].active_segment == 100
    broker.clock.advance(seconds=15)
    assert broker.wait_until_compacted("orders", 30).partitions[0].first_dirty_offset == 100
    broker.set_configs("topic", "orders", {"cleanup.policy": "delete", "retention.ms": "1"})
    broker.clock.advance(seconds=1)
    broker.apply_retention("orders")
    assert broker.records("orders") == []


def test_a_timed_out_wait_gives_the_reason(broker: ottla.Broker) -> None:
    write_100_records(broker)
    with pytest.raises(
        ControlError, match=r"orders-0 is clean up to offset 0, not 100, after 0.01 s: .*active segment"
    ):
        broker.wait_until_compacted("orders", 0.01)


def test_calls_of_a_broker_that_does_not_run_report_it() -> None:
    broker = ottla.Broker()
    assert repr(broker.clock) == "<clock of a broker that is new>"
    for call in (
        lambda: broker.compact("orders"),
        lambda: broker.clock.advance(days=1),
        lambda: broker.clock.freeze(),
        lambda: broker.clock.now(),
    ):
        with pytest.raises(RuntimeError, match="the broker was not started"):
            call()


# The clock


def test_the_clock_moves_by_the_sum_of_all_units(broker: ottla.Broker) -> None:
    clock = broker.clock
    clock.freeze()
    before = clock.now_ms()
    moved = clock.advance(timedelta(days=1), hours=1.5, minutes=1, seconds=1, milliseconds=1)
    assert moved.now_ms - before == DAY_MS + 5_400_000 + 61_001 == clock.now_ms() - before
    assert clock.now() == datetime.fromtimestamp(moved.now_ms / 1_000, UTC)
    assert repr(clock).endswith(", frozen>")
    assert not clock.unfreeze().is_frozen
    assert not clock.is_frozen


def test_results_are_readable_text(broker: ottla.Broker) -> None:
    write_100_records(broker)
    assert str(broker.compact("orders")).splitlines()[:2] == [
        "orders-0: no pass; clean below 0, log from 0 to 100",
        "  segments: 1 (before: 1)",
    ]
    done = broker.compact("orders", force=True)
    (row,) = done.partitions
    assert str(done).splitlines() == [
        "orders-0: 1 pass; clean below 100 (before: 0), log from 0 to 100",
        f"  kept 10 of 100 records, {row.bytes_written} of {row.bytes_read} bytes (90 superseded removed)",
        "  segments: 2 (before: 1), active segment rolled",
        "  nothing is dirty",
    ]
    assert str(broker.wait_until_compacted("orders")).splitlines() == [
        "orders-0: clean below 100, required 100; log end 100",
        "  nothing is dirty",
    ]
    assert str(broker.roll("orders")) == "orders-0: nothing to roll, the active segment is empty"
    broker.produce("orders", "one more", key="k0")
    assert str(broker.roll("orders")) == "orders-0: rolled, the active segment starts at 101"
    assert str(broker.apply_retention("orders")) == "1 partition: nothing to delete"


def test_retention_reports_deleted_segments(broker: ottla.Broker) -> None:
    broker.clock.freeze()
    broker.create_topic("clicks", 2, configs={"retention.ms": "1000", "file.delete.delay.ms": "0"})
    broker.produce("clicks", "old", partition=1, timestamp_ms=0)
    broker.roll("clicks")
    told = str(broker.apply_retention("clicks")).splitlines()
    assert told == [
        "clicks-1: deleted 1 segment with 71 bytes; log from 1 (before: 0) to 1",
        "1 partition more: nothing to delete",
    ]


def test_advance_clock_is_the_short_form(broker: ottla.Broker) -> None:
    broker.clock.freeze()
    before = broker.clock.now_ms()
    broker.advance_clock(1_000)
    assert broker.clock.now_ms() == before + 1_000
    with pytest.raises(ControlError, match="expected 0 ms or more, found -1"):
        broker.advance_clock(-1)


def test_the_clock_is_set_in_any_time_zone(broker: ottla.Broker) -> None:
    broker.clock.freeze()
    broker.clock.set(datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert broker.clock.now() == datetime(2030, 1, 1, tzinfo=UTC)
    broker.clock.set(wall_time_ms() - DAY_MS)
    assert broker.clock.now_ms() < wall_time_ms() - DAY_MS + 60_000


WRONG: dict[str, tuple[Any, str]] = {
    "no time zone": (datetime(2030, 1, 1), "expected a datetime with a time zone, or milliseconds since 1970"),
    "a text": ("2030-01-01", "expected a datetime with a time zone"),
    "seconds": (1.5, "expected a datetime with a time zone"),
    "before 1970": (-1, "expected a time from 0 to"),
}


@pytest.mark.parametrize(("moment", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_clock_is_not_set_to_invalid_values(broker: ottla.Broker, moment: Any, says: str) -> None:
    with pytest.raises((TypeError, ControlError), match=says):
        broker.clock.set(moment)


@pytest.mark.parametrize("by", [1, "1h", None])
def test_a_clock_is_not_moved_by_a_value_without_unit(broker: ottla.Broker, by: Any) -> None:
    if by is None:
        with pytest.raises(TypeError, match="hours"):
            broker.clock.advance(hours="1")  # type: ignore[arg-type]
        for days in (1e12, float("nan")):
            with pytest.raises(ControlError, match="advance: expected a duration that ends before the year 10000"):
                broker.clock.advance(days=days)
    else:
        with pytest.raises(TypeError, match="expected a timedelta, or days="):
            broker.clock.advance(by)


def test_a_reset_reverts_every_clock_move_and_a_restart_none(broker: ottla.Broker) -> None:
    broker.clock.advance(days=8)
    broker.restart()
    assert broker.clock.now_ms() >= wall_time_ms() + 8 * DAY_MS - 60_000
    broker.clock.freeze()
    broker.reset()
    assert abs(broker.clock.now_ms() - wall_time_ms()) < 60_000
    assert not broker.clock.is_frozen


def test_a_refusal_shows_only_the_callers_lines(broker: ottla.Broker) -> None:
    with pytest.raises(ottla.ControlError, match="topic 'orders' not found") as refused:
        broker.compact("orders")
    assert refused.value.__suppress_context__ and refused.value.__cause__ is None
    rooms = {Path(str(entry.path)).parent.name for entry in refused.traceback}
    assert rooms == {"embedded"}, rooms
