"""Extracting frames from a byte stream: any chunking gives the same frames, and memory has limits."""

from __future__ import annotations

import gc
import os
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ProtocolError
from ottla.server.network.frames import (
    HUGE_PAGE_BYTES,
    INITIAL_BUFFER_BYTES,
    RETAINED_BUFFER_BYTES,
    STEP_BYTES_MIN,
    FrameReader,
)
from ottla.server.network.request_memory import RequestMemory
from ottla.server.network.transport import PlainTransport

asks_linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux")


class Wire:
    """A frame reader and the client's end of its socket."""

    def __init__(self, max_frame_bytes: int, memory: RequestMemory, address: str = "somewhere") -> None:
        self.client, self.server = socket.socketpair()
        self.client.setblocking(False)
        self.transport = PlainTransport(self.server)
        self.given_up: list[str] = []
        self.reader = FrameReader(self.transport, max_frame_bytes, memory, address, self.given_up.append)

    async def send(self, data: bytes, chunk_bytes: int = 1 << 20) -> None:
        stream = trio.socket.from_stdlib_socket(self.client)
        for at in range(0, len(data), chunk_bytes):
            piece = memoryview(data)[at : at + chunk_bytes]
            while piece:
                piece = piece[await stream.send(piece) :]
            await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def memory() -> RequestMemory:
    return RequestMemory(8 << 20)


@pytest.fixture
def wire(memory: RequestMemory) -> Iterator[Wire]:
    wire = Wire(4 << 20, memory)
    yield wire
    wire.client.close()
    wire.server.close()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("chunk_bytes", [1, 3, 5000, 1 << 20])
async def test_frames_are_complete_for_any_arrival_of_bytes(wire: Wire, chunk_bytes: int) -> None:
    bodies = (
        [b"", b"a", b"b" * 300] if chunk_bytes < 100 else [b"x" * 20_000, b"", b"y" * 3_000_000, b"z", b"w" * 70_000]
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, b"".join(map(frame, bodies)), chunk_bytes)
        for body in bodies:
            got = await wire.reader.next_frame()
            assert got is not None and bytes(got) == body


async def test_the_end_between_frames_is_not_an_error(wire: Wire) -> None:
    await wire.send(frame(b"last"))
    wire.client.shutdown(socket.SHUT_WR)
    first = await wire.reader.next_frame()
    assert first is not None and bytes(first) == b"last"
    assert await wire.reader.next_frame() is None


@pytest.mark.parametrize("cut", [1, 4, 6])
async def test_the_end_inside_a_frame_is_an_error(wire: Wire, cut: int) -> None:
    await wire.send(frame(b"body")[:cut])
    wire.client.shutdown(socket.SHUT_WR)
    with pytest.raises(trio.BrokenResourceError, match="inside a frame"):
        await wire.reader.next_frame()


@pytest.mark.parametrize("size", [-1, (4 << 20) + 1, 2**31 - 1, -(2**31)])
async def test_an_impossible_size_is_refused_before_memory_is_used(
    wire: Wire, memory: RequestMemory, size: int
) -> None:
    await wire.send(struct.pack(">i", size))
    with pytest.raises(ProtocolError, match=str(size)):
        await wire.reader.next_frame()
    assert memory.used_bytes == 0


async def test_a_large_buffer_is_freed_after_its_frame(wire: Wire, memory: RequestMemory) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, frame(bytes(RETAINED_BUFFER_BYTES + 1)) + frame(b"small"))
        await wire.reader.next_frame()
        assert memory.used_bytes > RETAINED_BUFFER_BYTES
        second = await wire.reader.next_frame()
    assert second is not None and bytes(second) == b"small"
    await wire.send(frame(b""))
    await wire.reader.next_frame()
    assert memory.used_bytes == 0


async def test_a_normal_buffer_is_kept_until_memory_is_short(wire: Wire, memory: RequestMemory) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, frame(bytes(1 << 20)))
        await wire.reader.next_frame()
    assert memory.used_bytes > 1 << 20
    wire.reader.shrink()
    assert memory.used_bytes > 1 << 20  # the frame is in use
    wire.reader.release()
    wire.reader.shrink()
    assert memory.used_bytes == 0
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


