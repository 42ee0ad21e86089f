"""Members of groups of both protocols that join, leave, crash, and change their subscriptions; and short-lived groups."""

import subprocess
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from kafka import KafkaConsumer

from .load import Load, Scene
from .producing import RECOVERY
from .topics import COMPACTED, KEPT, PARTITIONS, Sequence, number_of

SESSION_MS, HEARTBEAT_MS = 6_000, 1_000
PROTOCOLS = ("classic", "consumer")
MEMBERS = 2
MEAN_TURNS, MEAN_CRASH_TURNS = 60, 8
REBALANCED = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError._ASSIGNMENT_LOST,
)
"""Errors that a commit may get while the group changes: another member then reads these records again."""
AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._MAX_POLL_EXCEEDED)


def configuration(bootstrap: str, group: str, protocol: str) -> dict[str, Any]:
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **RECOVERY,
    }
    classic = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    return config | (classic if protocol == "classic" else {})


class Group:
    """The records of KEPT that all members of a group have read: none is skipped, but some may be read again."""

    def __init__(self, protocol: str) -> None:
        self.name, self.protocol = f"group-{protocol}", protocol
        self.seen = [Sequence(again=True) for _ in range(PARTITIONS)]


class Member(Load):
    """One place of a group: a consumer lives for some turns, leaves, and is followed by another."""

    every_s = 0.5

    def __init__(self, scene: Scene, group: Group, number: int) -> None:
        super().__init__(scene, f"Member {number} of {group.name}")
        self.group = group
        self.left = 0
        self.consumer: Consumer | None = None

    def turn(self) -> None:
        if self.consumer is None:
            self.consumer = Consumer(configuration(self.scene.bootstrap, self.group.name, self.group.protocol))
            self.consumer.subscribe([KEPT])
            self.left = 5 + int(self.chance.expovariate(1 / MEAN_TURNS))
        self.left -= 1
        if self.left < 0:
            self.again()
            return
        if self.chance.random() < 0.02:
            self.consumer.subscribe(self.chance.choice(([KEPT], [KEPT, COMPACTED])))
        read = [each for each in self.consumer.consume(500, 0.05) if self.is_record(each)]
        for message in read:
            if message.topic() == KEPT:
                self.group.seen[message.partition()].see(number_of(message.value()))
        if read:
            self.commit()

    def is_record(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() not in AWAY + REBALANCED:
            raise KafkaException(error)
        return False

    def commit(self) -> None:
        assert self.consumer is not None
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in (*REBALANCED, KafkaError._NO_OFFSET):
                raise

    def again(self) -> None:
        if self.consumer is not None:
            consumer, self.consumer = self.consumer, None
            consumer.close()

    close = again


class Crashing(Load):
    """A member in a process of its own, which is killed: its sockets close, and it has not left the group."""

    every_s = 20.0

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.process: subprocess.Popen[bytes] | None = None

    def turn(self) -> None:
        self.close()
        protocol = PROTOCOLS[self.turns % len(PROTOCOLS)]
        command = [sys.executable, "-m", f"{__package__}.idler", self.scene.bootstrap, f"group-{protocol}", protocol]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class PassingGroups(Load):
    """A new group for each turn, by kafka-python: joins, reads, commits, leaves; its offsets expire afterwards."""

    every_s = 2.0

    def turn(self) -> None:
        consumer = KafkaConsumer(
            KEPT,
            bootstrap_servers=self.scene.bootstrap,
            group_id=f"passing-{self.begun}",
            auto_offset_reset="latest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
        )
        try:
            for _ in range(10):
                if consumer.poll(500, max_records=20):
                    consumer.commit()
                    break
        finally:
            consumer.close()


def groups(scene: Scene) -> tuple[list[Group], list[Load]]:
    found = [Group(protocol) for protocol in PROTOCOLS]
    members = [Member(scene, group, number) for group in found for number in range(MEMBERS)]
    return found, [*members, Crashing(scene), PassingGroups(scene)]
