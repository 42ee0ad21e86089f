"""The cost of an authorization decision, and of a change of ACLs, with few and with 100 000 entries.

Decisions are measured in this process, without a broker. Changes are measured in a broker: of an ACL, of a SCRAM user and of a
quota, each with the maximum number of entries. The suite also measures how long each change holds the Trio thread. Then a start
with all entries.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

import trio

from ottla.protocol.scram import ITERATIONS_MIN, SCRAM_SHA_256, ScramCredential
from ottla.server.broker.broker import Broker
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.options.security_options import STANDARD
from ottla.server.config.static_config import static_config
from ottla.server.quotas.entities import USER, Entity
from ottla.server.quotas.validation import PRODUCER_BYTE_RATE, Alteration
from ottla.server.security.acls.acl import Acl
from ottla.server.security.acls.authorizer import Authorizer
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ottla.server.security.principal import Principal
from ottla.storage.steps import to_the_end

from ...support.clients.pinger import Processors, waited_for_others
from ...support.suite import NotRunError, Options, Suite, run_suite

ALICE, HOST = Principal("User", "alice"), "10.0.0.1"
CACHED_BOUND_US, HELD_BOUND_MS = 2.0, 20.0
SWITCH_INTERVAL_S = 0.0005
"""`ottla serve` has the same value."""
AT_ONCE = 5_000
OTHERS = 10_000
"""The numbers of SCRAM users and of quotas: the maximum."""


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to look into its own process")
    many = 10_000 if options.quick else 100_000
    for count in (10, many):
        made = Authorizer()
        for number in range(count):
            made.add(entry(number))
        cached = us(lambda made=made: made.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "t5"), 200_000)  # type: ignore[misc]
        names = [f"t{number}-x" for number in range(20_000)]
        begun_s = time.thread_time()
        for name in names:
            made.decide(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, name)
        anew = (time.thread_time() - begun_s) / len(names) * 1e6
        made.add(entry(count))  # everything is forgotten
        begun_s = time.perf_counter()
        to_the_end(made.allows_any(ALICE, HOST, AclOperation.WRITE, ResourceType.TOPIC))
        any_ms = (time.perf_counter() - begun_s) * 1e3
        suite.note(f"{count} entries: cached {cached:.2f} us, anew {anew:.2f} us, of any topic anew {any_ms:.2f} ms")
        suite.check(
            f"a cached decision below {CACHED_BOUND_US} us with {count} entries",
            cached < CACHED_BOUND_US,
            f"{cached:.2f}",
        )
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    trio.run(changes, suite, many)


def entry(number: int) -> Acl:
    """Return ACL `number` of 100 000: literal names and prefixes of four lengths, a hundred principals, some denials."""
    return Acl(
        ResourceType.TOPIC,
        f"t{number}",
        PatternType.PREFIXED if number % 3 == 0 else PatternType.LITERAL,
        f"User:u{number % 100}" if number % 10 else "User:alice",
        "*",
        AclOperation.READ,
        Permission.DENY if number % 50 == 7 else Permission.ALLOW,
    )


async def changes(suite: Suite, many: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        flags = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory, "authorizer.class.name": STANDARD}
        static = static_config(profile="dev", flags=flags)
        async with run_supervisor(static) as supervisor, trio.open_nursery() as nursery:
            broker = supervisor.broker
            acl_changes = broker.services.acl_changes
            assert acl_changes is not None
            held: list[float] = []
            nursery.start_soon(broker.collector.run)  # as in a process of its own
            nursery.start_soon(beat, held)
            for begin in range(0, many, AT_ONCE):
                await acl_changes.create([entry(number) for number in range(begin, begin + AT_ONCE)])
            await broker.services.scram_changes.alter(
                (), {f"u{number}": credentials(number) for number in range(OTHERS)}
            )
            await broker.services.quota_changes.alter([quota(number) for number in range(OTHERS)])
            for what, change in one_more(broker, many).items():
                await trio.sleep(0.2)
                held.clear()
                begun_s = time.perf_counter()
                await change()
                took_ms = (time.perf_counter() - begun_s) * 1e3
                await trio.sleep(0.01)
                suite.note(f"{what}: {took_ms:.0f} ms; Trio's thread was late by {max(held):.1f} ms at most")
                suite.check(
                    f"{what} holds Trio's thread below {HELD_BOUND_MS} ms",
                    max(held) < HELD_BOUND_MS,
                    f"{max(held):.1f} ms",
                )
            nursery.cancel_scope.cancel()
        begun_s = time.process_time()
        async with run_supervisor(static):
            took_s = time.process_time() - begun_s
        suite.note(f"a start with {many} entries, {OTHERS} users of SCRAM and {OTHERS} quotas: {took_s:.2f} s of CPU")


def one_more(broker: Broker, many: int) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return changes of one item among many."""
    services = broker.services
    acl_changes = services.acl_changes
    assert acl_changes is not None
    changed = {f"u{OTHERS - 1}": credentials(OTHERS)}
    return {
        f"one entry more beside {many}": lambda: acl_changes.create([entry(many)]),
        f"another password beside {OTHERS}": lambda: services.scram_changes.alter((), changed),
        f"one quota more beside {OTHERS}": lambda: services.quota_changes.alter([quota(OTHERS)]),
    }


def credentials(number: int) -> dict[str, ScramCredential]:
    key = number.to_bytes(32)
    return {SCRAM_SHA_256: ScramCredential(key, key, key, ITERATIONS_MIN)}


def quota(number: int) -> Alteration:
    return Alteration(Entity.from_parts({USER: f"u{number}"}), ((PRODUCER_BYTE_RATE, 1e6 + number),))


async def beat(held: list[float]) -> None:
    """Note, in milliseconds, how late each millisecond is, without the time in which other programs had the processors."""
    processors = Processors(os.getpid())
    while True:
        before, begun_s = processors.read(), time.perf_counter()
        await trio.sleep(0.001)
        late_s = time.perf_counter() - begun_s - 0.001
        held.append((late_s - waited_for_others(before, processors.read())) * 1e3)


def us(work: Callable[[], object], times: int) -> float:
    """Return the microseconds of CPU of one call."""
    work()
    begun_s = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - begun_s) / times * 1e6


def arguments(_: argparse.ArgumentParser) -> None:
    """Add no arguments: this suite has none of its own."""


if __name__ == "__main__":
    sys.exit(run_suite("bench.acls", body, doc=__doc__, more_arguments=arguments))
