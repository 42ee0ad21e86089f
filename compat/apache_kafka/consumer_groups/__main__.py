"""Consumer groups of Ottla and of Apache Kafka, with the same random requests over the life of each group.

Both brokers get each request and their answers are compared: ConsumerGroupHeartbeat of dynamic and static members that join,
stay, give up partitions, leave, rejoin, send wrong epochs or claim partitions of others; subscriptions by name and by regular
expression; topics that are created, expanded and deleted; ConsumerGroupDescribe, DescribeGroups, ListGroups, DeleteGroups;
OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete. The assignor is `range`, as with `uniform` the two break ties differently. In some
groups members vote for either, and no two share a topic.
"""

import random
import sys
import time
from contextlib import ExitStack

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.suite import NotRunError, Options, Suite, run_suite
from .asking import (
    TOPICS_CHANGE_S,
    Answer,
    Beat,
    Commit,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    Look,
    Places,
    Side,
    Step,
    Topic,
    TxnCommit,
)

LIVES, LIVES_QUICK = 100, 4
STEPS = 60
OVERRIDES = {
    "group.consumer.assignors": "range,uniform",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "4",
    "offsets.topic.num.partitions": "2",
}
TOPICS = ("alpha", "beta", "gamma")
STRANGER = "stranger"
# Topics of members that vote, more than a full group has members; the last ones do not exist.
PLACES = (*TOPICS, "delta", "epsilon", "zeta")
REGEXES = ("a.*", "(alpha|gamma)", "[ab].*a", ".*", "(", "")
# How long a regular expression takes at most until Apache Kafka, which matches it in another thread, is done with it.
REGEX_S = 0.1


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    with ExitStack() as stack:
        ottla = stack.enter_context(OttlaProcess(overrides=OVERRIDES))
        kafka = stack.enter_context(ApacheKafkaProcess(overrides=OVERRIDES))
        sides = Side(ottla.bootstrap), Side(kafka.bootstrap)
        count = LIVES_QUICK if options.quick else LIVES
        for side in sides:
            side.prepare("g0")
        counts = dict.fromkeys(TOPICS, 0)
        alike = sum(life(suite, number, counts, *sides) for number in range(count))
        suite.check(f"{count} lives of {STEPS} requests", alike == count, f"{count - alike} differ")


def life(suite: Suite, number: int, counts: dict[str, int], ottla: Side, kafka: Side) -> bool:
    """Run one group from its first member on, up to the first difference."""
    world = World(random.Random(number), f"g{number}", counts)
    done: list[str] = []
    for count in range(1, STEPS + 1):
        step = world.next_step()
        ours, theirs = ottla.ask(step), kafka.ask(step)
        if ours != theirs:
            for one in done:
                suite.note(one)
            return suite.check(f"life {number}, request {count}: {step}", False, f"{theirs} became {ours}")
        done.append(f"{step} -> {ours}")
        world.answered(step, ours)
        if isinstance(step, Topic):
            time.sleep(TOPICS_CHANGE_S)
        elif world.uses_regexes:
            time.sleep(REGEX_S)
    return True


class Known:
    """A member as the world knows it."""

    def __init__(self, member: str, instance: str | None) -> None:
        self.member = member
        self.instance = instance
        self.epoch = 0
        self.given: Places = ()
        self.vote: str | None = None


