"""What a decision about a client's right costs, and a change of the entries, with few and with 100 000 of them.

Decisions in this process, without a broker; changes in a broker, whose Trio thread is asked meanwhile how long it was held.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable

import trio

from ottla.server.broker.life import run_broker
from ottla.server.config.authorization import STANDARD
from ottla.server.config.broker_config import static_config
from ottla.server.security.acls.acl import Acl
from ottla.server.security.acls.authorizer import Authorizer
from ottla.server.security.acls.kinds import Operation, PatternType, Permission, ResourceType
from ottla.server.security.principal import Principal

from ...support.suite import NotRunError, Options, Suite, run_suite

ALICE, HOST = Principal("User", "alice"), "10.0.0.1"
CACHED_BOUND_US, HELD_BOUND_MS = 2.0, 20.0
AT_ONCE = 5_000


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to look into its own process")
    many = 10_000 if options.quick else 100_000
    for count in (10, many):
        made = Authorizer()
        for number in range(count):
            made.add(entry(number))
        cached = us(lambda made=made: made.allows(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "t5"), 200_000)  # type: ignore[misc]
        names = [f"t{number}-x" for number in range(20_000)]
        begun_s = time.perf_counter()
        for name in names:
            made.decide(ALICE, HOST, Operation.READ, ResourceType.TOPIC, name)
        anew = (time.perf_counter() - begun_s) / len(names) * 1e6
        made.add(entry(count))  # everything is forgotten
        begun_s = time.perf_counter()
        made.allows_any(ALICE, HOST, Operation.WRITE, ResourceType.TOPIC)
        any_ms = (time.perf_counter() - begun_s) * 1e3
        suite.note(f"{count} entries: cached {cached:.2f} us, anew {anew:.2f} us, of any topic anew {any_ms:.2f} ms")
        suite.check(
            f"a cached decision below {CACHED_BOUND_US} us with {count} entries",
            cached < CACHED_BOUND_US,
            f"{cached:.2f}",
        )
    trio.run(changes, suite, many)


def entry(number: int) -> Acl:
    """Of 100 000: literal names and prefixes of four lengths, a hundred principals, now and then a denial."""
    return Acl(
        ResourceType.TOPIC,
        f"t{number}",
        PatternType.PREFIXED if number % 3 == 0 else PatternType.LITERAL,
        f"User:u{number % 100}" if number % 10 else "User:alice",
        "*",
        Operation.READ,
        Permission.DENY if number % 50 == 7 else Permission.ALLOW,
    )


async def changes(suite: Suite, many: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        flags = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory, "authorizer.class.name": STANDARD}
        async with run_broker(static_config(profile="dev", flags=flags)) as broker, trio.open_nursery() as nursery:
            acl_changes = broker.services.acl_changes
            assert acl_changes is not None
            held: list[float] = []
            nursery.start_soon(beat, held)
            for begin in range(0, many, AT_ONCE):
                await acl_changes.create([entry(number) for number in range(begin, begin + AT_ONCE)])
            await trio.sleep(0.2)
            held.clear()
            begun_s = time.perf_counter()
            await acl_changes.create([entry(many)])
            took_ms = (time.perf_counter() - begun_s) * 1e3
            suite.note(
                f"one entry more beside {many}: {took_ms:.0f} ms; Trio's thread was late by {max(held):.1f} ms at most"
            )
            suite.check(
                f"a change holds Trio's thread below {HELD_BOUND_MS} ms",
                max(held) < HELD_BOUND_MS,
                f"{max(held):.1f} ms",
            )
            nursery.cancel_scope.cancel()


async def beat(held: list[float]) -> None:
    """Write down, in milliseconds, how late each millisecond is."""
    while True:
        begun_s = time.perf_counter()
        await trio.sleep(0.001)
        held.append((time.perf_counter() - begun_s) * 1e3 - 1)


def us(work: Callable[[], object], times: int) -> float:
    work()
    begun_s = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begun_s) / times * 1e6


def arguments(_: argparse.ArgumentParser) -> None:
    """None of its own."""


if __name__ == "__main__":
    sys.exit(run_suite("bench.acls", body, doc=__doc__, more_arguments=arguments))
