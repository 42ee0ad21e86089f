"""Brokers with contents for the page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer

import ottla

STRANGE = "z.b_c-D"
"""A topic whose name has all that a name may have."""


@contextmanager
def full() -> Iterator[ottla.Broker]:
    """Two nodes, topics of each policy with and without records, a group with a member, a fault, an ACL, a quota."""
    with ottla.Broker(
        admin="0",
        nodes=2,
        profile="dev",
        overrides={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
    ) as broker:
        broker.create_topic("orders", partitions=2, configs={"cleanup.policy": "compact"})
        broker.create_topic("visits", partitions=1, configs={"cleanup.policy": "delete"})
        broker.create_topic(STRANGE, partitions=1, configs={"cleanup.policy": "compact,delete"})
        for _ in range(4):
            fill(broker, "orders", records=500, keys=40)
            broker.roll("orders")
        fill(broker, "visits", records=100, keys=100)
        broker.compact("orders", [0], force=True)
        fill(broker, "orders", records=500, keys=20)
        with member(broker, "orders", "billing"):
            yield broker


def fill(broker: ottla.Broker, topic: str, *, records: int, keys: int) -> None:
    """Write records of `keys` keys in turn, to the partitions in turn."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.num.messages": 20})
    for number in range(records):
        producer.produce(topic, key=f"k{number % keys}", value=f"v{number}" * 5)
    producer.flush(30)


@contextmanager
def member(broker: ottla.Broker, topic: str, group: str) -> Iterator[Consumer]:
    """Yield a consumer that has committed what it has read."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 2}
    )
    consumer.subscribe([topic])
    deadline_s = time.monotonic() + 30
    read = 0
    while read < 10 and time.monotonic() < deadline_s:
        read += len(consumer.consume(100, timeout=0.5))
    consumer.commit(asynchronous=False)
    try:
        yield consumer
    finally:
        consumer.close()
