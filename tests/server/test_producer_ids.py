"""Producer ids: each is given once, also after a restart, and a block is recorded before any of it is given."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.producer_ids import ProducerIds


class Blocks:
    """The catalog, as far as producer ids go: two in a block."""

    def __init__(self) -> None:
        self.taken = 0

    def take_producer_ids(self) -> range:
        self.taken += 1
        return range(2 * self.taken - 2, 2 * self.taken)


async def test_ids_come_from_one_block_after_the_other() -> None:
    blocks = Blocks()
    ids = ProducerIds(cast(Any, blocks))
    assert [await ids.take() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert blocks.taken == 3


async def test_many_who_wait_for_a_block_get_different_ids() -> None:
    ids = ProducerIds(cast(Any, Blocks()))
    taken: list[int] = []

    async def take() -> None:
        taken.append(await ids.take())

    async with trio.open_nursery() as nursery:
        for _ in range(7):
            nursery.start_soon(take)
    assert sorted(taken) == list(range(7))


async def test_at_once_there_are_only_ids_of_the_block_in_hand() -> None:
    ids = ProducerIds(cast(Any, Blocks()))
    with pytest.raises(KafkaError) as refusal:
        ids.take_now()
    assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await ids.have_some()
    await ids.have_some()
    assert [ids.take_now(), ids.take_now()] == [0, 1]
    with pytest.raises(KafkaError):
        ids.take_now()
