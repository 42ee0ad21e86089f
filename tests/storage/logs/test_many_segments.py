"""A log with very many segments: the owning thread's work on one of them costs next to nothing for the others."""

from collections.abc import Callable

import pytest

from ottla.storage.disk import paths
from ottla.storage.logs import log as log_module
from ottla.storage.logs.log import Log
from ottla.storage.segment.segment import LogSegment
from support.calls import calls_of
from support.logs.make_log import append, make_log

FEW, MANY = 40, 240
AT_ONCE = 20

Step = Callable[[], object]


def log_of(count: int) -> Log:
    """Return a log of `count` sealed segments, and an active one with a record."""
    log = make_log(cleanup_policy=("delete",), retention_ms=-1)
    for _ in range(count):
        append(log, ("k", "v"), roll=True)
    append(log, ("k", "v"))
    return log


def a_roll(log: Log) -> Step:
    return lambda: log.roll(0)


def a_look_for_aborted_transactions(log: Log) -> Step:
    return lambda: list(log.overlapping_aborted(0, log.log_end_offset, at_once=True))


def a_choice_of_what_is_to_be_deleted(log: Log) -> Step:
    log.advance_log_start(log.log_end_offset)
    return lambda: log.begin_deletion(0, at_once=True)


def the_end_of_a_deletion(log: Log) -> Step:
    log.advance_log_start(log.log_end_offset)
    deletion = log.begin_deletion(0)
    assert deletion is not None
    deletion.rename_files()
    return lambda: log.end_deletion(deletion, 0)


def the_end_of_a_swap(log: Log) -> Step:
    old = log.segments.non_active()
    new = LogSegment.create(log.files, log.directory, 0, log.config, 0, paths.CLEANED)
    log.prepare_swap([new], old)
    return lambda: log.commit_swap([new], old, 0)


def the_first_file_to_be_removed(log: Log) -> Step:
    the_end_of_a_swap(log)()
    return lambda: next(log.deleted_files.take_due(10**9))


CALLS_A_SEGMENT: dict[Callable[[Log], Step], float] = {
    a_roll: 0.1,
    a_look_for_aborted_transactions: 1,
    a_choice_of_what_is_to_be_deleted: 0.1,
    the_end_of_a_deletion: 1,
    the_end_of_a_swap: 2,
    the_first_file_to_be_removed: 0.1,
}


@pytest.mark.parametrize("step", CALLS_A_SEGMENT, ids=lambda step: step.__name__)
def test_a_step_costs_next_to_nothing_for_each_other_segment(
    step: Callable[[Log], Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "SEGMENTS_AT_ONCE", AT_ONCE, raising=False)
    few, many = (calls_of(step(log_of(count))) for count in (FEW, MANY))
    assert (many - few) / (MANY - FEW) <= CALLS_A_SEGMENT[step]
