"""A member of a share group by librdkafka: `python -m compat.apache_kafka.dead_letters.poison BOOTSTRAP GROUP TOPIC`.

It rejects records with the value `poison`, releases those with `slow`, accepts all others, and ends after the second delivery of a
slow one. `Poison.java` does the same with Apache Kafka's client.
"""

import sys
import time

from confluent_kafka import AcknowledgeType, ShareConsumer

PATIENCE_S = 60.0
KINDS = {b"poison": AcknowledgeType.REJECT, b"slow": AcknowledgeType.RELEASE}


def main(bootstrap: str, group: str, topic: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    deadline_s = time.monotonic() + PATIENCE_S
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        while time.monotonic() < deadline_s:
            messages = list(consumer.poll(0.5))
            for each in messages:
                consumer.acknowledge(each, KINDS.get(each.value(), AcknowledgeType.ACCEPT))
            for error in consumer.commit_sync(10).values() if messages else ():
                if error is not None:
                    raise error
            if any(each.value() == b"slow" and each.delivery_count() == 2 for each in messages):
                return
    raise TimeoutError(f"no second delivery within {PATIENCE_S:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
