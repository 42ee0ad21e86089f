"""Some consumers in one process: `python -m compat.group_chaos.worker NAME BOOTSTRAP TOPIC GROUP PROTOCOL CLIENT COUNT EVENTS`.

Each runs for a while, leaves, and is followed by another. Their callbacks are appended to the file EVENTS, one JSON line
an event. The process never ends by itself: it is killed.
"""

import itertools
import json
import random
import struct
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
from kafka.coordinator.assignors.range import RangePartitionAssignor

SESSION_MS = 6_000
HEARTBEAT_MS = 1_000
MEAN_LIFE_S = 30.0
METADATA = b"CGMDv2:"


class Life:
    """One consumer from its first poll until it has left."""

    def __init__(self, name: str, bootstrap: str, topic: str, group: str, protocol: str, events: Path) -> None:
        self.name, self.bootstrap, self.topic, self.group, self.protocol = name, bootstrap, topic, group, protocol
        self.events = events
        self.is_leaving = False

    def live(self, seconds: float) -> None:
        raise NotImplementedError

    def generation(self) -> int:
        raise NotImplementedError

    def assigned(self, partitions: Iterable[Any]) -> None:
        # While it closes, librdkafka reports an assignment that came just before, and never its revocation.
        if not self.is_leaving:
            self._told("assigned", partitions, self.generation())

    def revoked(self, partitions: Iterable[Any]) -> None:
        self._told("revoked", partitions)

    def lost(self, partitions: Iterable[Any]) -> None:
        self._told("lost", partitions)

    def _told(self, event: str, partitions: Iterable[Any], generation: int = -1) -> None:
        numbers = [partition.partition for partition in partitions]
        line = {"at": time.time(), "who": self.name, "event": event, "generation": generation, "partitions": numbers}
        with open(self.events, "a") as file:
            file.write(json.dumps(line) + "\n")


class ConfluentLife(Life):
    def live(self, seconds: float) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "enable.auto.commit": False,
            "log_level": 0,
        }
        if self.protocol == "classic":
            config |= {
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "partition.assignment.strategy": "range",
            }
        self.consumer = confluent_kafka.Consumer(config)
        self.consumer.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: self.assigned(partitions),
            on_revoke=lambda _, partitions: self.revoked(partitions),
            on_lost=lambda _, partitions: self.lost(partitions),
        )
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.consumer.poll(0.2)
        self.is_leaving = True
        self.consumer.close()

    def generation(self) -> int:
        # Opaque bytes by contract; librdkafka writes the generation, or member epoch, after its magic.
        metadata: bytes = self.consumer.consumer_group_metadata()
        assert metadata.startswith(METADATA)
        return int(struct.unpack_from("=i", metadata, len(METADATA))[0])


class KafkaPythonLife(Life):
    def live(self, seconds: float) -> None:
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        self.consumer.subscribe([self.topic], listener=_Listener(self))
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.consumer.poll(200)
        self.is_leaving = True
        self.consumer.close()

    def generation(self) -> int:
        return int(self.consumer.group_metadata().generation_id)


class _Listener(kafka.ConsumerRebalanceListener):
    def __init__(self, life: Life) -> None:
        self.life = life

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.life.assigned(assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.life.revoked(revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.life.lost(lost)


LIVES: dict[str, type[Life]] = {"confluent-kafka": ConfluentLife, "kafka-python": KafkaPythonLife}


def lives(name: str, client: str, arguments: tuple[str, str, str, str], events: Path) -> None:
    """Run one life after the other, for ever."""
    chance = random.Random(name)
    for number in itertools.count(1):
        LIVES[client](f"{name}-{number}", *arguments, events=events).live(chance.expovariate(1 / MEAN_LIFE_S))
        time.sleep(chance.uniform(0.1, 2))


def main(
    name: str, bootstrap: str, topic: str, group: str, protocol: str, client: str, count: str, events: str
) -> None:
    for number in range(int(count)):
        arguments = (f"{name}-{number}", client, (bootstrap, topic, group, protocol), Path(events))
        threading.Thread(target=lives, args=arguments).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
