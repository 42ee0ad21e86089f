"""A member of a share group by librdkafka: `python -m compat.mixed_load.sharer BOOTSTRAP GROUP TOPIC`; it leaves when its input ends.

Prints a line for each thing that was done with a record: kind (`compat.support.deliveries`), nanoseconds, partition, offset, how often it
was delivered or why it was refused, and, of what was received, nanoseconds since when it may have been the member's. Those are out before
anything is acknowledged. `E` and some words: what went wrong.
"""

import sys
import threading
import time

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

from ..support.deliveries import ACCEPTED, FAILED, RECEIVED, RELEASED
from .producing import RECOVERY

RELEASED_EVERY = 97
POLL_S, COMMIT_S, WORK_S = 0.5, 20.0, 0.0005


def main(bootstrap: str, group: str, topic: str) -> None:
    end = threading.Event()
    threading.Thread(target=wait_for_the_end, args=(end,), daemon=True).start()
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit", **RECOVERY}
    )
    consumer.subscribe([topic])
    asked_ns = [time.monotonic_ns()] * 2
    while not end.is_set():
        asked_ns = [asked_ns[1], time.monotonic_ns()]
        try:
            polled = list(consumer.poll(POLL_S))
        except KafkaException as error:
            print("E", error, flush=True)
            time.sleep(POLL_S)
            continue
        messages = [each for each in polled if each.error() is None]
        for each in polled:
            if each.error() is not None:
                print("E", each.error(), flush=True)
        if messages:
            work(consumer, messages, asked_ns[0])
    consumer.close()


def wait_for_the_end(end: threading.Event) -> None:
    sys.stdin.read()
    end.set()


def work(consumer: ShareConsumer, messages: list[Message], asked_ns: int) -> None:
    now_ns = time.monotonic_ns()
    kinds = {}
    for each in messages:
        place, count = (each.partition(), each.offset()), each.delivery_count()
        print(RECEIVED, now_ns, *place, count, asked_ns)
        kinds[place] = RELEASED if count == 1 and each.offset() % RELEASED_EVERY == 0 else ACCEPTED
        consumer.acknowledge(each, AcknowledgeType.RELEASE if kinds[place] == RELEASED else AcknowledgeType.ACCEPT)
    sys.stdout.flush()
    time.sleep(WORK_S * len(messages))
    errors: dict[int, KafkaException | str | None] = {}
    try:
        errors |= {partition.partition: error for partition, error in consumer.commit_sync(COMMIT_S).items()}
    except KafkaException as error:
        errors |= dict.fromkeys((partition for partition, _ in kinds), error)
    now_ns = time.monotonic_ns()
    for place, kind in kinds.items():
        refused = errors.get(place[0], "NotTold")
        print(FAILED if refused else kind, now_ns, *place, name_of(refused))
    sys.stdout.flush()


def name_of(error: KafkaException | str | None) -> str:
    return str(error.args[0].name()) if isinstance(error, KafkaException) else error or "-"


if __name__ == "__main__":
    main(*sys.argv[1:])
