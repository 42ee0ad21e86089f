"""The check whether a pass over a clean log would remove anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.storage.cleaning.dirtiness import is_any_reached
from ottla.storage.logs.log import Log
from support.logs.make_log import Producer, append, clean, contents, make_log

HORIZON_MS = 2_000 + 86_400_000


def cleaned(log: Log) -> Log:
    log.roll(1_000)
    clean(log)
    return log


def with_a_tombstone() -> Log:
    log = make_log()
    append(log, ("a", None), ("b", "1"))
    return cleaned(log)


def with_a_marker() -> Log:
    """Return a log with the marker of an aborted transaction, whose data an earlier pass removed."""
    log = make_log()
    producer = Producer(log, 7, transactional=True)
    producer.write("a")
    producer.abort()
    producer.write("b")
    producer.commit()
    return cleaned(cleaned(log))


def without_either() -> Log:
    log = make_log()
    append(log, ("a", "1"), ("a", "2"))
    return cleaned(log)


@pytest.mark.parametrize(
    ("log", "reached"),
    [(with_a_tombstone, True), (with_a_marker, True), (without_either, False), (make_log, False)],
    ids=["a tombstone", "a marker", "neither", "empty"],
)
def test_a_horizon_is_reached_exactly_at_its_time_and_until_the_pass(log: Callable[[], Log], reached: bool) -> None:
    made = log()
    closed = made.segments.non_active()
    assert not is_any_reached(closed, HORIZON_MS - 1)
    assert is_any_reached(closed, HORIZON_MS) is reached
    before = contents(made)
    clean(made, made.segments.active.base_offset, now_ms=HORIZON_MS)
    if log is with_a_tombstone:
        assert len(contents(made)) == len(before) - 1
    assert not is_any_reached(made.segments.non_active(), HORIZON_MS)


def test_the_check_can_be_cancelled_before_each_segment() -> None:
    log = make_log()
    for number in range(3):
        append(log, ("a", str(number)), roll=True)
    asked = []
    assert not is_any_reached(log.segments.non_active(), 0, lambda: asked.append(1))
    assert len(asked) == 3