class World:
    """Chooses requests that make sense, mostly."""

    def __init__(self, rng: random.Random, group: str, counts: dict[str, int]) -> None:
        self.rng = rng
        self.group = group
        self.counts = counts
        self.members: list[Known] = []
        self.names = 0
        self.uses_regexes = False
        self._may_use_regexes = rng.random() < 0.3
        self._votes = rng.random() < 0.3
        """Whether members ask for assignors. Each then has topics of its own, so that all assignors agree."""

    def next_step(self) -> Step:
        rng = self.rng
        kind = rng.choices(
            ["join", "beat", "leave", "commit", "transaction", "fetch", "delete offsets", "look", "delete", "topic"],
            (14 if self.members else 200, 50, 6, 6, 3, 3, 1, 12, 1, 2 if self.counts["alpha"] else 100),
        )[0]
        known = rng.choice(self.members) if self.members and rng.random() < 0.97 else Known(STRANGER, None)
        topic = rng.choice(TOPICS)
        match kind:
            case "join":
                return self._join(known)
            case "beat":
                return self._beat(known)
            case "leave":
                epoch = -2 if known.instance is not None and rng.random() < 0.7 else -1
                return Beat(self.group, known.member, epoch, 1, instance=known.instance)
            case "commit":
                version = rng.choice([9, 10] if self.counts[topic] else [9])
                epoch = self._some_epoch(known)
                return Commit(self.group, known.member, epoch, version, topic, rng.randrange(3))
            case "transaction":
                version = rng.choice([3, 4, 5, 6] if self.counts[topic] else [3, 4, 5])
                return TxnCommit(self.group, known.member, self._some_epoch(known), version, topic, rng.randrange(3))
            case "fetch":
                member, epoch = rng.choice([(None, -1), (known.member, self._some_epoch(known))])
                return FetchOffsets(self.group, member, epoch, topic, rng.randrange(3))
            case "delete offsets":
                return DeleteOffsets(self.group, topic, rng.randrange(3))
            case "look":
                return Look(self.group)
            case "delete":
                return DeleteGroup(self.group)
        count = self.counts[topic]
        return Topic(topic, count, 0 if count and rng.random() < 0.3 else count + rng.randint(1, 3))

    def _join(self, known: Known) -> Beat:
        rng = self.rng
        if self.members and rng.random() < 0.3:
            member, instance = known.member, known.instance if rng.random() < 0.9 else rng.choice(["i", "k"])
        else:
            self.names += 1
            while any(_slot(f"m{self.names}") == _slot(one.member) for one in self.members):
                self.names += 1
            member, instance = f"m{self.names}", rng.choice([None, None, "i", "k"])
        beat = Beat(
            self.group,
            member,
            0,
            rng.randrange(2),
            instance=instance,
            rack=rng.choice([None, None, "north"]),
            rebalance_ms=rng.choice([60_000] * 9 + [-1]),
            assignor=self._assignor(member, instance),
            owns=rng.choice([(), (), (), (), (), (), (), (), None, (("alpha", (0,)),)]),
        )
        return self._subscribed(beat)._replace(version=1 if self._may_use_regexes else rng.randrange(2))

    def _assignor(self, member: str, instance: str | None) -> str | None:
        """Return the vote of a member. All voters agree: of two assignors with as many votes Apache Kafka chooses one by the order
        of a hash table, which may change with each heartbeat."""
        if not self._votes:
            return self.rng.choice([None] * 8 + ["range", "other"])
        others = [
            one for one in self.members if one.member != member and (instance is None or one.instance != instance)
        ]
        votes = {one.vote for one in others if one.vote is not None}
        return self.rng.choice([None, *(name for name in ("range", "uniform") if votes <= {name})])

    def _subscribed(self, beat: Beat) -> Beat:
        """Return the heartbeat with names of topics, an expression, or both."""
        rng = self.rng
        if self._votes:
            return beat._replace(topics=(PLACES[_slot(beat.member)],))
        topics = tuple(rng.sample(TOPICS, rng.randint(1, 3)))
        if self._may_use_regexes and rng.random() < 0.5:
            return beat._replace(topics=rng.choice([None, topics]), regex=rng.choice(REGEXES))
        return beat._replace(topics=topics)

    def _beat(self, known: Known) -> Beat:
        rng = self.rng
        owns = rng.choice([None, known.given, known.given, known.given, (), known.given[:1], (("beta", (0, 1, 2)),)])
        beat = Beat(self.group, known.member, 0, 1, owns=owns)
        if rng.random() < 0.08:
            beat = self._subscribed(beat)
        rebalance_ms = rng.choice([-1] * 6 + [60_000])
        instance = known.instance if rng.random() < 0.95 else rng.choice(["i", None])
        if self._votes and rng.random() < 0.2:
            beat = beat._replace(assignor=self._assignor(known.member, known.instance))
        epoch = self._some_epoch(known)
        return beat._replace(epoch=epoch, instance=instance, rebalance_ms=rebalance_ms)

    def _some_epoch(self, known: Known) -> int:
        rng = self.rng
        return known.epoch if rng.random() < 0.9 else known.epoch + rng.choice([-2, -1, -1, 1])

    def answered(self, step: Step, answer: Answer) -> None:
        match step:
            case Topic(name, _, after) if answer[0] == "NONE":
                self.counts[name] = after
            case Beat():
                self._beat_answered(step, answer)

    def _beat_answered(self, step: Beat, answer: Answer) -> None:
        error, _, member, epoch, _, assignment = answer
        if error != "NONE":
            return
        self.uses_regexes = self.uses_regexes or bool(step.regex)
        known = next((one for one in self.members if one.member == member), None)
        if epoch == -1:
            self.members = [one for one in self.members if one is not known]
            return
        replaced = [one for one in self.members if one.instance is not None and one.instance == step.instance]
        if known is None:
            known = Known(member, step.instance)
        if step.epoch == 0 and replaced:
            known.vote = replaced[0].vote
        self.members = [one for one in self.members if one is not known and one not in replaced] + [known]
        known.epoch = max(epoch, 0)
        known.instance = step.instance or known.instance
        known.vote = step.assignor or known.vote
        if assignment is not None:
            known.given = assignment


def _slot(member: str) -> int:
    return len(TOPICS) if member == STRANGER else int(member[1:]) % len(PLACES)


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.consumer_groups", body, doc=__doc__))
