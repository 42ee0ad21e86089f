"""Time slices: tasks that want another one wait in a queue, and in each pass so many go on as have room."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import itemgetter

import pytest
import trio

from ottla.server.runtime import turns
from ottla.server.runtime.turns import Turn
from support.passes import counting_passes


def test_a_turn_is_over_after_some_milliseconds_and_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(turns, "perf_counter", lambda: now_s)
    turn = Turn()
    now_s += turns.TURN_S * 0.9
    assert not turn.is_over()
    now_s += turns.TURN_S * 0.1
    assert turn.is_over()
    turn.begin()
    assert not turn.is_over()


@pytest.mark.parametrize(("slice_part", "most"), [(1.0, 2), (0.25, 7), (10.0, 1)])
async def test_in_each_pass_so_many_go_on_as_have_room_in_order(
    slice_part: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PASS_S has room for slices until it is used up, by the last slices of those that go on."""
    now_s = 100.0
    monkeypatch.setattr(turns, "perf_counter", lambda: now_s)
    seen: list[tuple[int, str]] = []

    async def work(name: str) -> None:
        nonlocal now_s
        turn = Turn()
        for _ in range(4):
            now_s += turns.TURN_S * slice_part
            await turn.next()
            seen.append((passes.count, name))

    async with counting_passes() as passes, trio.open_nursery() as nursery:
        for name in "abcdefghi":
            nursery.start_soon(work, name)
    assert len(seen) == 4 * 9
    of_pass = Counter(count for count, _ in seen)
    # The first goes on at once; and the pass may be counted before or after the ones that are let in.
    assert max(of_pass.values()) <= 2 * most + 1
    assert len(of_pass) <= 2 * 36 / most + 9
    slices = Counter("abcdefghi")
    for count, of_this_pass in groupby(seen, key=itemgetter(0)):
        slices.update(name for _, name in of_this_pass)
        # Two that go on in one pass do so in any order, and the second may be the last of its round.
        assert max(slices.values()) - min(slices.values()) <= 2, f"one is a round ahead after pass {count}"


@pytest.mark.parametrize("leaves", [0, 1, 2])
async def test_whoever_is_cancelled_in_line_leaves_it_to_the_others(leaves: int) -> None:
    done: list[int] = []
    scopes = [trio.CancelScope() for _ in range(3)]

    async def work(number: int) -> None:
        with scopes[number]:
            await Turn().next()
            done.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            await trio.lowlevel.checkpoint()
            nursery.start_soon(work, number)
        scopes[leaves].cancel()
    assert {0, 1, 2} - {leaves} <= set(done)
    with trio.fail_after(60):
        await Turn().next()


async def test_alone_the_next_turn_is_a_checkpoint() -> None:
    with trio.testing.assert_checkpoints():
        await Turn().next()
    with trio.move_on_after(0) as scope:
        await Turn().next()
    assert scope.cancelled_caught
    await Turn().next()


async def test_turns_that_begin_late_in_a_pass_are_short_and_those_of_the_line_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    monkeypatch.setattr(turns, "perf_counter", lambda: now_s)
    await Turn().next()
    assert not Turn.is_pass_over()
    now_s += turns.PASS_S + turns.TURN_S
    assert Turn.is_pass_over()
    late = Turn()
    assert not late.is_over()
    now_s += turns.LATE_TURN_PART * turns.TURN_S * 1.1
    assert late.is_over()
    await late.next()
    assert not Turn.is_pass_over()
    now_s += turns.TURN_S * 0.9
    assert not late.is_over()
