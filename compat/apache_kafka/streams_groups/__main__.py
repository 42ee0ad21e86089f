"""Streams groups of Ottla and of Apache Kafka, with the same random requests over the life of each group (KIP-1071).

Both brokers get each request and their answers are compared. StreamsGroupHeartbeat comes from members that join, stay, give up
tasks, leave, send wrong epochs, claim tasks of others, have other topologies, or ask for the end of the application.
StreamsGroupDescribe and the APIs of other kinds of groups describe it. Offsets are committed. Between these requests internal
topics are created, sources are created, expanded and deleted, configs change, members of other protocols use the same name, and
members expire, as time passes by waiting. No request is sent near a moment at which a time-out ends.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from .answers import Answer, in_short
from .asking import Side
from .comparing import Difference, compared, trips
from .configurations import KINDS, OVERRIDES
from .seen import Seen
from .steps import Beat, Pause, Step
from .topologies import TOPICS
from .topology_world import TopologyWorld
from .world import World

HEARTBEATS, HEARTBEATS_QUICK = 2_000, 40
LIFE = 100
"""The maximum number of heartbeats for one group."""
HISTORY = 16
TOPOLOGIES_ALONE = "topologies"
RUN = ""


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    rest = options.rest
    count = rest.heartbeats or (HEARTBEATS_QUICK if options.quick else HEARTBEATS)
    with both() as sides:
        for name in [rest.kind] if rest.kind else (*KINDS, TOPOLOGIES_ALONE):
            lives(suite, name, sides, count, rest.first, rest.life)


def lives(suite: Suite, name: str, sides: tuple[Side, Side], count: int, first: int, only: int | None) -> None:
    asked = beats = differ = again = tripped = 0
    number = first
    seen = Seen()
    while beats < count:
        at = number if only is None else only
        life = Life(name, at, sides, seen)
        found = life.run(min(LIFE, count - beats))
        asked, beats = asked + life.asked, beats + life.beats
        again, tripped = again + life.again, tripped + life.is_tripped
        if found is not None:
            differ += 1
            for line in life.history(HISTORY):
                suite.note(line)
            suite.check(f"{name}, life {at}, request {life.asked}: {found.step}", False, found.words())
        number += 1
        if only is not None:
            break
    suite.note(
        f"{name}: {number - first} lives, {asked} requests; Apache Kafka was asked again {again} times; {tripped} lives ended as it"
        " could not name endpoints or make topics"
    )
    for line in seen.words():
        suite.note(line)
    suite.check(f"{name}: {beats} random heartbeats", differ == 0, f"{differ} lives differ" if differ else "")


@contextmanager
def both() -> Iterator[tuple[Side, Side]]:
    """Ottla and Apache Kafka, ready."""
    with ExitStack() as stack:
        ottla = stack.enter_context(OttlaProcess(overrides=OVERRIDES))
        kafka = stack.enter_context(ApacheKafkaProcess(overrides=OVERRIDES))
        sides = tuple(stack.enter_context(closing(Side(one.bootstrap))) for one in (ottla, kafka))
        for side in sides:
            side.surroundings.prepare(TOPICS)
        yield sides[0], sides[1]


def _world(name: str, number: int) -> World | TopologyWorld:
    rng, named = random.Random(f"{name} {number}"), f"{name}-{number}{RUN}"
    return TopologyWorld(rng, named) if name == TOPOLOGIES_ALONE else World(rng, KINDS[name], named)


class Life:
    """One group from its beginning on; ends at the first difference."""

    def __init__(self, name: str, number: int, sides: tuple[Side, Side], seen: Seen) -> None:
        self._sides, self._seen = sides, seen
        self._world = _world(name, number)
        self._done: list[tuple[Step, Answer]] = []
        self.asked = self.beats = self.again = 0
        self.is_tripped = False

    def run(self, beats: int) -> Difference | None:
        while self.beats < beats and not self.is_tripped:
            self._world.times.wait(self._world.times.quiet_s(time.monotonic()))
            step = self._world.next_step()
            self.asked += 1
            self.beats += isinstance(step, Beat)
            if (found := self._ask(step)) is not None:
                return found
        return None

    def _ask(self, step: Step) -> Difference | None:
        if isinstance(step, Pause):
            self._world.times.wait(step.seconds)
            self._done.append((step, ()))
            return None
        began_s = time.monotonic()
        theirs, ours, tries = compared(step, *self._sides, is_new=self._world.is_new)
        self.again += tries
        self._seen.add(step, theirs)
        self._done.append((step, theirs))
        if ours != theirs:
            self.is_tripped = trips(step, ours, theirs)
            return None if self.is_tripped else Difference(step, theirs, ours)
        ended_s = time.monotonic()
        self._world.times.took(ended_s - began_s)
        made = self._world.told(step, ours, began_s, ended_s)
        if made:
            ottla, kafka = (side.surroundings for side in self._sides)
            ours_made = {name: ottla.appears(name) for name in made}
            try:
                theirs_made = {name: kafka.appears(name) for name in made}
            except TimeoutError:
                # It failed behind the answer, and is not tried again before two more heartbeats' time (../DIFFERENCES.md).
                self.is_tripped = True
                return None
            if ours_made != theirs_made:
                return Difference(step, (theirs_made,), (ours_made,))
            self._world.appeared(ours_made)
        return None

    def history(self, count: int) -> list[str]:
        """Return the last steps, and what Apache Kafka answered."""
        return [f"{str(step)[:500]} -> {in_short(answer)[:300]}" for step, answer in self._done[-count:]]


def more_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", choices=[*KINDS, TOPOLOGIES_ALONE], help="one kind of configuration alone")
    parser.add_argument("--life", type=int, metavar="N", help="one life alone, by its number")
    parser.add_argument("--first", type=int, metavar="N", default=0, help="the number of the first life")
    parser.add_argument("--heartbeats", type=int, metavar="N", help="how many heartbeats of each kind")


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.streams_groups", body, doc=__doc__, more_arguments=more_arguments))
