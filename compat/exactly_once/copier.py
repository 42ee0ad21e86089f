"""The copier: `python -m compat.exactly_once.copier BOOTSTRAP SOURCE TARGET NAME PROTOCOL BATCH`.

Consumes SOURCE as group NAME, sends each value, changed by `processed`, to the same partition of TARGET, and commits its
position in the same transaction, at most BATCH records in each. Every commit is a dot on standard output. The copier exits with
0 at the end of every partition, and with 1 when its client reports an error from which it cannot recover. The caller then
starts it again, as after a kill.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

PARTITIONS = 4
TIMEOUT_S = 60.0
# Its other strategy, the default, hangs in librdkafka 2.16: while the broker is away it gives up the handle of the only
# broker, which is the coordinator's too, and waits for it ever after.
RECOVERY = {"metadata.recovery.strategy": "none", "reconnect.backoff.max.ms": 200}


def processed(value: bytes) -> bytes:
    return b"copy of " + value


def main(bootstrap: str, source: str, target: str, name: str, protocol: str, batch: str) -> int:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "linger.ms": 2,
            "log_level": 2,
            **RECOVERY,
        }
    )
    try:
        init(producer)
        while not copy(producer, configuration(bootstrap, name, protocol), source, target, int(batch)):
            pass  # a transaction had to be aborted: on from the committed position
    except KafkaException as error:
        print(f"copier: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def init(producer: Producer) -> None:
    """InitProducerId, again while the broker is away or completes what a predecessor has left."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            producer.init_transactions(TIMEOUT_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline_s:
                raise


def copy(producer: Producer, consuming: dict[str, Any], source: str, target: str, batch: int) -> bool:
    """Copy until the end, or until a transaction had to be aborted: False then."""
    consumer = Consumer(consuming)
    consumer.subscribe([source])
    at_end: set[int] = set()
    try:
        while len(at_end) < PARTITIONS:
            messages = []
            for message in consumer.consume(batch, 0.1):
                if message.error() is None:
                    messages.append(message)
                    at_end.discard(message.partition())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
                elif message.error().fatal():
                    raise KafkaException(message.error())
            if messages and not transact(producer, consumer, target, messages):
                return False
        return True
    finally:
        consumer.close()


def configuration(bootstrap: str, name: str, protocol: str) -> dict[str, Any]:
    common = {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "log_level": 2,
        **RECOVERY,
    }
    # A static member of the classic protocol replaces the killed one at once. Its session must outlast a restart of the broker,
    # else librdkafka forgets its member id, sends a heartbeat without one, and is fenced for that. The new protocol's member
    # waits until the previous session has expired, which the broker keeps short.
    return common | ({"group.instance.id": "copier", "session.timeout.ms": 30_000} if protocol == "classic" else {})


def transact(producer: Producer, consumer: Consumer, target: str, messages: list[Message]) -> bool:
    """Copy the records in one transaction, with the position after them. False if it had to be aborted.

    Raises:
        KafkaException: This producer cannot be used any more.
    """
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(target, processed(message.value()), partition=message.partition())
        positions = [place for place in consumer.position(consumer.assignment()) if place.offset >= 0]
        again(lambda: producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S))
        again(lambda: producer.commit_transaction(TIMEOUT_S))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        again(lambda: producer.abort_transaction(TIMEOUT_S))
        return False
    print(".", end="", flush=True)
    return True


def again(step: Callable[[], object]) -> None:
    """Run a step of a transaction, and repeat it while the client allows that."""
    while True:
        try:
            step()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
