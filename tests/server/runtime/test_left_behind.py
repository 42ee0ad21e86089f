"""The check of objects left to the collector: `support.left_behind`."""

from __future__ import annotations

import gc
import weakref

from support.left_behind import left_to_the_collector, older_left_alone


class Ring:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


async def leaves_rings(count: int) -> None:
    for _ in range(count):
        Ring()


async def test_each_object_of_a_cycle_is_counted() -> None:
    few = await left_to_the_collector(lambda: leaves_rings(1))
    assert await left_to_the_collector(lambda: leaves_rings(101)) - few >= 100


async def test_an_object_that_replaces_an_older_one_is_counted() -> None:
    holder = [Ring()]

    async def replace() -> None:
        holder[0] = Ring()

    assert await left_to_the_collector(replace) >= 1


async def test_objects_freed_by_reference_counting_are_not_counted() -> None:
    async def leaves_nothing() -> None:
        for _ in range(100):
            [object()]

    assert await left_to_the_collector(leaves_nothing) < 100


async def test_no_collection_examines_older_objects() -> None:
    ring = Ring()
    older = weakref.ref(ring)
    with older_left_alone():
        del ring
        with older_left_alone():
            await leaves_rings(3)
        younger = weakref.ref(Ring())
        gc.collect()
    assert older() is not None and younger() is None
    assert gc.isenabled()
