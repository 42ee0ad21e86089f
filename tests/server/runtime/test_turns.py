"""Turns: who wants another one stands in line, and in each pass of the scheduler one has his."""

from __future__ import annotations

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


async def test_in_each_pass_one_of_many_has_a_turn_in_order() -> None:
    seen: list[tuple[int, str]] = []

    async def work(name: str) -> None:
        turn = Turn()
        for _ in range(3):
            await turn.next()
            seen.append((passes.count, name))

    async with counting_passes() as passes, trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(work, name)
    assert len(seen) == 9
    assert max(sum(one == number for one, _ in seen) for number in range(passes.count + 1)) <= 2, (
        "two when the counter comes between"
    )
    names = [name for _, name in seen]
    assert [sorted(names[at : at + 3]) for at in (0, 3, 6)] == [["a", "b", "c"]] * 3
    assert seen[-1][0] - seen[0][0] >= 7


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
