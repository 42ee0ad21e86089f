"""The reasons why a log is or is not cleaned next, and the time from which it will be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from ottla.storage.cleaning.cleaner_manager import CleanerManager
from ottla.storage.cleaning.dirtiness import measure
from ottla.storage.cleaning.eligibility import Eligibility, assess_in_pieces
from ottla.storage.cleaning.retries import Retry
from ottla.storage.logs.log import Log
from ottla.storage.steps import to_the_end
from support.cleaner.choosing import filthiest
from support.logs.make_log import Producer, append, make_log
from support.noted import each_case

HOUR_MS = 3_600_000
T0 = 100 * HOUR_MS


def segments(count: int, *, age_ms: int = 0, log: Log | None = None, **config: Any) -> Log:
    """Return a log with `count` sealed segments of one record each, `age_ms` old at T0, and an empty active one."""
    log = make_log(**config) if log is None else log
    for number in range(count):
        append(log, ("k", str(number)), timestamp=T0 - age_ms, roll=True)
    return log


def with_open_transaction() -> Log:
    log = segments(1)
    Producer(log, 7, transactional=True).write("a")
    log.roll(T0)
    return log


def with_an_active_record(**config: Any) -> Log:
    log = segments(1, **config)
    append(log, ("k", "v"), timestamp=T0)
    return log


def offline() -> Log:
    log = segments(2)
    log.fail(OSError("the disk is gone"))
    return log


class Case(NamedTuple):
    """A log, its checkpoint, and its explanation at T0."""

    log: Callable[[], Log]
    checkpoint: int | None
    waits_for: str | None
    says: str
    due_in_ms: int | None = None
    options: Mapping[str, Any] = MappingProxyType({})


LAG: dict[str, Any] = {"min_compaction_lag_ms": HOUR_MS}
NEVER_BY_RATIO: dict[str, Any] = {"min_cleanable_dirty_ratio": 1.0}

CASES = {
    "dirty": Case(lambda: segments(2), None, None, "will clean it"),
    "without compaction": Case(
        lambda: segments(2, cleanup_policy=("delete",)), None, "not_compacted", "cleanup.policy"
    ),
    "no cleaner": Case(
        lambda: segments(2), None, "cleaner_off", "is false", options={"cleaner_off": "log.cleaner.enable is false"}
    ),
    "offline": Case(offline, None, "offline", "the disk is gone"),
    "marked": Case(lambda: segments(2), None, "uncleanable", "bad varint", options={"uncleanable": "bad varint"}),
    "put off": Case(
        lambda: segments(2),
        None,
        "put_off",
        "a pass failed (disk full)",
        30_000,
        {"retry": Retry("disk full", T0 + 30_000, 30_000)},
    ),
    "put off, but not dirty": Case(
        lambda: segments(2), 2, "all_clean", "nothing is dirty", options={"retry": Retry("disk full", T0 + 1, 1)}
    ),
    "held": Case(lambda: segments(2), None, "held", "is paused", options={"held": "paused"}),
    "empty": Case(make_log, None, "all_clean", "nothing is dirty"),
    "clean": Case(lambda: segments(2), 2, "all_clean", "nothing is dirty"),
    "not rolled": Case(with_an_active_record, 1, "active_segment", "after it has rolled"),
    "undecided": Case(
        with_open_transaction, 1, "open_transaction", "producer 7 has an open transaction since offset 1"
    ),
    "young": Case(lambda: segments(2, age_ms=5, **LAG), None, "min_compaction_lag", "segment at offset 0", HOUR_MS - 5),
    "young, and too clean then": Case(
        lambda: segments(2, age_ms=5, **LAG, **NEVER_BY_RATIO), None, "min_compaction_lag", "segment at offset 0"
    ),
    "hardly dirty": Case(
        lambda: segments(4), 3, "below_min_ratio", "dirty ratio 0.250 is not above min.cleanable.dirty.ratio=0.5"
    ),
    "hardly dirty until more segments are old enough": Case(
        lambda: segments(4, age_ms=20, log=segments(4, age_ms=HOUR_MS, **LAG)),
        3,
        "below_min_ratio",
        "0.250",
        HOUR_MS - 20,
    ),
    "hardly dirty until it has waited long enough": Case(
        lambda: segments(4, age_ms=20, max_compaction_lag_ms=HOUR_MS),
        3,
        "below_min_ratio",
        "0.250",
        HOUR_MS - 20 + 1,
    ),
    "dirty for too long": Case(
        lambda: segments(4, age_ms=20, max_compaction_lag_ms=19, **NEVER_BY_RATIO), None, None, "will clean it"
    ),
}


def assessed(case: Case) -> tuple[Log, Eligibility]:
    log = case.log()
    return log, to_the_end(assess_in_pieces(log, case.checkpoint, T0, **case.options))


@each_case("case", CASES.values(), ids=CASES)
def test_each_log_names_the_condition_it_waits_for(case: Case) -> None:
    _, found = assessed(case)
    assert (found.waits_for, found.eligible) == (case.waits_for, case.waits_for is None)
    assert case.says in found.explanation
    assert found.eligible_at_ms == (None if case.due_in_ms is None else T0 + case.due_in_ms)


@each_case("case", [case for case in CASES.values() if not case.options])
def test_the_explanation_matches_the_cleaner(case: Case) -> None:
    log, found = assessed(case)
    manager = CleanerManager(log.files, {log.topic_partition: log})
    if case.checkpoint is not None:
        manager.save_end_offset(measure(log, 0, T0), case.checkpoint)

    def chosen(now_ms: int) -> bool:
        return filthiest(manager, now_ms) is not None

    if found.eligible:
        assert chosen(T0)
    elif found.eligible_at_ms is None:
        assert not chosen(T0) and not chosen(T0 + 1000 * HOUR_MS)
    else:
        assert not chosen(T0) and not chosen(found.eligible_at_ms - 1)
        assert chosen(found.eligible_at_ms)


def test_reported_numbers_are_those_of_the_choice() -> None:
    log = segments(3, min_compaction_lag_ms=0)
    append(log, ("k", "v"), timestamp=T0)
    sizes = [segment.size_bytes for segment in log.segments]
    found = to_the_end(assess_in_pieces(log, 1, T0))
    assert (found.log_start_offset, found.first_dirty_offset, found.upper_offset, found.log_end_offset) == (0, 1, 3, 4)
    assert (found.first_uncleanable_offset, found.bound_by, found.bound_producer_id) == (3, "active_segment", None)
    assert (found.clean_bytes, found.cleanable_bytes) == (sizes[0], sizes[1] + sizes[2])
    assert found.total_bytes == sum(sizes[:3])
    assert found.dirty_ratio == pytest.approx(2 / 3, abs=0.01)
    assert (found.cleanup_policy, found.state, found.min_cleanable_dirty_ratio) == (("compact",), "not held", 0.5)


def test_the_bound_names_the_producer_that_holds_it() -> None:
    found = to_the_end(assess_in_pieces(with_open_transaction(), 0, T0))
    assert (found.bound_by, found.bound_producer_id, found.first_uncleanable_offset) == ("open_transaction", 7, 1)


def test_the_future_time_is_found_among_many_segments() -> None:
    log = make_log(min_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=0.5)
    segments(10, age_ms=2 * HOUR_MS, log=log)
    for age_ms in range(1000, 0, -50):
        segments(1, age_ms=age_ms, log=log)
    found = to_the_end(assess_in_pieces(log, 10, T0))
    assert found.waits_for == "min_compaction_lag"
    assert found.eligible_at_ms is not None
    due_at = found.eligible_at_ms
    assert measure(log, 10, due_at).is_due and not measure(log, 10, due_at - 1).is_due
    assert measure(log, 10, due_at).upper_offset == 21  # 11 dirty segments after 10 clean ones
