"""Answers that a coordinator kept waiting."""

from __future__ import annotations

import pytest
import trio

from ottla.server import turns
from ottla.server.coordination.service import Parked

MANY = 50


class Patient:
    """A client that stays."""

    def check_peer(self) -> None:
        pass


@pytest.mark.parametrize(("is_pass_long", "most_a_pass"), [(False, MANY), (True, 2)])
async def test_of_many_that_are_answered_at_once_few_go_on_in_a_pass_that_is_over(
    is_pass_long: bool, most_a_pass: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = 0
    seen: list[tuple[int, int]] = []
    parked: list[Parked[int]] = [Parked() for _ in range(MANY)]

    async def wait(one: Parked[int]) -> None:
        answer = await one.wait(Patient())
        seen.append((passes, answer))

    async def count(scope: trio.CancelScope) -> None:
        nonlocal passes
        with scope:
            while True:
                await trio.lowlevel.checkpoint()
                passes += 1

    monkeypatch.setattr(turns.Turn, "is_pass_over", staticmethod(lambda: is_pass_long))
    scope = trio.CancelScope()
    async with trio.open_nursery() as everybody:
        everybody.start_soon(count, scope)
        async with trio.open_nursery() as nursery:
            for one in parked:
                nursery.start_soon(wait, one)
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            for number, one in enumerate(parked):
                one(number)
        scope.cancel()
    assert sorted(answer for _, answer in seen) == list(range(MANY))
    assert max(sum(at == number for at, _ in seen) for number in range(passes + 1)) <= most_a_pass
