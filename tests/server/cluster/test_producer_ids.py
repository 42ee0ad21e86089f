"""Producer ids: each is given once, also after a restart, and a block is persisted before any of its ids is given."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import trio

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.cluster.producer_ids import ProducerIds


class Blocks:
    """A catalog with only its producer ids: two in a block."""

    data_dir = "/data"

    def __init__(self) -> None:
        self.taken = 0
        self.refusals = 0
        """Number of failures left."""
        self.failure: Exception = OSError(28, "No space left on device")

    def take_producer_ids(self) -> range:
        if self.refusals:
            self.refusals -= 1
            raise self.failure
        self.taken += 1
        return range(2 * self.taken - 2, 2 * self.taken)


async def test_ids_come_from_consecutive_blocks() -> None:
    blocks = Blocks()
    ids = ProducerIds(cast(Any, blocks))
    assert [await ids.take() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert blocks.taken == 3


async def test_tasks_that_wait_for_one_block_get_different_ids() -> None:
    ids = ProducerIds(cast(Any, Blocks()))
    taken: list[int] = []

    async def take() -> None:
        taken.append(await ids.take())

    async with trio.open_nursery() as nursery:
        for _ in range(7):
            nursery.start_soon(take)
    assert sorted(taken) == list(range(7))


async def test_immediate_ids_come_only_from_the_current_block() -> None:
    ids = ProducerIds(cast(Any, Blocks()))
    with pytest.raises(KafkaError) as refusal:
        ids.take_now()
    assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await ids.have_some()
    await ids.have_some()
    assert [ids.take_now(), ids.take_now()] == [0, 1]
    with pytest.raises(KafkaError):
        ids.take_now()


class Watched(ProducerIds):
    """Producer ids that report the end of each fetch."""

    def __init__(self, catalog: Any) -> None:
        super().__init__(catalog)
        self._over, self.over = trio.open_memory_channel[None](math.inf)

    async def have_some(self) -> None:
        try:
            await super().have_some()
        finally:
            self._over.send_nowait(None)


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), MemoryError()], ids=repr)
async def test_a_caller_that_cannot_wait_gets_an_id_on_its_next_call(failure: Exception) -> None:
    """Timers do so. A block that could not be fetched is requested again with the next miss."""
    blocks = Blocks()
    blocks.refusals, blocks.failure = 1, failure
    ids = Watched(cast(Any, blocks))
    taken: list[int] = []
    misses = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ids.run)
        while len(taken) < 3:
            try:
                taken.append(ids.take_now())
            except KafkaError as error:
                assert error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                misses += 1
                await ids.over.receive()
        nursery.cancel_scope.cancel()
    assert (taken, misses, blocks.taken) == ([0, 1, 2], 3, 2)
