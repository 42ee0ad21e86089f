"""Dead letters of Ottla and of Apache Kafka: the same scenes at both brokers must leave the same records (KIP-1191).

A scene is a share group, its topic, and its dead letter topic (`scenes.py`). Compared are the dead letters (partition, offset, key,
value, headers, kind of timestamp), the options of the dead letter topic, and the group's lag. Two scenes are stories of clients:
Apache Kafka's Java client, and librdkafka.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import ConfigResource, ConfigSource

from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)

from ...support.brokers.apache_kafka import ApacheKafkaProcess, jars
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.clients.jvms import SMALL
from ...support.clients.share_member import client_of, configure
from ...support.clients.steps import admin, read_partitions
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..suite.runner import compile_java
from .scenes import FIRST_VERSION, MADE, NAME, SCENES, Scene, Setting, make

HERE = Path(__file__).parent
SIDE_BY_SIDE = 8
AGE_MS_MAX = 120_000
OVERRIDES = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.delivery.count.limit": "2",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
QUICK = ("reject-copied", "released-out", "partitions", "no-topic", "java", "librdkafka")


class Kind(NamedTuple):
    """Brokers with the same options, and their scenes."""

    scenes: Mapping[str, Scene]
    overrides: Mapping[str, str] = {}
    features: Mapping[str, int] = {}


KINDS = {
    "topics that exist": Kind(SCENES),
    "topics that are created": Kind(MADE, {"errors.deadletterqueue.auto.create.topics.enable": "true"}),
    "share.version 1": Kind(FIRST_VERSION, features={"share.version": 1}),
}


class Left(NamedTuple):
    """Outcome of a scene at one broker."""

    letters: Mapping[int, list[tuple[Any, ...]]] | None
    """Partition -> dead letters; None: the topic does not exist."""
    configs: Mapping[str, str]
    lag: Mapping[int, int]
    error: str = ""


def with_copies(left: Left, values: Mapping[int, tuple[bytes | None, bytes | None]]) -> Left:
    """Return the same with other keys and values: offset of the dead letter -> both."""
    assert left.letters is not None
    return left._replace(
        letters={
            0: [(one[0], one[1], *values[one[0]], *one[4:]) if one[0] in values else one for one in left.letters[0]]
        }
    )


def without(left: Left, *offsets: int) -> Left:
    """Return the same without the dead letters of some records; the others follow each other."""
    assert left.letters is not None
    kept = [one for one in left.letters[0] if one[0] not in offsets]
    return left._replace(letters={0: [(at, *one[1:]) for at, one in enumerate(kept)]})


HEADERS_ONLY = (None, None)
DIFFERENCES: Mapping[str, tuple[str, Callable[[Left], Left]]] = {
    "too-large-with-headers": (
        "Apache Kafka loses a letter whose copy does not fit, and those after it",
        lambda ours: without(ours, 1, 2),
    ),
    "too-large-each": (
        "Apache Kafka loses a letter whose copy does not fit",
        lambda ours: without(ours, 1),
    ),
    "too-large-compressed": (
        "Apache Kafka copies nothing of a batch that unpacks to more than max.message.bytes",
        lambda ours: with_copies(ours, dict.fromkeys(range(5), HEADERS_ONLY)),
    ),
    "lost-marker": (
        "Apache Kafka copies the marker of a transaction",
        lambda ours: with_copies(ours, {1: (b"\0\0\0\1", b"\0\0\0\0\0\0")}),
    ),
}
"""Scene -> why the brokers differ, and what Apache Kafka has left, made of what Ottla has."""
DELETED = "deleted-source"
"""Scene in which Ottla writes no dead letters for records that were deleted from the log: they are finished."""


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start both brokers itself")
    for name, kind in KINDS.items():
        scenes = {each: kind.scenes[each] for each in kind.scenes if not options.quick or each in QUICK}
        if scenes and not (options.quick and kind is not KINDS["topics that exist"]):
            run_kind(suite, name, kind, scenes)


def run_kind(suite: Suite, name: str, kind: Kind, scenes: Mapping[str, Scene]) -> None:
    overrides, features = OVERRIDES | dict(kind.overrides), dict(kind.features)
    with ExitStack() as stack:
        kafka = stack.enter_context(ApacheKafkaProcess(overrides=overrides, features=features))
        ottla = stack.enter_context(OttlaProcess(overrides=overrides))
        if features:
            set_features(ottla, features)
        compile_java([HERE / "Poison.java"], jars(), ottla.work / "classes")
        java = (*SMALL, "-cp", f"{ottla.work / 'classes'}:{jars()}/*", "Poison")
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            playing = {
                each: [threads.submit(play, broker.bootstrap, each, scene, java) for broker in (kafka, ottla)]
                for each, scene in scenes.items()
            }
            for each, (theirs, ours) in playing.items():
                judge(suite, f"{name}: {each}", each, theirs.result(), ours.result())


def set_features(broker: BrokerProcess, features: Mapping[str, int]) -> None:
    from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

    updates = tuple(
        FeatureUpdateKey(feature=name, max_version_level=to, upgrade_type=2) for name, to in features.items()
    )
    client = client_of(broker.bootstrap)
    answer = client.ask(UpdateFeaturesRequest(feature_updates=updates, timeout_ms=10_000), 1)
    assert not answer.error_code, answer
    client.close()


def judge(suite: Suite, what: str, scene: str, theirs: Left, ours: Left) -> None:
    if theirs.error or ours.error:
        suite.check(what, False, f"Apache Kafka: {theirs.error or 'well'}; Ottla: {ours.error or 'well'}")
    elif scene == DELETED:
        numbers = [dict(one[-1])["__dlq.errors.offset"] for left in (theirs, ours) for one in (left.letters or {})[0]]
        suite.equal(f"{what}: Ottla writes dead letters of records that exist", [b"0", b"1", b"2", b"2"], numbers)
    elif (known := DIFFERENCES.get(scene)) is not None:
        reason, as_theirs = known
        suite.equal(f"{what}: {reason}", theirs, as_theirs(ours))
    else:
        suite.equal(what, theirs, ours)


def play(bootstrap: str, name: str, scene: Scene, java: tuple[str, ...]) -> Left:
    """Play a scene at one broker, and return what it left."""
    setting = Setting(bootstrap, name, java)
    topic = scene.name.format(name)
    client = client_of(bootstrap)
    try:
        make(bootstrap, name, scene)
        for option, value in {"share.auto.offset.reset": "earliest", **scene.of_group, NAME: topic}.items():
            configure(client, setting.group, value, option)
        scene.act(setting)
        time.sleep(scene.settle_s)
        answer = client.ask(
            DescribeShareGroupOffsetsRequest(
                groups=(DescribeShareGroupOffsetsRequestGroup(group_id=setting.group, topics=None),)
            ),
            1,
        )
        rows = [row for group in answer.groups for each in group.topics for row in each.partitions]
        letters, configs = left_in(bootstrap, topic or f"dlq.{name}", in_order=scene.in_order)
        return Left(letters, configs, {row.partition_index: row.lag for row in rows})
    except Exception as error:  # noqa: BLE001 -- the other scenes continue
        return Left(None, {}, {}, f"{error!r} {traceback.format_exc()[-300:]}")
    finally:
        for member in setting.members:
            member.close()
        client.close()


def left_in(
    bootstrap: str, topic: str, *, in_order: bool
) -> tuple[Mapping[int, list[tuple[Any, ...]]] | None, Mapping[str, str]]:
    client = admin(bootstrap)
    found = client.list_topics(timeout=20).topics.get(topic)
    if found is None or found.error is not None:
        return None, {}
    (described,) = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    entries = described.result(20).values()
    configs = {one.name: one.value for one in entries if one.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}
    now_ms = time.time() * 1000
    letters: dict[int, list[tuple[Any, ...]]] = {}
    for (_, partition), records in read_partitions(bootstrap, [(topic, each) for each in found.partitions]).items():
        ordered = records if in_order else sorted(records, key=lambda one: [value for _, value in one.headers])
        letters[partition] = [
            (at, one.timestamp[0], one.key, one.value, 0 <= now_ms - one.timestamp[1] < AGE_MS_MAX, one.headers)
            for at, one in enumerate(ordered)
        ]
    return letters, configs


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.dead_letters", body, doc=__doc__))
