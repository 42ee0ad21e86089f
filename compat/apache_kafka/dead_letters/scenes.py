"""Scenes: what members of a share group do with the records of a topic, and the options of the group and its dead letter topic."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer, TopicPartition

from ...support.clients.share_member import ACCEPT, REJECT, RELEASE, Acquired, Said, ShareMember
from ...support.clients.steps import admin, create_topic, produce_all

GAP = 0
ENABLED = "errors.deadletterqueue.group.enable"
NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
FETCHES = 40
LOCK_S = 1.2
"""Longer than a short lock."""


@dataclass(frozen=True)
class Scene:
    """One group with its topic and its dead letter topic.

    Attributes:
        records: Records of the topic, as arguments of `Producer.produce`.
        act: What the members do.
        of_topic: Options of the dead letter topic; None: it is not created.
        of_group: Options of the group; a `{}` becomes the name of the scene.
    """

    act: Act
    records: tuple[Mapping[str, Any], ...] = ({"key": b"k", "value": b"v", "headers": [("h", b"x")]},)
    of_topic: Mapping[str, str] | None = field(default_factory=lambda: {ENABLED: "true"})
    of_group: Mapping[str, str] = field(default_factory=dict)
    of_source: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    name: str = "dlq.{}"
    partitions: int = 1
    letters: int = 1
    """Partitions of the dead letter topic."""
    settle_s: float = 1.5
    in_order: bool = True
    """Whether Apache Kafka writes the dead letters in the order of the records: it writes those of each acknowledged batch, and of
    each partition, on their own, and may have to repeat some."""


@dataclass
class Setting:
    """A scene on one broker.

    Attributes:
        java: Command that runs the Java client's program.
    """

    bootstrap: str
    scene: str
    java: tuple[str, ...]
    members: list[ShareMember] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return f"work.{self.scene}"

    @property
    def group(self) -> str:
        return f"group.{self.scene}"

    def member(self) -> ShareMember:
        made = ShareMember(self.bootstrap, self.group, self.topic)
        self.members.append(made)
        made.join()
        return made

    def fetch(self, member: ShareMember, count: int) -> list[Acquired]:
        """Fetch until `count` records were acquired. Raises TimeoutError."""
        found: list[Acquired] = []
        for _ in range(FETCHES):
            found += member.fetch({}, 100)[0]
            if sum(one.last - one.first + 1 for one in found) >= count:
                return found
        raise TimeoutError(f"{self.scene}: {found}")


Act = Callable[[Setting], None]


def say(types: list[int], count: int = 1) -> Act:
    """Acknowledge the first records with these types, in one batch."""

    def act(setting: Setting) -> None:
        member = setting.member()
        first = setting.fetch(member, count)[0].first
        refused = member.acknowledge({0: [(first, first + count - 1, types)]})
        assert not refused, refused

    return act


def each(*types: int) -> Act:
    """Acknowledge record by record, each in a batch of its own."""

    def act(setting: Setting) -> None:
        member = setting.member()
        setting.fetch(member, len(types))
        assert not member.acknowledge({0: [(at, at, [kind]) for at, kind in enumerate(types)]})

    return act


def again_and_again(times: int, last: int) -> Act:
    """Release a record with each delivery, but end the last one otherwise."""

    def act(setting: Setting) -> None:
        member = setting.member()
        for turn in range(times):
            (one,) = setting.fetch(member, 1)
            kind = last if turn == times - 1 else RELEASE
            assert not member.acknowledge({0: [(one.first, one.last, [kind])]})

    return act


def lose(times: int, count: int = 1) -> Act:
    """Lose the locks of the records."""

    def act(setting: Setting) -> None:
        member = setting.member()
        for _ in range(times):
            setting.fetch(member, count)
            time.sleep(LOCK_S)

    return act


def leave(times: int) -> Act:
    """Disconnect with the records."""

    def act(setting: Setting) -> None:
        for _ in range(times):
            member = setting.member()
            setting.fetch(member, 1)
            setting.members.remove(member)
            member.close()
            time.sleep(0.3)

    return act


def several_partitions(setting: Setting) -> None:
    member = setting.member()
    found = setting.fetch(member, 6)
    said: Said = {}
    for one in found:
        said.setdefault(one.partition, []).append((one.first, one.last, [REJECT]))
    assert not member.acknowledge(said)


def two_requests(setting: Setting) -> None:
    member = setting.member()
    setting.fetch(member, 4)
    assert not member.acknowledge({0: [(1, 1, [REJECT]), (3, 3, [REJECT])]})
    assert not member.acknowledge({0: [(0, 0, [ACCEPT]), (2, 2, [REJECT])]})


def deleted_source(setting: Setting) -> None:
    """Reject records after some of them were deleted from the log."""
    member = setting.member()
    setting.fetch(member, 3)
    client = admin(setting.bootstrap)
    for done in client.delete_records([TopicPartition(setting.topic, 0, 2)]).values():
        done.result(30)
    assert not member.acknowledge({0: [(0, 2, [REJECT])]})


def transaction(setting: Setting, value: bytes, *, commits: bool) -> None:
    """Produce a record in a transaction, and another one after it."""
    producer = Producer({"bootstrap.servers": setting.bootstrap, "transactional.id": setting.scene})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(setting.topic, value=value)
    (producer.commit_transaction if commits else producer.abort_transaction)(30)
    produce_all(setting.bootstrap, setting.topic, [{"value": b"after"}])


def aborted(setting: Setting) -> None:
    transaction(setting, b"aborted", commits=False)
    member = setting.member()
    for one in setting.fetch(member, 1):
        assert not member.acknowledge({0: [(one.first, one.last, [REJECT])]})


def lost_marker(setting: Setting) -> None:
    transaction(setting, b"in a transaction", commits=True)
    lose(2, 3)(setting)


def java(setting: Setting) -> None:
    """Do what `poison` does, with a member of the Java client."""
    command = [*setting.java, setting.bootstrap, setting.group, setting.topic]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def librdkafka(setting: Setting) -> None:
    """Run `poison`, in a process of its own: its calls block other threads."""
    command = [sys.executable, "-m", "compat.apache_kafka.dead_letters.poison"]
    command += [setting.bootstrap, setting.group, setting.topic]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def many(count: int, size: int = 1, **more: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple({"key": b"%d" % at, "value": b"x" * size, **more} for at in range(count))


SMALL = {ENABLED: "true", "max.message.bytes": "1200"}
COPIES = {COPY: "true"}
TWO = {"share.delivery.count.limit": "2"}
STORY = tuple({"key": b"%d" % at, "value": value} for at, value in enumerate((b"good", b"poison", b"slow", b"good")))
SHORT = {**TWO, "share.record.lock.duration.ms": "1000"}
# The least delivery limit is 2: a record's first delivery is never its last.
SCENES: dict[str, Scene] = {
    "reject": Scene(say([REJECT])),
    "reject-copied": Scene(say([REJECT]), of_group=COPIES),
    "null-copied": Scene(say([REJECT]), records=({"value": None},), of_group=COPIES),
    "empty-copied": Scene(say([REJECT]), records=({"key": b"", "value": b""},), of_group=COPIES),
    "accept": Scene(say([ACCEPT])),
    "gap": Scene(say([GAP])),
    "release-once": Scene(say([RELEASE]), of_group=TWO),
    "released-out": Scene(again_and_again(2, RELEASE), of_group=TWO),
    "released-out-copied": Scene(again_and_again(2, RELEASE), of_group={**TWO, **COPIES}),
    "released-then-rejected": Scene(again_and_again(2, REJECT), of_group=TWO),
    "lost-locks": Scene(lose(2), of_group=SHORT),
    "lost-locks-many": Scene(lose(2, 5), records=many(5), of_group={**SHORT, **COPIES}),
    "disconnected": Scene(leave(2), of_group=TWO),
    "range": Scene(say([REJECT], 5), records=many(5)),
    "range-copied": Scene(say([REJECT], 5), records=many(5), of_group=COPIES),
    "range-of-types": Scene(say([REJECT, ACCEPT, REJECT, GAP, REJECT], 5), records=many(5), of_group=COPIES),
    "batches": Scene(each(REJECT, ACCEPT, REJECT, RELEASE, REJECT), records=many(5)),
    "two-requests": Scene(two_requests, records=many(4), of_group=COPIES),
    "partitions": Scene(
        several_partitions,
        records=tuple({"key": b"%d" % at, "value": b"v", "partition": at % 3} for at in range(6)),
        partitions=3,
        letters=2,
        of_group=COPIES,
        in_order=False,
    ),
    "compressed": Scene(
        say([REJECT], 5),
        records=many(5, 300),
        of_group=COPIES,
        producer={"compression.type": "zstd", "linger.ms": "200"},
    ),
    "no-topic": Scene(say([REJECT]), of_topic=None),
    "not-enabled": Scene(say([REJECT]), of_topic={}),
    "wrong-prefix": Scene(say([REJECT]), name="letters.{}"),
    "no-name": Scene(say([REJECT]), name=""),
    "itself": Scene(say([REJECT]), name="work.{}", of_topic=None, of_source={ENABLED: "true"}),
    "compacted": Scene(say([REJECT]), of_topic={ENABLED: "true", "cleanup.policy": "compact"}),
    "compacted-copied": Scene(say([REJECT]), of_topic={ENABLED: "true", "cleanup.policy": "compact"}, of_group=COPIES),
    "min-isr": Scene(say([REJECT]), of_topic={ENABLED: "true", "min.insync.replicas": "2"}),
    "append-time": Scene(say([REJECT]), of_topic={ENABLED: "true", "message.timestamp.type": "LogAppendTime"}),
    "gzip-topic": Scene(
        say([REJECT], 5), records=many(5), of_topic={ENABLED: "true", "compression.type": "gzip"}, of_group=COPIES
    ),
    "too-large": Scene(
        say([REJECT], 3), records=(*many(1, 10), *many(1, 3000), *many(1, 10)), of_topic=SMALL, of_group=COPIES
    ),
    "too-large-with-headers": Scene(
        say([REJECT], 3), records=(*many(1, 10), *many(1, 1150), *many(1, 10)), of_topic=SMALL, of_group=COPIES
    ),
    "too-large-each": Scene(
        each(REJECT, REJECT, REJECT),
        records=(*many(1, 10), *many(1, 1150), *many(1, 10)),
        of_topic=SMALL,
        of_group=COPIES,
    ),
    "too-large-compressed": Scene(
        say([REJECT], 5),
        records=many(5, 500),
        of_topic=SMALL,
        of_group=COPIES,
        producer={"compression.type": "zstd", "linger.ms": "200"},
    ),
    "rounds": Scene(say([REJECT], 20), records=many(20, 100), of_topic=SMALL, of_group=COPIES),
    "rounds-without-copies": Scene(say([REJECT], 20), records=many(20, 100), of_topic=SMALL),
    "much-too-small": Scene(say([REJECT], 2), records=many(2), of_topic={ENABLED: "true", "max.message.bytes": "100"}),
    "deleted-source": Scene(deleted_source, records=many(3), of_group=COPIES),
    "aborted": Scene(aborted, records=(), of_group={**COPIES, "share.isolation.level": "read_committed"}),
    "lost-marker": Scene(lost_marker, records=(), of_group={**COPIES, **SHORT}),
    "java": Scene(java, records=STORY, of_group={**COPIES, **TWO}),
    "librdkafka": Scene(librdkafka, records=STORY, of_group={**COPIES, **TWO}),
}
MADE = {
    "made": Scene(say([REJECT]), of_topic=None, settle_s=4),
    "made-in-a-row": Scene(
        each(REJECT, REJECT, REJECT), records=many(3), of_topic=None, of_group=COPIES, settle_s=6, in_order=False
    ),
    "made-wrong-prefix": Scene(say([REJECT]), of_topic=None, name="letters.{}"),
    "made-bad-name": Scene(say([REJECT]), of_topic=None, name="dlq.a b"),
    "reject": SCENES["reject"],
}
"""Scenes with `errors.deadletterqueue.auto.create.topics.enable`."""
FIRST_VERSION = {"version-1": Scene(say([REJECT])), "version-1-out": Scene(again_and_again(2, RELEASE), of_group=TWO)}
"""Scenes with share.version 1."""


def make(bootstrap: str, name: str, scene: Scene) -> None:
    """Create the topics of a scene, and produce its records."""
    create_topic(bootstrap, f"work.{name}", partitions=scene.partitions, configs=scene.of_source)
    if scene.of_topic is not None:
        topic = scene.name.format(name) or f"dlq.{name}"
        create_topic(bootstrap, topic, partitions=scene.letters, configs=scene.of_topic)
    if scene.records:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **scene.producer})
        for record in scene.records:
            producer.produce(f"work.{name}", **({"partition": 0} | dict(record)))
        assert producer.flush(60) == 0
