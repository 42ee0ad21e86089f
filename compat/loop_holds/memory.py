"""Memory that clients used is released: within 64 MB of before, a minute after they have disconnected."""

from __future__ import annotations

import random
import resource
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from ottla.protocol.apis import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest

from ..fuzz.mutate import mutate
from ..fuzz.victim import Victim
from ..support.brokers.process import BrokerProcess
from ..support.suite import Suite
from .asking import Sender, address, client, create_topics
from .shapes import SESSION_PARTITIONS, Form, Shape, forms
from .specials import InSession, encoded
from .values import Unknown, World

MORE_BYTES_MAX = 64 << 20
LOOK_S, PATIENCE_S = 1.0, 60.0
ANNOUNCED_BYTES = 100 << 20
ANNOUNCING = struct.pack(">iii", ANNOUNCED_BYTES, 0, 0)
STAYING = 6
SPARE_DESCRIPTORS = 200


def announce_and_close(process: BrokerProcess, quick: bool) -> str:
    """Open connections in turn, each of which announces 100 MB in 12 bytes and closes."""
    count = 144
    for _ in range(count):
        with socket.create_connection(address(process.bootstrap), 10) as connection:
            connection.sendall(ANNOUNCING)
            time.sleep(0.01)
    return f"{count} connections"


def announce_and_stay(process: BrokerProcess, quick: bool) -> str:
    """Open connections that announce large frames, send a third and stay; 1 MB frames of others are still answered."""
    with ExitStack() as stack:
        for _ in range(STAYING):
            connection = stack.enter_context(socket.create_connection(address(process.bootstrap), 10))
            connection.sendall(ANNOUNCING)
            connection.settimeout(1.0)
            with suppress(TimeoutError, ConnectionError):
                connection.sendall(bytes(32 << 20))
        begun_s = time.monotonic()
        with Sender(process.bootstrap) as sender:
            answered = sender.ask(Shape(Form(APIS[3], 8, ("topics",)), Unknown()).frame(100_000))
        took_s = time.monotonic() - begun_s
    if not answered or took_s > 15:
        raise AssertionError(f"a frame of 1 MB beside them: answered {answered}, after {took_s:.0f} s")
    return f"{STAYING} connections with 32 MB each; a frame of 1 MB beside them took {took_s:.1f} s"


def sessions(process: BrokerProcess, quick: bool) -> str:
    """Open fetch sessions of the maximum number of partitions in all; their clients disconnect without closing them."""
    count, each = 2 if quick else 40, SESSION_PARTITIONS
    frame = Shape(Form(APIS[1], 12, ("topics", "partitions")), InSession(World(bytes(16), 0, 0, b""))).frame(each)
    for _ in range(count):
        with Sender(process.bootstrap) as sender:
            sender.ask(frame)
    return f"{count} of {each} partitions"


def connections(process: BrokerProcess, quick: bool) -> str:
    """Many at once, each of which asks once; half of them with 20 KB, some with 200 KB."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = min(1_000 if quick else 10_000, most - SPARE_DESCRIPTORS)
    small = encoded(ApiVersionsRequest(client_software_name="holds", client_software_version="1"))
    shape = Shape(Form(APIS[3], 8, ("topics",)), Unknown())
    frames = [small, shape.frame(2_000)] * 50 + [shape.frame(20_000)]
    with ExitStack() as stack:
        senders = [stack.enter_context(Sender(process.bootstrap)) for _ in range(count)]
        for number, sender in enumerate(senders):
            sender.send(frames[number % len(frames)])
            sender.receive()
    return f"{count} of them"


def damaged_frames(process: BrokerProcess, quick: bool) -> str:
    """Damaged frames of every API, each when the one before is answered or has cost the connection."""
    count, rng = 5_000 if quick else 200_000, random.Random(9)
    frames = [Shape(form, Unknown()).frame(number) for form in forms() for number in (1, 3)]
    victim = Victim(process.bootstrap)
    for _ in range(count):
        victim.take(mutate(rng, frames))
    victim.close()
    return f"{count} of them"


SITUATIONS: dict[str, Callable[[BrokerProcess, bool], str]] = {
    "connections that announce 100 MB and close": announce_and_close,
    "connections that announce 100 MB and stay": announce_and_stay,
    "fetch sessions of many partitions": sessions,
    "many connections": connections,
    "damaged frames": damaged_frames,
}


def run(suite: Suite, broker: Callable[..., BrokerProcess], wants: Callable[[str], bool], *, quick: bool) -> None:
    for name, situation in SITUATIONS.items():
        if wants(name):
            judge(suite, broker(), name, situation, quick=quick)


def judge(
    suite: Suite, broker: BrokerProcess, name: str, situation: Callable[[BrokerProcess, bool], str], *, quick: bool
) -> None:
    with broker as process:
        with client(process.bootstrap) as at:
            create_topics(at, {"big": 10})
            at.ask(ApiVersionsRequest(client_software_name="holds", client_software_version="1"))
        time.sleep(LOOK_S)
        before = process.resident_bytes()
        form = situation(process, quick)
        begun_s, most = time.monotonic(), process.resident_bytes()
        while (now := process.resident_bytes()) > before + MORE_BYTES_MAX and time.monotonic() - begun_s < PATIENCE_S:
            time.sleep(LOOK_S)
        seconds = time.monotonic() - begun_s
        suite.check(
            f"memory comes back after {name}",
            now <= before + MORE_BYTES_MAX,
            f"{form}: {before >> 20} MiB before, {most >> 20} behind it, {now >> 20} after {seconds:.0f} s",
        )
