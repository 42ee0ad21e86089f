"""Messages are freed piece by piece, whichever part of them is long."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ottla.protocol.apis import APIS
from ottla.protocol.connection import encode_request, parse_request
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.server.runtime.deferred_free import ARENAS_MAX, FEW, _trim, free, free_frames, give_back
from support.left_behind import older_left_alone

MANY = 3 * FEW


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    with older_left_alone():
        yield
    gc.enable()


def living() -> int:
    # Frozen objects are not among them.
    return sum(type(each) in (FetchTopic, FetchPartition) for each in gc.get_objects())


def request(topics: int, partitions: int) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=tuple(
            FetchTopic(
                topic="t",
                partitions=tuple(
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1)
                    for index in range(partitions)
                ),
            )
            for _ in range(topics)
        ),
    )


@pytest.mark.parametrize("topics, partitions", [(MANY, 0), (1, MANY), (MANY, 1), (3, 3)])
def test_a_message_is_freed_completely_with_long_arrays_first(
    topics: int, partitions: int, without_collector: None
) -> None:
    before = living()
    box = [request(topics, partitions), [request(topics, partitions)] * 2]

    free(box)

    assert not box
    assert living() == before


@pytest.mark.parametrize("topics, partitions", [(MANY, 0), (1, MANY), (MANY, 1)])
def test_few_objects_are_freed_at_once(topics: int, partitions: int, without_collector: None) -> None:
    """Between any two lines of Python another thread may run."""
    gone: list[int] = []
    box = [request(topics, partitions)]
    left = living()

    def look(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        steps[0] += 1
        if event == "line" and steps[0] % 4_000 == 0:
            now = living()
            gone.append(left - now)
            left = now
        return look

    steps = [0]
    before = sys.gettrace()
    sys.settrace(look)
    try:
        free(box)
    finally:
        sys.settrace(before)

    assert gone and max(gone) < FEW


def test_objects_with_other_references_stay_complete(without_collector: None) -> None:
    before = living()
    shared = request(1, MANY)
    box = [FetchRequest(max_wait_ms=0, min_bytes=0, topics=shared.topics * 3), shared]

    free(box)

    assert len(shared.topics[0].partitions) == MANY
    assert living() - before == MANY + 1


@pytest.mark.parametrize("topics, partitions", [(MANY, 0), (1, MANY)])
def test_parts_of_a_malformed_message_are_freed(topics: int, partitions: int, without_collector: None) -> None:
    frame = memoryview(encode_request(APIS[1], 11, 1, "c", request(topics, partitions)))[4:-8]
    before = living()
    try:
        parse_request(frame)
    except ProtocolError as error:
        assert living() - before > FEW
        free_frames(error)
        assert living() - before < FEW
    assert living() == before


@pytest.mark.skipif(_trim() is None, reason="not run: needs glibc, the library that keeps what is freed")
def test_freed_memory_is_returned_to_the_system() -> None:
    things = [bytes(1_000) for _ in range(60_000)]
    # After it, memory before it would not be returned by itself.
    last = bytes(1_000)
    del things
    before_bytes = resident_bytes()

    give_back()

    assert before_bytes - resident_bytes() > 30_000_000, last


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


ARENAS_OF_16_THREADS = """
import ctypes, sys, threading
if sys.argv[1] == "prepared":
    from ottla.server.commands.serve import _prepare_process
    _prepare_process()
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
def arena(address):
    # malloc/malloc.c: a bit of a chunk's size tells the main arena's, which lies anywhere; the others' heaps are aligned to 64 MiB.
    return address >> 26 if ctypes.c_size_t.from_address(address - 8).value & 4 else "main"
found, together = set(), threading.Barrier(16)
def allocate():
    together.wait()
    for _ in range(100):
        found.add(arena(malloc(100)))
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found))
"""


@pytest.mark.skipif(_trim() is None, reason="not run: needs glibc, the library that has arenas")
def test_the_threads_of_a_broker_process_share_malloc_arenas() -> None:
    def arenas(how: str, **environment: str) -> int:
        known = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"} | environment
        line = [sys.executable, "-c", ARENAS_OF_16_THREADS, how]
        return int(subprocess.run(line, env=known, capture_output=True, text=True, check=True).stdout)

    assert arenas("prepared") <= ARENAS_MAX
    assert arenas("as it is") > ARENAS_MAX
    assert arenas("prepared", MALLOC_ARENA_MAX="8") > ARENAS_MAX, "who says how many has so many"