@pytest.mark.parametrize("come_bytes", [0, 1, INITIAL_BUFFER_BYTES - 5, INITIAL_BUFFER_BYTES - 4, 60_000, 200_000])
async def test_a_partly_read_frame_may_return_excess_memory(wire: Wire, memory: RequestMemory, come_bytes: int) -> None:
    body = bytes(range(250)) * 1200
    async with trio.open_nursery() as nursery:
        got: list[bytes] = []

        async def receive() -> None:
            view = await wire.reader.next_frame()
            assert view is not None
            got.append(bytes(view))

        nursery.start_soon(receive)
        await wire.send(frame(body)[: 4 + come_bytes])
        wire.reader.shrink()
        assert memory.used_bytes <= max(0, 2 * come_bytes, STEP_BYTES_MIN * (come_bytes >= INITIAL_BUFFER_BYTES - 4))
        await wire.send(frame(body)[4 + come_bytes :])
    assert got == [body]


# Memory


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def receive_all(wire: Wire) -> None:
    """Take frames until the connection ends, and close it, as a connection does."""
    try:
        while await wire.reader.next_frame() is not None:
            pass
    except trio.BrokenResourceError:
        pass
    finally:
        wire.reader.close()


@pytest.mark.parametrize("come_bytes", [0, 8, 100, 20_000, 70_000, 3_000_000])
async def test_an_announced_frame_uses_no_memory_before_its_bytes_arrive(come_bytes: int) -> None:
    memory = RequestMemory(512 << 20)
    wire = Wire(100 << 20, memory)
    with wire.client, wire.server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_all, wire)
            await wire.send(struct.pack(">i", 100 << 20) + bytes(come_bytes))
            await trio.testing.wait_all_tasks_blocked()
            assert memory.used_bytes <= max(STEP_BYTES_MIN, min(2 * come_bytes, come_bytes + HUGE_PAGE_BYTES))
            wire.client.shutdown(socket.SHUT_WR)
    assert memory.used_bytes == 0


async def test_connections_that_announce_and_disconnect_keep_no_memory() -> None:
    """No memory waits for the cycle collector, which counts objects, not bytes."""
    memory, kept = RequestMemory(512 << 20), []
    gc.disable()
    try:
        before_bytes = resident_bytes()
        for _ in range(20):
            wire = Wire(100 << 20, memory)
            kept.append(wire.reader)
            with wire.client, wire.server:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(receive_all, wire)
                    await wire.send(struct.pack(">i", 100 << 20) + bytes(4_000_000))
                    wire.client.shutdown(socket.SHUT_WR)
        assert resident_bytes() - before_bytes < 16 << 20
    finally:
        gc.enable()
    assert memory.used_bytes == 0


async def test_other_tasks_run_while_a_large_frame_is_read() -> None:
    """A client that sends as fast as the broker reads never makes a read wait."""
    memory = RequestMemory(512 << 20)
    wire = Wire(100 << 20, memory)
    turns = 0

    def send_blocking() -> None:
        wire.client.setblocking(True)
        wire.client.sendall(frame(bytes(32 << 20)))

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    with wire.client, wire.server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, send_blocking)
            nursery.start_soon(count_turns)
            assert await wire.reader.next_frame() is not None
            nursery.cancel_scope.cancel()
    assert turns > 12


def _memory_bytes() -> tuple[int, int]:
    """Return the sizes of the process's address space, and of the part that is in memory."""
    with open("/proc/self/statm") as file:
        size, resident, *_ = map(int, file.read().split())
    return size * resource.getpagesize(), resident * resource.getpagesize()


@asks_linux
async def test_a_connection_whose_frames_come_whole_has_no_buffer(wire: Wire, memory: RequestMemory) -> None:
    shared, readers = memoryview(bytearray(INITIAL_BUFFER_BYTES)), []
    before, _ = _memory_bytes()
    for _ in range(1_000):
        readers.append(FrameReader(wire.transport, 4 << 20, memory, "somewhere", wire.given_up.append))
        await wire.send(frame(b"whole"))
        got = readers[-1].frame_now(shared)
        assert got is not None and bytes(got) == b"whole"
    assert _memory_bytes()[0] - before < 4 << 20


@asks_linux
async def test_the_first_buffers_of_many_connections_are_freed_with_them(memory: RequestMemory) -> None:
    wire = Wire(4 << 20, memory)
    pinned = []
    _, before = _memory_bytes()
    readers = []
    for _ in range(2_000):
        reader = FrameReader(wire.transport, 4 << 20, memory, "somewhere", wire.given_up.append)
        await wire.send(frame(bytes(INITIAL_BUFFER_BYTES - 4)))
        await reader.next_frame()
        readers.append(reader)
        pinned.append(bytearray(1_000))  # objects that survive between them on the heap
    for reader in readers:
        reader.close()
    readers.clear()

    assert _memory_bytes()[1] - before < 16 << 20
    wire.client.close()
    wire.server.close()
