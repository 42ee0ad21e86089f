"""Members of a group, one class per client library: each polls in a thread of its own and notes its callbacks.

All behave alike: `owned` are the partitions of the one topic that the member believes to be its own, `events` every callback
in order, `errors` the names of errors that its client raised or reported, `seen` the records it read.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # without handlers they would go to standard error
logging.getLogger("kafka").setLevel(logging.CRITICAL)

SESSION_MS = 6_000
HEARTBEAT_MS = 500
TIMEOUT_S = 40.0


class Member:
    """Base of the three. Constructing it subscribes and starts polling; `stop` closes the client.

    Args:
        instance: `group.instance.id`, which makes it a static member.
        incremental: Cooperative instead of eager rebalancing, where the classic protocol leaves the choice.
    """

    client = ""
    protocols: tuple[str, ...] = ("classic",)
    cooperates = True
    """Whether it knows incremental rebalancing."""
    names_itself = True
    """Whether its heartbeats name its instance, so that it can be fenced."""
    has_races = False
    """Whether a bug of the client may fail a scenario, so that it is retried."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        incremental: bool = False,
    ) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.protocol, self.instance, self.incremental = protocol, instance, incremental
        self.owned: set[int] = set()
        self.events: list[tuple[str, frozenset[int]]] = []
        self.errors: list[str] = []
        self.seen: list[tuple[int, int]] = []
        """(partition, offset) of every record read."""
        self.halted = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - whatever the client raises is what the scenario asks for
            self.errors.append(name_of(error))

    def run(self) -> None:
        """Poll until `halted`, then close."""
        raise NotImplementedError

    def stop(self) -> None:
        """Close the client: a dynamic member leaves its group, a static one keeps its place."""
        self.halted.set()
        self.thread.join(TIMEOUT_S)

    def assigned(self, partitions: Iterable[Any]) -> None:
        self._told("assigned", partitions)

    def revoked(self, partitions: Iterable[Any]) -> None:
        self._told("revoked", partitions)

    def lost(self, partitions: Iterable[Any]) -> None:
        self._told("lost", partitions)

    def _told(self, event: str, partitions: Iterable[Any]) -> None:
        numbers = frozenset(partition.partition for partition in partitions)
        if numbers:
            self.events.append((event, numbers))
            self.owned = self.owned | numbers if event == "assigned" else self.owned - numbers

    def taken_away(self) -> set[int]:
        """Return every partition that was ever revoked from the member, or lost."""
        return {partition for event, partitions in self.events if event != "assigned" for partition in partitions}


class ConfluentMember(Member):
    client = "confluent-kafka"
    protocols = ("classic", "consumer")

    def run(self) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "group.protocol": self.protocol,
            "error_cb": lambda error: self.errors.append(error.name()),
        }
        if self.instance:
            config["group.instance.id"] = self.instance
        if self.protocol == "classic":
            strategy = "cooperative-sticky" if self.incremental else "range"
            config |= {
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "partition.assignment.strategy": strategy,
            }
        consumer = confluent_kafka.Consumer(config)
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: self.assigned(partitions),
            on_revoke=lambda _, partitions: self.revoked(partitions),
            on_lost=lambda _, partitions: self.lost(partitions),
        )
        while not self.halted.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.seen.append((message.partition(), message.offset()))
            elif message is not None:
                self.errors.append(message.error().name())
        consumer.close()


class KafkaPythonMember(Member):
    client = "kafka-python"
    has_races = True
    """A member of kafka-python.

    On a busy machine version 3.0.12 has bugs: a poll that ends within a rebalance can leave the rebalance unfinished, without a
    request, forever. With longer polls members rebalance once more than necessary (with any Ottla so far).
    """

    def run(self) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[CooperativeStickyAssignor if self.incremental else RangePartitionAssignor],
        )
        # On a busy machine a leader of kafka-python 3.0.12 is otherwise chosen before it knows any partition: it assigns none,
        # and leaves it at that.
        consumer.partitions_for_topic(self.topic)
        consumer.subscribe([self.topic], listener=_KafkaPythonListener(self))
        try:
            while not self.halted.is_set():
                for partition, records in consumer.poll(50).items():
                    self.seen += [(partition.partition, record.offset) for record in records]
        finally:
            consumer.close()


class _KafkaPythonListener(kafka.ConsumerRebalanceListener):
    def __init__(self, member: Member) -> None:
        self.member = member

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.member.assigned(assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.member.revoked(revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.member.lost(lost)


class AiokafkaMember(Member):
    client = "aiokafka"
    cooperates = names_itself = False

    def run(self) -> None:
        asyncio.run(self.consume())

    async def consume(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        consumer.subscribe([self.topic], listener=_AiokafkaListener(self))
        await consumer.start()
        try:
            while not self.halted.is_set():
                for partition, records in (await consumer.getmany(timeout_ms=50)).items():
                    self.seen += [(partition.partition, record.offset) for record in records]
        finally:
            await consumer.stop()


class _AiokafkaListener(aiokafka.ConsumerRebalanceListener):
    def __init__(self, member: Member) -> None:
        self.member = member

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.member.assigned(assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.member.revoked(revoked)


MEMBERS: tuple[type[Member], ...] = (ConfluentMember, KafkaPythonMember, AiokafkaMember)


def name_of(error: BaseException) -> str:
    """Return a client error's name in its own spelling: `PRODUCER_FENCED`, `ProducerFencedError`."""
    if isinstance(error, confluent_kafka.KafkaException):
        return str(error.args[0].name())
    return type(error).__name__


def eventually(holds: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> bool:
    """Wait until the condition holds; return whether it did in time."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True
