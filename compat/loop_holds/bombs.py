"""Batches of a few kilobytes that unpack to 120 MiB, from many connections at once: what the broker takes for them, and keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.compression import CODEC_NAMES, Codec
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from ..support.brokers.process import BrokerProcess
from ..support.suite import Suite
from . import blocks
from .asking import Sender, client, create_topics
from .specials import encoded, produce

MEANWHILE_BYTES_MAX, AFTERWARDS_BYTES_MAX = 128_000_000, 32_000_000
UNPACKED_BYTES, QUICK_UNPACKED_BYTES = 120 << 20, 32 << 20
MESSAGE_BYTES_MAX = 16 << 20
CONNECTIONS = 25
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
SETTLE_S, PATIENCE_S = 1.0, 30.0
SMALL_S_MAX = 1.0
"""The longest time that a small Produce may take during them, on a machine with other load."""

Make = Callable[[Codec, int], bytes]


def _one_record(codec: Codec, size_bytes: int) -> bytes:
    return blocks.much_that_unpacks(codec, size_bytes)


def _thousands(codec: Codec, size_bytes: int) -> bytes:
    value, now_ms = bytes(10_000), int(time.time() * 1000)
    return bytes(build_batch([(at, now_ms, b"k", value, ()) for at in range(size_bytes // 10_020)], codec=codec))


KINDS: dict[str, Make] = {"one record each": _one_record, "thousands of records each": _thousands}


def run(suite: Suite, broker: Callable[..., BrokerProcess], wants: Callable[[str], bool], *, quick: bool) -> None:
    """Run one broker for each kind of batch; the topics store batches unchanged, and in each codec."""
    size_bytes = QUICK_UNPACKED_BYTES if quick else UNPACKED_BYTES
    for kind, make in KINDS.items():
        if not wants(f"bombs {kind}"):
            continue
        bombs = {codec: make(codec, size_bytes) for codec in CODECS}
        with broker() as process:
            _judge(suite, process, kind, bombs)


def _judge(suite: Suite, process: BrokerProcess, kind: str, bombs: dict[Codec, bytes]) -> None:
    stored_as = {"producer": "as sent"} | {name: f"as {name}" for name in CODEC_NAMES if name != "none"}
    with client(process.bootstrap) as at:
        for name in stored_as:
            limit = {"max_message_bytes": str(MESSAGE_BYTES_MAX), "compression_type": name}
            create_topics(at, {f"bombs-{name}": CONNECTIONS}, **limit)
        create_topics(at, {"small": 1})
    small = bytes(build_batch([(0, int(time.time() * 1000), b"k", b"v", ())]))
    for _ in range(3):  # what a thread, a codec and a connection take once
        _many(process, [produce("bombs-producer", {0: small})] * CONNECTIONS)
    time.sleep(SETTLE_S)
    for name, stored in stored_as.items():
        frames = [
            produce(f"bombs-{name}", {number: bombs[CODECS[number % len(CODECS)]]}) for number in range(CONNECTIONS)
        ]
        _measure(suite, process, f"bombs of {kind}, stored {stored}", frames, small)
    one = [
        ListOffsetsTopic(
            name="bombs-producer", partitions=(ListOffsetsPartition(partition_index=number, timestamp=-3),)
        )
        for number in range(CONNECTIONS)
    ]
    searches = [encoded(ListOffsetsRequest(replica_id=-1, topics=(each,)), 7) for each in one]
    _measure(suite, process, f"searches in bombs of {kind}", searches, small)


def _measure(suite: Suite, process: BrokerProcess, name: str, frames: list[bytes], small: bytes) -> None:
    before = process.resident_bytes()
    _forget_peak(process)
    longest_s = 0.0
    with ThreadPoolExecutor(1) as pool, Sender(process.bootstrap) as beside:
        all_of_them = pool.submit(_many, process, frames)
        while not all_of_them.done():
            begun_s = time.monotonic()
            beside.ask(produce("small", {0: small}))
            longest_s = max(longest_s, time.monotonic() - begun_s)
            time.sleep(0.01)
        all_of_them.result()
    most = _peak_bytes(process)
    begun_s = time.monotonic()
    while (now := process.resident_bytes()) > before + AFTERWARDS_BYTES_MAX and time.monotonic() - begun_s < PATIENCE_S:
        time.sleep(SETTLE_S)
    suite.check(
        name,
        most - before <= MEANWHILE_BYTES_MAX and now - before <= AFTERWARDS_BYTES_MAX and longest_s <= SMALL_S_MAX,
        f"{len(frames)} connections: {before / 1e6:.0f} MB before, {most / 1e6:.0f} at most, {now / 1e6:.0f} afterwards;"
        f" a small Produce beside them took {longest_s * 1000:.0f} ms at most",
    )


def _many(process: BrokerProcess, frames: list[bytes]) -> None:
    """Send each frame on a connection of its own, at once."""
    with ThreadPoolExecutor(len(frames)) as pool:
        list(pool.map(partial(_one, process), frames))


def _one(process: BrokerProcess, frame: bytes) -> None:
    with Sender(process.bootstrap) as sender:
        sender.ask(frame)


def _forget_peak(process: BrokerProcess) -> None:
    assert process.process is not None
    Path(f"/proc/{process.process.pid}/clear_refs").write_text("5")


def _peak_bytes(process: BrokerProcess) -> int:
    assert process.process is not None
    for line in Path(f"/proc/{process.process.pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) << 10
    raise RuntimeError("the system does not say what a process took at most")
