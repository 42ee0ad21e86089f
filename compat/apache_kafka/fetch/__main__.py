"""Fetches of Ottla and of Apache Kafka: the same records, the same answers, after the same time.

Both brokers have the same batches in the same segments and get the requests at the same moment. The suite compares error codes,
offsets, aborted transactions, the bytes of whole batches of every partition, and the time: a difference of more than 20 ms is
measured again, and the median counts.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Protocol, TypeVar

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from . import cases, events, reading
from .asking import Ask, Side

MAX_DIFFERENCE_MS = 20
ROUNDS = 5
ONE_QUICK, SEVERAL, SEVERAL_QUICK, SESSIONS, SESSIONS_QUICK = 100, 400, 40, 40, 5
SESSION_STEPS = 12
READING_SLACK_S = 1.0
OVERRIDES = {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "2",
    "log.cleaner.enable": "false",
}

T = TypeVar("T")


class Both(Protocol):
    """Does the same to Ottla and to Apache Kafka at the same time."""

    def __call__(self, do: Callable[[Side], T]) -> tuple[T, T]: ...


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    rng = random.Random(13)
    with both_brokers() as (ottla, kafka, both):
        one, several = [*cases.one_partition()], SEVERAL_QUICK if options.quick else SEVERAL
        asks = {
            "one partition": rng.sample(one, ONE_QUICK) if options.quick else one,
            "limits and versions": [*cases.limits()],
            "errors": [*cases.errors()],
            "several partitions": [*islice(cases.several(rng), several)],
        }
        if options.quick:
            asks |= {name: rng.sample(asks[name], 30) for name in ("limits and versions", "errors")}
        for name, wanted in asks.items():
            compare(suite, name, wanted, both)
        sessions(suite, rng, SESSIONS_QUICK if options.quick else SESSIONS, ottla, kafka, both)
        while_waiting(suite, 1 if options.quick else 3, both)
        read_by_librdkafka(suite, options.quick, ottla, kafka, both)


@contextmanager
def both_brokers() -> Iterator[tuple[Side, Side, Both]]:
    with ExitStack() as stack:
        brokers = OttlaProcess(overrides=OVERRIDES), ApacheKafkaProcess(overrides=OVERRIDES, heap="512m")
        ottla, kafka = (Side(stack.enter_context(broker).bootstrap) for broker in brokers)
        stack.callback(ottla.close)
        stack.callback(kafka.close)
        pool = stack.enter_context(ThreadPoolExecutor(2))

        def both(do: Callable[[Side], T]) -> tuple[T, T]:
            ours, theirs = pool.submit(do, ottla), pool.submit(do, kafka)
            return ours.result(), theirs.result()

        for _ in pool.map(cases.fill, (ottla, kafka)):
            pass
        yield ottla, kafka, both


def compare(suite: Suite, name: str, asks: Iterable[Ask], both: Both) -> None:
    """Compare every fetch once, and again if the times differ."""
    count: Counter[str] = Counter()
    differences_ms: list[float] = []
    for ask in asks:
        (ours, ours_ms), (theirs, theirs_ms) = both(lambda side: side.ask(ask))  # noqa: B023
        if cases.differs_on_purpose(ask):
            count["on purpose"] += 1
            if ours != theirs:
                suite.check(f"{name}: {ask}", False, f"{theirs} became {ours}")
            count["of them later"] += ours_ms - theirs_ms > MAX_DIFFERENCE_MS
            continue
        count["asked"] += 1
        if ours != theirs:
            count["different"] += 1
            suite.check(f"{name}: {ask}", False, f"{theirs} became {ours}")
            continue
        difference_ms = ours_ms - theirs_ms
        if abs(difference_ms) > MAX_DIFFERENCE_MS:
            again = [both(lambda side: side.ask(ask)) for _ in range(ROUNDS)]  # noqa: B023
            ours_ms, theirs_ms = (statistics.median(pair[at][1] for pair in again) for at in (0, 1))
            difference_ms = ours_ms - theirs_ms
        differences_ms.append(difference_ms)
        count["waited"] += theirs_ms >= ask.wait_ms > 0
        # Earlier is no fault where both answer at once: what Apache Kafka does for the first time takes it longer.
        if difference_ms > MAX_DIFFERENCE_MS or (ours_ms >= ask.wait_ms) != (theirs_ms >= ask.wait_ms):
            count["other times"] += 1
            suite.check(f"{name}: {ask}", False, f"{theirs_ms:.0f} ms became {ours_ms:.0f} ms")
    suite.check(
        f"{name}: the same answers", count["different"] == 0, f"{count['asked']}, of them waited {count['waited']}"
    )
    suite.check(f"{name}: after the same time", count["other times"] == 0, spread(differences_ms))
    if count["on purpose"]:
        suite.check(
            f"{name}: only Ottla waits after the last stable offset",
            count["of them later"] > 0,
            f"{count['of them later']} of {count['on purpose']}",
        )


def spread(differences_ms: list[float]) -> str:
    least, most = min(differences_ms), max(differences_ms)
    return f"Ottla {statistics.median(differences_ms):+.1f} ms in the median, from {least:+.1f} to {most:+.1f}"


def sessions(suite: Suite, rng: random.Random, count: int, ottla: Side, kafka: Side, both: Both) -> None:
    """Compare sessions.

    A session changes with each fetch, so no fetch can be repeated: only whether both waited is compared.
    """
    different = other_times = asked = 0
    differences_ms: list[float] = []
    for _ in range(count):
        for side in (ottla, kafka):
            side.open_session()
        for ask in cases.session(rng, SESSION_STEPS):
            asked += 1
            (ours, ours_ms), (theirs, theirs_ms) = both(lambda side: side.ask(ask))  # noqa: B023
            differences_ms.append(ours_ms - theirs_ms)
            if ours != theirs:
                different += 1
                suite.check(f"sessions: {ask}", False, f"{theirs} became {ours}")
            if (ours_ms >= ask.wait_ms) != (theirs_ms >= ask.wait_ms):
                other_times += 1
                suite.check(f"sessions: {ask}", False, f"{theirs_ms:.0f} ms became {ours_ms:.0f} ms")
    for side in (ottla, kafka):
        side.leave_session()
    suite.check(f"sessions: {count} with the same answers", different == 0, f"{asked} fetches")
    suite.check("sessions: after the same time", other_times == 0, spread(differences_ms))
    middle_ms = statistics.median(differences_ms)
    suite.check("sessions: the times in the median", abs(middle_ms) <= MAX_DIFFERENCE_MS, f"{middle_ms:+.1f} ms")


def while_waiting(suite: Suite, rounds: int, both: Both) -> None:
    """Compare each event `rounds` times, and again if the times differ."""
    for number, (name, event) in enumerate(events.EVENTS.items()):
        ours_ms: list[float] = []
        theirs_ms: list[float] = []
        while not ours_ms or (len(ours_ms) < ROUNDS and not alike(ours_ms, theirs_ms)):
            for _ in range(rounds if not ours_ms else ROUNDS):
                topic = f"event-{number}-{len(ours_ms)}"
                (ours, our_ms), (theirs, their_ms) = both(lambda side: events.run(side, event, topic))  # noqa: B023
                ours_ms.append(our_ms)
                theirs_ms.append(their_ms)
                if ours != theirs:
                    suite.check(f"while it waits, {name}: the same answer", False, f"{theirs} became {ours}")
        our_ms, their_ms = statistics.median(ours_ms), statistics.median(theirs_ms)
        same = alike(ours_ms, theirs_ms)
        suite.check(f"while it waits, {name}", same, f"Apache Kafka {their_ms:.0f} ms, Ottla {our_ms:.0f} ms")


def alike(ours_ms: list[float], theirs_ms: list[float]) -> bool:
    """Return whether the event ended both waits or neither, and Ottla's not later: Apache Kafka works on after its answers."""
    our_ms, their_ms = statistics.median(ours_ms), statistics.median(theirs_ms)
    return our_ms - their_ms <= MAX_DIFFERENCE_MS and (our_ms >= events.IN_VAIN_MS) == (their_ms >= events.IN_VAIN_MS)


def read_by_librdkafka(suite: Suite, quick: bool, ottla: Side, kafka: Side, both: Both) -> None:
    both(reading.fill)
    for name, wanted in reading.READINGS.items():
        rounds = 1 if quick else 3
        ours_s, theirs_s = (
            min(reading.seconds(side.bootstrap, wanted) for _ in range(rounds)) for side in (ottla, kafka)
        )
        suite.check(
            f"librdkafka reads {name}",
            ours_s <= theirs_s + READING_SLACK_S,
            f"Apache Kafka {theirs_s:.2f} s, Ottla {ours_s:.2f} s",
        )


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.fetch", body, doc=__doc__))
