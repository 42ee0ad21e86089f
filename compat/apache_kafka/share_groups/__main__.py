"""Share groups of Ottla and of Apache Kafka, with the same random requests over the life of each group (KIP-932).

Both brokers get each request and their answers are compared. ShareFetch and ShareAcknowledge come from members that acquire,
accept, release, reject, renew, and send invalid requests. Sessions begin, continue, end and are unknown. Members send
heartbeats. The group's offsets are described, altered and deleted. The states of share partitions are requested as brokers do
from each other. Between these requests records are produced, in transactions as well, and deleted. Time passes by waiting: no
request is sent near a moment at which a lock ends.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import count, islice
from threading import Lock

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from .asking import Side
from .compacting import compacted_topic, gaps
from .comparing import Difference, compared, goes_on, trips
from .configurations import KINDS, Kind
from .sayings import Ranges
from .steps import Fetch, Pause, Settled, Step
from .world import COMPACTED, World

REQUESTS, REQUESTS_QUICK = 2_000, 68
KINDS_QUICK = "committed", "limits"
"""The kinds of the quick run, most of which is Apache Kafka's start."""
LIFE = 100
"""The maximum number of steps for one group."""


def body(suite: Suite, options: Options) -> None:
    """Run the kinds side by side, each on brokers of its own: they wait more than they compute."""
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    rest = options.rest
    chosen = [rest.kind] if rest.kind else KINDS_QUICK if options.quick else KINDS
    wanted = rest.requests or (REQUESTS_QUICK if options.quick else REQUESTS)
    runs = [Run(suite, name, wanted, count(rest.first) if rest.life is None else [rest.life]) for name in chosen]
    with ThreadPoolExecutor(len(runs)) as threads:
        going = [threads.submit(run.whole, 1 if options.quick else KINDS[run.name].lanes) for run in runs]
        for run, running in zip(runs, going, strict=True):
            if (error := running.exception()) is not None:
                if isinstance(error, NotRunError):
                    raise error
                traceback.print_exception(error, file=sys.stdout)
                suite.check(f"{run.name} ran to its end", False, repr(error))


class Run:
    """The groups of one kind, several at a time.

    Args:
        wanted: The number of requests; groups that have started then run to their end.
        numbers: The groups' numbers.
    """

    _told = Lock()

    def __init__(self, suite: Suite, name: str, wanted: int, numbers: Iterable[int]) -> None:
        self.name = name
        self._suite, self._wanted = suite, wanted
        self._lock = Lock()
        self._numbers = iter(numbers)
        self._supervisor = self._asked = self._differ = self._again = self._tripped = 0

    def whole(self, lanes: int) -> None:
        with both(KINDS[self.name]) as brokers:
            with ThreadPoolExecutor(lanes) as threads:
                for running in [threads.submit(self._lane, brokers) for _ in range(lanes)]:
                    running.result()
            brokers[1].kill()  # What it would do before it stops is not needed.
        with self._told:
            tries = f"Apache Kafka was asked again {self._again} times, and tripped {self._tripped} times"
            self._suite.note(f"{self.name}: {self._supervisor} lives; {tries}")
            what = f"{self._differ} lives differ" if self._differ else ""
            self._suite.check(f"{self.name}: {self._asked} random requests", self._differ == 0, what)

    def _lane(self, brokers: Brokers) -> None:
        """Run one life after the other."""
        with ExitStack() as stack:
            ottla, kafka = (stack.enter_context(closing(Side(one.bootstrap))) for one in brokers)
            while (missing := self._wanted - self._asked) > 0 and (number := self._next()) is not None:
                life = Life(KINDS[self.name], self.name, number, (ottla, kafka))
                self._over(life, number, life.run(islice(life.steps(), min(LIFE, missing))))

    def _next(self) -> int | None:
        with self._lock:
            return next(self._numbers, None)

    def _over(self, life: Life, number: int, found: Difference | None) -> None:
        with self._lock:
            self._supervisor += 1
            self._asked += life.asked
            self._again += life.again
            self._tripped += life.tripped
            self._differ += found is not None
        if found is not None:
            with self._told:
                for line in life.history(LIFE):
                    self._suite.note(line)
                what = f"{self.name}, life {number}, request {life.asked}: {found.step}"
                self._suite.check(what, False, found.words())


Brokers = tuple[OttlaProcess, ApacheKafkaProcess]


@contextmanager
def both(kind: Kind) -> Iterator[Brokers]:
    """Ottla and Apache Kafka, ready."""
    with ExitStack() as stack:
        ottla = stack.enter_context(OttlaProcess(overrides=kind.overrides))
        kafka = stack.enter_context(ApacheKafkaProcess(overrides=kind.overrides))
        with ExitStack() as asking:
            sides = tuple(asking.enter_context(closing(Side(one.bootstrap))) for one in (ottla, kafka))
            for side in sides:
                side.logs.create("ready", 1)
                side.logs.coordinators({"ready": 0})
                side.wait_for_states("ready")
                if kind.transactions:
                    side.logs.coordinators({"ready": 1})
            if kind.transactions:
                compacted_topic(sides)
        yield ottla, kafka


class Life:
    """One group from its beginning on; ends at the first difference."""

    def __init__(self, kind: Kind, name: str, number: int, sides: tuple[Side, Side]) -> None:
        self._sides = sides
        self._world = World(random.Random(f"{name} {number}"), kind, f"{name}-{number}")
        self._gaps: Ranges = []
        self._done: list[Step] = []
        self._is_over = False
        self.asked = self.again = self.tripped = 0

    def steps(self) -> Iterator[Step]:
        while True:
            yield self._world.next_step()

    def run(self, steps: Iterable[Step]) -> Difference | None:
        for side in self._sides:
            side.forget_members()
            for topic in self._world.topics:
                side.logs.create(topic, 2)
            if self._world.has_compacted:
                side.logs.know(COMPACTED)
                self._gaps = gaps(side)
        for step in steps:
            takes_s = step.wait_ms / 1000 if isinstance(step, Fetch) else 0.0
            time.sleep(self._world.times.quiet_s(time.monotonic(), takes_s))
            self._done.append(step)
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                continue
            self.asked += not isinstance(step, Settled)
            found = self._ask(step)
            if found is not None or self._is_over:
                return found
        return None

    def _ask(self, step: Step) -> Difference | None:
        began_s = time.monotonic()
        theirs, ours, tries = compared(step, *self._sides, has_ended=self._world.times.has_ended, gaps=self._gaps)
        self.again += tries
        if trips(step, ours, theirs):
            self.tripped += 1
            self._is_over = not goes_on(step, ours, self._sides[1])
        elif ours != theirs:
            if not self._world.stumbles(step, theirs, ours):
                return Difference(step, theirs, ours)
            self.tripped += 1
            self._is_over = True
        self._world.told(step, ours, began_s, time.monotonic())
        return None

    def history(self, count: int) -> list[str]:
        """Return the last steps."""
        return [str(step)[:600] for step in self._done[-count:]]


def more_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", choices=[*KINDS], help="one kind of configuration alone")
    parser.add_argument("--life", type=int, metavar="N", help="one life alone, by its number")
    parser.add_argument("--first", type=int, metavar="N", default=0, help="the number of the first life")
    parser.add_argument("--requests", type=int, metavar="N", help="how many requests of each kind")


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.share_groups", body, doc=__doc__, more_arguments=more_arguments))
