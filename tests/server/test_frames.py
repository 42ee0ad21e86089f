"""Cutting frames out of a byte stream: any chunking gives the same frames, and memory has limits."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ProtocolError
from ottla.server.frames import INITIAL_BUFFER_BYTES, RETAINED_BUFFER_BYTES, FrameReader, MemoryBudget
from ottla.server.transport import PeerGoneError, PlainTransport


class Wire:
    """A frame reader and the client's end of its socket."""

    def __init__(self, max_frame_bytes: int, budget: MemoryBudget) -> None:
        self.client, self.server = socket.socketpair()
        self.client.setblocking(False)
        self.transport = PlainTransport(self.server)
        self.reader = FrameReader(self.transport, max_frame_bytes, budget)

    async def send(self, data: bytes, chunk_bytes: int = 1 << 20) -> None:
        stream = trio.socket.from_stdlib_socket(self.client)
        for at in range(0, len(data), chunk_bytes):
            piece = memoryview(data)[at : at + chunk_bytes]
            while piece:
                piece = piece[await stream.send(piece) :]
            await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def budget() -> MemoryBudget:
    return MemoryBudget(8 << 20)


@pytest.fixture
def wire(budget: MemoryBudget) -> Iterator[Wire]:
    wire = Wire(4 << 20, budget)
    yield wire
    wire.client.close()
    wire.server.close()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("chunk_bytes", [1, 3, 5000, 1 << 20])
async def test_frames_come_out_whole_however_the_bytes_arrive(wire: Wire, chunk_bytes: int) -> None:
    bodies = (
        [b"", b"a", b"b" * 300] if chunk_bytes < 100 else [b"x" * 20_000, b"", b"y" * 3_000_000, b"z", b"w" * 70_000]
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, b"".join(map(frame, bodies)), chunk_bytes)
        for body in bodies:
            got = await wire.reader.next_frame()
            assert got is not None and bytes(got) == body


async def test_the_end_between_frames_is_no_error(wire: Wire) -> None:
    await wire.send(frame(b"last"))
    wire.client.shutdown(socket.SHUT_WR)
    first = await wire.reader.next_frame()
    assert first is not None and bytes(first) == b"last"
    assert await wire.reader.next_frame() is None


@pytest.mark.parametrize("cut", [1, 4, 6])
async def test_the_end_inside_a_frame_is_one(wire: Wire, cut: int) -> None:
    await wire.send(frame(b"body")[:cut])
    wire.client.shutdown(socket.SHUT_WR)
    with pytest.raises(PeerGoneError, match="inside a frame"):
        await wire.reader.next_frame()


@pytest.mark.parametrize("size", [-1, (4 << 20) + 1, 2**31 - 1, -(2**31)])
async def test_an_impossible_size_is_refused_before_memory_is_spent(
    wire: Wire, budget: MemoryBudget, size: int
) -> None:
    await wire.send(struct.pack(">i", size))
    with pytest.raises(ProtocolError, match=str(size)):
        await wire.reader.next_frame()
    assert budget.used_bytes == 0


async def test_a_large_buffer_is_given_back_after_its_frame(wire: Wire, budget: MemoryBudget) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, frame(bytes(RETAINED_BUFFER_BYTES + 1)) + frame(b"small"))
        await wire.reader.next_frame()
        assert budget.used_bytes > RETAINED_BUFFER_BYTES
        second = await wire.reader.next_frame()
    assert second is not None and bytes(second) == b"small"
    await wire.send(frame(b""))
    await wire.reader.next_frame()
    assert budget.used_bytes == 0


async def test_a_buffer_of_usual_size_is_kept_until_room_is_short(wire: Wire, budget: MemoryBudget) -> None:
    budget.reclaim = wire.reader.shrink
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, frame(bytes(1 << 20)))
        await wire.reader.next_frame()
    assert budget.used_bytes > 1 << 20
    await budget.acquire(budget.limit_bytes)
    assert budget.used_bytes == budget.limit_bytes
    budget.release(budget.limit_bytes)
    await wire.send(frame(b"goes on"))
    got = await wire.reader.next_frame()
    assert got is not None and bytes(got) == b"goes on"


async def test_a_shrunk_buffer_is_not_written_to_by_a_waiting_receive(wire: Wire) -> None:
    got: list[bytes] = []

    async def receive() -> None:
        for _ in range(2):
            view = await wire.reader.next_frame()
            assert view is not None
            got.append(bytes(view[:4]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await wire.send(frame(b"1111" * INITIAL_BUFFER_BYTES))
        await trio.testing.wait_all_tasks_blocked()
        wire.reader.shrink()
        await wire.send(frame(b"2222"))
    assert got == [b"1111", b"2222"]


async def test_the_budget_lets_waiters_in_by_turns_and_one_giant_alone() -> None:
    budget, order = MemoryBudget(10), []

    async def take(name: str, size_bytes: int) -> None:
        await budget.acquire(size_bytes)
        order.append(name)

    await budget.acquire(6)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, "giant", 50)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, "small", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert order == []
        budget.release(6)
        await trio.testing.wait_all_tasks_blocked()
        assert order == ["giant"]
        budget.release(50)
    assert order == ["giant", "small"] and budget.used_bytes == 1


async def test_a_cancelled_waiter_leaves_the_queue() -> None:
    budget = MemoryBudget(10)
    await budget.acquire(10)
    with trio.move_on_after(0):
        await budget.acquire(5)
    budget.release(10)
    assert budget.used_bytes == 0
