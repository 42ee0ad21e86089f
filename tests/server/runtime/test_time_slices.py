"""Time slices: tasks that want another one wait in a queue, and each scheduler pass lets as many continue as have room."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from ottla.server.runtime import time_slices
from ottla.server.runtime.time_slices import TimeSlice


def test_a_time_slice_ends_after_some_milliseconds_and_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(time_slices, "perf_counter", lambda: now_s)
    time_slice = TimeSlice()
    now_s += time_slices.SLICE_S * 0.9
    assert not time_slice.is_over()
    now_s += time_slices.SLICE_S * 0.1
    assert time_slice.is_over()
    time_slice.begin()
    assert not time_slice.is_over()


@pytest.mark.parametrize(("slice_part", "pass_part", "most"), [(1, 1, 2), (0, 1, 2), (10, 1, 1), (1, 0, 1)])
async def test_each_pass_continues_as_many_tasks_as_have_room_in_order(
    slice_part: int, pass_part: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PASS_S limits the slices of a pass. Each task that continues counts as a whole slice, or as its last one if that was
    longer. One task continues in any case.
    """
    now_s = 100.0
    monkeypatch.setattr(time_slices, "PASS_S", time_slices.PASS_S * pass_part)
    monkeypatch.setattr(time_slices, "perf_counter", lambda: now_s)
    went_on: list[int | None] = []
    """The pass in which each task continued, in the order of their requests."""

    async def work() -> None:
        nonlocal now_s
        time_slice = TimeSlice()
        for _ in range(4):
            now_s += time_slices.SLICE_S * slice_part
            place = len(went_on)
            went_on.append(None)
            await time_slice.next()
            went_on[place] = time_slices.passes()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(work)
    numbers = [number for number in went_on if number is not None]
    assert len(numbers) == 4 * 9
    assert numbers == sorted(numbers)
    # The first of all finds the queue empty and continues at once.
    assert max(Counter(numbers).values()) <= most + 1
    # So does each that finds it empty later, alone in its pass.
    assert numbers[-1] - numbers[0] <= 2 * 36 / most + 4


@pytest.mark.parametrize("leaves", [0, 1, 2])
async def test_a_cancelled_task_in_the_queue_leaves_its_slice_to_the_rest(leaves: int) -> None:
    done: list[int] = []
    scopes = [trio.CancelScope() for _ in range(3)]

    async def work(number: int) -> None:
        with scopes[number]:
            await TimeSlice().next()
            done.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            await trio.lowlevel.checkpoint()
            nursery.start_soon(work, number)
        scopes[leaves].cancel()
    assert {0, 1, 2} - {leaves} <= set(done)
    with trio.fail_after(60):
        await TimeSlice().next()


async def test_for_a_single_task_the_next_slice_is_a_checkpoint() -> None:
    with trio.testing.assert_checkpoints():
        await TimeSlice().next()
    with trio.move_on_after(0) as scope:
        await TimeSlice().next()
    assert scope.cancelled_caught
    await TimeSlice().next()


async def test_slices_that_start_late_in_a_pass_are_short_except_queued_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    monkeypatch.setattr(time_slices, "perf_counter", lambda: now_s)
    await TimeSlice().next()
    assert not TimeSlice.is_pass_over()
    now_s += time_slices.PASS_S + time_slices.SLICE_S
    assert TimeSlice.is_pass_over()
    late = TimeSlice()
    assert not late.is_over()
    now_s += time_slices.LATE_SLICE_PART * time_slices.SLICE_S * 1.1
    assert late.is_over()
    await late.next()
    assert not TimeSlice.is_pass_over()
    now_s += time_slices.SLICE_S * 0.9
    assert not late.is_over()
