"""One error leaves a plain nursery unchanged, several leave it as a group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from ottla.server.runtime.nursery import open_plain_nursery


async def fail(error: Exception) -> None:
    raise error


async def test_an_error_of_the_body_is_raised_unchanged() -> None:
    error = ValueError("body")
    with pytest.raises(ValueError, match="body") as caught:
        async with open_plain_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise error
    assert caught.value is error
    assert (error.__context__, error.__cause__) == (None, None)


async def test_an_error_of_a_task_is_raised_unchanged() -> None:
    with pytest.raises(ValueError, match="task"):
        async with open_plain_nursery() as nursery:
            nursery.start_soon(fail, ValueError("task"))
            await trio.sleep_forever()


async def test_several_errors_are_raised_as_a_group() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with open_plain_nursery() as nursery:
            nursery.start_soon(fail, ValueError("task"))
            nursery.start_soon(fail, KeyError("task"))
    assert {type(error) for error in caught.value.exceptions} == {ValueError, KeyError}


async def test_a_group_raised_by_the_body_stays_a_group() -> None:
    group = ExceptionGroup("of the body", [ValueError("alone in it")])
    with pytest.raises(ExceptionGroup, match="of the body") as caught:
        async with open_plain_nursery():
            raise group
    assert caught.value.exceptions == group.exceptions


async def test_a_nursery_works_inside_other_context_managers() -> None:
    @asynccontextmanager
    async def outer() -> AsyncIterator[None]:
        async with open_plain_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    async with outer():
        pass
    with pytest.raises(ValueError, match="inner"):
        async with outer():
            raise ValueError("inner")


async def test_a_timeout_around_a_nursery_works(autojump_clock: trio.testing.MockClock) -> None:
    with trio.move_on_after(5) as scope:
        async with open_plain_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
    assert scope.cancelled_caught
