"""Client quotas of Ottla and of Apache Kafka: the same requests, the same answers and the same waits."""

import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from .asking import Side, alteration, question
from .throttling import RECORD_BYTES, Seen, Throttling
from .users import compare_users, secured

REQUESTS, REQUESTS_QUICK = 4_000, 200
PER_CHECK = 200
TRIES = 20
TOLD_TOLERANCE, TOLD_TOLERANCE_MS = 0.1, 250
"""The allowed difference of throttle times, as a share and in ms: samples begin when requests arrive."""
MUTE_SLACK_MS = 30
PRODUCED_A_SECOND = 20_700
"""A rate that the first request above the quota exceeds by far: its share of a sample differs from run to run."""
OVERRIDES = {"auto.create.topics.enable": "false"}


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    with ExitStack() as stack:
        brokers = [stack.enter_context(kind(overrides=OVERRIDES)) for kind in (OttlaProcess, ApacheKafkaProcess)]
        addresses = [broker.bootstrap for broker in brokers]
        sides = [Side(address) for address in addresses]
        answers(suite, sides, REQUESTS_QUICK if options.quick else REQUESTS)
        for side in sides:
            side.clear()
        waits(suite, [Throttling(address) for address in addresses], quick=options.quick)
    with secured(OVERRIDES) as both:
        compare_users(suite, both, TOLD_TOLERANCE, TOLD_TOLERANCE_MS, quick=options.quick)


def answers(suite: Suite, sides: list[Side], requests: int) -> None:
    rng = random.Random(1)
    differences = 0
    codes = set()
    for number in range(1, requests + 1):
        request, version = (alteration if rng.random() < 0.6 else question)(rng), rng.choice([0, 1])
        ours, theirs = (side.ask(request, version) for side in sides)
        codes |= {code for code in ("INVALID_REQUEST", "UNSUPPORTED_VERSION", "NONE") if code in repr(theirs)}
        tries = TRIES
        while ours != theirs and tries and not isinstance(request, AlterClientQuotasRequest):
            # Apache Kafka's broker learns a moment later of what its controller has answered.
            tries -= 1
            time.sleep(0.05)
            theirs = sides[1].ask(request, version)
        if ours != theirs:
            differences += 1
            suite.check(f"request {number}, version {version}: {request}", False, f"{theirs} became {ours}")
        if number % PER_CHECK == 0:
            suite.check(f"requests {number - PER_CHECK + 1} to {number}", differences == 0)
            differences = 0
    suite.note(f"answers: {', '.join(sorted(codes))}")


def waits(suite: Suite, sides: list[Throttling], *, quick: bool) -> None:
    """Run both sides at once, as they mostly wait."""

    def each(wanted: Callable[[Throttling], Seen]) -> tuple[Seen, Seen]:
        with ThreadPoolExecutor(len(sides)) as threads:
            ours, theirs = threads.map(wanted, sides)
        return ours, theirs

    for side in sides:
        side.set("p", producer_byte_rate=PRODUCED_A_SECOND)
        side.set("c", consumer_byte_rate=5 * RECORD_BYTES)
        side.set("m", controller_mutation_rate=2.0)
        side.set("old", controller_mutation_rate=2.0)
    for version in (12,) if quick else (12, 3):
        told = each(lambda side, version=version: side.produced("p", 30, version=version))  # type: ignore[misc]
        compare(suite, f"produce, version {version}", *told)
    suite.equal("requests of another client id wait for nothing", *(side.produced("q", 5).told for side in sides))
    compare(suite, "fetch", *each(lambda side: side.fetched("c", 40, 4)))
    numbers = [10, 10, 5, 3, 1]
    compare(suite, "topics made, strict", *each(lambda side: side.mutated("m", numbers, version=7)))
    told = each(lambda side: side.mutated("old", numbers, version=5))
    compare(suite, "topics made, by a version that does not know the error", *told)
    compare(suite, "topics deleted", *each(lambda side: side.deleted("m", ["m-0", "m-1"], version=6)))
    for side in sides:
        side.set("p", producer_byte_rate=None)
    suite.equal("nothing is waited for without the quota", *(side.produced("p", 5).told for side in sides))


def compare(suite: Suite, what: str, ours: Seen, theirs: Seen) -> None:
    suite.equal(f"{what}: what else answers say", theirs.other, ours.other)
    suite.equal(f"{what}: which answers are throttled", [t > 0 for t in theirs.told], [t > 0 for t in ours.told])
    far = [
        (at, a, b)
        for at, (a, b) in enumerate(zip(theirs.told, ours.told, strict=True))
        if abs(a - b) > max(TOLD_TOLERANCE * a, TOLD_TOLERANCE_MS)
    ]
    suite.check(f"{what}: throttle times", not far, far or f"{sum(theirs.told)} ms there, {sum(ours.told)} ms here")
    for seen, whose in ((theirs, "Apache Kafka"), (ours, "Ottla")):
        early = [
            (at, told, took)
            for at, (told, took) in enumerate(zip(seen.told, seen.took[1:], strict=False))
            if took < told - MUTE_SLACK_MS
        ]
        suite.check(f"{what}: {whose} takes no request before the time is over", not early, early or "")


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.quotas", body, doc=__doc__))
