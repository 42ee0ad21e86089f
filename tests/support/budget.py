"""Processor time of each test: pytest's hooks, which `tests/conftest.py` imports.

A test should take less than 2 s, and fails above LIMIT_S, so that `make test` stays short. Full runs have no limit.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from support.sizes import FULL

LIMIT_S = 5.0
"""The limit in seconds: two to three times the target, because a shared core or a busy memory makes a test slower."""

EXPENSIVE = {
    "collects the garbage of the whole test process": (
        "tests/server/broker/test_supervisor.py::test_a_life_is_gone_when_the_next_one_serves_though_it_was_kept_out_of_collections",
        "tests/server/broker/test_supervisor.py::test_topics_that_are_made_and_deleted_keep_nothing_out_of_collections",
        "tests/server/handlers/test_handlers_in_turns.py::test_what_a_large_request_leaves_behind_goes_without_the_collector",
        "tests/server/network/test_large_requests.py::test_old_objects_are_left_alone_while_large_requests_live",
        "tests/server/runtime/test_gc_policy.py::test_much_is_looked_at_when_nobody_waits_for_it",
        "tests/server/runtime/test_gc_policy.py::test_of_much_memory_a_quarter_must_have_come",
        "tests/server/runtime/test_gc_policy.py::test_old_garbage_goes_after_ten_minutes_unless_it_is_put_off",
        "tests/server/runtime/test_gc_policy.py::test_old_garbage_goes_when_memory_has_changed_by_much",
        "tests/server/runtime/test_gc_policy.py::test_what_an_earlier_life_of_the_broker_has_left_goes_with_the_first_look_and_is_given_back",
    ),
    "starts processes, as a user does": (
        "tests/server/commands/test_command.py::test_what_coordinators_and_apis_need_is_loaded_before_somebody_needs_one",
        "tests/server/runtime/test_deferred_free.py::test_the_threads_of_a_brokers_process_share_what_the_c_library_keeps",
        "tests/server/testing/test_plugin.py::test_what_is_loaded_when_and_how_in_a_process_of_pytests_own",
        "tests/test_blocks.py::test_the_blocks_of",
        "tests/test_packaging.py::test_a_floor_loads_without_what_it_does_not_stand_on",
    ),
    "goes through many lives or disks": (
        "tests/server/broker/test_server_crashes.py::test_share_states_outlive_a_disk_that_refuses",
        "tests/server/cluster/test_changes_of_topics.py::test_a_change_is_seen_when_it_is_written_and_not_before",
        "tests/server/commands/admin/test_stopped.py::test_ctrl_c_at_any_operation_loses_no_record_and_the_next_call_ends_it",
        "tests/storage/cleaning/test_cleaner_crash.py::test_a_deleted_key_does_not_come_back_with_the_last_segments_of_a_group",
        "tests/typing/test_every_public_name.py::test_state",
    ),
    "counts each call of a large request": (
        (
            "tests/server/groups/test_group_requests_in_turns.py::"
            "test_others_have_their_turns_in_the_midst_of_a_large_request_and_no_loop_goes_through_all_of_it_at_once"
        ),
        "tests/server/handlers/test_handlers_in_turns.py::test_describing_log_dirs_frees_nothing_for_partitions_that_are_not_there",
        "tests/server/handlers/test_handlers_in_turns.py::test_the_longest_stretch_of_a_handler_does_not_grow_with_its_request",
    ),
    "is as large as a limit": (
        "tests/pipeline/test_many_segments.py::test_it_is_compacted_verified_and_snapshotted_all_the_same",
        "tests/server/broker/test_extremes.py::test_every_number_of_a_topic_may_be_as_large_or_small_as_its_option_takes",
    ),
}
"""Tests that may take longer: for each reason, their node ids without parameters."""
_EXPENSIVE = {nodeid for nodeids in EXPENSIVE.values() for nodeid in nodeids}

SHOWN = 10
_PROPERTY = "cpu_s"


def spent_s() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    before_s = spent_s()
    result = yield
    cost_s = spent_s() - before_s
    item.user_properties.append((_PROPERTY, cost_s))
    if cost_s > LIMIT_S and not FULL and item.nodeid.partition("[")[0] not in _EXPENSIVE:
        pytest.fail(
            f"processor time: {cost_s:.1f} s (limit {LIMIT_S:.0f}); make the test cheaper, let `support.sizes` give it a slice,"
            " or name it in EXPENSIVE of tests/support/budget.py with the reason",
            pytrace=False,
        )
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    costs = sorted(_costs(terminalreporter.stats), reverse=True)
    if len(costs) > SHOWN:
        terminalreporter.section(f"processor time: {sum(cost for cost, _ in costs):.0f} s in {len(costs)} tests")
        for cost, nodeid in costs[:SHOWN]:
            terminalreporter.write_line(f"{cost:6.2f} s {nodeid}")


def _costs(stats: dict[str, list[Any]]) -> Iterator[tuple[float, str]]:
    for outcome in ("passed", "failed"):
        for report in stats.get(outcome, ()):
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    yield value, report.nodeid
