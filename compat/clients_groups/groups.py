"""Scenarios of groups, the same for every client and both group protocols."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka

from ..support.brokers.process import Broker
from ..support.clients.steps import admin, create_topic
from ..support.suite import Suite
from .members import MEMBERS, SESSION_MS, Member, eventually

PARTITIONS = 6
RECORDS = 60
ALL = set(range(PARTITIONS))
FENCED = ("FENCED_INSTANCE_ID", "FencedInstanceIdError", "FencedInstanceId", "UNRELEASED_INSTANCE_ID", "_FATAL")
numbers = itertools.count(1)


class Group:
    """A topic and a group of its own, whose members are of one client and protocol; leaving the context stops them."""

    def __init__(self, broker: Broker, kind: type[Member], protocol: str, incremental: bool) -> None:
        self.broker, self.kind, self.protocol, self.incremental = broker, kind, protocol, incremental
        self.name = f"{kind.client}-{protocol}-{next(numbers)}"
        self.members: list[Member] = []
        create_topic(broker.bootstrap, self.name, partitions=PARTITIONS)

    def join(self, instance: str | None = None, protocol: str | None = None) -> Member:
        self.members.append(
            self.kind(
                self.broker.bootstrap,
                self.name,
                self.name,
                protocol=protocol or self.protocol,
                instance=instance,
                incremental=self.incremental,
            )
        )
        return self.members[-1]

    def member_ids(self) -> dict[str, set[int]]:
        """Return member id -> partitions, as the broker describes the group."""
        client = admin(self.broker.bootstrap)  # kept: a collected client never delivers its answers
        (found,) = client.describe_consumer_groups([self.name]).values()
        return {
            member.member_id: {partition.partition for partition in member.assignment.topic_partitions}
            for member in found.result(30).members
        }


@contextmanager
def group(broker: Broker, kind: type[Member], protocol: str, *, incremental: bool = False) -> Iterator[Group]:
    found = Group(broker, kind, protocol, incremental)
    try:
        yield found
    finally:
        for member in found.members:
            member.stop()


def share(*members: Member) -> Callable[[], bool]:
    """Return whether the members own all partitions between them, none twice, and each at least one."""
    return lambda: (
        all(member.owned for member in members)
        and sorted(partition for member in members for partition in member.owned) == sorted(ALL)
    )


class FirstTry(Suite):
    """Keeps to itself what it would print."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lines: list[str] = []

    def _print(self, line: str) -> None:
        self.lines.append(line)


def play(
    scenario: Callable[..., None], suite: Suite, broker: Broker, kind: type[Member], *rest: str, **how: bool
) -> None:
    """Play a scenario with a client; one that has races of its own may retry once."""
    if kind.has_races:
        first = FirstTry(suite.name)
        scenario(first, broker, kind, *rest, **how)
        if first.failed:
            suite.note(f"once more: {next(line for line in first.lines if line.startswith('FAIL'))}")
        else:
            for line in first.lines:
                suite.check(line.removeprefix("ok  ").strip(), True)
            return
    scenario(suite, broker, kind, *rest, **how)


def judge_groups(suite: Suite, broker: Broker, *, quick: bool) -> None:
    """Run every scenario with every client; with `quick` no scenario waits for a session to expire."""
    for kind in MEMBERS:
        for protocol in kind.protocols:
            what = f"{kind.client}, {protocol} protocol"
            play(members_come_and_go, suite, broker, kind, protocol, what)
            if protocol == "consumer" or kind.cooperates:
                play(kept_partitions_stay, suite, broker, kind, protocol, what)
            play(static_member_returns, suite, broker, kind, protocol, what, quick=quick)
            if kind.names_itself:
                play(static_member_is_fenced, suite, broker, kind, protocol, what)
            play(positions_are_handed_over, suite, broker, kind, protocol, what)
        for before, after in itertools.permutations(kind.protocols, 2):
            play(group_changes_its_protocol, suite, broker, kind, before, after)


def members_come_and_go(suite: Suite, broker: Broker, kind: type[Member], protocol: str, what: str) -> None:
    """Check that one member owns everything, two share, three share, and the remaining ones take over."""
    with group(broker, kind, protocol) as members:
        first = members.join()
        suite.check(f"{what}: one member owns everything", eventually(share(first)), first.events)
        second, third = members.join(), members.join()
        shared = eventually(share(first, second, third))
        suite.check(f"{what}: three members share", shared, [member.owned for member in members.members])
        described = eventually(
            lambda: (
                sorted(map(sorted, members.member_ids().values()))
                == sorted(sorted(member.owned) for member in members.members)
            )
        )
        suite.check(f"{what}: the group is described like that", described, members.member_ids())
        first.stop()
        suite.check(
            f"{what}: the two remaining members take over when the first leaves", eventually(share(second, third))
        )
        suite.equal(f"{what}: no errors", [], first.errors + second.errors + third.errors)


