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
        "tests/server/broker/test_supervisor.py::test_an_ended_run_is_freed_before_the_next_serves",
        "tests/server/broker/test_supervisor.py::test_created_and_deleted_topics_are_not_excluded_from_collections",
        "tests/server/handlers/test_handlers_in_turns.py::test_objects_of_a_large_request_are_freed_without_the_collector",
        "tests/server/network/test_large_requests.py::test_old_objects_are_not_collected_while_large_requests_live",
        "tests/server/runtime/test_gc_policy.py::test_a_large_collection_runs_when_no_client_waits",
        "tests/server/runtime/test_gc_policy.py::test_a_large_heap_must_grow_by_a_quarter",
        "tests/server/runtime/test_gc_policy.py::test_old_garbage_is_collected_after_ten_minutes_unless_postponed",
        "tests/server/runtime/test_gc_policy.py::test_old_garbage_is_collected_after_a_large_change_of_memory",
        "tests/server/runtime/test_gc_policy.py::test_garbage_of_an_earlier_run_is_freed_by_the_first_check",
    ),
    "starts processes, as a user does": (
        "tests/server/commands/test_command.py::test_modules_of_coordinators_and_apis_are_loaded_ahead",
        "tests/server/runtime/test_deferred_free.py::test_the_threads_of_a_broker_process_share_malloc_arenas",
        "tests/server/testing/test_plugin.py::test_server_modules_are_loaded_on_demand_by_pythons_loader",
        "tests/test_blocks.py::test_the_blocks_of",
        "tests/test_packaging.py::test_a_floor_loads_only_the_floors_below_it",
    ),
    "goes through many lives or disks": (
        "tests/server/broker/test_server_crashes.py::test_share_states_outlive_a_disk_that_refuses",
        "tests/server/cluster/test_changes_of_topics.py::test_a_change_is_visible_exactly_after_its_write",
        "tests/server/commands/admin/test_stopped.py::test_ctrl_c_at_any_operation_loses_no_record_and_can_be_resumed",
        "tests/storage/cleaning/test_cleaner_crash.py::test_a_deleted_key_does_not_return_with_a_groups_last_segments",
        "tests/typing/test_every_public_name.py::test_state",
    ),
    "counts each call of a large request": (
        (
            "tests/server/groups/test_group_requests_in_turns.py::"
            "test_other_tasks_run_during_large_requests_and_no_loop_covers_them_all"
        ),
        "tests/server/handlers/test_handlers_in_turns.py::test_describing_log_dirs_frees_nothing_for_missing_partitions",
        "tests/server/handlers/test_handlers_in_turns.py::test_the_longest_slice_of_a_handler_does_not_grow_with_its_request",
    ),
    "is as large as a limit": (
        "tests/pipeline/test_many_segments.py::test_a_log_of_many_segments_is_compacted_verified_and_snapshotted",
        "tests/server/broker/test_extremes.py::test_every_number_of_a_topic_works_at_its_options_limits",
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
