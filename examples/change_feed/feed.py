"""Change feed of customers, as from a database's change capture: the key is a customer, the value JSON or null.

    python feed.py --bootstrap HOST:PORT --topic customers --changes 20000 [--from 0]

Every change is computed from its number, so that `customers_after` can compute the expected table.
"""

import argparse
import json
import random
from collections.abc import Iterator

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

CUSTOMERS = 2_000
CITIES = ("Bergen", "Oslo", "Tromsø", "Trondheim")
START_MS = 1_750_000_000_000
PARTITIONS = 3


def changes(start: int, end: int) -> Iterator[tuple[str, dict[str, object] | None]]:
    """Yield (customer, its row, or None if it is deleted) for the changes from `start`, inclusive, to `end`, exclusive."""
    for number in range(start, end):
        chance = random.Random(number)
        customer = f"customer-{chance.randrange(CUSTOMERS):04}"
        if chance.random() < 0.15:
            yield customer, None
        else:
            yield customer, {"city": chance.choice(CITIES), "orders": number, "changed_ms": START_MS + 1_000 * number}


def customers_after(end: int) -> dict[str, dict[str, object]]:
    """Return the rows of a table after the feed's first `end` changes."""
    newest = dict(changes(0, end))
    return {customer: row for customer, row in newest.items() if row is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="customers")
    parser.add_argument("--from", dest="start", type=int, default=0, help="number of the first change")
    parser.add_argument("--changes", type=int, default=20_000)
    asked = parser.parse_args()
    if asked.start == 0:
        # Compaction is left to nightly.py: no log is ever dirtier than 1. Only closed segments are compacted, so small ones.
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0", "segment.bytes": "1048576"}
        admin = AdminClient({"bootstrap.servers": asked.bootstrap})
        admin.create_topics([NewTopic(asked.topic, PARTITIONS, config=config)])[asked.topic].result(30)
    producer = Producer({"bootstrap.servers": asked.bootstrap, "enable.idempotence": True})
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error:
            failed.append(error)

    for customer, row in changes(asked.start, asked.start + asked.changes):
        value = None if row is None else json.dumps(row)
        producer.produce(asked.topic, value, customer, on_delivery=delivered)
        producer.poll(0)
    if producer.flush(60) or failed:
        raise SystemExit(f"not all changes were acknowledged: {failed[:1]}")
    print(f"changes {asked.start} to {asked.start + asked.changes - 1} are in {asked.topic}")


if __name__ == "__main__":
    main()