def kept_partitions_stay(suite: Suite, broker: Broker, kind: type[Member], protocol: str, what: str) -> None:
    """Incremental rebalancing: only what another one gets is revoked."""
    with group(broker, kind, protocol, incremental=True) as members:
        first = members.join()
        suite.check(f"{what}, incremental: one owns everything", eventually(share(first)))
        second = members.join()
        suite.check(f"{what}, incremental: two share", eventually(share(first, second)), second.events)
        suite.equal(f"{what}, incremental: what was kept was never revoked", second.owned, first.taken_away())
        second.stop()
        suite.check(f"{what}, incremental: the first gets them back", eventually(share(first)), first.events)
        suite.equal(f"{what}, incremental: still nothing else was revoked", len(ALL) // 2, len(first.taken_away()))


def static_member_returns(
    suite: Suite, broker: Broker, kind: type[Member], protocol: str, what: str, *, quick: bool
) -> None:
    """Check that a static member gets its partitions back within its session, without a rebalance, and loses them later."""
    with group(broker, kind, protocol) as members:
        first, second = members.join("one"), members.join("two")
        shared = eventually(share(first, second))
        seen = [(member.events, member.errors) for member in (first, second)]
        if not suite.check(f"{what}, static: two share", shared, seen):
            return
        owned, told = set(first.owned), list(second.events)
        first.stop()
        again = members.join("one")
        suite.check(
            f"{what}, static: keeps its assignment after its return",
            eventually(lambda: again.owned == owned),
            again.events,
        )
        suite.equal(f"{what}, static: the other one noticed nothing", told, second.events)
        again.stop()
        if not quick:
            gone = eventually(share(second), 3 * SESSION_MS / 1000)
            suite.check(
                f"{what}, static: after the session timeout the remaining member owns everything", gone, second.events
            )


def static_member_is_fenced(suite: Suite, broker: Broker, kind: type[Member], protocol: str, what: str) -> None:
    """Check that one of two static members of one name is refused: the older (classic protocol) or the newer (consumer)."""
    with group(broker, kind, protocol) as members:
        older = members.join("same")
        if not suite.check(f"{what}, fencing: one owns everything", eventually(share(older)), older.errors):
            return
        newer = members.join("same")
        refused, stays = (older, newer) if protocol == "classic" else (newer, older)
        fenced = eventually(lambda: any(error in FENCED for error in refused.errors))
        suite.check(
            f"{what}, fencing: the {'older' if refused is older else 'newer'} is refused", fenced, refused.errors
        )
        suite.check(f"{what}, fencing: the new member owns everything", eventually(share(stays)), stays.events)
        suite.equal(f"{what}, fencing: without an error", [], stays.errors)


def positions_are_handed_over(suite: Suite, broker: Broker, kind: type[Member], protocol: str, what: str) -> None:
    """Check that a leaving member commits its position and the next one continues there, so that every record is read once."""
    with group(broker, kind, protocol) as members:
        first = members.join()
        fill(broker, members.name)
        suite.check(
            f"{what}, offsets: all records are read", eventually(lambda: len(first.seen) >= RECORDS), len(first.seen)
        )
        first.stop()
        fill(broker, members.name)
        second = members.join()
        eventually(lambda: len(second.seen) >= RECORDS)
        expected = sorted((partition, offset) for partition in ALL for offset in range(2 * RECORDS // PARTITIONS))
        suite.equal(f"{what}, offsets: each record is read once", expected, sorted(first.seen + second.seen))


def fill(broker: Broker, topic: str) -> None:
    """RECORDS records, dealt out to the partitions in turn."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush(30)


def group_changes_its_protocol(suite: Suite, broker: Broker, kind: type[Member], before: str, after: str) -> None:
    """Check that members of both protocols share while they are replaced one by one."""
    what = f"{kind.client}, from {before} to {after} protocol"
    with group(broker, kind, before) as members:
        old = [members.join(), members.join()]
        suite.check(f"{what}: two old ones share", eventually(share(*old)))
        new = members.join(protocol=after)
        shared = eventually(share(*old, new))
        suite.check(f"{what}: a new one gets its share", shared, [member.owned for member in members.members])
        for member in old:
            member.stop()
        suite.check(f"{what}: it takes over when the old ones leave", eventually(share(new)), new.events)
        late = members.join(protocol=after)
        suite.check(f"{what}: and shares with another new one", eventually(share(new, late)), new.events)
        suite.equal(f"{what}: no errors", [], [error for member in members.members for error in member.errors])
