"""Share groups of Ottla and of Apache Kafka 4.3.1, asked the same: random lives of groups (KIP-932).

Both brokers get each request and their answers are compared: ShareFetch and ShareAcknowledge of members that acquire, accept, release,
reject, renew, and say what is wrong; sessions that begin, go on, end and are unknown; heartbeats; the group's offsets described, moved
and forgotten; the states of share partitions, asked as brokers ask each other; between that records come, in transactions too, and go.
Time moves by waiting: nothing is asked near a moment at which a lock ends.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from .asking import Side
from .compacting import compacted_topic
from .comparing import Difference, compared, goes_on, trips
from .configurations import KINDS, Kind
from .steps import Fetch, Pause, Step
from .world import World

REQUESTS, REQUESTS_QUICK = 2_000, 68
RUN = ""
LIFE = 100
"""So many requests are about one group, at most."""


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    chosen = [options.rest.kind] if options.rest.kind else list(KINDS)
    for name in chosen:
        with both(KINDS[name]) as sides:
            count = options.rest.requests or (REQUESTS_QUICK if options.quick else REQUESTS)
            lives(suite, name, sides, count, options.rest.life)


def lives(suite: Suite, name: str, sides: tuple[Side, Side], count: int, only: int | None) -> None:
    asked = differ = number = again = 0
    while asked < count:
        if only is not None:
            number = only
        life = Life(KINDS[name], name, number, sides)
        found = life.run(islice(life.steps(), min(LIFE, count - asked)))
        asked += life.asked
        again += life.again
        if found is not None:
            differ += 1
            for line in life.history(16):
                suite.note(line)
            suite.check(f"{name}, life {number}, request {life.asked}: {found.step}", False, found.words())
        number += 1
        if only is not None:
            break
    suite.note(f"{name}: {number} lives; Apache Kafka was asked again {again} times")
    suite.check(f"{name}: {asked} random requests", differ == 0, f"{differ} lives differ" if differ else "")


@contextmanager
def both(kind: Kind) -> Iterator[tuple[Side, Side]]:
    """Ottla and Apache Kafka, ready."""
    with ExitStack() as stack:
        ottla = stack.enter_context(OttlaProcess(overrides=kind.overrides))
        kafka = stack.enter_context(ApacheKafkaProcess(overrides=kind.overrides))
        sides = tuple(stack.enter_context(closing(Side(one.bootstrap))) for one in (ottla, kafka))
        for side in sides:
            side.logs.create("ready", 1)
            side.logs.coordinators({"ready": 0})
            side.wait_for_states("ready")
            if kind.transactions:
                side.logs.coordinators({"ready": 1})
        if kind.transactions:
            compacted_topic(sides)
        yield sides[0], sides[1]


class Life:
    """One group from its beginning on; ends at the first difference."""

    def __init__(self, kind: Kind, name: str, number: int, sides: tuple[Side, Side]) -> None:
        self._sides = sides
        self._world = World(random.Random(f"{name} {number}"), kind, f"{name}-{number}{RUN}")
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
        for step in steps:
            takes_s = step.wait_ms / 1000 if isinstance(step, Fetch) else 0.0
            time.sleep(self._world.times.quiet_s(time.monotonic(), takes_s))
            self._done.append(step)
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                continue
            self.asked += 1
            found = self._ask(step)
            if found is not None or self._is_over:
                return found
        return None

    def _ask(self, step: Step) -> Difference | None:
        began_s = time.monotonic()
        theirs, ours, tries = compared(step, *self._sides)
        self.again += tries
        if trips(step, ours, theirs):
            self.tripped += 1
            self._is_over = not goes_on(step, ours, self._sides[1])
        elif ours != theirs:
            return Difference(step, theirs, ours)
        self._world.told(step, ours, began_s, time.monotonic())
        return None

    def history(self, count: int) -> list[str]:
        """The last steps."""
        return [str(step)[:600] for step in self._done[-count:]]


def more_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", choices=[*KINDS], help="one kind of configuration alone")
    parser.add_argument("--life", type=int, metavar="N", help="one life alone, by its number")
    parser.add_argument("--requests", type=int, metavar="N", help="how many requests of each kind")


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.share_groups", body, doc=__doc__, more_arguments=more_arguments))
