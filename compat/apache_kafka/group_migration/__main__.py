"""A group with members of both protocols, in Ottla and in Apache Kafka, with the same random requests.

Both brokers get each request and their answers are compared: heartbeats of the consumer protocol; JoinGroup,
SyncGroup, Heartbeat and LeaveGroup of the classic one; commits and fetches with all kinds of epochs; and admin
requests. Members are current, behind, ahead, static, fenced or unknown. Every 200 requests all members leave and the
group starts again, as a consumer group or as a classic one that is upgraded. The last classic members may see it
downgraded. The assignor is `range`, which has no ties to break.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from .asking import TIMEOUT_MS, Answer, Side
from .steps import Alive, Beat, Commit, Delete, Describe, Fetch, Join, Leave, Places, Step, Sync

STEPS, STEPS_QUICK = 8_000, 1_000
STEPS_PER_LIFE = 200
TOPICS = {"a": 4, "b": 2, "c": 1}
OVERRIDES = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignors": "range",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": str(TIMEOUT_MS),
    "group.consumer.max.session.timeout.ms": str(TIMEOUT_MS),
}


@dataclass
class Known:
    """A client's knowledge of its own membership."""

    member: str
    is_classic: bool
    instance: str | None
    epoch: int = 0
    topics: tuple[str, ...] = ("a",)
    owns: Places = ()
    past: list[int] = field(default_factory=lambda: [0])


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    with ExitStack() as stack:
        ottla = Side(stack.enter_context(OttlaProcess(overrides=OVERRIDES)).bootstrap)
        kafka = Side(stack.enter_context(ApacheKafkaProcess(overrides=OVERRIDES)).bootstrap)
        for side in (ottla, kafka):
            side.prepare(TOPICS)
        steps = STEPS_QUICK if options.quick else STEPS
        seen = set()
        for number in range(steps // STEPS_PER_LIFE):
            life = Life(number, ottla, kafka)
            life.run(suite, f"life {number}")
            seen |= life.seen
        suite.note(f"answers: {', '.join(sorted(seen))}")


class Life:
    """A group from its first member to its last."""

    def __init__(self, number: int, ottla: Side, kafka: Side) -> None:
        self.number = number
        self.rng = random.Random(number)
        self.sides = ottla, kafka
        self.members: list[Known] = []
        self.anchor: Known | None = None
        """A member of the consumer protocol that stays to the end, so that no JoinGroup is ever parked."""
        self.made = 0
        self.seen: set[str] = set()

    def run(self, suite: Suite, name: str) -> None:
        count = 0
        differences = 0
        for count, step in enumerate(self.steps(), 1):
            ours, theirs = (side.ask(step) for side in self.sides)
            self.seen.add(ours[0])
            if ours != theirs:
                differences += 1
                suite.check(f"{name}, request {count}: {step}", False, f"{theirs} became {ours}")
            self.learn(step, ours)
        suite.check(f"{name}: {count} random requests", differences == 0)

    def steps(self) -> Iterator[Step]:
        if self.rng.random() < 0.5:
            # A classic group, whose only member leads it; the anchor will upgrade it.
            first = Known(f"o{self.number}", True, "k", topics=self.subscription())
            self.members.append(first)
            yield self.joining(first)
            everything = tuple((topic, index) for topic in first.topics for index in range(TOPICS.get(topic, 0)))
            yield Sync(first.member, first.epoch, "k", None, everything)
            yield Describe()
        for _ in range(STEPS_PER_LIFE):
            yield self.step()
        for member in tuple(self.members):
            yield self.leaving(member, for_good=True)
            yield Describe()
        yield Leave(tuple(("", instance) for instance in "ijk"))
        yield Describe()

    def step(self) -> Step:
        rng = self.rng
        if self.anchor is None or len(self.members) < 2 or (len(self.members) < 6 and rng.random() < 0.06):
            return self.joining(self.newcomer())
        member = rng.choice(self.members)
        match rng.choices(["go on", "news", "odd", "leave", "offsets", "look"], (52, 8, 12, 4, 16, 8)):
            case ["go on"]:
                return self.going_on(member)
            case ["news"]:
                member.topics = self.subscription()
                return (
                    self.joining(member) if member.is_classic else self.beating(member)._replace(topics=member.topics)
                )
            case ["odd"]:
                return self.odd(member)
            case ["leave"] if member is not self.anchor:
                return self.leaving(member, for_good=rng.random() < 0.7)
            case ["offsets"]:
                return self.offsets(member)
        return Describe()

    def newcomer(self) -> Known:
        rng = self.rng
        self.made += 1
        is_classic = self.anchor is not None and rng.random() < 0.5
        instance = rng.choice([None, None, "i", "j"]) if self.anchor is not None else None
        member = Known(
            f"{'o' if is_classic else 'n'}{self.number}.{self.made}", is_classic, instance, topics=self.subscription()
        )
        self.anchor = self.anchor or member
        self.members.append(member)
        return member

    def subscription(self) -> tuple[str, ...]:
        names = [*TOPICS, "missing"]
        return tuple(sorted(self.rng.sample(names, self.rng.randint(1, 3))))

    def joining(self, member: Known) -> Step:
        if not member.is_classic:
            return self.entering(member)
        is_new_static = member.instance is not None and member.epoch == 0
        protocols = self.rng.choice([("range",), ("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",)])
        return Join(
            "" if is_new_static else member.member, member.instance, member.topics, self.claim(member), protocols
        )

    def entering(self, member: Known) -> Beat:
        return Beat(member.member, 0, member.instance, member.topics, (), is_full=True)

    def claim(self, member: Known) -> Places:
        """Return the partitions that the member claims: mostly those that it has, or fewer."""
        if self.rng.random() < 0.8:
            return member.owns
        return tuple(place for place in member.owns if self.rng.random() < 0.5)

    def going_on(self, member: Known) -> Step:
        rng = self.rng
        if member.is_classic:
            kind = rng.randrange(3)
            if kind == 0 or member.epoch == 0:
                return self.joining(member)
            of = Sync if kind == 1 else Alive
            return of(member.member, member.epoch, member.instance)
        return self.beating(member)

    def beating(self, member: Known) -> Beat:
        rng = self.rng
        if member.epoch <= 0:
            return self.entering(member)
        owns = rng.choice([None, self.claim(member)])
        is_full = owns is not None and rng.random() < 0.2
        topics = member.topics if is_full else None
        return Beat(member.member, member.epoch, member.instance, topics, owns, is_full)

    def odd(self, member: Known) -> Step:
        """Return a request with something wrong."""
        rng = self.rng
        step = self.going_on(member)
        assert isinstance(step, Join | Beat | Sync | Alive)
        if isinstance(step, Join) or (isinstance(step, Beat) and not step.epoch):
            # A member that joins under another member's name: Apache Kafka then knows it under both.
            return Leave((("nobody", None), ("", rng.choice(["x", "y"])), (member.member, "x")))
        epoch = rng.choice([*member.past[-3:], member.epoch + 1, member.epoch - 1, 0])
        match rng.randrange(4):
            case 0 if isinstance(step, Beat):
                return step._replace(epoch=epoch or 1)
            case 0 if isinstance(step, Sync | Alive):
                return step._replace(generation=epoch)
            case 1:
                return step._replace(member=rng.choice([one.member for one in self.members] + ["nobody"]))
            case 2 if isinstance(step, Sync):
                return step._replace(protocol="roundrobin")
        return step._replace(instance=rng.choice(["i", "j", "k"]))

    def leaving(self, member: Known, *, for_good: bool) -> Step:
        self.members.remove(member)
        if member.is_classic or self.rng.random() < 0.2:
            return Leave(((member.member, member.instance),))
        return Beat(member.member, -1 if for_good or member.instance is None else -2, member.instance)

    def offsets(self, member: Known) -> Step:
        rng = self.rng
        epoch = rng.choice([member.epoch, member.epoch, *member.past[-4:], member.epoch + 1, -1])
        everywhere = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        places = tuple(rng.sample(everywhere, rng.randint(1, 2)))
        if member.owns and rng.random() < 0.6:
            places = (rng.choice(member.owns),)
        name = member.member if rng.random() < 0.9 else rng.choice(["nobody", ""])
        match rng.randrange(5):
            case 0:
                return Fetch(name, epoch)
            case 1:
                return Fetch(None, -1)
            case 2:
                return Delete(places)
        return Commit(name, epoch, rng.choice([None, member.instance]), places, rng.choice([8, 9, 9, 10]))

    def learn(self, step: Step, answer: Answer) -> None:
        """Update what the member that sent this step knows."""
        by_name = {member.member: member for member in self.members}
        match step, answer:
            case Beat(name, epoch), ("NONE", _, new_epoch, given) if epoch >= 0 and name in by_name:
                member = by_name[name]
                member.past.append(member.epoch)
                member.epoch = new_epoch
                if given is not None:
                    member.owns = tuple(given)
            case Beat(name), ("FENCED_MEMBER_EPOCH" | "UNKNOWN_MEMBER_ID", *_) if name in by_name:
                by_name[name].epoch, by_name[name].owns = 0, ()
            case Join(name, instance), ("NONE", generation, member_id, *_):
                joined = by_name.get(name) or next(
                    (one for one in self.members if one.is_classic and one.instance == instance and one.epoch == 0),
                    None,
                )
                if joined is not None:
                    joined.past.append(joined.epoch)
                    joined.member, joined.epoch = member_id, generation
            case Sync(name), ("NONE", _, _, given) if name in by_name:
                by_name[name].owns = tuple(given)


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.group_migration", body, doc=__doc__))
