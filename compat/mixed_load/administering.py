"""Admin tools: topics created and deleted, configs, offsets and groups deleted, log directories, and the control listener."""

import json
import time
import urllib.request
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.structs import OffsetAndMetadata

from .consuming import PROTOCOLS
from .load import Load, Scene
from .producing import idempotent
from .topics import BOTH, COMPACTED, KEPT, TOPICS, numbered

PASSING = "passing-topic-"


class Topics(Load):
    """A topic a turn: made, written to, altered, given another partition, emptied, deleted."""

    every_s = 3.0

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.connect()

    def connect(self) -> None:
        self.admin = KafkaAdminClient(bootstrap_servers=self.scene.bootstrap)
        self.producer: Producer | None = idempotent(self.scene)

    def turn(self) -> None:
        assert self.producer is not None
        name = f"{PASSING}{self.begun}"
        self.admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
        for number in range(20):
            self.producer.produce(name, numbered(number, 50), partition=number % 2)
        self.producer.flush(30)
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs={"cleanup.policy": "compact,delete"})
        self.admin.alter_configs([resource])
        self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        self.admin.create_partitions({name: 3})
        self.admin.delete_records({TopicPartition(name, 0): 5})
        self.admin.delete_topics([name])

    def again(self) -> None:
        """Clean up after a failed turn."""
        self.close()
        self.connect()
        if left := [name for name in self.admin.list_topics() if name.startswith(PASSING)]:
            self.admin.delete_topics(left)

    def close(self) -> None:
        self.producer = None
        self.admin.close()


class Looking(Load):
    """A short-lived admin client a turn: lists, describes, alters, deletes offsets and an empty group."""

    every_s = 4.0

    def turn(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.scene.bootstrap)
        try:
            admin.list_topics()
            admin.describe_log_dirs()
            admin.list_groups()
            admin.describe_groups([f"group-{protocol}" for protocol in PROTOCOLS])
            admin.list_transactions()
            ratio = ("0.2", "0.3")[self.turns % 2]
            resource = ConfigResource(ConfigResourceType.TOPIC, COMPACTED, configs={"min.cleanable.dirty.ratio": ratio})
            admin.alter_configs([resource])
            self.commit_and_delete(admin, f"by-hand-{self.begun}")
        finally:
            admin.close()

    def commit_and_delete(self, admin: Any, group: str) -> None:
        """Make a group with offsets and no member; every other one is left until its offsets expire."""
        place = TopicPartition(KEPT, 0)
        admin.alter_group_offsets(group, {place: OffsetAndMetadata(0, "", -1)})
        admin.delete_group_offsets(group, [place])
        admin.alter_group_offsets(group, {place: OffsetAndMetadata(1, "", -1)})
        if self.turns % 2:
            admin.delete_groups([group])


class Watching(Load):
    """The control listener: calls, metrics, and the status page with its changes for some seconds."""

    every_s, patience_s = 2.0, 20.0
    calls = (
        "/v1/broker",
        "/v1/groups",
        "/v1/connections",
        "/v1/transactions",
        "/metrics",
        f"/v1/topics/{BOTH}/explain",
    )
    pages = ("/", f"/topics/{COMPACTED}", "/groups")
    stream_turns, stream_lines = 5, 20

    def turn(self) -> None:
        calls = (*self.calls, f"/v1/topics/{list(TOPICS)[self.turns % len(TOPICS)]}/picture")
        self.get(calls[self.turns % len(calls)])
        self.get(self.pages[self.turns % len(self.pages)])
        if self.turns % self.stream_turns == 0:
            with self.open("/?events") as stream:
                for _ in range(self.stream_lines):
                    stream.readline()

    def get(self, path: str) -> bytes:
        with self.open(path) as answer:
            return bytes(answer.read())

    def open(self, path: str) -> Any:
        return urllib.request.urlopen(f"http://{self.scene.admin}{path}", timeout=self.patience_s)


class Supervisor(Load):
    """One life of the broker after another in the same process: stopped cleanly, and as by kill -9."""

    every_s = 180.0

    def turn(self) -> None:
        self.scene.restarting()
        how = ("restart", "crash")[self.turns % 2]
        request = urllib.request.Request(f"http://{self.scene.admin}/v1/{how}", method="POST")
        began_ns = time.monotonic_ns()
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                json.load(answer)
        finally:
            self.scene.away_ns.append((began_ns, time.monotonic_ns()))
